"""Every route of the application stands in the table of who may ask; what does not is answered to nobody."""

from __future__ import annotations

import pytest
from quart import Quart

from flnet.web.access import PAGES, TABLE, plain, who_may
from flnet.web.endpoint import NODES, Who
from flnet.web.endpoints import ENDPOINTS

CHANGING_FOR_ANYONE = {
    "POST /look",
    "POST /sign-in",
    "POST /sign-out",
}  # cookies of the caller, nothing of the node


def routes(app: Quart) -> set[str]:
    return {
        f"{method} {plain(rule.rule)}"
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }


def test_every_route_stands_in_the_table_and_nothing_else_does(app: Quart) -> None:
    assert routes(app) - TABLE.keys() == set()
    assert TABLE.keys() - routes(app) == set()


def test_no_route_stands_there_twice() -> None:
    assert len(TABLE) == len(PAGES) + len(ENDPOINTS)


def test_whatever_changes_the_node_is_for_persons_or_said_by_nodes() -> None:
    changing = {route for route in TABLE if not route.startswith("GET ")}
    assert {route for route in changing if TABLE[route] is Who.ANYONE} == CHANGING_FOR_ANYONE
    said_by_nodes = {route for route in changing if TABLE[route] is Who.NODES}
    assert said_by_nodes == {plain(each.route) for each in ENDPOINTS if each.tag == NODES} & changing
    assert TABLE["GET /settings"] is TABLE["GET /view/settings"] is Who.PERSONS


@pytest.mark.parametrize(
    ("method", "rule", "who"),
    [
        ("GET", "/jobs/<trainer>", Who.ANYONE),
        ("HEAD", "/jobs/<string:trainer>", Who.ANYONE),
        ("OPTIONS", "/training/trigger", Who.ANYONE),
        ("POST", "/training/trigger", Who.PERSONS),
        ("DELETE", "/jobs/<trainer>/models/<digest>/pin", Who.PERSONS),
        ("POST", "/announce", Who.NODES),
        ("GET", "/training/trigger", None),
        ("POST", "/jobs/<trainer>", None),
        ("PROPFIND", "/", None),
        ("GET", "/new", None),
    ],
)
def test_a_method_of_a_route_is_known_or_it_is_not(method: str, rule: str, who: Who | None) -> None:
    assert who_may(method, rule) is who


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_a_route_that_nobody_put_into_the_table_is_refused(app: Quart, method: str) -> None:
    @app.route("/new", methods=[method])
    async def new() -> str:
        return "secret"

    answer = await app.test_client().open("/new", method=method, json={})
    assert answer.status_code == 403
    assert "nobody may do this" in (await answer.get_json())["message"]
