"""Rounds that a person requests while the data are being loaded begin when the data are there."""

from __future__ import annotations

import pytest

from flnet.errors import InvalidMessage, JobBusy
from flnet.params.params import PeerId
from flnet.protocol.effects import Answer, Save, Train
from flnet.protocol.events import (
    ClaimReceived,
    Paused,
    PeerSeen,
    PrepareFailed,
    Restored,
    RoundTriggered,
    SeriesStopped,
)
from flnet.protocol.messages import HyperParams, StartTraining, Triggered
from flnet.rounds.asynchronous_job import AsynchronousJob
from flnet.rounds.settings import Rules
from flnet.rounds.steps import Phase
from tests.helpers import key
from tests.rounds.helpers import AnyBench, Bench, asked, came, claim, prepared, refuses, settings


def loading(rounds: int = 1, **more: object) -> Bench:
    """A job whose trainer is being loaded, asked for rounds."""
    bench = Bench(prepare=False)
    bench.hear(RoundTriggered(rounds, **more))  # type: ignore[arg-type]
    return bench


def restarted(saved: Save) -> Bench:
    """The same node after a restart, with nothing loaded yet."""
    bench = Bench(peers=[], prepare=False)
    records = tuple(dict(record) for record in saved.records)
    bench.hear(Restored(saved.snapshot, None, None, None, (), records))
    return bench


def test_the_request_is_answered_at_once_and_begins_when_the_data_are_there() -> None:
    bench = loading(3)
    assert bench.one(Answer).message == Triggered(trainer_id="T", round=0)
    assert bench.published == {"put_off": "the requested rounds of T begin when its data are loaded"}
    assert (bench.phase, bench.job.view().rounds_left) == (Phase.LOADING, 3)
    bench.hear(prepared())
    assert (bench.phase, bench.job.number, bench.job.series.left) == (Phase.TRAINING, 0, 2)
    assert bench.said(StartTraining).round == 0
    assert bench.all(Answer) == []  # that was said long ago


def test_it_begins_with_its_own_hyper_parameters_and_goal() -> None:
    hyper = HyperParams(e=7, u=0.5, b=3)
    bench = loading(9, hyper=hyper, until="accuracy>=0.9")
    bench.hear(prepared())
    assert bench.one(Train).hyper == hyper
    goal = bench.job.view().goal
    assert goal is not None
    assert (goal.until, goal.rounds) == ("accuracy>=0.9", 9)


def test_the_round_that_a_peer_started_meanwhile_comes_first() -> None:
    bench = loading()
    bench.hear(asked("a", 0))
    bench.hear(prepared())
    assert (bench.job.key, bench.job.view().rounds_left) == (key(0, "a"), 1)
    bench.train()
    for name in "ac":
        bench.hear(came(name, 0, "a"))
    bench.average()
    bench.measure()
    for name in "ac":
        bench.hear(ClaimReceived(claim(name, 0, accuracy=0.1)))
    assert (bench.job.key, bench.job.view().rounds_left) == (key(1, "b"), 0)


def test_a_second_request_and_a_wrong_goal_are_refused() -> None:
    assert "requested already" in str(refuses(loading(), RoundTriggered(), JobBusy))
    refuses(Bench(prepare=False), RoundTriggered(until="fun"), InvalidMessage)
    refuses(Bench(prepare=False), RoundTriggered(why="it is time"), JobBusy)  # a schedule asks again


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Paused(), "the rounds requested while the data were being loaded do not begin: paused by a person here"),
        (PrepareFailed("no file"), "the rounds requested while the data were being loaded do not begin: no file"),
        (SeriesStopped(), "the series is stopped: 2 rounds of it are left out"),
    ],
)
def test_a_pause_a_stop_or_a_failed_load_drops_it_and_says_so(event: object, words: str) -> None:
    bench = loading(2)
    bench.hear(event)  # type: ignore[arg-type]
    assert bench.published["series_stopped"] == words
    assert bench.one(Save).snapshot.get("asked") is None
    bench.hear(prepared())
    assert (bench.phase, bench.job.number) == (Phase.IDLE, -1)


def test_a_restart_while_loading_keeps_it_and_the_peers_that_were_here_are_waited_for() -> None:
    again = restarted(loading(2).one(Save))
    again.hear(prepared())
    assert (again.phase, again.job.view().rounds_left) == (Phase.IDLE, 2)
    for name in "ac":
        again.hear(PeerSeen(PeerId(name)))
    assert (again.phase, again.job.number, again.job.series.left) == (Phase.TRAINING, 0, 1)


def test_what_was_kept_of_an_open_round_is_not_lost_by_a_request_while_loading() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    before = bench.one(Save)
    again = restarted(before)
    again.hear(RoundTriggered())
    assert again.one(Answer).message == Triggered(trainer_id="T", round=1)
    kept = again.one(Save).snapshot
    assert {name: kept[name] for name in ("round", "phase", "expected")} == {
        name: before.snapshot[name] for name in ("round", "phase", "expected")
    }
    again.hear(prepared())
    assert (again.phase, again.job.number) == (Phase.TRAINING, 0)  # the open round goes on first


def test_versions_begin_when_the_data_are_there_too() -> None:
    bench: AnyBench[AsynchronousJob] = AnyBench(AsynchronousJob(settings(rules=Rules(asynchronous=True))))
    bench.hear(RoundTriggered(2))
    assert bench.one(Answer).message == Triggered(trainer_id="T", round=1)
    bench.hear(prepared())
    assert (bench.phase, bench.job.number, bench.job.series.left) == (Phase.TRAINING, 1, 1)
