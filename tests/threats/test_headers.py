"""Every answer tells browsers what they may do with it: pages, files, errors, streams, redirects and refusals."""

from __future__ import annotations

import asyncio
import re

import pytest
from quart import Quart

from flnet.web.auth.admission import HEADERS
from tests.threats.conftest import Serve
from tests.web.conftest import Client
from tests.web.fake_node import FakeNode

OWN = {"Cache-Control"}  # which files of the pages set for themselves
HEADS = [
    "GET /events HTTP/1.1\r\nHost: localhost",
    "HEAD /events HTTP/1.1\r\nHost: localhost",
    "GET /view/models HTTP/1.1\r\nHost: localhost",
    "GET //info HTTP/1.1\r\nHost: localhost",
    "GET / HTTP/1.1\r\nHost: evil.example",
    "GET /nothing HTTP/1.1\r\nHost: localhost",
    "BREW / HTTP/1.1\r\nHost: localhost",
    "OPTIONS /training/trigger HTTP/1.1\r\nHost: localhost",
    "GET /training/model_params/00 HTTP/1.1\r\nHost: localhost",
    "POST /announce HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999",
    "POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0",
    "PATCH /jobs/MNIST/params HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0",
]


@pytest.mark.parametrize("head", HEADS)
async def test_whatever_is_asked_the_answer_carries_them(serving: Serve, head: str) -> None:
    async with serving() as port, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{head}\r\n\r\n".encode())
        answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        writer.close()
    for name, value in HEADERS.items():
        assert re.search(rf"\r\n{name.lower()}: {re.escape(value.lower())}\r\n", answer), name


async def test_every_route_that_is_read_carries_them_for_every_caller(
    app: Quart, client: Client, node: FakeNode
) -> None:
    paths = {re.sub(r"<[^>]*>", "MNIST", rule.rule) for rule in app.url_map.iter_rules()} - {"/events"}
    for path in sorted(paths):
        for caller in ("127.0.0.1", "192.0.2.7"):
            answer = await client.get(path, scope_base={"client": (caller, 5)})
            assert answer.status_code < 500, path
            assert {name for name in HEADERS if answer.headers.get(name) != HEADERS[name]} <= OWN, path


def test_the_policy_allows_no_script_but_the_nodes_own_files() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert {"default-src 'self'", "object-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"} <= {
        part.strip() for part in policy.split(";")
    }
    assert (HEADERS["X-Content-Type-Options"], HEADERS["Referrer-Policy"]) == ("nosniff", "same-origin")
