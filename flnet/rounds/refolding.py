"""A sum that has to be made again, because it holds updates that turned out not to count.

Updates that were folded are not here any more, and sums in float64 cannot be undone to the last bit. So all others
are fetched once more from those that sent them, one after another in the order of the peers, and folded as they
come; what had not been folded joins them in the average. Only an attack, or a broken node, makes this happen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flnet.effects import Average, CancelTimer, Effect, Fetch, Fold, SetTimer
from flnet.events import Event, Fetched, FetchFailed, TimerFired
from flnet.params import Digest, PeerId, RoundKey, Update


class Refolding:
    """Fetches and folds the updates of one round again, then asks for the average, once."""

    def __init__(
        self, key: RoundKey, folded: Sequence[tuple[Update, Digest]], held: Sequence[Update], patience: float
    ) -> None:
        """Args:
        folded: what was in the sum and counts, sorted by peer, with the digests of the parameters; what is here
            with its parameters is not fetched.
        held: what counts and was never folded, sorted by peer.
        patience: seconds for all of it; what has not come by then is left out.
        """
        self.timer = f"sum-again:{key.number}:{key.initiator}"
        self.lost: dict[PeerId, str] = {}
        self.done = False
        self._key, self._patience = key, patience
        self._waiting, self._held = list(folded), tuple(held)
        self._folded: list[PeerId] = []

    def start(self) -> list[Effect]:
        """Begin."""
        return [SetTimer(self.timer, self._patience), *self._go_on()]

    def receive(self, event: Event) -> list[Effect]:
        """Take the end of a fetch, or the timer."""
        match event:
            case _ if self.done:
                return []
            case Fetched(_, peer, digest, params) if self._awaits(peer, digest):
                update, _ = self._waiting[0]
                self._waiting[0] = replace(update, params=params), digest
                return self._go_on()
            case FetchFailed(_, peer, digest, reason) if self._awaits(peer, digest):
                self._leave(self._waiting[0][0], f"its update could not be fetched again: {reason}")
                return self._go_on()
            case TimerFired(name) if name == self.timer:
                for update in [update for update, _ in self._waiting if not update.params]:
                    self._leave(update, "there was no time to fetch its update again")
                return self._go_on()
        return []

    def _awaits(self, peer: PeerId, digest: Digest) -> bool:
        update, wanted = self._waiting[0]
        return update.peer == peer and wanted == digest

    def _leave(self, update: Update, reason: str) -> None:
        self._waiting = [one for one in self._waiting if one[0].peer != update.peer]
        self.lost[update.peer] = reason

    def _go_on(self) -> list[Effect]:
        """Fold what is here, then fetch the next one; after the last one, average."""
        here: list[Update] = []
        while self._waiting and self._waiting[0][0].params:
            here.append(self._waiting.pop(0)[0])
        self._folded += [update.peer for update in here]
        folds: list[Effect] = [Fold(self._key, tuple(here))] if here else []
        if self._waiting:
            update, digest = self._waiting[0]
            return [*folds, Fetch(self._key, update.peer, digest)]
        self.done = True
        return [*folds, CancelTimer(self.timer), Average(self._key, self._held, tuple(self._folded))]
