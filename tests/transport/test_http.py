"""HTTP over loopback: what goes over the wire, addresses, the end, and the table of faults."""

from __future__ import annotations

import asyncio
import random
import socket

import httpx
import pytest
from hypercorn.asyncio import serve
from hypercorn.config import Config
from quart import Quart, Response, request

from flnet.errors import PeerTimeout, PeerUnreachable, TransportError
from flnet.transport.base import Reply
from flnet.transport.http import FAULTS, PIECE, fault_of
from tests.transport.servers import NOT_READY, OK, Server, ask, listening, silent, transport

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
     "é" * 70 + ":80", "a\x00b:80", "[::1:80"],
)  # fmt: skip
async def test_what_is_no_address_is_unreachable(address: str) -> None:
    async with transport(0.2) as http:
        with pytest.raises(PeerUnreachable):
            await ask(http, address)


async def test_a_name_that_nobody_has_is_not_reached() -> None:
    async with transport(0.2) as http:
        with pytest.raises((PeerUnreachable, PeerTimeout), match=r"does-not-exist\.invalid:80"):
            await ask(http, "does-not-exist.invalid:80")


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
