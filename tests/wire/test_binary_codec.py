"""Parameters as safetensors files: standard, always alike, without copies, and bit by bit what was sent."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from flnet.errors import BodyTooLarge, InvalidMessage, LocalError, ParamsRefused, PeerError, UnreadableBody
from flnet.params.blob import PIECE, Blob, Landing
from flnet.params.params import Params, Schema
from flnet.params.quantization import Encoding, lowered, rounded
from flnet.params.safetensors import MAX_HEADER
from flnet.protocol.messages import (
    Accuracy,
    AccuracyReply,
    Announce,
    Message,
    ModelParams,
    Packet,
    StartTraining,
)
from flnet.wire.binary_codec import (
    HEAD_LIMIT,
    WINDOW,
    ZSTD,
    BinaryCodec,
    available_codings,
    compressed,
    decompress,
    read_head,
)
from tests.helpers import HYPER, params, peer
from tests.wire.bodies import PRINTED

CODEC = BinaryCodec()
CODECS: dict[Encoding, BinaryCodec] = {
    name: BinaryCodec(name) for name in ("float32", "float16", "int8", "int8-blocks")
}
UPDATE = ModelParams(i_am=peer(), trainer_id="MNIST", round=3, federated_learning_params=HYPER, examples=7)
SMALL = params(s=[[1.5, -2.0, 0.1]], i=np.array([1, -2], np.int64), flag=np.array(True))


def large(size: int = 5000, dtype: str = "float32") -> Params:
    rng = np.random.default_rng(1)
    return Params(
        {"b": rng.standard_normal(10).astype(dtype), "w": rng.standard_normal((size // 10, 10)).astype(dtype)}
    )


def header_of(body: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(body[8 : 8 + int.from_bytes(body[:8], "little")])
    return found


# --- there and back


@pytest.mark.parametrize("encoding", CODECS)
@pytest.mark.parametrize(("kind", "text"), PRINTED, ids=lambda value: getattr(value, "__name__", ""))
def test_every_message_comes_back(encoding: Encoding, kind: type[Message], text: str) -> None:
    message = kind.read(json.loads(text))
    sent = Packet(message, large() if kind.carries_params else None)
    codec = CODECS[encoding]
    assert codec.decode(kind, bytes(codec.encode(sent))) == sent


def test_a_message_without_arrays_comes_back_without_parameters() -> None:
    for arrays in (None, Params()):
        assert CODEC.decode(ModelParams, bytes(CODEC.encode(Packet(UPDATE, arrays)))) == Packet(UPDATE, None)


def test_bare_parameters_come_back() -> None:
    assert CODEC.decode_params(bytes(CODEC.encode_params(SMALL))) == SMALL
    assert CODEC.decode_params(bytes(CODEC.encode_params(Params()))) == Params()


dtypes = st.sampled_from(["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?", ">f4", ">i8"])
every_array = dtypes.flatmap(lambda d: npst.arrays(d, npst.array_shapes(min_dims=0, min_side=0, max_side=40)))
names = st.text(st.characters(exclude_categories=["C", "Z"]), max_size=12).filter("__metadata__".__ne__)


@pytest.mark.parametrize("encoding", CODECS)
@given(arrays=st.dictionaries(names, every_array, max_size=4))
@settings(deadline=None)
def test_every_array_comes_back_bit_by_bit(encoding: Encoding, arrays: dict[str, Any]) -> None:
    sent = Params(arrays)
    assert CODECS[encoding].decode_params(bytes(CODECS[encoding].encode_params(sent))) == sent


@pytest.mark.parametrize(("encoding", "item"), [("float16", 2), ("int8", 1), ("int8-blocks", 1)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rounded_parameters_take_a_half_or_a_quarter(encoding: Encoding, item: int, dtype: str) -> None:
    whole = large(100_000, dtype)
    low, _ = lowered(whole, None, encoding)
    blob = CODECS[encoding].encode_params(low)
    body = bytes(blob)
    data = blob.nbytes - 8 - int.from_bytes(body[:8], "little")
    scales = 4 * -(-100_000 // 256) if encoding == "int8-blocks" else 0
    assert data == 100_000 * item + scales + whole["b"].nbytes
    assert CODECS[encoding].encode_params(whole).nbytes > whole.nbytes
    received = BinaryCodec().decode_params(body)
    assert received["w"].dtype == dtype
    assert received == low


# --- the file


@pytest.mark.parametrize("encoding", CODECS)
def test_the_reference_library_reads_every_body(encoding: Encoding) -> None:
    low, _ = lowered(large().merged_with(SMALL), None, encoding)
    loaded = safetensors.numpy.load(bytes(CODECS[encoding].encode(Packet(UPDATE, low))))
    assert loaded.keys() == low.keys()
    assert loaded["w"].dtype.name == encoding.partition("-")[0]
    assert loaded["w"].shape == ((5000 + 4 * 20,) if encoding == "int8-blocks" else (500, 10))
    assert Params(loaded).select(SMALL) == SMALL


def test_the_reference_library_sees_what_is_stored() -> None:
    low, _ = lowered(large(), None, "int8")
    body = bytes(CODECS["int8"].encode_params(low))
    scale, dtype = json.loads(header_of(body)["__metadata__"]["scales"])["w"]
    loaded = safetensors.numpy.load(body)
    assert loaded["w"].dtype == np.int8
    assert dtype == "float32"
    assert np.array_equal(loaded["w"] * np.float32(scale), low["w"])
    assert np.array_equal(loaded["b"], low["b"])


def test_the_reference_library_sees_numbers_and_the_scales_of_their_blocks() -> None:
    low, _ = lowered(large(), None, "int8-blocks")
    body = bytes(CODECS["int8-blocks"].encode_params(low))
    dtype, shape = json.loads(header_of(body)["__metadata__"]["blocks"])["w"]
    loaded = safetensors.numpy.load(body)
    assert (loaded["w"].dtype.name, dtype, shape) == ("int8", "float32", [500, 10])
    scales = loaded["w"][5000:].view("<f4")
    assert np.array_equal(loaded["w"][:5000] * scales.repeat(256)[:5000], low["w"].reshape(-1))
    assert np.array_equal(loaded["b"], low["b"])


def test_what_was_rounded_with_one_scale_is_packed_so_for_who_reads_blocks_too() -> None:
    low, _ = lowered(large(), None, "int8")
    assert bytes(CODECS["int8-blocks"].encode_params(low)) == bytes(CODECS["int8"].encode_params(low))
    low, _ = lowered(large(), None, "int8-blocks")
    assert bytes(CODECS["int8"].encode_params(low)) == bytes(CODEC.encode_params(low))


def test_files_of_the_reference_library_are_read() -> None:
    arrays = {name: np.array(array) for name, array in large().merged_with(SMALL).items()}
    for metadata in (None, {"format": "pt"}):
        assert CODEC.decode_params(safetensors.numpy.save(arrays, metadata)) == Params(arrays)


def test_the_message_stands_in_the_metadata_as_it_stands_in_json() -> None:
    header = header_of(bytes(CODEC.encode(Packet(UPDATE, SMALL))))
    assert header["__metadata__"].keys() == {"flnet", "message"}
    assert header["__metadata__"]["flnet"] == "1"
    assert json.loads(header["__metadata__"]["message"]) == UPDATE.fields()
    assert header["s"] == {"dtype": "F32", "shape": [1, 3], "data_offsets": [16, 28]}


@pytest.mark.parametrize("encoding", CODECS)
def test_equal_parameters_give_equal_bytes(encoding: Encoding) -> None:
    two = large().merged_with({"a": large()["w"] * np.float32(3)})
    low, _ = lowered(two, None, encoding)
    other = Params({name: low[name].copy() for name in reversed(list(low))})
    strange = Params({name: array.astype(array.dtype.newbyteorder(">")) for name, array in low.items()})
    assert low == other == strange
    expected = bytes(CODECS[encoding].encode(Packet(UPDATE, low)))
    assert bytes(BinaryCodec(encoding).encode(Packet(UPDATE, other))) == expected
    assert bytes(BinaryCodec(encoding).encode(Packet(UPDATE, strange))) == expected


# --- without copies


def test_arrays_are_sent_from_their_own_memory() -> None:
    sent = large(100_000)
    pieces = [np.frombuffer(piece, np.uint8) for piece in CODEC.encode(Packet(UPDATE, sent)).pieces()]
    for array in sent.values():
        assert sum(piece.nbytes for piece in pieces if np.shares_memory(piece, array)) == array.nbytes


def test_arrays_are_read_where_they_lie() -> None:
    body = bytes(CODEC.encode(Packet(UPDATE, large())))
    received = CODEC.decode(ModelParams, memoryview(body)).params
    assert received is not None
    for array in received.values():
        assert np.shares_memory(array, np.frombuffer(body, np.uint8))
        assert not array.flags.writeable


def test_a_body_lands_and_is_read_where_it_landed() -> None:
    blob = CODEC.encode(Packet(UPDATE, large(200_000)))
    landing = Landing(lambda head, total: read_head(head, total) is not None, len(blob), HEAD_LIMIT)
    landing.expect(len(blob))
    for piece in blob.pieces():
        landing.write(piece)
    whole = landing.whole()
    packet = CODEC.decode(ModelParams, whole)
    assert packet == Packet(UPDATE, large(200_000))
    assert packet.params is not None
    assert np.shares_memory(packet.params["w"], np.frombuffer(whole, np.uint8))


# --- the head


def test_the_head_tells_all_but_the_numbers() -> None:
    low, _ = lowered(large(dtype="float64"), None, "int8")
    body = bytes(CODECS["int8"].encode(Packet(UPDATE, low.merged_with(SMALL))))
    data = 8 + int.from_bytes(body[:8], "little")
    assert read_head(memoryview(body)[: data - 1], len(body)) is None
    head = read_head(memoryview(body)[:data], len(body))
    assert head is not None
    assert head.fields == UPDATE.fields()
    assert head.specs == {
        "w": ((500, 10), "float64"),
        "b": ((10,), "float64"),
        "s": ((1, 3), "float32"),
        "i": ((2,), "int64"),
        "flag": ((), "bool"),
    }


def test_the_head_gives_the_dtype_after_widening() -> None:
    for encoding in ("float16", "int8"):
        low, _ = lowered(large(), None, encoding)
        body = bytes(CODECS[encoding].encode_params(low))
        head = read_head(memoryview(body), len(body))
        assert head is not None
        assert head.fields is None
        assert head.specs == {"w": ((500, 10), "float32"), "b": ((10,), "float32")}
        head.check(Schema.of(large()))
        head.check(Schema.of(large(dtype="float64")))


def checked(sent: Params, wanted: Params) -> None:
    """Check the head, and see that the schema itself says the same of the parameters."""
    body = bytes(CODEC.encode_params(sent))
    head = read_head(memoryview(body), len(body))
    assert head is not None
    refusals = []
    for check in (lambda: head.check(Schema.of(wanted)), lambda: Schema.of(wanted).conform(sent)):
        try:
            check()
        except ParamsRefused as exc:
            refusals.append(exc.message)
    assert len(refusals) in (0, 2)
    if refusals:
        raise ParamsRefused(refusals[0])


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (params(w=[[1.0], [2.0]]), "missing 'b'"),
        (params(w=[[1.0], [2.0]], b=[1.0], c=[1.0]), "not known here 'c'"),
        (params(w=[[1.0, 2.0]], b=[1.0]), r"'w' has shape \[1, 2\]; expected \[2, 1\]"),
        (params(w=[[1.0], [2.0]], b=[]), r"'b' has shape \[0\]; expected \[1\]"),
        (params(w=[[1.0], [2.0]], b=np.array([True])), "'b' has dtype bool; expected float32"),
    ],
)
def test_a_head_that_does_not_fit_the_job_is_refused(sent: Params, words: str) -> None:
    with pytest.raises(ParamsRefused, match=words):
        checked(sent, params(w=[[1.0], [2.0]], b=[1.0]))


def test_a_head_that_fits_the_job_is_not() -> None:
    wanted = params(w=[[1.0], [2.0]], n=np.zeros((0, 3), np.int32), i=np.array(1, np.int32))
    checked(wanted, wanted)
    checked(params("float16", w=[[1.0], [2.0]], n=[], i=np.array(1, np.uint8)), wanted)
    with pytest.raises(ParamsRefused, match="'i' has dtype float32; expected int32"):
        checked(params(w=[[1.0], [2.0]], n=[], i=1.0), wanted)


def test_a_head_of_terabytes_that_fits_the_job_takes_no_memory() -> None:
    text = json.dumps({"w": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()
    text += b" " * (-len(text) % 8)
    head = read_head(memoryview(len(text).to_bytes(8, "little") + text), 8 + len(text) + 2**42)
    assert head is not None
    assert head.specs == {"w": ((2**40,), "float32")}
    with pytest.raises(ParamsRefused, match="shape"):
        head.check(Schema.of(params(w=[1.0])))


# --- what is not written and not read


def test_what_does_not_belong_together_is_a_mistake_of_ours() -> None:
    announce = Announce(i_am=peer())
    with pytest.raises(LocalError, match="no parameters travel beside Announce"):
        CODEC.encode(Packet(announce, SMALL))
    with pytest.raises(LocalError, match="neither would be read"):
        CODEC.encode(Packet(UPDATE.model_copy(update={"declined": "x" * MAX_HEADER}), SMALL))
    with pytest.raises(LocalError, match="cannot be written as JSON"):
        CODEC.encode(Packet(UPDATE.model_copy(update={"declined": "\ud800"}), SMALL))


def test_a_body_of_another_kind_is_refused() -> None:
    update = bytes(CODEC.encode(Packet(UPDATE, SMALL)))
    assert CODEC.decode(StartTraining, update).params == SMALL
    with pytest.raises(InvalidMessage, match="accuracy"):
        CODEC.decode(Accuracy, update)
    reply = bytes(CODEC.encode(Packet(AccuracyReply(i_am=peer(), accuracy=0.5), SMALL)))
    with pytest.raises(ParamsRefused, match="no parameters travel beside Announce"):
        CODEC.decode(Announce, reply)
    with pytest.raises(UnreadableBody, match="holds no message"):
        CODEC.decode(ModelParams, bytes(CODEC.encode_params(SMALL)))


KINDS: list[type[Message]] = [kind for kind, _ in PRINTED]
STRANGE_UPDATE = ModelParams(i_am=peer(), trainer_id="MNIST", round=3, federated_learning_params=HYPER)
BIG = Params({"w": np.linspace(-1, 1, 2000, dtype=np.float32), "b": np.ones(3, np.float32), "t": np.array(True)})
LOW = lowered(BIG, None, "int8")[0]
BODIES: list[bytes] = [
    bytes(CODEC.encode(Packet(STRANGE_UPDATE, params(w=[[1.5, 2.5]], n=np.array([1, -2], np.int16))))),
    bytes(CODEC.encode(Packet(STRANGE_UPDATE, None))),
    bytes(BinaryCodec("int8").encode(Packet(STRANGE_UPDATE, LOW))),
    bytes(BinaryCodec("float16").encode(Packet(STRANGE_UPDATE, lowered(BIG, None, "float16")[0]))),
    bytes(CODEC.encode_params(BIG)),
    bytes(BinaryCodec("int8-blocks").encode(Packet(STRANGE_UPDATE, lowered(BIG, None, "int8-blocks")[0]))),
]


def parts(body: bytes) -> tuple[dict[str, Any], bytes]:
    """The header and the data of a body."""
    data = 8 + int.from_bytes(body[:8], "little")
    header: dict[str, Any] = json.loads(body[8:data])
    return header, body[data:]


def joined(header: Any, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def with_metadata(body: bytes, **changed: Any) -> bytes:
    """The same body with other metadata; None takes a field away."""
    header, data = parts(body)
    metadata = {**header["__metadata__"], **changed}
    header["__metadata__"] = {name: value for name, value in metadata.items() if value is not None}
    return joined(header, data)


def read_or_refuse(kind: type[Message], body: bytes) -> None:
    """Read it in all ways that there are; what is read was consistent, what is refused is so in few words."""
    for read in (
        lambda: CODEC.decode(kind, body),
        lambda: CODEC.decode(kind, memoryview(body)),
        lambda: CODEC.decode_params(body),
        lambda: read_head(memoryview(body)[: len(body) // 2], len(body)),
    ):
        refusal = None
        try:
            read()
        except PeerError as exc:
            refusal = exc
        assert refusal is None or len(refusal.message) < 2_000


# --- any bytes


@given(st.binary(max_size=200), st.sampled_from(KINDS))
@example(b"", Announce)
@example(bytes(8), Announce)
@example(b"\xff" * 8, Announce)
@example(b"\xff" * 16, Announce)
@settings(deadline=None)
def test_random_bytes(body: bytes, kind: type[Message]) -> None:
    read_or_refuse(kind, body)


edits = st.lists(st.tuples(st.integers(0, 1200), st.integers(0, 3), st.binary(max_size=4)), min_size=1, max_size=4)


@given(st.sampled_from(BODIES), st.sampled_from(KINDS), edits)
@settings(max_examples=600, deadline=None)
def test_damaged_bodies(body: bytes, kind: type[Message], changes: list[tuple[int, int, bytes]]) -> None:
    for anywhere, removed, put in changes:
        place = anywhere % (len(body) + 1)
        body = body[:place] + put + body[place + removed :]
    read_or_refuse(kind, body)


@given(st.sampled_from(BODIES), st.integers(0, 1200), st.binary(min_size=1, max_size=4))
@settings(max_examples=600, deadline=None)
def test_headers_damaged_without_moving_anything(body: bytes, place: int, put: bytes) -> None:
    place %= len(body)
    read_or_refuse(ModelParams, (body[:place] + put + body[place + len(put) :])[: len(body)])


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_no_truncated_or_prolonged_body_is_read(body: bytes) -> None:
    data = 8 + int.from_bytes(body[:8], "little")
    for cut in {*range(min(data + 20, len(body))), len(body) - 1}:
        with pytest.raises(UnreadableBody):
            CODEC.decode_params(body[:cut])
    with pytest.raises(UnreadableBody):
        CODEC.decode_params(body + b"\0")


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8)
    | st.sampled_from(["F32", "I8", "BOOL", "BF16", "float32", "1", "{}", "[]"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


@given(st.data())
@settings(max_examples=600, deadline=None)
def test_wrong_values_in_the_right_fields(data: st.DataObject) -> None:
    header, rest = parts(data.draw(st.sampled_from(BODIES)))
    for _ in range(data.draw(st.integers(1, 2))):
        name = data.draw(st.sampled_from(sorted(header)))
        if data.draw(st.booleans()) and isinstance(header[name], dict) and header[name]:
            field = data.draw(st.sampled_from(sorted(header[name])))
            value = data.draw(values)
            as_text = name == "__metadata__" and data.draw(st.booleans())
            header[name][field] = json.dumps(value) if as_text else value
        else:
            header[name] = data.draw(values)
    read_or_refuse(ModelParams, joined(header, rest))


# --- worked cases


@pytest.mark.parametrize(
    "scales",
    [
        "",
        "[]",
        "null",
        '{"w": [NaN, "float32"]}',
        '{"w": [Infinity, "float32"]}',
        '{"w": [1e999, "float32"]}',
        '{"w": [' + "9" * 400 + ', "float32"]}',
        '{"w": [' + "9" * 5000 + ', "float32"]}',
        '{"w": [0, "float32"]}',
        '{"w": [-1, "float32"]}',
        '{"w": [true, "float32"]}',
        '{"w": ["1", "float32"]}',
        '{"w": [1e-44, "float32"]}',
        '{"w": [1e38, "float32"]}',
        '{"w": [0.1, "float32"]}',
        '{"w": [1.0]}',
        '{"w": [1.0, "float32", 1]}',
        '{"w": {"0": 1.0, "1": "float32"}}',
        '{"w": "1f"}',
        '{"w": [1.0, "float16"]}',
        '{"w": [1.0, "int64"]}',
        '{"w": [1.0, ["float32"]]}',
        '{"b": [1.0, "float32"]}',
        '{"t": [1.0, "float32"]}',
        '{"none": [1.0, "float32"]}',
        '{"w": [1.0, "float32"], "w": [1.0, "float32"]}',
        '{"w": [1.0, "float32"], "\\ud800": [1.0, "float32"]}',
        "[" * 100_000,
    ],
    ids=lambda text: repr(text[:40]),
)
def test_scales_that_no_packing_gives_are_refused(scales: str) -> None:
    with pytest.raises((UnreadableBody, ParamsRefused)) as refusal:
        CODEC.decode_params(with_metadata(BODIES[2], scales=scales))
    assert len(refusal.value.message) < 300


def test_a_scale_is_what_the_numbers_are_multiplied_with() -> None:
    body = with_metadata(BODIES[2], scales='{"w": [1, "float32"]}')
    stored = safetensors.numpy.load(body)["w"]
    assert (stored.min(), stored.max()) == (-127, 127)
    assert CODEC.decode_params(body)["w"].tolist() == stored.tolist()
    assert CODEC.decode_params(with_metadata(BODIES[2], scales=None))["w"].dtype == np.int8


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("", UnreadableBody),
        ("null", UnreadableBody),
        ("[]", UnreadableBody),
        ('{"iAm": NaN}', UnreadableBody),
        ('{"iAm": "\\ud800"}', UnreadableBody),
        ("[" * 100_000, UnreadableBody),
        ('{"iAm":' * 100_000, UnreadableBody),
        ('{"iAm": ' + "[" * 900 + "]" * 900 + "}", InvalidMessage),
        ("{}", InvalidMessage),
        ('{"iAm": {"id": "\\u0000", "port": 1}}', InvalidMessage),
    ],
    ids=lambda value: repr(value[:30]) if isinstance(value, str) else value.__name__,
)
def test_messages_that_are_none_are_refused(message: str, error: type[PeerError]) -> None:
    for kind in (ModelParams, StartTraining, Accuracy):
        with pytest.raises(error) as refusal:
            CODEC.decode(kind, with_metadata(BODIES[0], message=message))
        assert len(refusal.value.message) < 2_000


@pytest.mark.parametrize("version", [None, "2", ""])
def test_another_version_is_not_guessed_at(version: str | None) -> None:
    with pytest.raises(UnreadableBody, match="another version"):
        CODEC.decode(ModelParams, with_metadata(BODIES[0], flnet=version))


def test_numbers_that_are_none_come_through_for_the_schema_to_refuse() -> None:
    raw = np.array([np.nan, np.inf, -np.inf, 0], np.float32)
    signalling = np.array([0x7F800001, 0, 0, 0], np.uint32).view(np.float32)
    for array in (raw, signalling):
        decoded = CODEC.decode_params(bytes(CODEC.encode_params(Params({"w": array}))))
        with pytest.raises(ParamsRefused, match="not finite"):
            Schema.of({"w": raw}).conform(decoded)


def test_a_signalling_nan_in_float16_is_widened_without_a_word() -> None:
    body = BODIES[3]
    header, data = parts(body)
    start = header["w"]["data_offsets"][0]
    assert header["w"]["dtype"] == "F16"
    damaged = joined(header, data[:start] + b"\x01\x7c" + data[start + 2 :])
    assert np.isnan(CODEC.decode_params(damaged)["w"][0])


# --- memory


@pytest.mark.parametrize(
    "described",
    [
        {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]},
        {"dtype": "F64", "shape": [2**20, 2**20, 0], "data_offsets": [0, 0]},
        {"dtype": "I8", "shape": [2**45], "data_offsets": [0, 2**45]},
        {"dtype": "BOOL", "shape": [2**31, 2**31, 2**31], "data_offsets": [0, 8]},
    ],
    ids=lambda described: repr(described["shape"]),
)
def test_a_body_that_claims_terabytes_takes_no_memory(described: dict[str, Any]) -> None:
    body = joined({"w": described}, bytes(8))
    tracemalloc.start()
    try:
        with pytest.raises((UnreadableBody, ParamsRefused)):
            CODEC.decode_params(body)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_rounded_parameters_are_packed_with_little_memory_beside_them() -> None:
    low, _ = lowered(Params({"w": np.linspace(-1, 1, 4_000_000, dtype=np.float32)}), None, "int8")
    codec = BinaryCodec("int8")
    tracemalloc.start()
    try:
        blob = codec.encode_params(low)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert blob.nbytes <= peak < blob.nbytes + 1_500_000


LIMIT = 20_000_000
MB = 1024 * 1024
WEIGHTS = np.random.default_rng(0).standard_normal(300_000).astype(np.float32)


def landing(limit: int = LIMIT) -> Landing:
    return Landing(lambda head, total: read_head(head, total) is not None, limit, HEAD_LIMIT)


def opened(body: bytes, into: Landing | None = None) -> memoryview:
    into = into or landing()
    decompress(memoryview(body), into)
    return into.whole()


def anything(size: int) -> Landing:
    return Landing(lambda head, total: True, size, HEAD_LIMIT)


@contextmanager
def little_memory(most: int = 4 * MB) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def zeros(size: int, *first: bytes) -> Iterator[bytes]:
    yield from first
    for _ in range(size // MB):
        yield bytes(MB)


def frame(parts: Iterator[bytes], size: int = -1) -> bytes:
    work = zstandard.ZstdCompressor(level=1).compressobj(size=size)
    return b"".join([*(work.compress(part) for part in parts), work.flush()])


def saying(body: bytes, size: int) -> bytes:
    """The frame with another stated size (RFC 8878, 3.1.1.1), in the four bytes after its window."""
    assert body[4] >> 6 == 2
    assert not body[4] & 0x20
    lie = body[:6] + size.to_bytes(4, "little") + body[10:]
    assert zstandard.frame_content_size(lie) == size
    return lie


def test_rounded_parameters_come_back_bit_by_bit_in_a_sixth_fewer_bytes() -> None:
    low = rounded(WEIGHTS, "int8")
    assert low is not None
    blob = BinaryCodec("int8").encode_params(Params({"w": low}))
    small = compressed(blob)
    assert (blob.coding, small.coding) == (None, ZSTD)
    assert len(small) < 0.87 * len(blob)
    back = opened(bytes(small))
    assert back == bytes(blob)
    assert BinaryCodec().decode_params(back)["w"].tobytes() == low.tobytes()


@given(st.lists(st.binary(max_size=300) | st.integers(1, 3 * PIECE).map(bytes), max_size=4))
def test_any_body_comes_back(parts: Sequence[bytes]) -> None:
    whole = b"".join(parts)
    assert opened(bytes(compressed(Blob(parts))), anything(len(whole))) == whole


@given(st.binary(max_size=200), st.binary(max_size=3), st.integers(0, 60))
def test_nothing_else_than_a_body_or_a_peer_error_comes_of_any_bytes(noise: bytes, flip: bytes, at: int) -> None:
    good = bytes(compressed(Blob([bytes(range(50)) * 3])))
    for body in (noise, good[:at], good[:4] + noise, good[:at] + flip + good[at + len(flip) :]):
        try:
            opened(body, anything(1000))
        except PeerError:
            continue


# --- bombs


def test_a_body_that_says_that_it_is_too_large_is_refused_by_its_first_bytes() -> None:
    bomb = frame(zeros(1024 * MB), size=1024 * MB)
    assert len(bomb) < 200_000
    with little_memory(), pytest.raises(BodyTooLarge, match=f"at most {LIMIT} bytes here, but it has 1073741824"):
        opened(bomb)


def test_a_body_that_may_be_large_but_is_nothing_is_refused_by_its_head() -> None:
    bomb = frame(zeros(256 * MB), size=256 * MB)
    with little_memory(), pytest.raises(UnreadableBody):
        opened(bomb, landing(512 * MB))


def test_a_body_that_does_not_say_how_large_it_is_is_refused() -> None:
    with little_memory(), pytest.raises(UnreadableBody, match="must state how large"):
        opened(frame(zeros(64 * MB)))


def test_a_body_that_is_larger_than_it_says_is_refused_where_that_ends() -> None:
    head = bytes(BinaryCodec().encode_params(Params({"w": np.zeros(50_000, np.float32)})))
    bomb = frame(zeros(256 * MB, head), size=256 * MB + len(head))
    with little_memory(), pytest.raises(UnreadableBody):
        opened(saying(bomb, len(head)))


def test_a_body_that_is_smaller_than_it_says_is_refused() -> None:
    body = frame(zeros(MB), size=MB)
    with pytest.raises(UnreadableBody):
        opened(saying(body, MB + 1), anything(LIMIT))


def test_a_body_that_ends_too_early_is_refused() -> None:
    body = bytes(compressed(Blob([WEIGHTS.data])))
    with pytest.raises(UnreadableBody, match="1200000 bytes, but"):
        opened(body[: len(body) // 2], anything(LIMIT))


def test_no_more_memory_for_what_came_before_than_is_usual() -> None:
    wide = zstandard.ZstdCompressionParameters.from_level(1, window_log=26)
    data = WEIGHTS.tobytes() * 60
    work = zstandard.ZstdCompressor(compression_params=wide).compressobj(size=len(data))
    body = work.compress(data) + work.flush()
    assert zstandard.get_frame_parameters(body).window_size > WINDOW
    with pytest.raises(UnreadableBody, match="cannot be read"):
        opened(body, anything(len(data)))


# --- without the package


def test_who_does_not_have_the_package_knows_no_coding(monkeypatch: pytest.MonkeyPatch) -> None:
    assert available_codings() == (ZSTD,)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    assert available_codings() == ()


def test_it_is_loaded_by_the_first_body_and_not_before() -> None:
    code = "import sys, flnet.wire.binary_codec as c; c.available_codings(); sys.exit('zstandard' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
