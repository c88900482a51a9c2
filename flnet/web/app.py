"""The Quart application of one node: routes, limits, errors, headers."""

from __future__ import annotations

import secrets
from importlib.resources import files

from flnet.postponing import postponed

with postponed(
    *("h2.connection", "h2.events", "h2.exceptions", "priority"),  # HTTP/2, which a caller has to ask for
    *("html", "logging.handlers", "pdb"),  # for other servers, other logs, and for tests of other programs
):
    from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, Scope
    from quart import Quart, Request

from flnet.node.base import Node
from flnet.node.door import Door
from flnet.settings import Settings
from flnet.web.answers import answer_errors
from flnet.web.body import CONTROL_BYTES, LimitedBody, limited_request, linger
from flnet.web.compressing import compress
from flnet.web.direct import Direct
from flnet.web.frame import frame_routes
from flnet.web.guard import guard
from flnet.web.importing import import_body, import_routes, is_import
from flnet.web.info import info_routes
from flnet.web.intake import Intake
from flnet.web.live import live_routes
from flnet.web.models import PREDICT_BYTES, is_predict, model_routes
from flnet.web.operator_token import OperatorToken
from flnet.web.page import page_routes
from flnet.web.params import params_routes
from flnet.web.sign_in import sign_in_routes
from flnet.web.signed import SignedRequests, check_signatures
from flnet.web.standing import Gate
from flnet.web.training import PATHS, binary_body, is_binary, training_routes
from flnet.web.views.inputs import is_upload
from flnet.web.views.routes import view_routes


class NodeApp(Quart):
    """Quart, but for messages of nodes, and request lines without a path ("GET ?x"), which it does not survive."""

    direct: Direct | None = None

    async def asgi_app(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            if self.direct is not None and (message := self.direct.reads(scope)) is not None:
                return await self.direct.answer(message, receive, send)
            if not scope["path"]:
                scope["path"] = "/"
        return await super().asgi_app(scope, receive, send)


def create_app(node: Node, settings: Settings, token: OperatorToken | None = None) -> Quart:
    """The REST API and the page of this node; serve it with `flnet.web.serve.serve`.

    Args:
        node: the node.
        settings: its settings.
        token: what persons on other machines sign in with; the one of the settings, or one that nobody knows.
    """
    app = NodeApp(__name__, static_folder=None, template_folder=str(files("flnet_resources") / "web"))
    app.config["MAX_CONTENT_LENGTH"] = None  # body.py holds the limits, one per path

    door: Door | None = getattr(node, "door", None)
    signed = SignedRequests(door) if door is not None else None

    def limit_of(path: str) -> int:
        if is_predict(path) or is_upload(path):
            return PREDICT_BYTES
        return node.body_limit(path) if path in PATHS else CONTROL_BYTES

    def body_of(request: Request) -> LimitedBody:
        if signed is not None and not signed.admit(request):
            return LimitedBody(request.content_length, -1)
        if is_binary(request):
            return binary_body(request, node, settings)
        if is_import(request):
            return import_body(request, node)
        return LimitedBody(request.content_length, limit_of(request.path))

    intake = Intake()
    intake.install(app)
    app.request_class = limited_request(intake.bodies(body_of))
    app.direct = Direct(node, settings, intake) if signed is None else None
    answer_errors(app)
    gate = Gate(node, settings, token or OperatorToken(settings.operator_token or secrets.token_urlsafe(32)))
    guard(app, node, settings, gate)
    app.after_request(linger)
    check_signatures(app, signed)  # they cover what compress makes, and linger changes no content
    app.after_request(compress)  # runs before linger, which then passes on what is compressed
    app.register_blueprint(training_routes(node, settings))
    app.register_blueprint(params_routes(node))
    app.register_blueprint(info_routes(node, settings))
    app.register_blueprint(model_routes(node))
    app.register_blueprint(live_routes(app, node))
    app.register_blueprint(frame_routes(node, settings))
    app.register_blueprint(sign_in_routes())
    app.register_blueprint(page_routes(node, settings))
    app.register_blueprint(view_routes(node, settings))
    app.register_blueprint(import_routes(node))
    return app
