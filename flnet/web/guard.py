"""Who may ask, and what browsers may do with the answers: one check before, one set of headers after."""

from __future__ import annotations

from urllib.parse import urlsplit

from quart import Quart, Response, request
from werkzeug.exceptions import Forbidden

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: with that, browsers send "Origin: null" with our own forms too.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def guard(app: Quart) -> None:
    """Check every request, and put the security headers on every answer."""
    app.before_request(admit)
    app.after_request(harden)


async def admit() -> None:
    """Refuse what another site makes a browser send here; programs send neither header and pass.

    Raises:
        Forbidden: the request would change something and comes from another site's page.
    """
    if request.method in SAFE_METHODS:
        return
    site = request.headers.get("Sec-Fetch-Site")
    if site not in (None, "same-origin", "none"):
        raise Forbidden("this request comes from a page of another site; use this node's own page")
    origin = request.headers.get("Origin")
    if origin is not None and _place(origin) != request.headers.get("Host", "").lower():
        raise Forbidden(f"this request comes from a page of {origin[:200]!r}; use this node's own page")


async def harden(answer: Response) -> Response:
    """Add the security headers that the route has not set itself."""
    for name, value in HEADERS.items():
        answer.headers.setdefault(name, value)
    return answer


def _place(origin: str) -> str | None:
    """The host and port of an origin; None for "null" and for what cannot be read."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None
