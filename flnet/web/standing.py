"""Whether the caller may act on this node, and on what ground: this machine, the operator's token, a session."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from enum import Enum, auto
from math import ceil
from typing import cast

from quart import Quart, current_app, g, request

from flnet.node.base import Node
from flnet.node.buckets import Buckets
from flnet.settings import Settings
from flnet.web.caller import caller_ip, is_from_this_machine
from flnet.web.operator_token import OperatorToken
from flnet.web.rates import network_of
from flnet.web.refusals import SignInNeeded, TooManyRequests
from flnet.web.sessions import Sessions

ACTIONS, ACTIONS_PER_SECOND = 200, 20.0  # of one caller on another machine
OWN_ACTIONS, OWN_ACTIONS_PER_SECOND = 500, 50.0  # of all on this machine: scripts of its person, too
WRONG_TOKENS, SECONDS_PER_WRONG_TOKEN = 10, 10.0  # of one address
ALL_WRONG_TOKENS, ALL_WRONG_PER_SECOND = 200, 2.0  # of all addresses together
_NAME = "flnet.gate"
_log = logging.getLogger("flnet.web")


class Standing(Enum):
    """What a request may be answered for."""

    THIS_MACHINE = auto()
    TOKEN = auto()
    SESSION = auto()
    WRONG_TOKEN = auto()
    TOO_MANY = auto()  # wrong tokens came from there
    STRANGER = auto()


MAY_ACT = frozenset({Standing.THIS_MACHINE, Standing.TOKEN, Standing.SESSION})


class Gate:
    """Knows the token and the sessions of one node, and counts what callers do."""

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
        """The name of this node's cookie; browsers send it to all ports of a host, so to other nodes too."""
        name = "flnet-" + hashlib.sha256(self._node.me.id.encode()).hexdigest()[:12]
        return f"__Host-{name}" if request.is_secure else name

    def standing(self) -> Standing:
        """The standing of the current request; found out once."""
        if "standing" not in g:
            g.standing = self._find()
        return cast(Standing, g.standing)

    def try_token(self, given: str) -> Standing:
        """Whether a person may sign in with this; a wrong one counts against the address.

        Returns:
            TOKEN, WRONG_TOKEN or TOO_MANY.
        """
        caller = network_of(caller_ip())
        if self._wrong.wait(caller) or self._wrong_of_all.wait(""):
            return Standing.TOO_MANY
        if self._token.matches(given):
            return Standing.TOKEN
        if self._wrong.is_full(caller):  # the first one for a while: the log cannot be filled with them
            _log.warning("%s was used to ask with a wrong operator token", caller)
        self._wrong.take(caller)
        self._wrong_of_all.take("")
        return Standing.WRONG_TOKEN

    def check(self) -> None:
        """Let a request pass that only persons of this node may make, and not more often than they can mean it.

        Raises:
            SignInNeeded: nothing shows that the caller is one.
            TooManyRequests: too many came from there.
        """
        standing = self.standing()
        if standing is Standing.TOO_MANY:
            raise too_many_tokens()
        if standing is Standing.WRONG_TOKEN:
            raise wrong_token()
        if standing not in MAY_ACT:
            raise SignInNeeded(
                "this is for persons of this node: sign in on its page, send the operator's token, or ask from "
                "the machine that it runs on"
            )
        is_here = standing is Standing.THIS_MACHINE
        wait = self._own_actions.take("") if is_here else self._actions.take(network_of(caller_ip()))
        if wait:
            raise TooManyRequests(f"too much is asked for from here; try again in {ceil(wait)} s", ceil(wait))

    def _find(self) -> Standing:
        self._forget_revoked()
        if self._settings.trust_loopback and is_from_this_machine():
            return Standing.THIS_MACHINE
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.try_token(given.strip())
        kept = request.cookies.get(self.cookie)
        return Standing.SESSION if kept and self.sessions.knows(kept) else Standing.STRANGER

    def _forget_revoked(self) -> None:
        """With another token, who signed in with the old one is not signed in any more."""
        self._token.text()
        if self._token.version != self._version:
            self._version = self._token.version
            self.sessions.end_all()


def wrong_token() -> SignInNeeded:
    """The refusal of a token that is not this node's."""
    return SignInNeeded("this is not the operator's token of this node; flnet token on its machine shows it")


def too_many_tokens() -> TooManyRequests:
    """The refusal of an address from which too many wrong tokens came."""
    seconds = ceil(SECONDS_PER_WRONG_TOKEN)
    return TooManyRequests(f"too many wrong tokens came from there; try again in {seconds} s", seconds)


def install(app: Quart, gate: Gate) -> None:
    """Make this the gate of the app."""
    app.extensions[_NAME] = gate


def gate() -> Gate:
    """The gate of the app that answers the current request."""
    return cast(Gate, current_app.extensions[_NAME])


def may_act() -> bool:
    """Whether the caller of the current request may act."""
    return gate().standing() in MAY_ACT
