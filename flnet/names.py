"""Valid names (of nodes and trainers) and hosts, and how addresses are written."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from flnet.text import joined, text

MAX_NAME = 64
DEFAULT_MESH = "flnet"  # of nodes that state no mesh
MAX_HOST = 253  # characters of a whole host name (RFC 1035, 2.3.4, as it is written)

_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")  # as resolvers read it: decimal, octal or hexadecimal
_MESH = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")  # it travels in a header
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")  # the underscore as container tools use it


@lru_cache(1024)  # the same few names stand in every message
def check_name(name: str) -> str:
    """Hand the name back if it may stand in messages, logs and pages.

    Raises:
        ValueError: empty, longer than 64 characters, not printable, or with spaces at its ends.
    """
    if not 1 <= len(name) <= MAX_NAME:
        raise ValueError(text("must have 1 to {most} characters, not {count}", MAX_NAME, len(name)))
    if not name.isprintable() or name != name.strip():
        raise ValueError(text("must be printable text without spaces at its ends"))
    return name


def check_mesh_name(name: str) -> str:
    """Hand the name of a mesh back if it may be one.

    Raises:
        ValueError: empty, longer than 64 characters, or with others than ASCII letters, digits, ".", "_" and "-".
    """
    if not is_mesh_name(name):
        raise ValueError(text("must have 1 to {most} letters, digits, dots, dashes or underscores", MAX_NAME))
    return name


def is_mesh_name(name: str) -> bool:
    """Whether a mesh may have this name."""
    return _MESH.fullmatch(name) is not None


def is_name(name: str) -> bool:
    """Whether the name may stand in messages, logs and pages."""
    try:
        check_name(name)
    except ValueError:
        return False
    return True


@lru_cache(1024)
def check_host(host: str) -> str:
    """Hand the host back if it is an IP address or a host name: it becomes part of a URL that is called.

    Raises:
        ValueError: it is neither.
    """
    labels = host.removesuffix(".").split(".")
    if not _is_ip(host) and (len(host) > MAX_HOST or not all(map(_LABEL.fullmatch, labels))):
        raise ValueError(text("must be an IP address or a host name"))
    return host


def check_called_host(host: str) -> str:
    """Hand a host back that requests may go to: `check_host`, and what looks like a number is an IP address.

    Raises:
        ValueError: it is none.
    """
    if is_disguised(check_host(host)):
        raise ValueError(text("must be written as an IPv4 or IPv6 address is usually written"))
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


def is_disguised(host: str) -> bool:
    """Whether a resolver may read an IPv4 address where `ipaddress` reads none, such as 2130706433 or 0x7f.1.

    The last label of a host name is never a number (RFC 1123, 2.1). IPv4 within IPv6 is written as IPv4.
    """
    if _is_ip(host):
        address = ipaddress.ip_address(host)
        return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
    last = host.removesuffix(".").rpartition(".")[2]
    return _NUMBER.fullmatch(last) is not None


def names_differ(expected: Mapping[str, object], got: Mapping[str, object]) -> str:
    """Describe which names of parameters are missing or unknown."""
    missing, extra = sorted(expected.keys() - got.keys()), sorted(got.keys() - expected.keys())
    parts = [text("expected {names}", _short(sorted(expected)))]
    if missing:
        parts.append(text("missing {names}", _short(missing)))
    if extra:
        parts.append(text("not known here {names}", _short(extra)))
    return text("wrong parameter names: {words}", joined(parts))


def _short(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name[:60]) for name in names[:8])
    return text("{names} and {count} more", shown, len(names) - 8) if len(names) > 8 else shown
