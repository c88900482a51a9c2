"""Scripts for the steps of a paused job: rare in a random walk, each of them possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

from flnet.effects import Average, Evaluate
from flnet.events import AveragingFailed, Event, Paused, PeerLost, Resumed, RoundTriggered, UpdateOffered
from flnet.params import Params, PeerId
from tests.helpers import key, params
from tests.jobs.helpers import Bench, asked, came, declined

LATER = 7  # a round far ahead: joined without an average in between


def nothing(bench: Bench) -> None:
    """IDLE."""


def training(bench: Bench) -> None:
    bench.hear(RoundTriggered())


def listening(bench: Bench) -> None:
    bench.hear(came("a"))


def fetching(bench: Bench) -> None:
    bench.hear(replace(asked("a"), params=None, digest=params(w=[1, 1]).digest))


def averaging(bench: Bench) -> None:
    training(bench)
    bench.train()
    bench.hear(came("a", 0, "b"))


def measuring(bench: Bench) -> None:
    averaging(bench)
    bench.average()


def exchanging(bench: Bench) -> None:
    bench.through_average(by=["a"])


def offered(by: str) -> UpdateOffered:
    """An update of the later round, to be fetched."""
    update = came(by, LATER, by).update
    return UpdateOffered(replace(update, params=Params()), update.params.digest)


STARTED: list[Event] = [asked("a", LATER)]
STARTED_WITHOUT_ITS_PEER: list[Event] = [declined("a", LATER), asked("a", LATER)]
TOLD_BY_ITS_UPDATE: list[Event] = [came("a", LATER)]
SPOKE_OF_A_NEWER_ONE: list[Event] = [declined("a", LATER, "z"), declined("z", LATER + 2, "z")]
TOLD_BY_WHO_SPOKE_OF_A_NEWER_ONE: list[Event] = [*SPOKE_OF_A_NEWER_ONE, came("z", LATER, "z")]
OFFERED_BY_WHO_SPOKE_OF_A_NEWER_ONE: list[Event] = [*SPOKE_OF_A_NEWER_ONE, offered("z")]


def then(reach: Callable[[Bench], None], events: Sequence[Event], bench: Bench) -> None:
    """Get somewhere, pause, and hear these."""
    reach(bench)
    bench.hear(Paused())
    for event in events:
        bench.hear(event)


def average_ends(events: Sequence[Event], fails: bool, bench: Bench) -> None:
    """While the average of round 0 is made, a later round begins elsewhere."""
    averaging(bench)
    average = bench.one(Average)
    then(nothing, events, bench)
    bench.effects = [average]
    if fails:
        bench.hear(AveragingFailed(key(0, "b"), "overflow"))
    else:
        bench.average()
    assert not bench.all(Evaluate)


def a_series_goes_on(bench: Bench) -> None:
    """A series is held up after its first round, and goes on."""
    bench.hear(RoundTriggered(rounds=2))
    bench.hear(Paused())
    bench.train()
    bench.hear(declined("a", 0, "b"))
    bench.average()
    bench.measure()
    bench.hear(PeerLost(PeerId("a"), "silent"))
    bench.hear(Resumed())


PAUSING: list[Callable[[Bench], None]] = [
    a_series_goes_on,
    *(
        partial(then, reach, events)
        for reach, events in product(
            (nothing, training, listening, fetching, measuring, exchanging),
            (
                STARTED,
                STARTED_WITHOUT_ITS_PEER,
                TOLD_BY_ITS_UPDATE,
                TOLD_BY_WHO_SPOKE_OF_A_NEWER_ONE,
                OFFERED_BY_WHO_SPOKE_OF_A_NEWER_ONE,
            ),
        )
    ),
    *(
        partial(average_ends, events, fails)
        for events, fails in product((TOLD_BY_ITS_UPDATE, STARTED_WITHOUT_ITS_PEER), (False, True))
    ),
]
