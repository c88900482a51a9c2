"""Who is asked for a compressed body over HTTP: a peer that was measured and is slow, by who can read it."""

from __future__ import annotations

import asyncio
import random

import pytest

from flnet.blob import Landing
from flnet.transport.http import HttpTransport
from flnet.transport.pace import STEP
from tests.transport.servers import Server, listening, transport

SMALL, FULL = random.Random(0).randbytes(3 * STEP), random.Random(1).randbytes(4 * STEP)


class Shop:
    """Serves SMALL to who takes zstd, FULL to others, with ranges; connections stop after the next of `cuts`."""

    def __init__(self, *cuts: int) -> None:
        self.cuts, self.asked = list(cuts), list[tuple[str, str, str]]()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines[1:] if line)
        coding, wanted = fields["Accept-Encoding"], fields.get("Range", "bytes=0-")
        self.asked.append((coding, wanted, fields.get("If-Range", "")))
        body, more = (SMALL, "Content-Encoding: zstd\r\n") if coding == "zstd" else (FULL, "")
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
    assert (into.coding, bytes(into.whole())) == ("zstd", SMALL)
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
    assert (into.coding, into.joined, bytes(into.whole())) == ("zstd", True, SMALL)
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
