from __future__ import annotations

import pytest

from flnet.web.endpoint import JOBS, MESH, NODES, Endpoint, Who


@pytest.mark.parametrize(
    ("route", "tag", "secret", "who"),
    [
        ("GET /jobs", JOBS, False, Who.ANYONE),
        ("GET /settings", MESH, True, Who.PERSONS),
        ("POST /jobs/{trainerId}/stop", JOBS, False, Who.PERSONS),
        ("DELETE /a", MESH, False, Who.PERSONS),
        ("PUT /a", MESH, False, Who.PERSONS),
        ("POST /announce", NODES, False, Who.NODES),
        ("GET /training/model_params/{digest}", NODES, False, Who.NODES),
    ],
)
def test_what_changes_something_is_for_persons_but_for_what_nodes_say(
    route: str, tag: str, secret: bool, who: Who
) -> None:
    endpoint = Endpoint(route, tag, "", shows_secrets=secret)
    assert endpoint.who is who
    assert f"{endpoint.method} {endpoint.path}" == route
