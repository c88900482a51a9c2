"""Bodies in and out: which form, how large, what a head tells, what is found by its digest."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from flnet.blob import Blob, Landing
from flnet.codec import BINARY_TYPE, HEAD_LIMIT, ZSTD, BinaryCodec, decompress
from flnet.errors import ParamsRefused, PeerError, UnknownModel, UnknownTrainer, UnreadableBody
from flnet.events import Prepared
from flnet.messages import FLOAT16, INT8, SAFETENSORS, Announce, ModelParams, Packet
from flnet.node.core import NodeCore
from flnet.node.wire import CONTROL_BYTES, Form, Wire, accepted
from flnet.params import Digest, Params, TrainerId
from flnet.store import MemoryStore
from tests.helpers import HYPER, params, peer
from tests.jobs.helpers import declaration

T = TrainerId("T")
JSON = "application/json"
ALL = frozenset({SAFETENSORS, FLOAT16, INT8})
MODEL = params(w=[[127.0, 2.0]] * 700)


def wire(form: Form = "safetensors", model: Params | None = MODEL, store: MemoryStore | None = None) -> Wire:
    core = NodeCore(peer("b"), [T])
    if model is not None:
        core.hear(T, Prepared(declaration(), model))
    return Wire(core, store or MemoryStore(), form, 10**6)


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


async def test_a_peer_that_does_not_read_the_packed_form_gets_the_same_numbers_in_full() -> None:
    sent, _ = await written("int8", update(), frozenset({SAFETENSORS}))
    assert len(sent) > 4 * 1400
    assert (await wire().read(ModelParams, sent, BINARY_TYPE)).params == MODEL


# --- reading


async def test_large_parameters_are_checked_while_they_are_read() -> None:
    model = params(w=[0.5] * 40_000)
    there = wire(model=model)
    got = await there.read(ModelParams, body(update(model)), BINARY_TYPE)
    assert got.params == model
    wrong = params(w=[0.5] * 40_001)  # the job refuses them, after all that it looks at first
    assert (await there.read(ModelParams, body(update(wrong)), BINARY_TYPE)).params == wrong


# --- heads


def looked_at(there: Wire, whole: bytes, upto: int | None = None) -> bool:
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


def test_a_body_without_a_message_is_refused_by_its_head() -> None:
    with pytest.raises(UnreadableBody, match="no message"):
        looked_at(wire(), bytes(BinaryCodec().encode_params(MODEL)))


def test_while_a_trainer_loads_nobody_can_say_what_fits() -> None:
    assert looked_at(wire(model=None), body(update(params(w=[1.0]))))
    assert wire(model=None).body_limit(ModelParams.path) == 10**6


def test_limits_follow_the_model_where_parameters_may_come_and_are_small_elsewhere() -> None:
    there = wire()
    assert there.body_limit(ModelParams.path) == CONTROL_BYTES + 1400 * 32 + 256
    assert there.body_limit(Announce.path) == there.body_limit("/elsewhere") == CONTROL_BYTES
    assert there.landing_limit(T) == there.body_limit(ModelParams.path)


# --- by digest


@pytest.mark.parametrize("form", ["safetensors", "float16", "int8"])
async def test_what_is_held_is_found_by_its_digest_and_read_back(form: Form) -> None:
    blob = await wire(form).held(MODEL.digest)
    assert bytes(await wire(form).held(MODEL.digest)) == bytes(blob)
    whole = memoryview(bytes(blob))
    there = wire()
    assert there.wanted(T, whole, len(whole))
    assert there.fetched(T, whole, MODEL.digest) == MODEL


async def test_a_packed_body_is_made_once_for_all_who_fetch_it() -> None:
    there = wire("int8")
    assert await there.held(MODEL.digest) is await there.held(MODEL.digest)


async def coding_of(form: Form, model: Params = MODEL, *codings: str) -> str | None:
    return (await wire(form, model).held(model.digest, codings)).coding


async def test_only_int8_is_compressed_and_only_for_who_reads_it() -> None:
    assert await coding_of("int8", MODEL, "gzip", ZSTD) == ZSTD
    assert await coding_of("int8", MODEL, "gzip") is None
    assert await coding_of("float16", MODEL, ZSTD) is None
    assert await coding_of("float16", params("float64", w=[[127.0, 2.0]] * 700), ZSTD) is None
    assert await coding_of("safetensors", MODEL, ZSTD) is None
    average = params(w=[[0.1, 0.77]] * 700)  # no multiples of one scale: such arrays are not packed
    assert await coding_of("int8", average, ZSTD) is None


async def test_without_the_package_nothing_is_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    assert await coding_of("int8", MODEL, ZSTD) is None


async def test_a_compressed_body_is_made_once_and_is_the_packed_one() -> None:
    there = wire("int8")
    small = await there.held(MODEL.digest, [ZSTD])
    assert await there.held(MODEL.digest, [ZSTD]) is small
    full = await there.held(MODEL.digest)
    into = Landing(partial(there.wanted, T), there.landing_limit(T), HEAD_LIMIT)
    decompress(memoryview(bytes(small)), into)
    assert len(small) < len(full)
    assert into.whole() == bytes(full)


async def test_older_averages_come_from_the_store() -> None:
    store, older = MemoryStore(), params(w=[[3.0, 4.0]] * 700)
    await store.keep_model(T, {}, older, Params())
    assert bytes(await wire(store=store).held(older.digest)) == bytes(BinaryCodec().encode_params(older))


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
