"""Downloads over loopback: into place, on from where they broke off, and no further than they are wanted."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import (
    BodyTooLarge,
    FlnetError,
    ParamsRefused,
    PeerRefused,
    PeerTimeout,
    PeerUnreachable,
    RangeIgnored,
    TransportError,
    UnreadableBody,
)
from flnet.params.blob import Landing, PartLanding
from flnet.wire.http import Resumption
from flnet.wire.timeouts import STEP
from tests.wire.servers import NOT_READY, Server, Talk, listening, says, transport

BODY = random.Random(0).randbytes(10 * STEP + 7)
TAG = '"the-digest"'


def landing(limit: int = 10_000_000) -> Landing:
    return Landing(lambda head, total: len(head) >= 8, limit, 1000)


def answer(start: int = 0, body: bytes = BODY, tag: str = TAG) -> bytes:
    """The head for the bytes from `start` on."""
    head = f"HTTP/1.1 {206 if start else 200} X\r\nContent-Length: {len(body) - start}\r\nETag: {tag}\r\n"
    if start:
        head += f"Content-Range: bytes {start}-{len(body) - 1}/{len(body)}\r\n"
    return head.encode() + b"\r\n"


class Shop:
    """Serves BODY with ranges; each connection stops after the next of `cuts` bytes."""

    def __init__(self, *cuts: int) -> None:
        self.cuts, self.asked = list(cuts), list[str]()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines[1:] if line)
        wanted = fields.get("Range", "bytes=0-")
        self.asked.append(wanted)
        assert lines[0] == "GET /m HTTP/1.1"
        assert fields.get("If-Range", TAG) == TAG
        assert ("If-Range" in fields) == ("Range" in fields)
        start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        end = start + self.cuts.pop(0) if self.cuts else len(BODY)
        writer.write(answer(start) + BODY[start:end])
        await writer.drain()


async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 500 X\r\n\r\n")
    while True:
        writer.write(b"x" * 65_536)
        await writer.drain()


async def got(*talks: Talk | bytes, timeout: float = 60.0, into: Landing | None = None) -> bytes:
    into = into or landing()
    async with listening(Server(*talks)) as server, transport(timeout) as http:
        await http.download(server.address, "/m", into)
    return bytes(into.whole())


async def test_a_body_lands() -> None:
    shop = Shop()
    assert await got(shop) == BODY
    assert shop.asked == ["bytes=0-"]


async def test_an_empty_body_lands() -> None:
    assert await got(says(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) == b""


async def test_one_connection_serves_many_downloads() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(answer() + BODY)

    async with listening(Server(serve)) as server, transport() as http:
        for _ in range(3):
            into = landing()
            await http.download(server.address, "/m", into)
            assert into.whole() == BODY
        assert server.connections == 1


async def test_a_broken_download_goes_on_where_it_stopped() -> None:
    shop = Shop(STEP, 0, 3, 5 * STEP, 2 * STEP)
    assert await got(shop) == BODY
    came = [0, STEP, STEP, STEP + 3, 6 * STEP + 3, 8 * STEP + 3]
    assert shop.asked == [f"bytes={n}-" for n in came]


@pytest.mark.usefixtures("hasty")
async def test_each_attempt_that_moves_has_the_whole_timeout() -> None:
    """Ten breaks, which together take longer than the timeout."""
    shop = Shop(*[STEP] * 10)
    assert await got(shop) == BODY
    assert len(shop.asked) == 11


@pytest.mark.usefixtures("hasty")
async def test_attempts_that_move_next_to_nothing_end_with_the_timeout() -> None:
    shop, into = Shop(*[1] * 1000), landing()
    with pytest.raises(PeerUnreachable, match="cut off"):
        await got(shop, into=into)
    assert 2 <= len(shop.asked) <= 10
    assert into.received == len(shop.asked)


@pytest.mark.usefixtures("steady")
async def test_a_transfer_that_stands_still_is_continued_elsewhere_but_not_without_end() -> None:
    async def stalls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer() + BODY[: 2 * STEP])
        await asyncio.sleep(3600)

    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3600)

    shop = Shop()
    assert await got(stalls, shop, timeout=0.3) == BODY
    assert shop.asked == [f"bytes={2 * STEP}-"]
    into = landing()
    with pytest.raises(PeerTimeout, match="no answer within"):
        await got(stalls, silence, timeout=0.3, into=into)
    assert into.received == 2 * STEP


async def test_the_rest_is_asked_for_by_a_later_download_too() -> None:
    into, shop = landing(), Shop(4 * STEP)
    async with listening(Server(shop)) as server, transport(0.0) as http:
        with pytest.raises(TransportError):
            await http.download(server.address, "/m", into)
    into.expect(len(BODY))
    into.write(BODY[into.received : 3 * STEP])

    async def rest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert b"\r\nRange: bytes=%d-\r\n" % (3 * STEP) in await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(3 * STEP) + BODY[3 * STEP :])

    assert await got(rest, into=into) == BODY


# --- answers that are not what was asked for

FIRST = says(answer() + BODY[: 2 * STEP])
CHUNKED = b"HTTP/1.1 206 X\r\nTransfer-Encoding: chunked\r\nContent-Range: bytes %d-%d/%d\r\n\r\n"


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (answer(), "the whole body came, or another one"),
        (answer(2 * STEP, tag='"x"'), "changed while it was transferred"),
        (answer(3 * STEP), "but got 'bytes 49152-"),
        (b"HTTP/1.1 302 X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "the answer was 302"),
    ],
)
async def test_what_is_not_the_rest_ends_the_download(second: bytes, words: str) -> None:
    server = Server(FIRST, says(second))
    async with listening(server), transport() as http:
        with pytest.raises(TransportError, match=words) as caught:
            await http.download(server.address, "/m", landing())
    assert server.address in str(caught.value)
    assert server.connections == 2


async def test_a_body_of_unknown_size_is_refused() -> None:
    with pytest.raises(TransportError, match="does not say how large"):
        await got(says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"))


async def test_more_bytes_than_announced_are_refused() -> None:
    head = CHUNKED % (2 * STEP, len(BODY) - 1, len(BODY))
    too_many = b"%x\r\n" % len(BODY) + BODY + b"\r\n0\r\n\r\n"
    with pytest.raises(UnreadableBody, match="more came"):
        await got(FIRST, says(head + too_many))


async def test_fewer_bytes_than_announced_are_asked_for_again() -> None:
    head, shop = CHUNKED % (2 * STEP, len(BODY) - 1, len(BODY)), Shop()
    assert await got(FIRST, says(head + b"4\r\n" + BODY[2 * STEP : 2 * STEP + 4] + b"\r\n0\r\n\r\n"), shop) == BODY
    assert shop.asked == [f"bytes={2 * STEP + 4}-"]


async def test_nothing_more_is_asked_for_when_all_of_it_has_come() -> None:
    head = CHUNKED % (2 * STEP, len(BODY) - 1, len(BODY))
    unfinished = b"%x\r\n" % (len(BODY) - 2 * STEP) + BODY[2 * STEP :]  # and no end of the chunks
    assert await got(FIRST, says(head + unfinished), says(b"HTTP/1.1 416 X\r\n\r\n")) == BODY


async def test_refusals_of_the_peer_are_told() -> None:
    gone = b'{"error": "unknown_model", "message": "no model of that digest"}'
    with pytest.raises(PeerRefused, match="404 unknown_model: no model of that digest") as caught:
        await got(says(b"HTTP/1.1 404 X\r\nContent-Length: %d\r\n\r\n" % len(gone) + gone))
    assert (caught.value.answer_status, caught.value.error) == (404, "unknown_model")
    with pytest.raises(PeerRefused, match="416"):
        await got(FIRST, says(b"HTTP/1.1 416 X\r\nContent-Range: bytes */9\r\nContent-Length: 0\r\n\r\n"))
    late = b'HTTP/1.1 409 X\r\nContent-Length: 23\r\n\r\n{"error": "round_lost"}'
    with pytest.raises(PeerRefused, match="409 round_lost"):
        await got(says(*(late[n : n + 1] for n in range(len(late)))))
    with pytest.raises(PeerRefused, match="500 unknown"):
        await got(endless)


async def test_a_peer_that_is_not_ready_is_asked_again() -> None:
    assert await got(says(NOT_READY), says(NOT_READY), Shop()) == BODY


@pytest.mark.usefixtures("hasty")
async def test_a_peer_that_never_gets_ready_says_so() -> None:
    with pytest.raises(PeerRefused, match="not_ready"):
        await got(says(NOT_READY))


# --- what the landing does not want


async def test_what_the_landing_refuses_ends_the_download_at_once() -> None:
    closed = asyncio.Event()
    refusal = ParamsRefused("another shape")

    def refuse(head: memoryview, total: int) -> bool:
        raise refusal

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 65_536)
                await writer.drain()
        except ConnectionError:
            closed.set()

    server = Server(endless)
    async with listening(server), transport() as http:
        with pytest.raises(ParamsRefused) as caught:
            await http.download(server.address, "/m", Landing(refuse, 10_000_000, 1000))
        assert caught.value is refusal
        await asyncio.wait_for(closed.wait(), 60)
        assert server.connections == 1


async def test_a_body_that_is_too_large_is_not_read() -> None:
    into = landing(limit=len(BODY) - 1)
    with pytest.raises(BodyTooLarge):
        await got(Shop(), into=into)
    assert into.received == 0


# --- the end, and anything at all


async def test_a_download_under_way_ends_when_the_transport_closes() -> None:
    arrived = asyncio.Event()

    async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer() + BODY[: 2 * STEP])
        await writer.drain()
        arrived.set()
        await asyncio.sleep(3600)

    async with listening(Server(begin)) as server, transport(600) as http:
        request = asyncio.ensure_future(http.download(server.address, "/m", landing()))
        await arrived.wait()
        await http.close()
        with pytest.raises(PeerUnreachable, match="closed its connections"):
            await asyncio.wait_for(request, 60)
        with pytest.raises(PeerUnreachable, match="closed its connections"):
            await http.download(server.address, "/m", landing())


@pytest.mark.parametrize("seed", range(40))
async def test_any_bytes_end_in_one_of_our_errors_or_in_the_body(seed: int) -> None:
    """The right answer, with something overwritten, left out or put in."""
    rng = random.Random(seed)
    words = bytearray(answer() + BODY)
    for _ in range(rng.choice([1, 1, 3])):
        at = rng.choice([rng.randrange(80), rng.randrange(len(words))])
        words[at : at + rng.choice([0, 1, 20])] = rng.randbytes(rng.choice([0, 1, 20]))
    into = landing()
    try:
        await got(says(bytes(words)), timeout=0.2, into=into)
    except FlnetError:
        pass
    else:
        assert into.complete


# --- what is asked for, and which answers are the rest


def begun(etag: str = TAG, coding: str = "") -> tuple[Resumption, Landing]:
    """Four of ten bytes have come."""
    into = Landing(lambda head, total: False, 1000, 100, codings=("zstd",))
    rest = Resumption(into, (coding,) if coding else ())
    assert rest.headers() == ({"Accept-Encoding": coding} if coding else {})
    rest.accept(200, {"Content-Length": "10", "ETag": etag, "Content-Encoding": coding.upper()}.get)
    into.write(b"0123")
    return rest, into


def test_the_rest_of_the_same_version_is_asked_for() -> None:
    rest, into = begun()
    assert rest.headers() == {"Range": "bytes=4-", "If-Range": TAG}
    rest.accept(206, {"Content-Range": "bytes 4-9/10", "ETag": TAG}.get)
    rest.accept(206, {"Content-Range": "bytes 4-9/10"}.get)
    assert Resumption(into).headers() == {"Range": "bytes=4-"}  # of a download that others began


@pytest.mark.parametrize("etag", ["", 'W/"abc"', "abc", '"' + "x" * 300 + '"', '"a"b"'])
def test_a_tag_that_promises_nothing_is_not_sent_back(etag: str) -> None:
    assert begun(etag)[0].headers() == {"Range": "bytes=4-"}


@pytest.mark.parametrize(
    "stated",
    ["", "bytes 4-9/*", "bytes 3-9/10", "bytes 5-9/10", "bytes 4-8/10", "bytes 4-10/10", "bytes */10",
     "bytes 4-9/10, 4-9/10", "items 4-9/10", "bytes 9-4/10", "bytes 4-9/" + "9" * 30, "bytes ٤-9/10"],
)  # fmt: skip
def test_a_range_that_is_not_the_rest_is_refused(stated: str) -> None:
    rest, into = begun()
    with pytest.raises(TransportError, match="asked for the bytes from 4 on, but got"):
        rest.accept(206, {"Content-Range": stated, "ETag": TAG}.get)
    assert into.received == 4


def test_another_size_than_before_is_refused() -> None:
    with pytest.raises(UnreadableBody, match="10 bytes before and has 12 now"):
        begun()[0].accept(206, {"Content-Range": "bytes 4-11/12", "ETag": TAG}.get)


@pytest.mark.parametrize("length", ["", "-1", "1_0", "x", "٩", "9" * 30, "1, 1"])
def test_a_length_that_is_no_number_is_refused(length: str) -> None:
    with pytest.raises(TransportError, match="how large"):
        Resumption(landing()).accept(200, {"Content-Length": length}.get)


@pytest.mark.parametrize("status", [201, 204, 206, 301, 304, 307])
def test_what_is_no_whole_body_is_refused(status: int) -> None:
    with pytest.raises(TransportError, match=f"the answer was {status}"):
        Resumption(landing()).accept(status, {"Content-Length": "10", "Content-Range": "bytes 0-9/10"}.get)


@given(
    st.integers(200, 399), st.dictionaries(st.sampled_from(["Content-Length", "Content-Range", "ETag"]), st.text())
)
def test_any_head_is_accepted_or_refused(status: int, headers: dict[str, str]) -> None:
    rest, into = begun()
    try:
        rest.accept(status, headers.get)
    except FlnetError:
        pass
    else:
        assert into.total == 10


def test_each_request_says_which_forms_may_land() -> None:
    into = Landing(lambda head, total: False, 1000, 100, accepts=("safetensors", "int8-blocks"))
    rest, forms = Resumption(into), {"Flnet-Accepts": "safetensors, int8-blocks"}
    assert rest.headers() == forms
    rest.accept(200, {"Content-Length": "10", "ETag": TAG}.get)
    into.write(b"0123")
    assert rest.headers() == {**forms, "Range": "bytes=4-", "If-Range": TAG}


def test_the_rest_is_asked_for_in_the_coding_of_the_beginning() -> None:
    rest, into = begun(coding="zstd")
    assert (into.coding, into.received) == ("zstd", 4)
    assert rest.headers() == {"Accept-Encoding": "zstd", "Range": "bytes=4-", "If-Range": TAG}
    assert Resumption(into).headers() == {"Accept-Encoding": "zstd", "Range": "bytes=4-"}
    rest.accept(206, {"Content-Range": "bytes 4-9/10", "Content-Encoding": "zstd"}.get)
    with pytest.raises(UnreadableBody, match="coding 'identity', which was not asked for"):
        rest.accept(206, {"Content-Range": "bytes 4-9/10"}.get)


@pytest.mark.parametrize("stated", [{}, {"Content-Encoding": "identity"}])
def test_a_peer_that_does_not_compress_is_not_asked_for_it_again(stated: dict[str, str]) -> None:
    into = landing()
    rest = Resumption(into, ("zstd",))
    rest.accept(200, {"Content-Length": "10", **stated}.get)
    into.write(b"0123")
    assert into.coding is None
    assert rest.headers() == {"Range": "bytes=4-"}


@pytest.mark.parametrize("stated", ["gzip", "zstd, zstd", "br\n", "x" * 300])
def test_a_coding_that_nobody_asked_for_is_refused(stated: str) -> None:
    with pytest.raises(UnreadableBody, match="which was not asked for"):
        Resumption(landing()).accept(200, {"Content-Length": "10", "Content-Encoding": stated}.get)


class Parts:
    """Serves ranges of BODY; the first connection stops after `cut` bytes of its answer."""

    def __init__(self, cut: int | None = None, head: str = "") -> None:
        self.cut, self.head, self.asked = cut, head, list[str]()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        wanted = dict(line.split(": ", 1) for line in lines[1:] if line)["Range"]
        self.asked.append(wanted)
        first, last = map(int, wanted.removeprefix("bytes=").split("-"))
        last = min(last, len(BODY) - 1)
        stated = self.head or f"Content-Range: bytes {first}-{last}/{len(BODY)}"
        head = f"HTTP/1.1 206 X\r\nContent-Length: {last + 1 - first}\r\nETag: {TAG}\r\n{stated}\r\n\r\n"
        cut, self.cut = self.cut, None
        writer.write(head.encode() + BODY[first : last + 1][:cut])
        await writer.drain()


async def part(talk: Talk | bytes, first: int, stop: int, body_bytes: int | None = None) -> PartLanding:
    into = PartLanding(first, stop, 10_000_000, body_bytes)
    async with listening(Server(talk)) as server, transport() as http:
        await http.download(server.address, "/m", into)
    return into


@pytest.mark.parametrize(("first", "stop"), [(0, 10), (7, STEP), (9 * STEP, 11 * STEP), (0, 100 * STEP)])
async def test_a_part_lands_and_tells_the_size_of_the_body(first: int, stop: int) -> None:
    shop = Parts()
    landed = await part(shop, first, stop)
    assert bytes(landed.whole()) == BODY[first:stop]
    assert landed.body_bytes == len(BODY)
    assert shop.asked == [f"bytes={first}-{stop - 1}"]


async def test_a_broken_part_goes_on_where_it_stopped() -> None:
    shop = Parts(cut=3 * STEP)
    landed = await part(shop, STEP, 6 * STEP)
    assert bytes(landed.whole()) == BODY[STEP : 6 * STEP]
    assert shop.asked == [f"bytes={STEP}-{6 * STEP - 1}", f"bytes={4 * STEP}-{6 * STEP - 1}"]


async def test_who_knows_no_ranges_is_told_apart_from_who_sends_another_one() -> None:
    with pytest.raises(RangeIgnored, match="asked for the bytes from 0 on, but the whole body came"):
        await part(answer() + BODY, 0, STEP)
    other = Parts(head=f"Content-Range: bytes 0-{STEP - 1}/{len(BODY)}")
    with pytest.raises(TransportError, match="asked for the bytes from 7 on, but got"):
        await part(other, 7, STEP + 7)


async def test_a_part_of_a_body_of_another_size_is_refused() -> None:
    with pytest.raises(UnreadableBody, match="the body had 5 bytes before and has 163847 now"):
        await part(Parts(), 0, STEP, body_bytes=5)
    with pytest.raises(BodyTooLarge):
        await part(Parts(head=f"Content-Range: bytes 0-{STEP - 1}/10000001"), 0, STEP)
