"""Networks that this node sends requests to: an address that somebody else named is called only if it is in one of them.

Otherwise a peer could announce an address and make this node call services that only this node can reach: on its own
machine, at a cloud's metadata address, or in the network behind it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BeforeValidator

from flnet.names import is_disguised
from flnet.text import text

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

OWN_MACHINE = ("127.0.0.0/8", "::1/128")
PRIVATE = (
    *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),  # RFC 1918, RFC 4193
    "100.64.0.0/10",  # RFC 6598, which overlay networks between sites use
)
NEVER = tuple(
    ipaddress.ip_network(network)
    for network in ("0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4", "::/128", "fe80::/10", "ff00::/8")
)
"""This network, link-local with the metadata services of clouds, multicast, reserved and broadcast."""
REMEMBERED = 1024  # answers whether an address may be called
LEAST_PORT = 1024  # services that are no node's lie below


def networks_of(texts: Iterable[str]) -> tuple[Network, ...]:
    """Parse networks, each written as "10.1.0.0/16" or as one address.

    Raises:
        ValueError: one of them is none, such as one with bits set beyond its length.
    """
    return tuple(ipaddress.ip_network(text) for text in texts)


def _split(value: Any) -> Any:
    """Networks come as "a,b" from variables and options, as arrays from TOML."""
    texts = tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
    return tuple(str(network) for network in networks_of(texts))


Cidrs = Annotated[tuple[str, ...], BeforeValidator(_split)]  # of a setting


def address_of(host: str) -> Address | None:
    """Parse an IP address; None for a host name. IPv4 in IPv6 becomes IPv4."""
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


class Networks:
    """Decides whether this node may send a request to an address, and why not."""

    def __init__(
        self,
        allowed: Iterable[str],
        *,
        named: Collection[str] = (),
        ports: Collection[int] = (),
        own: Collection[str] = (),
        port: int | None = None,
        callers: Iterable[str] = (),
    ) -> None:
        """Args:
        allowed: networks.
        named: hosts that a person named, by address or name; they may lie elsewhere.
        ports: that a person named; they may be low.
        own: addresses of this node.
        port: of this node.
        callers: further networks, in which nodes are called that have called this one from there themselves.
        """
        self.allowed = networks_of(allowed)
        self._callers = networks_of(callers)
        self._named = frozenset(named)
        self._named_addresses = frozenset(filter(None, map(address_of, named)))
        self._low = {low for low in (*ports, port) if low is not None and low < LEAST_PORT}
        self._own, self._port = frozenset(filter(None, map(address_of, own))), port
        self._at_home = all(network.is_loopback for network in self.allowed)
        self._refusal = lru_cache(REMEMBERED)(self._refusal_of)  # news name the same addresses again and again

    def is_named(self, host: str) -> bool:
        """Whether a person named this host."""
        return host in self._named

    def admits(self, caller: str) -> bool:
        """Whether a caller from this IP address may use what is for nodes of these networks, such as a relay."""
        address = address_of(caller)
        networks = (*self.allowed, *self._callers, *map(ipaddress.ip_network, OWN_MACHINE))
        is_in = address is not None and any(address in network for network in networks)
        return is_in or address in self._named_addresses

    def refusal(self, host: str, port: int, told_by: str | None = None) -> str | None:
        """Why no request may be sent to a host; None if it may. A host name may, until its address is known.

        Args:
            host: as it was announced.
            port: likewise.
            told_by: address of who announced it; None where that was looked at before.
        """
        return self._refusal(host, port, told_by)

    def _refusal_of(self, host: str, port: int, told_by: str | None) -> str | None:
        if port < LEAST_PORT and port not in self._low:
            return text("ports below {least} belong to other services", LEAST_PORT)
        if is_disguised(host):
            return text("it is an address in disguise")
        if host in self._named:
            return None
        address = address_of(host)
        if address is None:
            return None
        teller = address_of(told_by) if told_by is not None else None
        if address.is_loopback and told_by is not None and not (teller and teller.is_loopback):
            return text("it is the caller's own machine, and would be this one here")
        called_from_there = told_by is None or teller == address
        return self._why_not(address, port, (*self.allowed, *(self._callers if called_from_there else ())))

    def refusal_of_name(self, name: str, address: str, port: int) -> str | None:
        """Why no request may be sent to the address of a host name; None if it may."""
        parsed = address_of(address)
        if parsed is None or any(parsed in network for network in NEVER):
            return text("no node can be there")
        if name in self._named:
            return None
        if parsed.is_loopback and not self._at_home:
            return text("the name is one of this machine")
        return self._why_not(parsed, port, self.allowed)

    def _why_not(self, address: Address, port: int, allowed: Iterable[Network]) -> str | None:
        if any(address in network for network in NEVER):
            return text("no node can be there")
        if address in self._named_addresses:
            return None
        if port == self._port and address in self._own:
            return text("it is this node itself")
        if not any(address in network for network in allowed):
            return text("it lies outside of FLNET_ALLOWED_NETWORKS")
        return None
