"""The connections of the HTTP transport: what they are opened with, in the clear or with TLS."""

from __future__ import annotations

import ssl
from typing import Protocol

from flnet.blob import PIECE
from flnet.transport.lean_import import no_authorities
from flnet.transport.places import Places

with no_authorities():
    import aiohttp

CONNECT_SECONDS = 5.0
IDLE_SECONDS = 5.0  # that a connection is kept unused; it is closed within twice that, before the server does (15)


class Stranger(Protocol):
    """TLS for one request to whoever is there; an `ssl.SSLContext`, see `flnet.keys.tls.PeerContext`."""

    seen: str  # the public key of who was there, base64


class Channel(Protocol):
    """TLS of a pinned mesh; see `flnet.keys.tls.Channel`.

    Attributes:
        known: to nodes whose keys are accepted; the handshake fails with all others.
        name: that nodes ask for, so that the certificate of a node is shown to them.
    """

    known: ssl.SSLContext
    name: str

    def stranger(self) -> Stranger:
        """TLS that takes any node's key, and says which it was."""
        ...


def open_session(places: Places, timeout_seconds: float) -> aiohttp.ClientSession:
    """What requests are sent with: no cookies, no proxies, nothing unpacked, addresses looked at."""
    connector = aiohttp.TCPConnector(
        limit=0, keepalive_timeout=IDLE_SECONDS, use_dns_cache=False, resolver=places.resolver()
    )
    return aiohttp.ClientSession(
        connector=connector,
        headers={"Accept-Encoding": "identity", "User-Agent": "flnet"},
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=min(CONNECT_SECONDS, timeout_seconds)),
        auto_decompress=False,
        trust_env=False,
        read_bufsize=PIECE,
    )


def key_shown(exc: BaseException | None) -> str | None:
    """The key on which a handshake was broken off, empty if it was no node's; None where something else failed."""
    while exc is not None:
        for one in (exc, getattr(exc, "certificate_error", None)):
            key = getattr(one, "key", None)
            if isinstance(one, ssl.SSLError) and isinstance(key, str):
                return key
        exc = exc.__cause__
    return None
