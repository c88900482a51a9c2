"""Messages out: encode once, send to every peer concurrently, and turn each answer into an event."""

from __future__ import annotations

import asyncio

from flnet.codec import Codec
from flnet.effects import Send, SendAnnounce
from flnet.errors import FlnetError, PeerError, PeerRefused, TransportError
from flnet.events import (
    AnnounceAnswered,
    AnnounceFailed,
    ClaimAnswered,
    ContactLost,
    ContactMade,
    Event,
    SendFailed,
    SendRefused,
)
from flnet.jobs import Members
from flnet.messages import Accuracy, AccuracyReply, Announce, AnnounceReply, JobMessage, Packet
from flnet.node.timers import Deliver
from flnet.node.translate import claim_of, located
from flnet.params import PeerId, RoundKey, TrainerId
from flnet.transport import Reply, Transport

OFF_LOOP_BYTES = 64 * 1024  # larger bodies are encoded and decoded beside the event loop
IN_FLIGHT = 16  # sends at once; more only queue in the network


async def encode(codec: Codec, packet: Packet) -> bytes:
    """The packet's bytes; a large one is encoded in a thread, so that the node keeps answering."""
    if packet.params is not None and packet.params.nbytes > OFF_LOOP_BYTES:
        return await asyncio.to_thread(codec.encode, packet)
    return codec.encode(packet)


class Post:
    """Carries Send and SendAnnounce to the transport."""

    def __init__(self, transport: Transport, codec: Codec, members: Members, deliver: Deliver) -> None:
        self._transport, self._codec, self._members, self._deliver = transport, codec, members, deliver
        self._slots = asyncio.Semaphore(IN_FLIGHT)

    async def send(self, owner: TrainerId, effect: Send) -> None:
        """Send to all receivers; every one of them ends in an event, or in silence when it answered 200."""
        message = effect.message
        assert isinstance(message, JobMessage)
        if not effect.to:
            return
        body = await encode(self._codec, Packet(message, effect.params))
        await asyncio.gather(*(self._send_one(owner, peer, message, body) for peer in effect.to))

    async def announce(self, effect: SendAnnounce) -> None:
        """Announce this node at an address."""
        self._deliver(None, await self._announced(effect))

    async def _send_one(self, owner: TrainerId, peer: PeerId, message: JobMessage, body: bytes) -> None:
        key = RoundKey(message.round, PeerId(message.initiator or message.i_am.id))
        address = self._members.address_of(peer)
        if address is None:
            self._deliver(owner, SendFailed(peer, message.path, key, "its address is not known any more"))
            return
        try:
            async with self._slots:
                reply = await self._transport.send(address, message.path, body, self._codec.content_type)
        except TransportError as exc:
            self._deliver(owner, SendFailed(peer, message.path, key, str(exc)))
            self._deliver(None, ContactLost(peer, str(exc)))
            return
        self._deliver(None, ContactMade(peer))
        if event := await self._outcome(peer, message, key, reply):
            self._deliver(owner, event)

    async def _outcome(self, peer: PeerId, message: JobMessage, key: RoundKey, reply: Reply) -> Event | None:
        if reply.status >= 400:
            refusal = refusal_of(reply)
            return SendRefused(peer, message.path, key, reply.status, refusal.error, refusal.answer, refusal.round)
        if not isinstance(message, Accuracy):
            return None
        try:
            packet = await asyncio.to_thread(self._codec.decode, AccuracyReply, reply.body)
        except PeerError as exc:
            return SendFailed(peer, message.path, key, f"its answer cannot be used: {exc}")
        return ClaimAnswered(claim_of(message.round, packet))

    async def _announced(self, effect: SendAnnounce) -> Event:
        address = effect.address
        message = Announce(i_am=self._members.me, my_known_peers=list(effect.known))
        try:
            body = self._codec.encode(Packet(message))
            reply = await self._transport.send(address, Announce.path, body, self._codec.content_type)
            if reply.status >= 400:
                return AnnounceFailed(address, str(refusal_of(reply)))
            answer = self._codec.decode(AnnounceReply, reply.body).message
        except FlnetError as exc:
            return AnnounceFailed(address, str(exc))
        assert isinstance(answer, AnnounceReply)
        host = address.rpartition(":")[0].strip("[]")
        others = tuple(peer for peer in answer.announce_yourself_to_peers if peer.ip)
        return AnnounceAnswered(address, located(answer.i_am, host), others)


def refusal_of(reply: Reply) -> PeerRefused:
    """What a peer's error answer says; any body will do."""
    return PeerRefused.read(reply.status, reply.body)
