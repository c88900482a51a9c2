from __future__ import annotations

from typing import Any

import pytest

from flnet.web.api.openapi import describe
from flnet.web.app import create_app
from flnet.web.page.api import groups_of
from tests.web.conftest import SETTINGS
from tests.web.fake_node import FakeNode
from tests.web.page_reading import load
from tests.web.view_nodes import EVIL

GIVEN = {"properties": {"round": {"type": "integer"}}}
DESCRIPTION: dict[str, Any] = {
    "paths": {
        "/jobs/{trainerId}": {
            "parameters": [{"name": "trainerId", "in": "path", "required": True, "schema": {"type": "string"}}],
            "get": {
                "tags": ["for people"],
                "summary": "one job",
                "responses": {
                    "200": {"description": "its view"},
                    "404": {"$ref": "#/components/responses/Unknown"},
                },
            },
        },
        "/training/trigger": {
            "post": {
                "tags": ["for people"],
                "summary": "start a round",
                "requestBody": {
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Trigger"}}}
                },
                "responses": {
                    "202": {
                        "description": "it begins",
                        "content": {"application/json": {"schema": {"type": "array", "items": GIVEN}}},
                    }
                },
            }
        },
        "/announce": {"post": {"tags": ["for nodes"], "summary": EVIL}},
    },
    "components": {
        "responses": {"Unknown": {"description": "no such trainer"}},
        "schemas": {
            "Trigger": {
                "type": "object",
                "required": ["trainerId"],
                "properties": {
                    "trainerId": {"type": "string", "description": "which job"},
                    "rounds": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                    "hyper": {"type": "array", "items": {"$ref": "#/components/schemas/Rate"}},
                    "form": {"enum": ["safetensors", "json"]},
                    "loop": {"$ref": "#/components/schemas/Loop"},
                },
            },
            "Rate": {"type": "number"},
            "Loop": {"$ref": "#/components/schemas/Loop"},
        },
    },
}


def test_endpoints_are_grouped_and_their_fields_named() -> None:
    people, nodes = groups_of(DESCRIPTION)
    assert (people.name, nodes.name) == ("for people", "for nodes")
    job, trigger = people.endpoints
    assert (job.method, job.path, job.anchor) == ("GET", "/jobs/{trainerId}", "get-jobs-trainerId")
    assert [(field.name, field.place, field.required) for field in job.fields] == [("trainerId", "path", True)]
    assert job.answers == (("200", "its view"), ("404", "no such trainer"))
    assert [(field.name, field.kind, field.required) for field in trigger.fields] == [
        ("trainerId", "string", True),
        ("rounds", "integer or null", False),
        ("hyper", "list of number", False),
        ("form", "safetensors | json", False),
        ("loop", "anything", False),
    ]
    assert (trigger.types, trigger.fields[0].what_for) == ("application/json", "which job")
    assert [(field.name, field.place, field.kind) for field in trigger.gives] == [
        ("round", "answer, each", "integer")
    ]


def test_a_description_that_leads_nowhere_or_in_circles_is_read_to_its_end() -> None:
    inside: dict[str, Any] = {"type": "array"}
    inside["items"] = inside
    schema = {"properties": {"x": inside, "y": {"$ref": "#/nowhere/at/all"}}}
    body = {"content": {"application/json": {"schema": schema}}}
    ((endpoint,),) = [group.endpoints for group in groups_of({"paths": {"/a": {"post": {"requestBody": body}}}})]
    x, y = endpoint.fields
    assert x.kind.endswith("list of ...")
    assert y.kind == "anything"
    assert groups_of({}) == []


async def test_the_page_shows_them_with_links_to_each_and_no_markup_from_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("flnet.web.page.api.describe", lambda: DESCRIPTION)
    page = await load(create_app(FakeNode(), SETTINGS).test_client(), "/view/api")
    assert "POST /training/trigger start a round" in page.text
    assert "trainerId required body string which job" in page.text
    assert EVIL in page.text
    assert len(page.all("img")) == 1
    assert [one["id"] for one in page.all("details") if "id" in one] == [
        "get-jobs-trainerId",
        "post-training-trigger",
        "post-announce",
    ]


async def test_every_endpoint_of_this_node_is_on_its_page() -> None:
    page = await load(create_app(FakeNode(), SETTINGS).test_client(), "/view/api")
    for path, methods in describe()["paths"].items():
        for method in methods:
            assert f"{method.upper()} {path} " in page.text
    assert "trainerId required" in page.text
    assert {"href": "/openapi.json"} in page.all("a")
