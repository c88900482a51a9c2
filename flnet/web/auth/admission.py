"""Admission: one pipeline of named steps that every request passes before it reaches its route.

A step returns nothing, or raises the refusal that the caller is told. Steps read the head of a request only; its body
is received after the last step, so a request that is refused cannot make this node hold its bytes. Cheap steps come
first, and those that protect expensive ones.

Not here: open connections are limited before there is a request (`flnet.web.server`), and what a message
says is checked by the node when it has been decoded (`flnet.node.inbound`).
"""

from __future__ import annotations

import socket
import weakref
from collections.abc import Iterable
from urllib.parse import urlsplit

from quart import Quart, Response, g, request
from werkzeug.exceptions import Forbidden
from werkzeug.routing import RequestRedirect

from flnet.errors import NotReady, OtherMesh, SignatureNeeded, SignInNeeded, TooManyMessages
from flnet.names import DEFAULT_MESH
from flnet.node.inbound import VERTICAL_BURST, VERTICAL_PER_SECOND
from flnet.node.interface import Node
from flnet.protocol.vertical import VerticalMessage
from flnet.security.rate_limits import Buckets, network_of
from flnet.settings import Settings
from flnet.text import text
from flnet.web.auth.permissions import (
    LOCALHOST,
    Permissions,
    Who,
    asked_host,
    caller_ip,
    is_address,
    may_act,
)
from flnet.web.auth.signed_requests import SignedRequests
from flnet.web.body import LimitedBody, limited_request
from flnet.web.routes import SAFE_METHODS, Route, control_body
from flnet.wire.body_memory import JSON_FACTOR, MEGABYTE, BodyMemory, memory_bytes
from flnet.wire.transport import CONTROL_BYTES, MESH_HEADER, mesh_of

BURST, PER_SECOND = 2000.0, 200.0  # messages of one address; fifty nodes on one machine send a hundred a second
MOST_OTHER_MESHES, MOST_OF_CALLER = 64, 8  # refusals of other meshes in the event log: in all, and of one caller
MAX_UNDER_WAY = 512  # messages that wait for their answer at the same time
# Of a body before it is admitted; Hypercorn hands over a few pieces of 64 KiB until then.
HELD_BYTES = 16 * MEGABYTE
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: browsers would send "Origin: null" with this node's own forms too.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Admission:
    """Decides which requests the app of a node answers.

    Attributes:
        steps: all checks of a request, in this order.
        memory: for bodies of other nodes.
    """

    def __init__(
        self,
        node: Node,
        settings: Settings,
        permissions: Permissions,
        signed: SignedRequests | None,
        routes: Iterable[Route],
    ) -> None:
        """Args:
        signed: verifies the signatures of a keyed or pinned mesh; None in an open one.
        routes: say who may use them, and where bodies go; a request to any other is refused.
        """
        self._node, self._settings, self._permissions, self._signed = node, settings, permissions, signed
        self._routes = {(route.method, route.rule): route for route in routes}
        self._names = host_names(node, settings)
        self._messages = Buckets(BURST, PER_SECOND)
        self._vertical = Buckets(VERTICAL_BURST, VERTICAL_PER_SECOND)
        self._under_way: weakref.WeakSet[LimitedBody] = weakref.WeakSet()
        self._other_meshes = set[tuple[str, str]]()  # whose refusal people heard of, by caller and name
        self.memory = BodyMemory(memory_bytes())
        self.steps = (
            self.limit_messages,
            self.check_host,
            self.check_origin,
            self.check_mesh_name,
            self.check_permission,
            self.check_signature,
            self.check_reader,
            self.limit_under_way,
            self.take_body,
        )

    def install(self, app: Quart) -> None:
        """Pass every request of the app through the steps."""
        app.extensions["flnet.permissions"] = self._permissions
        app.request_class = limited_request(lambda _: LimitedBody(None, HELD_BYTES))
        app.before_request(self.admit)
        app.teardown_request(self.release)
        app.after_request(add_security_headers)
        app.after_request(self.state_mesh)

    async def admit(self) -> None:
        """Admit the current request.

        Raises:
            PeerError, HTTPException: the refusal of the first step that did not let it pass.
        """
        g.route = self._route()
        g.who = g.route.who if g.route is not None else None
        for step in self.steps:
            step()

    def limit_messages(self) -> None:
        """Limit messages of other nodes by the address they come from, before anything costly is done for them.

        Messages of vertical jobs are counted apart: a job sends some for each batch, and must neither be slowed down
        by the limit for all others, nor keep a node from being probed.

        Raises:
            TooManyMessages: the address has used its rate.
        """
        if not _is_message():
            return
        buckets = self._vertical if request.path == VerticalMessage.path else self._messages
        if seconds := buckets.take(network_of(caller_ip())):
            raise TooManyMessages(seconds)

    def check_host(self) -> None:
        """Refuse a host name that is not this node's, such as one that was made to lead here (DNS rebinding).

        An address passes: a page can have it as its origin only if it came from there.

        Raises:
            Forbidden: another name, none, or several.
        """
        if not request.headers.get("Host") and request.method in SAFE_METHODS:
            return  # browsers always send it, monitoring programs may not
        host = asked_host()
        if host not in self._names and not is_address(host):
            raise Forbidden(
                text(
                    "this node does not go by the name {name}; ask for its address, or let its operator add "
                    "the name to FLNET_ALLOWED_HOSTS",
                    repr(host[:100]),
                )
            )

    def check_origin(self) -> None:
        """Refuse requests that a page of another site makes a browser send (CSRF). Programs send neither header.

        Raises:
            Forbidden: the request would change something and comes from another site's page, or its browser is
                signed in and does not say from which page it comes.
        """
        if request.method in SAFE_METHODS:
            return
        site = request.headers.get("Sec-Fetch-Site")
        if site not in (None, "same-origin", "none"):
            raise Forbidden(text("this request comes from a page of another site; use this node's own page"))
        origin = request.headers.get("Origin")
        if origin is not None and _host_of(origin) != request.headers.get("Host", "").lower():
            raise Forbidden(
                text("this request comes from a page of {site}; use this node's own page", repr(origin[:200]))
            )
        if origin is None and site is None and self._permissions.is_session():
            raise Forbidden(text("this request does not say from which page it comes; use this node's own page"))

    def check_mesh_name(self) -> None:
        """Refuse nodes of a mesh with another name; people and their programs state none.

        Raises:
            OtherMesh: the caller is such a node.
        """
        stated, ours = request.headers.get(MESH_HEADER), self._settings.mesh_name
        if stated is None and g.who is not Who.NODES:
            return
        if (theirs := mesh_of(stated)) == ours:
            return
        refusal = OtherMesh(theirs, ours)
        if self._is_new_mesh(network_of(caller_ip()), theirs):
            words = text(
                "a request from {caller} to {path} was refused: {reason}", caller_ip(), request.path, refusal
            )
            self._node.feed.publish("refused_here", words)
        g.states_mesh = True
        raise refusal

    def _is_new_mesh(self, caller: str, name: str) -> bool:
        """Whether people have yet to hear that this caller is of that mesh: once, and of few names of one caller."""
        of_caller = sum(caller == other for other, _ in self._other_meshes)
        is_full = len(self._other_meshes) >= MOST_OTHER_MESHES or of_caller >= MOST_OF_CALLER
        if is_full or (caller, name) in self._other_meshes:
            return False
        self._other_meshes.add((caller, name))
        return True

    def check_permission(self) -> None:
        """Let only the operator use the operator's routes, and nobody a route that does not say who may use it.

        Raises:
            Forbidden: the route was registered without saying who may use it.
            SignInNeeded, TooManyRequests: see `Permissions.check_operator`.
        """
        if request.url_rule is None or request.method == "OPTIONS":
            return  # 404 or 405 follows; OPTIONS tells only which methods there are
        if g.who is None:
            raise Forbidden(text("nobody may do this: the table of who may ask does not know it"))
        if g.who is Who.OPERATOR:
            self._permissions.check_operator()

    def check_signature(self) -> None:
        """Verify the signature of a node of a keyed or pinned mesh, and that the request was not sent before.

        Raises:
            SignatureNeeded, SignatureRefused, NotAccepted, TooManyMessages: see `SignedRequests.verify`.
        """
        if self._signed is not None and (g.who is Who.NODES or self._signed.is_signed()):
            self._signed.verify()

    def check_reader(self) -> None:
        """In a keyed or pinned mesh, let only its nodes and the operator read; others are led to sign in.

        Raises:
            SignatureNeeded: the caller is a stranger.
            SignInPage: it asks with a browser.
        """
        if self._signed is None or self._signed.signer() is not None or request.url_rule is None:
            return
        if g.who is Who.PUBLIC or request.method == "OPTIONS" or may_act():
            return
        if request.method == "GET" and "text/html" in request.headers.get("Accept", ""):
            raise SignInPage("/sign-in")
        raise SignatureNeeded(
            text("this is for nodes of this mesh and the operator of this node: sign in to read it")
        )

    def limit_under_way(self) -> None:
        """Limit the messages of other nodes that wait for their answer.

        Raises:
            NotReady: too many do.
        """
        if _is_message() and len(self._under_way) >= MAX_UNDER_WAY:
            raise NotReady(text("too many messages wait here for their answer; send this one again"))

    def take_body(self) -> None:
        """Start to receive the body, and reserve memory for a large body of another node.

        Raises:
            NotReady: the memory is taken by other bodies.
        """
        held, body = request.body, self._body()
        if _is_message():
            self._reserve(body)
            self._under_way.add(body)
        request.body = body
        if isinstance(held, LimitedBody):
            held.hand_over(body)

    async def state_mesh(self, answer: Response) -> Response:
        """Add the name of the mesh to an answer; the default one only where it is the reason of a refusal."""
        if self._settings.mesh_name != DEFAULT_MESH or g.get("states_mesh"):
            answer.headers[MESH_HEADER] = self._settings.mesh_name
        return answer

    async def release(self, _: BaseException | None) -> None:
        """Give back what the current request has taken, once it is answered or has failed."""
        if isinstance(request.body, LimitedBody):
            self._under_way.discard(request.body)
        if (give_back := g.pop("give_back", None)) is not None:
            give_back()

    def _route(self) -> Route | None:
        if request.url_rule is None:
            return None
        method = "GET" if request.method == "HEAD" else request.method
        return self._routes.get((method, request.url_rule.rule))

    def _body(self) -> LimitedBody:
        route: Route | None = g.route
        choose = control_body if route is None else route.body
        return choose(request, self._node, self._settings)

    def _reserve(self, body: LimitedBody) -> None:
        nbytes = _memory_for(body)
        if nbytes <= JSON_FACTOR * CONTROL_BYTES:
            return
        caller = network_of(caller_ip())
        if not self.memory.take(caller, nbytes):
            raise NotReady(text("other large bodies are being read here; send this one again"))
        # Also given back when the body is collected, should the request end in no orderly way.
        g.give_back = weakref.finalize(body, self.memory.give, caller, nbytes)


async def add_security_headers(answer: Response) -> Response:
    """Add the security headers that a route has not set itself."""
    for name, value in HEADERS.items():
        answer.headers.setdefault(name, value)
    if answer.status_code == SignInNeeded.status:
        answer.headers.setdefault("WWW-Authenticate", 'Bearer realm="flnet"')
    return answer


class SignInPage(RequestRedirect):
    """Redirects the browser of a stranger to the sign-in page."""

    code = 302


def host_names(node: Node, settings: Settings) -> frozenset[str]:
    """The host names under which this node answers, besides its addresses."""
    relay = settings.relay.rpartition(":")[0].strip("[]") if settings.relay else None
    named = (LOCALHOST, settings.node_ip, relay, node.me.id, socket.gethostname(), *settings.allowed_hosts)
    return frozenset(name.lower().removesuffix(".") for name in named if name)


def _is_message() -> bool:
    return request.method == "POST" and g.who is Who.NODES


def _memory_for(body: LimitedBody) -> int:
    """Bytes that a body may take while it is read; nothing if it will be refused unread."""
    if body.announced is not None and body.announced > body.limit:
        return 0
    if body.landing is not None:
        return body.announced or 0
    return JSON_FACTOR * max(0, body.limit if body.announced is None else body.announced)


def _host_of(origin: str) -> str | None:
    """Host and port of an origin; None for "null" and for what cannot be read."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None
