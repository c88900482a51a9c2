"""How long it is worth waiting: as long as the slowest of those that are missing needs, within the patience."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flnet.node.build import waits_of
from flnet.params.params import PeerId
from flnet.protocol.effects import Effect, SetTimer
from flnet.protocol.events import (
    ClaimReceived,
    Event,
    PeerLost,
    PeerSeen,
    RoundTriggered,
    TimerFired,
    Trained,
    UpdateOffered,
    UpdateReceived,
)
from flnet.protocol.messages import ModelParams
from flnet.protocol.updates import Update
from flnet.rounds.gathering import Closing, Gathering
from flnet.rounds.peers import (
    GRACE,
    MORE_ROUNDS,
    PATIENCE_EVERY,
    RESTED,
    SILENT_ROUNDS,
    Paces,
    Silence,
    wait_for,
)
from flnet.settings import Settings
from tests.helpers import key, params
from tests.rounds.helpers import WAITS, Bench, came, claim

A, B, C = (PeerId(name) for name in "abc")


def test_seconds_grow_with_the_epochs() -> None:
    paces = Paces()
    paces.note(A, 6.0, 2)
    assert paces.expected(5) == {A: 15.0}
    paces.note(A, None, 2)
    assert paces.expected(5) == {}


def test_who_did_not_come_in_time_is_unknown_and_the_ways_are_given_twice_the_time() -> None:
    paces = Paces()
    paces.missed(A)
    assert paces.doubt == 1.0  # it had the whole patience
    paces.note(A, 6.0, 2)
    paces.missed(A)
    assert (paces.expected(5), paces.doubt) == ({}, 2.0)


@pytest.mark.parametrize(
    ("missing", "expected", "passed", "wait"),
    [
        ([A], {A: 4.0}, 4.0, 14.0),  # 2 x 4 - 4, and 10 for the way
        ([A, B], {A: 4.0, B: 9.0}, 3.0, 25.0),  # the slowest counts
        ([A], {A: 4.0}, 20.0, 10.0),  # it is late already: only the way is left
        ([A], {A: 100.0}, 0.0, 60.0),  # never more than the patience
        ([A, B], {A: 4.0}, 4.0, 60.0),  # one that is not known has the patience
        ([], {}, 4.0, 60.0),
    ],
)
def test_the_wait_follows_the_slowest(
    missing: list[PeerId], expected: dict[PeerId, float], passed: float, wait: float
) -> None:
    assert wait_for(missing, expected, passed, patience=60.0, way=10.0) == wait


def timer(effects: list[Effect]) -> float:
    return next(effect.seconds for effect in effects if isinstance(effect, SetTimer))


def test_a_round_waits_as_long_as_its_slowest_node_needs() -> None:
    averaging = Gathering(key(), B, [A, C], 60.0, seconds={A: 2.0, B: 3.0, C: 20.0}, way=10.0)
    averaging.took(B, 5.0)
    assert timer(averaging.receive(UpdateReceived(Update(B, key(), params(w=[1.0]), 1)))) == 2 * 20 - 5 + 10


def test_who_does_not_train_waits_from_the_beginning_and_again_from_the_first_update() -> None:
    averaging = Gathering(key(), B, [A, C], 60.0, chosen=[A, C], seconds={A: 2.0, C: 20.0}, way=10.0)
    assert timer(averaging.rest()) == 2 * 20 + 10
    averaging.took(A, 2.0)
    assert timer(averaging.receive(UpdateReceived(Update(A, key(), params(w=[1.0]), 1)))) == 2 * 20 - 2 + 10


def test_what_is_being_fetched_has_the_whole_patience() -> None:
    averaging = Gathering(key(), B, [A, C], 60.0, seconds={A: 1.0, C: 1.0}, way=10.0)
    averaging.took(B, 1.0)
    assert timer(averaging.receive(UpdateReceived(Update(B, key(), params(w=[1.0]), 1)))) == 11.0
    averaging.receive(UpdateOffered(Update(A, key(), params(), 1), params(w=[2.0]).digest))
    assert timer(averaging.receive(TimerFired(averaging.timer))) == 60.0 - 11.0
    assert averaging.closed is None
    averaging.receive(TimerFired(averaging.timer))
    assert averaging.closed is Closing.TIMER


# --- Who says nothing is waited for less.


def test_names_that_never_spoke_share_the_rounds_in_which_they_are_waited_for() -> None:
    silence = Silence()
    for number in range(SILENT_ROUNDS):
        names = {PeerId(f"new{number}"), PeerId(f"newer{number}")}
        assert silence.silent(names) == set()
        silence.said_nothing(names)
    assert silence.silent({A, B}) == {A, B}


def test_who_has_spoken_has_more_rounds_also_when_it_was_lost_meanwhile() -> None:
    silence = Silence()
    silence.spoke(A)
    silence.lost(A)
    for _ in range(MORE_ROUNDS):
        assert silence.silent({A, B} - {B}) == set()
        silence.said_nothing({A, B})
    assert silence.silent({A, B}) == {A, B}
    silence.spoke(A)
    assert silence.silent({A, B}) == {B}


def test_all_are_waited_for_now_and_then() -> None:
    silence = Silence()
    for _ in range(PATIENCE_EVERY):
        silence.said_nothing({A})
    assert silence.silent({A, B}) == set()


def test_rounds_in_which_all_spoke_make_up_for_others() -> None:
    silence = Silence()
    for _ in range(SILENT_ROUNDS):
        silence.said_nothing({A})
    silence.all_spoke()
    assert silence.silent({B}) == set()
    silence.said_nothing({C})
    assert silence.silent({B}) == {B}


def test_who_never_sent_an_update_is_not_waited_for_after_the_average() -> None:
    job = Bench()
    job.hear(RoundTriggered())
    job.hear(own(0, 2.0))
    job.hear(word("a", 0, 2.0))
    job.hear(TimerFired(TIMER.format(0)))
    job.average()
    job.measure()
    assert job.round.waiting_for == [A]


def test_who_sent_updates_before_is_waited_for_after_the_average() -> None:
    job = after_a_round(5.0)
    job.hear(RoundTriggered())
    job.hear(own(1, 2.0))
    job.hear(word("a", 1, 2.0))
    job.hear(TimerFired(TIMER.format(1)))
    job.average()
    job.measure()
    assert job.round.waiting_for == [A, C]


def test_names_that_come_and_go_do_not_put_the_end_of_a_round_off() -> None:
    names = [PeerId(f"new{number}") for number in range(5)]
    averaging = Gathering(key(), B, [A, *names], 60.0, silent=names)
    averaging.receive(UpdateReceived(Update(A, key(), params(w=[1.0]), 1)))
    assert timer(averaging.receive(UpdateReceived(Update(B, key(), params(w=[1.0]), 1)))) == GRACE
    assert [averaging.receive(PeerLost(name, "gone")) for name in names[1:]] == [[]] * 4


def test_many_new_names_make_a_round_wait_a_few_seconds_only() -> None:
    job = Bench(peers=["a"])
    for number in range(SILENT_ROUNDS + 1):
        job.hear(PeerSeen(PeerId(f"new{number}")))
        job.hear(RoundTriggered())
        job.hear(own(number, 2.0))
        job.hear(word("a", number, 2.0))
        waited = wait(job) if job.all(SetTimer) else WAITS.average
        job.hear(TimerFired(TIMER.format(number)))
        job.average()
        job.measure()
        job.hear(ClaimReceived(claim("a", number, accuracy=0.1)))
        job.hear(PeerLost(PeerId(f"new{number}"), "gone"))
    assert waited == GRACE


# --- A job learns from its rounds how long nodes train, and waits so long for them.


TIMER = "forced-averaging:{}:b"


def word(peer: str, number: int, seconds: float) -> Event:
    return replace(came(peer, number, "b"), seconds=seconds)


def own(number: int, seconds: float) -> Event:
    return Trained(key(number, "b"), params(w=[1.0, 1.0]), 1, 0.5, seconds=seconds)


def wait(job: Bench) -> float:
    return next(timer.seconds for timer in job.all(SetTimer) if timer.name.startswith("forced"))


def after_a_round(seconds: float) -> Bench:
    """Rounds of b; a takes as long as b, c so many seconds."""
    job = Bench()
    job.hear(RoundTriggered())
    job.hear(own(0, 2.0))
    assert wait(job) == WAITS.average  # nobody is known yet
    assert job.said(ModelParams).seconds == 2.0
    for name, took in (("a", 2.0), ("c", seconds)):
        job.hear(word(name, 0, took))
    job.average()
    job.measure()
    return job


def test_the_next_round_waits_as_long_as_the_slowest_node_needs() -> None:
    job = after_a_round(5.0)
    job.hear(RoundTriggered())
    job.hear(own(1, 2.0))
    assert wait(job) == 2 * 5.0 - 2.0 + 4 + 2 * 2


def test_a_node_that_did_not_come_in_time_has_the_whole_patience_in_the_next_round() -> None:
    job = after_a_round(5.0)
    job.hear(RoundTriggered())
    job.hear(own(1, 2.0))
    job.hear(word("a", 1, 2.0))
    job.hear(TimerFired(TIMER.format(1)))
    job.average()
    job.measure()
    job.hear(RoundTriggered())
    job.hear(own(2, 2.0))
    assert wait(job) == WAITS.average
    job.hear(word("a", 2, 2.0))
    job.hear(word("c", 2, 5.0))
    job.average()
    job.measure()
    job.hear(RoundTriggered())
    job.hear(own(3, 2.0))
    assert wait(job) == 2 * 5.0 - 2.0 + 2 * (4 + 2 * 2)  # the ways are given twice the time


@pytest.fixture
def with_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.rounds.helpers.WAITS", replace(WAITS, rest=20))


@pytest.mark.usefixtures("with_rests")
def test_the_first_round_after_a_rest_has_the_whole_patience_and_the_next_one_less() -> None:
    job = after_a_round(5.0)
    claims(job, 0)
    assert [timer.seconds for timer in job.all(SetTimer) if timer.name == RESTED] == [20]
    job.hear(TimerFired(RESTED))
    job.hear(RoundTriggered())
    job.hear(own(1, 2.0))
    assert wait(job) == WAITS.average  # whose training process has ended needs longer than the last time
    job.hear(word("a", 1, 2.0))
    job.hear(word("c", 1, 9.0))
    job.average()
    job.measure()
    claims(job, 1)
    job.hear(RoundTriggered())
    job.hear(own(2, 2.0))
    assert wait(job) == 2 * 9.0 - 2.0 + 4 + 2 * 2


@pytest.mark.usefixtures("with_rests")
def test_rounds_that_follow_each_other_are_no_rest() -> None:
    job = after_a_round(5.0)
    claims(job, 0)
    job.hear(RoundTriggered())
    job.hear(TimerFired(RESTED))  # of the round before
    job.hear(own(1, 2.0))
    for name, took in (("a", 2.0), ("c", 5.0)):
        job.hear(word(name, 1, took))
    job.average()
    job.measure()
    claims(job, 1)
    job.hear(RoundTriggered())
    job.hear(own(2, 2.0))
    assert wait(job) == 2 * 5.0 - 2.0 + 4 + 2 * 2


def claims(job: Bench, number: int) -> None:
    """The claims of the peers, after which the round is closed."""
    for name in ("a", "c"):
        job.hear(ClaimReceived(claim(name, number, accuracy=0.1)))


@pytest.mark.parametrize(("idle", "rest"), [(60, 30), (600, 30), (8, 4)])
def test_a_rest_is_over_before_the_training_process_of_a_peer_ends(idle: float, rest: float) -> None:
    assert waits_of(Settings.model_validate({"worker_idle_seconds": idle})).rest == rest
