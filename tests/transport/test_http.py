"""HTTP over loopback: what goes over the wire, addresses, and the end."""

from __future__ import annotations

import asyncio
import random
import socket
from typing import Any

import aiohttp
import pytest
from hypercorn.asyncio import serve
from hypercorn.config import Config
from quart import Quart, Response, request

from flnet.blob import PIECE, Blob
from flnet.errors import PeerTimeout, PeerUnreachable
from flnet.transport.base import Reply
from flnet.transport.outgoing import SMALL
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


async def test_a_blob_leaves_in_pieces_and_with_its_size() -> None:
    large = random.Random(0).randbytes(PIECE + 1)
    blob = Blob([b"head", memoryview(large), b"", memoryview(bytearray(3 * PIECE))])
    async with listening(Server(OK)) as server, transport() as http:
        for body in (blob, Blob([b"ab", b"c"]), Blob([])):
            assert (await http.send(server.address, "/x", body, "application/x-test")).body == b"ok"
        assert server.connections == 1
    heads, bodies = zip(*server.requests, strict=True)
    assert bodies == (bytes(blob), b"abc", b"")
    for head, sent in zip(heads, bodies, strict=True):
        assert b"\r\ncontent-length: %d\r\n" % len(sent) in head.lower()
        assert b"transfer-encoding" not in head.lower()


@pytest.mark.parametrize("size", [0, 300, 31_000, SMALL])
async def test_a_small_body_leaves_together_with_its_head(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One write: on the way, one packet where it fits, and no waiting between head and body."""
    writes: list[int] = []

    class Counting(aiohttp.http_writer.StreamWriter):
        def _write(self, chunk: Any) -> None:
            writes.append(len(chunk))
            super()._write(chunk)

        def _writelines(self, chunks: Any) -> None:
            writes.append(sum(map(len, chunks)))
            super()._writelines(chunks)

    monkeypatch.setattr("aiohttp.client_reqrep.StreamWriter", Counting)
    async with listening(Server(OK)) as server, transport() as http:
        await ask(http, server.address, b"x" * size)
    assert writes == [len(server.requests[0][0]) + size]


async def test_what_the_peer_sets_is_not_sent_back() -> None:
    cookie = OK.replace(b"\r\n", b"\r\nSet-Cookie: a=b\r\n", 1)
    async with listening(Server(cookie)) as server, transport() as http:
        await ask(http, server.address)
        await ask(http, server.address)
    assert not any(b"cookie" in head.lower() for head, _ in server.requests)


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
    """Nobody is answered before all have asked."""
    together = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader)
        if len(server.requests) == 150:
            together.set()
        await together.wait()
        writer.write(OK)

    async with listening(Server(wait)) as server, transport(30) as http:
        replies = await asyncio.gather(*(ask(http, server.address) for _ in range(150)))
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


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/jobs/A B/history?last=100", b"/jobs/A%20B/history?last=100"),
        ("/jobs/\u00e4?a=1&b= x\r\n", b"/jobs/%C3%A4?a=1&b=%20x%0D%0A"),
        ("/a%3Fb", b"/a%253Fb"),
    ],
)
async def test_a_query_stays_one_and_all_else_is_quoted(path: str, asked: bytes) -> None:
    async with listening(Server(OK)) as server, transport() as http:
        await http.fetch(server.address, path)
        assert server.requests[0][0].startswith(b"GET " + asked + b" HTTP/1.1\r\n")


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


async def test_an_address_is_resolved_anew_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container that is started anew has another address under the same name."""
    asked: list[str] = []
    resolve = aiohttp.ThreadedResolver.resolve

    async def remember(self: aiohttp.ThreadedResolver, host: str, *more: Any, **others: Any) -> Any:
        asked.append(host)
        return await resolve(self, "127.0.0.1", *more, **others)

    monkeypatch.setattr(aiohttp.ThreadedResolver, "resolve", remember)
    closing = OK.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
    async with listening(Server(closing)) as server, transport() as http:
        port = server.address.partition(":")[2]
        for host in ("node_1", "node_1", "127.0.0.1"):
            assert (await ask(http, f"{host}:{port}")).body == b"ok"
    assert asked == ["node_1", "node_1"]


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


async def test_a_name_that_is_still_looked_up_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asyncio.Event()

    async def never(self: aiohttp.ThreadedResolver, *more: Any, **others: Any) -> Any:
        asked.set()
        await asyncio.sleep(3600)

    monkeypatch.setattr(aiohttp.ThreadedResolver, "resolve", never)
    async with transport(60) as http:
        request = asyncio.ensure_future(ask(http, "node_1:80"))
        await asked.wait()
        await http.close()
        with pytest.raises(PeerUnreachable, match="closed its connections"):
            await asyncio.wait_for(request, 5)
