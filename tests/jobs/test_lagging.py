"""A node that is much slower trains on while rounds go by, and its update counts in a later one, for less."""

from __future__ import annotations

import pytest

from flnet.effects import Average, CancelWork, Evaluate, Send, Train
from flnet.events import DeclineReceived, TrainingFailed
from flnet.jobs import Phase, Rules
from flnet.messages import ModelParams
from flnet.params import PeerId
from tests.helpers import key
from tests.jobs.helpers import Bench, asked, came
from tests.jobs.lagging import awaited, ended, go_by, slow


def test_a_slow_node_says_at_once_that_nobody_needs_to_wait_and_trains() -> None:
    job = slow(Bench())
    job.hear(asked("a"))
    word = job.said(ModelParams)
    assert word.declined == "its training goes on over this round, and counts when it is done" and word.late
    assert job.one(Train).key == key(0)
    assert (job.phase, job.job.view()["sits_out"]) == (Phase.GATHERING, word.declined)


def test_it_goes_on_with_the_average_of_the_others_and_does_not_measure_meanwhile() -> None:
    job = slow(Bench())
    go_by(job, 0)
    assert job.phase is Phase.IDLE and not job.all(Evaluate)
    assert job.w == [1.0, 1.0]


def test_its_update_counts_in_the_next_round_and_the_next_training_begins() -> None:
    job = slow(Bench())
    go_by(job, 0)
    job.hear(ended(0))
    assert not job.all(Send)
    job.hear(asked("a", 1))
    word = job.said(ModelParams)
    assert (word.staleness, word.declined, word.examples, word.seconds) == (1, None, 4, 10.0)
    assert job.one(Train).key == key(1)
    for name in ("a", "c"):
        job.hear(came(name, 1))
    found = {update.peer: (update.examples, update.staleness) for update in job.one(Average).updates}
    assert found == {"a": (1, 0), "b": (4, 1), "c": (1, 0)}


def test_the_round_in_which_it_is_as_late_as_may_be_waits_for_it() -> None:
    job = Bench()
    awaited(job)
    assert job.phase is Phase.GATHERING and not job.all(Send)
    for name in ("a", "c"):
        job.hear(came(name, 2))
    assert job.phase is Phase.GATHERING
    job.hear(ended(0))
    assert job.said(ModelParams).staleness == 2
    assert job.one(Average).updates[1].staleness == 2


def test_what_is_later_than_that_is_given_up() -> None:
    job = Bench()
    awaited(job)
    job.hear(asked("a", 3))
    assert job.one(CancelWork).key == key(0)
    assert job.one(Train).key == key(3)


def test_a_training_that_fails_says_so_only_where_somebody_waits() -> None:
    job = slow(Bench())
    go_by(job, 0)
    job.hear(TrainingFailed(key(0), "no memory"))
    assert not job.all(Send) and "no memory" in str(job.state.error)
    other = Bench()
    awaited(other)
    other.hear(TrainingFailed(key(0), "no memory"))
    assert other.said(ModelParams).declined == "training failed: no memory"


def test_a_node_that_is_overtaken_in_its_training_goes_on_with_it() -> None:
    job = Bench(rules=Rules(staleness=2))
    job.hear(asked("a"))
    job.hear(came("a"))
    job.hear(asked("a", 1))
    job.average()
    assert not job.all(CancelWork) and job.said(ModelParams).late
    plain = Bench()
    plain.hear(asked("a"))
    plain.hear(came("a"))
    plain.hear(asked("a", 1))
    assert plain.one(CancelWork).key == key(0)


def test_nobody_waits_for_its_accuracy_either() -> None:
    job = Bench(rules=Rules(staleness=2))
    job.hear(asked("a"))
    job.train()
    job.hear(DeclineReceived(PeerId("c"), key(), "slow", late=True))
    job.hear(came("a"))
    job.average()
    job.measure()
    assert job.state.exchange is not None and job.state.exchange.expected == {"a"}


def test_without_the_setting_a_slow_node_trains_as_all_do() -> None:
    job = slow(Bench())
    job.state.rules = Rules()
    job.hear(asked("a"))
    assert job.phase is Phase.TRAINING


@pytest.mark.parametrize("peers", [(), ("a",)])
def test_alone_it_waits_for_itself(peers: tuple[str, ...]) -> None:
    job = slow(Bench(peers=peers))
    job.hear(asked("a"))
    assert job.one(Train).key == key(0)
    assert job.phase is (Phase.GATHERING if peers else Phase.TRAINING)
