"""Who asks, as far as the connection and the headers say it."""

from __future__ import annotations

import ipaddress
import re

from quart import Request, request

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
_OF_BROWSERS = ("Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Cookie", "Referer")


def caller_ip() -> str:
    """Where the connection of the current request came from; a header of the caller cannot change it."""
    return ip_of(request)


def ip_of(asked: Request) -> str:
    """Where the connection of a request came from."""
    client = asked.scope.get("client") or ("127.0.0.1", 0)
    return str(client[0]).removeprefix("::ffff:")  # IPv4 on a socket that listens for both


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_address(host: str) -> bool:
    """Whether it is an IP address, not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def asked_host() -> str:
    """The host that the request is for, in lower case, without port and brackets; empty if that is not clear."""
    headers = request.headers.getlist("Host")
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
