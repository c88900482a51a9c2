"""The table of endpoints says what the app does: statuses, content types, and which bodies are refused."""

from __future__ import annotations

import pytest

from flnet.errors import BodyTooLarge, UnreadableBody
from flnet.fingerprints import key_text
from flnet.node.trust import Trust
from flnet.web.answers import JSON
from flnet.web.endpoint import Endpoint
from flnet.web.endpoints import ENDPOINTS

from .conftest import Client
from .fake_node import FakeNode

PLAIN = [each for each in ENDPOINTS if each.method == "GET" and "{" not in each.path and each.path != "/events"]
TAKING = [each for each in ENDPOINTS if each.takes is not None]


def named(endpoint: Endpoint) -> str:
    return endpoint.route


def test_every_endpoint_stands_there_once() -> None:
    assert len({each.route for each in ENDPOINTS}) == len(ENDPOINTS)
    assert all(each.route == f"{each.method} {each.path}" for each in ENDPOINTS)


@pytest.mark.parametrize("endpoint", PLAIN, ids=named)
@pytest.mark.parametrize("ready", [True, False])
async def test_what_is_read_has_the_status_and_type_that_are_stated(
    client: Client, node: FakeNode, endpoint: Endpoint, ready: bool
) -> None:
    node.is_ready, node.trust = ready, Trust(key_text(bytes(32)))  # some is told in a pinned mesh only
    answer = await client.get(endpoint.path)
    assert answer.status_code in (endpoint.status, *endpoint.alike)
    assert answer.mimetype == endpoint.answer_type


@pytest.mark.parametrize("endpoint", TAKING, ids=named)
async def test_what_takes_a_body_takes_json_and_refuses_what_is_none(client: Client, endpoint: Endpoint) -> None:
    assert {UnreadableBody, BodyTooLarge} <= set(endpoint.refuses)
    path = endpoint.path.replace("{trainerId}", "MNIST")
    send = {"PATCH": client.patch, "PUT": client.put}.get(endpoint.method, client.post)
    json, words = {"Content-Type": JSON}, {"Content-Type": "text/plain"}
    answer = await send(path, data=b"nonsense", headers=json)
    assert (answer.status_code, (await answer.get_json())["error"]) == (422, UnreadableBody.code)
    answer = await send(path, data=b"nonsense", headers=words)
    assert answer.status_code == 415


@pytest.mark.parametrize("order", ["stop", "pause", "resume"])
async def test_what_steers_a_job_answers_with_it(client: Client, order: str) -> None:
    (endpoint,) = [each for each in ENDPOINTS if each.route == f"POST /jobs/{{trainerId}}/{order}"]
    answer = await client.post(f"/jobs/MNIST/{order}")
    assert (answer.status_code, answer.mimetype) == (endpoint.status, endpoint.answer_type)
