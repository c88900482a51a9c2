"""Threat 8: connections to a pinned node that never agree on TLS. They count for their address from the beginning."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import pytest
from quart import Quart

from flnet.security.keys import own_key
from flnet.security.tls import server_context
from flnet.web import server
from flnet.web.server import ConnectionLimits
from tests.web.conftest import SETTINGS, served

MOST = 8
STARTS = (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00")


async def test_half_open_handshakes_of_one_address_make_room(
    app: Quart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HANDSHAKE_SECONDS", 3600.0)
    monkeypatch.setattr(server, "ConnectionLimits", partial(ConnectionLimits, per_address=MOST))
    own_key(tmp_path)
    async with served(app, SETTINGS, tls=server_context(tmp_path, lambda: None)) as port, asyncio.timeout(60):
        opened = []
        for number in range(3 * MOST):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.66", 0))
            writer.write(STARTS[number % len(STARTS)])
            opened.append((reader, writer))
        for reader, _ in opened[: 2 * MOST]:  # the oldest made room for the others
            with suppress(ConnectionError):
                assert await reader.read() == b""
        for address in ("127.0.0.1", "127.0.0.66"):
            transport = httpx.AsyncHTTPTransport(verify=False, local_address=address)
            async with httpx.AsyncClient(transport=transport, timeout=60) as http:
                assert (await http.get(f"https://127.0.0.1:{port}/health")).status_code == 200
        assert sum(reader.at_eof() for reader, _ in opened) < len(opened)
        for _, writer in opened:
            writer.close()


@pytest.mark.parametrize("start", STARTS)
async def test_a_handshake_that_goes_no_further_ends_the_connection(
    app: Quart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    monkeypatch.setattr(server, "HANDSHAKE_SECONDS", 0.2)
    own_key(tmp_path)
    async with served(app, SETTINGS, tls=server_context(tmp_path, lambda: None)) as port, asyncio.timeout(40):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(start)
        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize(
    "start", [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"POST", b"PRI * HTTP/2.0\r\n\r\n"]
)
async def test_a_connection_without_tls_is_told_so_and_ended(
    app: Quart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    monkeypatch.setattr(server, "HANDSHAKE_SECONDS", 3600.0)
    monkeypatch.setattr(server, "CLOSE_SECONDS", 0.1)
    limits = ConnectionLimits(100)
    monkeypatch.setattr(server, "ConnectionLimits", lambda total: limits)
    own_key(tmp_path)
    told: list[bool] = []
    tls = server_context(tmp_path, lambda: told.append(True))
    async with served(app, SETTINGS, tls=tls) as port, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(start)
        assert b'"error": "tls_needed"' in await reader.read()
        while limits.count:  # although the client has not closed its end
            await asyncio.sleep(0.01)
        writer.close()
    assert told == [True]
