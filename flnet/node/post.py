"""Messages out: encode once, send to every peer concurrently, and turn each answer into an event."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from flnet.blob import Blob, Landing
from flnet.codec import BINARY_TYPE, HEAD_LIMIT, JsonCodec, available_codings, decompress
from flnet.effects import Fetch, Send, SendAnnounce, SendProbe
from flnet.errors import PeerError, PeerRefused, TransportError
from flnet.events import (
    ClaimAnswered,
    ContactLost,
    ContactMade,
    Event,
    Fetched,
    FetchFailed,
    FormRefused,
    IdentityDisputed,
    ProbeAnswered,
    ProbeFailed,
    SendFailed,
    SendRefused,
    ShutOutBy,
    VersionAnswered,
)
from flnet.membership import Members
from flnet.messages import (
    Accuracy,
    AccuracyReply,
    AskVersion,
    JobMessage,
    ModelParams,
    Packet,
    Probe,
    ProbeReply,
    VersionReply,
)
from flnet.node.announcer import OTHER_KEY, Announcer, refusal_of
from flnet.node.distances import Distances
from flnet.node.forms import goes_along
from flnet.node.spare import SpareMemory
from flnet.node.timers import Deliver
from flnet.node.traffic import Traffic
from flnet.node.translate import claim_of, version_in
from flnet.node.trust import Trust
from flnet.node.wire import Wire
from flnet.params import PeerId, RoundKey, TrainerId
from flnet.refusals import NotAnnounced
from flnet.signing.refusals import NotAccepted
from flnet.transport import Reply, Transport

IN_FLIGHT = 16  # sends at once; more only queue in the network
FETCHES = 4  # at once, of all jobs
BAD_REQUEST, UNSUPPORTED_MEDIA_TYPE = 400, 415


class Post:
    """Carries Send, Fetch and SendAnnounce to the transport.

    Attributes:
        must_prove: whether all parameters that are fetched are shown to have the digest that a peer signed.
        trust: of a pinned mesh; hears who is met that is not accepted.
    """

    must_prove = False
    trust: Trust | None = None

    def __init__(
        self,
        transport: Transport,
        wire: Wire,
        members: Members,
        deliver: Deliver,
        spare: SpareMemory,
        traffic: Traffic | None = None,
        distances: Distances | None = None,
    ) -> None:
        self._spare, self._traffic, self._distances = spare, traffic or Traffic(), distances
        self._transport, self._wire, self._members, self._deliver = transport, wire, members, deliver
        self._json, self._announcer = JsonCodec(), Announcer(transport, members)
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._fetches = asyncio.Semaphore(FETCHES)

    async def send(self, owner: TrainerId, effect: Send) -> None:
        """Send to all receivers; every one of them ends in an event, or in silence when it answered 200."""
        message = effect.message
        assert isinstance(message, JobMessage)
        groups: dict[tuple[bool, frozenset[str]], list[PeerId]] = {}
        for peer in effect.to:
            accepts = self._members.accepts_of(peer) if self._members.accepts else frozenset()
            groups.setdefault((goes_along(message, effect.params, accepts), accepts), []).append(peer)
        await asyncio.gather(
            *(
                self._send_group(owner, peers, Packet(message, effect.params if along else None), accepts)
                for (along, accepts), peers in groups.items()
            )
        )

    async def fetch(self, owner: TrainerId, effect: Fetch) -> Event:
        """Get parameters by their digest."""
        peer, digest = effect.peer, effect.digest

        def failed(reason: object) -> FetchFailed:
            return FetchFailed(effect.key, peer, digest, str(reason))

        address = self._members.address_of(peer)
        if address is None:
            return failed("its address is not known any more")
        landing = came = self._landing(owner, available_codings())
        try:
            async with self._fetches:
                await self._transport.download(address, f"{ModelParams.path}/{digest}", landing)
            proof = digest if effect.proven or landing.joined or self.must_prove else None
            if landing.coding is not None:  # its head is looked at now: the same limits hold for what it becomes
                coded, landing = landing, self._landing(owner)
                await asyncio.to_thread(decompress, coded.whole(), landing)
            params = await asyncio.to_thread(self._wire.fetched, owner, landing.whole(), proof)
        except PeerRefused as exc:
            return failed(exc.answer)
        except TransportError as exc:
            self._deliver(None, ContactLost(peer, str(exc)))
            return failed(exc)
        except PeerError as exc:
            return failed(exc)
        finally:
            self._traffic.received(owner, effect.key, came.received)
        return Fetched(effect.key, peer, digest, params)

    def peers(self) -> Sequence[Mapping[str, Any]]:
        """The other nodes, as the membership shows them."""
        return self._members.view()

    def keys(self) -> Mapping[PeerId, str]:
        """The keys to which names belong, for the next start of this node."""
        return self._members.keys()

    def _landing(self, owner: TrainerId, codings: Sequence[str] = ()) -> Landing:
        limit = self._wire.landing_limit(owner)
        return Landing(partial(self._wire.wanted, owner), limit, HEAD_LIMIT, self._spare.take, codings)

    async def announce(self, effect: SendAnnounce) -> None:
        """Announce this node at an address."""
        self._deliver(None, await self._announcer.announce(effect, self.trust))

    async def probe(self, effect: SendProbe) -> None:
        """Probe a peer: whatever it answers shows that it is there."""
        self._deliver(None, await self._probed(effect))

    async def _probed(self, effect: SendProbe) -> Event:
        peer, about = effect.to, PeerId(effect.message.target.id) if effect.message.target else None
        address = self._members.address_of(peer)
        if address is None:
            return ProbeFailed(peer, about, "its address is not known any more")
        body = self._json.encode(Packet(effect.message))
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async with asyncio.timeout(effect.seconds):
                reply = await self._transport.send(address, Probe.path, body, self._json.content_type)
        except TimeoutError:
            return ProbeFailed(peer, about, f"no answer within {effect.seconds:g} s")
        except TransportError as exc:
            self._shut_out(peer, exc)
            return ProbeFailed(peer, about, str(exc))
        if self._distances is not None:
            self._distances.measured(peer, loop.time() - begun)
        try:
            answer = self._json.decode(ProbeReply, reply.body).message
        except PeerError:
            return ProbeAnswered(peer, about)  # a node that does not know probes
        assert isinstance(answer, ProbeReply)
        if reply.signer is not None and answer.key != reply.signer:
            return ProbeFailed(peer, about, OTHER_KEY)
        if answer.i_am.id != peer:
            return ProbeFailed(peer, about, f"{answer.i_am.id} is at {address} now")
        if not self._members.fits(peer, answer.key):
            self._deliver(None, IdentityDisputed(peer, answer.key, address))
            return ProbeFailed(peer, about, f"another node with its name is at {address} now")
        return ProbeAnswered(peer, about, answer.incarnation, tuple(answer.news))

    def _shut_out(self, peer: PeerId, refusal: TransportError) -> None:
        if isinstance(refusal, PeerRefused) and refusal.error == NotAccepted.code:
            self._deliver(None, ShutOutBy(peer))

    async def _send_group(
        self, owner: TrainerId, peers: Sequence[PeerId], packet: Packet, accepts: frozenset[str]
    ) -> None:
        body, content_type = await self._wire.write(packet, accepts)
        await asyncio.gather(*(self._send_one(owner, peer, packet, body, content_type) for peer in peers))

    async def _send_one(
        self, owner: TrainerId, peer: PeerId, packet: Packet, body: bytes | Blob, content_type: str
    ) -> None:
        message = packet.message
        assert isinstance(message, JobMessage)
        key = RoundKey(message.round, PeerId(message.initiator or message.i_am.id))
        address = self._members.address_of(peer)
        if address is None:
            self._deliver(owner, SendFailed(peer, message.path, key, "its address is not known any more"))
            return
        try:
            async with self._slots:
                reply = await self._transport.send(address, message.path, body, content_type)
                if reply.status == UNSUPPORTED_MEDIA_TYPE and content_type == BINARY_TYPE:
                    # It came back with another FLNET_WIRE, and its new announcement has not arrived here.
                    self._deliver(None, FormRefused(peer))
                    body, content_type = await self._wire.write(packet)
                    reply = await self._transport.send(address, message.path, body, content_type)
                if reply.status == NotAnnounced.status and refusal_of(reply).error == NotAnnounced.code:
                    # It was started again, or has not heard of this node yet.
                    self._deliver(
                        None, await self._announcer.announce(self._members.introduction(address), self.trust)
                    )
                    reply = await self._transport.send(address, message.path, body, content_type)
        except TransportError as exc:
            self._deliver(owner, SendFailed(peer, message.path, key, str(exc)))
            self._deliver(None, ContactLost(peer, str(exc)))
            self._shut_out(peer, exc)
            return
        if reply.signer is not None and not self._members.fits(peer, reply.signer):
            self._deliver(owner, SendFailed(peer, message.path, key, f"another node than {peer} answers there"))
            return
        if not self._members.settled(peer):  # else it tells nothing new
            self._deliver(None, ContactMade(peer))
        if packet.params is not None and reply.status < BAD_REQUEST:
            self._traffic.sent(owner, key, len(body))
        if event := await self._outcome(peer, message, key, reply):
            self._deliver(owner, event)

    async def _outcome(self, peer: PeerId, message: JobMessage, key: RoundKey, reply: Reply) -> Event | None:
        if reply.status >= 400:
            refusal = refusal_of(reply)
            return SendRefused(peer, message.path, key, reply.status, refusal.error, refusal.answer, refusal.round)
        if not isinstance(message, Accuracy | AskVersion):
            return None
        kind = AccuracyReply if isinstance(message, Accuracy) else VersionReply
        try:
            packet = await self._wire.read(kind, reply.body, reply.content_type)
        except PeerError as exc:
            return SendFailed(peer, message.path, key, f"its answer cannot be used: {exc}")
        said = packet.message
        assert isinstance(said, AccuracyReply | VersionReply)
        if said.i_am.id != peer and (reply.signer is not None or isinstance(said, VersionReply)):
            return SendFailed(peer, message.path, key, "its answer speaks for another node")
        if isinstance(said, VersionReply):
            return VersionAnswered(version_in(packet, message.trainer))
        return ClaimAnswered(claim_of(message.round, packet))
