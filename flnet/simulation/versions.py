"""What must hold in a mesh without common rounds, in which each node makes versions of its own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from flnet.effects import Average
from flnet.events import Event, Mark
from flnet.jobs.state import JobState
from flnet.messages import StatedVersion
from flnet.params import Digest, Params, PeerId, Update
from flnet.simulation.ledger import InvariantBroken, Ledger, Taken, peers_of

if TYPE_CHECKING:
    from flnet.simulation.cluster import Cluster


class VersionLedger(Ledger):
    """Keeps account of versions told and merged.

    Invariants: what a node has told as its version it never tells differently, nor takes back while it has its
    disk, killed or not; nothing is merged that its node has not told; no peer counts twice in a merge, and none is
    left out of the record of the version.
    """

    def __init__(self) -> None:
        super().__init__()
        self._newest: dict[PeerId, Mark] = {}
        self._told: dict[PeerId, set[Digest]] = {}
        self._merges: dict[tuple[PeerId, int], set[PeerId]] = {}

    def tells(self, node: PeerId, number: int, said: StatedVersion) -> None:
        """A node tells its version."""
        mark, before = Mark(said.run, number, Digest(said.digest)), self._newest.get(node)
        self._told.setdefault(node, set()).add(mark.digest)
        if before is not None and before.number > 0:
            if mark.number < before.number:
                raise InvariantBroken(f"{node} goes back from version {before.number} to {mark.number}")
            if mark.number == before.number and mark.digest != before.digest:
                raise InvariantBroken(f"{node} tells another version {mark.number} than before")
        self._newest[node] = mark

    def begins_average(self, node: PeerId, number: int) -> None:
        """A node was asked to merge; after a restart it may be asked for the same again."""

    def averages_now(
        self,
        node: PeerId,
        effect: Average,
        result: Params,
        folded: Sequence[Update] = (),
        apart: Digest | None = None,
        left_out: Collection[PeerId] = (),
    ) -> None:
        """A node merges; see `Ledger.averages_now` for the rest."""
        updates = (*folded, *effect.updates)
        peers = peers_of(updates)
        if len(set(peers)) != len(peers) or peers != sorted(peers):
            raise InvariantBroken(f"{node} counts {peers}: twice, or out of order")
        for update in updates:
            if update.peer != node and update.params.digest not in self._told.get(update.peer, ()):
                raise InvariantBroken(f"{node} merges what {update.peer} never told")
        self._merges[node, effect.key.number] = set(peers)

    def takes(self, state: JobState, event: Event) -> Taken | None:
        """No update is acknowledged where versions are fetched."""
        return None

    def made(self, state: JobState) -> None:
        """Whenever a node has taken a step: the record of its newest version names all that went into it."""
        number, node = state.number, state.my_id
        if state.wake is not None or not state.history or state.history[-1].key.number != number:
            return
        record, merged = state.history[-1], self._merges.pop((node, number), None)
        if merged is None or record.digest is None:
            return
        others = {peer for peer in merged if _is_named(peer, record.outcome)}
        if lost := merged - {*record.contributors, *others, node}:
            raise InvariantBroken(f"{node} does not say that {sorted(lost)} went into version {number}")

    def forgets(self, node: PeerId) -> None:
        """A node lost its disk: it begins anew."""
        super().forgets(node)
        self._newest.pop(node, None)
        self._cut_short(node)

    def restarts(self, node: PeerId, saved: object, *, went_on_in_memory: bool = False) -> None:
        """A node was killed: what it had told, it has to know still, even if its disk was broken for a while."""
        self._rounds.pop(node, None)
        self._cut_short(node)

    def _cut_short(self, node: PeerId) -> None:
        self._merges = {merge: peers for merge, peers in self._merges.items() if merge[0] != node}


def _is_named(peer: PeerId, outcome: str) -> bool:
    """Whether a record says that a model went in without being a contribution, or was refused."""
    return f"the first model of {peer}," in outcome or peer in outcome.partition("; left out: ")[2]


def reach_all(cluster: Cluster) -> None:
    """When all is quiet, each node wakes once: then it has merged the newest version of every other one.

    Raises:
        InvariantBroken: one was not reached.
    """
    for node in sorted(cluster.alive, key=lambda node: node.id):
        if not cluster.trigger(node.id):
            raise InvariantBroken(f"{node.id} refuses a version, though none is under way")
        if not cluster.run_until_idle(200):
            raise InvariantBroken(f"a version does not end: {cluster.busy()}")
        state = node.job.state
        if state.own is None or state.own.key.number != state.number:
            raise InvariantBroken(f"{node.id} made no version though nothing was disturbed")
        for other in cluster.alive:
            there = other.job.state
            if other is node or there.sent is None or there.own is None or there.own.key.number == 0:
                continue
            merged = state.versions.merged.get(other.id)
            refused = f"left out: {other.id}" in state.history[-1].outcome
            if not refused and (merged is None or merged.mark.digest != there.sent.digest):
                raise InvariantBroken(f"{node.id} has not merged version {there.own.key.number} of {other.id}")
