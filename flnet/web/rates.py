"""Who counts as one caller where callers have a number of turns each."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

KEPT = 1024  # addresses of which it is known what they count as


@lru_cache(KEPT)
def network_of(address: str) -> str:
    """What counts as one caller: an IPv4 address, or the /64 from which a host takes its IPv6 addresses."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return address if found.version == 4 else str(ipaddress.ip_network((found, 64), strict=False))
