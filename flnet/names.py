"""What may stand as a name (of a node or a trainer) and as a host, and how addresses are written."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

MAX_NAME = 64
MAX_HOST = 253  # characters of a whole host name (RFC 1035, 2.3.4, as it is written)

_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")  # the underscore as container tools use it


@lru_cache(1024)  # the same few names stand in every message
def check_name(name: str) -> str:
    """Hand the name back if it may stand in messages, logs and pages.

    Raises:
        ValueError: empty, longer than 64 characters, not printable, or with spaces at its ends.
    """
    if not 1 <= len(name) <= MAX_NAME:
        raise ValueError(f"must have 1 to {MAX_NAME} characters, not {len(name)}")
    if not name.isprintable() or name != name.strip():
        raise ValueError("must be printable text without spaces at its ends")
    return name


@lru_cache(1024)
def check_host(host: str) -> str:
    """Hand the host back if it is an IP address or a host name: it becomes part of a URL that is called.

    Raises:
        ValueError: it is neither.
    """
    labels = host.removesuffix(".").split(".")
    if not _is_ip(host) and (len(host) > MAX_HOST or not all(map(_LABEL.fullmatch, labels))):
        raise ValueError("must be an IP address or a host name")
    return host


def hostport(host: str, port: int) -> str:
    """ "host:port", with the brackets that an IPv6 address needs."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return "%" not in host  # a zone means nothing on another machine, and could hold any character


def names_differ(expected: Mapping[str, object], got: Mapping[str, object]) -> str:
    """Which names of parameters are missing, and which are too many, in words."""
    missing, extra = sorted(expected.keys() - got.keys()), sorted(got.keys() - expected.keys())
    parts = [f"expected {_short(sorted(expected))}"]
    if missing:
        parts.append(f"missing {_short(missing)}")
    if extra:
        parts.append(f"not known here {_short(extra)}")
    return f"wrong parameter names: {'; '.join(parts)}"


def _short(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name[:60]) for name in names[:8])
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown
