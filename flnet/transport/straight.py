"""Receives the rest of a large body straight into its place: the system copies it there, and nobody else does.

A part that comes by way of the HTTP library is copied three times more: off the loop's buffer, by the parser, and
to its place. For models of 40 MB that was a third of what an event loop did in a round. So once the head of an
answer is read, what follows of a large body is taken from the connection itself, which is closed afterwards: the
library has not seen the end of the body there.
"""

from __future__ import annotations

import asyncio
from typing import Any

from flnet.blob import Landing
from flnet.transport.lean_import import no_authorities
from flnet.transport.limits import Watch

with no_authorities():
    import aiohttp

LEAST = 4 * 1024 * 1024  # bytes that are still to come, for which a connection of its own is worth while
AT_ONCE = 1024 * 1024  # bytes that one call may bring


class _Sink(asyncio.BufferedProtocol):
    """What a connection brings goes into a landing; `over` is done when all is there, or nothing more comes."""

    def __init__(self, landing: Landing, room: memoryview, watch: Watch, transport: Any, before: Any) -> None:
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._landing, self._room, self._watch = landing, room, watch
        self._transport, self._before = transport, before
        self._filled = self._uncounted = 0
        self._step = watch.step()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return self._room[self._filled : self._filled + AT_ONCE]

    def buffer_updated(self, nbytes: int) -> None:
        """So many have come."""
        self._landing.filled(nbytes)
        self._filled += nbytes
        self._uncounted += nbytes
        if self._uncounted >= self._step:
            self._watch.came(self._uncounted)
            self._uncounted, self._step = 0, self._watch.step()
        if self._filled == len(self._room):
            self._transport.pause_reading()
            self.end()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is broken; the library has to know, too."""
        self._before.connection_lost(exc)
        self.end()

    def end(self) -> None:
        """Nothing more is waited for."""
        if not self.over.done():
            self.over.set_result(None)


async def receive_straight(response: aiohttp.ClientResponse, watch: Watch, landing: Landing) -> bool:
    """Let the rest of a body land, as far as it comes.

    Returns:
        False: nothing was done, because it is small, or not in the clear, or its beginning is not there yet.
    """
    while landing.room is not None and (part := response.content.read_nowait()):
        landing.write(part)
    found, room = _connection(response, landing.room), landing.room
    if found is None or room is None:
        return False
    transport, handler = found
    sink = _Sink(landing, room, watch, transport, handler)
    # Stopped meanwhile: an event loop asks when it begins to read which kind of protocol it reads for.
    transport.pause_reading()
    transport.set_protocol(sink)
    try:
        transport.resume_reading()
        await sink.over
    finally:
        if not transport.is_closing():
            transport.set_protocol(handler)
        response.close()  # in the same step, so that nothing more is read
    return True


def _connection(response: aiohttp.ClientResponse, room: memoryview | None) -> tuple[Any, Any] | None:
    """The connection and who reads from it, if what follows there is a large rest of this body as it is."""
    connection, size = response.connection, response.content_length
    if connection is None or connection.transport is None or size is None or room is None or len(room) < LEAST:
        return None
    transport, handler = connection.transport, connection.protocol
    if transport.get_extra_info("sslcontext") is not None or "Transfer-Encoding" in response.headers:
        return None
    # What the library has taken and not handed on would be lost. It keeps bytes back only while it is paused.
    is_whole = size - response.content.total_bytes == len(room) and not getattr(handler, "_reading_paused", True)
    return (transport, handler) if is_whole and not transport.is_closing() else None
