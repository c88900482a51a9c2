"""Which starts of peers this node follows at once, and which wait until its own round is over.

The start of a newer round preempts the open one: the mesh may have left it, or a person elsewhere may not want to wait
any longer for a node. It may also come from a member that starts one round after the other, and so leads this node from
round to round alone. So each peer may do this STARTS times; then this node completes a round with the others first.
After that it follows those again whose updates were in the round, who started it, or who were not chosen to train in it.
A peer that leads this node away and never sends an update is followed again only when nothing has opened here for a
while, or FORGIVEN_ROUNDS rounds have been completed; until then its starts come after those of all others, also of the
same number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set

from flnet.params.params import PeerId
from flnet.protocol.updates import RoundKey

STARTS = 2  # of one peer that this node follows before it has completed a round with most of the others
MOST_STARTS = 4  # of all peers together from which no update has ever been averaged here
FORGIVEN_ROUNDS = 10
RESTED = "preemption:rested"  # a timer


class Preemption:
    """Counts the starts of peers that this node followed since it completed a round with most of the others."""

    def __init__(self, me: PeerId) -> None:
        self._me = me
        self._followed: Counter[PeerId] = Counter()
        self._contributors: set[PeerId] = set()
        self._led_to = -1  # a round that most of the others have reached
        self._completed = 0  # rounds, since all peers were followed again
        self._counted: RoundKey | None = None  # the round that this node followed last

    def allows(self, key: RoundKey, current: RoundKey | None) -> bool:
        """Whether a round may open now. One that this node starts always may.

        Args:
            key: of a round that comes before the current one in the total order.
            current: the round that this node is in; None before the first.
        """
        if current is None or key.initiator == self._me:
            return True
        if key.number == current.number:
            return not self.leads_astray(key.initiator) or self.leads_astray(current.initiator)
        return key.number <= self._led_to or self.may_lead(key.initiator)

    def may_lead(self, peer: PeerId) -> bool:
        """Whether a start of this node or peer preempts the open round, whatever its number."""
        if peer == self._me:
            return True
        if peer in self._contributors:
            return self._followed[peer] < STARTS
        others = sum(count for peer, count in self._followed.items() if peer not in self._contributors)
        return self._followed[peer] < STARTS and others < MOST_STARTS

    def leads_astray(self, peer: PeerId) -> bool:
        """Whether this node left its rounds for those of a peer that has never sent an update, as often as it does."""
        return not (self.has_contributed(peer) or self.may_lead(peer))

    def has_contributed(self, peer: PeerId) -> bool:
        """Whether an update of this peer, which has been reachable since, was averaged here."""
        return peer in self._contributors

    def entered(self, key: RoundKey) -> None:
        """This node follows into a round with a new number."""
        if key.initiator != self._me and key.number > self._led_to:
            self._followed[key.initiator] += 1
            self._counted = key

    def completed(
        self,
        key: RoundKey,
        contributors: Set[PeerId],
        unheard: Set[PeerId],
        peers: Set[PeerId],
        not_chosen: Set[PeerId] = frozenset(),
    ) -> None:
        """A round was averaged here after it had waited for its updates.

        Args:
            contributors: whose updates have come.
            unheard: peers that trained in it, but sent neither an update nor a refusal.
            not_chosen: peers that did not train in it because others were chosen: nobody can hold that against them.
            peers: all that are reachable.
        """
        self._contributors = (self._contributors | contributors) & peers
        known = self.known(peers)
        if 2 * len(unheard & known) > len(known):
            return
        if key == self._counted:  # its initiator led astray nobody, and need not train itself
            self._followed[key.initiator] -= 1
        for peer in self._contributors | not_chosen:
            del self._followed[peer]
        self._completed, self._counted = self._completed + 1, None
        if self._completed == FORGIVEN_ROUNDS:
            self.rest()

    def known(self, peers: Set[PeerId]) -> Set[PeerId]:
        """The measure of who is there: names that never sent an update are none, unless there are no others."""
        return self._contributors & peers or peers

    def heard(self, numbers: Sequence[int], known: int) -> None:
        """An update of a newer round has come: follow the others as far as more than half of them are.

        Args:
            numbers: of the newer rounds in which known peers are, each as it says of itself.
            known: how many are reachable.
        """
        half = known // 2
        if len(numbers) > half:
            self._led_to = sorted(numbers, reverse=True)[half]

    def rest(self) -> None:
        """Enough time has passed to follow peers again."""
        self._followed.clear()
        self._completed, self._counted = 0, None
