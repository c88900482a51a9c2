"""Messages: a message that exists is valid, and leaves in the form of the thesis."""

from __future__ import annotations

import itertools
import typing
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from flnet.errors import InvalidMessage
from flnet.names import MAX_NAME
from flnet.node.interface import EditHyperParams
from flnet.params.params import Digest, PeerId
from flnet.protocol.effects import (
    ORDER,
    Answer,
    CancelTimer,
    Effect,
    Publish,
    Save,
    SetTimer,
    TellJobs,
    in_order,
)
from flnet.protocol.events import Mark, Weighed, shares
from flnet.protocol.messages import (
    ANNOUNCE_BYTES,
    MAX_INCARNATION,
    MAX_PEERS,
    MOST_ROUNDS,
    Accuracy,
    AccuracyReply,
    Announce,
    AnnounceReply,
    HyperParams,
    Message,
    ModelParams,
    News,
    Packet,
    Peer,
    Probe,
    ProbeReply,
    ReportMessage,
    SeriesMessage,
    StartTraining,
    Trigger,
    Triggered,
    digest_of,
)
from flnet.protocol.segments import SegmentsMessage
from flnet.protocol.updates import Contribution
from flnet.protocol.vertical import VerticalMessage
from flnet.wire.json_codec import JsonCodec
from tests.helpers import HYPER, params, peer
from tests.security.keypairs import TestKey

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
    assert carriers == {StartTraining, ModelParams, Accuracy, AccuracyReply, SegmentsMessage, VerticalMessage}


def _all_kinds(kind: type[Message] = Message) -> set[type[Message]]:
    return {kind}.union(*(_all_kinds(child) for child in kind.__subclasses__()))


# The messages by which nodes find each other and stay in touch.


NODE = {"id": "a", "ip": None, "port": "4000"}
NEWS: dict[str, Any] = {
    "id": "b",
    "ip": "10.0.0.2",
    "port": "4001",
    "state": "suspect",
    "incarnation": 3,
    "by": "c",
}


def test_too_many_peers_are_refused() -> None:
    many = [{"id": f"p{i}", "port": 1} for i in range(MAX_PEERS + 1)]
    assert len(Announce.read({"iAm": NODE, "myKnownPeers": many[:-1]}).my_known_peers) == MAX_PEERS
    with pytest.raises(InvalidMessage, match="myKnownPeers"):
        Announce.read({"iAm": NODE, "myKnownPeers": many})


def test_an_announcement_of_the_thesis_says_nothing_of_incarnations() -> None:
    message = Announce.read({"iAm": {"id": "a", "ip": None, "port": 4000}})
    assert (message.incarnation, message.members, message.accepts) == (None, None, None)
    assert set(message.fields()) == {"iAm", "myKnownPeers"}
    assert "members" not in AnnounceReply(i_am=peer()).fields()


def test_news_are_read_and_written() -> None:
    news = News.read(NEWS)
    assert (news.state, news.incarnation, news.by) == ("suspect", 3, "c")
    assert Probe.read(Probe(i_am=peer(), news=[news]).fields()).news == [news]


@pytest.mark.parametrize(
    "change",
    [
        {"state": "asleep"},
        {"incarnation": -1},
        {"incarnation": 2**53 + 1},
        {"ip": "a b"},
        {"port": 0},
        {"by": "a\nb"},
        {"id": "x" * 200},
    ],
)
def test_news_that_break_a_rule_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidMessage, match=next(iter(change))):
        Probe.read({"iAm": {"id": "a", "ip": None, "port": 1}, "news": [{**NEWS, **change}]})


def test_no_more_news_than_peers_fit_into_one_message() -> None:
    with pytest.raises(InvalidMessage, match="news"):
        ProbeReply.read({"iAm": {"id": "a", "ip": None, "port": 1}, "news": [NEWS] * (MAX_PEERS + 1)})


# What people send may hold nothing unknown.


@pytest.mark.parametrize("rounds", [0, -1, 1_000_001, 1.5])
def test_a_number_of_rounds_that_is_none_is_named(rounds: float) -> None:
    with pytest.raises(InvalidMessage, match="rounds"):
        Trigger.read({"trainerId": "MNIST", "rounds": rounds})


# The messages of a round.


def test_who_starts_a_round_is_its_initiator_unless_it_says_otherwise() -> None:
    assert read(StartTraining).key.initiator == "a"
    assert read(StartTraining, initiator="b", round=4).key.initiator == "b"
    message = read(StartTraining, round=4)
    assert (message.sender, message.trainer, message.key.number) == ("a", "MNIST", 4)


def test_the_digest_is_that_of_what_came_not_of_what_was_said() -> None:
    held = params(w=[1.0])
    said = read(Accuracy, accuracy=0.5, digest="f" * 64)
    assert digest_of(said, None) == "f" * 64
    assert digest_of(said, held) == held.digest
    assert digest_of(AccuracyReply(i_am=peer(), accuracy=0.5), None) is None


# What travels beside the messages of a series: bounded, and nothing that is no number.


SERIES = {"by": "a", "first": 0, "until": "accuracy>=0.9", "rounds": 3}


@pytest.mark.parametrize(
    "wrong",
    [
        {"until": "x" * 201},
        {"until": "a\nb"},
        {"rounds": 0},
        {"first": -1},
        {"best": 1.5},
        {"means": [[0.5, None]] * 4},
        {"means": [[0.5]]},
        {"totalLoss": float("nan")},
        {"totalAccuracy": float("inf")},
    ],
)
def test_what_is_no_series_is_refused(wrong: dict[str, Any]) -> None:
    assert SeriesMessage.read(SERIES).until == "accuracy>=0.9"
    with pytest.raises(InvalidMessage):
        SeriesMessage.read(SERIES | wrong)


@pytest.mark.parametrize("wrong", [{"accuracy": 2}, {"loss": float("nan")}, {"over": "tired"}])
def test_what_is_no_report_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidMessage):
        ReportMessage.read({"accuracy": 0.5} | wrong)


@pytest.mark.parametrize(
    ("asked", "most"), [({}, 1), ({"rounds": 3}, 3), ({"until": "no-gain 2"}, MOST_ROUNDS),
                        ({"until": "no-gain 2", "rounds": 1}, 1)],
)  # fmt: skip
def test_how_many_rounds_are_asked_for(asked: dict[str, Any], most: int) -> None:
    assert Trigger.read({"trainerId": "T", **asked}).most == most


# --- Effects come in the one order in which they are performed.


SAVE, ANSWER = Save({}), Answer(Triggered(trainer_id="T", round=0))
TEXT, TIMER, STOP = Publish("x", "words"), SetTimer("t", 1), CancelTimer("t")
TELL = TellJobs(PeerId("b"), alive=True)


def test_every_effect_has_its_place_in_the_order() -> None:
    assert set(ORDER) == set(typing.get_args(Effect))
    assert len(ORDER) == len(set(ORDER))


def test_what_is_promised_is_saved_first_and_news_come_last() -> None:
    effects: list[Effect] = [TEXT, TIMER, ANSWER, SAVE, STOP, TELL]
    for mixed in itertools.permutations(effects):
        assert in_order(mixed) == [SAVE, ANSWER, TELL, STOP, TIMER, TEXT]


@given(st.lists(st.integers(0, 3)))
def test_equal_kinds_keep_their_order(numbers: list[int]) -> None:
    timers = [SetTimer(str(number), number) for number in numbers]
    assert in_order(timers) == timers


# --- When a version of a peer is newer than what is known of it.


OLD = Mark("run 1", 7, Digest("a" * 64))
OTHER = Digest("b" * 64)


@pytest.mark.parametrize(
    ("mark", "newer"),
    [
        (Mark("run 1", 8, OTHER), True),
        (Mark("run 1", 6, OTHER), False),  # it was long on its way
        (Mark("run 1", 7, OTHER), False),
        (Mark("run 2", 7, OLD.digest), False),  # it was started again, and holds the same model
        (Mark("run 2", 8, OTHER), True),
        (Mark("run 2", 1, OTHER), True),  # it lost its disk: no old version is meant by the low number
        (Mark("run 2", 0, OTHER), False),  # and has not trained since
    ],
)
def test_a_version_is_known_by_run_number_and_digest(mark: Mark, newer: bool) -> None:
    assert mark.is_newer_than(OLD) is newer


def test_of_a_peer_of_which_nothing_is_known_every_trained_version_is_new() -> None:
    assert OLD.is_newer_than(None)
    assert not Mark("run 1", 0, OTHER).is_newer_than(None)


# What people read of how an update counted.


def test_only_what_is_known_is_shown() -> None:
    assert Weighed().view() == {}
    assert Weighed(0.0, norm=250.0, reason="it moved too far").view() == {
        "weight": 0.0,
        "norm": 250.0,
        "reason": "it moved too far",
    }


def test_shares_sum_to_one_and_are_alike_if_all_weigh_nothing() -> None:
    a, b = PeerId("a"), PeerId("b")
    assert shares({a: 1.0, b: 3.0}) == {a: 0.25, b: 0.75}
    assert shares({a: 0.0, b: 0.0}) == {a: 0.5, b: 0.5}
    assert shares({}) == pytest.approx({})


# --- Statements of updates: what is signed, what stands in a record, and what is no contribution.


KEY = TestKey(1)
PLAIN = Contribution("b", "T", 3, "a", "1" * 64, "2" * 64, "3" * 64, 40, 2)


def test_the_statement_names_every_field_but_the_signature_in_a_fixed_order() -> None:
    stated = replace(PLAIN, key="k", signature="s", segments="r")
    lines = stated.statement().decode().splitlines()
    assert lines[:4] == ["flnet contribution, version 1", "peer: b", "trainer: T", "round: 3"]
    assert [line.partition(":")[0] for line in lines[1:]] == [
        f.name for f in fields(stated) if f.name != "signature"
    ]
    assert stated.statement() == replace(stated, signature="other").statement()
    # As before there were segments.
    assert replace(stated, segments="").statement() == "\n".join(lines[:-1]).encode()


@pytest.mark.parametrize("name", [one.name for one in fields(PLAIN) if one.name != "signature"])
def test_a_change_of_any_field_is_another_statement(name: str) -> None:
    value = getattr(PLAIN, name)
    other: Any = value + 1 if isinstance(value, int) else value + "x"
    changed = replace(PLAIN, **{name: other})
    assert changed.statement() != PLAIN.statement()


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_no_two_names_make_one_statement(peer: str, trainer: str, other: str, another: str) -> None:
    one, two = replace(PLAIN, peer=peer, trainer=trainer), replace(PLAIN, peer=other, trainer=another)
    assert (one.statement() == two.statement()) == (one == two)


@pytest.mark.parametrize("stated", [PLAIN, replace(PLAIN, key=KEY.text, signature="c2lnbmVk")])
def test_what_stands_in_a_record_is_read_back(stated: Contribution) -> None:
    view = stated.view()
    assert not view.keys() & {"trainer", "round", "initiator"}
    assert Contribution.read(view, "T", 3, "a") == stated
    assert stated.is_signed == bool(stated.signature)


@pytest.mark.parametrize(
    "view",
    [
        {},
        [],
        None,
        "b",
        {**PLAIN.view(), "examples": "40"},
        {**PLAIN.view(), "labels": True},
        {**PLAIN.view(), "key": None},
    ],
)
def test_what_is_no_contribution_is_not_read_as_one(view: Any) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Contribution.read(view, "T", 3, "a")


def test_the_largest_announcement_and_the_largest_answer_are_within_their_limit() -> None:
    name, host = "\N{GRINNING FACE}" * MAX_NAME, "a" * 63 + ("." + "a" * 63) * 2 + "." + "a" * 61
    caller = Peer(id=name, ip=host, port=65535)
    member = News(id=name, ip=host, port=65535, state="suspect", incarnation=MAX_INCARNATION, by=name)
    common: dict[str, Any] = {
        "i_am": caller,
        "accepts": ("a" * 40,) * 16,
        "incarnation": MAX_INCARNATION,
        "members": [member] * (2 * MAX_PEERS),
        "key": "A" * 43 + "=",
    }
    for largest in (
        Announce(my_known_peers=[caller] * MAX_PEERS, **common),
        AnnounceReply(announce_yourself_to_peers=[caller] * MAX_PEERS, **common),
    ):
        assert ANNOUNCE_BYTES / 2 < len(JsonCodec().encode(Packet(largest))) <= ANNOUNCE_BYTES
