"""Rounds in which a node averages with its neighbours alone: whom it hears, what it says, and which model it keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from flnet.algorithms.topology import Topology
from flnet.errors import ParamsRefused
from flnet.params.params import PeerId
from flnet.protocol.effects import Average, Evaluate, Fetch, Send
from flnet.protocol.events import (
    Averaged,
    ClaimReceived,
    PeerSeen,
    RoundTriggered,
    TimerFired,
    UpdateOffered,
    UpdateReceived,
)
from flnet.protocol.messages import Accuracy, ChoiceMessage, ModelParams, StartTraining
from flnet.protocol.updates import Update
from flnet.rounds.participation import Participation
from flnet.rounds.segmented_round import UNKNOWN
from flnet.rounds.settings import Rules
from flnet.rounds.sparse_round import SparseRound
from flnet.rounds.steps import Phase
from tests.helpers import key, params

from .helpers import Bench, asked, came, claim, declined, refuses

NAMES = ("a", "b", "c", "d", "e", "f")
RULES = Rules(Participation(names_all=True), topology=Topology.read("ring"))


def choice(*names: str) -> ChoiceMessage:
    return ChoiceMessage(members=names or NAMES, take=len(names or NAMES))


def begun(**more: Any) -> tuple[Bench, list[str], list[str]]:
    """Node b in a round of six, its neighbours, and the others."""
    bench = Bench("b", [name for name in NAMES if name != "b"], rules=RULES, **more)
    bench.hear(RoundTriggered())
    assert isinstance(bench.round, SparseRound)
    near = sorted(map(str, bench.round.links))
    return bench, near, [name for name in NAMES if name not in (*near, "b")]


def mix(bench: Bench, w: tuple[float, float] = (3, 3), spread: float | None = 0.25) -> None:
    bench.hear(Averaged(bench.one(Average).key, params(w=w), spread=spread))


def test_the_start_goes_to_all_and_the_update_to_neighbours() -> None:
    bench, near, _ = begun()
    assert len(near) == 2
    started = next(effect for effect in bench.all(Send) if isinstance(effect.message, StartTraining))
    assert set(started.to) == set(NAMES) - {"b"}
    bench.train()
    (sent,) = (effect for effect in bench.all(Send) if isinstance(effect.message, ModelParams))
    assert sorted(sent.to) == near


def test_the_round_waits_for_neighbours_and_averages_by_their_links() -> None:
    bench, near, _ = begun()
    bench.train()
    bench.hear(came(near[0], 0, "b"))
    assert bench.round.waiting_for == [near[1]]
    bench.hear(came(near[1], 0, "b"))
    average = bench.one(Average)
    assert average.links == dict.fromkeys(near, 1 / 3)
    assert [update.peer for update in average.updates] == sorted([*near, "b"])


def test_the_update_of_another_node_is_refused() -> None:
    bench, _, others = begun()
    error = refuses(bench, came(others[0], 0, "b"), ParamsRefused)
    assert "its sender is no neighbour of this node" in str(error)
    offered = Update(PeerId(others[1]), key(0, "b"), params(w=(1, 1)), 1)
    refuses(bench, UpdateOffered(offered, offered.params.digest), ParamsRefused)


def test_an_update_of_another_node_that_tells_of_the_round_does_not_count_in_it() -> None:
    _, near, others = begun()
    bench = Bench("b", [name for name in NAMES if name != "b"], rules=RULES)
    for name in (others[0], *near):
        bench.hear(replace(came(name, 0, "a"), choice=choice()))
    assert bench.round.listening and set(bench.round.gathering.updates) == set(near)
    bench.hear(asked("a", 0, choice=choice()))
    bench.train()
    assert [update.peer for update in bench.one(Average).updates] == sorted([*near, "b"])


def test_a_neighbour_that_takes_no_part_is_not_waited_for() -> None:
    bench, near, _ = begun()
    bench.train()
    bench.hear(came(near[0], 0, "b"))
    bench.hear(declined(near[1], 0, "b"))
    assert [update.peer for update in bench.one(Average).updates] == sorted([near[0], "b"])


def through(bench: Bench, near: list[str]) -> None:
    bench.train()
    for name in near:
        bench.hear(came(name, 0, "b"))
    mix(bench)
    bench.measure(0.5)


def test_no_model_of_a_peer_is_adopted_and_the_record_has_the_spread() -> None:
    bench, near, others = begun()
    through(bench, near)
    assert bench.said(Accuracy).accuracy == 0.5
    for name in (*near, *others):
        bench.hear(ClaimReceived(claim(name, 0, accuracy=0.99, contributors=3)))
        assert not bench.all(Evaluate) and not bench.all(Fetch)
    assert (bench.phase, bench.w) == (Phase.IDLE, [3, 3])
    record = bench.job.history.records[-1]
    assert (record.spread, record.exchanged_with) == (0.25, None)
    assert bench.job.view().spread == 0.25
    assert type(record).read(record.view()) == record


def test_after_the_first_round_the_initiators_model_is_not_asked_for() -> None:
    bench, near, others = begun()
    through(bench, near)
    for name in (*near, *others):
        bench.hear(ClaimReceived(claim(name, 0, accuracy=0.1)))
    bench.start_accuracy = None
    bench.hear(asked("a", 1, w=(9, 9), base_round=0, contributors=3, choice=choice()))
    assert bench.phase is Phase.TRAINING and not bench.all(Evaluate)
    assert bench.w == [3, 3]


def test_the_first_round_begins_with_the_initiators_model() -> None:
    bench = Bench("b", [name for name in NAMES if name != "b"], rules=RULES)
    bench.hear(asked("a", 0, w=(9, 9), choice=choice()))
    assert (bench.phase, bench.w) == (Phase.TRAINING, [9, 9])


def test_a_start_without_members_is_refused_for_it_would_end_the_open_round() -> None:
    bench, _, _ = begun()
    assert "which says who takes part" in str(refuses(bench, asked("a", 1), ParamsRefused))
    assert "which says who takes part" in str(
        refuses(bench, asked("a", 1, choice=choice("a", "b")), ParamsRefused)
    )


def test_a_node_that_hears_of_a_round_without_its_members_sits_it_out() -> None:
    bench = Bench("b", [name for name in NAMES if name != "b"], rules=RULES)
    for name in "cd":
        bench.hear(came(name, 0, "a"))
    words = "the start of this round, which says who takes part, did not reach it"
    assert bench.said(ModelParams).declined == words


def test_a_node_that_the_start_does_not_name_sits_the_round_out() -> None:
    bench = Bench("b", [name for name in NAMES if name != "b"], rules=RULES)
    bench.hear(asked("a", 0, choice=choice("a", "c", "d", "e", "f")))
    assert bench.said(ModelParams).declined == "the choice of who trains does not name it"


def test_a_neighbour_that_comes_back_is_sent_the_update_and_another_node_none() -> None:
    bench, near, others = begun()
    bench.train()
    for name in (near[0], others[0]):
        bench.job.peers.away[PeerId(name)] = bench.round.key
        bench.hear(PeerSeen(PeerId(name)))
        sent = [
            peer for effect in bench.all(Send) if isinstance(effect.message, ModelParams) for peer in effect.to
        ]
        assert sent == ([name] if name in near else [])


# --- what others say of who takes part


EVERYBODY = ("a", "b", "c", "d", "e", "f", "x", "y")
OTHERS = tuple(name for name in EVERYBODY if name != "b")


def said_by(name: str, words: str, names: Sequence[str]) -> UpdateReceived | UpdateOffered:
    """An update of the round that a starts, with these members."""
    word = replace(came(name, 0, "a"), choice=choice(*names))
    if not words.startswith("segments"):
        return word
    digest = word.update.params.digest
    return UpdateOffered(replace(word.update, segments=(digest,) * len(names)), digest, choice=word.choice)


@pytest.mark.parametrize("words", ["ring", "random:2", "segments:3"])
def test_members_cannot_keep_a_node_out_before_the_initiator_has_spoken(words: str) -> None:
    rules = Rules(Participation(names_all=True), topology=Topology.read(words))
    bench = Bench("b", OTHERS, rules=rules)
    for name in "xy":
        bench.hear(said_by(name, words, OTHERS))
    declined = [send.message for send in bench.all(Send) if getattr(send.message, "declined", None)]
    assert bench.round.listening and not declined
    bench.hear(asked("a", 0, choice=choice(*EVERYBODY)))
    assert bench.phase is Phase.TRAINING and bench.round.choice == choice(*EVERYBODY)


@pytest.mark.parametrize("words", ["ring", "segments:3"])
def test_if_the_initiator_says_nothing_either_it_takes_no_part(words: str) -> None:
    rules = Rules(Participation(names_all=True), topology=Topology.read(words))
    bench = Bench("b", OTHERS, rules=rules)
    for name in "xy":
        bench.hear(said_by(name, words, OTHERS))
    bench.hear(TimerFired("start:0:a"))
    assert [send.message.declined for send in bench.all(Send) if isinstance(send.message, ModelParams)] == [
        UNKNOWN
    ]
