from __future__ import annotations

import asyncio
import tracemalloc
from contextlib import suppress

import httpx
import orjson
import pytest

from flnet.web import body as limits

from .conftest import Client, Running
from .fake_node import CONTROL, FakeNode

ZEROS = bytes(64 * 1024)
JSON = {"Content-Type": "application/json"}


async def exchange(port: int, head: str, *parts: bytes, repeat: int = 1) -> tuple[int, dict[str, str], int]:
    """Send a raw request, as much of it as is taken; status, JSON body and bytes sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{head}\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode())
    sent = 0
    with suppress(ConnectionError):
        for _ in range(repeat):
            for part in parts:
                writer.write(part)
                await writer.drain()
                sent += len(part)
    answer = await reader.read()
    writer.close()
    status, _, rest = answer.partition(b"\r\n")
    return int(status.split()[1]), orjson.loads(rest.partition(b"\r\n\r\n")[2]), sent


async def test_a_length_above_the_limit_is_refused_before_any_byte_is_read(
    running: Running, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINGER_SECONDS", 0.05)
    async with running() as port:
        status, told, _ = await exchange(
            port, "POST /training/model_params HTTP/1.1", b"Content-Length: 104857600\r\n\r\n"
        )
    assert (status, told["error"]) == (413, "body_too_large")
    assert "1048576" in told["message"]
    assert "104857600" in told["message"]
    assert node.received == []


@pytest.mark.parametrize("path", ["/training/model_params", "/announce", "/jobs/MNIST/params"])
@pytest.mark.parametrize("chunked", [True, False])
async def test_a_hundred_megabytes_of_zeros_leave_the_memory_flat(
    running: Running, node: FakeNode, path: str, chunked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINGER_SECONDS", 60)  # on a busy machine 100 MB take longer than the usual two
    verb = "PATCH" if "jobs" in path else "POST"
    head = b"Transfer-Encoding: chunked\r\n\r\n" if chunked else b"Content-Length: 104857600\r\n\r\n"
    parts = (b"10000\r\n", ZEROS, b"\r\n") if chunked else (ZEROS,)
    async with running() as port:
        tracemalloc.start()
        try:
            status, told, _ = await exchange_large(port, f"{verb} {path} HTTP/1.1", head, parts)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (status, told["error"]) == (413, "body_too_large")
    assert peak < node.limit + 4 * 1024 * 1024
    assert node.received == []


async def exchange_large(
    port: int, start: str, head: bytes, parts: tuple[bytes, ...]
) -> tuple[int, dict[str, str], int]:
    """100 MiB in pieces of 64 KiB."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{start}\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode() + head)
    sent = 0
    with suppress(ConnectionError):
        while sent < 100 * 1024 * 1024:
            for part in parts:
                writer.write(part)
            await writer.drain()
            sent += len(ZEROS)
        if len(parts) > 1:
            writer.write(b"0\r\n\r\n")
    answer = await reader.read()
    writer.close()
    status, _, rest = answer.partition(b"\r\n")
    return int(status.split()[1]), orjson.loads(rest.partition(b"\r\n\r\n")[2]), sent


async def test_an_ordinary_client_that_sends_too_much_reads_why(running: Running, node: FakeNode) -> None:
    async with running() as port, httpx.AsyncClient(trust_env=False) as http:
        url = f"http://127.0.0.1:{port}/training/model_params"
        answer = await http.post(url, content=bytes(30_000_000), headers=JSON)
        again = await http.get(f"http://127.0.0.1:{port}/health")
    assert (answer.status_code, answer.json()["error"]) == (413, "body_too_large")
    assert again.status_code == 200


async def test_a_body_of_exactly_the_limit_is_read_with_and_without_a_length(
    running: Running, node: FakeNode
) -> None:
    async def pieces() -> object:
        for _ in range(node.limit // len(ZEROS)):
            yield ZEROS

    async with running() as port, httpx.AsyncClient(trust_env=False) as http:
        url = f"http://127.0.0.1:{port}/training"
        await http.post(url, content=bytes(node.limit), headers=JSON)
        await http.post(url, content=pieces(), headers=JSON)  # type: ignore[arg-type]
    assert [size for _, size, _, _ in node.received] == [node.limit, node.limit]


async def test_each_path_has_its_own_limit(client: Client, node: FakeNode) -> None:
    large = bytes(CONTROL + 1)
    assert (await client.post("/announce", data=large, headers=JSON)).status_code == 413
    assert (await client.post("/training", data=large, headers=JSON)).status_code == 422
    assert (await client.patch("/jobs/MNIST/params", data=large, headers=JSON)).status_code == 413
    assert (await client.post("/training/trigger/form", data=large, headers=JSON)).status_code == 413


async def test_a_caller_that_stalls_is_cut(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IDLE_SECONDS", 0.05)
    async with running() as port:
        status, told, _ = await exchange(
            port, "POST /training/trigger HTTP/1.1", b"Content-Length: 500\r\n\r\n", b'{"trai'
        )
    assert (status, told["error"]) == (408, "request_timeout")


async def test_a_caller_that_trickles_is_cut(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BASE_SECONDS", 0.3)
    monkeypatch.setattr(limits, "SLOWEST_BYTES_PER_SECOND", 1024**3)

    async with running() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /announce HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n")
        answer = asyncio.ensure_future(reader.readline())
        while not answer.done():
            writer.write(b" ")
            await asyncio.wait({answer}, timeout=0.02)
        writer.close()
    assert b" 408 " in await answer


async def test_a_caller_that_leaves_in_mid_body_harms_nobody(running: Running, node: FakeNode) -> None:
    async with running() as port, httpx.AsyncClient(trust_env=False) as http:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /training HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nabc")
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        assert (await http.get(f"http://127.0.0.1:{port}/health")).json() == {"status": "ok"}
    assert node.received == []


async def test_quarts_own_ways_to_read_a_body_hold_the_limit_too() -> None:
    whole, parts = limits.LimitedBody(None, 10), limits.LimitedBody(None, 10)
    for one in (whole, parts):
        one.append(b"ab")
        one.set_result(b"cd")
    assert await whole == b"abcd"
    assert [part async for part in parts] == [b"abcd"]


async def test_a_body_that_nobody_reads_is_not_kept() -> None:
    unread = limits.LimitedBody(None, 10)
    for _ in range(100):
        unread.append(b"12345678")
    assert unread.too_large
    assert unread._parts == []
