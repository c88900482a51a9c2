"""Sends the pieces of a large body from the memory where they lie: the system copies them, and nobody else does.

By way of the framework and the server a piece is copied once, and passes through many calls; a model of 40 MB has
160 of them. So once the head of an answer is out, its body is given to the connection itself, and h11, which the
server speaks HTTP/1.1 with, is only told how long it is (this is what it has `send_with_data_passthrough` for).
Where the server speaks anything else, and in tests without one, a body goes the usual way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import h11
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.events import Closed
from hypercorn.protocol.h11 import H11Protocol

STATE = "flnet.straight"  # where the state of an ASGI scope has it


class Straight:
    """The way to one connection past what serves it."""

    def __init__(self, server: TCPServer) -> None:
        self._server = server
        self._given = 0

    @property
    def is_open(self) -> bool:
        """Whether the connection speaks HTTP/1.1, and an answer is due on it."""
        protocol = getattr(self._server, "protocol", None)
        return isinstance(getattr(protocol, "protocol", None), H11Protocol)

    @property
    def sent(self) -> int:
        """Bytes that the system has taken so far, of all that were sent this way."""
        return self._given - int(self._server.writer.transport.get_write_buffer_size())

    async def send(self, pieces: Iterator[memoryview]) -> None:
        """Send these as the next part of a body of announced size; less, where the other side goes away."""
        for piece in pieces:
            if not await self._sends(piece):
                return

    async def _sends(self, piece: memoryview) -> bool:
        server = self._server
        protocol: Any = server.protocol.protocol
        async with server.send_lock:
            try:
                # Whatever has a length will do for h11, although its annotations say bytes.
                framed = protocol.connection.send_with_data_passthrough(h11.Data(data=cast(bytes, piece)))
                for part in framed or ():
                    server.writer.write(part)
                    self._given += len(part)
                await server.writer.drain()
            except (ConnectionError, RuntimeError, h11.LocalProtocolError):
                is_over = True
            else:
                is_over = server.writer.transport.is_closing()
        if is_over:
            await server.protocol.handle(Closed())
        return not is_over


def straight_of(scope: Mapping[str, Any]) -> Straight | None:
    """The way for the body of an answer to this request, where there is one."""
    found: Straight | None = (scope.get("state") or {}).get(STATE)
    return found if found is not None and found.is_open else None
