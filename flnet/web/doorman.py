"""Open connections: how many there may be, in all and from each address, and which is closed when one more comes.

A connection on which nothing is asked costs a file of the process, and there are only so many. So the one that has
been idle for longest has to go first; whoever is being answered is never cut off for others.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from hypercorn.asyncio import run as hypercorn_run
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.config import Config
from hypercorn.events import Event, RawData, Updated
from hypercorn.typing import LifespanState

from flnet.web.rates import network_of
from flnet.web.straight import STATE, Straight

EACH = 512  # connections of one address
RESERVE = 128  # files for all else: the state on disk, connections to peers, the training child
MOST = 8192
LEAST = 64
CLOSE_SECONDS = 1.0  # that the other side has to close its end of TLS
HELLO = b"\x16\x03"  # the first bytes of TLS (RFC 8446, section 5.1)


def raise_file_limit() -> int:
    """Let this process open as many files as it is allowed to; how many that is."""
    try:
        import resource  # noqa: PLC0415  not on every system
    except ImportError:
        return MOST + RESERVE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST + RESERVE if hard == resource.RLIM_INFINITY else min(hard, MOST + RESERVE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # not allowed after all
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return MOST + RESERVE if soft == resource.RLIM_INFINITY else soft


class Doorman:
    """Who is in."""

    def __init__(self, most: int, each: int = EACH) -> None:
        """Args:
        most: connections in all.
        each: of one address.
        """
        self.most, self.each = most, min(each, most)
        self.count = Counter[str]()
        self._close: dict[object, tuple[str, Callable[[], object]]] = {}
        self._idle: dict[object, None] = {}  # those that ask nothing, longest first

    def enter(self, one: object, address: str, close: Callable[[], object]) -> bool:
        """Whether one more connection may stay; another one may have to go for it.

        Args:
            one: the connection.
            address: where it comes from.
            close: ends it at once.
        """
        if self.count[address] >= self.each and not self._close_idle(address):
            return False
        if len(self._close) >= self.most and not self._close_idle(self.count.most_common(1)[0][0]):
            return False
        self._close[one] = address, close
        self._idle[one] = None
        self.count[address] += 1
        return True

    def idles(self, one: object, idle: bool) -> None:
        """Whether a connection waits for its next request."""
        self._idle.pop(one, None)
        if idle and one in self._close:
            self._idle[one] = None

    def leave(self, one: object) -> None:
        """A connection is over."""
        self._idle.pop(one, None)
        if (found := self._close.pop(one, None)) is not None:
            self.count[found[0]] -= 1
            if not self.count[found[0]]:
                del self.count[found[0]]

    def _close_idle(self, address: str) -> bool:
        for one in self._idle:
            there, close = self._close[one]
            if there == address:
                self.leave(one)
                close()
                return True
        return False


class GuardedConfig(Config):
    """Hypercorn's settings, and who watches its door.

    Attributes:
        tls: as it is made elsewhere, in place of one from files that Hypercorn would read.
        on_tls: called when somebody speaks TLS where none is spoken.
    """

    doorman: Doorman
    on_tls: Callable[[], object] | None = None
    tls: ssl.SSLContext | None = None

    @property
    def ssl_enabled(self) -> bool:
        """Whether TLS is spoken."""
        return self.tls is not None

    def create_ssl_context(self) -> ssl.SSLContext | None:
        """How it is spoken."""
        return self.tls


class Listened:
    """What comes on a connection without TLS; notices when that begins as TLS does."""

    def __init__(self, reader: Any, on_tls: Callable[[], object]) -> None:
        self._reader, self._on_tls, self._is_first = reader, on_tls, True

    def at_eof(self) -> bool:
        """Whether nothing more comes."""
        return bool(self._reader.at_eof())

    async def read(self, most: int) -> bytes:
        """The next bytes."""
        data: bytes = await self._reader.read(most)
        if self._is_first and data.startswith(HELLO):
            self._on_tls()
        self._is_first = False
        return data


class GuardedServer(TCPServer):
    """One connection, if the doorman lets it in."""

    _is_gone = False  # whether the other side has hung up
    _idle_since: float | None = None  # on the loop's clock; None while something is asked

    async def run(self) -> None:
        """Answer what is asked on it until it ends."""
        doorman = getattr(self.config, "doorman", None)
        on_tls = getattr(self.config, "on_tls", None)
        self._idle_since = self.loop.time()
        self.state = LifespanState({**self.state, STATE: Straight(self)})
        if on_tls is not None:
            self.reader: Any = Listened(self.reader, on_tls)
        if doorman is None:
            return await super().run()
        peer: Any = self.writer.get_extra_info("peername") or ("",)
        if not doorman.enter(self, network_of(str(peer[0])), self.writer.transport.abort):
            return self.writer.transport.abort()
        try:
            await super().run()
        finally:
            doorman.leave(self)
            # Each holds the other: 20 kB until the next full collection.
            vars(self).pop("protocol", None)
            self.state.clear()

    async def _close(self) -> None:
        with self._in_time():
            await super()._close()

    async def _read_data(self) -> None:
        await super()._read_data()
        self._is_gone = True
        await self.idle_task.stop()  # no further request comes that could be waited for

    async def _initiate_server_close(self) -> None:
        await super()._initiate_server_close()
        self._abort_later()

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        timer = self._abort_later()
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()

    def _abort_later(self) -> asyncio.TimerHandle | None:
        """TLS is closed by both sides (RFC 8446, section 6.1): who does not do its part is not waited for."""
        if getattr(self.config, "tls", None) is None:
            return None
        return asyncio.get_running_loop().call_later(CLOSE_SECONDS, self.writer.transport.abort)

    async def protocol_send(self, event: Event) -> None:
        """Send, and tell the doorman when a request begins and ends."""
        doorman = getattr(self.config, "doorman", None)
        if doorman is not None and isinstance(event, Updated):
            doorman.idles(self, event.idle)
        if isinstance(event, Updated):
            self._idle_since = self.loop.time() if event.idle else None
            if event.idle and self.context.terminated.is_set() and not self._is_gone:
                await self.idle_task.restart(self._task_group, self._idle_timeout)
        elif not isinstance(event, RawData) or event.data:  # the end of an answer of known size has no bytes
            await super().protocol_send(event)

    async def _idle_timeout(self) -> None:
        """End the connection when nothing was asked for a while: one task for all requests, not two for each."""
        keep = self.config.keep_alive_timeout
        while (left := keep - self._idle_seconds()) > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.context.terminated.wait(), left)
                if self._idle_since is None:
                    return  # the connection ends when this has its answer
                break
        await asyncio.shield(self._initiate_server_close())

    def _idle_seconds(self) -> float:
        return 0.0 if self._idle_since is None else self.loop.time() - self._idle_since


# Hypercorn takes no other class by its settings; without a doorman in them, this one is as its own.
vars(hypercorn_run)["TCPServer"] = GuardedServer
