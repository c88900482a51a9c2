"""HTTP/1.1 to other nodes: connections are kept, bodies go in pieces, what fails for a moment is tried again.

The timeout is one budget for all attempts of a request, except that a transfer that moves is never cut off:
each further piece, sent or received, allows it another timeout, and more where the peer is known to be slow
(see flnet.wire.timeouts). Two limits remain for a peer that means harm: a piece must move within its time, and
an answer has a largest size.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import quote

import httpcore

from flnet.errors import (
    Challenged,
    OtherMeshThere,
    PeerRefused,
    PeerTimeout,
    PeerUnreachable,
    RangeIgnored,
    StrangerThere,
    TransportError,
)
from flnet.names import DEFAULT_MESH, check_called_host, hostport
from flnet.networks import Networks
from flnet.params.blob import Blob, Landing
from flnet.params.params import Rng
from flnet.security.signing import Header, RequestSigner, SignedRequest, VerifiedReply
from flnet.text import text
from flnet.wire.binary_codec import BINARY_TYPE
from flnet.wire.body_memory import JSON_FACTOR, BodyMemory, ReplyBody, memory_bytes
from flnet.wire.connections import Connections, Network, NotCalled, Response, key_shown
from flnet.wire.timeouts import STEP, Budget, LinkSpeeds, TransferWatch, now
from flnet.wire.transport import CONTROL_BYTES, MESH_HEADER, Reply, forms_header, mesh_of, sha256_of, wait_of

if TYPE_CHECKING:
    from flnet.security.tls import Channel

_MOST_WORDS = 200  # characters of a failure's own words, which may quote what the peer sent
BAD_REQUEST = 400  # and larger statuses: the answer is a refusal
SMALL = 64 * 1024  # bytes; such a body leaves in one write together with its head
TEXT_REPLY_BYTES = 1024 * 1024  # larger answers hold a model
TEXT_REPLIES_BYTES = 32 * 1024 * 1024  # for all answers up to TEXT_REPLY_BYTES that are being read
MOST_ADDRESSES = 1024  # whose mesh is remembered
MOST_AT_ONCE = 32  # requests to one address; further ones wait for their turn
HEALTH = "/health"  # answered to everyone, by nodes of every version
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})")
_LENGTH = re.compile(r"[0-9]{1,18}")
_STRONG_ETAG = re.compile(r'"[!#-~]{0,200}"')  # a weak one does not promise the same bytes (RFC 9110, 13.1.5)
Result = TypeVar("Result")
Read = Callable[[Response, TransferWatch, VerifiedReply | None], Awaitable[Result]]


class CutOff(ConnectionError):
    """The connection ended within an answer."""


class Fault(NamedTuple):
    """The meaning of a failure, and whether the same request may work a moment later."""

    error: type[TransportError]
    words: str
    again: bool


# Sending twice is safe: a message that comes twice counts once. Waiting longer than the timeout is not.
FAULTS: dict[type[Exception], Fault] = {
    httpcore.ConnectError: Fault(PeerUnreachable, text("no connection"), again=True),
    httpcore.ConnectTimeout: Fault(PeerUnreachable, text("no connection in time"), again=True),
    httpcore.NetworkError: Fault(
        PeerUnreachable, text("the connection broke before the answer was complete"), again=True
    ),
    CutOff: Fault(PeerUnreachable, text("the answer was cut off"), again=True),
    httpcore.ProtocolError: Fault(PeerUnreachable, text("the answer is no HTTP"), again=True),
    httpcore.TimeoutException: Fault(PeerTimeout, text("no answer in time"), again=False),
    NotCalled: Fault(PeerUnreachable, text("no request goes there"), again=False),
    ValueError: Fault(PeerUnreachable, text("no address of HTTP"), again=False),
    ssl.SSLError: Fault(
        PeerUnreachable, text("it speaks no TLS: its mesh is not pinned, and this one is"), again=False
    ),
    OSError: Fault(PeerUnreachable, text("the connection broke"), again=True),
}
OTHER = Fault(PeerUnreachable, text("the request failed"), again=False)


def fault_of(exc: Exception) -> Fault:
    """What this failure means, by its class or the nearest one above it that is known."""
    return next((FAULTS[kind] for kind in type(exc).__mro__ if kind in FAULTS), OTHER)


def because(exc: Exception) -> str:
    """The failure's own words in parentheses, on one line and shortened, or nothing."""
    words = " ".join(ascii(str(getattr(exc, "strerror", None) or exc))[1:-1].split())
    return f" ({words[:_MOST_WORDS]})" if words else ""


class Request(NamedTuple):
    """A request as it is sent, in each of its attempts."""

    verb: str
    body: bytes | Blob | None = None
    headers: Mapping[str, str] = MappingProxyType({})
    stranger: bool = False  # whether it may go to a node whose key is not accepted
    connections: Connections | None = None  # if it has some of its own


def post(body: bytes | Blob, content_type: str) -> Request:
    """A POST; a large body goes in pieces."""
    if len(body) <= SMALL:
        body = bytes(body)
    elif not isinstance(body, Blob):
        body = Blob([body])
    # Without a stated length, the library would send the pieces chunked.
    return Request("POST", body, {"Content-Type": content_type, "Content-Length": str(len(body))})


async def pieces(body: Blob, watch: TransferWatch) -> AsyncIterator[bytes]:
    """The body in pieces; a piece is asked for when the one before it has left us."""
    for part in body.pieces():
        start = 0
        while start < len(part):
            piece = bytes(part[start : start + watch.piece()])
            yield piece
            start += len(piece)
            watch.left(len(piece))
    watch.sent(len(body))


class PeerUrls:
    """Addresses to URLs, for those that may be called."""

    def __init__(self, networks: Networks | None, tls: bool = False) -> None:
        """Args:
        networks: in which hosts may lie; None: everywhere.
        tls: whether it is spoken there.
        """
        self._networks, self._scheme = networks, "https" if tls else "http"

    def url(self, address: str, path: str) -> httpcore.URL:
        """The URL of this path at "host:port".

        Raises:
            NotCalled: no request goes there.
            ValueError: it is no address.
        """
        url = url_of(address, path, self._scheme)
        if self._networks is not None:
            host, _, port = address.rpartition(":")
            if why := self._networks.refusal(host.strip("[]"), int(port)):
                raise NotCalled(why)
        return url


@lru_cache(maxsize=256)
def url_of(address: str, path: str, scheme: str = "http") -> httpcore.URL:
    """The URL of a path, and the query behind it, at "host:port".

    Raises:
        ValueError: it is no address.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise ValueError(text('expected "host:port"'))
    bare = check_called_host(host.removeprefix("[").removesuffix("]"))
    plain, mark, query = path.partition("?")
    target = f"{quote(plain)}{mark}{quote(query, '=&')}"
    return httpcore.URL(scheme=scheme, host=bare, port=int(port), target=target)


class Resumption:
    """One body that comes in one or several answers, all of them of the same version of it.

    Where a download broke off it goes on with a byte range (RFC 9110, 14): from the first missing byte to the end, or to
    that of the part that is wanted.
    """

    def __init__(self, landing: Landing, codings: Collection[str] = ()) -> None:
        """Args:
        landing: knows what has come so far, and is told how large the body is.
        codings: to ask for at first; ranges count the bytes as they come, so the rest is asked for as it began.
        """
        self._landing, self._codings = landing, codings
        self._etag = ""

    def headers(self) -> dict[str, str]:
        """What to ask with: the forms and codings that may come, later for the rest."""
        coding = self._landing.coding if self._landing.received else ", ".join(self._codings)
        wanted = forms_header(self._landing) | ({"Accept-Encoding": coding} if coding else {})
        if not self._is_range:
            return wanted
        stop = self._landing.stop
        wanted["Range"] = f"bytes={self._start}-{'' if stop is None else stop - 1}"
        return {**wanted, "If-Range": self._etag} if self._etag else wanted

    @property
    def _start(self) -> int:
        return self._landing.first + self._landing.received

    @property
    def _is_range(self) -> bool:
        return self._start > 0 or self._landing.stop is not None

    def accept(self, status: int, header: Header) -> None:
        """Look at the head of an answer below 400, before its body.

        Raises:
            RangeIgnored: the whole body came, or another one.
            TransportError: its body is not, or not the rest of, what was asked for.
            PeerError: the landing does not want a body of that size or coding.
        """
        start = self._start
        if status == 206 and self._is_range:
            total = self._rest(header, start)
        elif status == 200 and not self._is_range:
            total = _length(header)
        elif status == 200:
            raise RangeIgnored(
                text("asked for the bytes from {start} on, but the whole body came, or another one", start)
            )
        else:
            raise TransportError(text("expected a body, but the answer was {status}", status))
        etag = header("ETag") or ""
        if self._is_range and self._etag and etag not in ("", self._etag):
            raise TransportError(text("the body changed while it was transferred"))
        if _STRONG_ETAG.fullmatch(etag):
            self._etag = etag
        coding = (header("Content-Encoding") or "").strip().lower()
        self._landing.expect(total, None if coding in ("", "identity") else coding)

    def _rest(self, header: Header, start: int) -> int:
        stated = header("Content-Range") or ""
        match = _CONTENT_RANGE.fullmatch(stated)
        first, last, total = map(int, match.groups()) if match else (0, 0, 0)
        stop = total if self._landing.stop is None else min(self._landing.stop, total)
        if first != start or last + 1 != stop or last < first:
            raise TransportError(
                text("asked for the bytes from {start} on, but got {words}", start, f"{stated[:80]!a}")
            )
        return total


def _length(header: Header) -> int:
    stated = header("Content-Length") or ""
    if not _LENGTH.fullmatch(stated):
        raise TransportError(text("the answer does not say how large its body is"))
    return int(stated)


_FAILURES = tuple(FAULTS)


class HttpTransport:
    """Sends bodies over HTTP; see the module."""

    def __init__(
        self,
        timeout_seconds: float,
        rng: Rng,
        *,
        signer: RequestSigner | None = None,
        networks: Networks | None = None,
        channel: Channel | None = None,
        mesh: str = DEFAULT_MESH,
    ) -> None:
        """Open nothing yet; connections come with the first request to an address.

        Args:
            timeout_seconds: for one request, all attempts together; see the module.
            rng: spreads the pauses between attempts, so that nodes do not knock in step.
            signer: signs what is sent and checks the answers; None in an open mesh.
            networks: in which peers are called; None: everywhere.
            channel: TLS of a pinned mesh; None: nothing is encrypted.
            mesh: name of this node's mesh; answers of nodes of others count as failures.
        """
        self._mesh, self._in_mesh = mesh, set[str]()  # addresses where a node of this mesh answered
        self._stated = {} if mesh == DEFAULT_MESH else {MESH_HEADER: mesh}
        self._timeout, self._signer = timeout_seconds, signer
        self._rng = rng
        self._text_memory, self._model_memory = BodyMemory(TEXT_REPLIES_BYTES), BodyMemory(memory_bytes())
        self._places, self._pace = (
            PeerUrls(networks, channel is not None),
            LinkSpeeds(timeout_seconds, time.monotonic),
        )
        self._channel, self._network = channel, Network(networks, timeout_seconds)
        self._connections = self._open(channel.known if channel else None)
        self._turns = weakref.WeakValueDictionary[str, asyncio.Semaphore]()
        self._under_way, self._closed = set[asyncio.Timeout](), False

    async def send(
        self, address: str, path: str, body: bytes | Blob, content_type: str, reply_limit: int = CONTROL_BYTES
    ) -> Reply:
        """Send to "host:port" and wait for the answer; an answer 503 "not_ready" or 429 is asked again later.

        Args:
            reply_limit: bytes that the answer may have; a refusal has CONTROL_BYTES at most.

        Raises:
            PeerUnreachable: no connection, or it broke, until the timeout was used up.
            PeerTimeout: connected, but no answer in time.
            TransportError: the answer is larger than allowed.
        """
        budget, request = Budget(self._timeout, self._rng), post(body, content_type)
        read = partial(self._reply, reply_limit)
        while True:
            try:
                reply = await self._attempt(address, path, request, budget.deadline, read)
            except TransportError as exc:
                if not exc.is_temporary or not await budget.pause():
                    raise
            else:
                least = wait_of(reply)
                if least is None or not await budget.pause(least):
                    return reply

    async def knock(self, address: str, path: str, body: bytes, content_type: str) -> Reply:
        """Send, in one attempt, also to a node whose key is not accepted here; the reply says whose it is.

        Raises:
            PeerUnreachable, PeerTimeout, TransportError: as for `send`, and where two keys are shown.
        """
        stranger = self._channel.stranger() if self._channel else None
        connections = self._connections if stranger is None else self._open(stranger)  # others are to other keys
        request = post(body, content_type)._replace(stranger=True, connections=connections)
        read = partial(self._reply, CONTROL_BYTES)
        try:
            reply = await self._attempt(address, path, request, now() + self._timeout, read)
        finally:
            if stranger is not None:
                connections.close()
        if stranger is not None and self._signer is not None and stranger.seen != self._signer.key_at(address):
            raise TransportError(
                text("{address}: the key of its certificate is not the one that it names", address)
            )
        return reply

    async def fetch(self, address: str, path: str, reply_limit: int = CONTROL_BYTES) -> Reply:
        """Get what lies at this path of "host:port", in one attempt.

        Args:
            reply_limit: bytes that the answer may have; a refusal has CONTROL_BYTES at most.

        Raises:
            PeerUnreachable, PeerTimeout, TransportError: as for `send`.
        """
        read = partial(self._reply, reply_limit)
        return await self._attempt(address, path, Request("GET"), now() + self._timeout, read)

    async def download(self, address: str, path: str, landing: Landing) -> None:
        """Get the large body at this path of "host:port" into `landing`; go on where it broke off.

        An attempt that moved something gives the next one the whole timeout again.

        Raises:
            PeerRefused: the peer answered with an error.
            PeerUnreachable, PeerTimeout: as for `send`.
            TransportError: the answer is not the body that was asked for, or not the rest of it.
            PeerError: `landing` does not want it; no more of it is read.
        """
        codings = landing.codings if self._pace.is_slow(address) else ()
        budget, rest = Budget(self._timeout, self._rng), Resumption(landing, codings)

        async def land(response: Response, watch: TransferWatch, verified: VerifiedReply | None) -> None:
            await _land(response, watch, rest, landing)

        while True:
            before = landing.received
            try:
                request = Request("GET", headers=rest.headers())
                return await self._attempt(address, path, request, budget.deadline, land)
            except PeerRefused as refused:
                if refused.error != "not_ready" or not await budget.pause():
                    raise
            except TransportError as exc:
                if landing.complete:
                    return None
                moved = landing.received - before >= STEP
                if moved:
                    budget.renew()
                if self._closed or not (moved or exc.is_temporary) or not await budget.pause():
                    raise

    async def close(self) -> None:
        """Give connections back; requests under way end in PeerUnreachable, later ones too."""
        self._closed = True
        for timer in list(self._under_way):
            with suppress(RuntimeError):  # it has just run out
                timer.reschedule(0)
        self._connections.close()

    def _open(self, tls: ssl.SSLContext | None) -> Connections:
        return Connections(self._network, tls, self._channel.name if self._channel else "")

    async def _attempt(
        self, address: str, path: str, request: Request, deadline: float, read: Read[Result]
    ) -> Result:
        """One request, and its answer read by `read`; an error says whether the next one may succeed."""
        if request.verb == "POST" and self._must_ask_mesh(address):
            await self._once(address, HEALTH, Request("GET"), deadline, partial(self._reply, CONTROL_BYTES))
        try:
            return await self._once(address, path, request, deadline, read)
        except Challenged:
            return await self._once(address, path, request, deadline, read)

    async def _once(
        self, address: str, path: str, request: Request, deadline: float, read: Read[Result]
    ) -> Result:
        timer = asyncio.timeout_at(deadline)
        watch = TransferWatch(timer, self._pace, address)
        self._under_way.add(timer)
        try:
            if self._closed:
                raise ConnectionError
            url = self._places.url(address, path)
            signed = await self._signed_request(address, url, request)
            async with (
                timer,
                self._turns.setdefault(address, asyncio.Semaphore(MOST_AT_ONCE)),
                (request.connections or self._connections).stream(
                    _asked(url, request, watch, {**self._stated, **(signed.headers if signed else {})})
                ) as response,
            ):
                self._check_mesh(address, response)
                verified = await self._verified(address, response, watch, signed) if signed else None
                result = await read(response, watch, verified)
        except _FAILURES as exc:
            watch.stopped()
            raise self._failure(address, exc, watch) from exc
        finally:
            self._under_way.discard(timer)
        watch.finished()
        return result

    def _must_ask_mesh(self, address: str) -> bool:
        """Whether the node at an address has to show its mesh before it hears of this one.

        Nodes of earlier versions know no meshes, and would take this one in. Keys keep them out of other meshes.
        """
        return self._mesh != DEFAULT_MESH and self._signer is None and address not in self._in_mesh

    def _check_mesh(self, address: str, response: Response) -> None:
        """Raise OtherMeshThere for an answer of another mesh; a refusal may come from below flnet and state none."""
        stated = response.header(MESH_HEADER)
        if stated is None and response.status >= BAD_REQUEST:
            return
        if (theirs := mesh_of(stated)) != self._mesh:
            self._in_mesh.discard(address)
            raise OtherMeshThere(address, theirs, self._mesh)
        if self._mesh != DEFAULT_MESH:
            if len(self._in_mesh) >= MOST_ADDRESSES:
                self._in_mesh.clear()
            self._in_mesh.add(address)

    async def _signed_request(self, address: str, url: httpcore.URL, request: Request) -> SignedRequest | None:
        if self._signer is None:
            return None
        content_type = request.headers.get("Content-Type")
        digest = await sha256_of(request.body)
        path, _, query = url.target.decode().partition("?")
        return self._signer.request(
            address, request.verb, path, query, digest, content_type, stranger=request.stranger
        )

    async def _verified(
        self, address: str, response: Response, watch: TransferWatch, signed: SignedRequest
    ) -> VerifiedReply:
        assert self._signer is not None
        if self._signer.learn(address, signed, response.status, response.header):
            raise Challenged(text("{address}: asks for another signature again and again", address))
        verified = signed.answered(response.status, response.header)
        if verified is None:
            raise PeerRefused.read(response.status, await refusal(response, watch))
        return verified

    async def _reply(
        self, limit: int, response: Response, watch: TransferWatch, verified: VerifiedReply | None
    ) -> Reply:
        """Read an answer that may have so many bytes; its memory is reserved as long as anybody holds the reply."""
        limit = min(limit, CONTROL_BYTES) if response.status >= BAD_REQUEST else limit
        memory = self._text_memory if limit <= TEXT_REPLY_BYTES else self._model_memory
        content_type = response.header("Content-Type") or ""
        held = ReplyBody(memory, watch.address, limit, 1 if content_type == BINARY_TYPE else JSON_FACTOR)
        try:
            stated = response.header("Content-Length") or ""
            held.expect(int(stated) if _LENGTH.fullmatch(stated) else 0)
            await receive(response, watch, held.take)
            body, signer = await held.whole(), None
            if verified is not None:
                verified.came(await sha256_of(body))
                signer = verified.key
        except BaseException:
            held.give_back()
            raise
        reply = Reply(response.status, body, content_type, signer=signer)
        weakref.finalize(reply, held.give_back)
        return reply

    def _failure(self, address: str, exc: Exception, watch: TransferWatch) -> TransportError:
        if self._closed:
            return PeerUnreachable(text("{address}: this node has closed its connections", address))
        if type(exc) is TimeoutError:
            return PeerTimeout(text("{address}: no answer within {seconds} s", address, f"{watch.seconds:.3g}"))
        if (key := key_shown(exc)) is not None:
            return StrangerThere(address, key)
        fault = fault_of(exc)
        # What was no HTTP may be the banner of another service, which whoever named the address is not to read.
        cause = "" if isinstance(exc, httpcore.ProtocolError | CutOff) else because(exc)
        error = fault.error(text("{address}: {words}{cause}", address, fault.words, cause))
        error.is_temporary = fault.again
        return error


def _asked(
    url: httpcore.URL, request: Request, watch: TransferWatch, further: Mapping[str, str]
) -> httpcore.Request:
    """The request of one attempt, with further headers."""
    body = request.body
    watch.begins(0 if body is None else len(body))
    headers = {
        "Host": hostport(url.host.decode(), url.port or 0),
        "Accept-Encoding": "identity",
        "User-Agent": "flnet",
        **request.headers,
        **further,
    }
    content = pieces(body, watch) if isinstance(body, Blob) else body
    return httpcore.Request(request.verb, url, headers=tuple(headers.items()), content=content)


async def _land(response: Response, watch: TransferWatch, rest: Resumption, landing: Landing) -> None:
    if response.status >= 400:
        raise PeerRefused.read(response.status, await refusal(response, watch))
    try:
        rest.accept(response.status, response.header)
    except TransportError as exc:
        raise type(exc)(text("{address}: {reason}", watch.address, exc)) from None

    await receive(response, watch, landing.write)
    if not landing.complete:
        raise CutOff(text("{received} of {total} bytes", landing.received, landing.total))


async def refusal(response: Response, watch: TransferWatch) -> bytes:
    """The words of an answer that is an error; no more of them than anybody needs."""
    words = bytearray()

    def take(part: bytes) -> bool:
        words.extend(part)
        return len(words) > CONTROL_BYTES

    await receive(response, watch, take)
    return bytes(words)


async def receive(response: Response, watch: TransferWatch, take: Callable[[bytes], object]) -> None:
    """Hand on the parts of the body as they come, never joined or unpacked, until `take` says that it has enough.

    Raises:
        CutOff: the connection ended before the body did.
    """
    uncounted, step = 0, watch.step()
    try:
        async for part in response.parts:
            uncounted += len(part)
            if uncounted >= step:
                watch.came(uncounted)
                uncounted, step = 0, watch.step()
            if take(part):
                return
    except httpcore.RemoteProtocolError as exc:
        raise CutOff(str(exc)) from exc
