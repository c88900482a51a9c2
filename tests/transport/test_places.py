"""Addresses are checked where a connection would be made: as they stand, and as they are resolved."""

from __future__ import annotations

import asyncio
import random
import socket
from typing import Any

import pytest

from flnet.errors import PeerUnreachable
from flnet.networks import OWN_MACHINE, PRIVATE, Networks
from flnet.transport import HttpTransport
from flnet.transport.places import CheckingResolver, NotCalled, Places

LAN = Networks([*PRIVATE, *OWN_MACHINE], named=["a.peer"])
HOME = Networks(OWN_MACHINE)


def test_an_address_becomes_a_url() -> None:
    assert Places(LAN).url("10.0.0.8:4000", "/a b?last=1&x=é") == "http://10.0.0.8:4000/a%20b?last=1&x=%C3%A9"
    assert Places(None).url("[2001:db8::1]:80", "/") == "http://[2001:db8::1]:80/"


@pytest.mark.parametrize("address", ["8.8.8.8:4000", "169.254.169.254:4000", "10.0.0.8:22", "[fe80::1]:4000"])
def test_an_address_outside_is_none(address: str) -> None:
    with pytest.raises(NotCalled):
        Places(LAN).url(address, "/")


@pytest.mark.parametrize("address", ["", "x", ":4000", "x:", "x:0", "x:65536", "x/y:4000", "u@h:4000", "x:-1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="host"):
        Places(LAN).url(address, "/")


def resolved(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """From now on every name has these addresses."""

    async def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
        kinds = [socket.AF_INET6 if ":" in address else socket.AF_INET for address in addresses]
        return [
            (kind, socket.SOCK_STREAM, 6, "", (address, 4000) if kind is socket.AF_INET else (address, 4000, 0, 0))
            for kind, address in zip(kinds, addresses, strict=True)
        ]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)


async def test_of_the_addresses_of_a_name_only_allowed_ones_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved(monkeypatch, "169.254.169.254", "10.0.0.8", "8.8.8.8")
    found = await CheckingResolver(LAN).resolve("some.host", 4000)
    assert [one["host"] for one in found] == ["10.0.0.8"]
    found = await CheckingResolver(LAN).resolve("a.peer", 4000)
    assert [one["host"] for one in found] == ["10.0.0.8", "8.8.8.8"]  # a person named it


async def test_a_name_without_an_allowed_address_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved(monkeypatch, "127.0.0.1", "169.254.169.254")
    with pytest.raises(NotCalled, match=r"127\.0\.0\.1: the name is one of this machine; 169"):
        await CheckingResolver(LAN).resolve("some.host", 4000)
    assert len(await CheckingResolver(None).resolve("some.host", 4000)) == 2


@pytest.mark.parametrize("name", ["localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1"])
async def test_no_spelling_of_this_machine_gets_past(name: str) -> None:
    async def count(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        connected.append(name)

    connected: list[str] = []
    server = await asyncio.start_server(count, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport = HttpTransport(2.0, random.Random(0), networks=LAN)
    with pytest.raises(PeerUnreachable, match=r"no request goes there|no address of HTTP"):
        await transport.send(f"{name}:{port}", "/", b"{}", "application/json")
    await transport.close()
    server.close()
    assert connected == []
