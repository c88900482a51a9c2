"""Messages: a message that exists is valid, and leaves in the form of the thesis."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from flnet.errors import InvalidMessage
from flnet.messages import (
    Accuracy,
    AccuracyReply,
    Announce,
    AnnounceReply,
    EditHyperParams,
    HyperParams,
    Message,
    ModelParams,
    Peer,
    StartTraining,
    Trigger,
)
from tests.helpers import HYPER, peer

JOB: dict[str, Any] = {
    "iAm": {"id": "a", "ip": None, "port": "4000"},
    "trainerId": "MNIST",
    "round": 0,
    "federatedLearningParams": {"e": 2, "u": 1e-05, "b": 64},
}


def read(kind: type[Message], **changes: Any) -> Any:
    return kind.read({**JOB, **changes})


# --- as on the wire


def test_a_peer_always_writes_its_ip_and_its_port_as_text() -> None:
    written = {"id": "a", "ip": None, "port": "4000"}
    alone = peer("a", ip=None)
    assert alone.fields() == written
    assert Announce(i_am=alone, my_known_peers=[alone]).fields() == {"iAm": written, "myKnownPeers": [written]}
    assert AnnounceReply(i_am=alone).fields() == {"announceYourselfToPeers": [], "iAm": written}


def test_absent_fields_are_left_out() -> None:
    assert read(ModelParams).fields() == JOB
    assert set(read(ModelParams, examples=3, declined=None).fields()) == {*JOB, "examples"}
    assert Trigger(trainer_id="MNIST").fields() == {"trainerId": "MNIST", "rounds": 1}


@pytest.mark.parametrize("kind", [StartTraining, ModelParams])
def test_what_is_written_is_read_again(kind: type[Message]) -> None:
    message = read(kind, initiator="b")
    assert kind.read(message.fields()) == message


def test_python_names_are_read_too() -> None:
    assert Announce.read({"i_am": {"id": "a", "port": 1}}) == Announce(i_am=Peer(id="a", port=1))


def test_fields_of_a_newer_peer_are_ignored_but_a_persons_are_not() -> None:
    assert not hasattr(read(ModelParams, compressed=True), "compressed")
    with pytest.raises(InvalidMessage, match="round: Extra inputs are not permitted"):
        Trigger.read({"trainerId": "MNIST", "round": 3})
    with pytest.raises(InvalidMessage, match="epochs: Extra inputs"):
        EditHyperParams.read({"epochs": 3})
    with pytest.raises(InvalidMessage, match=r"federatedLearningParams\.x: Extra inputs"):
        read(ModelParams, federatedLearningParams={"e": 1, "u": 1, "b": 1, "x": 1})


def test_messages_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        read(ModelParams).round = 5


# --- bounds


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"iAm": None}, "iAm"),
        ({"iAm": {"id": "", "port": 1}}, r"iAm\.id"),
        ({"iAm": {"id": "a\n", "port": 1}}, r"iAm\.id"),
        ({"iAm": {"id": "a", "port": 0}}, r"iAm\.port"),
        ({"iAm": {"id": "a", "port": "65536"}}, r"iAm\.port"),
        ({"iAm": {"id": "a", "port": "http"}}, r"iAm\.port"),
        ({"iAm": {"id": "a", "ip": "a/b", "port": 1}}, r"iAm\.ip"),
        ({"iAm": {"id": "a", "ip": 5, "port": 1}}, r"iAm\.ip"),
        ({"iAm": {"id": "a"}}, r"iAm\.port: Field required"),
        ({"trainerId": 3}, "trainerId"),
        ({"round": -1}, "round"),
        ({"round": 2**53 + 1}, "round"),
        ({"round": 1.5}, "round"),
        ({"round": "x"}, "round"),
        ({"federatedLearningParams": {}}, "federatedLearningParams.e: Field required"),
        ({"federatedLearningParams": {"e": 0, "u": 1, "b": 1}}, r"federatedLearningParams\.e"),
        ({"federatedLearningParams": {"e": 1, "u": 0, "b": 1}}, r"federatedLearningParams\.u"),
        ({"federatedLearningParams": {"e": 1, "u": float("nan"), "b": 1}}, r"federatedLearningParams\.u"),
        ({"federatedLearningParams": {"e": 1, "u": 1, "b": -1}}, r"federatedLearningParams\.b"),
        ({"initiator": ""}, "initiator"),
        ({"examples": -1}, "examples"),
        ({"examples": 10**13}, "examples"),
        ({"labels": -1}, "labels"),
        ({"accuracy": 1.01}, "accuracy"),
        ({"accuracy": float("nan")}, "accuracy"),
        ({"declined": "x" * 501}, "declined"),
    ],
)
def test_what_breaks_a_rule_is_named(change: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidMessage, match=place):
        read(ModelParams, **change)


# --- wordings


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "huge",
    [
        "x" * 1_000_000,
        10**10_000,
        -(10**10_000),
        nested(5_000),
        ["x" * 100_000] * 100,
        {"k" * 100_000: nested(500)},
        {"a": {"b": {"c": {}}}},
        b"x" * 1_000_000,
    ],
    ids=lambda value: type(value).__name__,
)
def test_wordings_stay_short_whatever_came(huge: Any) -> None:
    for change in ({"iAm": huge}, {"round": huge}, {"federatedLearningParams": {"e": huge, "u": huge, "b": huge}}):
        with pytest.raises(InvalidMessage) as refusal:
            read(ModelParams, **change)
        assert len(refusal.value.message) < 600


def test_wordings_hold_no_control_characters() -> None:
    with pytest.raises(InvalidMessage) as refusal:
        Trigger.read({"trainerId": "a\x1b[31m\n\u202e", "x\n\x1b\u202e" + "y" * 1000: 1})
    assert refusal.value.message.isascii()
    assert refusal.value.message.isprintable()
    assert len(refusal.value.message) < 400


def test_many_faults_are_counted() -> None:
    with pytest.raises(InvalidMessage, match="; and 5 more"):
        Trigger.read({"trainerId": "MNIST", **{f"x{i}": i for i in range(10)}})


def test_what_is_no_object_is_refused() -> None:
    values: tuple[Any, ...] = ([], 3, "x", None)
    for value in values:
        with pytest.raises(InvalidMessage, match="the message"):
            Announce.read(value)


# --- what the core asks of messages


def test_hyper_params_in_the_words_of_the_thesis() -> None:
    assert HYPER.words() == "Learning Rate: 1e-05, Epochs: 2, Batch size: 64"
    assert HyperParams(e=1, u=0.1, b=8).words() == "Learning Rate: 0.1, Epochs: 1, Batch size: 8"


def test_only_the_messages_of_a_round_carry_params() -> None:
    carriers = {kind for kind in _all_kinds() if kind.carries_params}
    assert carriers == {StartTraining, ModelParams, Accuracy, AccuracyReply}


def test_paths_are_the_endpoints() -> None:
    paths = {kind.path for kind in _all_kinds() if kind.path}
    assert paths == {
        "/announce",
        "/training",
        "/training/model_params",
        "/training/model_params/accuracy",
        "/training/version",
        "/training/trigger",
        "/probe",
    }


def _all_kinds(kind: type[Message] = Message) -> set[type[Message]]:
    return {kind}.union(*(_all_kinds(child) for child in kind.__subclasses__()))
