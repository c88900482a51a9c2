"""Why a node sits a round out, as people see it."""

from __future__ import annotations

from flnet.events import Paused
from flnet.jobs.showing import shown
from tests.jobs.helpers import Bench, asked


def test_who_trains_sits_nothing_out() -> None:
    job = Bench()
    assert shown(job.state)["sits_out"] == ""
    job.hear(asked("a"))
    assert shown(job.state)["sits_out"] == "" and shown(job.state)["chosen"] is None


def test_the_reason_that_peers_were_told_is_shown_while_the_round_is_open() -> None:
    job = Bench()
    job.hear(Paused())
    job.hear(asked("a"))
    assert shown(job.state)["sits_out"] == "paused by a person here"
