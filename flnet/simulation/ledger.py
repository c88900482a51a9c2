"""What must hold in every mesh under every fault, checked while it runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flnet.effects import Average
from flnet.events import DeclineReceived, Event, UpdateOffered, UpdateReceived
from flnet.jobs.state import JobState, key_of
from flnet.messages import StatedVersion
from flnet.params import Digest, Params, PeerId, RoundKey, Update
from flnet.store import SavedJob


class InvariantBroken(AssertionError):
    """The simulation saw something that must never happen."""


def peers_of(updates: Sequence[Update]) -> list[PeerId]:
    """Whose they are."""
    return [update.peer for update in updates]


@dataclass(frozen=True)
class Taken:
    """An update that a node took from a peer.

    Attributes:
        counts: whether it is in the open round, parameters and all.
    """

    peer: PeerId
    key: RoundKey
    counts: bool


class Ledger:
    """Keeps account of updates sent and averages made.

    Invariants: never two averages in one round; no update counted twice; nothing averaged that was not sent;
    equal received sets give equal digests; round numbers never go back; what was acknowledged is on the disk, and
    in the average; and a model of a peer is adopted only where it is better on the own test data.
    """

    def __init__(self) -> None:
        self.averages: dict[tuple[PeerId, int], Digest] = {}
        self.sent: dict[tuple[PeerId, RoundKey], set[Digest]] = {}
        self._results: dict[tuple[Digest | None, tuple[tuple[PeerId, Digest, int | None], ...]], Digest] = {}
        self._words: dict[tuple[PeerId, RoundKey], Digest] = {}
        self._rounds: dict[PeerId, int] = {}
        self._acknowledged: dict[tuple[PeerId, RoundKey], set[PeerId]] = {}
        self._averaged: dict[tuple[PeerId, RoundKey], set[PeerId]] = {}  # whose updates are in which average
        self._left_out: dict[tuple[PeerId, RoundKey], set[PeerId]] = {}  # whose moved too far to count there
        self._apart: set[tuple[PeerId, Digest]] = set()  # averages that count for none

    def sends(self, peer: PeerId, key: RoundKey, params: Params) -> None:
        """A node sends its update; what it has said it never says differently."""
        if self._words.setdefault((peer, key), params.digest) != params.digest:
            raise InvariantBroken(f"{peer} sends another update of {key} than before")
        self.sent.setdefault((peer, key), set()).add(params.digest)

    def tells(self, node: PeerId, number: int, said: StatedVersion) -> None:
        """A node tells its version; nobody does in common rounds."""
        raise InvariantBroken(f"{node} tells version {number}, but rounds are common")

    def made(self, state: JobState) -> None:
        """A node has taken a step; see `flnet.simulation.versions` for what is looked at."""

    def begins_average(self, node: PeerId, number: int) -> None:
        """A node was asked for an average."""
        if (node, number) in self.averages:
            raise InvariantBroken(f"{node} averaged twice in round {number}")

    def averages_now(
        self,
        node: PeerId,
        effect: Average,
        result: Params,
        folded: Sequence[Update] = (),
        apart: Digest | None = None,
        left_out: Collection[PeerId] = (),
    ) -> None:
        """A node averages; `folded` are the updates that it had folded before.

        Args:
            left_out: whose updates came and do not count, or did not come again, as people are told.
            apart: what its round began with, where that is not what most others began with: then it may find
                other updates too far away than they do.
        """
        updates = (*folded, *effect.updates)
        number = effect.key.number
        self.begins_average(node, number)
        self.averages[node, number] = result.digest
        if list(effect.folded) != [update.peer for update in folded]:
            raise InvariantBroken(f"{node} folded {folded}, but {effect.folded} were to be")
        self._check_updates(node, effect, updates)
        if lost := self._acknowledged.get((node, effect.key), set()) - set(peers_of(updates)) - set(left_out):
            raise InvariantBroken(f"{node} averages {effect.key} without {sorted(lost)}, which it acknowledged")
        self._averaged[node, effect.key] = {*peers_of(updates), *left_out}
        self._left_out[node, effect.key] = set(left_out)
        if apart is not None:
            self._apart.add((node, result.digest))
        received = tuple((u.peer, u.params.digest, u.examples) for u in updates)
        if self._results.setdefault((apart, received), result.digest) != result.digest:
            raise InvariantBroken(f"{node} averaged an equal set to another digest in round {number}")

    def _check_updates(self, node: PeerId, effect: Average, updates: Sequence[Update]) -> None:
        peers = peers_of(updates)
        if len(set(peers)) != len(peers) or peers != sorted(peers):
            raise InvariantBroken(f"{node} counts {peers}: twice, or out of order")
        for update in updates:
            if update.key != effect.key or not self._was_sent(node, update):
                raise InvariantBroken(f"{node} averages {update.peer}'s {update.key} in {effect.key}")

    def takes(self, state: JobState, event: Event) -> Taken | None:
        """What became of a peer's update that a node heard now; None if it is no update, or is worth nothing."""
        if not isinstance(event, UpdateReceived | UpdateOffered):
            return None
        peer, key, averaging = event.update.peer, event.update.key, state.averaging
        counts = state.key == key and averaging is not None and peer in averaging.updates
        offered = state.key == key and averaging is not None and peer in averaging.offers
        word = state.early.get(peer)
        early = word is not None and not isinstance(word, DeclineReceived) and key_of(word) == key
        if not (counts or offered or early):
            return None
        return Taken(peer, key, counts and isinstance(event, UpdateReceived))

    def acknowledges(self, node: PeerId, taken: Taken, disk: SavedJob) -> None:
        """A node answered 200 to an update: it is kept, and if it came with its parameters, it must count."""
        peer, key = taken.peer, taken.key
        kept = any(one.update.peer == peer and one.update.key == key for one in disk.updates)
        if not kept and disk.snapshot.get("updates_from", 0) <= key.number:
            raise InvariantBroken(f"{node} acknowledged {peer}'s {key}, which is not on its disk")
        if taken.counts:
            self._acknowledged.setdefault((node, key), set()).add(peer)
            if peer not in self._averaged.get((node, key), {peer}):
                raise InvariantBroken(f"{node} averaged {key} without {peer}, which it acknowledges now")

    def acknowledged(self, node: PeerId, key: RoundKey) -> set[PeerId]:
        """Whose updates of a round a node answered with 200, in its open round."""
        return self._acknowledged.get((node, key), set())

    def left_out(self, node: PeerId, key: RoundKey) -> set[PeerId]:
        """Whose updates a node did not count in the average of a round, because they moved too far."""
        return self._left_out.get((node, key), set())

    def adopts(self, node: PeerId, left: Digest, before: float, after: float, threshold: float) -> None:
        """A node took a peer's model instead of its own average; the accuracies are on its own test data.

        What it averaged apart from the others it may leave for a worse one.
        """
        if (node, left) not in self._apart and not after > before + threshold:
            raise InvariantBroken(f"{node} adopted a model of accuracy {after:.3f}, its own had {before:.3f}")

    def restarts(self, node: PeerId, saved: Mapping[str, Any], *, went_on_in_memory: bool = False) -> None:
        """A node was killed; an average that it had not saved was never made.

        Args:
            went_on_in_memory: whether its disk was broken: then it has told people, and promised nothing.
        """
        first = saved.get("updates_from", 0)
        for made in [made for made in self.averages if made[0] == node and made[1] >= first]:
            del self.averages[made]
        for of in [of for of in self._averaged if of[0] == node and of[1].number >= first]:
            del self._averaged[of]
        if went_on_in_memory:
            self._rounds.pop(node, None)

    def forgets(self, node: PeerId) -> None:
        """A node lost its disk: it knows of nothing that it did, and owes nothing."""
        self._rounds.pop(node, None)
        self.averages = {made: digest for made, digest in self.averages.items() if made[0] != node}
        self._words = {said: digest for said, digest in self._words.items() if said[0] != node}
        self._acknowledged = {owed: peers for owed, peers in self._acknowledged.items() if owed[0] != node}
        self._averaged = {made: peers for made, peers in self._averaged.items() if made[0] != node}

    def _was_sent(self, node: PeerId, update: Update) -> bool:
        return update.peer == node or update.params.digest in self.sent.get((update.peer, update.key), ())

    def look(self, node: PeerId, number: int) -> None:
        """After every step of a node, when others may see it: the round that its job was in."""
        if number < self._rounds.get(node, -1):
            raise InvariantBroken(f"{node} went back to round {number}")
        self._rounds[node] = number
