"""Parameters as safetensors files: standard, always alike, without copies, and bit by bit what was sent."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from flnet.blob import Landing
from flnet.codec import HEAD_LIMIT, BinaryCodec, lowered, read_head
from flnet.errors import InvalidMessage, LocalError, ParamsRefused, UnreadableBody
from flnet.messages import Accuracy, AccuracyReply, Announce, Message, ModelParams, Packet, StartTraining
from flnet.packing import Encoding
from flnet.params import Params, Schema
from flnet.tensorfile import MAX_HEADER
from tests.codec.bodies import PRINTED
from tests.helpers import HYPER, params, peer

CODEC = BinaryCodec()
CODECS: dict[Encoding, BinaryCodec] = {name: BinaryCodec(name) for name in ("float32", "float16", "int8")}
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


@pytest.mark.parametrize("encoding", CODECS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_nothing_is_lost_whether_it_was_rounded_or_not(encoding: Encoding, dtype: str) -> None:
    codec = CODECS[encoding]
    for sent in (large(dtype=dtype), lowered(large(dtype=dtype), None, encoding)[0]):
        assert codec.decode_params(bytes(codec.encode_params(sent))) == sent


@pytest.mark.parametrize(("encoding", "item"), [("float16", 2), ("int8", 1)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rounded_parameters_take_a_half_or_a_quarter(encoding: Encoding, item: int, dtype: str) -> None:
    whole = large(100_000, dtype)
    low, _ = lowered(whole, None, encoding)
    blob = CODECS[encoding].encode_params(low)
    body = bytes(blob)
    data = blob.nbytes - 8 - int.from_bytes(body[:8], "little")
    assert data == 100_000 * item + whole["b"].nbytes
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
    assert (loaded["w"].dtype.name, loaded["w"].shape) == (encoding, (500, 10))
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
