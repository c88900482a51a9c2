"""Who may do what on this node.

A caller is known by the address of its connection, by the operator's token or by the session of a signed-in browser.
Here are the roles that follow from it, and the limits of how often people may act.
"""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum, auto
from functools import lru_cache
from math import ceil
from typing import cast

from quart import Request, current_app, g, request

from flnet.errors import SignInNeeded, TooManyRequests
from flnet.node.interface import Node
from flnet.security.rate_limits import Buckets, network_of
from flnet.settings import Settings
from flnet.text import text
from flnet.web.auth.operator_token import OperatorToken

LOCALHOST = "localhost"
RELAYED = "flnet.relayed"  # in the scope of a request that came through a relay
_HOST = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9_.-]{1,253})(:[0-9]{1,5})?")
# Names of headers that proxies add, of which each product has its own: Forwarded (RFC 7239) and all X-Forwarded-..., Via,
# CDN-Loop (RFC 8586), and all that end in the address of a client: X-Real-IP, CF-Connecting-IP, True-Client-IP,
# X-Azure-ClientIP, X-Envoy-External-Address. Behind a proxy on this machine every caller would look like loopback.
_OF_PROXIES = re.compile(r".*forwarded.*|via|cdn-loop|.*-(client|socket)?ip(v6)?|x-.*-addr(ess)?", re.IGNORECASE)
KEPT = 1024  # addresses of which it is known what they are
_OF_BROWSERS = ("Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Cookie", "Referer")


def caller_ip() -> str:
    """The address from which the connection of the current request came; headers cannot change it."""
    return ip_of(request)


def ip_of(asked: Request) -> str:
    """The address from which the connection of a request came."""
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
    headers = request.headers.getlist("Host")
    match = _HOST.fullmatch(headers[0].lower()) if len(headers) == 1 else None
    return match[1].strip("[]").removesuffix(".") if match else ""


def is_from_this_machine() -> bool:
    """Whether the request comes from this machine and is for this machine.

    The name counts too: a page whose name leads here (DNS rebinding) comes from loopback as well. Who came through a
    relay is elsewhere, also where the relay runs on this machine.
    """
    if RELAYED in request.scope:
        return False
    host = asked_host()
    is_here = is_loopback(caller_ip()) and (host == LOCALHOST or is_loopback(host))
    return is_here and not any(is_of_proxy(name) for name, _ in request.headers)


@lru_cache(KEPT)
def is_of_proxy(header: str) -> bool:
    """Whether a header of this name shows that a proxy has sent a request on."""
    return _OF_PROXIES.fullmatch(header) is not None


def is_browser() -> bool:
    """Whether the request has a header that browsers send by themselves, and programs do not."""
    return any(name in request.headers for name in _OF_BROWSERS)


MAX_SESSIONS = 64  # at once; a new one ends the oldest
SESSION_SECONDS = 12 * 3600.0
ACTIONS, ACTIONS_PER_SECOND = 200, 20.0  # of one caller on another machine
OWN_ACTIONS, OWN_ACTIONS_PER_SECOND = 500, 50.0  # of all callers on this machine: scripts of its operator, too
WRONG_TOKENS, SECONDS_PER_WRONG_TOKEN = 10, 10.0  # of one address
ALL_WRONG_TOKENS, ALL_WRONG_PER_SECOND = 200, 2.0  # of all addresses together; beyond, one of each address
UNGUESSABLE = 32  # characters of a token that nobody finds by trying, as the one that a node makes
_log = logging.getLogger("flnet.web")


class Who(Enum):
    """Who may use a route."""

    PUBLIC = auto()  # anyone
    READERS = auto()  # anyone in an open mesh; in a mesh with keys its nodes and the operator
    NODES = auto()
    OPERATOR = auto()


class Role(Enum):
    """On what ground a caller may act as the operator, or why not."""

    THIS_MACHINE = auto()
    TOKEN = auto()
    SESSION = auto()
    WRONG_TOKEN = auto()
    TOO_MANY_TOKENS = auto()  # wrong ones, from that address
    STRANGER = auto()


OPERATORS = frozenset({Role.THIS_MACHINE, Role.TOKEN, Role.SESSION})


class Sessions:
    """Sessions of signed-in browsers: random values in a cookie, kept in memory only, as digests.

    They end with the process, after `seconds`, or when there are more than `most`.
    """

    def __init__(
        self,
        most: int = MAX_SESSIONS,
        seconds: float = SESSION_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._seconds, self._clock = most, seconds, clock
        self._ends: OrderedDict[bytes, float] = OrderedDict()  # by digest, oldest first

    def begin(self) -> str:
        """Start a session; returns the value that its browser keeps."""
        value = secrets.token_urlsafe(32)
        self._ends[_digest(value)] = self._clock() + self._seconds
        while len(self._ends) > self._most:
            self._ends.popitem(last=False)
        return value

    def knows(self, value: str) -> bool:
        """Whether this is the value of a session that has not ended."""
        ends = self._ends.get(_digest(value))
        if ends is not None and ends <= self._clock():
            self.end(value)
            return False
        return ends is not None

    def end(self, value: str) -> None:
        """End one session, if it exists."""
        self._ends.pop(_digest(value), None)

    def end_all(self) -> None:
        """End every session."""
        self._ends.clear()

    def __len__(self) -> int:
        return len(self._ends)


class Permissions:
    """Knows the operator's token and the sessions of one node, and counts what callers do."""

    def __init__(
        self, node: Node, settings: Settings, token: OperatorToken, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._node, self._settings, self._token = node, settings, token
        self._version = token.version
        self.sessions = Sessions(clock=clock)
        self._actions = Buckets(ACTIONS, ACTIONS_PER_SECOND, clock=clock)
        self._own_actions = Buckets(OWN_ACTIONS, OWN_ACTIONS_PER_SECOND, clock=clock)
        self._wrong = Buckets(WRONG_TOKENS, 1 / SECONDS_PER_WRONG_TOKEN, clock=clock)
        self._wrong_of_all = Buckets(ALL_WRONG_TOKENS, ALL_WRONG_PER_SECOND, clock=clock)

    @property
    def cookie(self) -> str:
        """Name of this node's session cookie. Browsers send cookies to all ports of a host, so to other nodes too."""
        name = "flnet-" + hashlib.sha256(self._node.me.id.encode()).hexdigest()[:12]
        return f"__Host-{name}" if request.is_secure else name

    def role(self) -> Role:
        """The role of the caller of the current request; determined once."""
        if "role" not in g:
            g.role = self._find_role()
        return cast(Role, g.role)

    def is_session(self) -> bool:
        """Whether a browser asks that is signed in; other nodes send no cookie, and are not looked at further."""
        return "Cookie" in request.headers and self.role() is Role.SESSION

    def still_holds(self) -> Callable[[], bool]:
        """Whether what shows who the caller of the current request is, a token or a session, still does so later.

        A stream of events is one request for hours.
        """
        role, version, kept = self.role(), self._token.version, request.cookies.get(self.cookie, "")
        if role is Role.TOKEN:
            return lambda: self._token.text() is not None and self._token.version == version
        return (lambda: self._is_known(kept)) if role is Role.SESSION else (lambda: True)

    def try_token(self, given: str) -> Role:
        """Check a token; a wrong one counts against the address that sent it.

        Wrong tokens of others never keep the right one out. Those of the same address do so only with a short token,
        which could be found by trying.

        Returns:
            TOKEN, WRONG_TOKEN or TOO_MANY_TOKENS.
        """
        caller = network_of(caller_ip())
        has_to_wait = self._has_to_wait(caller)
        if self._token.matches(given) and (not has_to_wait or len(given) >= UNGUESSABLE):
            return Role.TOKEN
        if has_to_wait:
            return Role.TOO_MANY_TOKENS
        if self._wrong.is_full(caller):  # the first one for a while, so that nobody can flood the log
            _log.warning("%s was used to ask with a wrong operator token", caller)
        self._wrong.take(caller)
        self._wrong_of_all.take("")
        return Role.WRONG_TOKEN

    def check_operator(self) -> None:
        """Let only the operator of this node act, at a limited rate.

        Raises:
            SignInNeeded: nothing shows that the caller is the operator.
            TooManyRequests: too many requests or wrong tokens came from that address.
        """
        role = self.role()
        if role is Role.TOO_MANY_TOKENS:
            raise too_many_tokens()
        if role is Role.WRONG_TOKEN:
            raise wrong_token()
        if role not in OPERATORS:
            raise SignInNeeded(
                text(
                    "this is for the operator of this node: sign in on its page, send the operator's token, "
                    "or ask from the machine that it runs on"
                )
            )
        is_here = role is Role.THIS_MACHINE
        wait = self._own_actions.take("") if is_here else self._actions.take(network_of(caller_ip()))
        if wait:
            raise TooManyRequests(
                text("too much is asked for from here; try again in {count} s", ceil(wait)), ceil(wait)
            )

    def _has_to_wait(self, caller: str) -> bool:
        """Whether too many wrong tokens came from an address, or one while too many came from everywhere."""
        is_new = self._wrong.is_full(caller)
        return self._wrong.wait(caller) > 0 or (not is_new and self._wrong_of_all.wait("") > 0)

    def _find_role(self) -> Role:
        self._end_revoked_sessions()
        if self._settings.trust_loopback and is_from_this_machine():
            return Role.THIS_MACHINE
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.try_token(given.strip())
        kept = request.cookies.get(self.cookie)
        return Role.SESSION if kept and self.sessions.knows(kept) else Role.STRANGER

    def _is_known(self, session: str) -> bool:
        self._end_revoked_sessions()
        return self.sessions.knows(session)

    def _end_revoked_sessions(self) -> None:
        """A new token ends the sessions that were opened with the old one."""
        self._token.text()
        if self._token.version != self._version:
            self._version = self._token.version
            self.sessions.end_all()


def wrong_token() -> SignInNeeded:
    """The refusal of a token that is not this node's."""
    return SignInNeeded(text("this is not the operator's token of this node; flnet token on its machine shows it"))


def too_many_tokens() -> TooManyRequests:
    """The refusal of an address from which too many wrong tokens came."""
    seconds = ceil(SECONDS_PER_WRONG_TOKEN)
    return TooManyRequests(text("too many wrong tokens came from there; try again in {count} s", seconds), seconds)


def permissions() -> Permissions:
    """The permissions of the app that answers the current request."""
    return cast(Permissions, current_app.extensions["flnet.permissions"])


def may_act() -> bool:
    """Whether the caller of the current request may act as the operator."""
    return permissions().role() in OPERATORS


def _digest(value: str) -> bytes:
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).digest()
