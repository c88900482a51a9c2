"""What the failures of the HTTP library mean here, in one table."""

from __future__ import annotations

import traceback
from typing import NamedTuple

from flnet.errors import PeerTimeout, PeerUnreachable, TransportError


class Fault(NamedTuple):
    """The meaning of a failure, and whether the same request may work a moment later."""

    error: type[TransportError]
    words: str
    again: bool


# By the names of aiohttp's classes, because not every version of it has all of them.
# Sending twice is safe: a message that comes twice counts once. Waiting longer than the timeout is not.
_ROWS = (
    (
        Fault(PeerUnreachable, "no connection", again=True),
        "ClientConnectorError ClientConnectorDNSError UnixClientConnectorError",
    ),
    (Fault(PeerUnreachable, "no connection in time", again=True), "ConnectionTimeoutError"),
    (
        Fault(PeerUnreachable, "the connection broke", again=True),
        "ClientConnectionError ClientConnectionResetError ClientOSError ServerConnectionError UploadAbortedError",
    ),
    (
        Fault(PeerUnreachable, "the connection broke before the answer was complete", again=True),
        "ServerDisconnectedError",
    ),
    (Fault(PeerUnreachable, "the answer was cut off", again=True), "ClientPayloadError"),
    (Fault(PeerUnreachable, "the answer is no HTTP", again=True), "ClientResponseError HttpProcessingError"),
    (Fault(PeerTimeout, "no answer in time", again=False), "ServerTimeoutError SocketTimeoutError"),
    (Fault(PeerUnreachable, "no request goes there", again=False), "NotCalled"),
    (
        Fault(PeerUnreachable, "no address of HTTP", again=False),
        "InvalidURL InvalidUrlClientError NonHttpUrlClientError ValueError",
    ),
    (
        Fault(PeerUnreachable, "it speaks no TLS: its mesh is not pinned, and this one is", again=False),
        "ClientSSLError ClientConnectorSSLError",
    ),
    (
        Fault(PeerUnreachable, "the request failed", again=False),
        # Of what is not used here: redirects, proxies, authorities, web sockets, and reading JSON.
        "ClientError RedirectClientError InvalidUrlRedirectClientError NonHttpUrlRedirectClientError "
        "TooManyRedirects ClientProxyConnectionError ClientHttpProxyError "
        "ClientConnectorCertificateError ServerFingerprintMismatch WSServerHandshakeError ContentTypeError",
    ),
    (Fault(PeerUnreachable, "the connection broke", again=True), "OSError"),
)
FAULTS = {name: fault for fault, names in _ROWS for name in names.split()}
_MOST_WORDS = 200  # characters of a failure's own words, which may quote what the peer sent


def fault_of(exc: Exception) -> Fault:
    """What this failure means, by its class or the nearest one above it that is known."""
    for kind in type(exc).__mro__:
        if kind.__name__ in FAULTS:
            return FAULTS[kind.__name__]
    return Fault(PeerUnreachable, "the request failed", again=False)


def because(exc: Exception) -> str:
    """The failure's own words in parentheses, on one line and shortened, or nothing."""
    words = " ".join(ascii(str(getattr(exc, "strerror", None) or exc))[1:-1].split())
    return f" ({words[:_MOST_WORDS]})" if words else ""


def empty_frames(exc: BaseException) -> None:
    """Let go of what the calls held through which this failure came, and those that it came from.

    The library's calls hold it in turn, in circles: each connection that failed would keep 20 kB until the next
    full collection, which comes when there are a quarter more objects than there were, so perhaps after hours.
    """
    left, seen = [exc], set[int]()
    while left:
        one = left.pop()
        if id(one) not in seen:
            seen.add(id(one))
            traceback.clear_frames(one.__traceback__)
            left += [link for link in (one.__cause__, one.__context__) if link is not None]
