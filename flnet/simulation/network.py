"""The simulated network: requests and replies are delayed, lost, duplicated or corrupted in transit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from random import Random
from typing import Protocol

from flnet.errors import NotAnnounced, ParamsRefused, PeerError
from flnet.node.core import NodeCore
from flnet.node.inbound import KINDS, check_speaker, check_statements, claim_of, located, version_in
from flnet.node.outbox import goes_along
from flnet.params.params import PeerId, TrainerId
from flnet.protocol.effects import Fetch, FetchSegments, Send, SendAnnounce, SendProbe
from flnet.protocol.events import (
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
    RoundAnswered,
    SendFailed,
    SendRefused,
    VersionAnswered,
    VerticalDelivered,
)
from flnet.protocol.messages import (
    Accuracy,
    AccuracyReply,
    Announce,
    AnnounceReply,
    AskRound,
    AskVersion,
    JobMessage,
    Message,
    ModelParams,
    Packet,
    Peer,
    Probe,
    ProbeReply,
    RoundReply,
    VersionReply,
)
from flnet.protocol.updates import RoundKey
from flnet.protocol.vertical import VerticalMessage, VerticalReply
from flnet.security.claims import ClaimSigner
from flnet.simulation.clock import Died, LocalClock, VirtualClock
from flnet.simulation.invariants import Ledger
from flnet.simulation.schedule import Faults
from flnet.wire.json_codec import JsonCodec

Answered = Callable[[Packet | PeerError | Died | None], None]  # takes a reply, a refusal, or nothing
REPLIES: dict[str, type[Message]] = {
    Announce.path: AnnounceReply,
    Probe.path: ProbeReply,
    Accuracy.path: AccuracyReply,
    AskRound.path: RoundReply,
    AskVersion.path: VersionReply,
    VerticalMessage.path: VerticalReply,
}
FETCHED = "parameters"  # key in `moved` of parameters that were fetched by their digest
REMEMBERED = 4096  # bodies whose decoded content is cached; most probes are equal to earlier ones


class Receiver(Protocol):
    """A node as the network knows it."""

    core: NodeCore
    address: str
    id: PeerId
    local: LocalClock
    claims: ClaimSigner | None

    def ask(self, owner: TrainerId | None, event: Event, answered: Answered) -> None:
        """Handle an event, and pass on the reply to it."""
        ...

    def tell(self, owner: TrainerId | None, event: Event) -> None:
        """Handle an event whose reply nobody waits for."""
        ...


class SimulatedNetwork:
    """Carries bodies between nodes by address.

    Attributes:
        cuts: ways (from, to) that are closed. A request takes one way, its reply the other.
        refusing: addresses of machines without a running node: connections to them fail at once.
        moved: bytes of the bodies that were sent, by path.
        is_keyed: whether each message proves the key of its sender, as in a keyed or pinned mesh.
    """

    def __init__(self, clock: VirtualClock, rng: Random, faults: Faults) -> None:
        self.cuts: set[tuple[PeerId, PeerId]] = set()
        self.refusing: set[str] = set()
        self.moved: Counter[str] = Counter()
        self.is_keyed = False
        self.faults = faults
        self.nodes: dict[str, Receiver] = {}
        self.clock, self.rng = clock, rng
        self.listen: Callable[[str], None] | None = None
        self._codec = JsonCodec()
        self._read = lru_cache(REMEMBERED)(self._codec.decode)
        self._bare_reply = lru_cache(1024)(self._encoded_reply)  # most are equal

    def clear(self) -> None:
        """Forget all nodes and cached bodies."""
        self.nodes.clear()
        self._read.cache_clear()
        self._bare_reply.cache_clear()

    def encode(self, packet: Packet) -> bytes:
        """Encode a message."""
        return self._codec.encode(packet)

    def _encoded_reply(self, me: Peer, incarnation: int, digest: str | None) -> bytes:
        return self.encode(Packet(ProbeReply(i_am=me, incarnation=incarnation, members_digest=digest)))

    def is_open(self, sender: PeerId, receiver: PeerId) -> bool:
        """Whether messages pass from one node to the other."""
        return not self.cuts or (sender, receiver) not in self.cuts

    def chance(self, probability: float) -> bool:
        """Draw whether something of this probability happens."""
        return probability > 0 and self.rng.random() < probability

    def delay(self) -> float:
        """Draw how long a message takes one way, in seconds."""
        shortest, longest = self.faults.delay
        return shortest + (longest - shortest) * self.rng.random()

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
        """Carry a request to its receiver and the reply back, subject to faults."""
        faults, receiver, delay = self.faults, self.nodes.get(address), self.delay()
        self.moved[path] += len(body)
        if receiver is None and address in self.refusing:
            self.clock.after(delay, failed, background=background)
            return
        if receiver is None or not self.is_open(sender.id, receiver.id) or self.chance(faults.lose_request):
            self._log(f"{path} of {sender.id} to {address} is lost")
            self.clock.after(faults.give_up, failed, background=background)
            return
        is_lost = self.chance(faults.lose_reply)
        if self.chance(faults.corrupt):
            self._log(f"{path} of {sender.id} to {receiver.id} is damaged")
            body = corrupted(body, self.rng)
            is_lost = is_lost or self._is_readable(KINDS[path], body)  # a checksum would notice
            if is_lost:
                self.clock.after(faults.give_up, failed, background=background)
                return

        def reply(answer: Packet | PeerError | Died | None) -> None:
            closed = is_lost or not self.is_open(receiver.id, sender.id)
            if closed or isinstance(answer, Died):
                self._log(f"the answer of {receiver.id} to {path} of {sender.id} is lost")
                self.clock.after(faults.give_up, failed, background=background)
                return
            if isinstance(answer, Packet):
                message = receiver.claims.signed(answer.message) if receiver.claims else answer.message
                answer = self._across(path, Packet(message, answer.params))
            self.clock.after(self.delay(), lambda: answered(answer), background=background)

        def arrive(answered: Answered) -> Callable[[], None]:
            return lambda: self._arrive(receiver, sender, path, body, answered)

        self.clock.after(delay, arrive(reply), background=background)
        if self.chance(faults.duplicate):
            self.clock.after(delay + self.delay(), arrive(lambda reply: None), background=background)

    def _arrive(self, receiver: Receiver, sender: Receiver, path: str, body: bytes, reply: Answered) -> None:
        if self.nodes.get(receiver.address) is not receiver:  # it was killed in the meantime
            reply(Died())
            return
        try:
            packet = self._read(KINDS[path], body)
            if self.is_keyed:
                check_speaker(receiver.core.members, packet.message, sender.core.members.key or "")
            check_statements(receiver.claims, packet.message)
            owner, event = receiver.core.read(packet, sender.address.partition(":")[0])
            event = receiver.claims.checked(event) if receiver.claims else event
            contacts = receiver.core.contacts(packet)
        except PeerError as exc:
            reply(exc)
            return
        for contact in contacts:
            receiver.tell(None, contact)
        receiver.ask(owner, event, reply)

    def _across(self, path: str, answer: Packet) -> Packet | PeerError:
        """A reply as the other end decodes it."""
        message = answer.message
        if isinstance(message, ProbeReply) and not message.news and message.key is None:
            body = self._bare_reply(message.i_am, message.incarnation, message.members_digest)
        else:
            body = self.encode(answer)
        if self.chance(self.faults.corrupt):
            body = corrupted(body, self.rng)
            if self._is_readable(REPLIES[path], body):
                return self._read(REPLIES[path], self.encode(answer))  # a checksum would notice, and it is resent
        try:
            return self._read(REPLIES[path], body)
        except PeerError as exc:
            return exc

    def _is_readable(self, kind: type[Message], body: bytes) -> bool:
        try:
            self._codec.decode(kind, body)
        except PeerError:
            return False
        return True

    def _log(self, text: str) -> None:
        if self.listen is not None:
            self.listen(text)


def corrupted(body: bytes, rng: Random) -> bytes:
    """The same bytes with one of them changed."""
    if not body:
        return body
    at = rng.randrange(len(body))
    return body[:at] + bytes([body[at] ^ rng.randint(1, 255)]) + body[at + 1 :]


class Calls:
    """Carries Send, Fetch, SendAnnounce and SendProbe over a simulated network."""

    def __init__(self, network: SimulatedNetwork, ledger: Ledger) -> None:
        self._network, self._ledger = network, ledger
        self._bare_probe = lru_cache(1024)(self._encoded_probe)

    def send(self, node: Receiver, owner: TrainerId, effect: Send) -> None:
        """Send a job's message to all its recipients."""
        message = node.claims.signed(effect.message) if node.claims else effect.message
        assert isinstance(message, JobMessage)
        key = RoundKey(message.round, PeerId(message.initiator or message.i_am.id))
        if isinstance(message, ModelParams) and effect.params is not None:
            self._ledger.sent_update(node.id, key, effect.params, message.staleness or 0)
        if isinstance(message, AskVersion) and effect.to:
            self._ledger.told_version(node.id, message.round, message)
        bodies: dict[bool, bytes] = {}
        for peer in effect.to:
            accepts = node.core.members.accepts_of(peer) if node.core.members.accepts else frozenset()
            inline = goes_along(message, effect.params, accepts, self._network.faults.push_bytes)
            if inline not in bodies:
                bodies[inline] = self._network.encode(Packet(message, effect.params if inline else None))
            self.send_to(node, owner, peer, message, key, bodies[inline])

    def send_to(
        self, node: Receiver, owner: TrainerId, peer: PeerId, message: JobMessage, key: RoundKey, body: bytes
    ) -> None:
        """Send an encoded message to one peer, after an announcement if the peer does not know the node."""
        address = node.core.members.address_of(peer) or ""
        session = message.session if isinstance(message, VerticalMessage) else ""
        was_announced = False

        def answered(reply: Packet | PeerError | Died | None) -> None:
            nonlocal was_announced
            if isinstance(reply, NotAnnounced):  # the peer was restarted, or does not know this node yet
                if was_announced:
                    failed()
                else:
                    was_announced = True
                    self.announce(node, node.core.members.introduction(address), again)
                return
            if not node.core.members.settled(peer):
                node.tell(None, ContactMade(peer))
            if isinstance(reply, Packet) and isinstance(reply.message, AccuracyReply):
                node.tell(owner, ClaimAnswered(claim_of(message.round, reply)))
            elif isinstance(reply, Packet) and isinstance(reply.message, RoundReply):
                node.tell(owner, RoundAnswered(peer, reply.message.round))
            elif isinstance(reply, Packet) and isinstance(reply.message, VerticalReply):
                node.tell(owner, VerticalDelivered(peer, reply.message.session))
            elif isinstance(reply, Packet) and isinstance(reply.message, VersionReply):
                node.tell(owner, VersionAnswered(version_in(reply, owner)))
            elif isinstance(reply, PeerError):
                current = reply.details().get("round")
                number = current if isinstance(current, int) else None
                said = (reply.status, reply.code, str(reply), number)
                refusal = SendRefused(peer, message.path, key, *said, session)
                node.tell(owner, refusal)

        def failed() -> None:
            node.tell(owner, SendFailed(peer, message.path, key, "lost", session))
            node.tell(None, ContactLost(peer, "lost"))

        def again() -> None:
            self._network.carry(node, address, message.path, body, answered, failed)

        again()

    def fetch(self, node: Receiver, owner: TrainerId, effect: Fetch) -> None:
        """Fetch parameters from a peer by their digest, or from the next one that may have them."""
        network, peer = self._network, effect.peer
        faults, seconds = network.faults, 2 * network.delay()
        fails = network.chance(faults.fail_fetch + faults.corrupt)
        address = node.core.members.address_of(peer) or ""

        def end() -> None:
            server = network.nodes.get(address)
            ways = [] if server is None else [(node.id, server.id), (server.id, node.id)]
            arrives = server is not None and not fails and all(network.is_open(*way) for way in ways)
            held = server.core.find(effect.digest) if server is not None and arrives else None
            if not arrives:
                node.tell(None, ContactLost(peer, "lost"))
            params = None if held is None else held[1]
            try:  # a form is checked where parameters arrive (`flnet.node.formats`)
                params = effect.form.conform(params) if effect.form and params else params
                params = None if params and effect.proven and params.digest != effect.digest else params
            except ParamsRefused:
                params = None
            if params is not None:
                network.moved[FETCHED] += params.nbytes
                node.tell(owner, Fetched(effect.key, peer, effect.digest, params))
            elif effect.others:
                first, *others = effect.others
                self.fetch(node, owner, replace(effect, peer=first, others=tuple(others)))
            else:
                node.tell(owner, FetchFailed(effect.key, peer, effect.digest, "lost"))

        network.clock.after(seconds, end)

    def fetch_segments(self, node: Receiver, owner: TrainerId, effect: FetchSegments) -> None:
        """Fetch segments from a peer; what a real peer serves together fails here one by one, which is worse."""
        for each in effect.one_by_one():
            self.fetch(node, owner, each)

    def announce(self, node: Receiver, effect: SendAnnounce, then: Callable[[], None] = lambda: None) -> None:
        """Announce a node at an address, and call `then` when that is over."""
        address = effect.address
        message = Announce(
            i_am=node.core.me,
            my_known_peers=list(effect.known),
            accepts=node.core.members.accepts,
            incarnation=effect.incarnation,
            members=list(effect.members),
            key=node.core.members.key,
        )

        def answered(reply: Packet | PeerError | Died | None) -> None:
            if not isinstance(reply, Packet) or not isinstance(reply.message, AnnounceReply):
                node.tell(None, AnnounceFailed(address, str(reply)))
                then()
                return
            peer = located(reply.message.i_am, address.partition(":")[0])
            others = tuple(reply.message.announce_yourself_to_peers)
            accepts = frozenset(reply.message.accepts or ())
            incarnation, members = reply.message.incarnation, tuple(reply.message.members or ())
            event = AnnounceAnswered(address, peer, others, accepts, incarnation, members, reply.message.key)
            node.tell(None, node.claims.checked(event) if node.claims else event)
            then()

        def failed() -> None:
            node.tell(None, AnnounceFailed(address, "lost"))
            then()

        body = self._network.encode(Packet(node.claims.signed(message) if node.claims else message))
        self._network.carry(node, address, Announce.path, body, answered, failed, True)

    def probe(self, node: Receiver, effect: SendProbe) -> None:
        """Probe a peer, with a timeout by the sender's own clock."""
        peer, message = effect.to, effect.message
        about = PeerId(message.target.id) if message.target else None
        is_over = False

        def end(event: Event) -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                node.local.cancel(timeout)
                node.tell(None, node.claims.checked(event) if node.claims else event)

        def answered(reply: Packet | PeerError | Died | None) -> None:
            if not isinstance(reply, Packet) or not isinstance(reply.message, ProbeReply):
                end(ProbeAnswered(peer, about))
            elif reply.message.i_am.id != peer:
                end(ProbeFailed(peer, about, "somebody else is there now"))
            else:
                m = reply.message
                end(ProbeAnswered(peer, about, m.incarnation, tuple(m.news), m.members_digest))

        def failed() -> None:
            end(ProbeFailed(peer, about, "lost"))

        late_end = ProbeFailed(peer, about, "lost", is_late=True)
        timeout = node.local.after(effect.seconds, lambda late: end(late_end))
        address = node.core.members.address_of(peer) or ""
        body = self._probe_body(node.claims.signed(message) if node.claims else message)
        self._network.carry(node, address, Probe.path, body, answered, failed, True)

    def _probe_body(self, message: Probe) -> bytes:
        if message.news or message.target or message.reached or message.missed:
            return self._network.encode(Packet(message))
        return self._bare_probe(message.i_am, message.incarnation, message.key, message.members_digest)

    def _encoded_probe(self, me: Peer, incarnation: int, key: str | None, digest: str | None) -> bytes:
        message = Probe(i_am=me, incarnation=incarnation, key=key, members_digest=digest)
        return self._network.encode(Packet(message))
