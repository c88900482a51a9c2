"""Tests of TLS between nodes, over real sockets: to whom nothing is sent, and who is told what."""

from __future__ import annotations

import asyncio
import socket
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from flnet.errors import StartError
from flnet.security.keys import own_key
from flnet.security.tls import NODE_NAME, Channel, StrangeKey, server_context


class Listener:
    """A server that keeps what it is sent in the clear of TLS."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.key = own_key(folder).text
        self.folder, self.port = folder, 0
        self.got: list[bytes] = []
        self.plain = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.got.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def on_plain(self) -> None:
        self.plain += 1


@asynccontextmanager
async def listening(folder: Path, handshake_seconds: float = 5) -> AsyncIterator[Listener]:
    one = Listener(folder)
    context = server_context(folder, one.on_plain)
    server = await asyncio.start_server(
        one.serve, "127.0.0.1", 0, ssl=context, ssl_handshake_timeout=handshake_seconds
    )
    one.port = server.sockets[0].getsockname()[1]
    try:
        yield one
    finally:
        server.close()


async def ask(port: int, context: ssl.SSLContext | None, name: str | None = NODE_NAME) -> bytes:
    """What comes back for one request."""
    server_hostname = name if context else None
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=server_hostname)
    try:
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        return await reader.read()
    finally:
        writer.close()


async def test_a_trusted_node_is_asked(tmp_path: Path) -> None:
    async with listening(tmp_path) as one:
        answer = await ask(one.port, Channel(one.key.__eq__).known)
    assert answer.endswith(b"ok")


async def test_nothing_is_sent_to_a_node_whose_key_is_not_trusted(tmp_path: Path) -> None:
    async with listening(tmp_path) as one:
        with pytest.raises(StrangeKey) as refusal:
            await ask(one.port, Channel(lambda key: False).known)
        assert refusal.value.key == one.key
    assert one.got == []


async def test_a_stranger_may_be_asked_who_it_is(tmp_path: Path) -> None:
    context = Channel(lambda key: False).stranger()
    async with listening(tmp_path) as one:
        assert (await ask(one.port, context)).endswith(b"ok")
    assert context.seen == one.key


async def test_browsers_are_shown_a_certificate_that_they_take_and_that_is_no_nodes(tmp_path: Path) -> None:
    browser = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    browser.check_hostname, browser.verify_mode = False, ssl.CERT_NONE
    async with listening(tmp_path) as one:
        assert (await ask(one.port, browser, "localhost")).endswith(b"ok")
        with pytest.raises(StrangeKey) as refusal:
            await ask(one.port, Channel(lambda key: True).known, "localhost")
    assert refusal.value.key == ""


async def test_who_comes_without_tls_is_told_so_and_the_node_hears_of_it(tmp_path: Path) -> None:
    async with listening(tmp_path, 1) as one:  # what came in the clear is answered, and closed after this time
        answer = await ask(one.port, None)
        garbage = await asyncio.open_connection("127.0.0.1", one.port)
        garbage[1].write(bytes(200))
        assert b"HTTP" not in await garbage[0].read()
        garbage[1].close()
    assert answer.startswith(b"HTTP/1.1 403") and b"tls_needed" in answer
    assert one.plain == 1 and one.got == []


async def test_programs_without_an_event_loop_check_as_well(tmp_path: Path) -> None:
    def shake(port: int, context: ssl.SSLContext) -> str | None:
        plain = socket.create_connection(("127.0.0.1", port))
        with plain, context.wrap_socket(plain, server_hostname=NODE_NAME) as secret:
            return secret.version()

    async with listening(tmp_path) as one:
        assert await asyncio.to_thread(shake, one.port, Channel(one.key.__eq__).known) == "TLSv1.3"
        with pytest.raises(StrangeKey), warnings.catch_warnings(action="ignore"):  # the library leaves it open
            await asyncio.to_thread(shake, one.port, Channel(lambda key: False).known)


async def test_older_tls_is_not_spoken(tmp_path: Path) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode, old.maximum_version = False, ssl.CERT_NONE, ssl.TLSVersion.TLSv1_2
    async with listening(tmp_path) as one:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await ask(one.port, old)


def test_a_damaged_certificate_stops_the_start(tmp_path: Path) -> None:
    own_key(tmp_path)
    server_context(tmp_path, lambda: None)
    (tmp_path / "page.crt").write_bytes(b"damaged")
    with pytest.raises(StartError, match="cannot be used"):
        server_context(tmp_path, lambda: None)
