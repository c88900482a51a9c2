"""Which connections stay."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import pytest
from quart import Quart, Response

from flnet.web import server as serving
from flnet.web.server import MAX_CONNECTIONS, RESERVED_FILES, ConnectionLimits, raise_file_limit
from flnet.wire.transport import Reply
from tests.web.conftest import Running
from tests.web.fake_node import FakeNode

ASKING = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class Connections:
    """Limits, and the connections that they closed."""

    def __init__(self, total: int, per_address: int) -> None:
        self.limits, self.closed = ConnectionLimits(total, per_address), list[str]()

    def add(self, name: str) -> bool:
        """The first letter is the address."""
        return self.limits.add(name, name[0], lambda: self.closed.append(name))


def test_of_one_address_the_one_that_is_idle_for_longest_goes() -> None:
    connections = Connections(10, 2)
    assert connections.add("a1")
    assert connections.add("a2")
    connections.limits.set_idle("a1", False)
    connections.limits.set_idle("a1", True)
    assert connections.add("a3")
    assert connections.closed == ["a2"]
    assert connections.add("b1")
    assert connections.limits.count == {"a": 2, "b": 1}


def test_who_is_being_answered_is_not_cut_off_for_others() -> None:
    connections = Connections(10, 2)
    for name in ("a1", "a2"):
        connections.add(name)
        connections.limits.set_idle(name, False)
    assert not connections.add("a3")
    connections.limits.set_idle("a1", True)
    assert connections.add("a4")
    assert connections.closed == ["a1"]


def test_when_all_is_full_who_has_most_gives_one_up() -> None:
    connections = Connections(4, 3)
    assert all(connections.add(name) for name in ("b1", "a1", "a2", "a3", "c1"))
    assert connections.closed == ["a1"]


def test_who_left_makes_room_and_is_forgotten() -> None:
    connections = Connections(1, 1)
    assert connections.add("a1")
    connections.limits.remove("a1")
    connections.limits.set_idle("a1", True)
    connections.limits.remove("a1")
    assert connections.limits.count == {}
    assert connections.add("b1")
    assert connections.closed == []


def test_at_the_end_all_are_closed() -> None:
    connections = Connections(5, 5)
    for name in ("a1", "b1"):
        connections.add(name)
    connections.limits.set_idle("a1", False)
    connections.limits.close_all()
    assert connections.closed == ["a1", "b1"]


@pytest.fixture
def files() -> Iterator[tuple[int, int]]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_limit_of_files_is_raised_as_far_as_it_may(files: tuple[int, int]) -> None:
    hard = files[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    most, found = MAX_CONNECTIONS + RESERVED_FILES, raise_file_limit()
    assert found == (most if hard in (resource.RLIM_INFINITY, -1) else min(hard, most))
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (found, hard)
    assert raise_file_limit() == found


async def test_idle_connections_make_room_for_who_asks(
    running: Running, app: Quart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "ConnectionLimits", lambda total: ConnectionLimits(20, 10))
    async with running() as port:
        with ExitStack() as stack:
            opened = [
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60)) for _ in range(30)
            ]
            answer = await asyncio.to_thread(_asked, port)
            assert answer.startswith(b"HTTP/1.1 200")
            ended = await asyncio.to_thread(lambda: [_is_over(one) for one in opened[:15]])
            assert all(ended)


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> ConnectionLimits:
    """Of a server that keeps idle connections for an hour."""
    made = ConnectionLimits(200, 200)
    monkeypatch.setattr(serving, "ConnectionLimits", lambda total: made)
    monkeypatch.setattr(serving, "KEEP_ALIVE_SECONDS", 3600.0)
    return made


async def _all_left(limits: ConnectionLimits) -> None:
    async with asyncio.timeout(60):
        while limits.count:
            await asyncio.sleep(0.01)


async def test_who_hung_up_is_not_waited_for(running: Running, limits: ConnectionLimits) -> None:
    async with running() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(ASKING % b"/health")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert limits.count == {"127.0.0.1": 1}
        writer.close()
        await _all_left(limits)


async def test_who_asks_again_and_again_keeps_the_connection(running: Running, limits: ConnectionLimits) -> None:
    async with running() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(5):
            writer.write(ASKING % b"/health")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            await reader.readuntil(b"}")
        assert limits.count == {"127.0.0.1": 1}
        writer.close()
        await _all_left(limits)


@pytest.mark.parametrize("delay", [0.0, 0.002, 0.02])
async def test_who_hung_up_while_being_answered_is_not_waited_for(
    running: Running, app: Quart, limits: ConnectionLimits, delay: float
) -> None:
    """At whatever point: before the answer, between its parts, or when nothing of it can be sent any more."""

    @app.get("/long")
    async def long() -> Response:
        async def parts() -> AsyncIterator[bytes]:
            for _ in range(3):
                yield bytes(400_000)  # more than the system takes at once
                await asyncio.sleep(0)

        return Response(parts())

    async with running() as port:
        for number in range(12):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(ASKING % b"/long")
            await asyncio.sleep(delay * number / 12)
            writer.transport.abort() if number % 2 else writer.close()
        await _all_left(limits)


def _asked(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        return sock.recv(65536)


def _is_over(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionError:
        return True


async def test_a_connection_on_which_nothing_is_asked_ends_but_not_one_that_is_being_answered(
    running: Running, node: FakeNode, limits: ConnectionLimits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "KEEP_ALIVE_SECONDS", 0.5)
    asked, go = asyncio.Event(), asyncio.Event()

    async def receive(*_: object) -> Reply:
        asked.set()
        await go.wait()
        return Reply(200, b"done", "application/json")

    monkeypatch.setattr(node, "receive", receive)
    async with asyncio.timeout(60), running() as port:
        answered, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /announce HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
        await asked.wait()
        idle, other = await asyncio.open_connection("127.0.0.1", port)
        assert await idle.read() == b""  # both had their time by now
        other.close()
        go.set()
        assert (await answered.readuntil(b"done")).startswith(b"HTTP/1.1 200")
        assert await answered.read() == b""
        writer.close()
        await _all_left(limits)
