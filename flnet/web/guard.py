"""Who may ask, and what browsers may do with the answers: one check before, one set of headers after."""

from __future__ import annotations

import socket
from functools import lru_cache
from urllib.parse import urlsplit

from quart import Quart, Response, request
from werkzeug.exceptions import Forbidden

from flnet.node.base import Node
from flnet.settings import Settings
from flnet.web.access import who_may
from flnet.web.caller import LOCALHOST, asked_host, is_address
from flnet.web.endpoint import Who
from flnet.web.refusals import SignInNeeded
from flnet.web.standing import Gate, Standing, install

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


def guard(app: Quart, node: Node, settings: Settings, gate: Gate) -> None:
    """Check every request, and put the security headers on every answer."""
    install(app, gate)

    async def admit() -> None:
        check_host(host_names(node, settings))
        check_origin(gate)
        check_person(gate)

    app.before_request(admit)
    app.after_request(harden)


def host_names(node: Node, settings: Settings) -> frozenset[str]:
    """The names under which this node may be asked for; addresses are no names."""
    return _names((LOCALHOST, settings.node_ip, node.me.id, *settings.allowed_hosts))


@lru_cache
def _names(named: tuple[str | None, ...]) -> frozenset[str]:
    machine = socket.gethostname().lower()
    return frozenset({machine, *(name.lower().removesuffix(".") for name in named if name)})


def check_host(names: frozenset[str]) -> None:
    """Refuse a name that is none of this node's, such as a page's own that was made to lead here (rebinding).

    An address passes: no page can have it as its name, unless it comes from there.

    Raises:
        Forbidden: another name, none, or several.
    """
    if not request.headers.get("Host") and request.method in SAFE_METHODS:
        return  # no browser leaves it out, and what watches over machines may
    check_name(asked_host(), names)


def check_name(host: str, names: frozenset[str]) -> None:
    """The same for the host that a request is for.

    Raises:
        Forbidden: it is another name, or none.
    """
    if host not in names and not is_address(host):
        raise Forbidden(
            f"this node does not go by the name {host[:100]!r}; ask for its address, or let whoever runs it add "
            "the name to FLNET_ALLOWED_HOSTS"
        )


def check_origin(gate: Gate) -> None:
    """Refuse what another site makes a browser send here; programs send neither header and pass.

    Raises:
        Forbidden: the request would change something and comes from another site's page, or its browser is signed
            in and does not say from which page it comes.
    """
    if request.method in SAFE_METHODS:
        return
    site = request.headers.get("Sec-Fetch-Site")
    if site not in (None, "same-origin", "none"):
        raise Forbidden("this request comes from a page of another site; use this node's own page")
    origin = request.headers.get("Origin")
    if origin is not None and _place(origin) != request.headers.get("Host", "").lower():
        raise Forbidden(f"this request comes from a page of {origin[:200]!r}; use this node's own page")
    if origin is None and site is None and gate.standing() is Standing.SESSION:
        raise Forbidden("this request does not say from which page it comes; use this node's own page")


def check_person(gate: Gate) -> None:
    """Let only persons of this node do what is theirs; the table goes by the route that was found.

    Raises:
        Forbidden: the table does not know this route.
        SignInNeeded: see `Gate.check`.
        TooManyRequests: see `Gate.check`.
    """
    if request.url_rule is None:
        return  # 404 or 405 follows
    who = who_may(request.method, request.url_rule.rule)
    if who is None:
        raise Forbidden("nobody may do this: the table of who may ask does not know it")
    if who is Who.PERSONS:
        gate.check()


async def harden(answer: Response) -> Response:
    """Add the security headers that the route has not set itself."""
    for name, value in HEADERS.items():
        answer.headers.setdefault(name, value)
    if answer.status_code == SignInNeeded.status:
        answer.headers.setdefault("WWW-Authenticate", 'Bearer realm="flnet"')
    return answer


def _place(origin: str) -> str | None:
    """The host and port of an origin; None for "null" and for what cannot be read."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None
