"""Where requests go: addresses are checked as they stand and, where a host has a name, as they are resolved."""

from __future__ import annotations

import socket

from flnet.networks import Networks
from flnet.transport.lean_import import no_authorities
from flnet.transport.outgoing import url_of

with no_authorities():
    import aiohttp
    from aiohttp.abc import AbstractResolver, ResolveResult


class NotCalled(ValueError):
    """No request goes to this address."""


class Places:
    """Addresses to URLs, for those that may be called."""

    def __init__(self, networks: Networks | None, tls: bool = False) -> None:
        """Args:
        networks: in which hosts may lie; None: everywhere.
        tls: whether it is spoken there.
        """
        self._networks, self._scheme = networks, "https" if tls else "http"

    def url(self, address: str, path: str) -> str:
        """The URL of this path at "host:port".

        Raises:
            NotCalled: no request goes there.
            ValueError: it is no address.
        """
        url = url_of(address, path, self._scheme)
        if self._networks is not None:
            host, _, port = address.rpartition(":")
            if why := self._networks.refusal(host.strip("[]"), int(port)):
                raise NotCalled(why)
        return url

    def resolver(self) -> AbstractResolver:
        """Finds the addresses of host names; a connection is made to what it found, not to the name again."""
        return CheckingResolver(self._networks)


class CheckingResolver(AbstractResolver):
    """Resolves host names to those of their addresses that may be called."""

    def __init__(self, networks: Networks | None) -> None:
        self._networks, self._system = networks, aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses.

        Raises:
            NotCalled: none of them may be called.
            OSError: the name has none.
        """
        found = await self._system.resolve(host, port, family)
        if self._networks is None:
            return found
        refused = {one["host"]: self._networks.refusal_of_name(host, one["host"], port) for one in found}
        good = [one for one in found if refused[one["host"]] is None]
        if found and not good:
            raise NotCalled("; ".join(f"{at}: {why}" for at, why in refused.items()))
        return good

    async def close(self) -> None:
        """Nothing is held."""
        await self._system.close()
