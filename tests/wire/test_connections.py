"""Connections to peers on both event loops: large bodies, answers that come early, and ends in the middle."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpcore
import pytest
import uvloop

from flnet.errors import PeerUnreachable, StrangerThere, TransportError
from flnet.params.blob import Landing
from flnet.security.tls import Channel, StrangeKey
from flnet.wire.connections import HELD_BYTES, Connection, Network, NotCalled, key_shown
from flnet.wire.http import HttpTransport
from tests.security.test_tls import listening as with_tls
from tests.wire.servers import OK, Server, ask, listening, silent, transport

BODY = random.Random(0).randbytes(5_000_000)
Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    def run_on(work: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(work)

    return run_on


async def flood(connection: Connection) -> None:
    while True:
        await connection.write(bytes(100_000))


async def connected(server: Server) -> Connection:
    host, _, port = server.address.partition(":")
    return await Network(None).connect_tcp(host, int(port))


def test_a_large_body_is_fetched_and_one_is_sent_on_the_same_connection(run: Run) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await server.read(reader):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY)
            await writer.drain()

    async def work() -> None:
        async with listening(server), transport(30) as http:
            landing = Landing(lambda head, total: True, len(BODY), 1000)
            await http.download(server.address, "/m", landing)
            assert landing.whole() == BODY
            assert (await ask(http, server.address, BODY, 10_000_000)).body == BODY
        assert (server.requests[-1][1] == BODY, server.connections) == (True, 1)

    server = Server(serve)
    run(work())


def test_what_nobody_reads_is_held_within_bounds(run: Run) -> None:
    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(bytes(100_000))
            await writer.drain()
            sent.append(100_000)

    async def work() -> None:
        async with listening(Server(pour)) as server:
            connection = await connected(server)
            while not sent or sent[-1]:
                sent.append(0)
                await asyncio.sleep(0.3)
            stuck = sum(sent)
            assert stuck < 20_000_000  # in buffers of the system, mostly
            total = 0
            while total < stuck + 10 * HELD_BYTES:
                part = await connection.read(10_000)
                assert 0 < len(part) <= 10_000
                total += len(part)
            await connection.aclose()

    sent: list[int] = []
    run(work())


def test_nothing_more_is_sent_once_an_answer_comes(run: Run) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"no")
        await asyncio.sleep(60)

    async def work() -> None:
        async with listening(Server(refuse)) as server:
            connection = await connected(server)
            with pytest.raises(httpcore.WriteError):
                await flood(connection)
            assert await connection.read(100) == b"no"
            await connection.aclose()

    run(work())


def test_a_connection_that_ends_unanswered_is_told_from_one_that_ends_after_its_answer(run: Run) -> None:
    async def work() -> None:
        async with listening(Server(b"whole")) as server:
            connection = await connected(server)
            await connection.write(b"\r\n\r\n")
            assert await connection.read(100) == b"whole"
            assert not connection.get_extra_info("is_readable")
            await connection.aclose()
            assert await connection.read(100) == b""
            with pytest.raises(httpcore.WriteError):
                await connection.write(b"more")
            with pytest.raises(httpcore.ReadError):
                await connection.read(100)

    run(work())


def test_requests_that_are_cancelled_leave_no_connection_behind(run: Run) -> None:
    """At any moment: while it connects, sends, waits and reads."""

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_now.add(writer)
        try:
            while await server.read(reader):
                writer.write(OK[:-1])
                await asyncio.sleep(0.01)
                writer.write(OK[-1:])
        except RuntimeError:  # uvloop says so of a connection that is closed
            pass
        finally:
            open_now.discard(writer)

    async def work() -> None:
        async with listening(server), transport() as http:
            chance = random.Random(0)
            for _ in range(100):
                request = asyncio.ensure_future(ask(http, server.address, bytes(chance.choice((2, 1_000_000)))))
                await asyncio.sleep(chance.uniform(0, 0.02))
                request.cancel()
                with suppress(asyncio.CancelledError):
                    await request
            assert (await ask(http, server.address)).body == b"ok"
            async with asyncio.timeout(60):
                while len(open_now) > 1:  # the one that is kept
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)  # what was cancelled last may not be accepted yet

    open_now: set[asyncio.StreamWriter] = set()
    server = Server(slow)
    run(work())


async def test_a_host_is_tried_at_all_its_addresses(monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    async def addresses(*_: Any) -> list[str]:
        return ["::1", "127.0.0.1"]

    monkeypatch.setattr(Network, "addresses", addresses)
    async with listening(Server(OK)) as server, transport() as http:
        assert (await http.fetch(f"some.host:{server.address.partition(':')[2]}", "/")).status == 200
    with pytest.raises(httpcore.ConnectError):
        await Network(None).connect_tcp("some.host", free_port)


@pytest.mark.usefixtures("steady")
async def test_a_failure_says_whether_another_attempt_may_help(free_port: int) -> None:
    async with listening(Server(silent)) as server:
        http = HttpTransport(0.2, random.Random(0))
        for address, is_temporary in ((f"127.0.0.1:{free_port}", True), (server.address, False), ("x", False)):
            with pytest.raises(TransportError) as failure:
                await http.fetch(address, "/")
            assert failure.value.is_temporary is is_temporary
        await http.close()
    assert issubclass(NotCalled, ValueError)


def test_the_key_on_which_a_handshake_was_broken_off_is_found() -> None:
    assert key_shown(StrangeKey("not accepted", "K")) == "K"
    assert key_shown(StrangeKey("no certificate of a node")) == ""
    assert key_shown(ssl.SSLError(1, "another")) is None
    assert key_shown(OSError()) is None


async def test_a_trusted_node_is_asked_and_another_one_is_named_by_its_key(tmp_path: Path) -> None:
    async with with_tls(tmp_path) as one:
        address = f"127.0.0.1:{one.port}"
        here = HttpTransport(60, random.Random(0), channel=Channel(one.key.__eq__))
        stranger = HttpTransport(60, random.Random(0), channel=Channel(lambda key: False))
        try:
            assert (await here.fetch(address, "/")).body == b"ok"
            with pytest.raises(StrangerThere) as refusal:
                await stranger.send(address, "/announce", b"all that this node knows", "application/json")
            knocked = await stranger.knock(address, "/", b"", "application/json")
        finally:
            await here.close()
            await stranger.close()
    assert refusal.value.key == one.key
    assert knocked.status == 200
    assert len(one.got) == 2  # what was fetched, and the knock: nothing of what was to be sent


async def test_a_node_without_tls_is_said_to_be_of_another_mesh() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.read(1))
        writer.write(OK)

    seen: list[bytes] = []
    async with listening(Server(refuse)) as server:
        here = HttpTransport(60, random.Random(0), channel=Channel(lambda key: True))
        try:
            with pytest.raises(PeerUnreachable, match="speaks no TLS"):
                await here.fetch(server.address, "/")
        finally:
            await here.close()
    assert seen == [b"\x16"]  # a handshake; nothing was sent in the clear


async def test_a_node_with_tls_is_said_to_want_it(tmp_path: Path) -> None:
    async with with_tls(tmp_path) as one:
        here = HttpTransport(60, random.Random(0))
        try:
            reply = await here.fetch(f"127.0.0.1:{one.port}", "/")
        except TransportError as exc:
            pytest.fail(f"expected words, got {exc}")
        finally:
            await here.close()
    assert reply.status == 403 and b"tls_needed" in reply.body


def test_tls_on_a_connection_that_was_reset_is_a_failure_and_nothing_for_the_log(run: Run) -> None:
    faults: list[dict[str, Any]] = []

    async def reset() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: faults.append(context))
        async with listening(Server(silent)) as server:
            connection = await connected(server)
            connection._transport.abort()  # as when the other side does; nobody has heard of it yet
            with pytest.raises(ConnectionResetError):
                await connection.start_tls(ssl.create_default_context(), "localhost")
            await asyncio.sleep(0)

    run(reset())
    assert faults == []
