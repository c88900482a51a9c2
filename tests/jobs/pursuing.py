"""What happens to a job in series with a goal, as scripts for the table of steps."""

from __future__ import annotations

from flnet.events import PeerLost, PeerSeen, RoundTriggered, TimerFired, WillingnessChanged
from flnet.params import PeerId
from tests.jobs.helpers import Bench, asked, came

A = PeerId("a")


def peers_series(bench: Bench) -> None:
    """A round of a series that peer a started, over here and there."""
    mine = Bench("a", peers=["b"])
    mine.hear(RoundTriggered(9, until="accuracy>=0.9"))
    bench.hear(asked("a", 0, series=mine.state.pursuit.said()))
    bench.train()
    bench.hear(came("a"))
    bench.average()
    bench.measure(0.5)
    bench.hear(TimerFired("exchange:0:a"))


def nobody_starts_the_next_round(bench: Bench) -> None:
    peers_series(bench)
    bench.hear(TimerFired("goal:next"))


def who_was_to_start_the_next_round_is_gone(bench: Bench) -> None:
    peers_series(bench)
    bench.hear(PeerSeen(PeerId("c")))
    bench.hear(PeerLost(A, "gone"))


def its_turn_comes_while_it_is_unwilling(bench: Bench) -> None:
    peers_series(bench)
    bench.hear(WillingnessChanged("outside of the hours"))
    bench.hear(TimerFired("goal:next"))
    bench.hear(WillingnessChanged())


PURSUING = [
    nobody_starts_the_next_round,
    who_was_to_start_the_next_round_is_gone,
    its_turn_comes_while_it_is_unwilling,
]
