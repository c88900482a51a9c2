"""A whole mesh in one process: the nodes' own logic and codec, a virtual clock, a network with seeded faults.

Equal seeds give equal runs, so a schedule that breaks an invariant is replayed by its seed alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from random import Random

from flnet.effects import Average, Evaluate, Train
from flnet.errors import PeerError
from flnet.events import Event, MeshStarted, RoundTriggered
from flnet.jobs import Rules, Waits
from flnet.membership import Pauses
from flnet.messages import SAFETENSORS, Peer
from flnet.node.core import NodeCore
from flnet.params import PeerId, TrainerId
from flnet.screening import USUAL, Measure
from flnet.simulation.calls import Calls
from flnet.simulation.clock import VirtualClock
from flnet.simulation.ledger import Ledger
from flnet.simulation.network import SimulatedNetwork
from flnet.simulation.node import TRAINER, SimulatedNode
from flnet.simulation.versions import VersionLedger
from flnet.simulation.weather import Weather
from flnet.simulation.work import prepared, work
from flnet.strategies import fed_avg
from flnet.vectors import distance

Listen = Callable[[float, str, str], object]  # takes the time, who (a node, or nobody), and words


class Cluster:
    """N nodes with one job each."""

    def __init__(
        self,
        size: int,
        seed: int,
        weather: Weather | None = None,
        waits: Waits | None = None,
        pauses: Pauses | None = None,
        listen: Listen | None = None,
        rules: Rules | None = None,
    ) -> None:
        """Args:
        listen: is told all that happens, in words.
        rules: of the rounds, the same on all nodes.
        """
        self.rules = rules
        self.rng = Random(seed)
        self.clock = VirtualClock()
        self.ledger = VersionLedger() if rules is not None and rules.asynchronous else Ledger()
        self.network = SimulatedNetwork(self.clock, self.rng, weather or Weather())
        self.calls = Calls(self.network, self.ledger)
        self.nodes: dict[PeerId, SimulatedNode] = {}
        self.strategy, self.bounds = fed_avg(), USUAL
        self.measure: Measure = distance
        self.pauses = pauses or Pauses()
        self._open_rounds = self._runs = 0
        self._listen = listen
        if listen is not None:
            self.network.listen = lambda text: self.says("", text)
        self._waits = waits or Waits(average=30, margin=5, start=3, claims=35)
        for i in range(size):
            me = Peer(id=self.name_of(i), ip=f"10.0.0.{i + 1}", port=4000)
            self.add(me, (SAFETENSORS,) if i < self.weather.digests * size else ())

    @property
    def weather(self) -> Weather:
        """What happens by chance."""
        return self.network.weather

    @weather.setter
    def weather(self, weather: Weather) -> None:
        self.network.weather = weather

    @property
    def alive(self) -> list[SimulatedNode]:
        """The nodes that run."""
        return [node for node in self.nodes.values() if not node.is_dead]

    def add(self, me: Peer, accepts: Sequence[str] = ()) -> SimulatedNode:
        """A node that does nothing yet, in place of the one of that id, if there was one."""
        self._runs += 1
        run, waits = f"run {self._runs}", self._waits
        core = NodeCore(me, [TRAINER], waits, pauses=self.pauses, accepts=accepts, rules=self.rules, run=run)
        node = SimulatedNode(core, self)
        self.nodes[node.id] = node
        self.network.nodes[node.address] = node
        return node

    def name_of(self, number: int) -> str:
        """The id of a node, counted from 0; who trains in a round is drawn by the ids."""
        return f"n{number:02}"

    def start(self, bootstrap: Callable[[int], Sequence[int]] = lambda i: [0] if i else []) -> None:
        """Start every node; `bootstrap(i)` gives the indices of the nodes that node i is told of."""
        addresses = list(self.network.nodes)
        for i, node in enumerate(self.nodes.values()):
            node.tell(TRAINER, prepared(i))
            node.tell(None, MeshStarted(tuple(addresses[j] for j in bootstrap(i))))

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

    def notes(self, node: SimulatedNode, is_busy: bool) -> None:
        """A node has an open round now, or none."""
        self._open_rounds += is_busy - node.is_busy
        node.is_busy = is_busy

    def run_until_idle(self, seconds: float = 600.0) -> bool:
        """Let things happen until no round is open anywhere; whether that came about within the time."""
        self.clock.run(lambda: not self._open_rounds, self.clock.now + seconds)
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

    def begins(self, node: SimulatedNode, owner: TrainerId | None, effect: Train | Average | Evaluate) -> None:
        """A node begins a piece of work, whose end it hears of."""
        seconds, event = self.work(node, effect)
        self.clock.after(seconds, lambda: node.tell(owner, event))

    def work(self, node: SimulatedNode, effect: Train | Average | Evaluate) -> tuple[float, Event]:
        """What a piece of work takes, in seconds, and how it ends."""
        return work(self, node, effect)

    def publishes(self, node: SimulatedNode, text: str) -> None:
        """A node tells people something."""
        if self._listen is not None:
            self.says(node.id, text)

    def end(self) -> None:
        """Let go of everything: nodes and appointments name each other, and would lie about until a search for
        such circles finds them.
        """
        for node in self.nodes.values():
            node.end()
        self.clock.clear()
        self.nodes.clear()
        self.network.clear()

    def says(self, who: str, text: str) -> None:
        """Tell whoever listens."""
        if self._listen is not None:
            self._listen(self.clock.now, who, text)
