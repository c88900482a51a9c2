"""A node that is much slower trains on while rounds go by, and its update counts in a later one, for less."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flnet.params.params import PeerId
from flnet.protocol.effects import Average, CancelWork, Evaluate, Save, Send, Train
from flnet.protocol.events import DeclineReceived, Paused, PeerLost, RoundTriggered, Trained, TrainingFailed
from flnet.protocol.messages import ModelParams
from flnet.rounds.settings import Rules
from flnet.rounds.staleness import LATE as WHY
from flnet.rounds.steps import Phase
from tests.helpers import key, params
from tests.rounds.helpers import Bench, asked, came, declined, prepared
from tests.rounds.scenarios import LATE, Lasting, awaited, ended, go_by, slow


def test_a_slow_node_says_at_once_that_nobody_needs_to_wait_and_trains() -> None:
    job = slow(Bench())
    job.hear(asked("a"))
    word = job.said(ModelParams)
    assert word.declined == "its training goes on over this round, and counts when it is done" and word.late
    assert job.one(Train).key == key(0)
    assert (job.phase, job.job.view().sits_out) == (Phase.GATHERING, word.declined)


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
    assert job.published["late_update"] == "this node's update is a round late and counts for less"
    assert job.one(Train).key == key(1)
    for name in ("a", "c"):
        job.hear(came(name, 1))
    counted = {update.peer: (update.examples, update.staleness) for update in job.one(Average).updates}
    assert counted == {"a": (1, 0), "b": (4, 1), "c": (1, 0)}


def test_the_round_in_which_it_is_as_late_as_may_be_waits_for_it() -> None:
    job = Bench()
    awaited(job)
    assert job.phase is Phase.GATHERING and not job.all(Send)
    for name in ("a", "c"):
        job.hear(came(name, 2))
    assert job.phase is Phase.GATHERING
    job.hear(ended(0))
    assert job.said(ModelParams).staleness == 2
    assert job.published["late_update"] == "this node's update is 2 rounds late and counts for less"
    assert job.one(Average).updates[1].staleness == 2


def test_what_is_later_than_that_is_given_up() -> None:
    job = Bench()
    awaited(job)
    job.hear(asked("a", 3))
    assert job.one(CancelWork).key == key(0)
    assert job.one(Train).key == key(3)
    done = slow(Bench())
    go_by(done, 0)
    done.hear(ended(0))
    done.hear(asked("a", 3))
    assert (done.job.staleness.late, done.one(Train).key) == (None, key(3))


def test_a_training_that_fails_says_so_only_where_somebody_waits() -> None:
    job = slow(Bench())
    go_by(job, 0)
    job.hear(TrainingFailed(key(0), "no memory"))
    assert not job.all(Send) and "no memory" in str(job.job.error)
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


def test_the_view_names_nodes_that_train_on_until_their_update_has_come() -> None:
    bench = Bench(rules=Rules(staleness=3))
    assert bench.job.view().late == []
    bench.hear(asked("a"))
    bench.hear(DeclineReceived(PeerId("c"), key(), WHY, late=True))
    assert bench.job.view().late == ["c"]
    bench.hear(came("c", staleness=1))
    assert bench.job.view().late == []


def test_nobody_waits_for_its_accuracy_either() -> None:
    job = Bench(rules=Rules(staleness=2))
    job.hear(asked("a"))
    job.train()
    job.hear(DeclineReceived(PeerId("c"), key(), "slow", late=True))
    job.hear(came("a"))
    job.average()
    job.measure()
    assert job.round.waiting_for == ["a"]


def test_without_the_setting_a_slow_node_trains_as_all_do() -> None:
    job = slow(Bench())
    job.job.settings.rules = Rules()
    job.hear(asked("a"))
    assert job.phase is Phase.TRAINING


@pytest.mark.parametrize("peers", [(), ("a",)])
def test_alone_it_waits_for_itself(peers: tuple[str, ...]) -> None:
    job = slow(Bench(peers=peers))
    job.hear(asked("a"))
    assert job.one(Train).key == key(0)
    assert job.phase is (Phase.GATHERING if peers else Phase.TRAINING)


# --- Late updates and refusals outlive a restart, and another start of the round in which they were said.


NEW = ("late", "trains_on")  # figures that earlier versions did not keep


def late(by: str, number: int = 0) -> DeclineReceived:
    """A slow peer trains on over a round that a started."""
    return replace(declined(by, number), late=True)


def lasting() -> Lasting:
    return Lasting(rules=LATE)


def slow_one() -> Lasting:
    """A node that is known to be slow, and trains on over round 0."""
    bench = lasting()
    slow(bench)
    bench.hear(asked("a"))
    return bench


def test_a_refusal_is_on_the_disk_as_soon_as_it_is_heard() -> None:
    bench = lasting()
    bench.hear(asked("a"))
    bench.hear(late("c"))
    assert (bench.saved.snapshot["expected"], bench.saved.snapshot["late"]) == (["a", "b"], ["c"])
    bench.train()
    bench.hear(came("a"))
    assert bench.phase is Phase.AVERAGING
    bench.hear(late("c"))
    assert not bench.all(Save)  # it changes nothing any more


def test_who_comes_back_waits_neither_for_a_slow_peer_nor_for_its_accuracy() -> None:
    bench = lasting()
    bench.hear(asked("a"))
    bench.train()
    bench.hear(late("c"))
    bench.restart()
    bench.meet("a")
    bench.meet("c")
    bench.hear(came("a"))
    bench.average()
    bench.measure()
    assert bench.round.waiting_for == ["a"]


@pytest.mark.parametrize("after", ["a restart while gathering", "a restart while measuring", "its own return"])
def test_a_slow_peer_hears_the_update_after(after: str) -> None:
    bench = lasting()
    bench.hear(asked("a"))
    bench.train((3, 5))
    bench.hear(late("c"))
    if "measuring" in after:
        bench.hear(came("a"))
        bench.average()
    if "restart" in after:
        bench.restart()
    else:
        bench.hear(PeerLost(PeerId("c"), "killed"))
    bench.meet("c")
    assert bench.said(ModelParams).digest == params(w=[3, 5]).digest


def test_a_slow_node_that_comes_back_says_so_again_and_trains_again() -> None:
    bench = slow_one()
    before = bench.one(Train)
    bench.restart()
    assert bench.one(Train) == before
    bench.meet("a")
    word = bench.said(ModelParams)
    assert (word.declined, word.late) == (WHY, True)
    bench.meet("c")
    for name in ("a", "c"):
        bench.hear(came(name))
    bench.average()
    bench.hear(ended(0))
    bench.hear(asked("a", 1))
    assert bench.said(ModelParams).staleness == 1


def test_a_training_of_an_earlier_round_starts_again_from_the_newest_average() -> None:
    bench = slow_one()
    for name in ("a", "c"):
        bench.hear(came(name))
    bench.average()
    bench.hear(asked("a", 1))
    assert bench.said(ModelParams).late and not bench.all(Train)
    bench.restart()
    train = bench.one(Train)
    assert (train.key, train.params["w"].tolist()) == (key(1), [1.0, 1.0])


def test_a_pause_ends_a_training_that_goes_on_over_rounds() -> None:
    bench = slow_one()
    began = bench.job.staleness.behind
    assert began is not None
    bench.hear(Paused())
    assert bench.one(CancelWork) == CancelWork(began.key, at_once=True)
    assert (bench.job.staleness.behind, bench.all(Send)) == (None, [])  # it had declined already
    bench.hear(Trained(began.key, params(w=[8, 8]), 4, 0.5))
    assert bench.job.staleness.late is None


def test_a_paused_node_and_one_without_a_training_do_not_train_again() -> None:
    bench = slow_one()
    bench.hear(Paused())
    bench.restart()
    assert not bench.all(Train) and bench.phase is Phase.GATHERING
    other = slow_one()
    other.hear(TrainingFailed(key(), "no memory"))
    other.hear(came("c"))
    other.restart()
    assert not other.all(Train) and other.phase is Phase.GATHERING


def test_a_pause_while_the_data_of_a_restarted_node_are_loaded_lets_no_training_go_on() -> None:
    bench = slow_one()
    bench.restart(prepare=False)
    bench.hear(Paused())
    bench.hear(prepared())
    assert not bench.all(Train) and bench.phase is Phase.GATHERING


def test_where_all_train_on_the_round_waits_for_them_over_a_restart_too() -> None:
    bench = slow_one()
    bench.hear(late("a"))
    bench.restart()
    bench.hear(late("c"))
    assert bench.phase is Phase.GATHERING
    assert bench.round.gathering.missing == ["a", "b", "c"]
    bench.hear(ended(0))
    assert bench.round.gathering.missing == ["a", "c"]


def test_what_an_earlier_version_kept_is_read_as_before() -> None:
    bench = slow_one()
    bench.hear(late("c"))
    figures = {name: value for name, value in bench.saved.snapshot.items() if name not in NEW}
    bench.saved = replace(bench.saved, snapshot=figures)
    bench.restart()
    assert bench.phase is Phase.GATHERING and not bench.all(Train)
    assert bench.round.gathering.late == set()


def test_a_late_update_is_said_again_in_the_start_that_comes_first() -> None:
    job = slow(Bench())
    go_by(job, 0)
    job.hear(ended(0))
    job.hear(asked("c", 1))
    first = job.said(ModelParams)
    assert job.one(Train).key == key(1, "c")
    job.hear(asked("a", 1))
    again = job.said(ModelParams)
    assert (again.initiator, again.staleness, again.seconds) == ("a", 1, 10.0)
    assert (again.digest, again.examples, again.accuracy) == (first.digest, first.examples, first.accuracy)
    assert not job.all(Train) and not job.all(CancelWork)  # that one goes on
    for name in ("a", "c"):
        job.hear(came(name, 1))
    counted = {update.peer: (update.examples, update.staleness) for update in job.one(Average).updates}
    assert counted == {"a": (1, 0), "b": (4, 1), "c": (1, 0)}
    assert job.round.record.pre_accuracy == 0.5
    job.average()
    job.hear(Trained(key(1, "c"), params(w=[8, 8]), 4, 0.5))
    job.hear(asked("a", 2))
    assert job.said(ModelParams).staleness == 1


def test_a_late_update_that_a_round_waited_for_is_said_again_too() -> None:
    job = slow(Bench())
    go_by(job, 0)
    go_by(job, 1)
    job.hear(asked("c", 2))
    job.hear(ended(0))
    assert job.said(ModelParams).staleness == 2
    job.hear(asked("a", 2))
    again = job.said(ModelParams)
    assert (again.initiator, again.staleness) == ("a", 2)


def test_after_a_restart_it_is_said_again_as_well() -> None:
    bench = slow_one()
    for name in ("a", "c"):
        bench.hear(came(name))
    bench.average()
    bench.hear(ended(0))
    bench.hear(asked("c", 1))
    message = bench.said(ModelParams)
    bench.restart()
    bench.meet("a")
    bench.hear(asked("a", 1))
    again = bench.said(ModelParams)
    assert (again.digest, again.staleness, again.initiator) == (message.digest, 1, "a")


def test_in_the_next_round_it_is_not_said_twice() -> None:
    job = slow(Bench())
    go_by(job, 0)
    job.hear(ended(0))
    go_by(job, 1)
    job.hear(asked("a", 2))
    assert job.said(ModelParams).late
    assert not [effect for effect in job.all(Send) if effect.params is not None]


def test_an_update_in_time_is_not_said_again() -> None:
    job = Bench(rules=LATE)
    job.hear(RoundTriggered())
    job.train()
    job.hear(asked("a"))
    assert job.one(Train).key == key() and job.job.staleness.late is None
