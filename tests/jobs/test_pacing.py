"""A job learns from its rounds how long nodes train, and waits so long for them."""

from __future__ import annotations

from dataclasses import replace

from flnet.effects import SetTimer
from flnet.events import Event, RoundTriggered, TimerFired, Trained
from flnet.messages import ModelParams
from tests.helpers import key, params
from tests.jobs.helpers import WAITS, Bench, came

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
