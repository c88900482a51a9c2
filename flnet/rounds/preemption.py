"""Which starts of peers this node follows at once, and which wait until its own round is over.

The start of a newer round preempts the open one: the mesh may have left it, or a person elsewhere may not want to wait
any longer for a node. It may also come from a member that starts one round after the other, and so leads this node from
round to round alone. So each peer may do this STARTS times; then this node completes a round with the others first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set

from flnet.params.params import PeerId
from flnet.protocol.updates import RoundKey

STARTS = 2  # of one peer that this node follows before it has completed a round with most of the others
MOST_STARTS = 4  # of all peers together from which no update has ever been averaged here
RESTED = "preemption:rested"  # a timer


class Preemption:
    """Counts the starts of peers that this node followed since it completed a round with most of the others."""

    def __init__(self, me: PeerId) -> None:
        self._me = me
        self._followed: Counter[PeerId] = Counter()
        self._contributors: set[PeerId] = set()
        self._led_to = -1  # a round that most of the others have reached

    def allows(self, key: RoundKey, current: RoundKey | None) -> bool:
        """Whether a round may open now. One that this node starts, or that comes first of its number, always may.

        Args:
            key: of a round that comes before the current one in the total order.
            current: the round that this node is in; None before the first.
        """
        if current is None or key.initiator == self._me or key.number == current.number:
            return True
        if key.number <= self._led_to:
            return True
        if key.initiator in self._contributors:
            return self._followed[key.initiator] < STARTS
        others = sum(count for peer, count in self._followed.items() if peer not in self._contributors)
        return self._followed[key.initiator] < STARTS and others < MOST_STARTS

    def has_contributed(self, peer: PeerId) -> bool:
        """Whether an update of this peer, which has been reachable since, was averaged here."""
        return peer in self._contributors

    def entered(self, key: RoundKey) -> None:
        """This node follows into a round with a new number."""
        if key.initiator != self._me and key.number > self._led_to:
            self._followed[key.initiator] += 1

    def completed(self, contributors: Set[PeerId], unheard: Set[PeerId], peers: Set[PeerId]) -> None:
        """A round was averaged here after it had waited for its updates.

        Args:
            contributors: whose updates have come.
            unheard: peers that trained in it, but sent neither an update nor a refusal.
            peers: all that are reachable.
        """
        self._contributors = (self._contributors | contributors) & peers
        known = self._contributors or peers  # names that never sent an update are no measure of who is there
        if 2 * len(unheard & known) <= len(known):
            self.rest()

    def heard(self, numbers: Sequence[int], peers: Set[PeerId]) -> None:
        """An update of a newer round has come: follow the others as far as more than half of them are.

        Args:
            numbers: of the newer rounds in which peers are, each as it says of itself.
            peers: all that are reachable.
        """
        half = len(peers) // 2
        if len(numbers) > half:
            self._led_to = sorted(numbers, reverse=True)[half]

    def rest(self) -> None:
        """Enough time has passed to follow peers again."""
        self._followed.clear()
