"""Which memory of the aggregation rule the updates of a round are averaged with, where nodes must remember the same.

An update states the digest of the memory that its sender would average with, or that it remembers nothing yet
(`NOTHING`). A memory that at least half of these updates state is that of all nodes, so nodes with the same updates decide
alike; of two, the one with the lower digest. If there is none, all nodes begin again: a minority can plant no memory, not
even where the others remember different things. Updates of nodes that share no memory, as in earlier versions, state
nothing and have no vote.

A node that remembers something else, because it joined, missed a round or lost an update, fetches that memory from a peer
that stated it, and averages with it. Peers serve what they stated until their next update. If nothing came in time, the
node averages with its own memory and says that its average is not the common one, so it adopts that of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from flnet.aggregation.base import SharedMemory
from flnet.errors import ParamsRefused
from flnet.params.params import Digest, Params, PeerId
from flnet.protocol.effects import Average, Effect, Publish
from flnet.protocol.events import Event
from flnet.protocol.updates import RoundKey, Update
from flnet.rounds.download import ParamsDownload
from flnet.rounds.model import NOTHING, HeldModel
from flnet.rounds.settings import Tell
from flnet.text import text


def common_memory(updates: Collection[Update]) -> Digest | None:
    """The digest of the memory that all nodes average these updates with, or NOTHING; None: no update states any."""
    counts = Counter(update.memory for update in updates if update.memory is not None)
    if not counts:
        return None
    half = counts.total() / 2
    return min((digest for digest in counts if counts[digest] >= half and digest != NOTHING), default=NOTHING)


class MemoryAgreement:
    """Holds the average of one round back until this node has the memory that it is computed with.

    Attributes:
        is_apart: whether it is computed with another memory than that of most nodes.
    """

    def __init__(
        self, key: RoundKey, memory: SharedMemory, held: HeldModel, me: PeerId, patience: float, tell: Tell
    ) -> None:
        """Args:
        memory: of the aggregation rule.
        patience: seconds for all downloads together.
        """
        self.timer = f"memory:{key.number}:{key.initiator}"
        self.is_apart = False
        self._key, self._memory, self._held, self._me = key, memory, held, me
        self._patience, self._tell = patience, tell
        self._average: Average | None = None  # while it is held back
        self._download: ParamsDownload | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether the average waits for a memory."""
        return self._average is not None

    def awaits(self, digest: Digest) -> bool:
        """Whether this is the memory that is being fetched."""
        return self.is_awaited and self._download is not None and digest == self._download.digest

    def agree(self, average: Average, updates: Collection[Update]) -> list[Effect]:
        """Ask for the average, if need be once the common memory has been fetched.

        Args:
            average: the effect that asks for it.
            updates: all of the round, with or without their parameters.
        """
        own = self._held.memory(self._memory)
        wanted = common_memory(updates)
        if wanted is None or wanted == (own.digest if own else NOTHING):
            return [average]
        if wanted == NOTHING:
            self._held.remember(None)
            words = text("not even half of the nodes remember the same of earlier rounds: this node begins again")
            return [average, self._tell("memory_taken", words)]
        self._average = average
        peers = {update.peer for update in updates if update.memory == wanted} - {self._me}
        form = self._memory.form(self._held.schema)
        self._download = ParamsDownload(
            *(self._key, wanted, self.timer, self._me, peers, self._patience, self._fetching),
            form=form,
            nbytes=form.nbytes,
        )
        return self._outcome(self._download, self._download.start())

    def receive(self, event: Event) -> list[Effect]:
        """Handle the end of a download, or the timer."""
        if self._download is None or not self.is_awaited:
            return []
        return self._outcome(self._download, self._download.receive(event))

    def _fetching(self, peer: PeerId) -> Publish:
        words = text("fetching what most nodes remember of earlier rounds from {peer}", peer)
        return self._tell("fetching", words, peer=peer)

    def _outcome(self, download: ParamsDownload, effects: list[Effect]) -> list[Effect]:
        if download.failure is not None:
            return [*effects, *self._go_on_apart(download.failure)]
        if download.params is None or download.peer is None:
            return effects
        return [*effects, *self._arrived(download.peer, download.params)]

    def _arrived(self, peer: PeerId, params: Params) -> list[Effect]:
        try:
            memory = self._memory.checked(params, self._held.schema)
        except ParamsRefused as exc:  # its digest is the one that was asked for: others would send the same
            return self._go_on_apart(str(exc))
        self._held.remember(memory)
        words = text("this node takes what most nodes remember of earlier rounds from {peer}", peer)
        return [*self._go_on(), self._tell("memory_taken", words, peer=peer)]

    def _go_on_apart(self, reason: str) -> list[Effect]:
        assert self._average is not None
        self.is_apart, self._average = True, replace(self._average, is_apart=True)
        words = text(
            "what most nodes remember of earlier rounds could not be fetched ({reason}): this node's average is "
            "not that of the others",
            reason,
        )
        return [*self._go_on(), self._tell("memory_missing", words)]

    def _go_on(self) -> list[Effect]:
        assert self._average is not None
        average, self._average = self._average, None
        return [average]
