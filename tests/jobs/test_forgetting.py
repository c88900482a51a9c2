"""A node that lost its memory starts a round again that it had started before: others tell it to go on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flnet.effects import Save, Send, Train
from flnet.errors import StaleRound
from flnet.events import Restored, RoundTriggered, SendRefused, TimerFired
from flnet.jobs import Job, Phase
from flnet.messages import ModelParams, StartTraining
from flnet.params import PeerId, TrainerId
from tests.helpers import key, peer
from tests.jobs.choosing import OTHERS
from tests.jobs.helpers import WAITS, Bench, asked, came, declined, prepared, refuses


def test_a_start_that_was_forgotten_is_refused_with_the_round_that_it_repeats() -> None:
    for bench in (Bench(), Bench()):
        bench.hear(asked("a", run="first"))
        assert bench.hear(asked("a", run="first")) == []
        refusal = refuses(bench, asked("a", run="second"), StaleRound)
        assert dict(refusal.details()) == {"round": 0}
        bench.train()
        bench.hear(came("a"))
        bench.hear(came("c"))
        assert bench.hear(asked("a", run="first")) == []
        refuses(bench, asked("a", run="second"), StaleRound)


@pytest.mark.parametrize(("first", "second"), [(None, "second"), ("first", None), (None, None)])
def test_where_a_run_is_not_known_a_second_start_is_a_duplicate(first: str | None, second: str | None) -> None:
    bench = Bench()
    bench.hear(asked("a", run=first))
    assert bench.hear(asked("a", run=second)) == []


def test_who_forgot_its_start_goes_on_with_the_next_round_and_sits_it_out() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.hear(SendRefused(PeerId("a"), StartTraining.path, key(0, "b"), 409, StaleRound.code, "over", 0))
    assert (bench.state.number, bench.phase) == (1, Phase.GATHERING)
    assert bench.all(Train) == []
    assert bench.said(StartTraining).round == 1


def test_who_hears_words_of_its_own_next_round_starts_the_one_after_it() -> None:
    bench = Bench()
    bench.hear(declined("a", 0, "b"))
    bench.hear(declined("c", 1, "b"))
    bench.hear(RoundTriggered())
    assert bench.said(StartTraining).round == 2
    other = Bench()
    other.hear(declined("a", 0, "c"))
    other.hear(declined("c", 1, "b"))  # nothing says that round 0 was begun here
    other.hear(RoundTriggered())
    assert other.said(StartTraining).round == 0


def test_a_round_that_what_was_said_before_ended_empty_is_followed_by_the_next_one() -> None:
    bench = Bench(rules=OTHERS)
    bench.hear(RoundTriggered())
    bench.hear(declined("a", 0, "b"))
    assert bench.phase is Phase.IDLE
    stale = SendRefused(PeerId("a"), StartTraining.path, key(0, "b"), 409, StaleRound.code, "over", 0)
    bench.hear(stale)
    assert (bench.state.number, bench.phase) == (1, Phase.GATHERING)
    assert bench.said(StartTraining).round == 1
    bench.hear(replace(stale, peer=PeerId("c")))
    assert (bench.state.number, bench.all(Send)) == (1, [])


def test_a_round_that_was_averaged_is_not_begun_again_for_a_late_refusal() -> None:
    bench = Bench().through_round()
    bench.hear(SendRefused(PeerId("a"), StartTraining.path, key(0, "b"), 409, StaleRound.code, "over", 0))
    assert (bench.state.number, bench.phase) == (0, Phase.IDLE)


def test_an_update_in_a_round_that_this_node_forgot_is_no_reason_to_start_it_again() -> None:
    bench = Bench()
    bench.hear(came("a", 0, "b"))
    assert (bench.state.key, bench.all(Send)) == (key(0, "b"), [])


def test_a_run_is_kept_with_the_round_and_said_again_after_a_restart() -> None:
    def job(run: str) -> Job:
        made = Job(peer("b"), TrainerId("T"), WAITS, run=run)
        made.receive(prepared())
        return made

    first = job("first")
    opened = first.receive(RoundTriggered())
    (save,) = [effect for effect in opened if isinstance(effect, Save)]
    second = Job(peer("b"), TrainerId("T"), WAITS, run="second")
    second.receive(Restored(save.snapshot, save.params))
    second.receive(prepared())
    assert second.state.started_in == "first"
    assert job("second").state.started_in is None


def test_who_missed_the_start_and_hears_it_after_all_knows_its_run() -> None:
    bench = Bench()
    bench.hear(came("c"))
    bench.hear(asked("a", run="first"))
    refuses(bench, asked("a", run="second"), StaleRound)


def test_who_missed_the_start_knows_its_run_from_an_update() -> None:
    bench = Bench()
    bench.hear(replace(came("c"), run="first"))
    bench.hear(TimerFired(bench.state.start_timer))  # the start did not come in time
    assert bench.hear(asked("a", run="first")) == []
    refuses(bench, asked("a", run="second"), StaleRound)


def test_an_update_says_in_which_run_its_round_was_started() -> None:
    bench = Bench()
    bench.hear(asked("a", run="first"))
    bench.train()
    assert bench.said(ModelParams).run == "first"
