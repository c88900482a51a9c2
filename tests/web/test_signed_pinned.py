"""The web layer of a node of a pinned mesh: what strangers, accepted nodes and persons may ask for, over TLS."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from quart import Quart

from flnet.errors import PeerRefused
from flnet.node.trust import Trust, made_of
from flnet.security.keys import load_signer, own_key
from flnet.security.tls import NODE_NAME, Channel, server_context
from flnet.settings import load_settings
from flnet.web.app import create_app
from flnet.web.server import serve
from flnet.wire.http import HttpTransport
from tests.security.keypairs import TestKey
from tests.security.test_tls import ask
from tests.web.conftest import free_socket, served
from tests.web.fake_node import FakeNode

CAREFUL = load_settings({"trust_loopback": "false"}, {})  # the caller of these tests is a stranger
KNOWN, OTHER = TestKey(1), TestKey(2)


class Pinned(FakeNode):
    """A twin node that accepts KNOWN."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        own = own_key(folder).text
        self.own = own
        self.trust = Trust(own)
        self.signing = made_of(load_signer(folder), None).verifier


@pytest.fixture
async def node(tmp_path: Path) -> Pinned:
    made = Pinned(tmp_path)
    assert made.trust is not None
    await made.trust.accept(KNOWN.text)
    return made


@pytest.fixture
def app(node: Pinned) -> Quart:
    return create_app(node, CAREFUL)


@asynccontextmanager
async def caller(key: TestKey, receiver: str) -> AsyncIterator[HttpTransport]:
    trusts = receiver.__eq__
    transport = HttpTransport(
        60, random.Random(0), signer=made_of(key, None, trusts).signer, channel=Channel(trusts)
    )
    try:
        yield transport
    finally:
        await transport.close()


async def test_over_tls_an_accepted_node_reads_and_another_one_is_refused(
    app: Quart, node: Pinned, tmp_path: Path
) -> None:
    plain = list[bool]()
    async with served(app, CAREFUL, tls=server_context(tmp_path, lambda: plain.append(True))) as port:
        async with caller(KNOWN, node.own) as known, caller(OTHER, node.own) as other:
            info = await known.fetch(f"127.0.0.1:{port}", "/info")
            vouched = await known.fetch(f"127.0.0.1:{port}", "/introductions")
            with pytest.raises(PeerRefused, match="not_accepted"):
                await other.fetch(f"127.0.0.1:{port}", "/info")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        in_the_clear = await reader.readuntil(b"}")  # the connection itself stays until no handshake came
        writer.close()
    assert (info.status, info.signer) == (200, node.own)
    assert vouched.status == 200 and b"fingerprint" in vouched.body
    assert b"tls_needed" in in_the_clear and plain == [True]
    assert len(node.reported) == 1 and "not accepted here" in node.reported[0]


async def test_a_caller_that_does_not_close_its_end_does_not_hold_up_the_end_of_the_node(
    app: Quart, node: Pinned, tmp_path: Path
) -> None:
    listening, shutdown = free_socket(), asyncio.Event()
    port = listening.getsockname()[1]
    server = asyncio.create_task(serve(app, CAREFUL, shutdown, listening, server_context(tmp_path, lambda: None)))
    plain = socket.create_connection(("127.0.0.1", port))
    context = Channel(node.own.__eq__).known
    try:
        with await asyncio.to_thread(context.wrap_socket, plain, server_hostname=NODE_NAME) as kept:
            await asyncio.to_thread(kept.sendall, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            answer = await asyncio.to_thread(kept.recv, 1000)
            shutdown.set()
            await asyncio.wait_for(server, 60)  # it raises where the server did not end well
    finally:
        shutdown.set()
    assert b"200" in answer


async def test_a_node_of_another_mesh_tells_once_that_tls_was_spoken() -> None:
    told = list[str]()
    app = create_app(FakeNode(), CAREFUL)
    async with served(app, CAREFUL, publish=lambda kind, words: told.append(words)) as port:
        for _ in range(2):
            with pytest.raises(ssl.SSLError):
                await ask(port, Channel(lambda key: True).known)
    assert len(told) == 1 and "pinned mesh" in told[0]
