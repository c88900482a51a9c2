"""Who asks, as far as the connection and the headers say it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

from quart import request

LOCALHOST = "localhost"
_HOST = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9_.-]{1,253})(:[0-9]{1,5})?")
# What reverse proxies say of whom they ask for: one on this machine would make all the world look like loopback.
FORWARDED = (
    "Forwarded",
    "Via",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Forwarded-Server",
    "X-Real-Ip",
)
KEPT = 1024  # addresses of which it is known what they are
_OF_BROWSERS = ("Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Cookie", "Referer")


class Asked(Protocol):
    """What is known of a request by its headers, whoever reads them: Quart, or direct.py."""

    @property
    def scope(self) -> Mapping[str, Any]:
        """The request as the server describes it (ASGI)."""
        ...

    @property
    def method(self) -> str:
        """POST, say."""
        ...

    @property
    def path(self) -> str:
        """What is asked for, without a query."""
        ...

    @property
    def mimetype(self) -> str:
        """The content type, without its options."""
        ...

    @property
    def content_length(self) -> int | None:
        """Bytes of the body, if that is stated."""
        ...


def caller_ip() -> str:
    """Where the connection of the current request came from; a header of the caller cannot change it."""
    return ip_of(request)


def ip_of(asked: Asked) -> str:
    """Where the connection of a request came from."""
    client = asked.scope.get("client") or ("127.0.0.1", 0)
    return str(client[0]).removeprefix("::ffff:")  # IPv4 on a socket that listens for both


@lru_cache(KEPT)
def is_loopback(host: str) -> bool:
    """Whether an address is of this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@lru_cache(KEPT)
def is_address(host: str) -> bool:
    """Whether it is an IP address, not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def asked_host() -> str:
    """The host that the request is for, in lower case, without port and brackets; empty if that is not clear."""
    return host_in(request.headers.getlist("Host"))


def host_in(headers: Sequence[str]) -> str:
    """The same of the Host headers of a request."""
    found = _HOST.fullmatch(headers[0].lower()) if len(headers) == 1 else None
    return found[1].strip("[]").removesuffix(".") if found else ""


def is_from_this_machine() -> bool:
    """Whether a program or browser on this machine asks for this machine.

    The name counts too: a page whose name leads here (DNS rebinding) comes from loopback as well.
    """
    host = asked_host()
    is_here = is_loopback(caller_ip()) and (host == LOCALHOST or is_loopback(host))
    return is_here and not any(name in request.headers for name in FORWARDED)


def is_browser() -> bool:
    """Whether a header is there that browsers send by themselves, and programs do not."""
    return any(name in request.headers for name in _OF_BROWSERS)
