"""Threat 8: a request whose end is stated in two ways, which a proxy and the node might find at different places."""

from __future__ import annotations

import asyncio

import pytest

from tests.threats.conftest import Serve

HIDDEN = b"GET /info HTTP/1.1\r\nHost: localhost\r\n\r\n"
BODY = b"0\r\n\r\n"
BOTH = [
    b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n" % len(BODY + HIDDEN),
    b"Transfer-Encoding: chunked\r\nContent-Length: %d\r\n" % len(BODY),
    b"transfer-encoding: CHUNKED\r\ncontent-length: 0\r\n",
]


@pytest.mark.parametrize("headers", BOTH)
@pytest.mark.parametrize("path", [b"/announce", b"/training/trigger", b"/nothing"])
async def test_a_body_of_two_sizes_ends_the_connection(serving: Serve, headers: bytes, path: bytes) -> None:
    head = b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    async with serving() as port, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head + headers + b"\r\n" + BODY + HIDDEN)
        answers = await reader.read()
        writer.close()
    assert answers.startswith(b"HTTP/1.1 400")
    assert b"the size of the body is stated in two ways" in answers
    assert answers.count(b"HTTP/1.1") == 1


async def test_chunks_of_an_older_version_are_refused(serving: Serve) -> None:
    async with serving() as port, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /announce HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + BODY + HIDDEN)
        answers = await reader.read()
        writer.close()
    assert answers.startswith(b"HTTP/1.1 400")
    assert b"the size of the body is stated in two ways" in answers
    assert answers.count(b"HTTP/1.1") == 1
