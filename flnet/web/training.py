"""POST /announce and the POSTs of a round: bytes in, the node's reply out, nothing decided here."""

from __future__ import annotations

from quart import Blueprint, Response, request
from werkzeug.exceptions import UnsupportedMediaType

from flnet.messages import Accuracy, Announce, ModelParams, StartTraining, Trigger
from flnet.node.base import Node
from flnet.web.answers import JSON, reply_answer
from flnet.web.body import read_body

PATHS = tuple(kind.path for kind in (Announce, StartTraining, ModelParams, Accuracy, Trigger))
_CURL_DEFAULT = "application/x-www-form-urlencoded"  # what curl -d says of any body


def training_routes(node: Node) -> Blueprint:
    """The endpoints that take a message."""
    routes = Blueprint("training", __name__)

    async def receive() -> Response:
        content_type = acceptable_type()
        body = await read_body()
        if content_type == _CURL_DEFAULT:
            content_type = _as_json(body)
        return reply_answer(await node.receive(request.path, body, content_type, caller_ip()))

    for path in PATHS:
        routes.add_url_rule(path, endpoint=path.strip("/").replace("/", "_"), view_func=receive, methods=["POST"])
    return routes


def acceptable_type() -> str:
    """The content type that the caller states; JSON if it states none.

    Raises:
        UnsupportedMediaType: neither JSON nor what curl states by itself.
    """
    stated = request.mimetype or JSON
    if stated == JSON or (stated.startswith("application/") and stated.endswith("+json")):
        return JSON
    if stated == _CURL_DEFAULT:
        return stated
    raise UnsupportedMediaType(f"the body must be {JSON}, but its content type is {stated[:100]!r}")


def caller_ip() -> str:
    """The address that the connection came from; a header of the caller cannot change it."""
    client = request.scope.get("client") or ("127.0.0.1", 0)
    return str(client[0]).removeprefix("::ffff:")  # IPv4 on a socket that listens for both


def _as_json(body: bytes) -> str:
    """JSON, if that is what the form-encoded body really is."""
    if body.lstrip()[:1] != b"{":
        raise UnsupportedMediaType(f"the body must be a JSON object ({JSON}), but it is form data")
    return JSON
