"""Tests of connections with TLS: the keys on both ends, and what is said where there is none."""

from __future__ import annotations

import asyncio
import random
import ssl
from pathlib import Path

import pytest

from flnet.errors import PeerUnreachable, TransportError
from flnet.keys.tls import Channel, StrangeKey
from flnet.signing.refusals import StrangerThere
from flnet.transport import HttpTransport
from flnet.transport.session import key_shown
from tests.keys.test_tls import listening as with_tls
from tests.transport.servers import OK, Server, listening


def test_the_key_on_which_a_handshake_was_broken_off_is_found_behind_other_errors() -> None:
    wrapped = OSError("outer")
    wrapped.__cause__ = StrangeKey("not accepted", "K")
    assert key_shown(wrapped) == "K"
    assert key_shown(StrangeKey("no certificate of a node")) == ""
    assert key_shown(ssl.SSLError(1, "another")) is None
    assert key_shown(OSError()) is None


async def test_a_trusted_node_is_asked_and_another_one_is_named_by_its_key(tmp_path: Path) -> None:
    async with with_tls(tmp_path) as one:
        address = f"127.0.0.1:{one.port}"
        here = HttpTransport(5, random.Random(0), channel=Channel(one.key.__eq__))
        stranger = HttpTransport(5, random.Random(0), channel=Channel(lambda key: False))
        try:
            assert (await here.fetch(address, "/")).body == b"ok"
            with pytest.raises(StrangerThere) as refusal:
                await stranger.send(address, "/announce", b"all that this node knows", "application/json")
            knocked = await stranger.knock(address, "/", b"", "application/json")
        finally:
            await here.close()
            await stranger.close()
    assert refusal.value.key == one.key
    assert knocked.status == 200
    assert len(one.got) == 2  # what was fetched, and the knock: nothing of what was to be sent


async def test_a_node_without_tls_is_said_to_be_of_another_mesh() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.read(1))
        writer.write(OK)

    seen: list[bytes] = []
    async with listening(Server(refuse)) as server:
        here = HttpTransport(5, random.Random(0), channel=Channel(lambda key: True))
        try:
            with pytest.raises(PeerUnreachable, match="speaks no TLS"):
                await here.fetch(server.address, "/")
        finally:
            await here.close()
    assert seen == [b"\x16"]  # a handshake; nothing was sent in the clear


async def test_a_node_with_tls_is_said_to_want_it(tmp_path: Path) -> None:
    async with with_tls(tmp_path) as one:
        here = HttpTransport(5, random.Random(0))
        try:
            reply = await here.fetch(f"127.0.0.1:{one.port}", "/")
        except TransportError as exc:
            pytest.fail(f"expected words, got {exc}")
        finally:
            await here.close()
    assert reply.status == 403 and b"tls_needed" in reply.body
