"""Bodies in and out: which form, how large, what a head tells, what is found by its digest."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from flnet.errors import ParamsRefused, PeerError, UnknownModel, UnknownTrainer, UnreadableBody
from flnet.node.core import NodeCore
from flnet.node.formats import (
    SMALLEST,
    BodyFormats,
    BufferPool,
    Form,
    accepted,
    encoding_of,
    give_back_when_idle,
    settle,
)
from flnet.params.blob import Blob, Landing
from flnet.params.params import Digest, Params, ParamSpec, Schema, TrainerId
from flnet.params.quantization import Encoding
from flnet.protocol.events import Prepared
from flnet.protocol.messages import (
    ANNOUNCE_BYTES,
    EARLIER_FORMS,
    INT8_BLOCKS,
    SAFETENSORS,
    Announce,
    ModelParams,
    Packet,
    Trigger,
)
from flnet.store.memory import MemoryStore
from flnet.wire.binary_codec import BINARY_TYPE, HEAD_LIMIT, ZSTD, BinaryCodec, decompress
from flnet.wire.transport import CONTROL_BYTES
from tests.helpers import HYPER, params, peer
from tests.rounds.helpers import declaration

T = TrainerId("T")
JSON = "application/json"
ALL = frozenset({*EARLIER_FORMS, INT8_BLOCKS})
MODEL = params(w=[[127.0, 2.0]] * 700)  # int8 holds it with one scale and with one for each block,
IN_BLOCKS = params(w=[[127.0, 2.0]] * 128 + [[63.5, 1.5]] * 572)  # this only with the latter,
WITH_ONE = params(w=[[127.0, 2.0]] * 128 + [[126.0, 1.0]] * 572)  # and this only with one scale


def wire(
    form: Form = "safetensors", model: Params | None = MODEL, store: MemoryStore | None = None
) -> BodyFormats:
    core = NodeCore(peer("b"), [T])
    if model is not None:
        core.hear(T, Prepared(declaration(), model))
    return BodyFormats(core, store or MemoryStore(), form, 10**6)


def update(arrays: Params | None = MODEL, trainer: str = "T", **more: Any) -> Packet:
    said = {"i_am": peer("a"), "trainer_id": trainer, "round": 0, "federated_learning_params": HYPER, **more}
    return Packet(ModelParams(**said), arrays)


def body(packet: Packet) -> bytes:
    return bytes(BinaryCodec().encode(packet))


async def written(form: Form, packet: Packet, accepts: frozenset[str] = ALL) -> tuple[bytes, str]:
    sent, content_type = await wire(form).write(packet, accepts)
    return bytes(sent), content_type


async def test_parameters_go_as_they_are_without_a_copy() -> None:
    sent, content_type = await wire().write(update(), ALL)
    assert (isinstance(sent, Blob), content_type) == (True, BINARY_TYPE)
    assert BinaryCodec().decode(ModelParams, bytes(sent)) == update()


@pytest.mark.parametrize("accepts", [frozenset[str](), frozenset({"something newer"})])
async def test_who_does_not_read_it_gets_json(accepts: frozenset[str]) -> None:
    sent, content_type = await written("safetensors", update(), accepts)
    assert (content_type, json.loads(sent)["modelParams"]["w"][0]) == (JSON, [127.0, 2.0])


async def test_a_message_without_parameters_is_json_for_everybody() -> None:
    sent, content_type = await written("int8", update(None, declined="no time"))
    assert (content_type, json.loads(sent)["declined"]) == (JSON, "no time")


async def test_a_node_of_json_sends_nothing_else_and_says_so() -> None:
    assert (await written("json", update()))[1] == JSON
    assert accepted("json") == ()
    assert set(accepted("safetensors")) == set(accepted("int8")) == ALL


@pytest.mark.parametrize(("form", "bytes_each"), [("safetensors", 4), ("float16", 2), ("int8", 1)])
async def test_rounded_updates_take_fewer_bytes_and_lose_nothing_more(form: Form, bytes_each: int) -> None:
    sent, content_type = await written(form, update())
    arrays = len(sent) - len(body(update(Params())))
    assert bytes_each * 1400 <= arrays < bytes_each * 1400 + 200
    got = await wire().read(ModelParams, sent, content_type)
    assert got.params == MODEL


@pytest.mark.parametrize(
    ("model", "accepts", "is_packed"),
    [
        (MODEL, frozenset({SAFETENSORS}), False),
        (MODEL, frozenset(EARLIER_FORMS), True),
        (IN_BLOCKS, frozenset(EARLIER_FORMS), False),
        (IN_BLOCKS, ALL, True),
        (WITH_ONE, frozenset(EARLIER_FORMS), True),
        (WITH_ONE, ALL, True),
    ],
)
async def test_a_peer_that_does_not_read_the_packed_form_gets_the_same_numbers_in_full(
    model: Params, accepts: frozenset[str], is_packed: bool
) -> None:
    sent, _ = await written("int8", update(model), accepts)
    assert (len(sent) < 2 * 1400, len(sent) > 4 * 1400) == (is_packed, not is_packed)
    assert (await wire(model=model).read(ModelParams, sent, BINARY_TYPE)).params == model


@pytest.mark.parametrize(
    ("peers", "encoding"),
    [
        ([], "int8-blocks"),
        ([ALL, ALL], "int8-blocks"),
        ([ALL, frozenset[str]()], "int8-blocks"),  # which reads JSON only
        ([ALL, frozenset({SAFETENSORS})], "int8-blocks"),
        ([ALL, frozenset(EARLIER_FORMS)], "int8"),
        ([frozenset(EARLIER_FORMS), ALL], "int8"),
    ],
)
def test_updates_are_rounded_as_all_peers_read_them_that_read_int8(
    peers: list[frozenset[str]], encoding: Encoding
) -> None:
    assert encoding_of("int8", peers) == encoding
    assert [encoding_of(form, peers) for form in ("safetensors", "float16", "json")] == [
        "float32",
        "float16",
        "float32",
    ]


# --- reading


async def test_large_parameters_are_checked_while_they_are_read() -> None:
    model = params(w=[0.5] * 40_000)
    there = wire(model=model)
    got = await there.read(ModelParams, body(update(model)), BINARY_TYPE)
    assert got.params == model
    wrong = params(w=[0.5] * 40_001)  # the job refuses them, after all that it looks at first
    assert (await there.read(ModelParams, body(update(wrong)), BINARY_TYPE)).params == wrong


# --- heads


def looked_at(there: BodyFormats, whole: bytes, upto: int | None = None) -> bool:
    return there.inspect(ModelParams.path, BINARY_TYPE, memoryview(whole)[:upto], len(whole))


def test_a_head_is_asked_for_until_it_is_whole() -> None:
    whole = body(update())
    assert not looked_at(wire(), whole, 7)
    assert not looked_at(wire(), whole, 100)
    assert looked_at(wire(), whole, len(whole) - MODEL.nbytes)


@pytest.mark.parametrize(
    ("packet", "error"),
    [
        (update(params(w=[1.0])), ParamsRefused),
        (update(params(v=[[127.0, 2.0]] * 700)), ParamsRefused),
        (update(trainer="NO"), UnknownTrainer),
    ],
)
def test_what_is_not_wanted_is_refused_by_its_head(packet: Packet, error: type[PeerError]) -> None:
    with pytest.raises(error):
        looked_at(wire(), body(packet))


def test_a_head_of_other_shapes_is_refused_with_the_option_that_differs_if_the_sender_states_one() -> None:
    core = NodeCore(peer("b"), [T])
    core.hear(T, Prepared(declaration(agreement={"model": "mlp 24, 12"}), MODEL))
    there, other = BodyFormats(core, MemoryStore(), "safetensors", 10**6), params(w=[1.0])
    with pytest.raises(ParamsRefused, match="do not agree on model: mlp 24, 12 at b; mlp 24, 8 at a"):
        looked_at(there, body(update(other, agreement={"model": "mlp 24, 8"})))
    for agreement in ({"model": "mlp 24, 12"}, None):
        with pytest.raises(ParamsRefused, match="'w' has shape"):
            looked_at(there, body(update(other, agreement=agreement)))


def test_a_body_without_a_message_is_refused_by_its_head() -> None:
    with pytest.raises(UnreadableBody, match="no message"):
        looked_at(wire(), bytes(BinaryCodec().encode_params(MODEL)))


def test_while_a_trainer_loads_nobody_can_say_what_fits() -> None:
    assert looked_at(wire(model=None), body(update(params(w=[1.0]))))
    assert wire(model=None).body_limit(ModelParams.path) == 10**6


def test_limits_follow_the_model_where_parameters_may_come_and_are_small_elsewhere() -> None:
    there = wire()
    assert there.body_limit(ModelParams.path) == CONTROL_BYTES + 1400 * 32 + 256
    assert there.body_limit(Announce.path) == ANNOUNCE_BYTES
    assert there.body_limit(Trigger.path) == there.body_limit("/elsewhere") == CONTROL_BYTES
    assert there.landing_limit(T) == there.body_limit(ModelParams.path)


# --- by digest


@pytest.mark.parametrize("form", ["safetensors", "float16", "int8"])
async def test_what_is_held_is_found_by_its_digest_and_read_back(form: Form) -> None:
    blob = await wire(form).held(MODEL.digest, (), ALL)
    assert bytes(await wire(form).held(MODEL.digest, (), ALL)) == bytes(blob)
    whole = memoryview(bytes(blob))
    there = wire()
    assert there.wanted(T, whole, len(whole))
    assert there.fetched(T, whole, MODEL.digest) == MODEL


async def test_a_packed_body_is_made_once_for_all_who_fetch_it() -> None:
    there = wire("int8")
    assert await there.held(MODEL.digest, (), ALL) is await there.held(MODEL.digest, (), ALL)


async def test_who_does_not_read_blocks_fetches_the_same_numbers_in_full() -> None:
    there = wire("int8", IN_BLOCKS)
    packed = await there.held(IN_BLOCKS.digest, [ZSTD], ALL)
    for accepts in (EARLIER_FORMS, (SAFETENSORS,)):
        whole = bytes(await there.held(IN_BLOCKS.digest, [ZSTD], accepts))
        assert whole == bytes(await there.held(IN_BLOCKS.digest)) == bytes(BinaryCodec().encode_params(IN_BLOCKS))
    assert await there.held(IN_BLOCKS.digest, [ZSTD], ALL) is packed
    assert packed.coding == ZSTD
    for form in ("float16", "int8"):  # earlier versions read these
        assert len(await wire(form).held(MODEL.digest)) < MODEL.nbytes


async def coding_of(form: Form, model: Params = MODEL, *codings: str) -> str | None:
    return (await wire(form, model).held(model.digest, codings, ALL)).coding


async def test_only_int8_is_compressed_and_only_for_who_reads_it() -> None:
    assert await coding_of("int8", MODEL, "gzip", ZSTD) == ZSTD
    assert await coding_of("int8", MODEL, "gzip") is None
    assert await coding_of("float16", MODEL, ZSTD) is None
    assert await coding_of("float16", params("float64", w=[[127.0, 2.0]] * 700), ZSTD) is None
    assert await coding_of("safetensors", MODEL, ZSTD) is None
    average = params(w=[[0.1, 0.77]] * 700)  # no multiples of the scales: such arrays are not packed
    assert await coding_of("int8", average, ZSTD) is None


async def test_without_the_package_nothing_is_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    assert await coding_of("int8", MODEL, ZSTD) is None


async def test_a_compressed_body_is_made_once_and_is_the_packed_one() -> None:
    there = wire("int8")
    small = await there.held(MODEL.digest, [ZSTD], ALL)
    assert await there.held(MODEL.digest, [ZSTD], ALL) is small
    full = await there.held(MODEL.digest, (), ALL)
    into = Landing(partial(there.wanted, T), there.landing_limit(T), HEAD_LIMIT)
    decompress(memoryview(bytes(small)), into)
    assert len(small) < len(full)
    assert into.whole() == bytes(full)


async def test_older_averages_come_from_the_store() -> None:
    store, older = MemoryStore(), params(w=[[3.0, 4.0]] * 700)
    await store.keep_model(T, {}, older, Params())
    assert bytes(await wire(store=store).held(older.digest)) == bytes(BinaryCodec().encode_params(older))


@pytest.mark.parametrize("form", ["safetensors", "int8"])
async def test_several_that_are_held_come_side_by_side(form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    there, other = wire(form), params(w=[1.0, 2.0], v=[[3.0]])
    monkeypatch.setattr(there._core.jobs[T], "find", {MODEL.digest: MODEL, other.digest: other}.get)
    asked = {other.digest: Schema.of(other), MODEL.digest: Schema.of(MODEL)}
    blob = await there.held(",".join(asked), (), ALL)
    assert await there.held(",".join(asked), (), ALL) is blob or form == "safetensors"
    body = memoryview(bytes(blob))
    assert wire().fetched_segments(body, asked) == {other.digest: other, MODEL.digest: MODEL}
    with pytest.raises(ParamsRefused, match="other parameters"):
        wire().fetched_segments(body, {Digest("e" * 64): Schema.of(other), MODEL.digest: Schema.of(MODEL)})
    with pytest.raises(ParamsRefused):
        wire().fetched_segments(body, dict(zip(asked, reversed(asked.values()), strict=True)))
    with pytest.raises(UnknownModel, match="all 2 segments"):
        await there.held(f"{MODEL.digest},{'f' * 64}")


async def test_several_are_not_read_from_the_store_at_once() -> None:
    store, older = MemoryStore(), params(w=[[3.0, 4.0]] * 700)
    await store.keep_model(T, {}, older, Params())
    with pytest.raises(UnknownModel):
        await wire(store=store).held(f"{MODEL.digest},{older.digest}")


async def test_what_is_not_held_is_said_to_be_unknown() -> None:
    with pytest.raises(UnknownModel, match="does not hold"):
        await wire().held("f" * 64)


def fetched(sent: Params, digest: Digest | None) -> Params:
    return wire().fetched(T, memoryview(bytes(BinaryCodec().encode_params(sent))), digest)


def test_other_parameters_than_asked_for_are_refused() -> None:
    other = params(w=[[5.0, 6.0]] * 700)
    with pytest.raises(ParamsRefused, match="other parameters"):
        fetched(other, MODEL.digest)
    assert fetched(other, None) == other  # where the peer's word is all that there is


@pytest.mark.parametrize("w", [[1.0], [[float("nan"), 0.0]] * 700])
def test_fetched_parameters_must_fit(w: Sequence[Any]) -> None:
    with pytest.raises(ParamsRefused):
        fetched(params(w=w), params(w=w).digest)
    head = bytes(BinaryCodec().encode_params(params(w=[1.0])))
    with pytest.raises(ParamsRefused):
        wire().wanted(T, memoryview(head), len(head))


# --- the memory of an aggregation rule

MOMENTS = Schema({"moments": ParamSpec((2800,), "float32"), "rule": ParamSpec((3,), "uint8", "max")})
REMEMBERED = Params({"moments": np.linspace(-1, 1, 2800, dtype=np.float32), "rule": np.array([1, 2, 3], np.uint8)})


def lands(body: Blob) -> memoryview:
    """All of a body, where what it says of itself is wanted as such a memory."""
    there = wire()
    whole = memoryview(bytes(body))
    landing = Landing(partial(there.wanted, T, form=MOMENTS), there.landing_limit(T, MOMENTS), HEAD_LIMIT)
    landing.expect(len(whole))
    landing.write(whole)
    return landing.whole()


@pytest.mark.parametrize("form", ["safetensors", "float16", "int8"])
async def test_a_memory_that_updates_state_is_served_and_fetched_as_it_is(form: Form) -> None:
    core = NodeCore(peer("b"), [T])
    core.hear(T, Prepared(declaration(), MODEL))
    core.jobs[T].held.stated_memory = REMEMBERED
    body = await BodyFormats(core, MemoryStore(), form, 10**6).held(REMEMBERED.digest, accepts=ALL)
    assert wire().fetched(T, lands(body), REMEMBERED.digest, MOMENTS) == REMEMBERED


def test_the_limit_is_what_such_a_memory_takes() -> None:
    assert wire().landing_limit(T, MOMENTS) == CONTROL_BYTES + 2800 * 4 + 3 + 2 * 256


@pytest.mark.parametrize(
    "other",
    [
        MODEL,
        REMEMBERED.merged_with({"more": np.zeros(1)}),
        REMEMBERED.merged_with({"moments": np.zeros(2801, np.float32)}),
        REMEMBERED.merged_with({"moments": np.zeros(10**6, np.float32)}),
        REMEMBERED.select(["moments"]),
    ],
    ids=["a model", "more", "longer", "far too long", "less"],
)
def test_what_is_no_such_memory_is_refused_by_its_head(other: Params) -> None:
    with pytest.raises(PeerError):
        lands(BinaryCodec().encode_params(other))


def test_a_memory_that_fits_must_be_the_one_that_was_asked_for() -> None:
    other = REMEMBERED.merged_with({"moments": np.zeros(2800, np.float32)})
    with pytest.raises(ParamsRefused, match="other parameters"):
        wire().fetched(T, lands(BinaryCodec().encode_params(other)), REMEMBERED.digest, MOMENTS)


SIZE = 4 * SMALLEST


def test_what_nobody_refers_to_any_more_is_handed_out_again() -> None:
    buffers = BufferPool()
    first = buffers.take(SIZE)
    place = first.ctypes.data
    del first
    assert buffers.take(SIZE).ctypes.data == place
    assert buffers.take(SIZE // 2).ctypes.data == place
    assert buffers.nbytes == SIZE


def test_what_is_seen_through_any_kind_of_view_is_not_handed_out() -> None:
    buffers = BufferPool()
    views: list[object] = []
    places = set()
    for see in (
        lambda a: a,
        lambda a: a.view(np.float64)[5:],
        lambda a: a.data,
        lambda a: np.frombuffer(a.data[8:]),
    ):
        array = buffers.take(SIZE)
        places.add(array.ctypes.data)
        views.append(see(array))
        del array
    assert len(places) == 4
    views.clear()
    assert buffers.take(SIZE).ctypes.data in places
    assert buffers.nbytes == 4 * SIZE


def test_neither_too_small_nor_much_too_large_memory_is_handed_out() -> None:
    buffers = BufferPool()
    buffers.take(SIZE)
    assert len(buffers.take(2 * SIZE + 1)) == 2 * SIZE + 1
    assert len(buffers.take(SMALLEST)) == SMALLEST
    kept = buffers.nbytes
    assert kept >= 3 * SIZE + 1 + SMALLEST
    assert len(buffers.take(10)) == 10  # not worth keeping
    assert buffers.nbytes == kept


def test_bodies_that_differ_by_a_few_bytes_share_memory() -> None:
    buffers = BufferPool()
    places = {buffers.take(SIZE - few).ctypes.data for few in (900, 0, 30)}
    assert len(places) == 1


def test_bodies_that_grow_a_little_each_time_do_not_pile_up() -> None:
    buffers = BufferPool()
    for step in range(40):
        assert len(buffers.take(SIZE + step * SIZE // 40)) == SIZE + step * SIZE // 40
    assert buffers.nbytes <= 2 * SIZE
    used = buffers.take(SIZE)
    buffers.take(2 * SIZE)[:] = 1
    assert used.nbytes == SIZE


def test_what_is_let_go_stays_with_who_uses_it() -> None:
    buffers = BufferPool()
    used = buffers.take(SIZE)
    used[:] = 7
    buffers.let_go()
    assert buffers.nbytes == 0
    buffers.take(SIZE)[:] = 1
    assert (used == 7).all()


async def test_it_is_given_back_when_nothing_was_to_do_at_two_looks() -> None:
    buffers = BufferPool()
    buffers.take(SIZE)
    looks = iter([True, False, True, False, False])
    kept: list[int] = []

    def is_busy() -> bool:
        kept.append(buffers.nbytes)
        return next(looks)

    tidying = asyncio.create_task(give_back_when_idle(buffers, is_busy, 0.0))
    while len(kept) < 5:
        await asyncio.sleep(0)
    while buffers.nbytes:
        await asyncio.sleep(0)
    tidying.cancel()
    assert kept == [SIZE] * 5


class Circle:
    """What only the garbage collector takes."""

    def __init__(self) -> None:
        self.itself = self


def forget_settling() -> None:
    """Only what there was before the first test is passed over again (tests/conftest.py), and not what `settle` found."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def test_circles_that_nothing_uses_go_with_what_is_spare() -> None:
    try:
        settle()
        gc.disable()
        old = weakref.ref(Circle())
        assert old() is not None
        BufferPool().let_go()
        assert old() is None
    finally:
        gc.enable()
        forget_settling()


def test_what_was_there_at_the_start_delays_no_collection() -> None:
    """Circles that outlive the collections of young objects go soon, however much there was at the start."""

    stays = [[] for _ in range(400_000)]  # type: ignore[var-annotated]
    try:
        settle()
        assert gc.get_freeze_count() > len(stays)
        old = weakref.ref(circle := Circle())
        gc.collect(1)  # so old that only a full collection takes it
        del circle
        full = gc.get_stats()[2]["collections"]
        more = [[] for _ in range(120_000)]  # type: ignore[var-annotated]  # a quarter of them or more
        assert gc.get_stats()[2]["collections"] > full
        assert old() is None
        assert len(more) < len(stays)
    finally:
        forget_settling()
