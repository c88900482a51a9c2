from __future__ import annotations

from typing import Any

from flnet.web.api.openapi import describe
from flnet.web.app import create_app
from flnet.web.page.api import groups_of
from tests.web.conftest import SETTINGS
from tests.web.fake_node import FakeNode
from tests.web.page_reading import load

FIELDS: dict[str, Any] = {
    "trainerId": {"type": "string", "description": "which job"},
    "rounds": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    "hyper": {"type": "array", "items": {"$ref": "#/components/schemas/Rate"}},
    "form": {"enum": ["safetensors", "json"]},
    "any": {},
}


def test_fields_are_named_with_their_types() -> None:
    person, node = "for people", "for nodes"
    listed = {"type": "array", "items": {"$ref": "#/components/schemas/Trigger"}}
    schemas = {"Trigger": {"required": ["trainerId"], "properties": FIELDS}, "Rate": {"type": "number"}}
    operation: dict[str, Any] = {"summary": "start a round", "parameters": []}
    good = {"description": "it begins", "content": {"application/json": {"schema": listed}}}
    bad = {"description": "no such trainer", "content": {}}
    body = {"content": {"text/csv": {"schema": {}}, "application/json": {"schema": listed["items"]}}}
    get = {**operation, "tags": [person], "responses": {"404": bad, "202": good}}
    post = {**operation, "tags": [node], "responses": {"202": good}, "requestBody": body}
    paths = {"/jobs/{trainerId}": {"get": get, "post": post}}
    people, nodes = groups_of({"paths": paths, "components": {"schemas": schemas}})
    assert (people.name, nodes.name) == (person, node)
    (job,), (trigger,) = people.endpoints, nodes.endpoints
    assert (job.method, job.path, job.anchor) == ("GET", "/jobs/{trainerId}", "get-jobs-trainerId")
    assert job.answers == (("404", "no such trainer"), ("202", "it begins"))
    assert [(field.name, field.kind, field.required) for field in trigger.fields] == [
        ("trainerId", "string", True),
        ("rounds", "integer or null", False),
        ("hyper", "list of number", False),
        ("form", "one of safetensors | json", False),
        ("any", "anything", False),
    ]
    assert (trigger.types, trigger.fields[0].what_for) == ("text/csv, application/json", "which job")
    assert {(field.place, field.required) for field in job.gives} == {("answer, each", False)}


async def test_every_endpoint_of_this_node_is_on_its_page() -> None:
    page = await load(create_app(FakeNode(), SETTINGS).test_client(), "/view/api")
    for path, methods in describe()["paths"].items():
        for method in methods:
            assert f"{method.upper()} {path} " in page.text
    assert "trainerId required" in page.text
    assert {"href": "/openapi.json"} in page.all("a")
