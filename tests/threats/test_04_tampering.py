"""Somebody on the path changes what nodes that share a key say to each other, in either direction.

Signatures keep them from doing it; that nobody reads along takes a tunnel or a network of one's own.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from flnet.errors import PeerRefused, TransportError
from flnet.web.app import create_app
from flnet.wire.http import HttpTransport
from tests.security.keypairs import TestKey, seal, verifier
from tests.web.conftest import SETTINGS, served
from tests.web.fake_node import FakeNode

JSON = "application/json"
BODY = json.dumps({"iAm": {"id": "a", "ip": "127.0.0.1", "port": 4001}, "myKnownPeers": []}).encode()
Change = Callable[[bytes], bytes]


def nothing(what: bytes) -> bytes:
    return what


class OnThePath:
    """Hands bytes on between a sender and a node, changed as a test says."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.request: Change = nothing
        self.answer: Change = nothing

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self.port)

        async def hand_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter, which: str) -> None:
            while some := await source.read(65_536):
                change: Change = getattr(self, which)
                sink.write(change(some))
                await sink.drain()
            sink.close()

        await asyncio.gather(
            hand_on(reader, back, "request"), hand_on(there, writer, "answer"), return_exceptions=True
        )


class Keyed(FakeNode):
    """A twin node with a key, which remembers what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.signing = verifier()


@asynccontextmanager
async def between() -> AsyncIterator[tuple[Keyed, OnThePath, str, HttpTransport]]:
    """A node, somebody on the path to it, the address where that one listens, and a sender."""
    node = Keyed()
    async with served(create_app(node, SETTINGS)) as port:
        middle = OnThePath(port)
        tapped = await asyncio.start_server(middle, "127.0.0.1", 0)
        http = HttpTransport(60.0, random.Random(0), signer=seal())
        try:
            yield node, middle, f"127.0.0.1:{tapped.sockets[0].getsockname()[1]}", http
        finally:
            await http.close()
            tapped.close()


async def status_of(http: HttpTransport, address: str) -> int:
    """How an announcement is answered; a refusal without a signature is an error here."""
    try:
        return (await http.send(address, "/announce", BODY, JSON)).status
    except PeerRefused as refused:
        return refused.answer_status


async def test_what_is_handed_on_unchanged_passes() -> None:
    async with between() as (node, _, address, http):
        reply = await http.send(address, "/announce", BODY, JSON)

        assert (reply.status, reply.signer) == (201, TestKey(2).text)
        assert node.reported == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"port": 4001', b'"port": 6666'),  # the body
        (b"POST /announce ", b"POST /training "),
        (b"POST /announce ", b"POST /announce?x "),
        (b"Content-Type: application/json", b"Content-Type: application/x+json"),
    ],
)
async def test_a_changed_request_is_refused_and_told(old: bytes, new: bytes) -> None:
    async with between() as (node, middle, address, http):
        await http.send(address, "/announce", BODY, JSON)  # the sender knows now for whom to sign
        middle.request = lambda some: some.replace(old, new)
        assert await status_of(http, address) == 403
        middle.request = nothing

        assert len(node.reported) == 1
        assert (await http.send(address, "/announce", BODY, JSON)).status == 201


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"announceYourselfToPeers", b"announceYourselfToPeerz"),
        (b"HTTP/1.1 201", b"HTTP/1.1 200"),
        (b"application/json", b"application/jsan"),
        (b"signature-input: node=", b"signature-inpux: node="),
    ],
)
async def test_a_changed_answer_is_no_answer(old: bytes, new: bytes) -> None:
    async with between() as (_, middle, address, http):
        await http.send(address, "/announce", BODY, JSON)
        seen: list[bytes] = []

        def change(some: bytes) -> bytes:
            seen.append(some)
            return some.replace(old, new)

        middle.answer = change
        with pytest.raises(TransportError):
            await http.send(address, "/announce", BODY, JSON)
        middle.answer = nothing

        assert old in b"".join(seen)
        assert (await http.send(address, "/announce", BODY, JSON)).status == 201


async def test_nobody_on_the_path_answers_in_the_nodes_name() -> None:
    forged = b"HTTP/1.1 201 X\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    async with between() as (_, middle, address, http):
        await http.send(address, "/announce", BODY, JSON)
        middle.answer = lambda some: forged
        with pytest.raises(TransportError, match="not signed"):
            await http.send(address, "/announce", BODY, JSON)
