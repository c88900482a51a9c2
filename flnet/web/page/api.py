"""The page of the REST API: the OpenAPI description of this node in readable form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from quart import Response

from flnet.text import Text, text
from flnet.web.api.openapi import describe
from flnet.web.formatting import one_line
from flnet.web.page.frame import show
from flnet.web.routes import Pages

PLACES = {"path": text("path"), "query": text("query"), "body": text("body"), "answer": text("answer")}
TYPES = {
    "string": text("string"),
    "integer": text("integer"),
    "number": text("number"),
    "boolean": text("boolean"),
    "object": text("object"),
    "null": text("null"),
}
pages = Pages()
Described = Mapping[str, Any]


@dataclass(frozen=True)
class FieldView:
    """One parameter of a path or query, or one field of a body."""

    name: str
    place: str
    kind: str
    required: bool
    what_for: str


@dataclass(frozen=True)
class EndpointView:
    """One method of one path; `answers` are statuses and what they mean, `gives` the fields of a good answer."""

    method: str
    path: str
    anchor: str
    summary: str
    types: str
    fields: tuple[FieldView, ...]
    answers: tuple[tuple[str, str], ...]
    gives: tuple[FieldView, ...]


@dataclass(frozen=True)
class GroupView:
    """Endpoints of one kind."""

    name: str
    endpoints: tuple[EndpointView, ...]


@pages.get("/view/api")
async def api() -> Response:
    """The REST API."""
    return await show("api.html", groups=groups_of(describe()))


def groups_of(description: Described) -> Sequence[GroupView]:
    """The endpoints of this node's own description by their tag, in the order of the description."""
    parts: Described = description["components"]["schemas"]
    groups: dict[str, list[EndpointView]] = {}
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            groups.setdefault(operation["tags"][0], []).append(_endpoint(parts, path, method, operation))
    return [GroupView(name, tuple(endpoints)) for name, endpoints in groups.items()]


def _endpoint(parts: Described, path: str, method: str, operation: Described) -> EndpointView:
    content: Described = operation.get("requestBody", {}).get("content", {})
    answers: Described = operation["responses"]
    good = next(answer for status, answer in answers.items() if status.startswith("2"))
    return EndpointView(
        method=method.upper(),
        path=path,
        anchor=f"{method}{path}".replace("{", "").replace("}", "").replace("/", "-"),
        summary=operation["summary"],
        types=", ".join(content),
        fields=(*map(_parameter, operation["parameters"]), *_body_fields(parts, content, PLACES["body"])),
        answers=tuple((status, answer["description"]) for status, answer in answers.items()),
        gives=tuple(_body_fields(parts, good["content"], PLACES["answer"])),
    )


def _parameter(parameter: Described) -> FieldView:
    return FieldView(
        parameter["name"],
        PLACES[parameter["in"]],
        TYPES[parameter["schema"]["type"]],
        parameter.get("required", False),
        parameter["description"],
    )


def _body_fields(parts: Described, content: Described, place: str) -> Sequence[FieldView]:
    """The fields of the first content type that names any: several types of one body hold the same."""
    return next(filter(None, ([*_fields(parts, body["schema"], place)] for body in content.values())), [])


def _fields(parts: Described, schema: Described, place: str) -> Iterator[FieldView]:
    schema = _resolved(parts, schema)
    if schema.get("type") == "array":
        schema, place = _resolved(parts, schema["items"]), text("{place}, each", place)
    required = schema.get("required", ())
    for name, field_schema in schema.get("properties", {}).items():
        what_for = field_schema.get("description") or _resolved(parts, field_schema).get("description")
        is_required = name in required and place == PLACES["body"]
        yield FieldView(name, place, _kind(parts, field_schema), is_required, one_line(what_for, 500))


def _kind(parts: Described, schema: Described) -> str:
    """The type of a value in words: "integer", "list of string", "string or null"."""
    schema = _resolved(parts, schema)
    if "enum" in schema:
        return text("one of {names}", " | ".join(str(each) or '""' for each in schema["enum"]))
    if "anyOf" in schema:
        return reduce(_either, dict.fromkeys(map(partial(_kind, parts), schema["anyOf"])))
    stated = schema.get("type")
    if isinstance(stated, list):
        return reduce(_either, (_kind(parts, {"type": each}) for each in stated))
    if stated == "array":
        return text("list of {kind}", _kind(parts, schema.get("items", {})))
    return TYPES[stated] if stated else text("anything")


def _either(first: str, second: str) -> Text:
    return text("{first} or {second}", first, second)


def _resolved(parts: Described, schema: Described) -> Described:
    """The schema that a reference refers to."""
    return parts[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
