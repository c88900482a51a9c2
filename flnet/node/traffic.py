"""How many bytes of parameters a round moved to and from this node; messages without them do not count."""

from __future__ import annotations

from collections.abc import Mapping

from flnet.node.per_round import MOST_ROUNDS, PerRound
from flnet.params import RoundKey, TrainerId


class Traffic:
    """Adds up the bodies with parameters that went out and came in, round by round."""

    def __init__(self, most: int = MOST_ROUNDS) -> None:
        """Args:
        most: rounds of each job that are kept; the oldest is forgotten first.
        """
        self._rounds = PerRound[dict[str, int]](lambda: {"sent": 0, "received": 0}, most)

    def sent(self, trainer: TrainerId, key: RoundKey, nbytes: int) -> None:
        """A body of this round went out."""
        self._rounds.of(trainer, key)["sent"] += nbytes

    def received(self, trainer: TrainerId, key: RoundKey, nbytes: int) -> None:
        """A body of this round came in, or the part of it that did."""
        self._rounds.of(trainer, key)["received"] += nbytes

    def view(self, trainer: TrainerId, key: RoundKey) -> Mapping[str, int]:
        """{sent, received}, in bytes."""
        return dict(self._rounds.find(trainer, key) or {"sent": 0, "received": 0})
