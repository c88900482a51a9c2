"""A whole mesh in one process: the nodes' own logic and codec, a virtual clock, and a network with seeded faults.

Equal seeds give equal runs, so a schedule that breaks an invariant is replayed by its seed alone.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import math
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random

from flnet.aggregation.base import RoundStart
from flnet.aggregation.fed_avg import fed_avg
from flnet.aggregation.screening import USUAL, Measure, Screening
from flnet.aggregation.segments import merged_segment
from flnet.algorithms.gossip import mixed
from flnet.algorithms.registry import parse_rule
from flnet.algorithms.secure_sum import ImpossibleSumError
from flnet.errors import FlnetError, PeerError
from flnet.membership.probing import Pauses
from flnet.node.core import NodeCore
from flnet.node.performer import restored_of
from flnet.params.arithmetic import distance
from flnet.params.params import Digest, Params, PeerId, TrainerId
from flnet.protocol.effects import Average, Evaluate, SecureStep, Train
from flnet.protocol.events import (
    AnnounceReceived,
    Averaged,
    AveragingFailed,
    Evaluated,
    Event,
    MeshStarted,
    RoundTriggered,
    SumSpoilt,
    Trained,
)
from flnet.protocol.messages import SAFETENSORS, Peer
from flnet.protocol.secure_sum import MaskUpdate
from flnet.protocol.updates import Contribution, Update
from flnet.rounds.round import Round
from flnet.rounds.settings import Rules, Waits
from flnet.simulation.clock import VirtualClock
from flnet.simulation.invariants import (
    Ledger,
    SecureLedger,
    SegmentLedger,
    SparseLedger,
    VersionLedger,
    peers_of,
)
from flnet.simulation.network import Calls, SimulatedNetwork
from flnet.simulation.node import TRAINER, Environment, SimulatedNode, accuracy, prepared, train
from flnet.simulation.schedule import Faults

Listen = Callable[[float, str, str], object]  # takes the time, the node (or ""), and the text
QUICK = 0.05  # seconds of an average or a measurement


def _ledger_for(rules: Rules | None) -> Ledger:
    if rules is not None and rules.asynchronous:
        return VersionLedger()
    if rules is not None and parse_rule(rules.merging).secure is not None:
        return SecureLedger()
    if rules is not None and rules.topology.kind == "segments":
        return SegmentLedger()
    if rules is not None and rules.topology.is_sparse:
        return SparseLedger()
    return Ledger()


def key_of(name: str) -> str:
    """The public key of a node in a keyed mesh: any 32 bytes of its own."""
    return base64.b64encode(hashlib.sha256(name.encode()).digest()).decode()


class Cluster(Environment):
    """Nodes with one job each."""

    def __init__(
        self,
        size: int,
        seed: int,
        faults: Faults | None = None,
        waits: Waits | None = None,
        pauses: Pauses | None = None,
        listen: Listen | None = None,
        rules: Rules | None = None,
        ledger: Ledger | None = None,
        is_keyed: bool = False,
    ) -> None:
        """Args:
        listen: is called with everything that happens.
        rules: of the rounds, the same on all nodes.
        ledger: checks the invariants, instead of the usual one.
        is_keyed: whether messages prove the keys of their senders.
        """
        self.rules = rules
        self.rng = Random(seed)
        self.clock = VirtualClock()
        self.ledger = ledger or _ledger_for(rules)
        self.network = SimulatedNetwork(self.clock, self.rng, faults or Faults())
        self.network.is_keyed = is_keyed
        self.calls = Calls(self.network, self.ledger)
        self.nodes: dict[PeerId, SimulatedNode] = {}
        self.strategy, self.bounds = fed_avg(), USUAL if rules is None else rules.bounds
        if self._in_segments and not self.is_secure:
            self.strategy = parse_rule(rules.merging)  # type: ignore[union-attr]
        self.measure: Measure = distance
        self.pauses = pauses or Pauses()
        self._open_rounds = self._runs = 0
        self._listen = listen
        if listen is not None:
            self.network.listen = lambda text: self.log("", text)
        self._waits = waits or Waits(average=30, margin=5, start=3, claims=35)
        for i in range(size):
            me = Peer(id=self.name_of(i), ip=f"10.0.0.{i + 1}", port=4000)
            self.add(me, (SAFETENSORS,) if i < self.faults.digests * size else ())

    @property
    def is_secure(self) -> bool:
        """Whether updates are masked."""
        return isinstance(self.ledger, SecureLedger)

    @property
    def is_sparse(self) -> bool:
        """Whether nodes average with their neighbours alone."""
        return isinstance(self.ledger, SparseLedger)

    @property
    def alive(self) -> list[SimulatedNode]:
        """The nodes that run."""
        return [node for node in self.nodes.values() if not node.is_dead]

    def add(self, me: Peer, accepts: Sequence[str] = ()) -> SimulatedNode:
        """Add a node that has not been started, in place of the one with its id, if there was one."""
        self._runs += 1
        run, waits = f"run {self._runs}", self._waits
        key = key_of(me.id) if self.network.is_keyed else None
        core = NodeCore(
            me,
            [TRAINER],
            waits,
            pauses=self.pauses,
            accepts=accepts,
            rules=self.rules,
            run=run,
            key=key,
            proves_keys=self.network.is_keyed,
        )
        node = self.make_node(core)
        self.nodes[node.id] = node
        self.network.nodes[node.address] = node
        return node

    def make_node(self, core: NodeCore) -> SimulatedNode:
        """A node with this core."""
        return SimulatedNode(core, self)

    def name_of(self, number: int) -> str:
        """The id of a node by its number, from 0; ids decide which nodes train in a round."""
        return f"n{number:02}"

    def start(self, bootstrap: Callable[[int], Sequence[int]] = lambda i: [0] if i else []) -> None:
        """Start every node; `bootstrap(i)` gives the numbers of the nodes that node i knows at first."""
        addresses = list(self.network.nodes)
        for i, node in enumerate(self.nodes.values()):
            node.tell(TRAINER, prepared(i))
            node.tell(None, MeshStarted(tuple(addresses[j] for j in bootstrap(i))))

    def introduce(self) -> None:
        """Announce every node to every other one.

        If nodes knew one peer each, they would meet all others, too, but in messages whose size grows with the third
        power of the number of nodes. How a mesh forms has no effect on its rounds.
        """
        for node, other in itertools.permutations(self.nodes.values(), 2):
            accepts = frozenset(other.core.members.accepts or ())
            node.tell(None, AnnounceReceived(other.core.me, accepts=accepts, incarnation=0))

    def kill(self, name: PeerId) -> SimulatedNode:
        """Kill a node: nothing that it had in progress comes to an end, and what is sent to it is lost."""
        node = self.nodes[name]
        self.network.nodes.pop(node.address)
        node.end()
        return node

    def restart(self, dead: SimulatedNode, *, keeps_disk: bool = True) -> SimulatedNode:
        """Start a killed node again under its id and address, with its disk or with an empty one."""
        node = self.add(dead.core.me, dead.core.members.accepts or ())
        index = list(self.nodes).index(node.id)
        self.network.refusing.discard(node.address)
        if keeps_disk:
            node.saved, node.disk.incarnation = dead.saved, dead.disk.incarnation
            self.ledger.restarted(node.id, node.saved.snapshot, ran_without_disk=dead.disk.has_failed)
            if node.saved.snapshot:
                node.tell(TRAINER, restored_of(node.saved))
        else:
            self.ledger.lost_disk(node.id)
        addresses = tuple(a for a in self.network.nodes if a != node.address)
        node.tell(None, MeshStarted(addresses, incarnation=node.disk.incarnation))
        node.tell(TRAINER, prepared(index))
        return node

    def trigger(self, node: PeerId, rounds: int = 1, until: str | None = None) -> bool:
        """Ask a node for rounds; whether it accepted."""
        if self.nodes[node].is_dead:
            return False
        try:
            self.nodes[node].hear(TRAINER, RoundTriggered(rounds, until=until))
        except PeerError:
            return False
        return True

    def busy(self) -> list[PeerId]:
        """Nodes with an open round."""
        return [i for i, node in self.nodes.items() if not node.is_dead and node.job.busy]

    def run_for(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.clock.run_to(self.clock.now + seconds)

    def run_until_idle(self, seconds: float = 600.0) -> bool:
        """Run until no round is open on any node, for so many seconds at most; whether that was reached."""
        self.clock.run(lambda: not self._open_rounds, self.clock.now + seconds)
        return not self.busy()

    def cut(self, some: Iterable[PeerId], others: Iterable[PeerId]) -> None:
        """Close the ways between these nodes in both directions, until `heal`."""
        ways = list(itertools.product(some, others))
        self.network.cuts |= {*ways, *((b, a) for a, b in ways)}

    def heal(self) -> None:
        """Open all ways that were cut."""
        self.network.cuts.clear()

    def accuracy_of(self, node: PeerId, digest: Digest) -> float:
        """The accuracy of a model on the test data of a node."""
        return accuracy(node, digest)

    def begins(self, node: SimulatedNode, owner: TrainerId | None, effect: Train | Average | Evaluate) -> None:
        """Start a piece of work for a node, which is told the result later."""
        seconds, event = self.work(node, effect)
        self.clock.after(seconds, lambda: node.tell(owner, event))

    def does_step(self, node: SimulatedNode, owner: TrainerId | None, effect: SecureStep) -> None:
        """Do a step of a secure sum for a node, which is told the result later."""
        rule, model = parse_rule(node.job.settings.rule), node.job.held.model
        assert model is not None
        if isinstance(effect.request, MaskUpdate) and isinstance(self.ledger, SecureLedger):
            self.ledger.masks(node.id, effect.key, effect.attempt, effect.request)
        event = node.secrets.perform(TRAINER, effect, model.schema, rule)
        if event is not None:
            self.clock.after(QUICK / 5 * node.slowness, lambda: node.tell(owner, event))

    def work(self, node: SimulatedNode, effect: Train | Average | Evaluate) -> tuple[float, Event]:
        """How many seconds a piece of work takes, and its result."""
        match effect:
            case Train():
                seconds, event = train(self.rng, self.faults, effect, node.slowness)
                return seconds, self._stated(node, event)
            case Evaluate(key, _, shared, split=split):
                measured = Evaluated(key, shared.digest, self.accuracy_of(node.id, shared.digest), split=split)
                return QUICK * node.slowness, measured
            case Average():
                return QUICK * node.slowness, self._average(node, effect)

    def _stated(self, node: SimulatedNode, event: Event) -> Event:
        """A training with what its node states of it: labels where the rule weighs by them, and what is signed.

        It is signed in segments, in a mesh that proves keys.
        """
        model = node.job.held.model
        if model is None or not isinstance(event, Trained) or not self._in_segments:
            return event
        if self.strategy.name == "agg2":
            event = replace(event, labels=1 + zlib.crc32(node.id.encode()) % 4)
        if not self.network.is_keyed:
            return event
        key, base, trained = event.key, node.job.held.digest or "", event.params.digest
        facts = (node.id, TRAINER, key.number, key.initiator, model.schema.digest, base, trained, event.examples)
        return replace(event, contribution=Contribution(*facts, labels=event.labels))

    @property
    def _in_segments(self) -> bool:
        return self.rules is not None and self.rules.topology.kind == "segments"

    def is_now_busy(self, node: SimulatedNode, is_busy: bool) -> None:
        """A node reports whether it has an open round."""
        self._open_rounds += is_busy - node.is_busy
        node.is_busy = is_busy

    def publishes(self, node: SimulatedNode, text: str) -> None:
        """A node publishes an event."""
        if self._listen is not None:
            self.log(node.id, text)

    def log(self, node: str, text: str) -> None:
        """Report something that happens at a node, or in the mesh, to the listener."""
        if self._listen is not None:
            self._listen(self.clock.now, node, text)

    def end(self) -> None:
        """Break the reference cycles between nodes and scheduled calls, which would keep all of it in memory."""
        for node in self.nodes.values():
            node.end()
        self.clock.clear()
        self.nodes.clear()
        self.network.clear()

    def _average(self, node: SimulatedNode, effect: Average) -> Event:
        key, model = effect.key, node.job.held.model
        assert model is not None
        if effect.opened is not None:
            return self._open_sum(node, effect)
        if effect.segment is not None:
            return self._average_segment(node, effect, effect.segment)
        if effect.links is not None:
            return self._mixed(node, effect, effect.links)
        self.ledger.started_average(node.id, key.number)
        summed, spoilt = node.sums.pop(key, []), node.spoilt.pop(key, [])
        base, needs_base = node.job.screened_from, self.strategy.needs_base
        screening = Screening(self.bounds, base, model.schema, needs_base, self.measure)
        screening.take(spoilt)  # decisions about these stand
        taken, refused = screening.take((*summed, *effect.updates)), screening.refused()
        if refused.keys() & peers_of(summed):
            node.spoilt[key] = [*summed, *effect.updates]
            return SumSpoilt(key, refused)
        counting = [update for update in taken if update.peer not in refused]
        members = frozenset({node.id, *node.job.peers.here})
        start = RoundStart(model.schema, base, key.number, node.id, members)
        merged, remembered, weighed, alike, note = self.strategy.merge(node.job.held.remembered, start, counting)
        is_common = screening.is_common and alike and not effect.is_apart
        apart = None if is_common else model.shared.digest
        if effect.is_apart and node.job.held.remembered is not None:
            apart = Digest(f"{apart} {node.job.held.remembered.digest}")
        averaging = node.job.round.gathering if node.job.round else None
        again = averaging.again if averaging else None
        left_out = {*refused, *(again.lost if again else ())}
        self.ledger.averaged(node.id, effect, merged, summed, apart, left_out=left_out)
        return Averaged(key, merged, 0.0, refused, is_common, screening.weighed(weighed), remembered, note)

    def _average_segment(self, node: SimulatedNode, effect: Average, segment: tuple[int, int]) -> Event:
        model = node.job.held.model
        assert model is not None
        start = RoundStart(model.schema, effect.base or model.shared, effect.key.number, node.id)
        how = (effect.updates, segment, self.bounds, effect.moved)
        rule = parse_rule(node.job.settings.rule) if self.is_secure else self.strategy
        params, squares = merged_segment(rule, start, *how)
        if isinstance(self.ledger, SegmentLedger):
            choice = node.job.round.choice if isinstance(node.job.round, Round) else None
            self.ledger.averaged_segment(node.id, choice.members if choice else (), effect, params)
        return Averaged(effect.key, params, segment=segment[0], squares=squares)

    def mesh_average(
        self, node: SimulatedNode, number: int, updates: Sequence[Update], base: Params
    ) -> tuple[Params, Collection[PeerId]]:
        """What a node of a full mesh makes of whole updates in a round from a base, and whose it leaves out."""
        schema = node.job.held.schema
        screening = Screening(self.bounds, base, schema, self.strategy.needs_base, self.measure)
        taken, refused = screening.take(updates), screening.refused()
        counting = [update for update in taken if update.peer not in refused]
        merged = self.strategy.merge(None, RoundStart(schema, base, number, node.id), counting)
        return schema.conform(merged.params), refused.keys()

    def _mixed(self, node: SimulatedNode, effect: Average, links: Mapping[PeerId, float]) -> Event:
        model, base = node.job.held.model, node.job.screened_from
        assert model is not None
        screening = Screening(self.bounds, base, model.schema, self.strategy.needs_base, self.measure)
        taken, refused = screening.take(effect.updates), screening.refused()
        counting = [update for update in taken if update.peer not in refused]
        start = RoundStart(model.schema, base, effect.key.number, node.id)
        made = mixed(self.strategy.name, start, counting, links, model.is_initial)
        params = model.schema.conform(made.params)
        if isinstance(self.ledger, SparseLedger):
            round = node.job.round
            choice = round.choice if isinstance(round, Round) else None
            members = choice.members if choice else ()
            topology = node.job.settings.rules.topology
            self.ledger.mixed(topology, node.id, effect.key, members, counting, made, base)
        self.ledger.averaged(node.id, effect, params, left_out=set(refused))
        weighed = screening.weighed(made.weighed)
        return Averaged(effect.key, params, 0.0, refused, True, weighed, None, made.note, spread=made.spread)

    def _open_sum(self, node: SimulatedNode, effect: Average) -> Event:
        key, model = effect.key, node.job.held.model
        assert model is not None and effect.opened is not None
        rule = parse_rule(node.job.settings.rule)
        try:
            merged = node.secrets.open(TRAINER, effect, model.schema, rule, math.inf)
        except (FlnetError, ValueError) as exc:
            return AveragingFailed(key, str(exc), isinstance(exc, ImpossibleSumError))
        if isinstance(self.ledger, SecureLedger):
            self.ledger.opened_sum(node.id, effect, merged.params)
        return Averaged(key, merged.params)
