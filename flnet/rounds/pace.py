"""How long nodes train, as they said themselves with their updates, and how long it is worth waiting for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from flnet.params import PeerId

SLACK = 2.0  # times the last training, which a node may take this time
MOST_DOUBT = 1024.0


@dataclass
class Paces:
    """What is known of the nodes' trainings: seconds for one epoch of the last one.

    Attributes:
        doubt: by which the time for the ways of updates is multiplied: it doubles whenever an update did not come
            in a time that was worked out from these seconds, as on a line that is slow for its size.
    """

    seconds: dict[PeerId, float] = field(default_factory=dict)
    doubt: float = 1.0

    def note(self, peer: PeerId, seconds: float | None, epochs: int) -> None:
        """A node took so long for so many epochs; one that does not say so is not known any more."""
        if seconds:
            self.seconds[peer] = seconds / epochs
        else:
            self.seconds.pop(peer, None)

    def missed(self, peer: PeerId) -> None:
        """A node did not come in time: the next round has the whole patience for it, later ones wait longer."""
        if self.seconds.pop(peer, None) is not None:
            self.doubt = min(2 * self.doubt, MOST_DOUBT)

    def is_slow(self, me: PeerId, peers: Collection[PeerId]) -> bool:
        """Whether a node is known to take more than `SLACK` times as long as the median of these others."""
        others = sorted(self.seconds[peer] for peer in peers if peer in self.seconds)
        return bool(others) and self.seconds.get(me, 0.0) > SLACK * others[len(others) // 2]

    def expected(self, epochs: int) -> Mapping[PeerId, float]:
        """Seconds that those nodes will take for so many epochs of which that is known."""
        return {peer: seconds * epochs for peer, seconds in self.seconds.items()}


def wait_for(
    missing: Collection[PeerId], expected: Mapping[PeerId, float], passed: float, patience: float, way: float
) -> float:
    """Seconds worth waiting for nodes; never more than the patience, which holds where one of them is not known.

    Args:
        missing: who has not spoken.
        expected: seconds that nodes will take.
        passed: seconds for which they have been training already, as far as this node knows.
        patience: what people set.
        way: that an update may take when it is ready, also when it has to be said again.
    """
    if not missing or any(peer not in expected for peer in missing):
        return patience
    rest = max(0.0, SLACK * max(expected[peer] for peer in missing) - passed)
    return min(patience, rest + way)
