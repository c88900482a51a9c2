"""Downloads parameters by their digest from one of several peers that hold them.

A peer may be gone, or slow on purpose. So after a third of the time another one is asked, too, and whoever answers first
counts: equal digests are equal parameters. Large ones are downloaded in parts, and all peers are asked at once
(`flnet.rounds.parts`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from flnet.params.params import Digest, Params, PeerId, Schema
from flnet.protocol.effects import CancelTimer, Effect, Fetch, FetchAlso, Publish, SetTimer
from flnet.protocol.events import Event, Fetched, FetchFailed, TimerFired
from flnet.protocol.updates import RoundKey
from flnet.rounds.parts import LARGE_BYTES
from flnet.text import text

TURNS = 3  # peers that may be slow, each of which has this part of the time before another one is asked


class ParamsDownload:
    """One download, which ends with the parameters or with the reason why there are none.

    Attributes:
        digest: of the parameters.
        form: of the arrays, where they are no parameters of the job's model; else None.
        timer: bounds it.
        params, peer: what came, and from whom; None until then.
        failure: why nothing came; None until then.
    """

    def __init__(
        self,
        key: RoundKey,
        digest: Digest,
        timer: str,
        me: PeerId,
        peers: Collection[PeerId],
        patience: float,
        tell: Callable[[PeerId], Publish] | None,
        form: Schema | None = None,
        nbytes: int = 0,
        perhaps: Iterable[PeerId] = (),
        first: PeerId | None = None,
    ) -> None:
        """Args:
        peers: who hold them. Nodes with other ids ask them in another order, so that no peer serves all.
        patience: seconds for all of it.
        tell: makes the news that a peer is asked; None: people need not read of it.
        form: of the arrays, where they are no parameters of the job's model.
        nbytes: of the arrays; not needed where they are small.
        perhaps: peers that may hold them, too, and are asked for parts of large ones.
        first: of the peers, who is asked before the others, as it certainly holds them.
        """
        self.digest, self.timer = digest, timer
        self.params: Params | None = None
        self.peer: PeerId | None = None
        self.failure: str | None = None
        self._key, self._patience, self._tell, self.form = key, patience, tell, form
        # Sorting keeps the order of all others.
        self._sources = sorted(in_turn(peers, me), key=lambda peer: peer != first)
        self._is_large = nbytes >= LARGE_BYTES
        self._perhaps = [peer for peer in in_turn(perhaps, me) if peer not in self._sources]
        self._turns = 0
        self._asked = 0  # that have not answered yet

    @property
    def is_over(self) -> bool:
        """Whether it has ended, in one way or the other."""
        return self.params is not None or self.failure is not None

    def start(self) -> list[Effect]:
        """Ask the first peer."""
        if not self._sources:
            self.failure = text("no peer has it")
            return []
        return [self._wait(), *self._ask()]

    def met(self, peer: PeerId) -> list[Effect]:
        """Handle a peer that is reachable since now, and may hold them: a large download goes on from it, too."""
        return [FetchAlso(peer, self.digest)] if self._is_large and not self.is_over else []

    def receive(self, event: Event) -> list[Effect]:
        """Handle the answer of a peer, or the timer."""
        match event:
            case _ if self.is_over:
                return []
            case Fetched(_, peer, digest, params) if digest == self.digest:
                self.peer, self.params = peer, params
                return [CancelTimer(self.timer)]
            case FetchFailed(_, _, digest, reason) if digest == self.digest:
                self._asked -= 1
                if self._sources or self._asked:
                    return self._ask()
                self.failure = reason
                return [CancelTimer(self.timer)]
            case TimerFired(name) if name == self.timer:
                self._turns += 1
                if self._turns < TURNS:
                    return [self._wait(), *self._ask()]
                self.failure = text("it did not come in time")
        return []

    def _wait(self) -> Effect:
        return SetTimer(self.timer, self._patience / TURNS)

    def _ask(self) -> list[Effect]:
        if not self._sources:
            return []
        peer = self._sources.pop(0)
        self._asked += 1
        told = [self._tell(peer)] if self._tell else []
        others: tuple[PeerId, ...] = ()
        if self._is_large:
            others, self._sources = (*self._sources, *self._perhaps), []
        return [Fetch(self._key, peer, self.digest, form=self.form, others=others), *told]


def in_turn(peers: Iterable[PeerId], me: PeerId) -> list[PeerId]:
    """Other peers in the order in which this node asks them: those behind it first."""
    return sorted((peer for peer in peers if peer != me), key=lambda peer: (peer < me, peer))
