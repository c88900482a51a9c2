"""A node behind a relay: it asks for a port there, and takes the connections of peers who come to that port. FLNET_RELAY

The node opens all connections, so nothing has to lead to it: a control connection, on which the relay tells of peers, and a
data connection for each of them. The server of this node answers on a data connection as on one that it accepted itself;
TLS of a pinned mesh begins with the peer's first byte. What comes so is never taken for a caller on this machine.
"""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from flnet.errors import FlnetError, OtherMeshThere, PeerUnreachable
from flnet.names import hostport
from flnet.networks import address_of
from flnet.node.relay import COPY_BYTES, SILENCE_SECONDS, end, keep, tune
from flnet.node.relay_messages import (
    Alive,
    Challenge,
    Granted,
    IncomingConnection,
    Refused,
    RelayKeys,
    Token,
    encoded,
    receive,
)
from flnet.text import text

ALIVE_SECONDS = SILENCE_SECONDS / 3
ANSWER_SECONDS = 15.0  # for the connection, the handshake and the answer of the relay
SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds before the next attempt
STEADY_SECONDS = 60.0  # for which a port must have been held, so that the next attempt comes soon
MOST_DIALLING = 64  # data connections that are being opened; the relay gives up on further ones
MOST_WAITING = 64  # of those that are open, until the server takes them


class Relayed(NamedTuple):
    """A connection of a peer, and the address that the peer has for the relay."""

    sock: socket.socket
    caller: str


class RelayLink(Protocol):
    """Gives this node an address at which others reach it; the tests have one in memory.

    Attributes:
        trouble: why there is no such address now, in words; empty while there is one.
        connections: those of peers that came there, for the server.
    """

    trouble: str
    connections: asyncio.Queue[Relayed]

    async def run(self, granted: Callable[[str, int], object]) -> None:
        """Hold an address until cancelled.

        Args:
            granted: called with host and port each time that the relay grants them.
        """
        ...


class RelayClient:
    """This node's connections to its relay."""

    def __init__(
        self,
        relay: str,
        name: str,
        keys: RelayKeys,
        *,
        tls: tuple[ssl.SSLContext | None, str] = (None, ""),
        publish: Callable[[str, str], object] = lambda kind, words: None,
        pauses: tuple[float, float] = (SHORTEST_PAUSE, LONGEST_PAUSE),
    ) -> None:
        """Args:
        relay: "host:port" of its control connections.
        name: of this node.
        tls: of the control connection in a pinned mesh, and the name to ask for in the handshake; it breaks off at a key
            that is not accepted.
        publish: adds an event of a kind, with a sentence, to the event log.
        pauses: between attempts: the shortest and the longest.
        """
        host, _, port = relay.rpartition(":")
        self._relay, self._host, self._port = relay, host.strip("[]"), int(port)
        self._name, self._keys, self._publish, self._pauses = name, keys, publish, pauses
        context, tls_name = tls
        self._tls: dict[str, Any] = {"ssl": context, "server_hostname": tls_name} if context is not None else {}
        self._wish: int | None = None
        self._failures, self._held_since = 0, 0.0
        self._dialling = set[asyncio.Task[None]]()
        self.trouble: str = text("the relay {address} was not asked yet", relay)
        self.connections: asyncio.Queue[Relayed] = asyncio.Queue(MOST_WAITING)

    async def run(self, granted: Callable[[str, int], object]) -> None:
        """See `RelayLink.run`; when the relay is gone, it is asked again and again, with growing pauses."""
        try:
            while True:
                try:
                    await self._hold(granted)
                except (OSError, FlnetError) as exc:  # among them those of TLS, and that time is over
                    self._lost(exc)
                shortest, longest = self._pauses
                pause = min(longest, shortest * 2 ** min(self._failures - 1, 16))
                await asyncio.sleep(random.uniform(pause / 2, pause))
        finally:
            await end(self._dialling)
            while not self.connections.empty():
                self.connections.get_nowait().sock.close()

    def _lost(self, exc: Exception) -> None:
        """Say that the relay is gone: at the first failure, and after each port that it gave."""
        was_held = not self.trouble
        is_steady = was_held and asyncio.get_running_loop().time() - self._held_since > STEADY_SECONDS
        self._failures = 1 if is_steady else self._failures + 1
        words = str(exc) if isinstance(exc, FlnetError) else getattr(exc, "strerror", None) or str(exc)
        reason = words or text("no answer in time")
        self.trouble = text(
            "the relay {address} gives this node no port, so others do not reach it: {reason}; trying again",
            self._relay,
            reason,
        )
        if was_held or self._failures == 1:
            self._publish("relay_lost", self.trouble)

    async def _hold(self, granted: Callable[[str, int], object]) -> None:
        """Ask for a port, and take connections as long as the relay is there.

        Raises:
            OSError, FlnetError: it is not, or refuses.
        """
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(self._host, self._port, limit=COPY_BYTES, **self._tls)
        telling: set[asyncio.Task[None]] = set()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                challenge = await receive(reader, Challenge)
                if challenge.mesh != self._keys.mesh:
                    raise OtherMeshThere(self._relay, challenge.mesh, self._keys.mesh)
                writer.write(encoded(self._keys.request(challenge, self._name, self._wish)))
                answer = await receive(reader, Granted, Refused)
            if isinstance(answer, Refused):
                raise PeerUnreachable(answer.reason)
            assert isinstance(answer, Granted)
            self._wish, self.trouble, self._held_since = answer.port, "", asyncio.get_running_loop().time()
            address = hostport(self._host, answer.port)
            self._publish("relay_used", text("others reach this node at {address}, through the relay", address))
            granted(self._host, answer.port)
            keep(telling, _tell_alive(writer))
            place = writer.get_extra_info("peername")
            while True:
                async with asyncio.timeout(SILENCE_SECONDS):
                    line = await receive(reader, Alive, IncomingConnection)
                if isinstance(line, IncomingConnection) and len(self._dialling) < MOST_DIALLING:
                    keep(self._dialling, self._dial((place[0], answer.data_port, *place[2:]), line))
        finally:
            await end(telling)
            writer.transport.abort()

    async def _dial(self, place: tuple[Any, ...], incoming: IncomingConnection) -> None:
        """Bring the relay the connection for a peer, and hand it to the server."""
        sock = socket.socket(socket.AF_INET6 if len(place) > 2 else socket.AF_INET)
        try:
            tune(sock)
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(ANSWER_SECONDS):
                await loop.sock_connect(sock, place)
                await loop.sock_sendall(sock, encoded(Token(token=incoming.token)))
            self.connections.put_nowait(Relayed(sock, caller_of(incoming.caller, str(place[0]))))
        except BaseException as exc:
            sock.close()
            if not isinstance(exc, OSError | asyncio.QueueFull):
                raise


def caller_of(stated: str, relay: str) -> str:
    """The address of a peer as the relay states it; that of the relay where the stated one can be none of a caller.

    A relay cannot pass callers off as programs on this machine.
    """
    address = address_of(stated)
    is_sound = address is not None and not (
        address.is_loopback or address.is_unspecified or address.is_multicast or address.is_link_local
    )
    return str(address) if is_sound else relay


async def _tell_alive(writer: asyncio.StreamWriter) -> None:
    """Say now and then that this node is there; the end of the connection is noticed by who reads."""
    with suppress(OSError):
        while True:
            await asyncio.sleep(ALIVE_SECONDS)
            writer.write(encoded(Alive()))
            await writer.drain()
