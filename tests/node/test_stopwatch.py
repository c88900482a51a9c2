"""Seconds of a round's parts, on a clock of the test's own."""

from __future__ import annotations

from flnet.jobs import Phase
from flnet.node.stopwatch import Stopwatch
from flnet.params import RoundKey, TrainerId
from tests.helpers import key

T, U = TrainerId("T"), TrainerId("U")


class Watched:
    """A stopwatch, and what its clock says."""

    def __init__(self) -> None:
        self.at = 100.0
        self.watch = Stopwatch(lambda: self.at)

    def spend(self, seconds: float, phase: Phase, at: RoundKey | None = None, trainer: TrainerId = T) -> None:
        """A job is in this phase for a while."""
        self.watch.note(trainer, at, phase)
        self.at += seconds


def test_every_part_of_a_round_is_told() -> None:
    watched = Watched()
    watched.spend(5, Phase.IDLE)
    for seconds, phase in [
        *((1, Phase.FETCHING), (2, Phase.TRAINING), (4, Phase.GATHERING)),
        *((8, Phase.AVERAGING), (16, Phase.MEASURING), (32, Phase.EXCHANGING)),
    ]:
        watched.spend(seconds, phase, key(0))
    watched.spend(64, Phase.IDLE, key(0))
    watched.spend(128, Phase.GATHERING, key(1))
    assert watched.watch.seconds(T, key(0)) == {"fetch": 1, "wait": 4, "measure": 16, "exchange": 32}
    assert watched.watch.seconds(T, key(1)) == {}  # it goes on


def test_what_is_heard_in_between_does_not_count_twice_and_a_phase_may_come_again() -> None:
    watched = Watched()
    for phase in [Phase.GATHERING, Phase.GATHERING, Phase.TRAINING, Phase.GATHERING, Phase.AVERAGING]:
        watched.spend(1, phase, key(0))
    assert watched.watch.seconds(T, key(0)) == {"wait": 3}


def test_the_same_phase_of_the_next_round_is_another_one() -> None:
    watched = Watched()
    watched.spend(3, Phase.GATHERING, key(0))
    watched.spend(4, Phase.GATHERING, key(7))
    watched.spend(0, Phase.IDLE, key(7))
    assert (watched.watch.seconds(T, key(0)), watched.watch.seconds(T, key(7))) == ({"wait": 3}, {"wait": 4})


def test_jobs_are_kept_apart() -> None:
    watched = Watched()
    watched.spend(1, Phase.MEASURING, key(0), T)
    watched.spend(2, Phase.EXCHANGING, key(0), U)
    for trainer in (T, U):
        watched.spend(0, Phase.IDLE, key(0), trainer)
    assert watched.watch.seconds(T, key(0)) == {"measure": 3}
    assert watched.watch.seconds(U, key(0)) == {"exchange": 2}
