"""Any bytes give a Packet or a PeerError, in few words and little memory."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flnet.codec import BinaryCodec, lowered, read_head
from flnet.errors import InvalidMessage, ParamsRefused, PeerError, UnreadableBody
from flnet.messages import Accuracy, Announce, Message, ModelParams, Packet, StartTraining
from flnet.params import Params, Schema
from tests.codec.bodies import PRINTED
from tests.helpers import HYPER, params, peer

CODEC = BinaryCodec()
KINDS: list[type[Message]] = [kind for kind, _ in PRINTED]
UPDATE = ModelParams(i_am=peer(), trainer_id="MNIST", round=3, federated_learning_params=HYPER)
BIG = Params({"w": np.linspace(-1, 1, 2000, dtype=np.float32), "b": np.ones(3, np.float32), "t": np.array(True)})
LOW = lowered(BIG, None, "int8")[0]
BODIES: list[bytes] = [
    bytes(CODEC.encode(Packet(UPDATE, params(w=[[1.5, 2.5]], n=np.array([1, -2], np.int16))))),
    bytes(CODEC.encode(Packet(UPDATE, None))),
    bytes(BinaryCodec("int8").encode(Packet(UPDATE, LOW))),
    bytes(BinaryCodec("float16").encode(Packet(UPDATE, lowered(BIG, None, "float16")[0]))),
    bytes(CODEC.encode_params(BIG)),
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


@given(st.binary(max_size=200), st.binary(max_size=40))
@settings(deadline=None)
def test_random_headers(header: bytes, data: bytes) -> None:
    read_or_refuse(ModelParams, len(header).to_bytes(8, "little") + header + data)


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


@given(st.dictionaries(st.sampled_from(["w", "b", "t", "x"]), values, max_size=3))
@settings(max_examples=300, deadline=None)
def test_wrong_scales(scales: dict[str, Any]) -> None:
    read_or_refuse(ModelParams, with_metadata(BODIES[2], scales=json.dumps(scales)))


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
