"""HTTP over loopback: what goes over the wire, addresses, and the end."""

from __future__ import annotations

import asyncio
import random
import socket
from typing import Any

import httpcore
import pytest

from flnet.errors import PeerTimeout, PeerUnreachable, TransportError
from flnet.networks import OWN_MACHINE, PRIVATE, Networks
from flnet.params.blob import PIECE, Blob, Landing
from flnet.wire.connections import Network, NotCalled
from flnet.wire.http import (
    MOST_AT_ONCE,
    OTHER,
    SMALL,
    CutOff,
    HttpTransport,
    PeerUrls,
    because,
    fault_of,
    post,
)
from flnet.wire.timeouts import STEP
from flnet.wire.transport import Reply
from tests.wire.servers import NOT_READY, OK, Server, ask, listening, silent, transport

MEGA = 1024 * 1024

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


@pytest.mark.parametrize("size", [0, 300, 31_000])
async def test_a_small_body_leaves_together_with_its_head(size: int) -> None:
    """One write: on the way, one packet where it fits, and no waiting between head and body."""
    reads: list[int] = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(1_000_000):
            reads.append(len(part))
            writer.write(OK)

    async with listening(Server(note)) as server, transport() as http:
        await ask(http, server.address, b"x" * size)
    assert len(reads) == 1 and reads[0] > size


async def test_what_the_peer_sets_is_not_sent_back() -> None:
    cookie = OK.replace(b"\r\n", b"\r\nSet-Cookie: a=b\r\n", 1)
    async with listening(Server(cookie)) as server, transport() as http:
        await ask(http, server.address)
        await ask(http, server.address)
    assert not any(b"cookie" in head.lower() for head, _ in server.requests)


async def test_errors_and_redirects_of_the_peer_are_replies() -> None:
    for status in (b"404", b"422", b"500", b"503", b"307"):
        line = b"HTTP/1.1 " + status + b" X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 1\r\n\r\nx"
        async with listening(Server(line)) as server, transport() as http:
            assert (await ask(http, server.address)).status == int(status)
            assert len(server.requests) == 1


@pytest.mark.parametrize(
    "banner", [b"SSH-2.0-SECRET\r\n\r\n", b"HTTP/1.1 SECRET\r\n\r\n", b"HTTP/1.1 200 OK\r\nSECRET\r\n\r\n"]
)
async def test_what_is_no_http_is_not_quoted(banner: bytes) -> None:
    async with listening(Server(banner)) as server, transport() as http:
        with pytest.raises(PeerUnreachable, match=r"the answer is no HTTP$"):
            await http.fetch(server.address, "/")


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("begin", "again"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
        (b"", b"HTTP/1.1 103 Early Hints\r\n" + b"Link: </>\r\n" * 500 + b"\r\n"),
        (CHUNKED, b"1\r\na\r\n" * 100),
        (CHUNKED, b"1;" + b"x" * 10_000 + b"\r\na\r\n"),
        (CHUNKED + b"0\r\n", b"Trailer: x\r\n" * 100),
    ],
)
async def test_an_answer_that_is_mostly_framing_is_not_read_on(begin: bytes, again: bytes) -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader)
        writer.write(begin)
        while True:
            writer.write(again)
            await writer.drain()

    server = Server(endless)
    async with asyncio.timeout(60), listening(server), transport(600) as http:
        with pytest.raises(PeerUnreachable, match=r"the answer is no HTTP|the answer was cut off"):
            await http.fetch(server.address, "/", MEGA)


async def test_a_body_in_small_chunks_comes_whole() -> None:
    body = b"40\r\n" + bytes(64) + b"\r\n"
    answer = CHUNKED + body * (MEGA // 64) + b"0\r\n\r\n"
    async with listening(Server(answer)) as server, transport() as http:
        for _ in range(3):
            assert len((await http.fetch(server.address, "/", MEGA)).body) == MEGA


async def test_a_compressed_answer_is_not_unpacked() -> None:
    bomb = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00"
    async with listening(Server(bomb)) as server, transport() as http:
        assert (await ask(http, server.address)).body == b"\x1f\x8b\x08\x00"


async def test_proxies_of_the_environment_are_not_asked(monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port}")
    monkeypatch.setenv("no_proxy", "")
    async with listening(Server(OK)) as server, transport() as http:
        assert (await ask(http, server.address)).status == 200


async def test_many_at_once_share_a_bounded_number_of_connections() -> None:
    """Nobody is answered before as many have asked as may."""
    together = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await server.read(reader):
            if len(server.requests) == MOST_AT_ONCE:
                together.set()
            await together.wait()
            writer.write(OK)

    async with listening(Server(wait)) as server, transport(30) as http:
        replies = await asyncio.gather(*(ask(http, server.address) for _ in range(150)))
        assert server.connections == MOST_AT_ONCE
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


@pytest.mark.usefixtures("steady")
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


async def test_an_address_is_resolved_again_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container that is restarted has another address under the same name."""
    asked: list[str] = []

    def resolve(host: str, *_: Any, **__: Any) -> Any:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
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

    async with listening(Server(wait)) as server, transport(600) as http:
        request = asyncio.ensure_future(ask(http, server.address))
        await arrived.wait()
        await http.close()
        with pytest.raises(PeerUnreachable):
            await asyncio.wait_for(request, 60)


# --- with the server that nodes use


async def test_a_name_that_is_still_looked_up_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asyncio.Event()

    async def never(*_: Any) -> Any:
        asked.set()
        await asyncio.sleep(3600)

    monkeypatch.setattr(Network, "addresses", never)
    async with transport(600) as http:
        request = asyncio.ensure_future(ask(http, "node_1:80"))
        await asked.wait()
        await http.close()
        with pytest.raises(PeerUnreachable, match="closed its connections"):
            await asyncio.wait_for(request, 60)


PACKED_BYTES, FULL = random.Random(0).randbytes(3 * STEP), random.Random(1).randbytes(4 * STEP)


class Shop:
    """Serves PACKED_BYTES to who takes zstd, FULL to others, with ranges; connections stop after the next of `cuts`."""

    def __init__(self, *cuts: int) -> None:
        self.cuts, self.asked = list(cuts), list[tuple[str, str, str]]()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines[1:] if line)
        coding, wanted = fields["Accept-Encoding"], fields.get("Range", "bytes=0-")
        self.asked.append((coding, wanted, fields.get("If-Range", "")))
        body, more = (PACKED_BYTES, "Content-Encoding: zstd\r\n") if coding == "zstd" else (FULL, "")
        start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        end = start + self.cuts.pop(0) if self.cuts else len(body)
        if start:
            more += f"Content-Range: bytes {start}-{len(body) - 1}/{len(body)}\r\n"
        head = f"HTTP/1.1 {206 if start else 200} X\r\nContent-Length: {len(body) - start}\r\n"
        writer.write(f'{head}ETag: "it-{coding}"\r\n{more}\r\n'.encode() + body[start:end])
        await writer.drain()


def paced(http: HttpTransport, address: str, rate: float | None) -> None:
    if rate is not None:
        http._pace.measured(address, 1_000_000, 1_000_000 / rate)


async def got(shop: Shop, rate: float | None, *codings: str) -> Landing:
    into = Landing(lambda head, total: True, 10**6, 1000, codings=codings)
    async with listening(Server(shop)) as server, transport() as http:
        paced(http, server.address, rate)
        await http.download(server.address, "/m", into)
    return into


async def test_a_slow_peer_is_asked_for_a_compressed_body() -> None:
    shop = Shop()
    into = await got(shop, 1e6, "zstd")
    assert (into.coding, bytes(into.whole())) == ("zstd", PACKED_BYTES)
    assert shop.asked == [("zstd", "bytes=0-", "")]


@pytest.mark.parametrize(("rate", "codings"), [(1e9, ["zstd"]), (None, ["zstd"]), (1e6, [])])
async def test_a_fast_or_unknown_peer_is_not_nor_any_by_who_cannot_read_it(
    rate: float | None, codings: list[str]
) -> None:
    shop = Shop()
    into = await got(shop, rate, *codings)
    assert (into.coding, bytes(into.whole())) == (None, FULL)
    assert shop.asked == [("identity", "bytes=0-", "")]


async def test_a_broken_transfer_goes_on_in_the_coding_that_it_began_in() -> None:
    shop = Shop(STEP, STEP)
    into = await got(shop, 1e6, "zstd")
    assert (into.coding, into.joined, bytes(into.whole())) == ("zstd", True, PACKED_BYTES)
    tag = '"it-zstd"'
    assert shop.asked == [
        ("zstd", "bytes=0-", ""),
        ("zstd", f"bytes={STEP}-", tag),
        ("zstd", f"bytes={2 * STEP}-", tag),
    ]


async def test_one_that_began_before_the_peer_was_slow_goes_on_without() -> None:
    shop, into = Shop(STEP), Landing(lambda head, total: True, 10**6, 1000, codings=("zstd",))
    async with listening(Server(shop)) as server, transport() as http:
        download = asyncio.create_task(http.download(server.address, "/m", into))
        while not shop.asked:
            await asyncio.sleep(0)
        paced(http, server.address, 1.0)
        await download
    assert (into.coding, bytes(into.whole())) == (None, FULL)
    assert shop.asked[1:] == [("identity", f"bytes={STEP}-", '"it-identity"')]


@pytest.mark.parametrize(
    ("exc", "error", "words", "again"),
    [
        (httpcore.ConnectError(), PeerUnreachable, "no connection", True),
        (httpcore.ConnectTimeout(), PeerUnreachable, "no connection in time", True),
        (httpcore.ReadError(), PeerUnreachable, "the connection broke before the answer was complete", True),
        (httpcore.RemoteProtocolError(), PeerUnreachable, "the answer is no HTTP", True),
        (httpcore.ReadTimeout(), PeerTimeout, "no answer in time", False),
        (CutOff(), PeerUnreachable, "the answer was cut off", True),
        (NotCalled(), PeerUnreachable, "no request goes there", False),
        (UnicodeError(), PeerUnreachable, "no address of HTTP", False),
        (ConnectionResetError(), PeerUnreachable, "the connection broke", True),
        (KeyError(), PeerUnreachable, "the request failed", False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_the_nearest_class_decides(exc: Exception, error: type[TransportError], words: str, again: bool) -> None:
    assert fault_of(exc) == (error, words, again)


def test_every_failure_that_httpcore_raises_has_its_line() -> None:
    kinds = [kind for name in httpcore.__all__ if isinstance(kind := getattr(httpcore, name), type)]
    failures = {kind for kind in kinds if issubclass(kind, Exception)}
    unused = {httpcore.ProxyError, httpcore.UnsupportedProtocol, httpcore.ConnectionNotAvailable}
    assert {kind for kind in failures if fault_of(kind()) is OTHER} == unused


def test_words_of_others_stay_short_and_on_one_line() -> None:
    assert because(CutOff()) == ""
    assert because(OSError(111, "Connect call failed")) == " (Connect call failed)"
    assert because(ValueError("a\r\n\tb\x1b[31m")) == " (a\\r\\n\\tb\\x1b[31m)"
    assert len(because(ValueError("x" * 10_000))) < 210


LAN = Networks([*PRIVATE, *OWN_MACHINE], named=["a.peer"])
HOME = Networks(OWN_MACHINE)


def test_an_address_becomes_a_url() -> None:
    asked = PeerUrls(LAN).url("10.0.0.8:4000", "/a b?last=1&x=é")
    assert (asked.host, asked.port, asked.target) == (b"10.0.0.8", 4000, b"/a%20b?last=1&x=%C3%A9")
    asked = PeerUrls(None, tls=True).url("[2001:db8::1]:80", "/")
    assert (asked.scheme, asked.host, asked.port, asked.target) == (b"https", b"2001:db8::1", 80, b"/")


@pytest.mark.parametrize("address", ["8.8.8.8:4000", "169.254.169.254:4000", "10.0.0.8:22", "[fe80::1]:4000"])
def test_an_address_outside_is_none(address: str) -> None:
    with pytest.raises(NotCalled):
        PeerUrls(LAN).url(address, "/")


@pytest.mark.parametrize("host", ["8.8.8.8", "169.254.169.254", "fe80::1", "::ffff:10.0.0.8"])
async def test_no_connection_is_opened_to_an_address_outside(host: str) -> None:
    with pytest.raises(NotCalled):
        await Network(LAN).connect_tcp(host, 4000)


def resolved(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """From now on every name has these addresses."""

    def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
        kinds = [socket.AF_INET6 if ":" in address else socket.AF_INET for address in addresses]
        return [
            (kind, socket.SOCK_STREAM, 6, "", (address, 4000) if kind is socket.AF_INET else (address, 4000, 0, 0))
            for kind, address in zip(kinds, addresses, strict=True)
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


async def test_of_the_addresses_of_a_name_only_allowed_ones_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved(monkeypatch, "169.254.169.254", "10.0.0.8", "8.8.8.8")
    assert await Network(LAN).addresses("some.host", 4000) == ["10.0.0.8"]
    assert await Network(LAN).addresses("a.peer", 4000) == ["10.0.0.8", "8.8.8.8"]  # a person named it


async def test_a_name_without_an_allowed_address_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved(monkeypatch, "127.0.0.1", "169.254.169.254")
    with pytest.raises(NotCalled, match=r"127\.0\.0\.1: the name is one of this machine; 169"):
        await Network(LAN).addresses("some.host", 4000)
    assert len(await Network(None).addresses("some.host", 4000)) == 2


@pytest.mark.parametrize("name", ["localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1"])
async def test_no_spelling_of_this_machine_gets_past(name: str) -> None:
    async def count(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        connected.append(name)

    connected: list[str] = []
    server = await asyncio.start_server(count, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport = HttpTransport(60, random.Random(0), networks=LAN)
    with pytest.raises(PeerUnreachable, match=r"no request goes there|no address of HTTP"):
        await transport.send(f"{name}:{port}", "/", b"{}", "application/json")
    await transport.close()
    server.close()
    assert connected == []


# outgoing


def test_small_bodies_go_whole_and_large_ones_in_pieces() -> None:
    assert post(Blob([b"ab", b"c"]), "t").body == b"abc"
    large = post(b"x" * (SMALL + 1), "t")
    assert isinstance(large.body, Blob)
    assert large.headers == {"Content-Type": "t", "Content-Length": str(SMALL + 1)}
