"""Names that nobody answers for hold up nothing but themselves."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from flnet.wire.host_names import KEPT, MOST, HostNames

SILENT = [f"n{number}.silent.example" for number in range(8 * MOST)]


class NameServer:
    """Answers for all names, for silent ones only once it is told to."""

    def __init__(self) -> None:
        self.asked = Counter[str]()
        self.speaks = threading.Event()

    def getaddrinfo(self, host: str, port: None, **_: Any) -> list[Any]:
        self.asked[host] += 1
        if "silent" in host:
            self.speaks.wait(60)
        if "nowhere" in host:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.8", 0))]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    made = NameServer()
    monkeypatch.setattr(socket, "getaddrinfo", made.getaddrinfo)
    yield made
    made.speaks.set()


@pytest.fixture
def names() -> HostNames:
    return HostNames(lambda host: host == "a.peer")


async def begin(names: HostNames, hosts: list[str]) -> list[asyncio.Task[list[str]]]:
    lookups = [asyncio.ensure_future(names.addresses(host)) for host in hosts]
    await asyncio.sleep(0)
    return lookups


async def test_silent_names_hold_up_neither_other_work_nor_known_names(
    server: NameServer, names: HostNames
) -> None:
    async with asyncio.timeout(60):
        assert await names.addresses("was.found") == ["10.0.0.8"]
        lookups = await begin(names, SILENT)
        assert await asyncio.to_thread(lambda: 1) == 1
        assert await names.addresses("was.found") == ["10.0.0.8"]
        assert await names.addresses("a.peer") == ["10.0.0.8"]
        (new,) = await begin(names, ["new.peer"])
        assert sum(host in server.asked for host in SILENT) <= MOST
        server.speaks.set()
        assert await new == ["10.0.0.8"]
        assert await asyncio.gather(*lookups) == [["10.0.0.8"]] * len(SILENT)


async def test_nobody_waits_for_a_turn_who_has_given_up(server: NameServer, names: HostNames) -> None:
    async with asyncio.timeout(60):
        for lookup in await begin(names, SILENT):
            lookup.cancel()
            with suppress(asyncio.CancelledError):
                await lookup
        server.speaks.set()
        assert await names.addresses("new.peer") == ["10.0.0.8"]
        assert sum(host in server.asked for host in SILENT) <= MOST
        for number in range(2 * MOST):  # all turns have come back
            assert await names.addresses(f"new{number}.peer") == ["10.0.0.8"]


async def test_a_name_is_looked_up_once_for_all_who_ask_and_again_later(
    server: NameServer, names: HostNames
) -> None:
    async with asyncio.timeout(60):
        lookups = await begin(names, ["one.silent.example"] * 4 * MOST)
        server.speaks.set()
        assert await asyncio.gather(*lookups) == [["10.0.0.8"]] * 4 * MOST
        assert server.asked["one.silent.example"] == 1
        await names.addresses("one.silent.example")
        assert server.asked["one.silent.example"] == 2


async def test_a_name_without_an_address_is_told(server: NameServer, names: HostNames) -> None:
    for _ in range(2 * MOST):
        with pytest.raises(socket.gaierror, match="not known"):
            await names.addresses("nowhere.example")


async def test_few_names_are_remembered(server: NameServer, names: HostNames) -> None:
    for number in range(KEPT + 2):
        await names.addresses(f"n{number}")
    assert len(names._known) == KEPT
