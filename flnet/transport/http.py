"""HTTP/1.1 to other nodes: connections are kept, bodies go in pieces, what fails for a moment is tried again.

The timeout is one budget for all attempts of a request, except that a transfer that moves is never cut off:
each further piece, sent or received, allows it another timeout. Two limits remain for a peer that means
harm: a piece must move within the timeout, and an answer has a largest size.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import httpx

from flnet.errors import PeerTimeout, PeerUnreachable, TransportError
from flnet.names import check_host
from flnet.params import Rng
from flnet.transport.base import Reply, is_not_ready

PIECE = 256 * 1024  # bytes; larger and smaller pieces were measured slower over loopback
BUFFERED = 4 * 1024 * 1024  # bytes that the system may hold after it took the last piece
MAX_REPLY_BYTES = 512 * 1024 * 1024
CONNECT_SECONDS = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds between attempts, doubled each time


class _Request(NamedTuple):
    verb: str
    body: bytes | None = None
    headers: Mapping[str, str] = MappingProxyType({})


class Fault(NamedTuple):
    """What a failure of the HTTP library means here, and whether the same request may work a moment later."""

    error: type[TransportError]
    words: str
    again: bool


# Sending twice is safe: a message that comes twice counts once. Waiting longer than the timeout is not.
FAULTS: dict[type[httpx.TransportError], Fault] = {
    httpx.ConnectError: Fault(PeerUnreachable, "no connection", again=True),
    httpx.ConnectTimeout: Fault(PeerUnreachable, "no connection in time", again=True),
    httpx.ReadError: Fault(PeerUnreachable, "the connection broke before the answer was complete", again=True),
    httpx.WriteError: Fault(PeerUnreachable, "the connection broke while sending", again=True),
    httpx.CloseError: Fault(PeerUnreachable, "the connection broke while closing", again=True),
    httpx.RemoteProtocolError: Fault(PeerUnreachable, "the answer was cut off or is no HTTP", again=True),
    httpx.ReadTimeout: Fault(PeerTimeout, "no answer in time", again=False),
    httpx.WriteTimeout: Fault(PeerTimeout, "took no data in time", again=False),
    httpx.PoolTimeout: Fault(PeerTimeout, "no free connection in time", again=False),
    httpx.LocalProtocolError: Fault(PeerUnreachable, "the request is no HTTP", again=False),
    httpx.ProxyError: Fault(PeerUnreachable, "a proxy failed", again=False),
    httpx.UnsupportedProtocol: Fault(PeerUnreachable, "no address of HTTP", again=False),
}


class HttpTransport:
    """Sends bodies over HTTP; see the module."""

    def __init__(self, timeout_seconds: float, rng: Rng, *, max_reply_bytes: int = MAX_REPLY_BYTES) -> None:
        """Open nothing yet; connections come with the first request to an address.

        Args:
            timeout_seconds: for one request, all attempts together; see the module.
            rng: spreads the pauses between attempts, so that nodes do not knock in step.
            max_reply_bytes: largest answer that is read.
        """
        self._timeout = timeout_seconds
        self._rng = rng
        self._max_reply_bytes = max_reply_bytes
        self._client = httpx.AsyncClient(
            headers={"Accept-Encoding": "identity", "User-Agent": "flnet"},
            timeout=httpx.Timeout(None, connect=min(CONNECT_SECONDS, timeout_seconds)),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=4),
            follow_redirects=False,
            trust_env=False,
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),  # no TLS here; the default would load every CA
        )

    async def send(self, address: str, path: str, body: bytes, content_type: str) -> Reply:
        """Send to "host:port" and wait for the answer; an answer 503 "not_ready" is asked again later.

        Raises:
            PeerUnreachable: no connection, or it broke, until the timeout was used up.
            PeerTimeout: connected, but no answer in time.
            TransportError: the answer is larger than allowed.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout
        pause = FIRST_PAUSE
        while True:
            spread = pause * (0.5 + self._rng.random() / 2)
            may_repeat = loop.time() + spread < deadline
            try:
                reply = await self._attempt(address, path, _post(body, content_type), deadline)
            except httpx.TransportError as exc:
                fault = fault_of(exc)
                if not fault.again or not may_repeat or self._client.is_closed:
                    raise fault.error(f"{address}: {fault.words}{_because(exc)}") from exc
            else:
                if not may_repeat or not is_not_ready(reply):
                    return reply
            await asyncio.sleep(spread)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def fetch(self, address: str, path: str) -> Reply:
        """Get what lies at this path of "host:port", in one attempt.

        Raises:
            PeerUnreachable, PeerTimeout, TransportError: as for `send`.
        """
        deadline = asyncio.get_running_loop().time() + self._timeout
        try:
            return await self._attempt(address, path, _Request("GET"), deadline)
        except httpx.TransportError as exc:
            fault = fault_of(exc)
            raise fault.error(f"{address}: {fault.words}{_because(exc)}") from exc

    async def close(self) -> None:
        """Give connections back; requests under way end in PeerUnreachable, later ones too."""
        await self._client.aclose()

    async def _attempt(self, address: str, path: str, request: _Request, deadline: float) -> Reply:
        if self._client.is_closed:
            raise PeerUnreachable(f"{address}: this node has closed its connections")
        try:
            async with asyncio.timeout_at(deadline) as limit:
                return await self._exchange(_url(address, path), request, self._extender(limit))
        except TimeoutError as exc:
            raise PeerTimeout(f"{address}: no answer within {self._timeout:g} s") from exc
        except (httpx.InvalidURL, ValueError) as exc:  # ValueError: names that the resolver cannot spell
            raise PeerUnreachable(f"{address!r} is no address: {exc}") from exc

    async def _exchange(self, url: httpx.URL, request: _Request, moved: Callable[[float], None]) -> Reply:
        content = None if request.body is None else _pieces(request.body, moved)
        async with self._client.stream(request.verb, url, content=content, headers=request.headers) as response:
            parts, got, counted = [], 0, 0
            async for part in response.aiter_raw():
                parts.append(part)
                got += len(part)
                if got > self._max_reply_bytes:
                    raise TransportError(
                        f"{url.netloc.decode()}: more than {self._max_reply_bytes} bytes of answer"
                    )
                if got - counted >= PIECE:
                    counted = got
                    moved(1)
            return Reply(response.status_code, b"".join(parts), response.headers.get("content-type", ""))

    def _extender(self, limit: asyncio.Timeout) -> Callable[[float], None]:
        loop = asyncio.get_running_loop()

        def moved(timeouts: float) -> None:
            limit.reschedule(max(limit.when() or 0, loop.time() + timeouts * self._timeout))

        return moved


def fault_of(exc: httpx.TransportError) -> Fault:
    """What this failure means, by its class or the nearest one above it that is known."""
    for kind in type(exc).__mro__:
        if kind in FAULTS:
            return FAULTS[kind]
    return Fault(PeerUnreachable, "the request failed", again=False)


async def _pieces(body: bytes, moved: Callable[[float], None]) -> AsyncIterator[bytes]:
    """The body in pieces; a piece is asked for when the one before it has left us.

    What has left us may still wait in the system's buffers, so the end of a large body allows more time.
    """
    for start in range(0, len(body), PIECE):
        if start:
            moved(1)
        yield body[start : start + PIECE]
    if len(body) > PIECE:
        moved(1 + 2 * min(1.0, len(body) / BUFFERED))


def _post(body: bytes, content_type: str) -> _Request:
    return _Request("POST", body, {"Content-Type": content_type, "Content-Length": str(len(body))})


def _url(address: str, path: str) -> httpx.URL:
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise ValueError('expected "host:port"')
    bare = check_host(host.removeprefix("[").removesuffix("]"))
    return httpx.URL(scheme="http", host=bare, port=int(port), path=path)


def _because(exc: Exception) -> str:
    return f" ({exc})" if str(exc) else ""
