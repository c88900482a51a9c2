"""A node that is much slower than its peers, and short runs of it for the table of steps."""

from __future__ import annotations

from collections.abc import Callable

from flnet.events import Event, RoundTriggered, Trained, TrainingFailed
from flnet.jobs import Rules
from flnet.params import PeerId
from tests.helpers import key, params
from tests.jobs.helpers import Bench, asked, came

LATE = Rules(staleness=2)


def slow(bench: Bench) -> Bench:
    """Of this node it is known that it takes ten times as long as its peers."""
    bench.state.rules = LATE
    for name, seconds in (("a", 1.0), ("b", 10.0), ("c", 1.0)):
        bench.state.paces.note(PeerId(name), seconds, 1)
    return bench


def ended(number: int, w: float = 8.0) -> Event:
    """The training that began in this round, which a started, is done."""
    return Trained(key(number), params(w=[w, w]), 4, 0.5, seconds=10.0)


def go_by(bench: Bench, number: int) -> None:
    """A round of the others begins, and is averaged here."""
    bench.hear(asked("a", number))
    for name in sorted(bench.state.peers):
        bench.hear(came(name, number))
    bench.average()


def awaited(bench: Bench) -> None:
    """Two rounds have gone by: the third one waits for this node."""
    slow(bench)
    go_by(bench, 0)
    go_by(bench, 1)
    bench.hear(asked("a", 2))


def awaited_and_done(bench: Bench) -> None:
    awaited(bench)
    bench.hear(came("a", 2))
    bench.hear(ended(0))


def awaited_and_failed(bench: Bench) -> None:
    awaited(bench)
    bench.hear(came("a", 2))
    bench.hear(TrainingFailed(key(0), "no memory"))


def awaited_and_failed_without_any_update(bench: Bench) -> None:
    awaited(bench)
    for peer in sorted(bench.state.peers):
        bench.hear(came(peer, 2)) if peer != "a" else None
    bench.state.averaging.expected.discard(PeerId("a"))  # type: ignore[union-attr]
    bench.hear(TrainingFailed(key(0), "no memory"))


def awaited_and_failed_in_a_series(bench: Bench) -> None:
    awaited(bench)
    bench.state.rounds_left = 1
    bench.state.averaging.expected.discard(PeerId("a"))  # type: ignore[union-attr]
    bench.hear(TrainingFailed(key(0), "no memory"))


def started_here(bench: Bench) -> None:
    slow(bench)
    bench.hear(RoundTriggered(rounds=2))


LAGGING: list[Callable[[Bench], None]] = [
    awaited_and_done,
    awaited_and_failed,
    awaited_and_failed_without_any_update,
    awaited_and_failed_in_a_series,
    started_here,
]
