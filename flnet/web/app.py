"""Builds the Quart application of a node: its routes, admission before each of them, and what is done to answers."""

from __future__ import annotations

import gzip
import secrets
import time
from collections.abc import Callable
from importlib.resources import files

from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, Scope
from quart import Quart, Response, request

from flnet.node.interface import Node
from flnet.settings import Settings
from flnet.store.changed_settings import ChangedSettings
from flnet.web.api import settings as settings_api
from flnet.web.api.errors import answer_errors
from flnet.web.api.openapi import ENDPOINTS
from flnet.web.auth import sign_in
from flnet.web.auth.admission import Admission
from flnet.web.auth.operator_token import OperatorToken
from flnet.web.auth.permissions import Permissions
from flnet.web.auth.signed_requests import SignedRequests
from flnet.web.body import linger
from flnet.web.page import (
    api,
    data,
    diagnostics,
    frame,
    index,
    keys,
    models,
    own_trainers,
    predict,
    rounds,
    settings,
)
from flnet.web.routes import Route, blueprint

PAGES: tuple[Route, ...] = (*frame.pages, *sign_in.pages, *index.pages)
VIEWS: tuple[Route, ...] = (  # further pages, under /view/; they work without script
    *(*models.pages, *predict.pages, *diagnostics.pages, *rounds.pages),
    *(*data.pages, *own_trainers.pages, *keys.pages, *settings.pages, *api.pages),
)
ROUTES: tuple[Route, ...] = (*ENDPOINTS, *PAGES, *VIEWS)
COMPRESSED_TYPES = frozenset({"text/html", "text/css", "text/javascript", "image/svg+xml"})
SMALLEST_COMPRESSED = 1000  # bytes; below, the head of the answer weighs as much
GZIP_LEVEL = 4  # of 9: beyond, the time grows faster than the size shrinks


class NodeApp(Quart):
    """Quart that also survives request lines without a path ("GET ?x")."""

    async def asgi_app(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Answer one request."""
        if scope["type"] == "http" and not scope["path"]:
            scope["path"] = "/"
        await super().asgi_app(scope, receive, send)


def create_app(
    node: Node,
    settings: Settings,
    token: OperatorToken | None = None,
    clock: Callable[[], float] = time.monotonic,
    changed: ChangedSettings | None = None,
) -> Quart:
    """The REST API and the page of this node; serve it with `flnet.web.server.serve`.

    Args:
        node: the node.
        settings: its settings.
        token: the operator's token; by default the one of the settings, or a random one.
        clock: monotonic seconds, for rate limits and sessions of the operator.
        changed: keeps what people change of the settings; by default in memory.
    """
    app = NodeApp(__name__, static_folder=None, template_folder=str(files("flnet_resources") / "web"))
    app.config["MAX_CONTENT_LENGTH"] = None  # body.py holds the limits, one per route
    answer_errors(app)
    frame.install(app, node, settings)
    app.extensions[settings_api.CHANGED] = changed or ChangedSettings(settings)
    token = token or OperatorToken(settings.operator_token or secrets.token_urlsafe(32))
    signed = SignedRequests(node.signing, node.feed.publish, node.trust) if node.signing is not None else None
    Admission(node, settings, Permissions(node, settings, token, clock), signed, ROUTES).install(app)
    # Quart runs these in reverse order.
    app.after_request(linger)
    if signed is not None:
        app.after_request(signed.sign)
    app.after_request(compress)
    app.register_blueprint(blueprint("api", ENDPOINTS, node, settings))
    app.register_blueprint(blueprint("page", PAGES, node, settings))
    views = blueprint("view", VIEWS, node, settings)
    frame.answer_errors(views, node)
    app.register_blueprint(views)
    return app


async def compress(answer: Response) -> Response:
    """Compress a page, a file of the pages or a picture, if its caller takes gzip (RFC 9110, section 12.5.3)."""
    if answer.mimetype not in COMPRESSED_TYPES or "Content-Encoding" in answer.headers:
        return answer
    answer.vary.add("Accept-Encoding")
    if not request.accept_encodings["gzip"]:
        return answer
    body = await answer.get_data(as_text=False)
    if len(body) >= SMALLEST_COMPRESSED:
        answer.set_data(gzip.compress(body, GZIP_LEVEL, mtime=0))
        answer.headers["Content-Encoding"] = "gzip"
    return answer
