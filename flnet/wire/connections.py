"""Connections to peers: opened with asyncio after their addresses were checked, and kept, with or without TLS."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import ssl
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import httpcore

from flnet.networks import Networks
from flnet.wire.host_names import HostNames

CONNECT_SECONDS = 5.0  # for all addresses of a host together
HELD_BYTES = 256 * 1024  # that have come and nobody has read; then the system stops the sender
SMALL_BYTES = 64 * 1024  # what is written before the event loop turns leaves together, up to this
FRAMING_BYTES = 32 * 1024  # of an answer besides its body, in which each byte allows for one more
IDLE_SECONDS = 5.0  # that a connection is kept unused: less than the server keeps it (15)
MOST_IDLE = 128  # connections that are kept unused; for another one the one that has been unused longest is closed
Place = tuple[bytes, int | None]  # host and port


class NotCalled(ValueError):
    """No request goes to this address."""


class ConnectionClosed(httpcore.ReadError):
    """The peer closed a connection before anything of an answer came."""


class Network(httpcore.AsyncNetworkBackend):
    """Opens connections, to addresses that may be called only."""

    def __init__(self, networks: Networks | None, seconds: float = CONNECT_SECONDS) -> None:
        """Args:
        networks: in which peers are called; None: everywhere.
        seconds: for a connection to be made.
        """
        self._networks, self._seconds = networks, min(seconds, CONNECT_SECONDS)
        self._names = HostNames(lambda host: networks is not None and networks.is_named(host))

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's own argument
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> Connection:
        """Connect to the first address of the host that answers.

        Raises:
            NotCalled: none of its addresses may be called.
            httpcore.ConnectError, httpcore.ConnectTimeout: none of them answers.
        """
        *others, last = await self.addresses(host, port)
        seconds = self._seconds / (len(others) + 1)
        for address in others:
            with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return await self._connect(address, port, seconds)
        return await self._connect(last, port, seconds)

    async def addresses(self, host: str, port: int) -> list[str]:
        """The addresses of a host at which it may be called; a connection is made to these, not to the name.

        Raises:
            NotCalled: there are none.
            httpcore.ConnectError: the name has no address.
        """
        if _is_address(host):
            if self._networks is not None and (why := self._networks.refusal(host, port)):
                raise NotCalled(why)
            return [host]
        try:
            addresses = await self._names.addresses(host)
        except OSError as exc:
            raise httpcore.ConnectError(exc.strerror or str(exc)) from exc
        if self._networks is None:
            return addresses
        refused = {address: self._networks.refusal_of_name(host, address, port) for address in addresses}
        allowed = [address for address in addresses if refused[address] is None]
        if not allowed:
            raise NotCalled("; ".join(f"{address}: {why}" for address, why in refused.items()))
        return allowed

    async def _connect(self, address: str, port: int, seconds: float) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                return (await loop.create_connection(Connection, address, port))[1]
        except TimeoutError as exc:
            raise httpcore.ConnectTimeout from exc
        except OSError as exc:
            raise httpcore.ConnectError(exc.strerror or str(exc)) from exc


class Connection(asyncio.Protocol, httpcore.AsyncNetworkStream):
    """One connection: what comes waits until it is read, and a sender waits until the system takes its bytes.

    A request is not sent further once its answer begins to come: who refuses a large body reads no more of it.
    """

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._received: deque[bytes | memoryview] = deque()
        self._held = 0
        self._unsent: list[bytes] = []
        self._taken, self._most = 0, math.inf  # bytes that were read, and that may be
        self._is_over = self._is_answered = False
        self._changed = asyncio.Event()  # something came, or the connection is over
        self._writable = asyncio.Event()
        self._writable.set()

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast(asyncio.Transport, transport)  # those of uvloop do not inherit from it

    def data_received(self, data: bytes) -> None:
        """Keep what came until it is read."""
        self._received.append(data)
        self._held += len(data)
        self._is_answered = True
        if self._held >= HELD_BYTES:
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more comes, and nothing can be sent."""
        self._is_over = True
        self._wake()

    def eof_received(self) -> None:
        """The other side sends nothing more; asyncio closes the connection then."""
        self.connection_lost(None)

    def pause_writing(self) -> None:
        """The system takes no more for now."""
        if not self._received and not self._is_over:
            self._writable.clear()

    def resume_writing(self) -> None:
        """It takes more again."""
        self._writable.set()

    # What bounds an answer

    def begin(self) -> None:
        """A request is sent next, and its answer comes."""
        self._taken, self._most = 0, FRAMING_BYTES

    async def counted(self, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The parts of the body of an answer; a body allows for more bytes.

        Interim answers, chunks of single bytes and their extensions cost time, have no end, and say nothing.
        """
        async for part in parts:
            self._most += 2 * len(part)
            yield part

    # What httpcore calls

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """Some of what came, at most so many bytes; none at the end.

        Raises:
            ConnectionClosed: it ended before anything of an answer came.
            httpcore.RemoteProtocolError: far more came than belongs to the answer.
        """
        max_bytes = int(min(max_bytes, self._most - self._taken))
        if max_bytes <= 0:
            raise httpcore.RemoteProtocolError("too many bytes besides the body of the answer")
        while not self._received:
            if self._is_over:
                if self._is_answered:
                    return b""
                raise ConnectionClosed("closed before an answer came")
            self._changed.clear()
            await self._changed.wait()
        part = self._received.popleft()
        if len(part) > max_bytes:
            self._received.appendleft(memoryview(part)[max_bytes:])
            part = memoryview(part)[:max_bytes]
        if self._held >= HELD_BYTES > self._held - len(part) and not self._is_over:
            self._transport.resume_reading()
        self._held -= len(part)
        self._taken += len(part)
        return bytes(part)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Send these bytes, and wait while many others wait to be sent.

        Raises:
            httpcore.WriteError: the connection is over, or the other side answers already.
        """
        self._is_answered = bool(self._received)
        self._check_sending()
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(buffer)
        if len(buffer) > SMALL_BYTES:
            self._flush()
        await self._writable.wait()
        self._check_sending()

    async def aclose(self) -> None:
        """Close it; see `close`."""
        self.close()

    def close(self) -> None:
        """Close it at once; what has not left yet never does."""
        self._is_over = True
        self._unsent.clear()
        self._transport.abort()
        self._wake()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> Connection:
        """Agree on TLS.

        Raises:
            ssl.SSLError, OSError: it is not agreed on.
        """
        if self._transport.is_closing():  # uvloop would log a traceback
            raise ConnectionResetError("the connection was closed before TLS began")
        loop = asyncio.get_running_loop()
        try:
            transport = await loop.start_tls(self._transport, self, ssl_context, server_hostname=server_hostname)
        except BaseException:
            self.close()
            raise
        assert transport is not None
        self._transport = transport
        return self

    def get_extra_info(self, info: str) -> Any:
        """What httpcore asks of a connection: whether it is of use still, and its TLS."""
        if info == "is_readable":
            return bool(self._received) or self._is_over
        return self._transport.get_extra_info(info)

    def _check_sending(self) -> None:
        if self._received or self._is_over:
            raise httpcore.WriteError("the connection is closed, or the answer comes already")

    def _flush(self) -> None:
        if self._unsent and not self._is_over:
            self._transport.write(b"".join(self._unsent) if len(self._unsent) > 1 else self._unsent[0])
        self._unsent.clear()

    def _wake(self) -> None:
        self._changed.set()
        self._writable.set()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class Response(NamedTuple):
    """An answer whose head has arrived: names of headers in lower case, and the parts of the body as they come."""

    status: int
    headers: Mapping[str, str]
    parts: AsyncIterator[bytes]

    def header(self, name: str) -> str | None:
        """The value of a header; values of a header that comes several times are joined with commas."""
        return self.headers.get(name.lower())


class Connections:
    """Connections that a `Network` opens, over which requests go; each serves many of them, one after another.

    They take the place of httpcore's pool, which loses connections when a request is cancelled at certain moments:
    here a connection is kept only after a whole answer, and closed in every other case. Failures come as httpcore
    raises them.
    """

    def __init__(self, network: Network, tls: ssl.SSLContext | None = None, tls_name: str = "") -> None:
        """Open nothing yet.

        Args:
            network: opens them.
            tls: for requests to https.
            tls_name: the name that is asked for in the handshake.
        """
        self._network, self._tls, self._tls_name = network, tls, tls_name
        self._open: set[_Open] = set()
        self._idle: dict[Place, list[_Open]] = {}
        self._unused: dict[_Open, None] = {}  # all of these, the longest unused first

    @asynccontextmanager
    async def stream(self, request: httpcore.Request) -> AsyncIterator[Response]:
        """Send a request and read the head of its answer; afterwards the connection is kept or closed."""
        try:
            connection, response = await self._send(request)
        except ConnectionClosed:  # perhaps the peer closed a kept connection just now
            if request.method != b"GET":
                raise
            connection, response = await self._send(request)
        try:
            yield Response(
                response.status, _joined(response.headers), connection.stream.counted(response.aiter_stream())
            )
        finally:
            try:
                await response.aclose()
            finally:
                self._answered(connection)

    def close(self) -> None:
        """Close all connections."""
        for connection in list(self._open):
            self._close(connection)

    async def _send(self, request: httpcore.Request) -> tuple[_Open, httpcore.Response]:
        connection = self._take((request.url.host, request.url.port)) or await self._connect(request.url)
        connection.stream.begin()
        try:
            return connection, await connection.http.handle_async_request(request)
        except BaseException:
            self._close(connection)
            raise

    def _take(self, place: Place) -> _Open | None:
        kept = self._idle.get(place, [])
        while kept:
            connection = kept.pop()
            self._unused.pop(connection, None)
            if not connection.http.has_expired():
                connection.use()
                return connection
            self._close(connection)
        self._idle.pop(place, None)
        return None

    async def _connect(self, url: httpcore.URL) -> _Open:
        origin = url.origin
        stream = await self._network.connect_tcp(origin.host.decode(), origin.port)
        if origin.scheme == b"https":
            assert self._tls is not None
            await stream.start_tls(self._tls, self._tls_name)
        connection = _Open((url.host, url.port), stream, httpcore.AsyncHTTP11Connection(origin, stream))
        self._open.add(connection)
        return connection

    def _answered(self, connection: _Open) -> None:
        if connection not in self._open or not connection.http.is_idle():
            self._close(connection)
            return
        connection.timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._close, connection)
        self._idle.setdefault(connection.place, []).append(connection)
        self._unused[connection] = None
        if len(self._unused) > MOST_IDLE:
            self._close(next(iter(self._unused)))

    def _close(self, connection: _Open) -> None:
        connection.use()
        connection.stream.close()
        self._open.discard(connection)
        self._unused.pop(connection, None)
        kept = self._idle.get(connection.place, [])
        if connection in kept:
            kept.remove(connection)
        if not kept:
            self._idle.pop(connection.place, None)


@dataclass(eq=False)
class _Open:
    """An open connection and, while it is idle, the timer that closes it."""

    place: Place
    stream: Connection
    http: httpcore.AsyncHTTP11Connection
    timer: asyncio.TimerHandle | None = None

    def use(self) -> None:
        """It is not idle any more."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


def _joined(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for raw, value in headers:
        name, words = raw.decode("latin-1").lower(), value.decode("latin-1")
        found[name] = f"{found[name]}, {words}" if name in found else words
    return found


def key_shown(exc: Exception) -> str | None:
    """The key on which a handshake was broken off, empty if it was no node's; None where something else failed."""
    key = getattr(exc, "key", None)
    return key if isinstance(exc, ssl.SSLError) and isinstance(key, str) else None
