"""The simulated network: what nodes send is encoded, delayed, lost or doubled, decoded, and answered."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Protocol

from flnet.codec import JsonCodec
from flnet.effects import Fetch, Send, SendAnnounce, SendProbe
from flnet.errors import PeerError
from flnet.events import (
    AnnounceAnswered,
    AnnounceFailed,
    ClaimAnswered,
    ContactLost,
    ContactMade,
    Event,
    Fetched,
    FetchFailed,
    ProbeAnswered,
    ProbeFailed,
    SendFailed,
    SendRefused,
)
from flnet.messages import (
    Accuracy,
    AccuracyReply,
    Announce,
    AnnounceReply,
    JobMessage,
    ModelParams,
    Packet,
    Probe,
    ProbeReply,
)
from flnet.node.core import NodeCore
from flnet.node.forms import goes_along
from flnet.node.translate import KINDS, claim_of, located
from flnet.params import PeerId, RoundKey, TrainerId
from flnet.simulation.clock import VirtualClock
from flnet.simulation.ledger import Ledger
from flnet.simulation.weather import Weather

Answered = Callable[[Packet | PeerError | None], None]


class Receiver(Protocol):
    """A node as the network sees it."""

    core: NodeCore
    address: str

    @property
    def id(self) -> PeerId:
        """Its id."""
        ...

    def hear(self, owner: TrainerId | None, event: Event) -> Packet | None:
        """Take an event; the answer to it."""
        ...

    def tell(self, owner: TrainerId | None, event: Event) -> None:
        """Take an event that nobody waits for."""
        ...


class SimulatedNetwork:
    """Carries messages between nodes by address; `cuts` are ways (from, to) that are closed."""

    def __init__(self, clock: VirtualClock, rng: Random, weather: Weather, ledger: Ledger) -> None:
        self.cuts: set[tuple[PeerId, PeerId]] = set()
        self.weather = weather
        self.nodes: dict[str, Receiver] = {}
        self._clock, self._rng, self._ledger = clock, rng, ledger
        self._codec = JsonCodec()

    def send(self, node: Receiver, owner: TrainerId, effect: Send) -> None:
        """Send a job's message to all its receivers."""
        message = effect.message
        assert isinstance(message, JobMessage)
        key = RoundKey(message.round, PeerId(message.initiator or message.i_am.id))
        if isinstance(message, ModelParams) and effect.params is not None:
            self._ledger.sends(node.id, key, effect.params)
        for peer in effect.to:
            accepts = node.core.members.accepts_of(peer) if node.core.members.accepts else frozenset()
            along = goes_along(message, effect.params, accepts, self.weather.push_bytes)
            body = self._codec.encode(Packet(message, effect.params if along else None))
            self._send_one(node, owner, peer, message, key, body)

    def _send_one(
        self,
        node: Receiver,
        owner: TrainerId,
        peer: PeerId,
        message: JobMessage,
        key: RoundKey,
        body: bytes,
    ) -> None:
        def answered(reply: Packet | PeerError | None) -> None:
            node.tell(None, ContactMade(peer))
            if isinstance(reply, PeerError):
                current = reply.details().get("round")
                number = current if isinstance(current, int) else None
                node.tell(
                    owner,
                    SendRefused(peer, message.path, key, reply.status, reply.code, str(reply), number),
                )
            elif reply is not None and isinstance(message, Accuracy):
                raw = self._codec.decode(AccuracyReply, self._codec.encode(reply))
                node.tell(owner, ClaimAnswered(claim_of(message.round, raw)))

        def failed() -> None:
            node.tell(owner, SendFailed(peer, message.path, key, "lost"))
            node.tell(None, ContactLost(peer, "lost"))

        address = node.core.members.address_of(peer)
        self._carry(node, address or "", message.path, body, answered, failed)

    def fetch(self, node: Receiver, owner: TrainerId, effect: Fetch) -> None:
        """Get parameters of a peer by their digest."""
        weather, peer = self.weather, effect.peer
        address = node.core.members.address_of(peer) or ""
        fails, seconds = self._rng.random() < weather.fail_fetch, self._rng.uniform(*weather.delay)

        def end() -> None:
            receiver = self.nodes.get(address)
            cut = receiver is None or (node.id, receiver.id) in self.cuts
            found = None if receiver is None or cut or fails else receiver.core.find(effect.digest)
            if found is None:
                node.tell(owner, FetchFailed(effect.key, peer, effect.digest, "lost"))
            else:
                node.tell(owner, Fetched(effect.key, peer, effect.digest, found[1]))

        self._clock.after(2 * seconds, end)

    def announce(self, node: Receiver, effect: SendAnnounce) -> None:
        """Announce a node at an address."""
        address = effect.address
        message = Announce(
            i_am=node.core.me,
            my_known_peers=list(effect.known),
            accepts=node.core.members.accepts,
            incarnation=effect.incarnation,
            members=list(effect.members),
        )

        def answered(reply: Packet | PeerError | None) -> None:
            if not isinstance(reply, Packet) or not isinstance(reply.message, AnnounceReply):
                node.tell(None, AnnounceFailed(address, str(reply)))
                return
            peer = located(reply.message.i_am, address.partition(":")[0])
            others = tuple(reply.message.announce_yourself_to_peers)
            accepts = frozenset(reply.message.accepts or ())
            told, members = reply.message.incarnation, tuple(reply.message.members or ())
            node.tell(None, AnnounceAnswered(address, peer, others, accepts, told, members))

        def failed() -> None:
            node.tell(None, AnnounceFailed(address, "lost"))

        self._carry(node, address, Announce.path, self._codec.encode(Packet(message)), answered, failed)

    def probe(self, node: Receiver, effect: SendProbe) -> None:
        """Probe a peer; it has its seconds to answer."""
        peer, message = effect.to, effect.message
        about = PeerId(message.target.id) if message.target else None
        over: list[bool] = []

        def end(event: Event) -> None:
            if not over:
                over.append(True)
                node.tell(None, event)

        def answered(reply: Packet | PeerError | None) -> None:
            if isinstance(reply, Packet) and isinstance(reply.message, ProbeReply):
                end(ProbeAnswered(peer, about, reply.message.incarnation, tuple(reply.message.news)))
            else:
                end(ProbeAnswered(peer, about))

        def failed() -> None:
            end(ProbeFailed(peer, about, "lost"))

        address = node.core.members.address_of(peer) or ""
        self._clock.after(effect.seconds, failed, background=True)
        self._carry(node, address, Probe.path, self._codec.encode(Packet(message)), answered, failed, True)

    def _carry(
        self,
        sender: Receiver,
        address: str,
        path: str,
        body: bytes,
        answered: Answered,
        failed: Callable[[], None],
        background: bool = False,
    ) -> None:
        """Take a message across and its answer back, as the weather allows."""
        weather, receiver = self.weather, self.nodes.get(address)
        lost, unanswered, twice = (self._rng.random() for _ in range(3))
        out, back, again = (self._rng.uniform(*weather.delay) for _ in range(3))
        if receiver is None or (sender.id, receiver.id) in self.cuts or lost < weather.lose_request:
            self._clock.after(weather.give_up, failed, background=background)
            return

        def arrive(report: bool) -> None:
            if self.nodes.get(address) is not receiver:  # it was killed meanwhile
                if report:
                    self._clock.after(weather.give_up, failed)
                return
            reply = self._receive(receiver, sender, path, body)
            if not report:
                return
            if unanswered < weather.lose_reply:
                self._clock.after(weather.give_up, failed, background=background)
            else:
                self._clock.after(back, lambda: answered(reply), background=background)

        self._clock.after(out, lambda: arrive(True), background=background)
        if twice < weather.duplicate:
            self._clock.after(out + again, lambda: arrive(False), background=background)

    def _receive(self, node: Receiver, sender: Receiver, path: str, body: bytes) -> Packet | PeerError | None:
        try:
            packet = self._codec.decode(KINDS[path], body)
            owner, event = node.core.read(packet, sender.address.partition(":")[0])
            for contact in node.core.contacts(packet):
                node.tell(None, contact)
            return node.hear(owner, event)
        except PeerError as exc:
            return exc
