"""Serves the app with Hypercorn on one socket, and limits open connections.

`bind` opens the socket before the rest of the node starts, so that a port in use is reported at once. `Server` accepts
connections and hands each to Hypercorn. It speaks HTTP/1.1 only, which `StrictConnection` sees to, and closes a connection
as soon as its client is gone.
`ConnectionLimits` bounds their number, in total and per client address.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import h11
import orjson
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.events import Event, Updated
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.typing import AppWrapper, LifespanState
from quart import Quart

from flnet.errors import StartError
from flnet.node.relay import MOST_FILES
from flnet.node.relay_client import Relayed
from flnet.security.rate_limits import network_of
from flnet.settings import PREFIX, Settings
from flnet.text import text
from flnet.web.api.events import streams_of
from flnet.web.auth.permissions import RELAYED

if TYPE_CHECKING:
    from flnet.security.tls import ServerContext

GRACE_SECONDS = 3.0  # that requests under way have when the node stops
KEEP_ALIVE_SECONDS = 15.0  # longer than flnet's client keeps an idle connection (10 s), so that it closes first
HANDSHAKE_SECONDS = 10.0  # for the TLS handshake
ACCEPT_PAUSE_SECONDS = 1.0  # after the system had no file for a connection
BACKLOG = 1024  # connections that wait to be accepted; a client beyond them tries again after a second
CLOSE_SECONDS = 1.0  # for the client to close its end of TLS
UNACKNOWLEDGED_SECONDS = 60.0  # after which the system ends a connection whose client acknowledges nothing
PLAIN = re.compile(rb"[A-Z]{1,16}( |$)")  # the first bytes of a request in plain HTTP
ABSOLUTE = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)")  # what a proxy is asked for (RFC 9112, 3.2.2)
TLS_HELLO = b"\x16\x03"  # the first bytes of TLS (RFC 8446, section 5.1)
MAX_PER_ADDRESS = 512  # open connections
MAX_CONNECTIONS = 8192
MIN_CONNECTIONS = 64
RESERVED_FILES = 128  # for the state on disk, connections to peers and the training child
_log = logging.getLogger("flnet.web.server")


def bind(settings: Settings) -> socket.socket:
    """Bind the address and port of the settings, and listen.

    Raises:
        StartError: the port is in use or not allowed, or the address is not one of this machine.
    """
    host, port = settings.listen_address.strip("[]"), settings.node_port
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as exc:
        raise StartError(f"{host!r} is no address to listen on; correct {PREFIX}LISTEN_ADDRESS") from exc
    listening = socket.socket(family, kind, proto)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; accepted connections inherit it
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNACKNOWLEDGED_SECONDS * 1000))
        listening.bind(address)
        listening.listen(BACKLOG)  # two programs can bind one port; only listening shows whether it is free
    except OSError as exc:
        listening.close()
        raise StartError(_bind_error(exc, host, port)) from exc
    listening.setblocking(False)
    return listening


async def serve(
    app: Quart,
    settings: Settings,
    shutdown: asyncio.Event,
    listening: socket.socket | None = None,
    tls: ServerContext | None = None,
    publish: Callable[[str, str], object] | None = None,
    relayed: asyncio.Queue[Relayed] | None = None,
) -> None:
    """Serve until `shutdown` is set, then end within a few seconds, whatever clients do.

    Args:
        app: made by create_app.
        settings: say where to listen.
        shutdown: ends the server when it is set.
        listening: the socket of `bind`, if it was called before; the server closes it.
        tls: of a pinned mesh, which answers with TLS only.
        publish: adds an event of a kind, with a sentence, to the event log.
        relayed: connections that come through a relay.

    Raises:
        StartError: the port cannot be used.
    """
    reserved = RESERVED_FILES + (MOST_FILES if settings.relay_ports is not None else 0)
    server = Server(app, tls, _tls_notice(publish) if publish is not None and tls is None else None, reserved)
    await app.startup()
    try:
        await server.start(listening or bind(settings), relayed)
        await shutdown.wait()
    finally:
        streams_of(app).ending.set()
        await server.stop()
        await app.shutdown()


class Server:
    """Accepts connections and lets Hypercorn answer the requests on each of them.

    Hypercorn's own `serve` offers no hook for limits of connections, so this takes its place. Of Hypercorn it uses
    public names that are not documented; `tests/web/test_server.py` says so when another version changes them.
    """

    def __init__(
        self,
        app: Quart,
        tls: ServerContext | None,
        on_tls: Callable[[], object] | None,
        reserved: int = RESERVED_FILES,
    ) -> None:
        """Args:
        on_tls: called when a client begins with TLS although this server has none.
        reserved: files of the process that are not for connections.
        """
        self._app, self._tls, self._on_tls = ASGIWrapper(app), tls, on_tls
        self._config, self._context = _config(), WorkerContext(None)
        self._limits = ConnectionLimits(max(raise_file_limit() - reserved, MIN_CONNECTIONS))
        self._tasks = set[asyncio.Task[None]]()
        self._handshakes = set[asyncio.Task[None]]()
        self._listener: asyncio.Server | None = None

    async def start(self, listening: socket.socket, relayed: asyncio.Queue[Relayed] | None = None) -> None:
        """Accept connections from now on."""
        if self._tls is None:
            self._listener = await asyncio.start_server(self._accept, sock=listening, backlog=BACKLOG)
        else:
            _keep(self._handshakes, self._accept_tls(listening, self._tls))
        if relayed is not None:
            _keep(self._handshakes, self._accept_relayed(relayed))

    async def stop(self) -> None:
        """Accept no more connections; requests under way have GRACE_SECONDS to end."""
        if self._listener is not None:
            self._listener.close()
        for handshake in self._handshakes:
            handshake.cancel()
        await self._context.terminated.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=GRACE_SECONDS)
        self._limits.close_all()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)

    async def _accept_tls(self, listening: socket.socket, tls: ServerContext) -> None:
        """Accept connections until cancelled. Asyncio's own server shows none before its handshake has ended."""
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    sock, address = await loop.sock_accept(listening)
                except OSError as exc:
                    _log.warning("no connection can be accepted now: %s", exc.strerror or exc)
                    await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
                else:
                    _keep(self._handshakes, self._greet(sock, network_of(str(address[0])), tls))
                    await asyncio.sleep(0)  # accepting does not wait while there are more, and others have to run

    async def _accept_relayed(self, relayed: asyncio.Queue[Relayed]) -> None:
        """Take connections that come through a relay, until cancelled."""
        while True:
            sock, caller = await relayed.get()
            if self._tls is not None:
                _keep(self._handshakes, self._greet(sock, network_of(caller), self._tls, caller))
                continue
            try:
                self._accept(*await asyncio.open_connection(sock=sock), caller)
            except OSError as exc:
                _log.debug("a relayed connection was over before it began: %s", exc)

    async def _greet(self, sock: socket.socket, address: str, tls: ServerContext, relayed_from: str = "") -> None:
        """Agree on TLS; a connection counts for its address meanwhile."""

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._limits.remove(sock)
            self._accept(reader, writer, relayed_from)

        loop, greeting = asyncio.get_running_loop(), asyncio.current_task()
        assert greeting is not None
        if not self._limits.add(sock, address, greeting.cancel):
            sock.close()
            return
        try:
            if await _is_plain(sock):
                await _refuse_plain(sock, tls)
                return
            await loop.connect_accepted_socket(
                lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader(), accept),
                sock,
                ssl=tls,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=CLOSE_SECONDS,
            )
        except OSError as exc:  # among them those of TLS
            _log.debug("a connection did not agree on TLS: %s", exc)
        except asyncio.CancelledError:  # asyncio closes no connection whose handshake has not begun; so it ends
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            raise
        finally:
            self._limits.remove(sock)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, relayed_from: str = "") -> None:
        _keep(self._tasks, self._serve(reader, writer, relayed_from))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, relayed_from: str) -> None:
        app: AppWrapper = _RelayedApp(self._app, relayed_from) if relayed_from else self._app
        connection = _Connection(app, self._config, self._context, self._limits, reader, writer)
        connection.watch(self._on_tls)
        address = relayed_from or str((writer.get_extra_info("peername") or ("",))[0])
        if not self._limits.add(connection, network_of(address), writer.transport.abort):
            writer.transport.abort()
            return
        try:
            await connection.run()
        except OSError as exc:  # such as a client that does not close its end of TLS
            _log.debug("a connection did not end in order: %s", exc)
        except Exception:
            _log.exception("a connection failed")
        finally:
            self._limits.remove(connection)


async def _is_plain(sock: socket.socket) -> bool:
    """Whether a new connection begins with a request of HTTP, and not with TLS; nothing of it is taken."""
    loop, has_come = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sock, has_come.set)
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            await has_come.wait()
    except BaseException:
        loop.remove_reader(sock)
        sock.close()
        raise
    loop.remove_reader(sock)
    return PLAIN.match(sock.recv(16, socket.MSG_PEEK)) is not None


async def _refuse_plain(sock: socket.socket, tls: ServerContext) -> None:
    """Say in plain HTTP that TLS is needed; the client has a moment to read it before the connection ends."""
    tls.on_plain()
    loop = asyncio.get_running_loop()
    with sock:
        await loop.sock_sendall(sock, tls.plain_answer)
        sock.shutdown(socket.SHUT_WR)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                while await loop.sock_recv(sock, 65_536):
                    pass


def _keep(tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
    """Start a task, and keep it until it has ended."""
    task = asyncio.ensure_future(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)


class _RelayedApp:
    """The app for a relayed connection, whose other end is the relay: requests have the address of the peer, as the relay
    states it, and are marked, so that nobody takes them for those of a program on this machine.
    """

    def __init__(self, app: AppWrapper, caller: str) -> None:
        self._app, self._caller = app, caller

    async def __call__(self, scope: Any, receive: Any, send: Any, sync_spawn: Any, call_soon: Any) -> None:
        """Answer one request."""
        marked: Any = {**scope, "client": (self._caller, 0), RELAYED: True}
        await self._app(marked, receive, send, sync_spawn, call_soon)


class _Connection(TCPServer):
    """One connection, which speaks HTTP/1.1 only and ends as soon as its client is gone."""

    def __init__(
        self,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        limits: ConnectionLimits,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(app, loop, config, context, LifespanState(), reader, writer)
        self._limits = limits

    def watch(self, on_tls: Callable[[], object] | None) -> None:
        """Let Hypercorn read through `_WatchedReader`."""
        self._watched = _WatchedReader(self.reader, self._parse_strictly, on_tls, self.idle_task.stop)
        self.reader = cast(asyncio.StreamReader, self._watched)

    async def protocol_send(self, event: Event) -> None:
        """Send an event of Hypercorn, and note whether the connection is idle."""
        if isinstance(event, Updated):
            self._limits.set_idle(self, event.idle)
            if event.idle and self._watched.at_eof():
                return  # there is no further request to wait for
        await super().protocol_send(event)

    def _parse_strictly(self) -> None:
        spoken = self.protocol.protocol
        assert isinstance(spoken, H11Protocol)  # nothing else is agreed on: TLS offers no protocols
        spoken.connection = StrictConnection(
            h11.SERVER, max_incomplete_event_size=self.config.h11_max_incomplete_size
        )


class StrictConnection(h11.Connection):
    """The parser of one connection. It refuses requests that ask for another protocol, or whose end is not clear.

    Hypercorn looks for WebSocket and HTTP/2 in the requests that it is handed; here none of these gets through. An offer of
    another protocol that a client can do without is ignored (RFC 9110, section 7.8).
    """

    _refusal: str | None = None

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """The next event; a request only if it is answered.

        Raises:
            h11.RemoteProtocolError: the request is refused, and the connection ends.
        """
        event = super().next_event()
        if not isinstance(event, h11.Request):
            return event
        self._refusal = refusal_of(event)
        if self._refusal is not None:
            raise h11.RemoteProtocolError(self._refusal, error_status_hint=400)
        if any(name == b"upgrade" for name, _ in event.headers):
            headers = [header for header in event.headers.raw_items() if header[0].lower() != b"upgrade"]
            return h11.Request(
                method=event.method, headers=headers, target=event.target, http_version=event.http_version
            )
        return event

    def send(self, event: Any) -> Any:
        """The bytes of an event; the refusal of a request gets words that Hypercorn does not give."""
        if self._refusal is None or not isinstance(event, h11.Response):
            return super().send(event)
        body = orjson.dumps({"error": "bad_request", "message": self._refusal})
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ]
        head = super().send(h11.Response(status_code=event.status_code, headers=headers))
        return head + super().send(h11.Data(data=body))


def refusal_of(request: h11.Request) -> str | None:
    """Why a request is not answered, by its head; None if it is."""
    names = {name for name, _ in request.headers}
    if request.http_version not in (b"1.0", b"1.1"):
        return text("this node speaks HTTP/1.1 only")
    if any(name == b"upgrade" and b"websocket" in value.lower() for name, value in request.headers):
        return text("this node speaks HTTP/1.1 only, and no WebSocket")
    if b"transfer-encoding" in names and (b"content-length" in names or request.http_version == b"1.0"):
        return text("the size of the body is stated in two ways; send Content-Length or Transfer-Encoding")
    asked = ABSOLUTE.match(request.target)
    if asked is not None and [asked[1].lower()] != [v.lower() for name, v in request.headers if name == b"host"]:
        return text("the request is for one host in its first line, and for another one in Host")
    return None


class _WatchedReader:
    """The reader of a connection, in place of the one that Hypercorn would read from."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        on_begin: Callable[[], object],
        on_tls: Callable[[], object] | None,
        on_end: Callable[[], Awaitable[None]],
    ) -> None:
        """Args:
        on_begin: called before the first bytes are read.
        on_tls: called when the first bytes are those of TLS.
        on_end: called when the client sends nothing more.
        """
        self._reader, self._on_begin, self._on_tls, self._on_end = reader, on_begin, on_tls, on_end
        self._is_first, self._is_over = True, False

    def at_eof(self) -> bool:
        """Whether the client sends nothing more."""
        return self._is_over

    async def read(self, most: int) -> bytes:
        """The next bytes; none at the end."""
        data = b""
        if self._is_first:
            self._on_begin()
        try:
            data = await self._reader.read(most)
        finally:
            if self._is_first and self._on_tls is not None and data.startswith(TLS_HELLO):
                self._on_tls()
            if not data:
                self._is_over = True
                await self._on_end()
            self._is_first = False
        return data


def raise_file_limit() -> int:
    """Let this process open as many files as it is allowed to.

    Returns:
        How many that is.
    """
    most = MAX_CONNECTIONS + RESERVED_FILES
    try:
        import resource  # noqa: PLC0415  not on every system
    except ImportError:
        return most
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most if hard == resource.RLIM_INFINITY else min(hard, most)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # not allowed after all
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return most if soft == resource.RLIM_INFINITY else soft


class ConnectionLimits:
    """Counts open connections and decides which one to close.

    An open connection takes a file descriptor of the process. When a limit is reached, the connection that has been
    idle longest is closed. A connection with a request under way is never closed for another one.

    Attributes:
        count: open connections by address.
    """

    def __init__(self, total: int, per_address: int = MAX_PER_ADDRESS) -> None:
        self.total, self.per_address = total, min(per_address, total)
        self.count = Counter[str]()
        self._open: dict[object, tuple[str, Callable[[], object]]] = {}
        self._idle: dict[object, None] = {}  # connections without a request, longest first

    def add(self, connection: object, address: str, close: Callable[[], object]) -> bool:
        """Count a new connection; another one may be closed for it.

        Args:
            connection: any object that stands for it.
            address: where it comes from.
            close: ends it at once.

        Returns:
            False: there is no room, and it must not stay.
        """
        if self.count[address] >= self.per_address and not self._close_idle(address):
            return False
        if len(self._open) >= self.total and not self._close_idle(self.count.most_common(1)[0][0]):
            return False
        self._open[connection] = address, close
        self._idle[connection] = None
        self.count[address] += 1
        return True

    def set_idle(self, connection: object, idle: bool) -> None:
        """Note whether a connection waits for its next request."""
        self._idle.pop(connection, None)
        if idle and connection in self._open:
            self._idle[connection] = None

    def remove(self, connection: object) -> None:
        """Forget a connection that has ended."""
        self._idle.pop(connection, None)
        if (known := self._open.pop(connection, None)) is not None:
            self.count[known[0]] -= 1
            if not self.count[known[0]]:
                del self.count[known[0]]

    def close_all(self) -> None:
        """Close every connection at once."""
        for _, close in list(self._open.values()):
            close()

    def _close_idle(self, address: str) -> bool:
        for connection in self._idle:
            its_address, close = self._open[connection]
            if its_address == address:
                self.remove(connection)
                close()
                return True
        return False


def _tls_notice(publish: Callable[[str, str], object]) -> Callable[[], None]:
    """Publishes once that a client tried TLS."""

    @cache
    def on_tls() -> None:
        words = text(
            "somebody asked with TLS (https://), as nodes of a pinned mesh do, and this node answers without"
        )
        publish("refused_here", words)

    return on_tls


def _config() -> Config:
    config = Config()
    config.accesslog = None
    config.errorlog = _log
    config.keep_alive_timeout = KEEP_ALIVE_SECONDS
    config.include_server_header = False
    _log.setLevel(logging.WARNING)  # Hypercorn's own greeting says less than ours
    return config


def _bind_error(exc: OSError, host: str, port: int) -> str:
    if exc.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use by another program; choose another {PREFIX}NODE_PORT"
    if exc.errno in (errno.EACCES, errno.EPERM):
        return f"port {port} on {host} needs more rights; choose a {PREFIX}NODE_PORT above 1023"
    if exc.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine; correct {PREFIX}LISTEN_ADDRESS"
    return f"cannot listen on port {port} of {host}: {exc.strerror or exc}"
