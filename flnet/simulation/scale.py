"""Rounds of a simulated mesh over links with a rate and a latency: seconds, bytes and messages of a node.

The rounds are those of real nodes, message by message, without faults. Their model is small, and each byte of it counts as
many as the model has that they stand for. Bodies have the size in which nodes encode them; what HTTP, TCP and Ethernet add
was measured once. Trainings take the seconds that are given, and all else that processors and disks do takes none.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random
from typing import NamedTuple

import numpy as np

from flnet.algorithms.topology import Topology
from flnet.errors import LocalError, PeerError
from flnet.membership.probing import Pauses
from flnet.node.inbound import KINDS
from flnet.node.outbox import FETCHES, IN_FLIGHT, PART_FETCHES, PUSH_BYTES
from flnet.params.params import Params, PeerId, TrainerId
from flnet.params.safetensors import write_header
from flnet.params.segments import side_by_side
from flnet.protocol.effects import Average, Evaluate, Fetch, FetchSegments, Train
from flnet.protocol.events import Event, Fetched, FetchFailed, MeshStarted, Prepared
from flnet.protocol.messages import Packet
from flnet.protocol.segments import SegmentsMessage
from flnet.rounds.participation import Participation
from flnet.rounds.settings import Rules, Waits
from flnet.simulation.clock import Died, ScheduledCall, VirtualClock
from flnet.simulation.cluster import Cluster
from flnet.simulation.invariants import Ledger
from flnet.simulation.links import BURST, Link, SharedLinks
from flnet.simulation.network import FETCHED, Answered, Calls, Receiver, SimulatedNetwork
from flnet.simulation.node import TRAINER, SimulatedNode, declared
from flnet.simulation.schedule import Faults

Arrived = Callable[[], None]
# What a request and its answer take besides their bodies, each with the frames of a packet and of its acknowledgement:
# the heads of a node's POST and of its answer have about 170 and 400 bytes.
REQUEST_BYTES, ANSWER_BYTES = 300, 530
IN_VAIN = f"{FETCHED} that were not there"
PATIENCE = 1e6  # seconds for which nodes wait for each other: as long as it takes
FORMING_SECONDS = 60.0
FAULTLESS = Faults(digests=1.0)
ALL_SENT = 2**62  # bytes of parameters that go along with a message that may carry them
NUMBERS = 2  # of each of both arrays for each node, so that all segments are equal


class RoundFigures(NamedTuple):
    """What a round takes.

    Attributes:
        seconds: from its start until it is closed on all nodes.
        bytes_out, bytes_in: of the node that sends, and that receives, the most.
        requests: of the node that makes the most: messages, and downloads that it asks for.
        kinds: requests of a node, and bytes of them and their answers, in the mean of all nodes; by kind of message.
    """

    seconds: float
    bytes_out: int
    bytes_in: int
    requests: int
    kinds: Mapping[str, tuple[float, float]]


@dataclass
class Traffic:
    """What nodes sent and received.

    Attributes:
        out, into: bytes by node.
        requests: by node: messages that it sent, and downloads that it asked for.
        kinds: bytes of requests and their answers, by kind.
        counts: number of requests, by kind.
    """

    out: Counter[PeerId] = field(default_factory=Counter)
    into: Counter[PeerId] = field(default_factory=Counter)
    requests: Counter[PeerId] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)

    def passed(self, sender: PeerId, receiver: PeerId, size: int, kind: str) -> None:
        """Count bytes on their way from one node to another."""
        self.out[sender] += size
        self.into[receiver] += size
        self.kinds[kind] += size

    def asked(self, sender: PeerId, kind: str) -> None:
        """Count a request."""
        self.requests[sender] += 1
        self.counts[kind] += 1

    def figures(self, seconds: float, size: int) -> RoundFigures:
        """The figures of a round that took so many seconds, in a mesh of this size."""
        kinds = {kind: (count / size, self.kinds[kind] / size) for kind, count in sorted(self.counts.items())}
        most = max(self.out.values()), max(self.into.values()), max(self.requests.values())
        return RoundFigures(seconds, *most, kinds)


class Places:
    """Lets so many at once go on; the others wait for their turn."""

    def __init__(self, free: int) -> None:
        self._free, self._waiting = free, deque[Callable[[], None]]()

    def enter(self, begin: Callable[[], None]) -> None:
        """Begin now, or when there is a place."""
        if self._free:
            self._free -= 1
            begin()
        else:
            self._waiting.append(begin)

    def leave(self) -> None:
        """Give the place to the next that waits."""
        if self._waiting:
            self._waiting.popleft()()
        else:
            self._free += 1


class LinkedNetwork(SimulatedNetwork):
    """A network without faults, whose nodes have links."""

    def __init__(
        self, clock: VirtualClock, rng: Random, faults: Faults, links: Sequence[Link], factor: float
    ) -> None:
        """Args:
        links: of each node.
        factor: bytes of parameters that each simulated one stands for.
        """
        super().__init__(clock, rng, faults)
        self.traffic, self._factor = Traffic(), factor
        self._latencies, self._links = [link.latency for link in links], SharedLinks[Arrived](links)
        self._numbers: dict[PeerId, int] = {}
        self._sending: defaultdict[PeerId, Places] = defaultdict(lambda: Places(IN_FLIGHT))
        self._look_call: ScheduledCall | None = None
        self._look_due = math.inf
        self._kind = lru_cache(4096)(self._find_kind)

    def send_bytes(
        self, sender: PeerId, receiver: PeerId, size: int, kind: str, arrived: Arrived, background: bool = False
    ) -> None:
        """Let so many bytes pass from one node to another, and call `arrived` when all of them are there."""
        self.traffic.passed(sender, receiver, size, kind)
        clock, numbers = self.clock, self._numbers
        one, other = (numbers.setdefault(peer, len(numbers)) for peer in (sender, receiver))
        latency = self._latencies[one] + self._latencies[other]
        if size <= BURST:
            at = self._links.pass_short(clock.now, one, other, size)
            clock.after(at - clock.now + latency, arrived, background=background)
            return

        def is_sent() -> None:
            clock.after(latency, arrived, background=background)

        self._links.start(clock.now, one, other, size, is_sent)
        if self._look_due > clock.now:
            self._look_at(clock.now)  # after all else that happens at this moment

    def carry(
        self,
        sender: Receiver,
        address: str,
        path: str,
        body: bytes,
        answered: Answered,
        failed: Callable[[], None],
        background: bool = False,
    ) -> None:
        """Carry a request to its receiver and the reply back; requests of rounds when there is a place for them."""
        receiver, (kind, carried) = self.nodes[address], self._kind(path, body)
        places = Places(1) if background else self._sending[sender.id]

        def begin() -> None:
            if not background:  # else the membership asks
                self.traffic.asked(sender.id, kind)
            size = REQUEST_BYTES + len(body) + round((self._factor - 1) * carried)
            self.send_bytes(sender.id, receiver.id, size, kind, arrive, background)

        def arrive() -> None:
            self._arrive(receiver, sender, path, body, reply)

        def reply(answer: Packet | PeerError | Died | None) -> None:
            size = ANSWER_BYTES + (len(self.encode(answer)) if isinstance(answer, Packet) else 0)
            self.send_bytes(receiver.id, sender.id, size, kind, lambda: end(answer), background)

        def end(answer: Packet | PeerError | Died | None) -> None:
            places.leave()
            answered(answer)

        places.enter(begin)

    def _find_kind(self, path: str, body: bytes) -> tuple[str, int]:
        """The kind of a message, and the bytes of the parameters beside it, which are in float32."""
        packet = self._read(KINDS[path], body)
        message, carried = packet.message, 4 * sum(array.size for array in (packet.params or Params()).values())
        return f"{path} {message.part.kind}" if isinstance(message, SegmentsMessage) else path, carried

    def _look_at(self, at: float) -> None:
        if self._look_call is not None:
            self.clock.cancel(self._look_call)
        self._look_due = at
        self._look_call = self.clock.after(at - self.clock.now, self._look)

    def _look(self) -> None:
        """Tell of the transfers that have ended, and look again when the next one does."""
        self._look_due = math.inf
        for tell in self._links.ended(self.clock.now):
            tell()
        if math.isfinite(end := self._links.next_end()):
            self._look_at(max(end, self.clock.now))


def places_of(topology: Topology) -> int:
    """How many downloads a real node has under way at once."""
    return PART_FETCHES if topology.kind == "segments" else FETCHES


class LinkedCalls(Calls):
    """Downloads over links, as many at once as a real node."""

    def __init__(self, network: LinkedNetwork, ledger: Ledger, factor: float, downloads: int) -> None:
        """Args:
        factor: bytes of parameters that each simulated one stands for.
        downloads: how many a node has under way at once.
        """
        super().__init__(network, ledger)
        self._linked, self._factor = network, factor
        self._fetching: defaultdict[PeerId, Places] = defaultdict(lambda: Places(downloads))

    def fetch(self, node: Receiver, owner: TrainerId, effect: Fetch) -> None:
        """Download parameters from a peer when there is a place for it."""
        self._download(node, owner, [effect])

    def fetch_segments(self, node: Receiver, owner: TrainerId, effect: FetchSegments) -> None:
        """Download segments from a peer, with one request."""
        self._download(node, owner, list(effect.one_by_one()))

    def _download(self, node: Receiver, owner: TrainerId, effects: Sequence[Fetch]) -> None:
        places, network = self._fetching[node.id], self._linked
        server = network.nodes[node.core.members.address_of(effects[0].peer) or ""]

        def begin() -> None:
            network.send_bytes(node.id, server.id, REQUEST_BYTES, FETCHED, serve)

        def serve() -> None:
            held = [found[1] for effect in effects if (found := server.core.find(effect.digest)) is not None]
            served = held if len(held) == len(effects) else []
            network.traffic.asked(node.id, FETCHED if served else IN_VAIN)
            head = len(write_header(side_by_side(served), {"flnet": "1"})) if served else 0
            size = ANSWER_BYTES + head + round(self._factor * sum(params.nbytes for params in served))
            network.send_bytes(server.id, node.id, size, FETCHED, lambda: end(served))

        def end(served: Sequence[Params]) -> None:
            places.leave()
            for each in effects if not served else ():
                node.tell(owner, FetchFailed(each.key, each.peer, each.digest, "it is not there"))
            for each, params in zip(effects, served, strict=False):
                node.tell(owner, Fetched(each.key, each.peer, each.digest, params))

        places.enter(begin)


class LinkedCluster(Cluster):
    """Nodes whose rounds take the time that their links need."""

    def __init__(
        self,
        topology: str,
        links: Sequence[Link],
        model_bytes: int,
        training: float = 0.0,
        downloads: int | None = None,
        owned: Mapping[int, int] | None = None,
    ) -> None:
        """Args:
        topology: as `FLNET_TOPOLOGY` has it.
        links: of each node.
        model_bytes: of all parameters in float32.
        training: seconds of each training.
        downloads: how many a node has under way at once; None for as many as a real one.
        owned: `FLNET_OWNED_SEGMENTS` of nodes, by their place among the links, where it is not the default.

        Raises:
            ValueError: the model is so small that nodes send it with its offer.
        """
        if model_bytes <= PUSH_BYTES:
            raise ValueError(f"expected a model above {PUSH_BYTES} bytes, got {model_bytes}")
        size, read = len(links), Topology.read(topology)
        self._training, self._numbers = training, NUMBERS * size  # of each array, so that all segments are equal
        participation = Participation(names_all=read.kind != "mesh")
        waits = Waits(average=PATIENCE, start=PATIENCE, claims=PATIENCE)
        rules = Rules(participation, topology=read)
        faults = replace(FAULTLESS, push_bytes=ALL_SENT if read.kind == "segments" else 0)
        super().__init__(size, 0, faults, waits, Pauses(tick=30.0), rules=rules)
        factor = model_bytes / (8 * self._numbers)
        network = LinkedNetwork(self.clock, self.rng, faults, links, factor)
        network.nodes = self.network.nodes
        self.network = self.linked = network
        self.calls = LinkedCalls(network, self.ledger, factor, downloads or places_of(read))
        for place, node in enumerate(self.nodes.values()):
            node.job.settings.rules = replace(rules, owned=(owned or {}).get(place, rules.owned))

    def form(self) -> None:
        """Let all nodes know each other."""
        for number, node in enumerate(self.nodes.values()):
            # If segments were alike, one download would do for all.
            unlike = np.arange(self._numbers, dtype=np.float32)
            node.tell(TRAINER, Prepared(declared(), Params({"b": unlike, "w": -unlike - number})))
            node.tell(None, MeshStarted(()))
        self.introduce()
        self.run_for(FORMING_SECONDS)

    def work(self, node: SimulatedNode, effect: Train | Average | Evaluate) -> tuple[float, Event]:
        """How many seconds a piece of work takes, and its result."""
        _, event = super().work(node, effect)
        return self._training if isinstance(effect, Train) else 0.0, event

    def play_round(self) -> RoundFigures:
        """Play a round that the first node starts.

        Raises:
            LocalError: it did not end, or a node made no average.
        """
        traffic = self.linked.traffic = Traffic()
        begin, first = self.clock.now, next(iter(self.nodes))
        is_over = self.trigger(first) and self.run_until_idle(PATIENCE)
        if not is_over or not all(node.job.history.records[-1].digest for node in self.nodes.values()):
            raise LocalError(f"a round of {len(self.nodes)} nodes did not end with an average on each of them")
        return traffic.figures(self.clock.now - begin, len(self.nodes))
