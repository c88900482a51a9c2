"""The page of the REST API: the OpenAPI description of this node in readable form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quart import Response

from flnet.web.api.openapi import describe
from flnet.web.formatting import one_line
from flnet.web.page.frame import show
from flnet.web.routes import Pages

pages = Pages()
METHODS = ("get", "post", "patch", "put", "delete")
MOST_DEEP = 8  # steps from one part of the description to another
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
    what_for: str
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
    """The endpoints of an OpenAPI description by their first tag, in the order of the description."""
    groups: dict[str, list[EndpointView]] = {}
    for path, methods in description.get("paths", {}).items():
        for method in METHODS:
            if method in methods:
                operation = methods[method]
                tag = one_line((operation.get("tags") or ["endpoints"])[0], 60)
                shared = methods.get("parameters", ())
                groups.setdefault(tag, []).append(_endpoint(description, path, method, operation, shared))
    return [GroupView(name, tuple(endpoints)) for name, endpoints in groups.items()]


def _endpoint(
    whole: Described, path: str, method: str, operation: Described, shared: Sequence[Any]
) -> EndpointView:
    parameters = [_resolved(whole, part) for part in (*shared, *operation.get("parameters", ()))]
    body = _resolved(whole, operation.get("requestBody") or {})
    content: Described = body.get("content") or {}
    in_body = _body_fields(whole, content, "body")
    answers = [
        (str(status), _resolved(whole, part)) for status, part in (operation.get("responses") or {}).items()
    ]
    good: Described = next((part for status, part in answers if status.startswith("2")), {})
    return EndpointView(
        method=method.upper(),
        path=one_line(path),
        anchor=f"{method}{path}".replace("{", "").replace("}", "").replace("/", "-"),
        summary=one_line(operation.get("summary"), 300),
        what_for=one_line(operation.get("description"), 2000),
        types=", ".join(one_line(kind, 80) for kind in content),
        fields=(*(_parameter(whole, part) for part in parameters), *in_body),
        answers=tuple((status, one_line(part.get("description"), 300)) for status, part in answers),
        gives=tuple(_body_fields(whole, good.get("content") or {}, "answer")),
    )


def _parameter(whole: Described, parameter: Described) -> FieldView:
    schema = _resolved(whole, parameter.get("schema") or {})
    what_for = parameter.get("description") or schema.get("description")
    return FieldView(
        one_line(parameter.get("name"), 80),
        one_line(parameter.get("in"), 20),
        _kind(whole, schema),
        parameter.get("required") is True,
        one_line(what_for, 500),
    )


def _body_fields(whole: Described, content: Described, place: str) -> Sequence[FieldView]:
    """The fields of the first content type that names any: several types of one body hold the same."""
    return next(
        filter(None, ([*_fields(whole, body.get("schema") or {}, place)] for body in content.values())), []
    )


def _fields(whole: Described, schema: Described, place: str) -> Iterator[FieldView]:
    schema = _resolved(whole, schema)
    if schema.get("type") == "array":
        schema, place = _resolved(whole, schema.get("items") or {}), f"{place}, each"
    required = schema.get("required") or ()
    for name, field_schema in (schema.get("properties") or {}).items():
        what_for = field_schema.get("description") or _resolved(whole, field_schema).get("description")
        yield FieldView(
            one_line(name, 80),
            place,
            _kind(whole, field_schema),
            name in required and place == "body",
            one_line(what_for, 500),
        )


def _kind(whole: Described, schema: Described, deep: int = 0) -> str:
    """The type of a value in words: "integer", "list of strings", "string or null"."""
    schema = _resolved(whole, schema)
    if deep > MOST_DEEP:
        return "..."
    if "enum" in schema:
        return " | ".join(one_line(str(option), 40) for option in schema["enum"])
    several = schema.get("anyOf") or schema.get("oneOf")
    if several:
        return " or ".join(dict.fromkeys(_kind(whole, option, deep + 1) for option in several))
    stated = schema.get("type")
    if stated == "array":
        return f"list of {_kind(whole, schema.get('items') or {}, deep + 1)}"
    return " or ".join(map(str, stated)) if isinstance(stated, list) else one_line(stated, 40) or "anything"


def _resolved(whole: Described, part: Described) -> Described:
    """What a part that only names another one stands for."""
    for _ in range(MOST_DEEP):
        if "$ref" not in part:
            return part
        target: Any = whole
        for step in str(part["$ref"]).removeprefix("#/").split("/"):
            target = target.get(step, {}) if isinstance(target, Mapping) else {}
        part = target if isinstance(target, Mapping) else {}
    return {}
