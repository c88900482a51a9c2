"""Threat 8: half-open connections, requests that never end, one byte now and then. The node answers meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import AsyncIterator, Iterator

import httpx
import psutil
import pytest

from flnet.web import body, server
from flnet.web.server import MAX_PER_ADDRESS
from tests.mesh_name import MESH_NAME
from tests.processes.harness import RealNode, harness, until
from tests.threats.conftest import Serve

MANY = 1500
REQUEST = (
    b"POST /training/model_params HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Flnet-Mesh: %s\r\n" % MESH_NAME.encode()
)
STARTS = (
    b"",
    b"G",
    b"POST /announce HTTP/1.1\r\nHost: 127",
    REQUEST,
    REQUEST + b"Content-Length: 1000\r\n\r\n{",
    REQUEST + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNode]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192) if hard > 0 else 8192, hard))
    with harness(tmp_path_factory.mktemp("slow")) as made:
        started = made.start()
        made.ready()
        yield started
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.asynccontextmanager
async def opened(port: int, count: int) -> AsyncIterator[list[socket.socket]]:
    """So many connections; each begins some request and says no more."""
    loop = asyncio.get_running_loop()
    socks: list[socket.socket] = []
    try:
        for number in range(count):
            sock = socket.socket()
            sock.setblocking(False)
            socks.append(sock)
            await loop.sock_connect(sock, ("127.0.0.1", port))
            with contextlib.suppress(ConnectionError):
                await loop.sock_sendall(sock, STARTS[number % len(STARTS)])
        yield socks
    finally:
        for sock in socks:
            sock.close()


async def answer(node: RealNode, path: str) -> httpx.Response:
    """What it answers on a connection of its own.

    The attacker's own address has so many connections and no more: from there, one may be turned away at first.
    """
    for _ in range(20):
        with contextlib.suppress(httpx.TransportError):
            return await asyncio.to_thread(node.http.get, path, headers={"Connection": "close"})
        await asyncio.sleep(0.1)
    raise AssertionError(f"no answer to {path}")


def files_of(node: RealNode) -> int:
    return psutil.Process(node.process.pid).num_fds()


@pytest.mark.slow
async def test_a_thousand_half_open_connections_keep_nobody_out(real: RealNode) -> None:
    before, memory = files_of(real), psutil.Process(real.process.pid).memory_info().rss
    async with opened(real.port, MANY):
        for path in ("/health", "/info", "/peers"):
            assert (await answer(real, path)).status_code == 200
        assert files_of(real) - before <= MAX_PER_ADDRESS + 16
        assert psutil.Process(real.process.pid).memory_info().rss - memory < 96 * 1024 * 1024
    await asyncio.to_thread(until, lambda: files_of(real) <= before + 4, "the end of the connections")


async def test_a_request_whose_head_comes_a_byte_at_a_time_is_cut(
    serving: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, with a short time: that of a real node is a quarter of a minute."""
    monkeypatch.setattr(server, "KEEP_ALIVE_SECONDS", 0.3)
    async with asyncio.timeout(60), serving() as port:
        await asyncio.gather(*(trickled(port, start) for start in STARTS[1:4]))


async def trickled(port: int, start: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(start)
    over = asyncio.create_task(reader.read())
    while not over.done():
        with contextlib.suppress(ConnectionError):
            writer.write(b"x")
            await writer.drain()
        await asyncio.wait({over}, timeout=0.02)
    with contextlib.suppress(ConnectionError):
        assert not over.result().startswith(b"HTTP/1.1 2")
    writer.close()


async def test_a_body_that_comes_a_byte_at_a_time_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, with short times: those of a real node are half a minute and more."""
    monkeypatch.setattr(body, "BASE_SECONDS", 0.3)
    trickling = body.LimitedBody(60_000, 100_000)
    monkeypatch.setattr(body, "SLOWEST_BYTES_PER_SECOND", 200_000)

    async def trickle() -> None:
        while True:
            trickling.append(b"x")
            await asyncio.sleep(0.01)

    task = asyncio.create_task(trickle())
    with pytest.raises(TimeoutError):
        await trickling.read()
    task.cancel()
