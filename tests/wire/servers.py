"""A server on loopback that says what a test tells it to say, and a transport to ask it with."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from flnet.wire.http import HttpTransport
from flnet.wire.transport import CONTROL_BYTES, Reply

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
NOT_READY = b'HTTP/1.1 503 X\r\nContent-Length: 22\r\n\r\n{"error": "not_ready"}'


class Server:
    """A server on loopback that says what a test tells it to say; remembers requests and connections."""

    def __init__(self, *talks: Talk | bytes) -> None:
        """Each connection takes the next talk; the last one serves all further ones."""
        self.talks = list(talks)
        self.requests: list[tuple[bytes, bytes]] = []
        self.connections = 0
        self.address = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        talk = self.talks.pop(0) if len(self.talks) > 1 else self.talks[0]
        try:
            if callable(talk):
                await talk(reader, writer)
            else:
                while await self.read(reader):
                    writer.write(talk)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def read(self, reader: asyncio.StreamReader) -> bool:
        """One request, kept as (head, body); False when the caller hung up."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            _, stated, rest = head.lower().partition(b"content-length: ")
            length = int(rest.split(b"\r\n")[0]) if stated else 0
            self.requests.append((head, await reader.readexactly(length)))
        except asyncio.IncompleteReadError:
            return False
        return True


@asynccontextmanager
async def listening(server: Server) -> AsyncIterator[Server]:
    talks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(server.serve(reader, writer))
        talks.add(task)
        task.add_done_callback(talks.discard)

    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)  # what is not read soon is not taken either
    bound.bind(("127.0.0.1", 0))
    listener = await asyncio.start_server(accept, sock=bound)
    server.address = f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        await asyncio.sleep(0.01)  # asyncio forgets connections that come just before the end
        listener.close()
        for task in list(talks):
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)


@asynccontextmanager
async def transport(timeout: float = 60.0) -> AsyncIterator[HttpTransport]:
    made = HttpTransport(timeout, random.Random(0))
    try:
        yield made
    finally:
        await made.close()


async def ask(http: HttpTransport, address: str, body: bytes = b"{}", reply_limit: int = CONTROL_BYTES) -> Reply:
    return await http.send(address, "/announce", body, "application/json", reply_limit)


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads everything and says nothing."""
    while await reader.read(65_536):
        pass


def says(*words: bytes) -> Talk:
    """Answers so, whatever is asked, and hangs up."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for word in words:
            writer.write(word)
            await writer.drain()
            await asyncio.sleep(0)

    return talk
