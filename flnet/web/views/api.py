"""The view of the REST API: the OpenAPI description of this node, as a page to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quart import Blueprint, Response

from flnet.web.view import text
from flnet.web.views.frame import show

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


def api_view(routes: Blueprint, describe: Callable[[], Described]) -> None:
    """GET /view/api; `describe` is asked when the view is."""

    @routes.get("/view/api")
    async def api() -> Response:
        return await show("api.html", groups=groups_of(describe()))


def groups_of(description: Described) -> Sequence[GroupView]:
    """The endpoints of an OpenAPI description by their first tag, in the order of the description."""
    groups: dict[str, list[EndpointView]] = {}
    for path, methods in description.get("paths", {}).items():
        for method in METHODS:
            if method in methods:
                said = methods[method]
                tag = text((said.get("tags") or ["endpoints"])[0], 60)
                shared = methods.get("parameters", ())
                groups.setdefault(tag, []).append(_endpoint(description, path, method, said, shared))
    return [GroupView(name, tuple(endpoints)) for name, endpoints in groups.items()]


def _endpoint(whole: Described, path: str, method: str, said: Described, shared: Sequence[Any]) -> EndpointView:
    parameters = [_resolved(whole, one) for one in (*shared, *said.get("parameters", ()))]
    body = _resolved(whole, said.get("requestBody") or {})
    content: Described = body.get("content") or {}
    in_body = _body_fields(whole, content, "body")
    answers = [(str(status), _resolved(whole, one)) for status, one in (said.get("responses") or {}).items()]
    good: Described = next((one for status, one in answers if status.startswith("2")), {})
    return EndpointView(
        method=method.upper(),
        path=text(path),
        anchor=f"{method}{path}".replace("{", "").replace("}", "").replace("/", "-"),
        summary=text(said.get("summary"), 300),
        what_for=text(said.get("description"), 2000),
        types=", ".join(text(kind, 80) for kind in content),
        fields=(*(_parameter(whole, one) for one in parameters), *in_body),
        answers=tuple((status, text(one.get("description"), 300)) for status, one in answers),
        gives=tuple(_body_fields(whole, good.get("content") or {}, "answer")),
    )


def _parameter(whole: Described, said: Described) -> FieldView:
    schema = _resolved(whole, said.get("schema") or {})
    what_for = said.get("description") or schema.get("description")
    return FieldView(
        text(said.get("name"), 80),
        text(said.get("in"), 20),
        _kind(whole, schema),
        said.get("required") is True,
        text(what_for, 500),
    )


def _body_fields(whole: Described, content: Described, place: str) -> Sequence[FieldView]:
    """The fields of the first content type that names any: several types of one body hold the same."""
    return next(filter(None, ([*_fields(whole, one.get("schema") or {}, place)] for one in content.values())), [])


def _fields(whole: Described, schema: Described, place: str) -> Iterator[FieldView]:
    schema = _resolved(whole, schema)
    if schema.get("type") == "array":
        schema, place = _resolved(whole, schema.get("items") or {}), f"{place}, each"
    required = schema.get("required") or ()
    for name, said in (schema.get("properties") or {}).items():
        what_for = said.get("description") or _resolved(whole, said).get("description")
        yield FieldView(
            text(name, 80), place, _kind(whole, said), name in required and place == "body", text(what_for, 500)
        )


def _kind(whole: Described, schema: Described, deep: int = 0) -> str:
    """The type of a value in words: "integer", "list of strings", "string or null"."""
    schema = _resolved(whole, schema)
    if deep > MOST_DEEP:
        return "..."
    if "enum" in schema:
        return " | ".join(text(str(one), 40) for one in schema["enum"])
    several = schema.get("anyOf") or schema.get("oneOf")
    if several:
        return " or ".join(dict.fromkeys(_kind(whole, one, deep + 1) for one in several))
    stated = schema.get("type")
    if stated == "array":
        return f"list of {_kind(whole, schema.get('items') or {}, deep + 1)}"
    return " or ".join(map(str, stated)) if isinstance(stated, list) else text(stated, 40) or "anything"


def _resolved(whole: Described, part: Described) -> Described:
    """What a part that only names another one stands for."""
    for _ in range(MOST_DEEP):
        if "$ref" not in part:
            return part
        found: Any = whole
        for step in str(part["$ref"]).removeprefix("#/").split("/"):
            found = found.get(step, {}) if isinstance(found, Mapping) else {}
        part = found if isinstance(found, Mapping) else {}
    return {}
