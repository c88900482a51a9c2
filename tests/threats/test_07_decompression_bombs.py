"""Threat 7: a few bytes that become many. In requests nothing is unpacked; of answers no more than is allowed."""

from __future__ import annotations

import asyncio
import gzip
import random
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import zstandard

from flnet.errors import BodyTooLarge, FlnetError, UnreadableBody
from flnet.params.blob import Landing
from flnet.wire.binary_codec import BINARY_TYPE, HEAD_LIMIT, ZSTD, decompress, read_head
from flnet.wire.http import HttpTransport
from tests.processes.harness import RealNode
from tests.threats.stranger import MEGA, NODE_ROUTES, peak, post, target

LIMIT = 4 * MEGA
ZEROS = bytes(64 * MEGA)
GZIP = gzip.compress(ZEROS)
ZSTANDARD = zstandard.compress(ZEROS)


def lying() -> bytes:
    """A frame that says it holds one megabyte, of which there are 64."""
    size = zstandard.frame_content_size(ZSTANDARD)
    assert size == 64 * MEGA
    return ZSTANDARD.replace(size.to_bytes(4, "little"), MEGA.to_bytes(4, "little"), 1)


@asynccontextmanager
async def answering(body: bytes, coding: str) -> AsyncIterator[str]:
    """A peer that answers everything with this body."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {BINARY_TYPE}\r\nContent-Encoding: {coding}\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.fixture
async def transport() -> AsyncIterator[HttpTransport]:
    made = HttpTransport(60.0, random.Random(0))
    yield made
    await made.close()


@pytest.fixture(autouse=True)
def _lean() -> Iterator[None]:
    """Nothing here takes more memory than what is allowed, and some."""
    tracemalloc.start()
    yield
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 32 * MEGA


def landing() -> Landing:
    return Landing(lambda head, total: read_head(head, total) is not None, LIMIT, HEAD_LIMIT, codings=(ZSTD,))


@pytest.mark.parametrize(("body", "coding"), [(GZIP, "gzip"), (ZSTANDARD, ZSTD), (GZIP, "deflate"), (GZIP, "br")])
async def test_a_small_answer_stays_small(transport: HttpTransport, body: bytes, coding: str) -> None:
    async with answering(body, coding) as address:
        reply = await transport.send(address, "/announce", b"{}", "application/json")
    assert reply.body == body


@pytest.mark.parametrize(("body", "coding"), [(GZIP, "gzip"), (ZSTANDARD, ZSTD), (lying(), ZSTD)])
async def test_a_model_that_would_be_huge_is_refused(transport: HttpTransport, body: bytes, coding: str) -> None:
    into = landing()
    async with answering(body, coding) as address:
        with pytest.raises(FlnetError):
            await fetched(transport, address, into)


async def fetched(transport: HttpTransport, address: str, into: Landing) -> None:
    """As a node fetches a model."""
    await transport.download(address, "/training/model_params/x", into)
    decompress(into.whole(), Landing(lambda head, total: True, LIMIT, HEAD_LIMIT))


def test_a_frame_is_believed_neither_in_what_it_says_nor_in_what_it_holds() -> None:
    with pytest.raises(BodyTooLarge):
        decompress(memoryview(ZSTANDARD), landing())
    with pytest.raises(UnreadableBody):
        decompress(memoryview(lying()), Landing(lambda head, total: True, LIMIT, HEAD_LIMIT))


@pytest.mark.slow
def test_a_request_is_not_unpacked(tmp_path_factory: pytest.TempPathFactory) -> None:
    with target(tmp_path_factory.mktemp("bombs")) as node:
        before = peak(node)
        for path in NODE_ROUTES:
            for body, coding in ((GZIP, "gzip"), (ZSTANDARD, "zstd")):
                assert refused(node, path, body, coding)
        assert peak(node) - before < 32 * MEGA


def refused(node: RealNode, path: str, body: bytes, coding: str) -> bool:
    for content_type in ("application/json", BINARY_TYPE):
        status, error = post(node, path, body, content_type, Content_Encoding=coding)
        assert 400 <= status < 500
        assert error
    return True
