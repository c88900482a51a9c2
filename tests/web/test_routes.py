"""Every route of the app is declared, and says who may use it, what it takes, answers and refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from quart import Quart

from flnet.errors import BodyTooLarge, UnreadableBody
from flnet.fingerprints import key_text
from flnet.node.trust import Trust
from flnet.web.api.openapi import ENDPOINTS
from flnet.web.app import PAGES, ROUTES, VIEWS
from flnet.web.auth.permissions import Who
from flnet.web.routes import JOBS, JSON, MESH, NODES, Api, Endpoint, Route
from tests.web.conftest import Client
from tests.web.fake_node import FakeNode

# Routes that change something and that anybody may use: they change cookies of the caller, and nothing of the node.
COOKIES = {"POST /look", "POST /sign-in", "POST /sign-out"}
PLAIN = [each for each in ENDPOINTS if each.method == "GET" and "<" not in each.rule and each.path != "/events"]
TAKING = [each for each in ENDPOINTS if each.takes is not None]


def name_of(route: Route) -> str:
    return route.name


def served(app: Quart) -> set[tuple[str, str]]:
    """Methods and rules of the app."""
    return {
        (method, rule.rule)
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }


def test_every_route_of_the_app_is_declared_once(app: Quart) -> None:
    assert served(app) == {(route.method, route.rule) for route in ROUTES}
    assert len(ROUTES) == len({route.name for route in ROUTES}) == len(ENDPOINTS) + len(PAGES) + len(VIEWS)


def test_whatever_changes_the_node_is_for_its_operator_or_said_by_nodes() -> None:
    changing = [route for route in ROUTES if route.method != "GET"]
    assert {route.name for route in changing if route.who in (Who.PUBLIC, Who.READERS)} == COOKIES
    said_by_nodes = {route.name for route in ROUTES if route.who is Who.NODES}
    assert said_by_nodes == {each.name for each in ENDPOINTS if each.tag == NODES}


@pytest.mark.parametrize(
    ("name", "who"),
    [
        ("GET /jobs/{trainerId}", Who.READERS),
        ("POST /training/trigger", Who.OPERATOR),
        ("DELETE /jobs/{trainerId}/models/{digest}/pin", Who.OPERATOR),
        ("GET /settings", Who.OPERATOR),
        ("GET /view/settings", Who.OPERATOR),
        ("GET /trust", Who.OPERATOR),
        ("GET /jobs/{trainerId}/labels", Who.OPERATOR),
        ("GET /jobs/{trainerId}/gains", Who.OPERATOR),
        ("POST /announce", Who.NODES),
        ("GET /training/model_params/{digest}", Who.NODES),
        ("GET /health", Who.PUBLIC),
        ("GET /info", Who.READERS),
    ],
)
def test_who_may_use_it(name: str, who: Who) -> None:
    assert [route.who for route in ROUTES if route.name == name] == [who]


async def handler(node: Any) -> None:
    """Do something.

    In many words.
    """


@pytest.mark.parametrize(
    ("method", "tag", "who"),
    [
        ("GET", JOBS, Who.READERS),
        ("POST", JOBS, Who.OPERATOR),
        ("DELETE", MESH, Who.OPERATOR),
        ("PUT", MESH, Who.OPERATOR),
        ("POST", NODES, Who.NODES),
        ("GET", NODES, Who.NODES),
    ],
)
def test_what_changes_something_is_for_the_operator_if_nothing_else_is_said(
    method: str, tag: str, who: Who
) -> None:
    api = Api()
    api.add(method, "/jobs/<trainer>/x/<path:peer>", tag, handler)
    (endpoint,) = api
    assert (endpoint.who, endpoint.what) == (who, "Do something")
    assert endpoint.name == f"{method} /jobs/{{trainerId}}/x/{{peer}}"


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_a_route_that_is_not_declared_is_answered_to_nobody(app: Quart, method: str) -> None:
    @app.route("/new", methods=[method])
    async def new() -> str:
        return "secret"

    answer = await app.test_client().open("/new", method=method, json={})
    assert answer.status_code == 403
    assert "nobody may do this" in (await answer.get_json())["message"]


async def test_which_methods_there_are_is_told_to_everybody(client: Client) -> None:
    answer = await client.options("/training/trigger", scope_base={"client": ("192.0.2.7", 5)})
    assert (answer.status_code, set(answer.headers["Allow"].split(", "))) == (200, {"POST", "OPTIONS"})


@pytest.mark.parametrize("endpoint", PLAIN, ids=name_of)
@pytest.mark.parametrize("ready", [True, False])
async def test_what_is_read_has_the_status_and_type_that_are_stated(
    client: Client, node: FakeNode, endpoint: Endpoint, ready: bool
) -> None:
    # Some is told in a pinned mesh only.
    node.reasons, node.trust = [] if ready else ["a"], Trust(key_text(bytes(32)))
    answer = await client.get(endpoint.path)
    assert answer.status_code in (endpoint.status, *endpoint.alike)
    assert answer.mimetype == endpoint.answer_type


@pytest.mark.parametrize("endpoint", TAKING, ids=name_of)
async def test_what_takes_a_body_takes_json_and_refuses_what_is_none(client: Client, endpoint: Endpoint) -> None:
    assert {UnreadableBody, BodyTooLarge} <= set(endpoint.refusals)
    path, send = endpoint.path.replace("{trainerId}", "MNIST"), getattr(client, endpoint.method.lower())
    answer = await send(path, data=b"nonsense", headers={"Content-Type": JSON})
    assert (answer.status_code, (await answer.get_json())["error"]) == (422, UnreadableBody.code)
    answer = await send(path, data=b"nonsense", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415


@pytest.mark.parametrize("order", ["stop", "pause", "resume"])
async def test_what_steers_a_job_answers_with_it(client: Client, order: str) -> None:
    answer = await client.post(f"/jobs/MNIST/{order}")
    assert (answer.status_code, (await answer.get_json())["trainer_id"]) == (200, "MNIST")


LIMITS = [
    *(("/training/trigger", False), ("/announce", False), ("/training/model_params", True)),
    *(("/jobs/MNIST/predict", True), ("/jobs/MNIST/stop", False), ("/view/predict/MNIST", True)),
    *(("/view/models/MNIST", False), ("/training/trigger/form", False)),
]


@pytest.mark.parametrize(("path", "large"), LIMITS)
async def test_large_bodies_are_taken_in_only_where_they_may_come(client: Client, path: str, large: bool) -> None:
    answer = await client.post(path, data=b" " * 100_000, headers={"Content-Type": JSON})
    assert (answer.status_code == 413) is not large


def test_a_route_that_is_read_reads_no_body_and_gets_what_it_names() -> None:
    route = next(route for route in ROUTES if route.name == "GET /mesh")
    assert route.parameters == {"node", "settings"}
    assert not replace(route).reads_body
