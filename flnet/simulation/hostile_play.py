"""Schedules with a hostile member: which there are, how one is run, and what must hold of the honest nodes.

The honest nodes' trainers have an accuracy that depends on the parameters, so that a worse model is one.
"""

from __future__ import annotations

import itertools
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from enum import Enum
from random import Random

import numpy as np

from flnet.membership.roster import State
from flnet.node.core import NodeCore
from flnet.params.params import Digest, Params, PeerId, Schema, TrainerId
from flnet.params.segments import Segments
from flnet.protocol.effects import Average, Effect, Evaluate, Publish, Train
from flnet.protocol.events import (
    Averaged,
    DataChanged,
    Evaluated,
    Event,
    MeshStarted,
    Prepared,
    Restored,
    RolledBack,
    RoundTriggered,
    SeriesStopped,
    Trained,
    TrainingFailed,
)
from flnet.protocol.messages import MAX_PEERS, SAFETENSORS, Peer
from flnet.protocol.updates import RoundKey, Update
from flnet.rounds.base_job import AnyJob
from flnet.rounds.history import RoundRecord
from flnet.rounds.job import Job
from flnet.rounds.limits import Limits
from flnet.rounds.model import Model
from flnet.rounds.numbering import ERA, REST
from flnet.simulation.actions import Actions
from flnet.simulation.cluster import QUICK, Cluster, Listen, key_of
from flnet.simulation.hostile import FORGING_SECONDS, MOVES, HostileCore, HostileMember
from flnet.simulation.invariants import (
    Accepted,
    InvariantBroken,
    Ledger,
    MeshAverage,
    SecureLedger,
    SegmentLedger,
    SparseLedger,
)
from flnet.simulation.network import Answered
from flnet.simulation.node import TRAINER, SimulatedNode, prepared
from flnet.simulation.playback import Play
from flnet.simulation.schedule import GAPS, Action, Faults, Schedule, draw
from flnet.store.base import SavedJob

HOSTILE_IDS = ("m00", "z00")
GOAL = 3.0  # value of every parameter of the best model
HONEST = (
    "trigger",
    "series",
    "goal",
    "stop",
    "kill",
    "start",
    "part",
    "isolate",
    "heal",
    "stall",
    "go back",
    "forget",
)
ENDS = ("stays", "is silent", "is gone")  # what the hostile member does after the last action
LIMITS = Limits(epochs=20, batch_size=4096, batches=100_000, learning_rate=10)  # of what peers may ask for
MEETINGS = 4  # times that persons try to bring together nodes with different round numbers
MOST_ERAS = 8
MOST_ROUNDS = 3000  # round numbers after a schedule; no schedule asks for as many
MOST_ENTRIES = 4 * MAX_PEERS  # of any collection in the core of a node
# What is published when a member is no longer one.
DROPPED = ("peer_lost", "peer_left", "peer_replaced", "peer_pruned")
ASKS = 120  # times that a person looks whether to ask for a round, while the hostile member goes on
UNDER_ATTACK = 10  # in so many timeouts of an average, each honest node must average a round of its own then


def draw_hostile(seed: int) -> Schedule:
    """Draw the schedule of a seed with a hostile member: its moves, and what else happens."""
    rng, honest = Random(f"{seed} hostile"), draw(seed)
    moves = rng.sample(sorted(MOVES), rng.randint(1, 4))
    actions = [replace(honest.actions[0], kind="trigger")]
    for _ in range(rng.randint(4, 12)):
        kind = rng.choice(moves) if rng.random() < 0.7 else rng.choice(HONEST)
        wait = round(rng.uniform(0, rng.choice(GAPS[:9])), 3)
        size = int(rng.random() * 1000) / 1000
        actions.append(Action(wait, kind, rng.randrange(100), rng.randrange(100), size))
    return replace(
        honest,
        size=rng.choice((2, 3, 3, 4, 5)),
        faults=honest.faults if rng.random() < 0.4 else Faults(training=(0.2, 0.5)),
        actions=tuple(actions),
        stays_dead=False,
        ending="",
        starters=1,
        participation=1.0,
        staleness=0,
        hostile=rng.choice(ENDS),
        keyed=rng.random() < 0.4,
    )


class HonestLedger(Ledger):
    """A ledger that checks what the honest nodes do.

    What a hostile member sends is bound to nothing; nor are updates in the name of an honest node, which nobody can
    tell from its own in a mesh without a key.
    """

    def __init__(self, hostile: Collection[PeerId], is_keyed: bool) -> None:
        """Args:
        hostile: the hostile members.
        """
        super().__init__()
        self.hostile, self._is_keyed = hostile, is_keyed

    def sent_update(self, peer: PeerId, key: RoundKey, params: Params, staleness: int = 0) -> None:
        """A node sends its update of a round."""
        if peer not in self.hostile:
            super().sent_update(peer, key, params, staleness)

    def started_average(self, node: PeerId, number: int) -> None:
        """A node begins to average."""
        if node not in self.hostile:
            super().started_average(node, number)

    def averaged(
        self,
        node: PeerId,
        effect: Average,
        result: Params,
        folded: Sequence[Update] = (),
        apart: Digest | None = None,
        left_out: Collection[PeerId] = (),
    ) -> None:
        """A node has averaged."""
        if node not in self.hostile:
            super().averaged(node, effect, result, folded, apart, left_out)

    def accepted(self, job: AnyJob, event: Event) -> Accepted | None:
        """The update that a node accepted from a peer."""
        return None if job.settings.my_id in self.hostile else super().accepted(job, event)

    def acknowledged_update(self, node: PeerId, accepted: Accepted, disk: SavedJob) -> None:
        """A node replies 200 to an update."""
        if accepted.peer not in self.hostile:
            super().acknowledged_update(node, accepted, disk)

    def adopted(self, node: PeerId, own: Digest, before: float, after: float, threshold: float) -> None:
        """A node adopted a peer's model instead of its own average."""
        if node not in self.hostile:
            super().adopted(node, own, before, after, threshold)

    def entered_round(self, node: PeerId, number: int) -> None:
        """The effects of a step become visible to others."""
        if node not in self.hostile:
            super().entered_round(node, number)

    def _was_sent(self, node: PeerId, update: Update) -> bool:
        may_be_forged = not self._is_keyed or update.peer in self.hostile
        return may_be_forged or super()._was_sent(node, update)


class HonestNode(SimulatedNode):
    """An honest node, whose model and members are watched."""

    def __init__(self, core: NodeCore, environment: HostileCluster) -> None:
        super().__init__(core, environment)
        self._cluster = environment
        self._held: set[Digest] = set()

    def _handle(self, owner: TrainerId | None, event: Event, answered: Answered) -> None:
        before = self.job.held.model
        super()._handle(owner, event, answered)
        if before is not None and not isinstance(event, RolledBack | Prepared | DataChanged | Restored):
            self.check_base(before, event)
        if self.job.held.digest is not None:
            self._held.add(self.job.held.digest)

    def check_base(self, before: Model, event: Event | None) -> None:
        """Check that a model which this node neither made nor held before is no worse than its own.

        Before the first average all nodes start from the initiator's model. An average that honest nodes have made
        without this one may be worse here.

        Args:
            before: the model that it held.
            event: that it handled since.

        Raises:
            InvariantBroken: it is worse.
        """
        now = self.job.held.model
        is_average = isinstance(event, Averaged) and event.segment is None and event.key == self._averaged_in
        own = event.params if isinstance(event, Averaged) and is_average else before.shared
        if now is None or before.round < 0 or now.shared.digest in {own.digest, *self._held}:
            return
        if self._cluster.ledger.averages.get((self.id, now.round)) == now.shared.digest:
            return  # joined here, of segments
        # Held: before a restart.
        if self.job.history.held(now.shared.digest) or self._has_taken(now.shared.digest):
            return
        had, has = score(self.id, own), score(self.id, now.shared)
        if has < had:
            why = type(event).__name__
            raise InvariantBroken(
                f"{self.id} takes a worse model: {had:.4f} before, {has:.4f} now, because of {why}"
            )

    def _has_taken(self, digest: Digest) -> bool:
        """Whether this is the average of the open round, which honest nodes have made and this one took."""
        record = self.job.round.record if self.job.round else None
        if record is None or record.taken_from is None or record.digest != digest:
            return False
        return self._cluster.ledger.is_average(record.key.number, digest)

    @property
    def _averaged_in(self) -> RoundKey | None:
        """The newest round that was averaged here."""
        records = [*self.job.history.records, *([self.job.round.record] if self.job.round else [])]
        return next((record.key for record in reversed(records) if record.digest is not None), None)

    def _perform(self, owner: TrainerId | None, effect: Effect) -> None:
        if isinstance(effect, Publish) and effect.kind in DROPPED:
            self._cluster.dropped(self, PeerId(effect.data["peer"]), effect.kind)
        super()._perform(owner, effect)


def score(node: PeerId, params: Params) -> float:
    """The accuracy of a model on the data of a node: the nearer to the node's best model, the better."""
    goal = GOAL + zlib.crc32(node.encode()) / 2**34
    off = sum(float(np.abs(array.astype(np.float64) - goal).mean()) for array in params.values())
    return 1 / (1 + off / len(params))


class HonestSecureLedger(HonestLedger, SecureLedger):
    """The same where updates are masked. The hostile member is in no group: it knows nothing of masks."""


class HonestSegmentLedger(HonestLedger, SegmentLedger):
    """The same where updates are averaged in segments.

    A hostile member that leads a vote can settle two sets of contributors. Then nodes make segments of both, but no two
    averages.
    """

    def __init__(self, hostile: Collection[PeerId], is_keyed: bool) -> None:
        """Args:
        hostile: the hostile members.
        """
        super().__init__(hostile, is_keyed)
        self._seen: dict[Digest, Params] = {}  # segments of updates that honest nodes averaged
        self._averaged_updates: dict[tuple[PeerId, RoundKey], dict[str, Update]] = {}  # as they were offered

    def accepted(self, job: AnyJob, event: Event) -> Accepted | None:
        """An update counts if the members settle so."""
        return None

    def averaged_segment(self, node: PeerId, members: Collection[str], effect: Average, result: Params) -> None:
        """A node has averaged a segment."""
        if node not in self.hostile:
            contributors = [f"{update.peer} {update.params.digest}" for update in effect.updates]
            for update in effect.updates:
                self._seen[update.params.digest] = update.params
                offers = self._averaged_updates.setdefault((update.peer, update.key), {})
                offers[f"{update.examples} {update.labels} {update.base} {update.segments}"] = update
            super().averaged_segment(node, [*members, *contributors], effect, result)

    def joined(self, job: AnyJob, made: RoundRecord, average: MeshAverage) -> None:
        """A node has joined the segments of an average."""
        if job.settings.my_id not in self.hostile:
            super().joined(job, made, average)

    def _known(self, peer: PeerId, key: RoundKey, schema: Schema) -> list[Update]:
        """The updates of a node in a round: what it trained, and what nodes averaged if that may be another."""
        may_be_forged = not self._is_keyed or peer in self.hostile
        trained = [] if peer in self.hostile else super()._known(peer, key, schema)
        return [*trained, *(self._put_together(peer, key, schema) if may_be_forged else [])]

    def _put_together(self, peer: PeerId, key: RoundKey, schema: Schema) -> Iterator[Update]:
        for update in self._averaged_updates.get((peer, key), {}).values():
            parts = [self._seen.get(digest) for digest in update.segments]
            cut = Segments(schema, max(1, len(parts)))
            if len(parts) == cut.count and None not in parts:
                whole = cut.joined([part for part in parts if part is not None])
                yield replace(update, params=whole, contribution=None)

    def _cannot_compare(self, node: PeerId, made: RoundRecord, strangers: Sequence[PeerId]) -> None:
        """Honest nodes have not averaged all segments of an update that nobody trained."""
        if self._is_keyed and (unknown := set(strangers) - set(self.hostile)):
            super()._cannot_compare(node, made, sorted(unknown))
        self.not_compared += 1


class HonestSparseLedger(HonestLedger, SparseLedger):
    """The same where nodes average with their neighbours alone."""


class HostileCluster(Cluster):
    """A mesh of honest nodes and a hostile member.

    Attributes:
        hostile: the hostile member; it is not among the `nodes`.
        is_calm: whether nothing was disturbed for so long that no node has a reason to lose another one.
    """

    def __init__(self, schedule: Schedule, hostile_id: str, listen: Listen | None = None) -> None:
        self._scores: dict[tuple[PeerId, Digest], float] = {}
        self.is_calm: Callable[[], bool] = lambda: False
        kind = HonestLedger
        if schedule.secure or schedule.segments:
            kind = HonestSecureLedger if schedule.secure else HonestSegmentLedger
        elif schedule.topology:
            kind = HonestSparseLedger
        ledger = kind({PeerId(hostile_id)}, schedule.keyed)
        s = schedule
        rules = replace(s.rules, limits=LIMITS)
        super().__init__(s.size, s.seed, s.faults, s.waits, s.pauses, listen, rules, ledger, s.keyed)
        me = Peer(id=hostile_id, ip="10.0.9.1", port=4000)
        accepts = (SAFETENSORS,) if s.faults.digests else ()
        key = key_of(hostile_id) if s.keyed else None
        core = HostileCore(
            me,
            [TRAINER],
            s.waits,
            pauses=s.pauses,
            accepts=accepts,
            rules=rules,
            run="run of the hostile",
            key=key,
            proves_keys=s.keyed,
        )
        self.hostile = HostileMember(core, self, lambda: self.alive)
        self.network.nodes[self.hostile.address] = self.hostile

    def make_node(self, core: NodeCore) -> SimulatedNode:
        """An honest node."""
        return HonestNode(core, self)

    def remove_hostile(self) -> None:
        """Kill the hostile member."""
        self.network.nodes.pop(self.hostile.address, None)
        self.hostile.end()

    def start(self, bootstrap: Callable[[int], Sequence[int]] = lambda i: [0] if i else []) -> None:
        """Start every node, the hostile one last."""
        super().start(bootstrap)
        self.hostile.tell(TRAINER, prepared(0))
        self.hostile.tell(None, MeshStarted((next(iter(self.network.nodes)),)))

    def accuracy_of(self, node: PeerId, digest: Digest) -> float:
        """The accuracy of a model that was measured."""
        return self._scores[node, digest]

    def work(self, node: SimulatedNode, effect: Train | Average | Evaluate) -> tuple[float, Event]:
        """How many seconds a piece of work takes, and its result."""
        match effect:
            case Train():
                return self._train(node, effect)
            case Evaluate():
                found = self._scores[node.id, effect.shared.digest] = score(node.id, effect.shared)
                measured = Evaluated(effect.key, effect.shared.digest, found, split=effect.split)
                return QUICK * node.slowness, measured
        return super().work(node, effect)

    def _train(self, node: SimulatedNode, effect: Train) -> tuple[float, Event]:
        rng = self.rng
        seconds = rng.uniform(*self.faults.training) * node.slowness * effect.hyper.e
        if rng.random() < self.faults.fail_training:
            return seconds, TrainingFailed(effect.key, "the weather")
        goal, rate = GOAL + rng.uniform(-0.1, 0.1), 5 * effect.hyper.u
        with np.errstate(over="ignore"):
            trained = Params(
                {
                    name: value + np.float32(rate) * (np.float32(goal) - value)
                    for name, value in effect.params.items()
                }
            )
        made = Trained(effect.key, trained, rng.randint(1, 500), score(node.id, trained), seconds=seconds)
        return seconds, self._stated(node, made)

    def is_now_busy(self, node: SimulatedNode, is_busy: bool) -> None:
        """An honest node reports whether it has an open round."""
        if isinstance(node, HonestNode):
            super().is_now_busy(node, is_busy)

    def dropped(self, node: SimulatedNode, peer: PeerId, kind: str) -> None:
        """A node no longer counts a peer as a member."""
        other = self.nodes.get(peer)
        # No schedule of these lets one leave.
        if other is not None and kind == "peer_left" and self.network.is_keyed:
            raise InvariantBroken(f"{node.id} believes that {peer} left, which never signed that")
        if other is not None and not other.is_dead and self.is_calm():
            raise InvariantBroken(f"{node.id} drops {peer}, which is there ({kind})")

    def end(self) -> None:
        """Break the reference cycles between nodes and scheduled calls, which would keep all of it in memory."""
        self.hostile.end()
        super().end()


class HostileActions(Actions):
    """Performs the moves of the hostile member, too."""

    cluster: HostileCluster

    def __init__(self, cluster: HostileCluster, seed: int) -> None:
        super().__init__(cluster)
        self._seed = seed

    def perform(self, action: Action) -> None:
        """Perform an action, as far as it is possible."""
        if action.kind in MOVES:
            self.cluster.hostile.attack(action.kind, Random(f"{self._seed} {action}"))
        else:
            super().perform(action)


class HostilePlay(Play):
    """One run of a schedule with a hostile member."""

    cluster: HostileCluster

    def make_cluster(self, listen: Listen | None) -> HostileCluster:
        """The mesh of the schedule, with a hostile member whose id comes before or after those of all others."""
        s = self.schedule
        cluster = HostileCluster(s, HOSTILE_IDS[s.seed % 2], listen)
        cluster.is_calm = lambda: self.is_calm
        return cluster

    def make_actions(self) -> HostileActions:
        """What performs the actions of the schedule."""
        return HostileActions(self.cluster, self.schedule.seed)

    @property
    def size(self) -> int:
        """How many nodes the mesh may consist of, in the view of its nodes."""
        known = [len(node.core.members.known) for node in self.cluster.alive]
        return 1 + max([self.schedule.size, *known])

    def disagreements(self) -> list[str]:
        """Which honest nodes are no members for each other."""
        wrong = []
        for node, other in itertools.permutations(self.cluster.alive, 2):
            member = node.core.members.known.get(other.id)
            if member is None or member.state is not State.ALIVE:
                wrong.append(f"{node.id} holds {other.id} for {member.state.value if member else 'nobody'}")
        return wrong

    def run(self) -> None:
        """Run the schedule, and check everything.

        Raises:
            InvariantBroken: a check failed.
        """
        cluster, schedule = self.cluster, self.schedule
        self._act()
        self._end_faults()
        if schedule.hostile == "stays":
            self._keep_attacking()
            self._train_under_attack()
        self._check_state()
        cluster.hostile.be_silent()
        if schedule.hostile != "is silent":
            cluster.remove_hostile()
        cluster.log("", "the hostile member is silent now")
        cluster.run_for(FORGING_SECONDS)
        for node in cluster.alive:
            self.actions.command(node, SeriesStopped())
        self._come_to_rest()
        self._clean_rounds()
        self._check_state()

    def _keep_attacking(self) -> None:
        """Let the hostile member make a move every few seconds."""
        cluster, rng = self.cluster, Random(f"{self.schedule.seed} goes on")
        kinds = sorted({action.kind for action in self.schedule.actions if action.kind in MOVES}) or sorted(MOVES)

        def again() -> None:
            kind = rng.choice(kinds)
            cluster.log("", f"the hostile member goes on: {kind}")
            cluster.hostile.attack(kind, rng)
            if not cluster.hostile.is_dead:
                cluster.clock.after(rng.uniform(0.5, 6.0), again, background=True)

        cluster.clock.after(1.0, again, background=True)

    def _train_under_attack(self) -> None:
        """Let a person ask for rounds until every honest node has trained in one and averaged it.

        The hostile member starts rounds, too, and cuts others short, so these need not be the same for all. A node that
        it led to a number where nobody follows trains alone until a person brings it back. Where updates are masked, one
        node alone averages nothing.

        Raises:
            InvariantBroken: a node did not.
        """
        cluster, names = self.cluster, sorted(self.cluster.nodes)
        before = {node.id: len(self._own_averages(node)) for node in cluster.alive}
        person = cluster.nodes[names[self.schedule.seed % len(names)]]
        wait = UNDER_ATTACK * self.schedule.waits.average
        waiting: list[PeerId] = []
        for _ in range(ASKS):
            if not person.job.busy:
                cluster.log(person.id, "a person asks for a round")
                self.actions.command(person, SeriesStopped())
                self.actions.command(person, RoundTriggered(1))
            cluster.run_for(wait / ASKS)
            waiting = [node.id for node in cluster.alive if len(self._own_averages(node)) <= before[node.id]]
            if not waiting:
                return
        if cluster.is_secure or self.schedule.segments:
            waiting = [name for name in waiting if self._is_followed(cluster.nodes[name])]
        if not waiting:
            return
        raise InvariantBroken(f"{waiting} average nothing in {wait:g} s while the hostile member goes on")

    def _is_followed(self, node: SimulatedNode) -> bool:
        """Whether another honest node has reached the round of this one, or may follow there on its word."""
        number, others = node.job.number, [other.job for other in self.cluster.alive if other is not node]
        return any(
            job.number >= number or (isinstance(job, Job) and job.numbering.is_plausible(number, job.number))
            for job in others
        )

    def _own_averages(self, node: SimulatedNode) -> set[RoundKey]:
        """The rounds that a node averaged with its own update."""
        round, records = node.job.round, list(node.job.history.records)
        open_record = round.open_record if round is not None else None
        records += [open_record] if open_record is not None else []
        return {record.key for record in records if record.digest is not None and node.id in record.contributors}

    def _clean_rounds(self) -> None:
        """Let persons bring together nodes whose numbers the hostile member led apart, then run clean rounds."""
        cluster = self.cluster
        for _ in range(MEETINGS):
            ahead, behind = self._extremes()
            if ahead == behind:
                break
            cluster.run_for(REST)
            for node, is_new in ((ahead, False), (behind, False), (behind, True)):
                cluster.log(node, "a person asks for a round" + " in a new numbering" * is_new)
                self.actions.command(cluster.nodes[node], RoundTriggered(1, new_numbering=is_new))
                self._close()
                if len(set(self._numbers())) == 1:
                    break
        self._trigger([min(cluster.alive, key=lambda node: node.job.number).id])
        self._close()  # what the hostile member said ahead of the next round, and to some only, counts in it
        super()._clean_rounds()

    def _numbers(self) -> list[int]:
        return [node.job.number for node in self.cluster.alive]

    def _extremes(self) -> tuple[PeerId, PeerId]:
        """The node that is furthest ahead, and the one furthest behind; the same one if there is no difference."""
        alive = sorted(self.cluster.alive, key=lambda node: node.job.number)
        return (
            (alive[-1].id, alive[0].id) if alive[-1].job.number > alive[0].job.number + 1 else (alive[0].id,) * 2
        )

    def _check_state(self) -> None:
        """Check that round numbers and everything that nodes remember stay small.

        Raises:
            InvariantBroken: something is large.
        """
        for node in self.cluster.alive:
            number = max(node.job.number, 0)
            if number % ERA > MOST_ROUNDS or number // ERA > MOST_ERAS:
                raise InvariantBroken(f"{node.id} is in round {node.job.number}")
            for place, count in collections_in(node.core):
                if count > MOST_ENTRIES:
                    raise InvariantBroken(f"{node.id} has {count} entries in {place}")


def collections_in(root: object) -> Iterator[tuple[str, int]]:
    """All collections that can be reached from an object of flnet: where each is, and how many entries it has."""
    seen: set[int] = set()
    waiting: list[tuple[str, object]] = [("core", root)]
    while waiting:
        place, item = waiting.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, Mapping):
            yield place, len(item)
            waiting += [(f"{place}[]", value) for value in item.values()]
        elif isinstance(item, list | tuple | Set | deque):
            yield place, len(item)
            waiting += [(f"{place}[]", value) for value in item]
        elif type(item).__module__.startswith("flnet.") and not isinstance(item, Enum):
            names = [*getattr(item, "__dict__", ()), *getattr(type(item), "__slots__", ())]
            waiting += [(f"{place}.{name}", getattr(item, name, None)) for name in names]
