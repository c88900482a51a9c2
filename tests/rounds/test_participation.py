"""Part of the mesh: how many train, and that all nodes choose the same ones."""

from __future__ import annotations

import hashlib
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import ParamsRefused
from flnet.params.params import PeerId
from flnet.protocol.effects import Average, Evaluate, Send, SetTimer, Train
from flnet.protocol.events import (
    DeclineReceived,
    Event,
    Paused,
    PeerLost,
    RoundTriggered,
    TimerFired,
)
from flnet.protocol.messages import ChoiceMessage, ModelParams, StartTraining
from flnet.rounds.participation import Participation, chosen, more_owned
from flnet.rounds.settings import Rules
from flnet.rounds.steps import Phase
from tests.helpers import key
from tests.rounds.helpers import WAITS, Bench, asked, came
from tests.rounds.scenarios import Lasting

EIGHT = tuple(PeerId(f"n{i}") for i in range(8))
NAMES = st.lists(st.text("abcdefgh-_.", min_size=1, max_size=8), min_size=1, max_size=20, unique=True)


@pytest.mark.parametrize(
    ("fraction", "least", "members", "take"),
    [
        (0.5, 2, 8, 4),
        (0.5, 2, 5, 3),  # a fraction that is not whole is rounded up
        (0.7, 1, 10, 7),  # 0.7 x 10 is a little above 7 in floating point
        (0.1, 2, 8, 2),  # the minimum
        (0.1, 1, 8, 1),
        (0.01, 1, 3, 1),
    ],
)
def test_the_fraction_says_how_many_train(fraction: float, least: int, members: int, take: int) -> None:
    named = tuple(PeerId(f"n{i}") for i in range(members))
    assert Participation(fraction, least).choice_of(named) == ChoiceMessage(members=named, take=take)


@pytest.mark.parametrize(("fraction", "least", "members"), [(1.0, 2, 8), (0.5, 2, 2), (0.1, 9, 8), (0.9, 1, 3)])
def test_there_is_no_choice_where_all_train(fraction: float, least: int, members: int) -> None:
    assert Participation(fraction, least).choice_of(EIGHT[:members]) is None


def test_nodes_compare_what_they_were_told_unless_all_train() -> None:
    assert Participation().words == ""
    assert Participation(0.5, 3).words == "0.5 of the nodes, at least 3"


def test_the_choice_is_by_hash() -> None:
    def place(name: str) -> str:
        return hashlib.sha256(f"5:MNIST:7:{name}".encode()).hexdigest()

    assert chosen(ChoiceMessage(members=EIGHT, take=3), "MNIST", 7) == frozenset(sorted(EIGHT, key=place)[:3])


@given(NAMES, st.integers(1, 20), st.integers(0, 10**9), st.randoms(use_true_random=False))
def test_the_order_of_members_changes_nothing(names: list[str], take: int, round: int, rng: Random) -> None:
    members = [PeerId(name) for name in names]
    trains = chosen(ChoiceMessage(members=tuple(members), take=take), "MNIST", round)
    rng.shuffle(members)
    assert chosen(ChoiceMessage(members=tuple(members), take=take), "MNIST", round) == trains
    assert len(trains) == min(take, len(members)) and trains <= set(members)


def test_all_nodes_have_their_turns() -> None:
    choice = ChoiceMessage(members=EIGHT, take=4)
    turns = Counter(peer for round in range(400) for peer in chosen(choice, "MNIST", round))
    assert sum(turns.values()) == 1600 and min(turns.values()) > 160


# --- Part of the mesh trains. By the hash, of a, b and c: a and b in round 0, b and c in 1, a and c in 2.


ABC = ChoiceMessage(members=("a", "b", "c"), take=2)
HALF = Rules(Participation(0.5, 2))
SAID = {"participation": "0.5 of the nodes, at least 2"}
A, B, C = (PeerId(name) for name in "abc")


def start(number: int = 2, choice: ChoiceMessage | None = ABC) -> Event:
    return asked("a", number, choice=choice, agreement=SAID)


def test_who_starts_a_round_names_its_members_and_not_the_chosen() -> None:
    job = Bench(rules=HALF)
    job.hear(RoundTriggered())
    assert job.said(StartTraining).choice == ABC
    assert job.said(StartTraining).agreement == SAID
    assert job.phase is Phase.TRAINING
    job.train()
    assert job.said(ModelParams).choice == ABC
    job.hear(came("a", initiator="b"))
    assert job.one(Average).updates[1].peer == "b"  # nobody waited for c


def test_who_is_not_chosen_says_nothing_and_averages_what_comes() -> None:
    job = Bench(rules=HALF)
    job.hear(start())
    assert job.phase is Phase.GATHERING
    assert not job.all(Send) and not job.all(Train)
    assert job.job.view().sits_out == "not chosen" and job.job.view().chosen == [
        "a",
        "c",
    ]
    assert job.job.view().waiting_for == ["a", "c"]
    job.hear(came("a", 2))
    job.hear(came("c", 2))
    assert [update.peer for update in job.one(Average).updates] == ["a", "c"]
    job.average()
    job.measure()
    assert job.round.record.outcome == (
        "averaged 2 updates: all expected updates arrived; 2 of 3 nodes were chosen"
    )
    assert (job.round.record.chosen, job.round.record.pre_accuracy) == (("a", "c"), None)


def test_a_node_may_start_a_round_for_which_it_is_not_chosen() -> None:
    job = Bench(me="c", peers=("a", "b"), rules=HALF)
    job.hear(RoundTriggered())
    assert job.phase is Phase.GATHERING
    assert job.said(StartTraining).choice == ABC and not job.all(Train)
    job.hear(came("a", initiator="c"))
    job.hear(came("b", initiator="c"))
    assert [update.peer for update in job.one(Average).updates] == ["a", "b"]


def test_a_chosen_node_that_dies_or_declines_is_not_waited_for() -> None:
    job = Bench(rules=HALF)
    job.hear(start())
    job.hear(DeclineReceived(C, key(2, "a"), "no time"))
    job.hear(came("a", 2))
    assert [update.peer for update in job.one(Average).updates] == ["a"]
    other = Bench(rules=HALF)
    other.hear(start())
    other.hear(PeerLost(A, ""))
    other.hear(PeerLost(C, ""))
    assert other.phase is Phase.IDLE  # nobody is left who would send something


def test_an_update_of_one_who_was_not_chosen_counts_if_it_is_there() -> None:
    job = Bench(peers=("a", "c", "d"), rules=HALF)
    job.hear(start())
    for name in ("d", "a", "c"):
        job.hear(came(name, 2))
    assert [update.peer for update in job.one(Average).updates] == ["a", "c", "d"]


def test_who_does_not_train_waits_longer_until_the_first_update_is_there() -> None:
    job = Bench(rules=HALF)
    job.hear(start())
    timer = job.all(SetTimer)[0]
    assert timer.seconds == 4 * WAITS.average
    job.hear(came("a", 2))
    assert job.one(SetTimer) == SetTimer(timer.name, WAITS.average, WAITS.margin)
    job.hear(TimerFired(timer.name))
    assert job.phase is Phase.AVERAGING


def test_a_start_that_comes_after_the_first_update_still_says_who_trains() -> None:
    job = Bench(rules=HALF)
    job.hear(came("c", 2))
    assert job.phase is Phase.IDLE
    job.hear(start())
    assert not job.all(Send) and not job.all(Train)
    job.hear(came("a", 2))
    assert job.one(Average)


def test_an_update_says_who_trains_to_who_missed_the_start() -> None:
    job = Bench(rules=HALF)
    job.hear(type(came("c"))(came("c", 2).update, SAID, ABC))
    job.hear(type(came("a"))(came("a", 2).update, SAID, ABC))
    assert job.one(Average) and not job.all(Send)


def test_a_paused_node_that_is_not_chosen_needs_not_say_so() -> None:
    job = Bench(rules=HALF)
    job.hear(Paused())
    job.hear(start())
    assert not job.all(Send)
    other = Bench(me="c", peers=("a", "b"), rules=HALF)
    other.hear(Paused())
    other.hear(start())
    assert other.said(ModelParams).declined


@pytest.mark.parametrize(
    ("rules", "agreement"),
    [
        (HALF, {}),  # a node of ours that lets all train
        (HALF, {"participation": "0.25 of the nodes, at least 2"}),
        (Rules(), SAID),
    ],
)
def test_nodes_must_agree_on_who_trains(rules: Rules, agreement: dict[str, str]) -> None:
    job = Bench(rules=rules)
    with pytest.raises(ParamsRefused, match="do not agree on participation"):
        job.hear(asked("a", agreement=agreement))


def test_a_caller_of_the_thesis_form_cannot_know_and_all_train() -> None:
    job = Bench(rules=HALF)
    job.hear(asked("a", 2))
    assert job.phase is Phase.TRAINING and job.round.chosen is None


def test_a_restarted_node_that_was_not_chosen_still_is_not() -> None:
    bench = Lasting(rules=HALF)
    bench.hear(start())
    bench.hear(came("a", 2))
    bench.restart()
    assert bench.phase is Phase.GATHERING and not bench.all(Train) and not bench.all(Send)
    bench.hear(came("c", 2))
    assert [update.peer for update in bench.one(Average).updates] == ["a", "c"]
    bench.average()
    assert bench.one(Evaluate)


@pytest.mark.parametrize(
    ("owned", "more"),
    [
        ([4, 4, 4], {}),
        ([1, 1, 1], {}),
        ([4, 1, 4], {"n0": 4, "n2": 4}),
        ([4, 2, 2], {"n0": 2}),
        ([3, 2, 1], {"n0": 3, "n1": 2}),
        ([4] * 64 + [1], {f"n{number}": 4 for number in range(64)}),
        ([4] * 65 + [1], {}),  # more segments than an offer may name
    ],
)
def test_nodes_own_as_few_segments_as_in_the_proportion_that_they_stated(
    owned: list[int], more: dict[str, int]
) -> None:
    assert more_owned({PeerId(f"n{number}"): count for number, count in enumerate(owned)}) == more


def test_a_choice_in_which_nobody_knows_segments_is_not_believed() -> None:
    rule, old = Participation(names_all=True), PeerId("old")
    choice = ChoiceMessage(members=("old",), take=1, whole=("old",))
    assert rule.believed(choice, {PeerId("a"), old}, {old}) is None


def test_a_choice_in_which_a_stranger_owns_segments_or_there_are_too_many_is_not_believed() -> None:
    rule = Participation(names_all=True)
    members = [PeerId(f"n{number:02}") for number in range(70)]
    for owned, is_believed in (({"n01": 4}, True), ({"x": 2}, False), ({str(name): 4 for name in members}, False)):
        choice = ChoiceMessage(members=tuple(members), take=70, owned=owned)
        assert (rule.believed(choice, members) == choice) == is_believed
