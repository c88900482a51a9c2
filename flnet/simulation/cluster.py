"""A whole mesh in one process: the nodes' own logic and codec, a virtual clock, a network with seeded faults.

Equal seeds give equal runs, so a schedule that breaks an invariant is replayed by its seed alone.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Sequence
from random import Random

import numpy as np

from flnet.effects import (
    Answer,
    Average,
    CancelTimer,
    Effect,
    Evaluate,
    Fetch,
    Fold,
    Save,
    Send,
    SendAnnounce,
    SendProbe,
    SetTimer,
    Train,
)
from flnet.errors import PeerError
from flnet.events import (
    Averaged,
    Declaration,
    Evaluated,
    Event,
    MeshStarted,
    Prepared,
    RoundTriggered,
    TimerFired,
    Trained,
    TrainingFailed,
    UpdateReceived,
)
from flnet.jobs import Job, Waits
from flnet.membership import Pauses
from flnet.messages import SAFETENSORS, HyperParams, Packet, Peer
from flnet.node.core import NodeCore
from flnet.params import Params, PeerId, RoundKey, TrainerId, Update
from flnet.simulation.clock import Appointment, VirtualClock
from flnet.simulation.ledger import Ledger
from flnet.simulation.network import SimulatedNetwork
from flnet.simulation.weather import Weather
from flnet.store import SavedJob
from flnet.strategies import fed_avg

TRAINER = TrainerId("SIMULATED")


class SimulatedNode:
    """One node of the cluster: its core, and who performs what it asks for."""

    def __init__(self, core: NodeCore, cluster: Cluster) -> None:
        self.core = core
        self.address = core.me.address
        self._cluster = cluster
        self._timers: dict[tuple[TrainerId | None, str], Appointment] = {}
        self.sums: dict[RoundKey, list[Update]] = {}  # what was folded in rounds that are not averaged yet
        self.saved = SavedJob()  # the disk
        self.is_dead = False

    @property
    def id(self) -> PeerId:
        """The node's id."""
        return PeerId(self.core.me.id)

    @property
    def job(self) -> Job:
        """The node's only job."""
        return self.core.jobs[TRAINER]

    def tell(self, owner: TrainerId | None, event: Event) -> None:
        """An event that nobody waits for; a refusal ends there, and so does all when the node was killed."""
        if self.is_dead:
            return
        with contextlib.suppress(PeerError):
            self.hear(owner, event)

    def hear(self, owner: TrainerId | None, event: Event) -> Packet | None:
        """Pass an event to the core and perform what it asks for; its answer, if there is one."""
        answer = None
        for item in self.core.hear(owner, event):
            if isinstance(item.effect, Answer):
                answer = Packet(item.effect.message, item.effect.params)
            else:
                self._perform(item.owner, item.effect)
        self._cluster.ledger.look(self.id, self.core.jobs.values())
        if isinstance(event, UpdateReceived):
            self._cluster.ledger.acknowledges(self.id, self.job.state, event.update)
        return answer

    def _perform(self, owner: TrainerId | None, effect: Effect) -> None:
        cluster = self._cluster
        match effect:
            case SetTimer(name, seconds, margin):
                self._cancel_timer(owner, name)
                self._timers[owner, name] = cluster.clock.after(
                    seconds + cluster.rng.random() * margin,
                    lambda: self.tell(owner, TimerFired(name)),
                    background=owner is None,
                )
            case CancelTimer(name):
                self._cancel_timer(owner, name)
            case Send() if owner is not None:
                cluster.network.send(self, owner, effect)
            case SendAnnounce():
                cluster.network.announce(self, effect)
            case SendProbe():
                cluster.network.probe(self, effect)
            case Fetch() if owner is not None:
                cluster.network.fetch(self, owner, effect)
            case Fold(key, updates):
                self.sums.setdefault(key, []).extend(updates)
            case Train() | Average() | Evaluate():
                seconds, event = cluster.work(self, effect)
                cluster.clock.after(seconds, lambda: self.tell(owner, event))
            case Save(snapshot, params, private, sent, updates, records):
                self.saved = self.saved.then(SavedJob(snapshot, params, private, sent, updates, records))
            case _:
                pass  # Publish, CancelWork: nothing that the mesh could see

    def _cancel_timer(self, owner: TrainerId | None, name: str) -> None:
        if made := self._timers.pop((owner, name), None):
            self._cluster.clock.cancel(made)


class Cluster:
    """N nodes with one job each."""

    def __init__(
        self,
        size: int,
        seed: int,
        weather: Weather | None = None,
        waits: Waits | None = None,
        pauses: Pauses | None = None,
    ) -> None:
        self.rng = Random(seed)
        self.weather = weather or Weather()
        self.clock = VirtualClock()
        self.ledger = Ledger()
        self.network = SimulatedNetwork(self.clock, self.rng, self.weather, self.ledger)
        self.nodes: dict[PeerId, SimulatedNode] = {}
        self._strategy = fed_avg()
        self._waits = waits or Waits(average=30, margin=5, start=3, claims=35)
        self._pauses = pauses
        for i in range(size):
            me = Peer(id=f"n{i:02}", ip=f"10.0.0.{i + 1}", port=4000)
            self.add(me, (SAFETENSORS,) if i < self.weather.digests * size else ())

    def add(self, me: Peer, accepts: Sequence[str] = ()) -> SimulatedNode:
        """A node that does nothing yet, in place of the one of that id, if there was one."""
        core = NodeCore(me, [TRAINER], self._waits, pauses=self._pauses, accepts=accepts)
        node = SimulatedNode(core, self)
        self.nodes[node.id] = self.network.nodes[node.address] = node
        return node

    def start(self, bootstrap: Callable[[int], Sequence[int]] = lambda i: [0] if i else []) -> None:
        """Start every node; `bootstrap(i)` gives the indices of the nodes that node i is told of."""
        addresses = list(self.network.nodes)
        for i, node in enumerate(self.nodes.values()):
            node.tell(TRAINER, prepared(i))
            node.tell(None, MeshStarted(tuple(addresses[j] for j in bootstrap(i))))

    def trigger(self, node: PeerId, rounds: int = 1) -> bool:
        """Ask a node for rounds; whether it accepted."""
        try:
            self.nodes[node].hear(TRAINER, RoundTriggered(rounds))
        except PeerError:
            return False
        return True

    def busy(self) -> list[PeerId]:
        """Nodes with an open round."""
        return [i for i, node in self.nodes.items() if node.job.busy]

    def run_until_idle(self, seconds: float = 600.0) -> bool:
        """Let things happen until no round is open anywhere; whether that came about within the time."""
        self.clock.run(lambda: not any(node.job.busy for node in self.nodes.values()), self.clock.now + seconds)
        return not self.busy()

    def cut(self, one: Iterable[PeerId], other: Iterable[PeerId]) -> None:
        """Let nothing pass between these nodes, either way, until `heal`."""
        ways = list(itertools.product(one, other))
        self.network.cuts |= {*ways, *((b, a) for a, b in ways)}

    def heal(self) -> None:
        """Open every way that was cut."""
        self.network.cuts.clear()

    def run_for(self, seconds: float) -> None:
        """Let things happen for a while."""
        self.clock.run_to(self.clock.now + seconds)

    def work(self, node: SimulatedNode, effect: Train | Average | Evaluate) -> tuple[float, Event]:
        """What a piece of work takes, in seconds, and how it ends."""
        match effect:
            case Train(key, params):
                seconds = self.rng.uniform(*self.weather.training)
                if self.rng.random() < self.weather.fail_training:
                    return seconds, TrainingFailed(key, "the weather")
                pull = np.float32(self.rng.uniform(-1, 1))
                learnt = Params({name: value * np.float32(0.9) + pull for name, value in params.items()})
                return seconds, Trained(key, learnt, self.rng.randint(1, 500), self.rng.random())
            case Evaluate(key, _, shared):
                return 0.05, Evaluated(key, shared.digest, self.rng.random())
            case Average(key, updates):
                model = node.job.state.model
                assert model is not None
                self.ledger.begins_average(node.id, key.number)
                folded = node.sums.pop(key, [])
                merged, _ = self._strategy.merge(None, model.schema, (*folded, *updates))
                self.ledger.averages_now(node.id, effect, merged, folded)
                return 0.05, Averaged(key, merged)


def prepared(index: int) -> Event:
    """A trainer that is loaded: four weights and three biases, different on every node."""
    start = Params({"w": np.full((2, 2), index, np.float32), "b": np.zeros(3, np.float32)})
    declared = Declaration("Simulated", HyperParams(e=1, u=0.1, b=8), 0.02, ("w", "b"))
    return Prepared(declared, start)
