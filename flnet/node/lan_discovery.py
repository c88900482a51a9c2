"""Finds other nodes of the mesh on the local network, and lets them find this one: FLNET_DISCOVERY=lan.

Nodes announce a service of DNS-SD (RFC 6763) by multicast DNS (RFC 6762), with the python-zeroconf library: an instance of
SERVICE whose text record has the name of the mesh. What is found is an address and no more: this node announces itself
there, as to an address that a peer named, and the mesh, its key, and the people of a pinned mesh decide as always.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import psutil

from flnet.errors import StartError
from flnet.installing import install
from flnet.names import hostport
from flnet.networks import address_of
from flnet.text import text

SERVICE = "_flnet._tcp.local."
MESH = b"mesh"  # in the text record
LOOK_SECONDS = 5.0  # between two looks at the addresses of this machine
ASK_SECONDS = 3.0  # for the address of an instance
MOST_ADDRESSES = 4  # of one instance: a machine has few networks
MOST_ASKED = 32  # instances that are asked at the same time; others are met when they announce themselves again
_KEPT = slice(0, 16)  # of the digest of a node's id: names of instances have at most 63 bytes


class Discovery(Protocol):
    """Tells addresses ("host:port") at which nodes of the same mesh may be; the tests have one in memory."""

    async def run(self, found: Callable[[str], None]) -> None:
        """Look for other nodes, and be found by them, until cancelled.

        Args:
            found: called with each address, also several times with the same one.
        """
        ...


class LanDiscovery:
    """This node's part in multicast DNS."""

    def __init__(self, node: str, mesh: str, port: int, addresses: Iterable[str] = ()) -> None:
        """Args:
        node: id of this node.
        mesh: name of its mesh; nodes of others are not told of.
        port: at which this node answers.
        addresses: at which peers reach it; if empty, those of this machine's networks.

        Raises:
            StartError: the library for it is not installed.
        """
        try:
            import zeroconf.asyncio  # noqa: PLC0415, F401 - a node without it does without discovery
        except ImportError as exc:
            raise StartError(
                text("FLNET_DISCOVERY=lan needs the library zeroconf: {command}", install("lan"))
            ) from exc
        self._name = f"{hashlib.sha256(node.encode()).hexdigest()[_KEPT]}.{SERVICE}"
        self._mesh, self._port, self._addresses = mesh.encode(), port, tuple(addresses)
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def run(self, found: Callable[[str], None]) -> None:
        """See `Discovery.run`. When this machine gets other addresses, it begins again with these.

        Raises:
            OSError: multicast is not possible here.
        """
        while True:
            if here := own_addresses():
                await self._run(here, found)
            await asyncio.sleep(LOOK_SECONDS)

    async def _run(self, here: Sequence[str], found: Callable[[str], None]) -> None:
        from zeroconf import IPVersion, ServiceStateChange  # noqa: PLC0415
        from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf  # noqa: PLC0415

        def changed(zeroconf: Any, service_type: str, name: str, state_change: ServiceStateChange) -> None:
            is_here = state_change is not ServiceStateChange.Removed and name != self._name
            if is_here and name not in self._asking and len(self._asking) < MOST_ASKED:
                info = AsyncServiceInfo(service_type, name)
                task = self._asking[name] = asyncio.create_task(self._ask(zeroconf, info, found))
                task.add_done_callback(lambda _: self._asking.pop(name))

        own = [ipaddress.ip_address(address).packed for address in self._addresses or here]
        info = AsyncServiceInfo(SERVICE, self._name, self._port, properties={MESH: self._mesh}, addresses=own)
        async with AsyncZeroconf(interfaces=list(here), ip_version=IPVersion.All) as network:
            await network.async_register_service(info, allow_name_change=True)
            browser = AsyncServiceBrowser(network.zeroconf, SERVICE, handlers=[changed])
            try:
                while own_addresses() == here:  # noqa: ASYNC110 - nothing sends an event when they change
                    await asyncio.sleep(LOOK_SECONDS)
            finally:
                await browser.async_cancel()
                await network.async_unregister_all_services()

    async def _ask(self, zeroconf: Any, info: Any, found: Callable[[str], None]) -> None:
        if await info.async_request(zeroconf, ASK_SECONDS * 1000) and is_of(info.properties, self._mesh):
            for address in addresses_in(info.parsed_scoped_addresses(), info.port):
                found(address)


def is_of(properties: Mapping[bytes, bytes | None], mesh: bytes) -> bool:
    """Whether the text record of an instance, which may say anything, names this mesh."""
    return properties.get(MESH) == mesh


def addresses_in(stated: Iterable[str], port: int | None) -> list[str]:
    """The addresses of an instance as "host:port": at most MOST_ADDRESSES of them, those of IPv4 first."""
    readable = [address for words in stated if (address := address_of(words)) is not None]
    usable = [each for each in readable if not (each.is_multicast or each.is_unspecified or each.is_link_local)]
    ranked = sorted(dict.fromkeys(usable), key=lambda address: (address.version, address.packed))
    return [hostport(str(address), port) for address in ranked[:MOST_ADDRESSES]] if port else []


def own_addresses() -> list[str]:
    """The addresses of this machine in its networks, sorted; link-local ones are called by nobody."""
    stated = {
        address.address
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family in (socket.AF_INET, socket.AF_INET6)
    }
    found = [address for words in stated if (address := address_of(words)) is not None]
    return sorted(str(address) for address in found if not (address.is_loopback or address.is_link_local))
