"""Invariants that every mesh must keep under every fault, checked at each step of a simulation."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import numpy as np

from flnet.aggregation.screening import common_base
from flnet.algorithms.gossip import Mixed, graph
from flnet.algorithms.secure_sum import CLIP, WEIGHT_CAPS
from flnet.algorithms.topology import Topology
from flnet.params.params import Digest, Params, PeerId, Schema
from flnet.protocol.effects import Average
from flnet.protocol.events import DeclineReceived, Event, Mark, Trained, UpdateOffered, UpdateReceived
from flnet.protocol.messages import StatedVersion
from flnet.protocol.secure_sum import MaskUpdate
from flnet.protocol.updates import RoundKey, Update
from flnet.rounds.base_job import AnyJob
from flnet.rounds.history import RoundRecord
from flnet.rounds.segmented_round import SegmentedRound
from flnet.rounds.series import key_of
from flnet.store.base import SavedJob

StartedRound = tuple[RoundKey, frozenset[str]]  # of a round, with these members
Counted = tuple[PeerId, Digest, int | None, int]  # an update as an average counts it: with examples and staleness
# What a full mesh makes of whole updates from a base: the average, and whose updates it leaves out.
MeshAverage = Callable[[Sequence[Update], Params], tuple[Params, Collection[PeerId]]]
KEPT_TRAININGS = 16  # of a node
MOST_SETS = 256  # of updates that nodes may have averaged, where they may have offered several


class InvariantBroken(AssertionError):
    """The simulation reached a state that must never occur."""


def peers_of(updates: Sequence[Update]) -> list[PeerId]:
    """The senders of these updates."""
    return [update.peer for update in updates]


@dataclass(frozen=True)
class Accepted:
    """An update that a node accepted from a peer.

    Attributes:
        counts: whether it counts in the open round, with its parameters.
    """

    peer: PeerId
    key: RoundKey
    counts: bool


class Ledger:
    """Records the updates and averages of a synchronous mesh, and checks its invariants.

    - A node averages once per round, counts no update twice, and averages nothing that was not sent.
    - Equal sets of updates give averages with equal digests.
    - Round numbers never decrease.
    - An acknowledged update is on the disk, and in the average.
    - A peer's model is adopted only if it is better on the node's own test data.
    - A node takes only such an average without its own update that nodes have made in that round.
    """

    def __init__(self) -> None:
        self.averages: dict[tuple[PeerId, int], Digest] = {}
        self.sent: dict[tuple[PeerId, RoundKey], set[Digest]] = {}
        self._results: dict[tuple[Digest | None, tuple[Counted, ...]], Digest] = {}
        self._updates: dict[tuple[PeerId, RoundKey], tuple[Digest, int]] = {}  # with their staleness
        self._rounds: dict[PeerId, int] = {}
        self._acknowledged: dict[tuple[PeerId, RoundKey], set[PeerId]] = {}
        self._averaged: dict[tuple[PeerId, RoundKey], set[PeerId]] = {}  # senders of the updates in an average
        self._left_out: dict[tuple[PeerId, RoundKey], set[PeerId]] = {}  # senders of updates that moved too far
        self._apart: set[tuple[PeerId, Digest]] = set()  # averages that differ from those of most nodes
        self._made: dict[int, set[Digest]] = {}  # averages, and better models adopted instead, by round

    def sent_update(self, peer: PeerId, key: RoundKey, params: Params, staleness: int = 0) -> None:
        """A node sends its update of a round, which never changes afterwards."""
        sent = (params.digest, staleness)
        if self._updates.setdefault((peer, key), sent) != sent:
            raise InvariantBroken(f"{peer} sends another update of {key} than before")
        self.sent.setdefault((peer, key), set()).add(params.digest)

    def told_version(self, node: PeerId, number: int, version: StatedVersion) -> None:
        """A node tells its version, which no node does in a synchronous mesh."""
        raise InvariantBroken(f"{node} tells version {number}, but rounds are common")

    def trained(self, job: AnyJob, event: Trained) -> None:
        """A node is told the result of its training; see `SegmentLedger.trained`."""

    def stepped(self, job: AnyJob) -> None:
        """A node has handled an event; see `VersionLedger.stepped` for what is checked."""

    def started_average(self, node: PeerId, number: int) -> None:
        """A node begins to average."""
        if (node, number) in self.averages:
            raise InvariantBroken(f"{node} averaged twice in round {number}")

    def averaged(
        self,
        node: PeerId,
        effect: Average,
        result: Params,
        folded: Sequence[Update] = (),
        apart: Digest | None = None,
        left_out: Collection[PeerId] = (),
    ) -> None:
        """A node has averaged.

        Args:
            folded: the updates that it had added up before.
            apart: the model that its round began with, if most others began with another one: then it may
                leave out other updates than they do, because of the distance.
            left_out: senders of updates that came and do not count, or did not come again, as it published.
        """
        updates = (*folded, *effect.updates)
        number = effect.key.number
        self.started_average(node, number)
        self.averages[node, number] = result.digest
        self._made.setdefault(number, set()).add(result.digest)
        if list(effect.folded) != [update.peer for update in folded]:
            raise InvariantBroken(f"{node} folded {folded}, but {effect.folded} were to be")
        self._check_updates(node, effect, updates)
        if lost := self._acknowledged.get((node, effect.key), set()) - set(peers_of(updates)) - set(left_out):
            raise InvariantBroken(f"{node} averages {effect.key} without {sorted(lost)}, which it acknowledged")
        self._averaged[node, effect.key] = {*peers_of(updates), *left_out}
        self._left_out[node, effect.key] = set(left_out)
        if apart is not None:
            self._apart.add((node, result.digest))
        counted = tuple((u.peer, u.params.digest, u.examples, u.staleness) for u in updates)
        if self._results.setdefault((apart, counted), result.digest) != result.digest:
            raise InvariantBroken(f"{node} averaged an equal set to another digest in round {number}")

    def _check_updates(self, node: PeerId, effect: Average, updates: Sequence[Update]) -> None:
        peers = peers_of(updates)
        if len(set(peers)) != len(peers) or peers != sorted(peers):
            raise InvariantBroken(f"{node} counts {peers}: twice, or out of order")
        for update in updates:
            if update.key != effect.key or not self._was_sent(node, update):
                raise InvariantBroken(f"{node} averages {update.peer}'s {update.key} in {effect.key}")

    def accepted(self, job: AnyJob, event: Event) -> Accepted | None:
        """The update that a node accepted from a peer; None if the event is no update, or it was not accepted."""
        if not isinstance(event, UpdateReceived | UpdateOffered):
            return None
        peer, key, round = event.update.peer, event.update.key, job.round
        averaging = round.gathering if round is not None and round.key == key else None
        counts = averaging is not None and peer in averaging.updates
        offered = averaging is not None and peer in averaging.offers
        waiting = job.inbox.early.get(peer)
        early = waiting is not None and not isinstance(waiting, DeclineReceived) and key_of(waiting) == key
        if not (counts or offered or early):
            return None
        return Accepted(peer, key, counts and isinstance(event, UpdateReceived))

    def acknowledged_update(self, node: PeerId, accepted: Accepted, disk: SavedJob) -> None:
        """A node replies 200 to an update: it must be on the disk, and count if it came with its parameters."""
        peer, key = accepted.peer, accepted.key
        is_saved = any(saved.update.peer == peer and saved.update.key == key for saved in disk.updates)
        if not is_saved and disk.snapshot.get("updates_from", 0) <= key.number:
            raise InvariantBroken(f"{node} acknowledged {peer}'s {key}, which is not on its disk")
        if accepted.counts:
            self._acknowledged.setdefault((node, key), set()).add(peer)
            if peer not in self._averaged.get((node, key), {peer}):
                raise InvariantBroken(f"{node} averaged {key} without {peer}, which it acknowledges now")

    def acknowledged(self, node: PeerId, key: RoundKey) -> set[PeerId]:
        """The senders of the updates of a round that a node acknowledged while the round was open."""
        return self._acknowledged.get((node, key), set())

    def left_out(self, node: PeerId, key: RoundKey) -> set[PeerId]:
        """The senders of updates that a node left out of an average, because they moved too far."""
        return self._left_out.get((node, key), set())

    def adopted(self, node: PeerId, own: Digest, before: float, after: float, threshold: float) -> None:
        """A node adopted a peer's model instead of its own average.

        An average that differs from those of most nodes may be given up for a model that is no better, but not for a worse.

        Args:
            before: accuracy of its own average on its own test data.
            after: accuracy of the peer's model there.
        """
        if not (after >= before if (node, own) in self._apart else after > before + threshold):
            raise InvariantBroken(f"{node} adopted a model of accuracy {after:.3f}, its own had {before:.3f}")

    def is_average(self, number: int, digest: Digest) -> bool:
        """Whether a node has made this average of the round, or adopted this model instead."""
        return digest in self._made.get(number, ())

    def took_average(self, node: PeerId, number: int, digest: Digest) -> None:
        """A node took the average that most others had made of a round without its update."""
        self.started_average(node, number)
        if not self.is_average(number, digest):
            raise InvariantBroken(f"{node} took {digest[:8]} as the average of round {number}, which nobody made")
        self.averages[node, number] = digest

    def restarted(self, node: PeerId, saved: Mapping[str, Any], *, ran_without_disk: bool = False) -> None:
        """A node was killed and restarted; averages that it had not saved do not count.

        Args:
            ran_without_disk: whether its disk was broken: then it published that, and acknowledged nothing.
        """
        first = saved.get("updates_from", 0)
        for average in [made for made in self.averages if made[0] == node and made[1] >= first]:
            del self.averages[average]
        for owner, key in [of for of in self._averaged if of[0] == node and of[1].number >= first]:
            del self._averaged[owner, key]
        if ran_without_disk:
            self._rounds.pop(node, None)

    def lost_disk(self, node: PeerId) -> None:
        """A node lost its disk: what it did before does not bind it."""
        self._rounds.pop(node, None)
        self.averages = {made: digest for made, digest in self.averages.items() if made[0] != node}
        self._updates = {of: digest for of, digest in self._updates.items() if of[0] != node}
        self._acknowledged = {of: peers for of, peers in self._acknowledged.items() if of[0] != node}
        self._averaged = {of: peers for of, peers in self._averaged.items() if of[0] != node}

    def _was_sent(self, node: PeerId, update: Update) -> bool:
        return update.peer == node or update.params.digest in self.sent.get((update.peer, update.key), ())

    def entered_round(self, node: PeerId, number: int) -> None:
        """The effects of a step become visible to others; `number` is the round that the job was in."""
        if number < self._rounds.get(node, -1):
            raise InvariantBroken(f"{node} went back to round {number}")
        self._rounds[node] = number


class SecureLedger(Ledger):
    """Records the sums of a mesh whose updates are masked, and checks its invariants.

    - All nodes that open the sum of a round get the same bits, from the same contributors.
    - The sum is that of the updates of exactly these, to the error of fixed-point numbers.
    - It has at least as many contributors as the threshold.
    - No node masks two updates for one group. One that lost its memory draws new keys, so its next group is another one.
    """

    def __init__(self) -> None:
        super().__init__()
        self._trained: dict[tuple[PeerId, RoundKey, int], list[MaskUpdate]] = {}
        self._lost: Counter[PeerId] = Counter()  # how often a node has lost its memory
        self.opened: dict[tuple[RoundKey, int], tuple[tuple[PeerId, ...], Digest]] = {}

    def masks(self, node: PeerId, key: RoundKey, attempt: int, request: MaskUpdate) -> None:
        """A node masks what it trained."""
        masked = self._trained.setdefault((node, key, attempt), [])
        if len(masked) > self._lost[node]:
            raise InvariantBroken(f"{node} masks a second update in attempt {attempt} of {key}")
        masked.append(request)

    def lost_disk(self, node: PeerId) -> None:
        """A node lost its disk, and may start a round again."""
        super().lost_disk(node)
        self._lost[node] += 1

    def accepted(self, job: AnyJob, event: Event) -> Accepted | None:
        """What is masked counts if the members agree on it, and only while they live."""
        return None

    def opened_sum(self, node: PeerId, effect: Average, result: Params) -> None:
        """A node has opened the sum of a round."""
        opened = effect.opened
        assert opened is not None
        self.started_average(node, effect.key.number)
        self.averages[node, effect.key.number] = result.digest
        self._made.setdefault(effect.key.number, set()).add(result.digest)
        if opened.total is None:  # else the updates are not here
            self._check_updates(node, effect, effect.updates)
        if tuple(peers_of(effect.updates)) != opened.contributors or len(opened.contributors) < opened.threshold:
            raise InvariantBroken(f"{node} opened a sum of {peers_of(effect.updates)}, not {opened.contributors}")
        # A node that loses its memory may start a round once more: then it is another one.
        start = effect.key, self._lost[effect.key.initiator]
        known = self.opened.setdefault(start, (opened.contributors, result.digest))
        if known != (opened.contributors, result.digest):
            raise InvariantBroken(f"{node} opened {effect.key} with {opened.contributors}, others with {known[0]}")
        masked = [self._trained[peer, effect.key, opened.attempt] for peer in opened.contributors]
        if not any(self._is_sum(trained, effect, result) for trained in product(*masked)):
            raise InvariantBroken(
                f"{node} opened {effect.key}, and it is not the sum of what its contributors trained"
            )

    def _is_sum(self, trained: Sequence[MaskUpdate], effect: Average, result: Params) -> bool:
        """Whether a result is the mean of these updates, to the error of fixed-point numbers."""
        opened = effect.opened
        assert opened is not None
        weights = [float(request.examples) for request in trained]
        # Of few examples the fixed-point numbers are coarse: see `flnet.algorithms.secure_sum.MeanEncoder.error`.
        nodes, largest = len(opened.members), max(1.0, *(float(np.abs(a).max()) for a in opened.base.values()))
        error = 1e-5 + CLIP * largest * nodes**2 * WEIGHT_CAPS["agg1"] / 2**32 / sum(weights)
        for name, array in result.items():
            changes = [request.params[name] - opened.base[name] for request in trained]
            expected = opened.base[name] + np.average(changes, axis=0, weights=weights)
            if not np.allclose(array, expected, atol=2 * error):
                return False
        return True


class SegmentLedger(Ledger):
    """Records the averages of a mesh that averages in segments, and checks its invariants.

    - All nodes that make the average of a round get the same bits.
    - These are the bits that a full mesh makes of the updates of its contributors, as they trained them, whole and at once;
      and a full mesh leaves out the same ones.
    - All its segments are of the same contributors, and equal nodes make equal segments of them.

    A node that lost its memory may start a round again, with other members: then it is another one. So it is with the same
    members, once so many of them have lost theirs that these are a quorum: nothing binds them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._contributors: dict[StartedRound, tuple[PeerId, ...]] = {}
        self._segments: dict[tuple[StartedRound, tuple[int, int], bool], Digest] = {}
        self._common: dict[StartedRound, Digest] = {}
        self._forgotten: dict[StartedRound, set[PeerId]] = {}  # which of its members forgot a round
        self._trainings: dict[PeerId, deque[Update]] = {}
        self._bases: dict[Digest, Params] = {}  # that these were trained from
        self._right: dict[RoundKey, set[tuple[Digest, tuple[PeerId, ...]]]] = {}  # what was found to be so
        self.compared = self.not_compared = 0  # averages with what a full mesh makes

    def lost_disk(self, node: PeerId) -> None:
        """A node lost its disk: what it did before does not bind it, nor what most members of a round have forgotten."""
        super().lost_disk(node)
        for start in [start for start in self._contributors if node in start[1]]:
            forgotten = self._forgotten.setdefault(start, set())
            forgotten.add(node)
            if len(forgotten) > len(start[1]) // 2:
                del self._forgotten[start], self._contributors[start]
                self._common.pop(start, None)
                self._segments = {place: made for place, made in self._segments.items() if place[0] != start}

    def accepted(self, job: AnyJob, event: Event) -> Accepted | None:
        """An update counts if the members settle so."""
        return None

    def averaged_segment(self, node: PeerId, members: Collection[str], effect: Average, result: Params) -> None:
        """A node has averaged a segment."""
        assert effect.segment is not None
        peers, start = tuple(peers_of(effect.updates)), (effect.key, frozenset(members))
        if effect.moved is None and self._contributors.setdefault(start, peers) != peers:
            known = self._contributors[start]
            raise InvariantBroken(f"{node} averages a segment of {effect.key} of {peers}, others of {known}")
        place = start, effect.segment, effect.moved is not None
        if self._segments.setdefault(place, result.digest) != result.digest:
            raise InvariantBroken(f"{node} made another segment {effect.segment} of {effect.key} than others")

    def trained(self, job: AnyJob, event: Trained) -> None:
        """A node is told the result of its training, which is its update."""
        model, me = job.held.model, job.settings.my_id
        if model is None:
            return
        base, schema = model.shared, job.held.schema
        shared = schema.conform(event.shared or event.params.select(schema.specs))
        update = Update(me, event.key, shared, event.examples, event.labels, base=base.digest)
        self._trainings.setdefault(me, deque(maxlen=KEPT_TRAININGS)).append(update)
        self._bases[base.digest] = base
        kept = {each.base for trainings in self._trainings.values() for each in trainings}
        self._bases = {digest: params for digest, params in self._bases.items() if digest in kept}

    def joined(self, job: AnyJob, made: RoundRecord, average: MeshAverage) -> None:
        """A node has joined the segments of an average.

        Args:
            made: the record of the round.
            average: what a full mesh makes of updates.
        """
        node, key, digest, start = (
            job.settings.my_id,
            made.key,
            made.digest,
            (made.key, frozenset(made.chosen or ())),
        )
        assert digest is not None
        self.started_average(node, key.number)
        self.averages[node, key.number] = digest
        self._made.setdefault(key.number, set()).add(digest)
        if self._common.setdefault(start, digest) != digest:
            raise InvariantBroken(f"{node} made {digest[:8]} in {key}, others {self._common[start][:8]}")
        round = job.round if isinstance(job.round, SegmentedRound) and job.round.key == key else None
        # With those that moved too far.
        settled = made.contributors if round is None or round.sum is None else round.sum.updates
        self._compare(node, made, sorted(settled), job.held.schema, average)

    def _compare(
        self, node: PeerId, made: RoundRecord, settled: Sequence[PeerId], schema: Schema, average: MeshAverage
    ) -> None:
        """Check that an average is what a full mesh makes of the same updates.

        Raises:
            InvariantBroken: it is not.
        """
        assert made.digest is not None
        result, right = (made.digest, made.contributors), self._right.setdefault(made.key, set())
        if result in right:
            return
        known = {peer: self._known(peer, made.key, schema) for peer in settled}
        if strangers := [peer for peer, updates in known.items() if not updates]:
            self._cannot_compare(node, made, strangers)
            return
        others = set[str]()
        for updates in islice(product(*known.values()), MOST_SETS):
            base = common_base(update.base for update in updates)
            if base is None or base not in self._bases:
                continue
            params, refused = average(updates, self._bases[base])
            if (params.digest, tuple(peer for peer in settled if peer not in refused)) == result:
                right.add(result)
                self.compared += 1
                return
            others.add(f"{params.digest[:8]} without {sorted(refused)}" if refused else params.digest[:8])
        if math.prod(len(updates) for updates in known.values()) > MOST_SETS:
            self.not_compared += 1
            return
        raise InvariantBroken(
            f"{node} made {made.digest[:8]} in {made.key} of {list(made.contributors)}, a full mesh {sorted(others)}"
        )

    def _known(self, peer: PeerId, key: RoundKey, schema: Schema) -> list[Update]:
        """The updates that a node has made in a round: several, if it trained again because it forgot the first one."""
        return [update for update in self._trainings.get(peer, ()) if update.key == key]

    def _cannot_compare(self, node: PeerId, made: RoundRecord, strangers: Sequence[PeerId]) -> None:
        """Nothing is known of what some contributors have trained."""
        raise InvariantBroken(f"{node} averages {made.key} of {strangers}, which trained nothing")


class SparseLedger(Ledger):
    """Records the averages of a mesh whose nodes average with neighbours alone, and checks its invariants.

    - A node averages its own update, or its own model, with updates of its neighbours in the graph of the round alone.
    - The weights of an average sum to 1; no neighbour weighs more than its link, and the node itself no less. But a new
      node that did not train takes what its neighbours have.
    - The average is the sum of what counts by these weights.
    """

    def averaged(self, *args: Any, **kwargs: Any) -> None:
        """A node has averaged: what `Ledger.averaged` checks, but other nodes make other averages of equal updates."""
        self._results.clear()
        super().averaged(*args, **kwargs)

    def mixed(
        self,
        topology: Topology,
        node: PeerId,
        key: RoundKey,
        members: Collection[str],
        updates: Sequence[Update],
        made: Mixed,
        base: Params,
    ) -> None:
        """A node has averaged with its neighbours.

        Args:
            members: of the round, as the node knows them.
            updates: that count.
            base: the model that its round began with.
        """
        drawn = graph(topology, key, [PeerId(member) for member in members])
        near, weights = drawn.get(node, frozenset()), {peer: w.weight or 0.0 for peer, w in made.weighed.items()}
        if strangers := set(peers_of(updates)) - near - {node}:
            raise InvariantBroken(f"{node} averages with {sorted(strangers)}, which are no neighbours of it")
        most = {peer: 1 / (1 + max(len(near), len(drawn[peer]))) for peer in near}
        least = 1 - sum(most.values()) - 1e-9
        is_new = weights[node] == 0 and node not in peers_of(updates)
        is_above = any(weights[peer] > most[peer] for peer in weights.keys() - {node}) or weights[node] < least
        if is_above and not is_new:
            raise InvariantBroken(f"{node} averages with weights {weights}, which may be at most {most}")
        if abs(sum(weights.values()) - 1) > 1e-12:
            raise InvariantBroken(f"{node} averages with weights that sum to {sum(weights.values())!r}")
        held = {node: base, **{update.peer: update.params for update in updates}}
        for name, array in made.params.items():
            expected = sum(weight * held[peer][name].astype(np.float64) for peer, weight in weights.items())
            if not np.allclose(array, expected, rtol=1e-6):
                raise InvariantBroken(f"{node} makes {array} of {name} in {key}, and not {expected}")


class VersionLedger(Ledger):
    """Records the versions of an asynchronous mesh, and checks its invariants.

    - A version that a node has told never changes, and its number never decreases while the node has its disk.
    - Only versions that were told are merged.
    - No peer counts twice in a merge, and none is missing in the record of the version.
    """

    def __init__(self) -> None:
        super().__init__()
        self._newest: dict[PeerId, Mark] = {}
        self._told: dict[PeerId, set[Digest]] = {}
        self._merges: dict[tuple[PeerId, int], set[PeerId]] = {}

    def told_version(self, node: PeerId, number: int, version: StatedVersion) -> None:
        """A node tells its version to others."""
        mark, before = Mark(version.run, number, Digest(version.digest)), self._newest.get(node)
        self._told.setdefault(node, set()).add(mark.digest)
        if before is not None and before.number > 0:
            if mark.number < before.number:
                raise InvariantBroken(f"{node} goes back from version {before.number} to {mark.number}")
            if mark.number == before.number and mark.digest != before.digest:
                raise InvariantBroken(f"{node} tells another version {mark.number} than before")
        self._newest[node] = mark

    def started_average(self, node: PeerId, number: int) -> None:
        """A node begins to merge; after a restart it may merge the same number again."""

    def averaged(
        self,
        node: PeerId,
        effect: Average,
        result: Params,
        folded: Sequence[Update] = (),
        apart: Digest | None = None,
        left_out: Collection[PeerId] = (),
    ) -> None:
        """A node has merged; see `Ledger.averaged` for the arguments."""
        updates = (*folded, *effect.updates)
        peers = peers_of(updates)
        if len(set(peers)) != len(peers) or peers != sorted(peers):
            raise InvariantBroken(f"{node} counts {peers}: twice, or out of order")
        for update in updates:
            if update.peer != node and update.params.digest not in self._told.get(update.peer, ()):
                raise InvariantBroken(f"{node} merges what {update.peer} never told")
        self._merges[node, effect.key.number] = set(peers)

    def accepted(self, job: AnyJob, event: Event) -> Accepted | None:
        """Updates are not acknowledged where versions are fetched."""
        return None

    def stepped(self, job: AnyJob) -> None:
        """A node has handled an event: the record of its newest version names all that it was merged from."""
        number, node, record = job.number, job.settings.my_id, job.history.last
        if job.busy or record is None or record.key.number != number:
            return
        merged = self._merges.pop((node, number), None)
        if merged is None or record.digest is None:
            return
        others = {peer for peer in merged if _is_named(peer, record.outcome)}
        if lost := merged - {*record.contributors, *others, node}:
            raise InvariantBroken(f"{node} does not say that {sorted(lost)} went into version {number}")

    def lost_disk(self, node: PeerId) -> None:
        """A node lost its disk: it starts from version 0 again."""
        super().lost_disk(node)
        self._newest.pop(node, None)
        self._forget_merges(node)

    def restarted(self, node: PeerId, saved: object, *, ran_without_disk: bool = False) -> None:
        """A node was killed and restarted: it still has to know its versions, even if its disk was broken."""
        self._rounds.pop(node, None)
        self._forget_merges(node)

    def _forget_merges(self, node: PeerId) -> None:
        self._merges = {merge: peers for merge, peers in self._merges.items() if merge[0] != node}


def _is_named(peer: PeerId, outcome: str) -> bool:
    """Whether a record says that a model was merged without being a contribution, or was refused."""
    return f"the first model of {peer}," in outcome or peer in outcome.partition("; left out: ")[2]
