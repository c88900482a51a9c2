"""Somebody stands between two nodes of a pinned mesh, with a key of his own: he gets nothing of what is said."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from flnet.errors import StrangerThere, TransportError
from flnet.node.trust import made_of
from flnet.security.tls import Channel
from flnet.wire.http import HttpTransport
from tests.security.keypairs import TestKey
from tests.security.test_tls import Listener, listening

A, B = TestKey(1), TestKey(2)
MODEL = b"parameters that were learnt from patients"


def transport(*trusted: str) -> HttpTransport:
    """Of a node that trusts these keys."""
    trusts = trusted.__contains__
    return HttpTransport(60, random.Random(0), signer=made_of(A, None, trusts).signer, channel=Channel(trusts))


class Impostor(Listener):
    """Says to every caller that he is B."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.got.append(await reader.read(100_000))
        told = f'Flnet key="{B.text}", session="{"0" * 32}"'
        head = f"HTTP/1.1 401 X\r\nWWW-Authenticate: {told}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
        writer.write(head.encode())
        await writer.drain()
        writer.close()


@pytest.mark.parametrize("path", ["/training/model_params", "/announce", "/probe"])
async def test_nothing_is_sent_to_who_has_another_key(tmp_path: Path, path: str) -> None:
    here = transport(B.text)
    async with listening(tmp_path) as between:
        try:
            with pytest.raises(StrangerThere) as refusal:
                await here.send(f"127.0.0.1:{between.port}", path, MODEL, "application/json")
        finally:
            await here.close()
    assert refusal.value.key == between.key != B.text
    assert between.got == []


async def test_who_names_the_key_of_a_trusted_node_has_to_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.security.test_tls.Listener", Impostor)
    here = transport(B.text)
    async with listening(tmp_path) as between:
        try:
            with pytest.raises(TransportError):
                await here.knock(f"127.0.0.1:{between.port}", "/announce", b"{}", "application/json")
        finally:
            await here.close()
    assert len(between.got) >= 1 and MODEL not in b"".join(between.got)


async def test_a_key_that_is_forgotten_while_a_connection_is_open_gets_nothing_more(tmp_path: Path) -> None:
    trusted = set[str]()
    here = HttpTransport(
        60,
        random.Random(0),
        signer=made_of(A, None, trusted.__contains__).signer,
        channel=Channel(trusted.__contains__),
    )
    async with listening(tmp_path) as peer:
        address = f"127.0.0.1:{peer.port}"
        trusted.add(peer.key)
        try:
            with pytest.raises(TransportError):  # it signs nothing, but TLS lets it have the request
                await here.send(address, "/probe", b"{}", "application/json")
            before = len(peer.got)
            trusted.clear()
            with pytest.raises(StrangerThere):
                await here.send(address, "/training/model_params", MODEL, "application/json")
        finally:
            await here.close()
    assert before == 1 and len(peer.got) == 1
