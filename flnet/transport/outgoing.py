"""Requests over HTTP before they leave: their address, and how their bodies go."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

from flnet.blob import Blob
from flnet.names import check_host
from flnet.transport.limits import Watch

SMALL = 64 * 1024  # bytes; such a body leaves in one write together with its head


class Request(NamedTuple):
    """A request as it is sent, in each of its attempts."""

    verb: str
    body: bytes | Blob | None = None
    headers: Mapping[str, str] = MappingProxyType({})
    stranger: bool = False  # whether it may go to a node whose key is not accepted
    context: Any = None  # its TLS, if it has one of its own


def post(body: bytes | Blob, content_type: str) -> Request:
    """A POST; a large body goes in pieces."""
    if len(body) <= SMALL:
        body = bytes(body)
    elif not isinstance(body, Blob):
        body = Blob([body])
    # Without a stated length, the library would send the pieces chunked.
    return Request("POST", body, {"Content-Type": content_type, "Content-Length": str(len(body))})


async def pieces(body: Blob, watch: Watch) -> AsyncIterator[memoryview]:
    """The body in pieces; a piece is asked for when the one before it has left us."""
    for part in body.pieces():
        start = 0
        while start < len(part):
            piece = part[start : start + watch.piece()]
            yield piece
            start += len(piece)
            watch.left(len(piece))
    watch.sent(len(body))


@lru_cache(maxsize=256)
def url_of(address: str, path: str, scheme: str = "http") -> str:
    """The URL of a path, and the query behind it, at "host:port".

    Raises:
        ValueError: it is no address.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise ValueError('expected "host:port"')
    bare = check_host(host.removeprefix("[").removesuffix("]"))
    plain, mark, query = path.partition("?")
    return f"{scheme}://{f'[{bare}]' if ':' in bare else bare}:{int(port)}{quote(plain)}{mark}{quote(query, '=&')}"
