"""GET /openapi.json: the REST API in the form of OpenAPI 3.1, made from the table of endpoints."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from quart import Blueprint, Response

from flnet import __version__
from flnet.errors import PeerError
from flnet.postponing import postponed
from flnet.web.answers import JSON, json_answer
from flnet.web.endpoint import Endpoint, Who
from flnet.web.endpoints import ENDPOINTS
from flnet.web.refusals import SignInNeeded, TooManyRequests

with postponed("flnet.web.schemas.models"):
    from flnet.web.schemas import models as views

Described = dict[str, Any]
_IN_PATH = re.compile(r"{(\w+)}")
_WORDS = {
    "trainerId": "id of a trainer",
    "peer": "id of a peer",
    "digest": "digest of a model, or its beginning where that is clear",
}
_MODEL_PARAMS = {  # parameters travel beside a message, and in JSON within it
    "description": "nested lists of numbers by parameter name",
    "type": "object",
    "additionalProperties": {"type": ["array", "number"]},
}


def openapi_routes() -> Blueprint:
    """The endpoint that describes all others."""
    routes = Blueprint("openapi", __name__)

    @routes.get("/openapi.json")
    async def openapi() -> Response:
        return json_answer(describe())

    return routes


@cache
def describe() -> Described:
    """The whole description, as JSON-ready data."""
    schemas, parts = _schemas()
    paths: dict[str, Described] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "flnet",
            "version": __version__,
            "summary": "A node of a federated learning network without a server",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": parts},
    }


Schemas = Mapping[tuple[str, str], Described]  # of what an endpoint "takes" and of its "answer"


def _schemas() -> tuple[Schemas, Described]:
    """The schemas of all bodies, and the parts that they name."""
    wanted: list[tuple[tuple[str, str], Any, TypeAdapter[Any]]] = []
    for endpoint in ENDPOINTS:
        if endpoint.takes is not None:
            wanted.append(((endpoint.route, "takes"), "validation", TypeAdapter(endpoint.takes)))
        if endpoint.answer is not None:
            wanted.append(((endpoint.route, "answer"), "serialization", TypeAdapter(endpoint.answers)))
    wanted.append((("", "error"), "serialization", TypeAdapter(views.ErrorView)))
    found, whole = TypeAdapter.json_schemas(wanted, ref_template="#/components/schemas/{model}")
    parts: Described = whole["$defs"]
    for kind in _carrying():
        parts[kind]["properties"]["modelParams"] = _MODEL_PARAMS
    return {key: schema for (key, _), schema in found.items()}, parts


def _carrying() -> list[str]:
    """Names of the messages beside which parameters may travel."""
    bodies = [body for endpoint in ENDPOINTS for body in (endpoint.takes, endpoint.answers)]
    return sorted({body.__name__ for body in bodies if getattr(body, "carries_params", False)})


def _operation(endpoint: Endpoint, schemas: Schemas) -> Described:
    words = re.findall(r"\w+", endpoint.path.replace("_", "/"))
    said: Described = {
        "operationId": "".join([endpoint.method.lower(), *(word[:1].upper() + word[1:] for word in words)]),
        "tags": [endpoint.tag],
        "summary": endpoint.what,
        "parameters": _parameters(endpoint),
        "responses": _responses(endpoint, schemas.get((endpoint.route, "answer")), schemas["", "error"]),
    }
    if endpoint.takes is not None or endpoint.types:
        content: Described = {}
        if endpoint.takes is not None:
            content[JSON] = {"schema": schemas[endpoint.route, "takes"]}
        content |= {kind: _file(kind) for kind in endpoint.types}
        said["requestBody"] = {"required": True, "content": content}
    return said


def _parameters(endpoint: Endpoint) -> list[Described]:
    in_path = [
        {"name": name, "in": "path", "required": True, "description": _WORDS[name], "schema": {"type": "string"}}
        for name in _IN_PATH.findall(endpoint.path)
    ]
    in_query = [
        {"name": name, "in": "query", "description": words, "schema": {"type": "string"}}
        for name, words in endpoint.query.items()
    ]
    return in_path + in_query


def _responses(endpoint: Endpoint, answer: Described | None, error: Described) -> Described:
    kind = endpoint.answer_type
    content = {kind: _file(kind) if answer is None else {"schema": answer}}
    fine: Described = {"description": endpoint.what, "content": content}
    responses: Described = {str(status): fine for status in (endpoint.status, *endpoint.alike)}
    refuses = (*endpoint.refuses, *((SignInNeeded, TooManyRequests) if endpoint.who is Who.PERSONS else ()))
    for status in sorted({refusal.status for refusal in refuses}):
        words = _words([refusal for refusal in refuses if refusal.status == status])
        responses[str(status)] = {"description": words, "content": {JSON: {"schema": error}}}
    responses["default"] = {"description": "Any other error", "content": {JSON: {"schema": error}}}
    return responses


def _words(refusals: Sequence[type[PeerError]]) -> str:
    return " ".join(f"{each.code}: {(each.__doc__ or '').strip().splitlines()[0]}" for each in refusals)


def _file(kind: str) -> Described:
    return {"schema": {"type": "string", "contentMediaType": kind}}
