"""The thesis' JSON: its printed bodies, bit-exact numbers, and parameters that are none."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flnet.codec.json_codec import JsonCodec
from flnet.errors import InvalidMessage, LocalError, ParamsRefused
from flnet.messages import (
    Announce,
    AnnounceReply,
    Message,
    ModelParams,
    Packet,
    StartTraining,
    Trigger,
)
from flnet.params import Params, Schema
from flnet.tensorfile import MAX_ARRAYS
from tests.codec.bodies import ANNOUNCE, ANNOUNCE_REPLY, PRINTED, UPDATE, body_with
from tests.helpers import HYPER, params, peer

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


def test_the_fields_of_a_printed_update_are_understood() -> None:
    packet = CODEC.decode(StartTraining, UPDATE.encode())
    message = packet.message
    assert isinstance(message, StartTraining)
    assert (message.sender, message.trainer, message.round, message.i_am.ip) == ("NODE_1", "MNIST", 0, None)
    assert (message.federated_learning_params.e, message.federated_learning_params.u) == (2, 1e-05)
    assert packet.params is not None
    assert list(packet.params) == ["weights", "bias"]


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


def test_a_hundred_thousand_random_bit_patterns_come_back() -> None:
    patterns = np.random.default_rng(0).integers(0, 2**32, 100_000, dtype=np.uint32).view(np.float32)
    sent = Params({"w": patterns[np.isfinite(patterns)].reshape(-1, 1)})
    assert round_trip(sent).digest == sent.digest


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
