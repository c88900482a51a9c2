"""Every step of a job without common rounds stands in its table, whatever comes in whatever order."""

from __future__ import annotations

import contextlib
from random import Random

import pytest

from flnet.effects import Average, Fetch, Train
from flnet.errors import PeerError
from flnet.events import (
    Averaged,
    AveragingFailed,
    DataChanged,
    Event,
    Fetched,
    FetchFailed,
    HyperParamsEdited,
    Paused,
    PeerLost,
    PeerSeen,
    Resumed,
    RoundTriggered,
    SendFailed,
    SendRefused,
    SeriesStopped,
    TimerFired,
    Trained,
    TrainingFailed,
    VersionAnswered,
    VersionReceived,
)
from flnet.jobs import Phase
from flnet.jobs.steps import ASYNCHRONOUS, draw
from flnet.messages import AskVersion
from flnet.params import Params, PeerId
from tests.helpers import key, params
from tests.jobs.helpers import asked, came, declaration, declined
from tests.jobs.versions import ALONE, AloneBench, version

SAID = dict(ALONE.said())


class Walk:
    """One job that hears anything that can come, drawn by chance."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.bench = AloneBench()
        self.under_way: list[Event] = []
        self.numbers: list[int] = []

    def step(self) -> None:
        event = self._next()
        with contextlib.suppress(PeerError):
            self.bench.hear(event)
            self._note()
        self.numbers.append(self.bench.state.number)

    def _note(self) -> None:
        """What is under way now, and how it may end."""
        for train in self.bench.all(Train):
            done = Trained(train.key, self._some(), 3, 0.5)
            self.under_way.append(self.rng.choice((done, done, TrainingFailed(train.key, "chance"))))
        for average in self.bench.all(Average):
            done_ = Averaged(average.key, self._some())
            self.under_way.append(self.rng.choice((done_, AveragingFailed(average.key, "chance"))))
        for fetch in self.bench.all(Fetch):
            of = (fetch.key, fetch.peer, fetch.digest)
            self.under_way.append(self.rng.choice((Fetched(*of, self._some()), FetchFailed(*of, "chance"))))

    def _some(self) -> Params:
        return params(w=(self.rng.random(), 0))

    def _next(self) -> Event:
        rng, peer = self.rng, PeerId(self.rng.choice("acd"))
        if self.under_way and rng.random() < 0.4:
            return self.under_way.pop(rng.randrange(len(self.under_way)))
        said = version(peer, rng.randrange(4), (rng.random(), 0), run=rng.choice(("run 1", "run 2")))
        timers = [f"versions:{self.bench.state.number}"]
        if self.bench.state.averaging is not None:
            timers.append(self.bench.state.averaging.timer)
        at = key(self.bench.state.number, "b") if self.bench.state.key else key(1, "b")
        return rng.choice(
            (
                RoundTriggered(rng.choice((1, 1, 2))),
                RoundTriggered(3, until="accuracy>=0.9"),
                VersionReceived(said, SAID),
                *(VersionAnswered(said),) * 4,
                SendFailed(peer, AskVersion.path, at, "chance"),
                SendRefused(peer, AskVersion.path, at, 503, "not_ready", "chance"),
                PeerSeen(peer),
                PeerLost(peer, "chance"),
                TimerFired(rng.choice(timers)),
                Paused(),
                Resumed(),
                SeriesStopped(),
                HyperParamsEdited({"e": 3}),
                DataChanged(declaration(), params(w=(0, 0)), rng.choice((0, 5))),
                asked(peer),
                came(peer),
                declined(peer),
            )
        )


@pytest.mark.parametrize("seed", range(40))
def test_any_order_of_events_keeps_to_the_table_and_numbers_never_go_back(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(150):
        walk.step()
    assert walk.numbers == sorted(walk.numbers)
    records = [record.key.number for record in walk.bench.state.history]
    assert records == sorted(set(records))


def test_each_phase_of_common_rounds_that_is_not_needed_is_not_in_the_table() -> None:
    used = set(Phase) - {Phase.GATHERING, Phase.MEASURING, Phase.EXCHANGING}
    assert set(ASYNCHRONOUS) == used
    reached = {after for row in ASYNCHRONOUS.values() for ends in row.values() for after in ends}
    assert reached == used


def test_the_picture_shows_the_way_of_a_version() -> None:
    drawn = draw(ASYNCHRONOUS)
    assert "IDLE --> FETCHING: Resumed, RoundTriggered" in drawn
    assert "AVERAGING --> TRAINING: Averaged, AveragingFailed" in drawn
