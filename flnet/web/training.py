"""POST /announce and the POSTs of a round: bytes in, the node's reply out, nothing decided here."""

from __future__ import annotations

from functools import partial

from quart import Blueprint, Response, request
from werkzeug.exceptions import UnsupportedMediaType

from flnet.codec.binary import BINARY_TYPE, HEAD_LIMIT
from flnet.messages import Accuracy, Announce, AskVersion, ModelParams, Probe, StartTraining, Trigger
from flnet.node.base import Node
from flnet.settings import Settings
from flnet.web.answers import JSON, reply_answer
from flnet.web.body import LandedBody, LimitedBody, read_body, read_landed
from flnet.web.caller import Asked, caller_ip, is_browser
from flnet.web.signed import signed_by

_KINDS = (Announce, Probe, StartTraining, ModelParams, Accuracy, AskVersion, Trigger)
PATHS = tuple(kind.path for kind in _KINDS)
BINARY_PATHS = frozenset(kind.path for kind in _KINDS if kind.carries_params)
_CURL_DEFAULT = "application/x-www-form-urlencoded"  # what curl -d says of any body


def training_routes(node: Node, settings: Settings) -> Blueprint:
    """The endpoints that take a message."""
    routes = Blueprint("training", __name__)

    async def receive() -> Response:
        if is_binary(request):
            acceptable_wire(settings)
            landed = await read_landed()
            signer = await signed_by(landed)
            return reply_answer(await node.receive(request.path, landed, BINARY_TYPE, caller_ip(), signer))
        content_type = acceptable_type()
        body = await read_body()
        if content_type == _CURL_DEFAULT:
            content_type = _as_json(body)
        signer = await signed_by(body)
        return reply_answer(await node.receive(request.path, body, content_type, caller_ip(), signer))

    for path in PATHS:
        routes.add_url_rule(path, endpoint=path.strip("/").replace("/", "_"), view_func=receive, methods=["POST"])
    return routes


def is_binary(asked: Asked) -> bool:
    """Whether it brings parameters in the binary form, and to a path that takes them."""
    return asked.mimetype == BINARY_TYPE and asked.method == "POST" and asked.path in BINARY_PATHS


def binary_body(asked: Asked, node: Node, settings: Settings) -> LimitedBody:
    """Where the body of an `is_binary` request goes: nowhere, if it will be refused unread."""
    if asked.content_length is None or settings.wire == "json":
        return LimitedBody(None, -1)
    limit, inspect = node.body_limit(asked.path), partial(node.inspect, asked.path, BINARY_TYPE)
    return LandedBody(asked.content_length, limit, HEAD_LIMIT, inspect)


def acceptable_wire(settings: Settings) -> None:
    """Check that this node takes binary bodies.

    Raises:
        UnsupportedMediaType: it was set not to.
    """
    if settings.wire == "json":
        raise UnsupportedMediaType(f"this node takes {JSON} only, not {BINARY_TYPE}; send the parameters as JSON")


def acceptable_type() -> str:
    """The content type that the caller states; JSON if a program states none.

    Raises:
        UnsupportedMediaType: neither JSON nor what curl states by itself. A browser has to say JSON: a page of
            another site cannot make it say so without asking this node first.
    """
    stated = request.mimetype or ("" if is_browser() else JSON)
    if stated == JSON or (stated.startswith("application/") and stated.endswith("+json")):
        return JSON
    if stated == _CURL_DEFAULT and not is_browser():
        return stated
    also = f" or {BINARY_TYPE}" if request.path in BINARY_PATHS else ""
    raise UnsupportedMediaType(f"the body must be {JSON}{also}, but its content type is {stated[:100]!r}")


def _as_json(body: bytes) -> str:
    """JSON, if that is what the form-encoded body really is."""
    if body.lstrip()[:1] != b"{":
        raise UnsupportedMediaType(f"the body must be a JSON object ({JSON}), but it is form data")
    return JSON
