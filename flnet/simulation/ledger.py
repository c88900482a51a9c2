"""What must hold in every mesh under every fault, checked while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flnet.effects import Average
from flnet.jobs import Job
from flnet.jobs.state import JobState
from flnet.params import Digest, Params, PeerId, RoundKey, Update


class InvariantBroken(AssertionError):
    """The simulation saw something that must never happen."""


def peers_of(updates: Sequence[Update]) -> list[PeerId]:
    """Whose they are."""
    return [update.peer for update in updates]


class Ledger:
    """Keeps account of updates sent and averages made.

    Invariants: never two averages in one round; no update counted twice; nothing averaged that was not sent;
    equal received sets give equal digests; round numbers never go back; what was acknowledged is not lost.
    """

    def __init__(self) -> None:
        self.averages: dict[tuple[PeerId, int], Digest] = {}
        self.sent: dict[tuple[PeerId, RoundKey], set[Digest]] = {}
        self._results: dict[tuple[tuple[PeerId, Digest, int | None], ...], Digest] = {}
        self._rounds: dict[PeerId, int] = {}
        self._acknowledged: dict[tuple[PeerId, RoundKey], set[PeerId]] = {}

    def sends(self, peer: PeerId, key: RoundKey, params: Params) -> None:
        """A node sends its update."""
        self.sent.setdefault((peer, key), set()).add(params.digest)

    def begins_average(self, node: PeerId, number: int) -> None:
        """A node was asked for an average."""
        if (node, number) in self.averages:
            raise InvariantBroken(f"{node} averaged twice in round {number}")

    def averages_now(self, node: PeerId, effect: Average, result: Params, folded: Sequence[Update] = ()) -> None:
        """A node averages; `folded` are the updates that it had folded before."""
        updates = (*folded, *effect.updates)
        number = effect.key.number
        self.begins_average(node, number)
        self.averages[node, number] = result.digest
        if list(effect.folded) != [update.peer for update in folded]:
            raise InvariantBroken(f"{node} folded {folded}, but {effect.folded} were to be")
        self._check_updates(node, effect, updates)
        if lost := self._acknowledged.get((node, effect.key), set()) - set(peers_of(updates)):
            raise InvariantBroken(f"{node} averages {effect.key} without {sorted(lost)}, which it acknowledged")
        received = tuple((u.peer, u.params.digest, u.examples) for u in updates)
        if self._results.setdefault(received, result.digest) != result.digest:
            raise InvariantBroken(f"{node} averaged an equal set to another digest in round {number}")

    def _check_updates(self, node: PeerId, effect: Average, updates: Sequence[Update]) -> None:
        peers = peers_of(updates)
        if len(set(peers)) != len(peers) or peers != sorted(peers):
            raise InvariantBroken(f"{node} counts {peers}: twice, or out of order")
        for update in updates:
            if update.key != effect.key or not self._was_sent(node, update):
                raise InvariantBroken(f"{node} averages {update.peer}'s {update.key} in {effect.key}")

    def acknowledges(self, node: PeerId, state: JobState, update: Update) -> None:
        """A node answered 200 to an update that came with its parameters; in its open round it must count."""
        if state.key == update.key and state.averaging is not None and update.peer in state.averaging.updates:
            self._acknowledged.setdefault((node, update.key), set()).add(update.peer)

    def restarts(self, node: PeerId, saved: Mapping[str, Any]) -> None:
        """A node was killed; an average that it had not saved was never made."""
        number = saved.get("round", -1)
        if saved.get("updates_from", 0) <= number:
            self.averages.pop((node, number), None)

    def forgets(self, node: PeerId) -> None:
        """A node lost its disk: it knows of nothing that it did, and owes nothing."""
        self._rounds.pop(node, None)
        for known in [key for key in self.averages if key[0] == node]:
            del self.averages[known]
        for owed in [key for key in self._acknowledged if key[0] == node]:
            del self._acknowledged[owed]

    def _was_sent(self, node: PeerId, update: Update) -> bool:
        return update.peer == node or update.params.digest in self.sent.get((update.peer, update.key), ())

    def look(self, node: PeerId, jobs: Iterable[Job]) -> None:
        """After every step of a node."""
        for job in jobs:
            if job.state.number < self._rounds.get(node, -1):
                raise InvariantBroken(f"{node} went back to round {job.state.number}")
            self._rounds[node] = job.state.number
