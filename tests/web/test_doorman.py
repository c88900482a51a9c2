"""Which connections stay."""

from __future__ import annotations

import asyncio
import gc
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import pytest
from hypercorn.events import Updated
from quart import Quart, Response

from flnet.transport.base import Reply
from flnet.web import serve as serving
from flnet.web.doorman import MOST, RESERVE, Doorman, GuardedServer, raise_file_limit

from .conftest import Running
from .fake_node import FakeNode

ASKING = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class Door:
    """A doorman, and who was sent away."""

    def __init__(self, most: int, each: int) -> None:
        self.doorman, self.closed = Doorman(most, each), list[str]()

    def enter(self, name: str) -> bool:
        """The first letter is the address."""
        return self.doorman.enter(name, name[0], lambda: self.closed.append(name))


def test_of_one_address_the_one_that_is_idle_for_longest_goes() -> None:
    door = Door(10, 2)
    assert door.enter("a1")
    assert door.enter("a2")
    door.doorman.idles("a1", False)
    door.doorman.idles("a1", True)
    assert door.enter("a3")
    assert door.closed == ["a2"]
    assert door.enter("b1")
    assert door.doorman.count == {"a": 2, "b": 1}


def test_who_is_being_answered_is_not_cut_off_for_others() -> None:
    door = Door(10, 2)
    for name in ("a1", "a2"):
        door.enter(name)
        door.doorman.idles(name, False)
    assert not door.enter("a3")
    door.doorman.idles("a1", True)
    assert door.enter("a4")
    assert door.closed == ["a1"]


def test_when_all_is_full_who_has_most_gives_one_up() -> None:
    door = Door(4, 3)
    assert all(door.enter(name) for name in ("b1", "a1", "a2", "a3", "c1"))
    assert door.closed == ["a1"]


def test_who_left_makes_room_and_is_forgotten() -> None:
    door = Door(1, 1)
    assert door.enter("a1")
    door.doorman.leave("a1")
    door.doorman.idles("a1", True)
    door.doorman.leave("a1")
    assert door.doorman.count == {}
    assert door.enter("b1")
    assert door.closed == []


@pytest.fixture
def files() -> Iterator[tuple[int, int]]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_limit_of_files_is_raised_as_far_as_it_may(files: tuple[int, int]) -> None:
    hard = files[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    found = raise_file_limit()
    assert found == (MOST + RESERVE if hard in (resource.RLIM_INFINITY, -1) else min(hard, MOST + RESERVE))
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (found, hard)
    assert raise_file_limit() == found


async def test_idle_connections_make_room_for_who_asks(
    running: Running, app: Quart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "Doorman", lambda most: Doorman(20, 10))
    async with running() as port:
        with ExitStack() as stack:
            opened = [
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10)) for _ in range(30)
            ]
            answer = await asyncio.to_thread(_asked, port)
            assert answer.startswith(b"HTTP/1.1 200")
            ended = await asyncio.to_thread(lambda: [_is_over(one) for one in opened[:15]])
            assert all(ended)


@pytest.fixture
def doorman(monkeypatch: pytest.MonkeyPatch) -> Doorman:
    """Of a server that keeps idle connections for an hour."""
    made = Doorman(200, 200)
    monkeypatch.setattr(serving, "Doorman", lambda most: made)
    monkeypatch.setattr(serving, "KEEP_ALIVE_SECONDS", 3600.0)
    return made


async def _all_left(doorman: Doorman) -> None:
    async with asyncio.timeout(60):
        while doorman.count:
            await asyncio.sleep(0.01)


async def test_who_hung_up_is_not_waited_for(running: Running, doorman: Doorman) -> None:
    async with running() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(ASKING % b"/health")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert doorman.count == {"127.0.0.1": 1}
        writer.close()
        await _all_left(doorman)


async def test_who_asks_again_and_again_keeps_the_connection(running: Running, doorman: Doorman) -> None:
    async with running() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(5):
            writer.write(ASKING % b"/health")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            await reader.readuntil(b"}")
        assert doorman.count == {"127.0.0.1": 1}
        writer.close()
        await _all_left(doorman)


@pytest.mark.parametrize("delay", [0.0, 0.002, 0.02])
async def test_who_hung_up_while_being_answered_is_not_waited_for(
    running: Running, app: Quart, doorman: Doorman, delay: float
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
        await _all_left(doorman)


async def test_a_connection_that_ended_leaves_nothing_for_the_garbage_collector(
    running: Running, doorman: Doorman
) -> None:
    async with running() as port:
        gc.collect()
        before = _servers()
        gc.disable()
        try:
            assert (await asyncio.to_thread(_asked, port)).startswith(b"HTTP/1.1 200")
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(ASKING % b"/health")
            await reader.readuntil(b"}")
            writer.close()
            await _all_left(doorman)
            async with asyncio.timeout(60):
                while _servers() - before:  # until their tasks have ended, too
                    await asyncio.sleep(0.01)
        finally:
            gc.enable()


def _servers() -> set[int]:
    return {id(one) for one in gc.get_objects() if issubclass(type(one), GuardedServer)}


async def test_an_answer_that_ends_after_its_caller_hung_up_leaves_nobody_to_be_waited_for(
    running: Running, doorman: Doorman, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hung_up(server: GuardedServer) -> None:
        await ended(server)
        await server.protocol_send(Updated(idle=True))  # as the last part of an answer says it

    ended = GuardedServer._read_data
    monkeypatch.setattr(GuardedServer, "_read_data", hung_up)
    async with running() as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        await _all_left(doorman)


def _asked(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        return sock.recv(65536)


def _is_over(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionError:
        return True


async def test_a_connection_on_which_nothing_is_asked_ends_but_not_one_that_is_being_answered(
    running: Running, node: FakeNode, doorman: Doorman, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "KEEP_ALIVE_SECONDS", 0.05)
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
        await _all_left(doorman)
