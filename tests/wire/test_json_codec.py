"""The thesis' JSON: its printed bodies, bit-exact numbers, and parameters that are none."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flnet.errors import InvalidMessage, LocalError, ParamsRefused, PeerError, UnreadableBody
from flnet.node.interface import EditHyperParams
from flnet.params.params import Params, Schema
from flnet.params.safetensors import MAX_ARRAYS
from flnet.protocol.messages import (
    Accuracy,
    Announce,
    AnnounceReply,
    JobMessage,
    Message,
    ModelParams,
    Packet,
    StartTraining,
    Trigger,
    Triggered,
)
from flnet.wire.json_codec import JsonCodec
from tests.helpers import HYPER, params, peer
from tests.wire.bodies import ACCURACY, ANNOUNCE, ANNOUNCE_REPLY, PRINTED, UPDATE, body_with

CODEC = JsonCodec()


def decoded(arrays: Any) -> Params:
    found = CODEC.decode(ModelParams, body_with(arrays)).params
    assert found is not None
    return found


# --- what the thesis printed


@pytest.mark.parametrize(("kind", "body"), PRINTED)
def test_printed_bodies_are_read_and_written_again(kind: type[Message], body: str) -> None:
    packet = CODEC.decode(kind, body.encode())
    assert isinstance(packet.message, kind)
    printed, written = json.loads(body), json.loads(CODEC.encode(packet))
    kept = [name for name in written if name in printed]
    assert kept == list(printed), "the fields come in the printed order"
    assert {name: written[name] for name in kept} == printed


@pytest.mark.parametrize(("kind", "body"), [(Announce, ANNOUNCE), (AnnounceReply, ANNOUNCE_REPLY)])
def test_announcements_leave_exactly_as_printed(kind: type[Message], body: str) -> None:
    assert json.dumps(json.loads(CODEC.encode(CODEC.decode(kind, body.encode())))) == body


def test_ports_come_as_numbers_too_and_leave_as_strings() -> None:
    packet = CODEC.decode(Announce, b'{"iAm": {"id": "a", "port": 4000}}')
    assert json.loads(CODEC.encode(packet))["iAm"] == {"id": "a", "ip": None, "port": "4000"}


# --- which messages carry parameters


@pytest.mark.parametrize("absent", ["", '"modelParams": null, '])
def test_absent_parameters_are_none(absent: str) -> None:
    body = UPDATE.replace('"modelParams": {"weights": [], "bias": []}, ', absent)
    assert CODEC.decode(ModelParams, body.encode()).params is None


def test_an_empty_object_is_empty_parameters() -> None:
    assert decoded({}) == Params({})


def test_a_declined_update_carries_none() -> None:
    message = ModelParams(
        i_am=peer(), trainer_id="MNIST", round=3, federated_learning_params=HYPER, declined="no data here"
    )
    body = json.loads(CODEC.encode(Packet(message)))
    assert "modelParams" not in body
    assert body["declined"] == "no data here"
    assert CODEC.decode(ModelParams, json.dumps(body).encode()) == Packet(message)


def test_messages_without_parameters_ignore_or_refuse_the_field() -> None:
    assert CODEC.decode(Announce, ANNOUNCE[:-1].encode() + b', "modelParams": {"w": [1]}}').params is None
    with pytest.raises(InvalidMessage, match="modelParams"):
        CODEC.decode(Trigger, b'{"trainerId": "MNIST", "modelParams": {"w": [1]}}')
    with pytest.raises(LocalError, match="Announce"):
        CODEC.encode(Packet(Announce(i_am=peer()), params(w=[1.0])))


# --- numbers


def round_trip(arrays: Params) -> Params:
    message = ModelParams(i_am=peer(), trainer_id="MNIST", round=0, federated_learning_params=HYPER)
    found = CODEC.decode(ModelParams, CODEC.encode(Packet(message, arrays))).params
    assert found is not None
    return Schema.of(arrays).conform(found)


finite = st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=True)
EXTREMES = [-0.0, 0.0, 1e-45, -1e-45, 1.1754942e-38, 3.4028235e38, -3.4028235e38, 0.1, 1 / 3, 16777217.0]


@given(st.lists(finite))
@example(EXTREMES)
def test_float32_comes_back_bit_by_bit(numbers: list[float]) -> None:
    sent = Params({"w": np.array(numbers, np.float32)})
    assert round_trip(sent)["w"].tobytes() == sent["w"].tobytes()


@pytest.mark.parametrize(
    "array",
    [
        np.array([1e-308, -0.0, 1.7976931348623157e308, 5e-324, 0.1]),
        np.array([6e-8, -0.0, 65504, 0.1], np.float16),
        np.array([[-(2**63), 2**63 - 1], [0, 1]], np.int64),
        np.array([0, 2**64 - 1], np.uint64),
        np.array([-128, 127], np.int8),
        np.array([[True], [False]]),
        np.array(0.1, np.float32),
        np.array(-7, np.int64),
        np.array(True),
        np.zeros(0, np.float32),
        np.zeros((0, 3), np.float32),
        np.zeros((3, 0), np.int64),
        np.zeros((2, 0, 3), np.bool_),
        np.arange(24, dtype=np.float32).reshape(2, 3, 4)[:, ::-1],
        np.array([1.5, -2], ">f4"),
        np.zeros((1,) * 32, np.float32),
    ],
    ids=lambda a: f"{a.dtype}{list(a.shape)}",
)
def test_every_dtype_and_shape_comes_back(array: Any) -> None:
    assert round_trip(Params({"w": array})).digest == Params({"w": array}).digest


def test_numbers_are_read_as_the_widest_of_their_kind() -> None:
    found = decoded({"i": [1, -2], "f": [1, 2.5], "u": [2**64 - 1], "mix": [-1, 2**63], "b": [True], "s": 3})
    dtypes = {name: array.dtype.name for name, array in found.items()}
    assert dtypes == {"i": "int64", "f": "float64", "u": "uint64", "mix": "float64", "b": "bool", "s": "int64"}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("shape", [(), (2, 2)])
def test_what_is_not_finite_is_never_written(bad: float, shape: tuple[int, ...]) -> None:
    with pytest.raises(LocalError, match="'w' has numbers that are not finite"):
        CODEC.encode(Packet(CODEC.decode(ModelParams, UPDATE.encode()).message, params(w=np.full(shape, bad))))


def test_what_json_cannot_write_is_our_own_fault() -> None:
    wide = Params({"w": np.zeros(1, np.longdouble)})
    with pytest.raises(LocalError, match="cannot be written as JSON"):
        CODEC.encode(Packet(CODEC.decode(ModelParams, UPDATE.encode()).message, wide))


# --- parameters that are none


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([[1.0], [2.0, 3.0]], "no regular array"),
        ([[1.0], 2.0], "no regular array"),
        ([1.0, [2.0]], "numbers and lists"),
        ([[], [1.0]], "no regular array"),
        ([[[1.0]], [[1.0], [2.0]]], "no regular array"),
        (["1"], "holds text"),
        ("abc", "holds text"),
        ([1.0, "nan"], "fractions and text"),
        ([None], "holds null"),
        (None, "holds null"),
        ([{"a": 1}], "holds an object"),
        ({"a": 1}, "holds an object"),
        ([True, 1], "true or false"),
        ([1.0, False], "true or false"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(value: Any, words: str) -> None:
    with pytest.raises(ParamsRefused, match=f"'w'.*{words}"):
        decoded({"w": value})


@pytest.mark.parametrize("arrays", [[], [1.0], "w", 3, True])
def test_parameters_that_are_no_object_are_refused(arrays: Any) -> None:
    with pytest.raises(ParamsRefused, match="must be an object"):
        decoded(arrays)


def test_too_many_dimensions_and_too_many_arrays_are_refused() -> None:
    with pytest.raises(ParamsRefused, match="more than 32 dimensions"):
        decoded({"w": np.zeros((1,) * 33).tolist()})
    with pytest.raises(ParamsRefused, match="at most 10000"):
        decoded({str(i): [] for i in range(MAX_ARRAYS + 1)})


def test_one_long_text_among_many_short_ones_costs_no_memory() -> None:
    # numpy would make every element as wide as the longest: 100 MB here, terabytes in a larger body
    with pytest.raises(ParamsRefused, match="holds text"):
        decoded({"w": ["x" * 10_000, *["y"] * 10_000]})


def test_a_long_name_is_cut_in_the_wording() -> None:
    with pytest.raises(ParamsRefused) as refusal:
        decoded({"n" * 10_000: [None]})
    assert len(refusal.value.message) < 200


KINDS: list[type[Message]] = [kind for kind, _ in PRINTED] + [Trigger, EditHyperParams, Triggered]

# --- bodies that are none


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b'{"iAm": "\xc3"}',
        b'"\\ud800"',
        b"\xef\xbb\xbf{}",
        b"[" * 200_000,
        b"[" * 200_000 + b"]" * 200_000,
        b'{"a":' * 200_000,
        b'{"iAm": ' + b"1" * 10_000_000 + b"}",
        b'{"accuracy": NaN}',
        b'{"accuracy": Infinity}',
        b'{"accuracy": 1e999}',
        UPDATE[:-1].encode(),
        UPDATE[: len(UPDATE) // 2].encode(),
        b"{} {}",
        b"\x00",
        b"\x80\x04\x95",
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else repr(value[:12]),
)
def test_bytes_that_are_no_json_are_unreadable(kind: type[Message], body: bytes) -> None:
    with pytest.raises(UnreadableBody, match="the body is no JSON"):
        CODEC.decode(kind, body)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", [b"[]", b"3", b"1.5", b"null", b"true", b'"text"', b"[" * 900 + b"]" * 900])
def test_json_that_is_no_object_is_unreadable(kind: type[Message], body: bytes) -> None:
    with pytest.raises(UnreadableBody, match="expected a JSON object, got"):
        CODEC.decode(kind, body)


def test_nesting_that_can_be_read_is_refused_in_few_words() -> None:
    deep = b"[" * 900 + b"]" * 900
    with pytest.raises(InvalidMessage, match="iAm") as refusal:
        CODEC.decode(Announce, b'{"iAm": ' + deep + b"}")
    assert len(refusal.value.message) < 500
    with pytest.raises(ParamsRefused, match="dimensions"):
        CODEC.decode(ModelParams, UPDATE.replace("[]", deep.decode(), 1).encode())


def test_of_two_fields_of_one_name_the_last_counts() -> None:
    message = CODEC.decode(StartTraining, UPDATE[:-1].encode() + b', "round": 7}').message
    assert isinstance(message, StartTraining)
    assert message.round == 7


@pytest.mark.parametrize("cut", range(len(ACCURACY)))
def test_no_truncated_body_is_read(cut: int) -> None:
    with pytest.raises(UnreadableBody):
        CODEC.decode(Accuracy, ACCURACY[:cut].encode())


# --- any bytes give a Packet or a PeerError


def read_or_refuse(kind: type[Message], body: bytes) -> None:
    refusal = None
    try:
        assert isinstance(CODEC.decode(kind, body).message, kind)
    except PeerError as exc:
        refusal = exc
    assert refusal is None or len(refusal.message) < 2_000


@pytest.mark.parametrize("kind", KINDS)
@given(body=st.binary(max_size=200))
def test_random_bytes(kind: type[Message], body: bytes) -> None:
    read_or_refuse(kind, body)


BODIES = [(kind, body.encode()) for kind, body in PRINTED] + [
    (ModelParams, body_with({"w": [[1.0, 2.0], [3.0, -4.5e-7]], "b": [1, 2], "s": 3.5})),
    (Trigger, b'{"trainerId": "MNIST", "rounds": 3, "federatedLearningParams": {"e": 1, "u": 0.1, "b": 8}}'),
    (EditHyperParams, b'{"e": 3, "u": 0.01, "b": 32}'),
    (Triggered, b'{"trainerId": "MNIST", "round": 4}'),
]
edits = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), st.binary(max_size=4)), min_size=1, max_size=4)


@given(st.sampled_from(BODIES), edits)
@settings(max_examples=400)
def test_damaged_bodies(whole: tuple[type[Message], bytes], changes: list[tuple[int, int, bytes]]) -> None:
    kind, body = whole
    for anywhere, removed, put in changes:
        place = anywhere % (len(body) + 1)
        body = body[:place] + put + body[place + removed :]
    read_or_refuse(kind, body)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


@given(st.data())
@settings(max_examples=400)
def test_wrong_values_in_the_right_fields(data: st.DataObject) -> None:
    kind, body = data.draw(st.sampled_from(BODIES))
    fields = json.loads(body)
    names = [info.alias for info in kind.model_fields.values()] + ["modelParams"]
    for name in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3)):
        fields[name] = data.draw(values)
    nested = fields.get("federatedLearningParams")
    if isinstance(nested, dict) and issubclass(kind, JobMessage):
        nested["e"] = data.draw(values)
    read_or_refuse(kind, json.dumps(fields).encode())
