"""HTTP over loopback, to servers that answer, refuse, hang, break off and flood."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress

import httpx
import pytest
from hypercorn.asyncio import serve
from hypercorn.config import Config
from quart import Quart, Response, request

from flnet.errors import PeerTimeout, PeerUnreachable, TransportError
from flnet.transport.base import Reply
from flnet.transport.http import FAULTS, PIECE, HttpTransport, fault_of

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
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
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
        listener.close()
        for task in list(talks):
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)


@asynccontextmanager
async def transport(timeout: float = 5.0, most: int = 1_000_000) -> AsyncIterator[HttpTransport]:
    made = HttpTransport(timeout, random.Random(0), max_reply_bytes=most)
    try:
        yield made
    finally:
        await made.close()


async def ask(http: HttpTransport, address: str, body: bytes = b"{}") -> Reply:
    return await http.send(address, "/announce", body, "application/json")


@pytest.fixture
def bound() -> Iterator[socket.socket]:
    """Nobody listens yet, so connections are refused; and nobody else can take the port."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held


@pytest.fixture
def free_port(bound: socket.socket) -> int:
    return int(bound.getsockname()[1])


# --- what goes over the wire


async def test_a_body_arrives_and_the_reply_comes_back() -> None:
    async with listening(Server(OK)) as server, transport() as http:
        assert await ask(http, server.address, b"hello") == Reply(200, b"ok", "text/plain")
    head, body = server.requests[0]
    assert body == b"hello"
    lines = head.decode().lower().split("\r\n")
    assert lines[0] == "post /announce http/1.1"
    wanted = {"content-type: application/json", "content-length: 5", "accept-encoding: identity"}
    assert wanted <= set(lines)
    assert not any(line.startswith("transfer-encoding") for line in lines)


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE])
async def test_bodies_of_every_size_arrive_whole(size: int) -> None:
    body = random.Random(size).randbytes(size)
    async with listening(Server(OK)) as server, transport() as http:
        assert (await ask(http, server.address, body)).status == 200
    assert server.requests[0][1] == body


async def test_one_connection_serves_many_requests() -> None:
    async with listening(Server(OK)) as server, transport() as http:
        for _ in range(5):
            await ask(http, server.address)
        assert (server.connections, len(server.requests)) == (1, 5)


async def test_errors_and_redirects_of_the_peer_are_replies() -> None:
    for status in (b"404", b"422", b"500", b"503", b"307"):
        line = b"HTTP/1.1 " + status + b" X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 1\r\n\r\nx"
        async with listening(Server(line)) as server, transport() as http:
            assert (await ask(http, server.address)).status == int(status)
            assert len(server.requests) == 1


async def test_a_compressed_answer_is_not_unpacked() -> None:
    bomb = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00"
    async with listening(Server(bomb)) as server, transport() as http:
        assert (await ask(http, server.address)).body == b"\x1f\x8b\x08\x00"


async def test_proxies_of_the_environment_are_not_asked(monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port}")
    monkeypatch.setenv("no_proxy", "")
    async with listening(Server(OK)) as server, transport() as http:
        assert (await ask(http, server.address)).status == 200


async def test_many_at_once() -> None:
    async with listening(Server(OK)) as server, transport() as http:
        replies = await asyncio.gather(*(ask(http, server.address) for _ in range(90)))
    assert {reply.status for reply in replies} == {200}


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


async def test_a_peer_that_never_gets_ready_answers_for_itself() -> None:
    async with listening(Server(NOT_READY)) as server, transport(0.5) as http:
        reply = await ask(http, server.address)
    assert reply.status == 503
    assert 2 <= len(server.requests) <= 10


async def test_a_refused_connection_is_tried_until_the_budget_is_used_up(free_port: int) -> None:
    async with transport(0.5) as http:
        with pytest.raises(PeerUnreachable, match=f"127.0.0.1:{free_port}: no connection"):
            await ask(http, f"127.0.0.1:{free_port}")


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


async def test_an_answer_that_always_breaks_off_is_unreachable() -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it")

    async with listening(Server(break_off)) as server, transport(0.5) as http:
        with pytest.raises(PeerUnreachable, match="cut off"):
            await ask(http, server.address)


# --- what does not answer


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(PIECE):
        pass


async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(3600)


async def trickle_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"H")
        await asyncio.sleep(0.02)


async def trickle_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        writer.write(b"x")
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("talk", [silent, deaf, trickle_body])
@pytest.mark.parametrize("size", [2, 20_000_000])
async def test_a_peer_that_never_answers_is_a_timeout_asked_once(talk: Talk, size: int) -> None:
    async with listening(Server(talk)) as server, transport(0.3) as http:
        with pytest.raises(PeerTimeout, match=r"no answer within 0\.3 s"):
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

    async with listening(Server(flood)) as server, transport(most=1_000_000) as http:
        with pytest.raises(TransportError, match="more than 1000000 bytes of answer"):
            await ask(http, server.address)
        assert server.connections == 1


async def test_an_answer_at_the_limit_is_read() -> None:
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1000
    async with listening(Server(whole)) as server, transport(most=1000) as http:
        assert len((await ask(http, server.address)).body) == 1000


async def test_a_slow_transfer_that_moves_is_not_cut_off() -> None:
    """24 pieces each way, one every 0.05 s: both directions take four times as long as the timeout."""

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for _ in range(24):
            await reader.readexactly(PIECE)
            await asyncio.sleep(0.05)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (24 * PIECE))
        for _ in range(24):
            writer.write(b"x" * PIECE)
            await writer.drain()
            await asyncio.sleep(0.05)

    async with listening(Server(slow)) as server, transport(0.3, most=100_000_000) as http:
        assert len((await ask(http, server.address, b"x" * 24 * PIECE)).body) == 24 * PIECE
        assert server.connections == 1


# --- reading without a body


async def test_fetch_gets_in_one_attempt() -> None:
    async def get(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"GET /info HTTP/1.1\r\n")
        assert b"content-" not in head.lower()
        writer.write(NOT_READY)

    async with listening(Server(get)) as server, transport() as http:
        assert (await http.fetch(server.address, "/info")).status == 503
        assert server.connections == 1


async def test_fetch_fails_as_send_does(free_port: int) -> None:
    async with listening(Server(silent)) as server, transport(0.2) as http:
        with pytest.raises(PeerTimeout):
            await http.fetch(server.address, "/info")
        with pytest.raises(PeerUnreachable, match="no connection"):
            await http.fetch(f"127.0.0.1:{free_port}", "/info")
        await http.close()
        with pytest.raises(PeerUnreachable, match="closed"):
            await http.fetch(server.address, "/info")


# --- addresses that are none, and the end


@pytest.mark.parametrize(
    "address",
    ["", "127.0.0.1", ":4000", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:99999", "127.0.0.1:-1", "a b:80",
     "a/b:80", "127.0.0.1:²", "127.0.0.1:0", "user@host:80", "x" * 300 + ":80",
     "é" * 70 + ":80", "a\x00b:80", "[::1:80", "does-not-exist.invalid:80"],
)  # fmt: skip
async def test_what_is_no_address_is_unreachable(address: str) -> None:
    async with transport(0.2) as http:
        with pytest.raises(PeerUnreachable):
            await ask(http, address)


async def test_an_address_of_ip_version_6_is_asked() -> None:
    server = Server(OK)
    try:
        listener = await asyncio.start_server(server.serve, "::1", 0)
    except OSError:
        pytest.skip("no IPv6 on this machine")
    async with listener, transport() as http:
        port = listener.sockets[0].getsockname()[1]
        assert (await ask(http, f"[::1]:{port}")).status == 200
        await http.close()


async def test_nothing_is_sent_after_the_end() -> None:
    async with listening(Server(OK)) as server, transport() as http:
        await ask(http, server.address)
        await http.close()
        await http.close()
        with pytest.raises(PeerUnreachable, match="closed its connections"):
            await ask(http, server.address)
        assert len(server.requests) == 1


async def test_a_request_under_way_ends_when_the_transport_closes() -> None:
    arrived = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader)
        arrived.set()
        await asyncio.sleep(3600)

    async with listening(Server(wait)) as server, transport(30) as http:
        request = asyncio.ensure_future(ask(http, server.address))
        await arrived.wait()
        await http.close()
        with pytest.raises(PeerUnreachable):
            await asyncio.wait_for(request, 5)


# --- the table of faults


def leaves(kind: type[httpx.TransportError] = httpx.TransportError) -> set[type[httpx.TransportError]]:
    children = kind.__subclasses__()
    return set().union(*(leaves(child) for child in children)) if children else {kind}


def test_every_failure_that_httpx_knows_has_its_line() -> None:
    assert set(FAULTS) == leaves()


def test_every_failure_is_one_of_ours() -> None:
    for kind in leaves():
        fault = fault_of(kind("x"))
        assert issubclass(fault.error, TransportError)
        assert issubclass(fault.error, PeerTimeout) or not kind.__name__.endswith(("ReadTimeout", "WriteTimeout"))

    class FromTheFuture(httpx.TransportError):
        pass

    class OfReading(httpx.ReadError):
        pass

    assert fault_of(FromTheFuture("x")).error is PeerUnreachable
    assert fault_of(OfReading("x")) == FAULTS[httpx.ReadError]


# --- with the server that nodes use


async def test_against_quart_on_hypercorn() -> None:
    app = Quart(__name__)

    @app.post("/training/model_params")
    async def take() -> Response:
        body = await request.get_data()
        return Response(body[::-1], 201, content_type="application/x-test")

    @app.get("/health")
    async def health() -> str:
        return request.method

    config, stop = Config(), asyncio.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    config.bind, config.errorlog = [f"fd://{listener.detach()}"], None
    server = asyncio.ensure_future(serve(app, config, shutdown_trigger=stop.wait))
    body = random.Random(0).randbytes(2_000_000)
    async with transport(30, most=3_000_000) as http:
        for _ in range(2):
            reply = await http.send(address, "/training/model_params", body, "application/x-test")
            assert reply == Reply(201, body[::-1], "application/x-test")
        assert (await http.fetch(address, "/health")).body == b"GET"
    stop.set()
    await server
