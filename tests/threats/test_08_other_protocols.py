"""Threat 8: HTTP/2 and WebSocket, whose streams no limit here counts. No request leads to them, with TLS or without."""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from quart import Quart

from flnet.security.keys import own_key
from flnet.security.tls import server_context
from tests.web.conftest import SETTINGS, served

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS_FRAME = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
H2C = (
    b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    b"HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
)
KEY = b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
UPGRADES = [
    b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + KEY,
    b"GET /events HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n" + KEY,
    b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket\r\n" + KEY,
    b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"POST /announce HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + KEY,
]


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
async def port(request: pytest.FixtureRequest, app: Quart, tmp_path: Path) -> AsyncIterator[int]:
    """A node; the test's own mark says whether it answers with TLS."""
    own_key(tmp_path)
    context = server_context(tmp_path, lambda: None) if request.param else None
    async with served(app, SETTINGS, tls=context) as number:
        yield number


@asynccontextmanager
async def connected(port: int, tls: bool) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection that would rather speak HTTP/2."""
    context = None
    if tls:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2", "http/1.1"])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    if tls:
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() is None
    try:
        async with asyncio.timeout(60):
            yield reader, writer
    finally:
        writer.close()


@pytest.fixture
def tls(request: pytest.FixtureRequest) -> bool:
    """Whether the node of this test answers with TLS."""
    return "tls" in request.node.callspec.id.split("-")


async def all_that_comes(port: int, tls: bool, pieces: Sequence[bytes]) -> bytes:
    """What is answered to these pieces, sent one after the other, until the node closes the connection."""
    async with connected(port, tls) as (reader, writer):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.05)  # so that they arrive one by one
        return await reader.read()


def answers_in(data: bytes) -> list[bytes]:
    """Each answer from its status on."""
    return re.split(rb"HTTP/1\.1 (?=[0-9])", data)[1:]


@pytest.mark.parametrize(
    "pieces",
    [
        [PREFACE + SETTINGS_FRAME],
        [PREFACE[:3], PREFACE[3:16], PREFACE[16:] + SETTINGS_FRAME],
        [bytes([byte]) for byte in PREFACE[:18]],
        [HEALTH, PREFACE + SETTINGS_FRAME],
        [HEALTH + PREFACE + SETTINGS_FRAME],
    ],
    ids=["whole", "cut", "bytes", "later", "behind"],
)
async def test_http_2_is_not_spoken(port: int, tls: bool, pieces: list[bytes]) -> None:
    *earlier, last = answers_in(await all_that_comes(port, tls, pieces))
    assert [answer[:3] for answer in earlier] == [b"200"] * len(earlier)
    assert last.startswith(b"400")
    assert b"this node speaks HTTP/1.1 only" in last


async def test_an_offer_of_http_2_is_ignored(port: int, tls: bool) -> None:
    async with connected(port, tls) as (reader, writer):
        for request in (H2C, HEALTH):  # the connection goes on as it began
            writer.write(request)
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")
            await reader.readuntil(b"\r\n\r\n")
            await reader.readuntil(b"}")


@pytest.mark.parametrize("upgrade", UPGRADES)
async def test_websocket_is_refused_in_words_and_not_in_the_log(
    port: int, tls: bool, upgrade: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for before in ([], [HEALTH]):
        *_, last = answers_in(await all_that_comes(port, tls, [*before, upgrade]))
        assert last.startswith(b"400")
        assert last.endswith(
            b'{"error":"bad_request","message":"this node speaks HTTP/1.1 only, and no WebSocket"}'
        )
    assert [record.getMessage() for record in caplog.records if record.name != "asyncio"] == []
