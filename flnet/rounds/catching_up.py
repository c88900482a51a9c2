"""How a node catches up that missed the end of a round: it takes the average that most other nodes have made.

A node that returns after a round was closed, or that trained for too long, has no part in that round: the others refuse
its update, and an average of their updates with its own would be another model than theirs. They state their averages
by digest when they compare accuracies (`Accuracy`), and again to a peer that they meet and that has no part in it.

The statement of one node proves nothing. An average is taken only if at least two peers state it, and more than half of
those whose updates were in the newest averages here: names that never sent an update cannot outvote them, and a node that
returns does not believe the first two that it meets. Where there are fewer than two of them, as on a new node, more than
half of the reachable peers must state it. An average of a single update is never taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from flnet.params.params import Digest, PeerId
from flnet.protocol.effects import CancelTimer, Effect, Publish
from flnet.protocol.events import Event
from flnet.protocol.messages import MAX_PEERS
from flnet.protocol.updates import Claim, RoundKey
from flnet.rounds.base_round import Parts
from flnet.rounds.download import ParamsDownload
from flnet.rounds.history import RoundRecord
from flnet.text import text

LEAST_PEERS = 2  # that must state an average


@dataclass(frozen=True)
class CommonAverage:
    """The average of a round that most peers have made.

    Attributes:
        digest: of its parameters.
        contributors: number of updates in it, as the most modest of the peers states it.
        peers: who state it, and can serve it.
    """

    key: RoundKey
    digest: Digest
    contributors: int
    peers: frozenset[PeerId]

    def kept(self) -> Mapping[str, Any]:
        """What is saved of it for a restart, beside the round, as plain JSON data."""
        return {"digest": self.digest, "contributors": self.contributors, "peers": sorted(self.peers)}


class StatedAverages:
    """The averages that peers state: the one of the newest round of each peer."""

    def __init__(self) -> None:
        self._claims: dict[PeerId, Claim] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no average was stated."""
        return not self._claims

    def note(self, claim: Claim, here: Set[PeerId]) -> bool:
        """Note what a peer states, without parameters; return whether that is an average to take.

        Args:
            here: peers that are reachable. Names of others are forgotten first.
        """
        if claim.digest is None or claim.contributors < LEAST_PEERS:
            return False
        if claim.peer not in self._claims and len(self._claims) >= MAX_PEERS:
            strangers = self._claims.keys() - here
            if not strangers:
                return False
            del self._claims[min(strangers)]
        before = self._claims.get(claim.peer)
        if before is None or before.round <= claim.round:
            self._claims[claim.peer] = claim.without_params()
        return True

    def common(
        self, least: int, known: Set[PeerId], here: Set[PeerId], among: Set[PeerId] | None = None
    ) -> CommonAverage | None:
        """The average of the newest round, from `least` on, that most peers state.

        Args:
            known: peers whose updates were in the newest averages here.
            here: all peers that are reachable.
            among: peers whose statements matter; None for all.
        """
        counting = known if len(known) >= LEAST_PEERS else here
        stated: dict[tuple[int, Digest], list[Claim]] = {}
        for peer in sorted(self._claims.keys() & here & counting & (here if among is None else among)):
            claim = self._claims[peer]
            if claim.round >= least and claim.digest is not None:
                stated.setdefault((claim.round, claim.digest), []).append(claim)
        least_votes = max(LEAST_PEERS, len(counting) // 2 + 1)
        agreed = [average for average, claims in stated.items() if len(claims) >= least_votes]
        if not agreed:
            return None
        number, digest = max(agreed)
        claims = stated[number, digest]
        initiators = sorted(claim.initiator for claim in claims if claim.initiator)
        initiator = max(initiators, key=initiators.count) if initiators else claims[0].peer
        contributors = min(claim.contributors for claim in claims)
        peers = frozenset(claim.peer for claim in claims)
        return CommonAverage(RoundKey(number, PeerId(initiator)), digest, contributors, peers)


class CatchingUp:
    """Takes, for one round, the average that most others have made: downloads it, and holds it.

    Attributes:
        taken: that average.
    """

    def __init__(self, parts: Parts, key: RoundKey, taken: CommonAverage) -> None:
        self._key, self.taken = key, taken
        self._peers, self._held, self._tell = parts.peers, parts.held, parts.tell
        me, patience = parts.settings.my_id, parts.settings.waits.average
        timer = f"average:{key.number}:{key.initiator}"
        self._download = ParamsDownload(
            *(key, taken.digest, timer, me, taken.peers, patience, self._fetching),
            nbytes=self._held.schema.nbytes,
            perhaps=self._peers.here,
        )

    @property
    def failure(self) -> str | None:
        """Why the average could not be downloaded; None if it was, or may still be."""
        return self._download.failure

    def start(self) -> list[Effect]:
        """Ask the peers that state it."""
        return self._download.start()

    def receive(self, event: Event) -> list[Effect]:
        """Pass an event to the download."""
        return self._download.receive(event)

    def met(self, peer: PeerId) -> list[Effect]:
        """Handle a reachable peer, which may serve the average."""
        return self._download.met(peer)

    def cancel(self) -> list[Effect]:
        """Stop, because the round is left."""
        return [] if self._download.is_over else [CancelTimer(self._download.timer)]

    def hold(self, record: RoundRecord) -> list[Publish]:
        """Hold the average and note it in the record of the round; nothing as long as it is not here."""
        params, peer = self._download.params, self._download.peer
        if params is None or peer is None:
            return []
        contributors = min(self.taken.contributors, len(self._peers.here) + 1)
        self._held.average(params, self._key, contributors, self._held.remembered, has_mine=False)
        record.digest, record.taken_from, record.left_out = self.taken.digest, peer, None
        record.outcome = text(
            "took the average of {count} updates from {peer}: most other nodes made it without this one",
            contributors,
            peer,
        )
        return [self._tell("average_taken", record.outcome, peer=peer, digest=self.taken.digest)]

    def _fetching(self, peer: PeerId) -> Publish:
        words = text(
            "fetching the average of round {number} from {peer}: it was made without this node",
            self._key.number,
            peer,
        )
        return self._tell("fetching", words, peer=peer)
