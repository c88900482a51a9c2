"""How many bytes of parameters a round moved to and from this node; messages without them do not count."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from flnet.params import RoundKey, TrainerId

MOST_ROUNDS = 10_000  # of all jobs; strangers may name rounds that never come


class Traffic:
    """Adds up the bodies with parameters that went out and came in, round by round."""

    def __init__(self, most: int = MOST_ROUNDS) -> None:
        """Args:
        most: rounds that are kept; the oldest is forgotten first.
        """
        self._most = most
        self._rounds: OrderedDict[tuple[TrainerId, RoundKey], dict[str, int]] = OrderedDict()

    def sent(self, trainer: TrainerId, key: RoundKey, nbytes: int) -> None:
        """A body of this round went out."""
        self._of(trainer, key)["sent"] += nbytes

    def received(self, trainer: TrainerId, key: RoundKey, nbytes: int) -> None:
        """A body of this round came in, or the part of it that did."""
        self._of(trainer, key)["received"] += nbytes

    def view(self, trainer: TrainerId, key: RoundKey) -> Mapping[str, int]:
        """{sent, received}, in bytes."""
        return dict(self._rounds.get((trainer, key), {"sent": 0, "received": 0}))

    def _of(self, trainer: TrainerId, key: RoundKey) -> dict[str, int]:
        counts = self._rounds.setdefault((trainer, key), {"sent": 0, "received": 0})
        while len(self._rounds) > self._most:
            self._rounds.popitem(last=False)
        return counts
