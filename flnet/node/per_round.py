"""Counters of rounds, bounded: of each job the rounds that were counted last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from flnet.jobs import HELD_ROUNDS
from flnet.params import RoundKey, TrainerId

MOST_ROUNDS = 2 * HELD_ROUNDS  # of each job; peers may name rounds that never come
V = TypeVar("V")


class PerRound(Generic[V]):
    """One counter for each round of each job; the oldest of a job is forgotten first."""

    def __init__(self, make: Callable[[], V], most: int = MOST_ROUNDS) -> None:
        """Args:
        make: a counter that has counted nothing.
        most: rounds of each job that are kept.
        """
        self._make, self._most = make, most
        self._rounds: dict[TrainerId, OrderedDict[RoundKey, V]] = {}

    def of(self, trainer: TrainerId, key: RoundKey) -> V:
        """The counter of a round, a new one if there is none."""
        rounds = self._rounds.setdefault(trainer, OrderedDict())
        if key not in rounds:
            rounds[key] = self._make()
            while len(rounds) > self._most:
                rounds.popitem(last=False)
        return rounds[key]

    def find(self, trainer: TrainerId, key: RoundKey) -> V | None:
        """The counter of a round, if there is one."""
        rounds = self._rounds.get(trainer)
        return None if rounds is None else rounds.get(key)
