"""All endpoints of the REST API, and GET /openapi.json, which describes them in the form of OpenAPI 3.1.

The description is read off the declarations of the endpoints (`flnet.web.routes`) and their models. The pages for
people and their forms are not in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from flnet import __version__
from flnet.errors import PeerError, SignInNeeded, TooManyRequests
from flnet.protocol.messages import LAST_ROUND
from flnet.text import Text, joined, text
from flnet.web.api import (
    data_import,
    events,
    history,
    jobs,
    mesh,
    messages,
    models,
    monitoring,
    own_trainers,
    settings,
    trust,
)
from flnet.web.api.errors import ErrorView
from flnet.web.auth.permissions import Who
from flnet.web.routes import JSON, MESH, VARIABLE, Api, Endpoint, described_name

Described = dict[str, Any]
_VARIABLES = {  # of paths
    "trainer": "id of a trainer",
    "peer": "id of a peer",
    "digest": "digest of a model, or the beginning of one if it is unique",
    "round": "number of a round",
}
_PATHS: Mapping[str, Described] = {"round": {"type": "integer", "minimum": 0, "maximum": LAST_ROUND}}
_QUERIES: Mapping[str, Described] = {  # schemas of those that are not any text
    "last": {"type": "integer", "minimum": 1, "maximum": 999_999_999},
    "format": {"type": "string", "pattern": "^(safetensors|onnx|folder|html)(-common|-personal)?$"},
}
_MODEL_PARAMS = {  # parameters are sent with a message, and in JSON within it
    "description": "nested lists of numbers by parameter name",
    "type": "object",
    "additionalProperties": {"type": ["array", "number"]},
}
api = Api()


@api.get("/openapi.json", MESH, answer=dict[str, Any], who=Who.PUBLIC)
async def openapi() -> Described:
    """The OpenAPI description of this API."""
    return describe()


ENDPOINTS: tuple[Endpoint, ...] = (
    *(*jobs.api, *history.api, *models.api, *data_import.api, *own_trainers.api),
    *(*mesh.api, *events.api, *trust.api, *settings.api, *api, *monitoring.api, *messages.api),
)


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
            wanted.append(((endpoint.name, "takes"), "validation", TypeAdapter(endpoint.takes)))
        if endpoint.answer is not None:
            wanted.append(((endpoint.name, "answer"), "serialization", TypeAdapter(endpoint.answer)))
    wanted.append((("", "error"), "serialization", TypeAdapter(ErrorView)))
    schemas, whole = TypeAdapter.json_schemas(wanted, ref_template="#/components/schemas/{model}")
    parts: Described = whole["$defs"]
    for kind in _carrying():
        parts[kind]["properties"]["modelParams"] = _MODEL_PARAMS
    return {key: schema for (key, _), schema in schemas.items()}, parts


def _carrying() -> list[str]:
    """Names of the messages with which parameters may be sent."""
    bodies = [body for endpoint in ENDPOINTS for body in (endpoint.takes, endpoint.answer)]
    return sorted({body.__name__ for body in bodies if getattr(body, "carries_params", False)})


def _operation(endpoint: Endpoint, schemas: Schemas) -> Described:
    words = re.findall(r"\w+", endpoint.path.replace("_", "/"))
    operation: Described = {
        "operationId": "".join([endpoint.method.lower(), *(word[:1].upper() + word[1:] for word in words)]),
        "tags": [endpoint.tag],
        "summary": endpoint.what,
        "parameters": _parameters(endpoint),
        "responses": _responses(endpoint, schemas.get((endpoint.name, "answer")), schemas["", "error"]),
    }
    if endpoint.takes is not None or endpoint.types:
        content: Described = {}
        if endpoint.takes is not None:
            content[JSON] = {"schema": schemas[endpoint.name, "takes"]}
        content |= {kind: _file(kind) for kind in endpoint.types}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _parameters(endpoint: Endpoint) -> list[Described]:
    in_path = [
        {
            "name": described_name(name),
            "in": "path",
            "required": True,
            "description": _VARIABLES[name],
            "schema": _PATHS.get(name, {"type": "string"}),
        }
        for name in VARIABLE.findall(endpoint.rule)
    ]
    in_query = [
        {"name": name, "in": "query", "description": words, "schema": _QUERIES.get(name, {"type": "string"})}
        for name, words in endpoint.query.items()
    ]
    return in_path + in_query


def _responses(endpoint: Endpoint, answer: Described | None, error: Described) -> Described:
    kind = endpoint.answer_type
    content = {kind: _file(kind) if answer is None else {"schema": answer}}
    fine: Described = {"description": endpoint.what, "content": content}
    responses: Described = {str(status): fine for status in (endpoint.status, *endpoint.alike)}
    refuses = (*endpoint.refusals, *((SignInNeeded, TooManyRequests) if endpoint.who is Who.OPERATOR else ()))
    for status in sorted({refusal.status for refusal in refuses}):
        words = _words([refusal for refusal in refuses if refusal.status == status])
        responses[str(status)] = {"description": words, "content": {JSON: {"schema": error}}}
    responses["default"] = {"description": "Any other error", "content": {JSON: {"schema": error}}}
    return responses


def _words(refusals: Sequence[type[PeerError]]) -> Text:
    """What each status means; the page translates the sentences one by one."""
    first_lines = [(each.__doc__ or "").strip().partition("\n")[0] for each in refusals]
    return joined(
        (text("{code}: {words}", each.code, line) for each, line in zip(refusals, first_lines, strict=True)), " "
    )


def _file(kind: str) -> Described:
    return {"schema": {"type": "string", "contentMediaType": kind}}
