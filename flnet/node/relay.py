"""A relay: gives nodes that accept no connections a port here, as `ssh -R` does. FLNET_RELAY_PORTS

The first port of the range takes control connections, the second one data connections, and each further one can be granted
to a node, which announces it as its address. A peer that connects there makes the relay tell the node over its control
connection; the node opens a data connection, and the relay copies bytes between the two. It never opens a connection
itself. It sees what travels: in a pinned mesh only TLS between peer and node, in others what each member sees.

`Ports` decides who gets which port, `Places` bounds connections, and `Relay` listens. The other side is
`flnet.node.relay_client`, and what they say to each other is in `flnet.node.relay_messages`.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from flnet.errors import AddressRefused, FlnetError, PeerError, StartError, TooManyMessages
from flnet.node.relay_messages import (
    Alive,
    Challenge,
    Granted,
    IncomingConnection,
    Line,
    PortRequest,
    Refused,
    RelayKeys,
    Token,
    encoded,
    receive,
)
from flnet.security.rate_limits import Buckets, network_of
from flnet.text import text

COPY_BYTES = 128 * 1024  # that are read at a time; twice as many wait at most for one who reads slowly
CLOSING_SECONDS = 1.0  # for one that is refused to close its side
GREETING_SECONDS = 10.0  # for the TLS handshake and the request, or the token
DIAL_SECONDS = 10.0  # for the node to bring a data connection
SILENCE_SECONDS = 45.0  # of a control connection, on which a node says three times as often that it is there
PACE_SECONDS = 1.0  # between two lines of a node that are read
IDLE_SECONDS = 600.0  # without a byte, after which joined connections are closed
CLOSED_SECONDS = 30.0  # the same, once the node's side has sent its last byte
ACCEPT_PAUSE_SECONDS = 1.0  # after the system had no file for a connection
MOST_GREETING, MOST_GREETING_EACH = 256, 64  # connections that have proven nothing yet: in all, and of one address
# Joined connections of peers: in all, to one node, and of one address to one node.
MOST_JOINED, MOST_OF_NODE, MOST_OF_PEER = 512, 256, 64
MOST_FILES = 2 * MOST_GREETING + 2 * MOST_JOINED
REQUESTS, REQUESTS_PER_SECOND = 20.0, 1.0  # for a port, of one address
BACKLOG = 128
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_log = logging.getLogger("flnet.node.relay")


class Ports:
    """Which node holds which port. A node gets its last one again, as long as there are others for new nodes."""

    def __init__(self, ports: Sequence[int]) -> None:
        self.most_of_address = max(1, len(ports) // 2)
        self._ports = tuple(ports)
        self._held: dict[int, str] = {}  # port -> address of the holder
        self._last: dict[int, str] = {}  # port -> who holds it or did, the one given back longest ago first

    def choices(self, holder: str, address: str, wish: int | None = None) -> list[int]:
        """Ports that a node may have, the best first: its last one, the one that it asks for, one that nobody had, and the
        one that was given back longest ago. None if its address holds half of all ports.
        """
        if sum(address == other for other in self._held.values()) >= self.most_of_address:
            return []
        given_back = [port for port in self._last if port not in self._held]
        own = [port for port in given_back if self._last[port] == holder]
        unused = [port for port in self._ports if port not in self._last]
        wished = [wish] if wish in unused else []
        return list(dict.fromkeys([*own, *wished, *unused, *given_back]))

    def take(self, port: int, holder: str, address: str) -> None:
        """A node holds this port from now on."""
        self._held[port] = address
        self._last[port] = holder

    def give_back(self, port: int) -> None:
        """Its holder is gone."""
        del self._held[port]
        self._last[port] = self._last.pop(port)  # to the end


class Places:
    """Counts open connections under names, each of which has a limit."""

    def __init__(self) -> None:
        self.count = Counter[Hashable]()

    def take(self, limits: Mapping[Hashable, int]) -> bool:
        """Count one more under each of these names; False, and nothing is counted, if there is no room under one."""
        if any(self.count[name] >= most for name, most in limits.items()):
            return False
        self.count.update(limits.keys())
        return True

    def give(self, names: Iterable[Hashable]) -> None:
        """One of them has ended."""
        for name in names:
            self.count[name] -= 1
            if not self.count[name]:
                del self.count[name]


@dataclass(eq=False)
class _Holder:
    """A node that was granted a port.

    Attributes:
        identity: its key, or its name in an open mesh.
        address: where its control connection comes from.
        is_ending: whether its control connection is being ended; what is cancelled twice would not tidy up.
    """

    identity: str
    node: str
    address: str
    port: int
    stream: Stream
    attending: asyncio.Task[None] | None = None
    is_ending: bool = False

    def tell(self, line: Line) -> None:
        """Send it a line."""
        if not self.stream[1].is_closing():  # else uvloop raises
            self.stream[1].write(encoded(line))


class Relay:
    """Listens for nodes that ask for a port, and for their peers."""

    def __init__(
        self,
        host: str,
        ports: Sequence[int],
        keys: RelayKeys,
        *,
        admits: Callable[[str], bool] = lambda _: True,
        tls: ssl.SSLContext | None = None,
        publish: Callable[[str, str], object] = lambda kind, words: None,
        tell_refused: Callable[[str, str], object] = lambda words, caller: None,
    ) -> None:
        """Args:
        host: the address to listen on.
        ports: for control connections, for data connections, and those that are granted.
        admits: whether callers from an IP address may use the relay, and reach nodes through it.
        tls: of control connections, in a pinned mesh.
        publish: adds an event of a kind, with a sentence, to the event log.
        tell_refused: tells people why a caller was refused, unless too much is told.
        """
        self.control_port, self._data_port, *granted = ports
        self._host, self._keys, self._admits, self._tls = host, keys, admits, tls
        self._publish, self._tell_refused = publish, tell_refused
        self._ports, self._places = Ports(granted), Places()
        self._requests = Buckets(REQUESTS, REQUESTS_PER_SECOND)
        self._holders: dict[str, _Holder] = {}
        self._waiting: dict[str, asyncio.Future[Stream]] = {}  # for the data connection of a token
        self._tasks = set[asyncio.Task[None]]()

    async def start(self) -> None:
        """Listen for nodes.

        Raises:
            StartError: a port is in use.
        """
        sockets = []
        try:
            for port in (self.control_port, self._data_port):
                sockets.append(bound(self._host, port))
        except OSError as exc:
            for sock in sockets:
                sock.close()
            words = exc.strerror or exc
            raise StartError(f"the relay cannot listen on port {port} of {self._host}: {words}") from exc
        for sock, serve in zip(sockets, (self._take_request, self._take_token), strict=True):
            keep(self._tasks, self._accept(sock, self._greeting, serve, self._tasks))

    async def close(self) -> None:
        """End all connections."""
        await end(self._tasks)

    async def _accept(
        self,
        listening: socket.socket,
        limits: Callable[[str], Mapping[Hashable, int]],
        serve: Callable[[socket.socket, str], Coroutine[Any, Any, None]],
        tasks: set[asyncio.Task[None]],
    ) -> None:
        """Accept connections until cancelled; each is served in a task of its own, and counts until that has ended."""
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    sock, (ip, *_) = await loop.sock_accept(listening)
                except OSError as exc:
                    _log.warning("no connection can be accepted now: %s", exc.strerror or exc)
                    await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
                    continue
                ip = str(ip).partition("%")[0].removeprefix("::ffff:")
                names = limits(network_of(ip))
                if self._admits(ip) and self._places.take(names):
                    keep(tasks, serve(sock, ip)).add_done_callback(partial(self._give_place, names))
                else:
                    sock.close()
                await asyncio.sleep(0)  # accepting does not wait while there are more, and others have to run

    def _greeting(self, address: str) -> Mapping[Hashable, int]:
        """How many new connections there may be: strangers take no place of those that hold a port."""
        kind = "known" if any(holder.address == address for holder in self._holders.values()) else "greeting"
        return {kind: MOST_GREETING, (kind, address): MOST_GREETING_EACH}

    def _give_place(self, names: Collection[Hashable], _: asyncio.Task[None]) -> None:
        self._places.give(names)

    async def _take_request(self, sock: socket.socket, ip: str) -> None:
        """Answer the request of a node on a new control connection."""
        try:
            async with asyncio.timeout(GREETING_SECONDS):
                stream = await opened(sock, self._tls)
                try:
                    holder, listening = await self._granted(stream, ip)
                except PeerError as exc:
                    self._tell_refused(text("{caller} gets no port of this relay: {reason}", ip, exc), ip)
                    stream[1].write(encoded(Refused(reason=str(exc)[:500])))
                    stream[1].close()
                    try:  # TLS waits for the other side to close, too
                        async with asyncio.timeout(CLOSING_SECONDS):
                            await stream[1].wait_closed()
                    finally:
                        stream[1].transport.abort()
                    return
                except BaseException:
                    stream[1].transport.abort()
                    raise
        except (OSError, FlnetError) as exc:  # among them those of TLS, and that time is over
            _log.debug("a control connection did not begin in order: %s", exc)
            return
        holder.attending = keep(self._tasks, self._attend(holder, listening))

    async def _granted(self, stream: Stream, ip: str) -> tuple[_Holder, socket.socket]:
        """The holder of the port that a node gets, and the socket that listens there.

        Raises:
            PeerError: it gets none.
        """
        reader, writer = stream
        challenge = Challenge(nonce=secrets.token_hex(16), mesh=self._keys.mesh)
        writer.write(encoded(challenge))
        request = await receive(reader, PortRequest)
        address = network_of(ip)
        if seconds := self._requests.take(address):
            raise TooManyMessages(seconds)
        identity = self._keys.check(challenge, request)
        while (before := self._holders.get(identity)) is not None:
            # Nobody proves a name in an open mesh: there only who comes from the same address takes a holder's place.
            if self._keys.node is None and before.address != address:
                raise AddressRefused(ip, text("a node of this name holds a port already, from another address"))
            await self._dismiss(before)
        for port in self._ports.choices(identity, address, request.wish):
            with suppress(OSError):  # another program has it
                listening = bound(self._host, port)
                holder = _Holder(identity, request.node, address, port, stream)
                self._ports.take(port, identity, address)
                self._holders[identity] = holder
                holder.tell(Granted(port=port, data_port=self._data_port))
                return holder, listening
        raise AddressRefused(ip, text("no port of this relay is free"))

    async def _dismiss(self, holder: _Holder) -> None:
        """End the control connection of a node that has opened another one."""
        await asyncio.sleep(0)  # a task that has not begun would not tidy up
        if holder.attending is not None:
            if not holder.is_ending:
                holder.is_ending = True
                holder.attending.cancel()
            await asyncio.wait([holder.attending])

    async def _attend(self, holder: _Holder, listening: socket.socket) -> None:
        """Hold the port of a node as long as it says that it is there, and its key is accepted."""
        tasks = set[asyncio.Task[None]]()
        keep(tasks, self._accept(listening, holder_limits(holder.port), partial(self._forward, holder), tasks))
        words = text("{peer} is reached at port {port} of this relay", holder.node, holder.port)
        self._publish("relay_granted", words)
        reader, writer = holder.stream
        try:
            while self._keys.still_trusts(holder.identity):
                async with asyncio.timeout(SILENCE_SECONDS):
                    await receive(reader, Alive)
                    holder.tell(Alive())
                    await writer.drain()
                await asyncio.sleep(PACE_SECONDS)
        except (OSError, FlnetError) as exc:
            _log.debug("the control connection of %s ended: %s", holder.node, exc)
        finally:
            holder.is_ending = True
            try:
                await end(tasks)
            finally:
                writer.transport.abort()
                self._ports.give_back(holder.port)
                del self._holders[holder.identity]
            self._publish("relay_ended", text("{peer} is not reached through this relay any more", holder.node))

    async def _forward(self, holder: _Holder, sock: socket.socket, ip: str) -> None:
        """Join the connection of a peer with the one that the node brings for it."""
        token, arrived = secrets.token_hex(16), asyncio.get_running_loop().create_future()
        try:
            _, writer = peer = await opened(sock)
        except OSError:
            return
        self._waiting[token] = arrived
        try:
            holder.tell(IncomingConnection(token=token, caller=ip))
            async with asyncio.timeout(DIAL_SECONDS):
                node = await arrived
            await join(peer, node, IDLE_SECONDS)
        except TimeoutError:
            _log.debug("%s brought no connection for %s", holder.node, ip)
        finally:
            self._waiting.pop(token, None)
            # It may have come when this ended.
            if arrived.done() and not arrived.cancelled() and not (brought := arrived.result()[1]).is_closing():
                brought.transport.abort()
            if not writer.is_closing():
                writer.transport.abort()

    async def _take_token(self, sock: socket.socket, ip: str) -> None:
        """Hand a new data connection to who waits for it."""
        try:
            async with asyncio.timeout(GREETING_SECONDS):
                reader, writer = await opened(sock)
                try:
                    line = await receive(reader, Token)
                    arrived = self._waiting.pop(line.token, None)
                    if arrived is not None and not arrived.done():
                        arrived.set_result((reader, writer))
                        return
                    writer.transport.abort()
                except BaseException:
                    writer.transport.abort()
                    raise
        except (OSError, FlnetError) as exc:
            _log.debug("a data connection of %s did not begin in order: %s", ip, exc)


def holder_limits(port: int) -> Callable[[str], Mapping[Hashable, int]]:
    """How many connections of peers there may be, by the peer's address."""
    return lambda address: {"joined": MOST_JOINED, port: MOST_OF_NODE, (port, address): MOST_OF_PEER}


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there.

    Raises:
        OSError: the port is in use, or the address is not one of this machine.
    """
    family, kind, proto, _, address = socket.getaddrinfo(
        host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listening = socket.socket(family, kind, proto)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
        tune(listening)
    except OSError:
        listening.close()
        raise
    return listening


def tune(sock: socket.socket) -> None:
    """Let a socket not block, send at once, and notice by itself that the other side is gone."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; accepted connections inherit it
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * IDLE_SECONDS))


async def opened(sock: socket.socket, tls: ssl.SSLContext | None = None) -> Stream:
    """The streams of an accepted connection.

    Raises:
        OSError: it is over already, or TLS was not agreed on.
    """
    loop = asyncio.get_running_loop()
    made: asyncio.Future[Stream] = loop.create_future()

    def protocol() -> asyncio.StreamReaderProtocol:
        reader = asyncio.StreamReader(limit=COPY_BYTES)
        return asyncio.StreamReaderProtocol(reader, lambda reader, writer: made.set_result((reader, writer)))

    try:
        await loop.connect_accepted_socket(protocol, sock, ssl=tls)
    except BaseException:  # asyncio closes no connection whose handshake has not begun; so it ends
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        raise
    return await made


async def join(one: Stream, other: Stream, seconds: float) -> None:
    """Copy bytes both ways until both sides have sent their last one, one is gone, or nothing moved for so many seconds.

    Each direction waits for the slower side, and ends by itself: a side that sends no more may go on receiving.
    """
    now = asyncio.get_running_loop().time
    is_whole = False
    try:
        async with asyncio.timeout(seconds) as idle:

            def moved() -> None:
                idle.reschedule(now() + seconds)

            async def back() -> None:
                nonlocal seconds
                await _copy(other[0], one[1], moved)
                seconds = min(seconds, CLOSED_SECONDS)
                moved()

            async with asyncio.TaskGroup() as copying:
                copying.create_task(_copy(one[0], other[1], moved))
                copying.create_task(back())
        is_whole = True
    except* OSError as failed:  # among them that time is over
        _log.debug("joined connections ended: %s", failed.exceptions)
    finally:
        for _, writer in (one, other):
            if is_whole:
                writer.close()
            else:
                writer.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, moved: Callable[[], object]) -> None:
    while data := await reader.read(COPY_BYTES):
        moved()
        writer.write(data)
        await writer.drain()
    if not writer.is_closing():
        writer.write_eof()


def keep(tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Start a task, and keep it until it has ended."""
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


async def end(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancel these tasks, and wait until they have ended."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
