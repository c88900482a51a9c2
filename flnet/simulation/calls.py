"""What becomes of a node's calls to others: a body on its way, and an event at the end (as in flnet.node.post)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

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
    VersionAnswered,
)
from flnet.messages import (
    AccuracyReply,
    Announce,
    AnnounceReply,
    AskVersion,
    JobMessage,
    ModelParams,
    Packet,
    Peer,
    Probe,
    ProbeReply,
    VersionReply,
)
from flnet.node.forms import goes_along
from flnet.node.translate import claim_of, located, version_in
from flnet.params import PeerId, RoundKey, TrainerId
from flnet.refusals import NotAnnounced
from flnet.simulation.ledger import Ledger
from flnet.simulation.network import Receiver, SimulatedNetwork
from flnet.simulation.tasks import Died

Answer = Packet | PeerError | Died | None
FETCHED = "parameters"  # among the bytes that moved: the arrays of what was fetched by its digest


class Calls:
    """Carries Send, Fetch, SendAnnounce and SendProbe over a simulated network."""

    def __init__(self, network: SimulatedNetwork, ledger: Ledger) -> None:
        self._network, self._ledger = network, ledger
        self._bare_probe = lru_cache(1024)(self._encoded_probe)

    def send(self, node: Receiver, owner: TrainerId, effect: Send) -> None:
        """Send a job's message to all its receivers."""
        message = effect.message
        assert isinstance(message, JobMessage)
        key = RoundKey(message.round, PeerId(message.initiator or message.i_am.id))
        if isinstance(message, ModelParams) and effect.params is not None:
            self._ledger.sends(node.id, key, effect.params)
        if isinstance(message, AskVersion) and effect.to:
            self._ledger.tells(node.id, message.round, message)
        bodies: dict[bool, bytes] = {}
        for peer in effect.to:
            accepts = node.core.members.accepts_of(peer) if node.core.members.accepts else frozenset()
            along = goes_along(message, effect.params, accepts, self._network.weather.push_bytes)
            if along not in bodies:
                bodies[along] = self._network.encode(Packet(message, effect.params if along else None))
            self._send_one(node, owner, peer, message, key, bodies[along])

    def _send_one(
        self,
        node: Receiver,
        owner: TrainerId,
        peer: PeerId,
        message: JobMessage,
        key: RoundKey,
        body: bytes,
    ) -> None:
        address = node.core.members.address_of(peer) or ""
        introduced = False

        def answered(reply: Answer) -> None:
            nonlocal introduced
            if isinstance(reply, NotAnnounced):  # it was started again, or has not heard of this node yet
                if introduced:
                    failed()
                else:
                    introduced = True
                    self.announce(node, node.core.members.introduction(address), again)
                return
            if not node.core.members.settled(peer):
                node.tell(None, ContactMade(peer))
            if isinstance(reply, Packet) and isinstance(reply.message, AccuracyReply):
                node.tell(owner, ClaimAnswered(claim_of(message.round, reply)))
            elif isinstance(reply, Packet) and isinstance(reply.message, VersionReply):
                node.tell(owner, VersionAnswered(version_in(reply, owner)))
            elif isinstance(reply, PeerError):
                current = reply.details().get("round")
                number = current if isinstance(current, int) else None
                refusal = SendRefused(peer, message.path, key, reply.status, reply.code, str(reply), number)
                node.tell(owner, refusal)

        def failed() -> None:
            node.tell(owner, SendFailed(peer, message.path, key, "lost"))
            node.tell(None, ContactLost(peer, "lost"))

        def again() -> None:
            self._network.carry(node, address, message.path, body, answered, failed)

        again()

    def fetch(self, node: Receiver, owner: TrainerId, effect: Fetch) -> None:
        """Get parameters of a peer by their digest."""
        network, peer = self._network, effect.peer
        weather, seconds = network.weather, 2 * network.delay()
        fails = network.chance(weather.fail_fetch + weather.corrupt)
        address = node.core.members.address_of(peer) or ""

        def end() -> None:
            giver = network.nodes.get(address)
            ways = [] if giver is None else [(node.id, giver.id), (giver.id, node.id)]
            arrives = giver is not None and not fails and all(network.is_open(*way) for way in ways)
            found = giver.core.find(effect.digest) if giver is not None and arrives else None
            if not arrives:
                node.tell(None, ContactLost(peer, "lost"))
            if found is not None:
                network.moved[FETCHED] += found[1].nbytes
                node.tell(owner, Fetched(effect.key, peer, effect.digest, found[1]))
            else:
                node.tell(owner, FetchFailed(effect.key, peer, effect.digest, "lost"))

        network.clock.after(seconds, end)

    def announce(self, node: Receiver, effect: SendAnnounce, then: Callable[[], None] = lambda: None) -> None:
        """Announce a node at an address, and go on with something."""
        address = effect.address
        message = Announce(
            i_am=node.core.me,
            my_known_peers=list(effect.known),
            accepts=node.core.members.accepts,
            incarnation=effect.incarnation,
            members=list(effect.members),
        )

        def answered(reply: Answer) -> None:
            if not isinstance(reply, Packet) or not isinstance(reply.message, AnnounceReply):
                node.tell(None, AnnounceFailed(address, str(reply)))
                then()
                return
            peer = located(reply.message.i_am, address.partition(":")[0])
            others = tuple(reply.message.announce_yourself_to_peers)
            accepts = frozenset(reply.message.accepts or ())
            told, members = reply.message.incarnation, tuple(reply.message.members or ())
            node.tell(None, AnnounceAnswered(address, peer, others, accepts, told, members))
            then()

        def failed() -> None:
            node.tell(None, AnnounceFailed(address, "lost"))
            then()

        body = self._network.encode(Packet(message))
        self._network.carry(node, address, Announce.path, body, answered, failed, True)

    def probe(self, node: Receiver, effect: SendProbe) -> None:
        """Probe a peer; it has its seconds to answer, by the clock of whoever asks."""
        peer, message = effect.to, effect.message
        about = PeerId(message.target.id) if message.target else None
        is_over = False

        def end(event: Event) -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                node.local.cancel(patience)
                node.tell(None, event)

        def answered(reply: Answer) -> None:
            if not isinstance(reply, Packet) or not isinstance(reply.message, ProbeReply):
                end(ProbeAnswered(peer, about))
            elif reply.message.i_am.id != peer:
                end(ProbeFailed(peer, about, "somebody else is there now"))
            else:
                end(ProbeAnswered(peer, about, reply.message.incarnation, tuple(reply.message.news)))

        def failed() -> None:
            end(ProbeFailed(peer, about, "lost"))

        patience = node.local.after(effect.seconds, lambda late: failed())
        address = node.core.members.address_of(peer) or ""
        self._network.carry(node, address, Probe.path, self._probe_body(message), answered, failed, True)

    def _probe_body(self, message: Probe) -> bytes:
        if message.news or message.target or message.reached or message.missed:
            return self._network.encode(Packet(message))
        return self._bare_probe(message.i_am, message.incarnation)

    def _encoded_probe(self, me: Peer, incarnation: int) -> bytes:
        return self._network.encode(Packet(Probe(i_am=me, incarnation=incarnation)))
