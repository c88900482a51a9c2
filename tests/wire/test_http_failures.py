"""HTTP to servers that refuse, hang, break off and flood."""

from __future__ import annotations

import asyncio
import gc
import random
import socket
from contextlib import AsyncExitStack, suppress

import httpcore
import pytest

from flnet.errors import PeerTimeout, PeerUnreachable, TransportError
from flnet.params.blob import PIECE, Landing
from flnet.wire.http import HttpTransport
from flnet.wire.transport import Reply
from tests.wire.servers import NOT_READY, OK, Server, Talk, ask, listening, silent, transport


def held_by_failures() -> set[int]:
    """Which of them there are, by their places in memory."""
    kinds = {httpcore.ConnectError, httpcore.Request, PeerUnreachable, PeerTimeout}
    return {id(one) for one in gc.get_objects() if type(one) in kinds}


# --- what fails for a moment


async def test_not_ready_is_asked_again_with_the_whole_body() -> None:
    answers = [NOT_READY, NOT_READY, OK]

    async def in_turn(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await server.read(reader):
            writer.write(answers.pop(0))

    body = b"x" * (PIECE + 1)
    async with listening(Server(in_turn)) as server, transport() as http:
        assert (await ask(http, server.address, body)).body == b"ok"
    assert [got for _, got in server.requests] == [body] * 3


@pytest.mark.usefixtures("hasty")
async def test_a_peer_that_never_gets_ready_answers_for_itself() -> None:
    async with listening(Server(NOT_READY)) as server, transport() as http:
        reply = await ask(http, server.address)
    assert reply.status == 503
    assert 2 <= len(server.requests) <= 10


@pytest.mark.usefixtures("hasty")
async def test_a_refused_connection_is_tried_until_the_budget_is_used_up(free_port: int) -> None:
    async with transport() as http:
        with pytest.raises(PeerUnreachable, match=f"127.0.0.1:{free_port}: no connection"):
            await ask(http, f"127.0.0.1:{free_port}")


async def test_requests_that_failed_leave_nothing_for_the_garbage_collector(free_port: int) -> None:
    async with listening(Server(silent)) as slow, transport(0.2) as http:
        for address in (f"127.0.0.1:{free_port}", slow.address):
            with suppress(PeerUnreachable, PeerTimeout):  # what the library makes once comes with the first
                await ask(http, address)
            gc.collect()
            gc.disable()
            try:
                before = held_by_failures()
                with suppress(PeerUnreachable, PeerTimeout):
                    await ask(http, address)
                assert not held_by_failures() - before
            finally:
                gc.enable()


async def test_a_peer_that_starts_late_is_found(bound: socket.socket, free_port: int) -> None:
    refused = asyncio.Event()

    class Refusals(random.Random):
        def random(self) -> float:
            refused.set()
            return super().random()

    http, late = HttpTransport(30, Refusals(0)), Server(OK)
    request = asyncio.ensure_future(ask(http, f"127.0.0.1:{free_port}"))
    await refused.wait()
    listener = await asyncio.start_server(late.serve, sock=bound)
    assert (await request).status == 200
    await http.close()
    listener.close()


async def test_a_connection_that_breaks_is_tried_again() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader)

    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it")

    async def no_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader)
        writer.write(b"220 mail.example.org\r\n\r\n")

    async with listening(Server(hang_up, break_off, no_http, OK)) as server, transport() as http:
        assert (await ask(http, server.address)).body == b"ok"
    assert len(server.requests) == 4


async def test_a_connection_that_the_peer_closed_meanwhile_is_replaced() -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader)
        writer.write(OK)

    async with listening(Server(once)) as server, transport() as http:
        for _ in range(3):
            assert (await ask(http, server.address)).body == b"ok"
        assert server.connections == 3


async def test_an_idle_connection_is_closed_by_this_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flnet.wire.connections.IDLE_SECONDS", 0.02)
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await server.read(reader):
            writer.write(OK)
        gone.set()

    async with listening(Server(serve)) as server, transport() as http:
        await ask(http, server.address)
        await asyncio.wait_for(gone.wait(), 60)


async def test_of_many_idle_connections_the_one_that_is_unused_longest_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("flnet.wire.connections.MOST_IDLE", 2)
    ended = [asyncio.Event() for _ in range(3)]

    def serving(number: int) -> Talk:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await servers[number].read(reader):
                writer.write(OK)
            ended[number].set()

        return serve

    servers: list[Server] = []
    async with AsyncExitStack() as stack:
        for number in range(3):
            servers.append(Server(serving(number)))
            await stack.enter_async_context(listening(servers[number]))
        http = await stack.enter_async_context(transport())
        for number in (0, 1, 0, 2):
            await ask(http, servers[number].address)
        await asyncio.wait_for(ended[1].wait(), 60)
        assert not ended[0].is_set()
        assert not ended[2].is_set()
        await ask(http, servers[0].address)
        assert [server.connections for server in servers] == [1, 1, 1]


async def test_an_answer_that_comes_early_ends_the_sending() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 X\r\nContent-Length: 5\r\n\r\nlarge")
        came.append(len(await reader.read()))

    came: list[int] = []
    async with listening(Server(refuse)) as server, transport() as http:
        assert await ask(http, server.address, bytes(50_000_000)) == Reply(413, b"large", "")
        assert server.connections == 1
    assert not came or came[0] < 50_000_000


@pytest.mark.usefixtures("hasty")
async def test_an_answer_that_always_breaks_off_is_unreachable() -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it")

    async with listening(Server(break_off)) as server, transport() as http:
        with pytest.raises(PeerUnreachable, match="cut off"):
            await ask(http, server.address)


# --- what does not answer


async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(3600)


async def trickle_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"H")
        await asyncio.sleep(0.02)


async def trickle_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n")
    while True:
        writer.write(b"x")
        await asyncio.sleep(0.02)


@pytest.mark.usefixtures("steady")
@pytest.mark.parametrize("talk", [silent, deaf, trickle_body])
@pytest.mark.parametrize("size", [2, 20_000_000])
async def test_a_peer_that_never_answers_is_a_timeout_asked_once(talk: Talk, size: int) -> None:
    async with listening(Server(talk)) as server, transport(0.3) as http:
        with pytest.raises(PeerTimeout, match="no answer within"):
            await ask(http, server.address, b"x" * size)
        assert server.connections == 1


async def test_a_head_in_drops_is_no_answer() -> None:
    async with listening(Server(trickle_head)) as server, transport(0.3) as http:
        with pytest.raises((PeerTimeout, PeerUnreachable)):
            await ask(http, server.address)


async def test_an_endless_answer_is_cut_off() -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
            await writer.drain()

    async with listening(Server(flood)) as server, transport() as http:
        with pytest.raises(TransportError, match=r"at most 1000000 bytes, and has 10[0-9]{5} or more"):
            await ask(http, server.address, reply_limit=1_000_000)
        assert server.connections == 1


async def test_an_answer_at_the_limit_is_read() -> None:
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1000
    async with listening(Server(whole)) as server, transport() as http:
        assert len((await ask(http, server.address, reply_limit=1000)).body) == 1000


@pytest.mark.usefixtures("steady")
async def test_a_slow_transfer_that_moves_is_not_cut_off() -> None:
    """40 pieces, one every 0.05 s: longer than the timeout, even without what buffers hold."""

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for _ in range(40):
            await reader.readexactly(PIECE)
            await asyncio.sleep(0.05)
        writer.write(OK)

    async with listening(Server(slow)) as server, transport(1.0) as http:
        assert (await ask(http, server.address, b"x" * 40 * PIECE)).body == b"ok"
        assert server.connections == 1


@pytest.mark.usefixtures("steady")
async def test_a_link_of_few_bytes_is_not_cut_off() -> None:
    """4 KiB every 0.05 s, for twice the timeout: nowhere near a piece of 256 KiB comes within it."""
    step, steps = 4096, 30

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (step * steps))
        for _ in range(steps):
            writer.write(b"x" * step)
            await writer.drain()
            await asyncio.sleep(0.05)

    async with listening(Server(slow)) as server, transport(0.75) as http:
        into = Landing(lambda head, total: True, step * steps, 1000)
        reply, _ = await asyncio.gather(
            http.fetch(server.address, "/m", step * steps), http.download(server.address, "/m", into)
        )
        assert len(reply.body) == step * steps and into.complete
        assert server.connections == 2
