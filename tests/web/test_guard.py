from __future__ import annotations

import pytest

from .conftest import Client
from .fake_node import FakeNode

PERSON_REQUESTS = [
    ("POST", "/training/trigger"),
    ("POST", "/training/trigger/form"),
    ("PATCH", "/jobs/MNIST/params"),
    ("POST", "/announce"),
]
FOREIGN = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "http://evil.example"},
    {"Origin": "http://localhost:4001"},
    {"Origin": "null"},
    {"Origin": "http://[broken"},
    {"Origin": ""},
]


@pytest.mark.parametrize(("method", "path"), PERSON_REQUESTS)
@pytest.mark.parametrize("headers", FOREIGN)
async def test_what_another_sites_page_sends_is_refused_in_words(
    client: Client, node: FakeNode, method: str, path: str, headers: dict[str, str]
) -> None:
    headers = {**headers, "Host": "localhost:4000"}
    answer = await client.open(path, method=method, json={"trainerId": "MNIST", "e": 3}, headers=headers)
    told = await answer.get_json()
    assert (answer.status_code, told["error"]) == (403, "forbidden")
    assert "this node's own page" in told["message"]
    assert node.received == []
    assert node.jobs["MNIST"].hyper.e == 2


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://localhost:4000", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "http://LOCALHOST:4000"},
        {"Sec-Fetch-Site": "none"},
    ],
)
async def test_the_own_page_and_programs_pass(client: Client, headers: dict[str, str]) -> None:
    headers = {**headers, "Host": "localhost:4000"}
    answer = await client.post("/training/trigger", json={"trainerId": "MNIST"}, headers=headers)
    assert answer.status_code == 202


@pytest.mark.parametrize("path", ["/", "/info", "/nothing", "/web/style.css", "/training"])
async def test_every_answer_carries_the_security_headers(client: Client, path: str) -> None:
    headers = (await client.get(path)).headers
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'self';")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"
