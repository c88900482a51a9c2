"""Messages to peers: encoded once, sent to all receivers at the same time; every answer becomes an event.

A message that a peer refuses because it does not know this node, or not this form of parameters, is sent again at once.
What fails for a moment on the way is tried again below (`flnet.wire.http`). In a pinned mesh a stranger is told no more
than who this node is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from flnet.errors import (
    FlnetError,
    LocalError,
    NotAccepted,
    NotAnnounced,
    PeerError,
    PeerRefused,
    StrangerThere,
    TooManyWaiting,
    TransportError,
)
from flnet.membership.members import Members
from flnet.names import check_name
from flnet.node.event_queue import Deliver
from flnet.node.formats import BodyFormats, BufferPool
from flnet.node.inbound import claim_of, located, version_in
from flnet.node.parts_download import PartsDownload
from flnet.node.peer_infos import Distances
from flnet.node.round_history import Traffic
from flnet.node.trust import Trust
from flnet.params.blob import Blob, Landing
from flnet.params.params import Digest, Params, PeerId, Schema, TrainerId
from flnet.params.segments import side_by_side
from flnet.protocol.effects import Fetch, FetchAlso, FetchSegments, Send, SendAnnounce, SendProbe
from flnet.protocol.events import (
    AnnounceAnswered,
    AnnounceFailed,
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
    RoundAnswered,
    SendFailed,
    SendRefused,
    ShutOutBy,
    VersionAnswered,
    VerticalDelivered,
)
from flnet.protocol.messages import (
    ANNOUNCE_BYTES,
    SAFETENSORS,
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
    Probe,
    ProbeReply,
    RoundReply,
    VersionReply,
)
from flnet.protocol.secure_sum import SecureSumMessage
from flnet.protocol.segments import SegmentsMessage
from flnet.protocol.updates import RoundKey
from flnet.protocol.vertical import VerticalMessage, VerticalReply
from flnet.rounds.parts import LARGE_BYTES, MOST_SOURCES, PART_BYTES
from flnet.security.claims import ClaimSigner
from flnet.store.partial_downloads import MemoryDownloads, PartialDownload, PartialDownloads
from flnet.text import text
from flnet.wire.binary_codec import BINARY_TYPE, HEAD_LIMIT, available_codings, decompress
from flnet.wire.json_codec import JsonCodec
from flnet.wire.transport import CONTROL_BYTES, Reply, Transport, parsed

PUSH_BYTES = 1024 * 1024  # of an update: smaller ones are sent at once, larger ones are fetched when there is room
IN_FLIGHT = 16  # sends at once; more only queue in the network
SMALL_SECONDS = 1.0  # after which a message without parameters gives its place to another one
MOST_WAITING = 1024  # sends to peers that do not answer: four messages to as many peers as a mesh may have
FETCHES = 4  # at once, of all jobs
# Of parts of updates: all that a node needs are hardly larger than an update. With few at once, all nodes would download
# from the same few others, in the order of the offers, and most links would be idle.
PART_FETCHES = 64
ANSWERS: Mapping[str, type[Message]] = {  # to messages of a round; the others get an empty one
    Accuracy.path: AccuracyReply,
    AskRound.path: RoundReply,
    AskVersion.path: VersionReply,
    VerticalMessage.path: VerticalReply,
}
CONVERSATIONS = (SecureSumMessage, SegmentsMessage, VerticalMessage)  # whose bytes count, also without parameters
BAD_REQUEST, UNSUPPORTED_MEDIA_TYPE = 400, 415
Result = TypeVar("Result")
OTHER_KEY = text("its answer names another key than the one that signed it")


def goes_along(
    message: Message, params: Params | None, accepts: frozenset[str], push_bytes: int | None = None
) -> bool:
    """Whether the parameters are sent with the message.

    A peer that only supports the thesis' JSON gets all of them, but for segments, of which the thesis knows nothing. Others
    get the digest of a start or a claim, because they usually hold that model already; an update is new to all of them, and
    so is a segment of an average.

    Args:
        push_bytes: larger ones are fetched; None for PUSH_BYTES of an update, and any number of a segment: all need it at
            once, so that nobody would wait for room.
    """
    if params is None or isinstance(message, VerticalMessage):
        return True
    if isinstance(message, SegmentsMessage):
        return SAFETENSORS in accepts and (push_bytes is None or params.nbytes <= push_bytes)
    if SAFETENSORS not in accepts:
        return True
    return isinstance(message, ModelParams) and params.nbytes <= (PUSH_BYTES if push_bytes is None else push_bytes)


class SendingPlaces:
    """Limits the sends that are under way, so that peers that do not answer hold up nobody but each other.

    Such a peer keeps its place for the whole timeout of a request. Peers that never answered this node (anybody can
    announce any address) and those whose last message was not answered have places of their own.
    """

    def __init__(self, members: Members, most_waiting: int = MOST_WAITING) -> None:
        """Args:
        most_waiting: sends to peers that do not answer, of which further ones fail.
        """
        self._members, self._most_waiting = members, most_waiting
        self._answering, self._silent, self._unproven = (asyncio.Semaphore(IN_FLIGHT) for _ in range(3))
        self._unanswered: frozenset[PeerId] = frozenset()
        self._waiting = 0

    @asynccontextmanager
    async def of(self, peer: PeerId, *, is_small: bool = False) -> AsyncIterator[None]:
        """Wait for a place for a message to this peer, and keep it meanwhile.

        Args:
            is_small: whether nothing queues in the network because of it, so that a place among peers that answer is given
                back soon. A round with masked updates has many of them, and nodes that vanish would keep all places.

        Raises:
            TooManyWaiting: there is none soon.
        """
        places = self._places_of(peer)
        if places is not self._answering:
            await self._wait(places)
        else:
            await places.acquire()
        has_place = True

        def give_back() -> None:
            nonlocal has_place
            if has_place:
                has_place = False
                places.release()

        gives_back = is_small and places is self._answering
        soon = asyncio.get_running_loop().call_later(SMALL_SECONDS, give_back) if gives_back else None
        try:
            yield
        except TransportError:
            known = self._members.known
            self._unanswered = frozenset(one for one in (*self._unanswered, peer) if one in known)
            raise
        finally:
            if soon is not None:
                soon.cancel()
            give_back()
        self._unanswered -= {peer}

    def _places_of(self, peer: PeerId) -> asyncio.Semaphore:
        member = self._members.known.get(peer)
        if member is None or not member.is_proven:
            return self._unproven
        return self._silent if peer in self._unanswered else self._answering

    async def _wait(self, places: asyncio.Semaphore) -> None:
        if self._waiting >= self._most_waiting:
            raise TooManyWaiting(text("too many messages wait for peers that do not answer"))
        self._waiting += 1
        try:
            await places.acquire()
        finally:
            self._waiting -= 1


class SharedBody:
    """The body of a message, made once for all its receivers when the first of them gets its turn."""

    def __init__(self, make: Callable[[], Awaitable[tuple[bytes | Blob, str]]]) -> None:
        """Args:
        make: encodes it; returns it with its content type.
        """
        self._make = make
        self._made: asyncio.Future[tuple[bytes | Blob, str]] | None = None

    async def get(self) -> tuple[bytes | Blob, str]:
        """The body and its content type."""
        if self._made is None:
            self._made = asyncio.ensure_future(self._make())
        return await asyncio.shield(self._made)


class RunningDownload:
    """A download in parts that is under way.

    Attributes:
        sources: the addresses of the peers that it begins with.
        download: None until it begins.
        ends: with this event.
    """

    def __init__(self, sources: dict[PeerId, str]) -> None:
        self.sources = sources
        self.download: PartsDownload | None = None
        self.ends: asyncio.Future[Fetched | FetchFailed] = asyncio.get_running_loop().create_future()


class Outbox:
    """Performs Send, Fetch, FetchSegments, FetchAlso, SendAnnounce and SendProbe with the transport.

    Attributes:
        must_prove: whether fetched parameters must have the digest that a peer signed.
        trust: of a pinned mesh; learns of keys that are not accepted yet.
        downloads: keeps models that are not here completely yet.
    """

    must_prove = False
    trust: Trust | None = None

    def __init__(
        self,
        transport: Transport,
        wire: BodyFormats,
        members: Members,
        deliver: Deliver,
        buffers: BufferPool,
        traffic: Traffic,
        distances: Distances,
        claims: ClaimSigner | None = None,
    ) -> None:
        """Args:
        claims: signs what this node claims of members, and states about segments; None in an open mesh.
        """
        self._buffers, self._traffic, self._distances = buffers, traffic, distances
        self._transport, self._wire, self._members, self._deliver = transport, wire, members, deliver
        self._claims, self._places = claims, SendingPlaces(members)
        self._json, self._announcer = JsonCodec(), AnnouncementSender(transport, members, claims)
        self._fetches, self._part_fetches = asyncio.Semaphore(FETCHES), asyncio.Semaphore(PART_FETCHES)
        self.downloads: PartialDownloads = MemoryDownloads()
        self._in_parts: dict[tuple[TrainerId, Digest], RunningDownload] = {}
        self._wrong: set[PeerId] = set()  # who served wrong parts

    async def send(self, owner: TrainerId, effect: Send) -> None:
        """Send to all receivers. Each failure or answer becomes an event; a plain 200 does not."""
        message = self._claims.signed(effect.message) if self._claims else effect.message
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
        """Get parameters by their digest: large ones in parts, if the digest has to be proven."""
        is_model = effect.proven and effect.form is None
        if not effect.others and not (is_model and self._wire.model_bytes(owner) >= LARGE_BYTES):
            return await self._fetch_whole(owner, effect)
        # Who gave up waiting, and asks again, gets what is still on its way.
        which = (owner, effect.digest)
        if (running := self._in_parts.get(which)) is not None:
            return replace(await asyncio.shield(running.ends), key=effect.key)
        running = self._in_parts[which] = RunningDownload(self._sources(effect))
        try:
            running.ends.set_result(await self._fetch_parts(owner, effect, running))
        finally:
            del self._in_parts[which]
            running.ends.cancel()
        return running.ends.result()

    async def fetch_also(self, owner: TrainerId, effect: FetchAlso) -> None:
        """Let one more peer serve parts of a download that is under way; as a task, it begins after that download."""
        running = self._in_parts.get((owner, effect.digest))
        address = self._members.address_of(effect.peer)
        if running is None or address is None or effect.peer in self._wrong:
            return
        if running.download is not None:
            running.download.add(effect.peer, address)
        elif len(running.sources) < MOST_SOURCES:
            running.sources.setdefault(effect.peer, address)

    async def _fetch_parts(
        self, owner: TrainerId, effect: Fetch, running: RunningDownload
    ) -> Fetched | FetchFailed:
        """Get them from all peers that may hold them, and go on where an earlier run was stopped."""
        digest = effect.digest
        store = self.downloads if effect.form is None else MemoryDownloads()
        kept = await asyncio.to_thread(store.open, digest, PART_BYTES)
        download = running.download = self._parts_download(owner, effect, kept, running.sources)
        is_over = False
        try:
            async with self._fetches:
                params = await download.run()
            is_over = True
        except FlnetError as exc:
            for peer in sorted(download.ignoring):
                event = await self._fetch_whole(owner, replace(effect, peer=peer, others=()))
                if isinstance(event, Fetched):
                    is_over = True
                    return event
            return FetchFailed(effect.key, effect.peer, digest, _reason_of(exc), tuple(sorted(download.wrong)))
        finally:
            self._traffic.received(owner, effect.key, download.received)
            self._wrong = {peer for peer in self._wrong | download.wrong if peer in self._members.known}
            await asyncio.to_thread(store.close, digest, kept, is_over=is_over)
        return Fetched(effect.key, effect.peer, digest, params, tuple(sorted(download.wrong)))

    def _parts_download(
        self, owner: TrainerId, effect: Fetch, kept: PartialDownload, sources: Mapping[PeerId, str]
    ) -> PartsDownload:
        def whole() -> Params:
            body = self._buffers.take(kept.body_bytes or 0).data.cast("B")
            try:
                kept.read_into(body)
            except OSError as exc:
                raise LocalError(
                    text("what was downloaded cannot be read: {reason}", exc.strerror or exc)
                ) from exc
            return self._wire.fetched(owner, body.toreadonly(), effect.digest, effect.form)

        return PartsDownload(
            self._transport,
            f"{ModelParams.path}/{effect.digest}",
            sources,
            kept,
            self._wire.landing_limit(owner, effect.form),
            partial(self._wire.wanted, owner, form=effect.form),
            partial(asyncio.to_thread, whole),
            lambda peer, exc: self._deliver(None, ContactLost(peer, str(exc))),
            partial(self._traffic.asked, owner, effect.key),
            self._members.accepts or (),
        )

    def _sources(self, effect: Fetch) -> dict[PeerId, str]:
        """The addresses of peers that may serve parts; of those that served wrong ones before only if there is no other."""
        known = {peer: self._members.address_of(peer) for peer in (effect.peer, *effect.others)}
        there = {peer: address for peer, address in known.items() if address is not None}
        right = {peer: address for peer, address in there.items() if peer not in self._wrong} or there
        return dict(list(right.items())[:MOST_SOURCES])

    async def _fetch_whole(self, owner: TrainerId, effect: Fetch) -> Fetched | FetchFailed:
        """Get them from one peer as one body."""
        peer, digest = effect.peer, effect.digest

        def read(body: memoryview, is_joined: bool) -> Params:
            proof = digest if effect.proven or is_joined or self.must_prove else None
            return self._wire.fetched(owner, body, proof, effect.form)

        try:
            params = await self._download(owner, effect.key, peer, digest, effect.form, read)
        except (TransportError, PeerError) as exc:
            return FetchFailed(effect.key, peer, digest, _reason_of(exc))
        return Fetched(effect.key, peer, digest, params)

    async def fetch_segments(self, owner: TrainerId, effect: FetchSegments) -> Sequence[Event]:
        """Get segments in one request; one by one from a peer that lacks some, or cannot serve them so."""
        key, peer, forms = effect.key, effect.peer, effect.forms
        form = Schema(side_by_side([each.specs for each in forms.values()]))

        def read(body: memoryview, is_joined: bool) -> Mapping[Digest, Params]:
            return self._wire.fetched_segments(body, forms)

        try:
            segments = await self._download(owner, key, peer, ",".join(forms), form, read)
        except PeerRefused:
            return await asyncio.gather(*(self._fetch_whole(owner, each) for each in effect.one_by_one()))
        except (TransportError, PeerError) as exc:
            return [FetchFailed(key, peer, digest, _reason_of(exc)) for digest in forms]
        return [Fetched(key, peer, digest, params) for digest, params in segments.items()]

    async def _download(
        self,
        owner: TrainerId,
        key: RoundKey,
        peer: PeerId,
        digests: str,
        form: Schema | None,
        read: Callable[[memoryview, bool], Result],
    ) -> Result:
        """What `read` makes of the body with these digests that a peer serves; it also learns whether that was resumed.

        Raises:
            TransportError, PeerError: it did not come, or is not what was asked for.
        """
        address = self._members.address_of(peer)
        if address is None:
            raise TransportError(text("its address is not known any more"))
        self._traffic.asked(owner, key)
        landing = came = self._landing(owner, form, available_codings(), self._members.accepts or ())
        try:
            async with self._fetches if form is None else self._part_fetches:
                await self._transport.download(address, f"{ModelParams.path}/{digests}", landing)
            is_joined = landing.joined
            if landing.coding is not None:  # its head is looked at now: the same limits hold for what it becomes
                coded, landing = landing, self._landing(owner, form)
                await asyncio.to_thread(decompress, coded.whole(), landing)
            return await asyncio.to_thread(read, landing.whole(), is_joined)
        except PeerRefused:
            raise
        except TransportError as exc:
            self._deliver(None, ContactLost(peer, str(exc)))
            raise
        finally:
            self._traffic.received(owner, key, came.received)

    def peers(self) -> Sequence[Mapping[str, Any]]:
        """The other nodes, as the membership shows them."""
        return self._members.view()

    def keys(self) -> Mapping[PeerId, str]:
        """The keys of all names, for the next start of this node."""
        return self._members.keys()

    def _landing(
        self, owner: TrainerId, form: Schema | None, codings: Sequence[str] = (), accepts: Sequence[str] = ()
    ) -> Landing:
        limit, wanted = self._wire.landing_limit(owner, form), partial(self._wire.wanted, owner, form=form)
        return Landing(wanted, limit, HEAD_LIMIT, self._buffers.take, codings, accepts)

    async def announce(self, effect: SendAnnounce) -> None:
        """Announce this node at an address."""
        self._deliver(None, await self._announcer.announce(effect, self.trust))

    async def probe(self, effect: SendProbe) -> None:
        """Probe a peer; any answer shows that it is alive."""
        self._deliver(None, await self._probed(effect))

    async def _probed(self, effect: SendProbe) -> Event:
        peer, about = effect.to, PeerId(effect.message.target.id) if effect.message.target else None
        address = self._members.address_of(peer)
        if address is None:
            return ProbeFailed(peer, about, text("its address is not known any more"))
        message = self._claims.signed(effect.message) if self._claims else effect.message
        body = self._json.encode(Packet(message))
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async with asyncio.timeout(effect.seconds):
                reply = await self._transport.send(address, Probe.path, body, self._json.content_type)
        except TimeoutError:
            words = text("no answer within {seconds} s", f"{effect.seconds:g}")
            return ProbeFailed(peer, about, words, is_late=True)
        except TransportError as exc:
            self._shut_out(peer, exc)
            return ProbeFailed(peer, about, str(exc))
        self._distances.measured(peer, loop.time() - begun)
        try:
            answer = self._json.decode(ProbeReply, reply.body).message
        except PeerError as exc:
            if reply.status < 400:
                return ProbeFailed(peer, about, str(exc))  # another program answers there
            return ProbeAnswered(peer, about)  # it refuses, or is a node that does not know probes
        assert isinstance(answer, ProbeReply)
        if reply.signer is not None and answer.key != reply.signer:
            return ProbeFailed(peer, about, OTHER_KEY)
        if answer.i_am.id != peer:
            return ProbeFailed(peer, about, text("{peer} is at {address} now", answer.i_am.id, address))
        if not self._members.fits(peer, answer.key):
            self._deliver(None, IdentityDisputed(peer, answer.key, address))
            return ProbeFailed(peer, about, text("another node with its name is at {address} now", address))
        return ProbeAnswered(peer, about, answer.incarnation, tuple(answer.news), answer.members_digest)

    def _shut_out(self, peer: PeerId, refusal: TransportError) -> None:
        if isinstance(refusal, PeerRefused) and refusal.error == NotAccepted.code:
            self._deliver(None, ShutOutBy(peer))

    async def _send_group(
        self, owner: TrainerId, peers: Sequence[PeerId], packet: Packet, accepts: frozenset[str]
    ) -> None:
        encoded = SharedBody(partial(self._wire.write, packet, accepts))
        await asyncio.gather(*(self._send_one(owner, peer, packet, encoded) for peer in peers))

    async def _send_one(self, owner: TrainerId, peer: PeerId, packet: Packet, encoded: SharedBody) -> None:
        message = packet.message
        assert isinstance(message, JobMessage)
        key = RoundKey(message.round, PeerId(message.initiator or message.i_am.id))
        session = message.session if isinstance(message, VerticalMessage) else ""

        def failed(reason: str) -> None:
            self._deliver(owner, SendFailed(peer, message.path, key, reason, session))

        address = self._members.address_of(peer)
        if address is None:
            failed(text("its address is not known any more"))
            return
        self._traffic.asked(owner, key)
        limit = self._wire.landing_limit(owner) if isinstance(message, Accuracy | AskVersion) else CONTROL_BYTES
        try:
            async with self._places.of(peer, is_small=packet.params is None):
                body, content_type = await encoded.get()
                reply = await self._transport.send(address, message.path, body, content_type, limit)
                if reply.status == UNSUPPORTED_MEDIA_TYPE and content_type == BINARY_TYPE:
                    # It came back with another FLNET_WIRE, and its new announcement has not arrived here.
                    self._deliver(None, FormRefused(peer))
                    body, content_type = await self._wire.write(packet)
                    reply = await self._transport.send(address, message.path, body, content_type, limit)
                if reply.status == NotAnnounced.status and refusal_of(reply).error == NotAnnounced.code:
                    # It was started again, or has not heard of this node yet.
                    self._deliver(
                        None, await self._announcer.announce(self._members.introduction(address), self.trust)
                    )
                    reply = await self._transport.send(address, message.path, body, content_type, limit)
        except TooManyWaiting as exc:
            failed(str(exc))
            return
        except TransportError as exc:
            failed(str(exc))
            self._deliver(None, ContactLost(peer, str(exc)))
            self._shut_out(peer, exc)
            return
        if reply.signer is not None and not self._members.fits(peer, reply.signer):
            failed(text("another node than {peer} answers there", peer))
            return
        if not self._members.settled(peer):  # else it tells nothing new
            self._deliver(None, ContactMade(peer))
        is_counted = packet.params is not None or isinstance(message, CONVERSATIONS)
        if is_counted and reply.status < BAD_REQUEST:
            self._traffic.sent(owner, key, len(body))
        if event := await self._outcome(peer, message, key, reply):
            self._deliver(owner, event)

    async def _outcome(self, peer: PeerId, message: JobMessage, key: RoundKey, reply: Reply) -> Event | None:
        session = message.session if isinstance(message, VerticalMessage) else ""
        if reply.status >= 400:
            refusal = refusal_of(reply)
            said = (refusal.error, refusal.answer, refusal.round)
            return SendRefused(peer, message.path, key, reply.status, *said, session)
        kind = ANSWERS.get(message.path)
        if kind is None:
            return None
        try:
            packet = await self._wire.read(kind, reply.body, reply.content_type)
        except PeerError as exc:
            return SendFailed(peer, message.path, key, text("its answer cannot be used: {reason}", exc), session)
        answer = packet.message
        assert isinstance(answer, AccuracyReply | RoundReply | VersionReply | VerticalReply)
        if answer.i_am.id != peer and (reply.signer is not None or not isinstance(answer, AccuracyReply)):
            return SendFailed(peer, message.path, key, text("its answer speaks for another node"), session)
        if isinstance(answer, RoundReply):
            return RoundAnswered(peer, answer.round)
        if isinstance(answer, VerticalReply):
            return VerticalDelivered(peer, answer.session)
        if isinstance(answer, VersionReply):
            return VersionAnswered(version_in(packet, message.trainer))
        return ClaimAnswered(claim_of(message.round, packet))


class AnnouncementSender:
    """Sends announcements, and turns what comes back into an event."""

    def __init__(self, transport: Transport, members: Members, claims: ClaimSigner | None = None) -> None:
        self._transport, self._members, self._claims = transport, members, claims
        self._json = JsonCodec()

    async def announce(self, effect: SendAnnounce, trust: Trust | None = None) -> Event:
        """Announce this node at an address.

        Args:
            trust: of a pinned mesh; hears who is met that is not accepted.

        Returns:
            AnnounceAnswered or AnnounceFailed.
        """
        address = effect.address
        message = Announce(
            i_am=self._members.me,
            my_known_peers=list(effect.known),
            accepts=self._members.accepts,
            incarnation=effect.incarnation,
            members=list(effect.members),
            key=self._members.key,
        )
        try:
            body = self._json.encode(Packet(self._claims.signed(message) if self._claims else message))
            reply = await self._transport.send(
                address, Announce.path, body, self._json.content_type, ANNOUNCE_BYTES
            )
            if reply.status >= 400:
                refusal = refusal_of(reply)
                return AnnounceFailed(address, str(refusal), refusal.error)
            answer = (await parsed(partial(self._json.decode, AnnounceReply), reply.body)).message
        except StrangerThere as exc:
            return await self._knock(address, exc, trust)
        except PeerRefused as exc:
            return AnnounceFailed(address, str(exc), exc.error)
        except FlnetError as exc:
            return AnnounceFailed(address, str(exc))
        assert isinstance(answer, AnnounceReply)
        if reply.signer is not None and answer.key != reply.signer:
            return AnnounceFailed(address, OTHER_KEY)
        if trust is not None and reply.signer is not None:
            trust.met(reply.signer, answer.i_am.id, address)
        host = address.rpartition(":")[0].strip("[]")
        others = tuple(peer for peer in answer.announce_yourself_to_peers if peer.ip)
        accepts = frozenset(answer.accepts or ())
        members, peer = tuple(answer.members or ()), located(answer.i_am, host)
        return AnnounceAnswered(address, peer, others, accepts, answer.incarnation, members, answer.key)

    async def _knock(self, address: str, met: StrangerThere, trust: Trust | None) -> Event:
        """Tell a stranger who this node is, and no more, so that its person can accept it; so can ours."""
        failed = AnnounceFailed(address, str(met), met.code)
        if trust is None or not met.key or trust.is_out(met.key):
            return failed
        trust.met(met.key, "", address)
        body = self._json.encode(Packet(Announce(i_am=self._members.me, key=self._members.key, knock=True)))
        try:
            reply = await self._transport.knock(address, Announce.path, body, self._json.content_type)
        except FlnetError:
            return failed
        if name := node_in(reply):
            trust.met(met.key, name, address)
        return failed


def node_in(reply: Reply) -> str:
    """The name that a node states when it is knocked at; empty if it states none."""
    try:
        return check_name(json.loads(reply.body)["node"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


def _reason_of(error: FlnetError) -> str:
    """Why a download failed: in the words of the peer, if it refused."""
    return error.answer if isinstance(error, PeerRefused) else str(error)


def refusal_of(reply: Reply) -> PeerRefused:
    """The message of a peer's error answer; accepts any body."""
    return PeerRefused.read(reply.status, reply.body)
