"""A site lets its own name lead to a node, so that its page becomes one of the node's own for the browser."""

from __future__ import annotations

import asyncio
import re
import socket
from typing import Any

import pytest
from quart import Quart

from flnet.settings import load_settings
from flnet.web.app import create_app
from tests.threats.conftest import FOREIGN, Serve, Told
from tests.web.browsing import MARKS
from tests.web.conftest import Client
from tests.web.fake_node import FakeNode

pytestmark = [mark for mark in MARKS if mark.name == "filterwarnings"]
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
FAR: Any = {"client": ("192.0.2.7", 5)}


def paths(app: Quart) -> list[str]:
    return sorted({re.sub(r"<[^>]*>", "MNIST", rule.rule) for rule in app.url_map.iter_rules()})


async def status(client: Client, host: str, path: str = "/info", **more: Any) -> int:
    return (await client.get(path, headers={"Host": host, **more.pop("headers", {})}, **more)).status_code


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("host", ["evil.example", "evil.example:4000"])
async def test_no_route_answers_to_a_foreign_name(
    app: Quart, client: Client, node: FakeNode, method: str, host: str
) -> None:
    before = node.info()
    own_page = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    for path in (*paths(app), "/nothing/there", "//info", "/jobs/../settings"):
        answer = await client.open(path, method=method, json={"trainerId": "MNIST"}, headers=own_page)
        assert answer.status_code == 403, path
    assert (node.info(), node.received) == (before, [])


@pytest.mark.parametrize(
    "host",
    [
        *("localhost.evil.example", "127.0.0.1.evil.example", "evil.example#localhost", "localhost@evil.example"),
        *(
            "localhost evil.example",
            "localhost,evil.example",
            "localhost/",
            "[::1].evil.example",
        ),
        *("NODE_1.evil.example", "xNODE_1", "2130706433", "0x7f000001", "127.1", "::1", "%6cocalhost"),
        *("localhost\t", "lоcalhost", "localhost:port", ":4000", "-"),  # noqa: RUF001 - a letter of another script
    ],
)
async def test_names_that_only_look_like_its_own_are_foreign(client: Client, host: str) -> None:
    sent = host.encode().decode("latin-1")
    assert await status(client, sent) == 403


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        (b"http://evil.example/info", b"localhost", b"400"),
        (b"http://localhost@evil.example/info", b"localhost", b"400"),
        (b"http://evil.example/info", b"evil.example", b"403"),
        (b"http://LOCALHOST/info", b"localhost", b"200"),
    ],
)
async def test_a_request_is_for_one_host(serving: Serve, target: bytes, host: bytes, status: bytes) -> None:
    async with serving() as port, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).split(b" ")[1] == status
        writer.close()


async def test_its_own_names_and_all_addresses_pass(client: Client) -> None:
    for host in (
        "localhost",
        "LOCALHOST:1",
        "localhost.",
        "127.0.0.1:4000",
        "[::1]:4000",
        "NODE_1:4000",
        "node_1",
    ):
        assert await status(client, host) == 200, host
    for host in ("192.168.1.9:4000", "203.0.113.7", "[2001:db8::1]:4000", socket.gethostname()):
        assert await status(client, host, scope_base=FAR) == 200, host


async def test_further_names_are_those_of_the_settings(node: FakeNode) -> None:
    settings = load_settings({"allowed_hosts": "FL.hospital.example,fl", "node_ip": "n1.hospital.example"}, {})
    client = create_app(node, settings).test_client()
    for host in ("fl.hospital.example:4000", "FL", "N1.hospital.example", "fl.hospital.example."):
        assert await status(client, host) == 200, host
    for host in ("hospital.example", "x.fl.hospital.example", "fl.hospital.example.evil.example"):
        assert await status(client, host) == 403, host


async def test_an_allowed_name_does_not_make_the_caller_one_of_this_machine(node: FakeNode) -> None:
    client = create_app(node, load_settings({"allowed_hosts": "fl"}, {})).test_client()
    assert (await client.post("/jobs/MNIST/pause", headers={"Host": "fl"})).status_code == 401
    assert (await client.post("/jobs/MNIST/pause", headers={"Host": "localhost"})).status_code == 200


async def test_the_refusal_says_in_words_what_to_do(client: Client) -> None:
    answer = await client.get("/info", headers={"Host": "fl.hospital.example"})
    told = (await answer.get_json())["message"]
    assert "does not go by the name 'fl.hospital.example'" in told
    assert "FLNET_ALLOWED_HOSTS" in told
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'self'")


@pytest.mark.parametrize(
    "head",
    [
        "GET /settings HTTP/1.1\r\nHost: localhost\r\nHost: evil.example",
        "GET /settings HTTP/1.1\r\nHost: evil.example\r\nHost: localhost",
        "GET http://localhost/settings HTTP/1.1\r\nHost: evil.example",
        "GET /settings HTTP/1.1\r\nHost: [evil.example]",
        "GET /settings HTTP/1.1\r\nHost: [::1",
        "GET /settings HTTP/1.1\r\nHost: ]",
        "GET /settings HTTP/1.1\r\nHost: localhost\r\n evil.example",
        "GET /settings HTTP/1.1\r\nHost:",
        "POST /jobs/MNIST/pause HTTP/1.0",
        "GET /settings HTTP/1.0",
    ],
)
async def test_what_only_a_program_could_send_is_refused_too(serving: Serve, node: FakeNode, head: str) -> None:
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{head}\r\n\r\n".encode())
        answer = await asyncio.wait_for(reader.readline(), 60)
        writer.close()
    assert answer.split()[1] in (b"400", b"401", b"403", b"404")
    assert not node.jobs["MNIST"].paused


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
async def test_a_rebound_name_reads_and_changes_nothing_in_a_real_browser(
    serving: Serve, node: FakeNode, chromium: Any
) -> None:
    told: list[Told] = []
    async with serving(told=told) as port, asyncio.timeout(150):
        page = await (await chromium.new_context()).new_page()
        answer = await page.goto(f"http://a.{FOREIGN}:{port}/")
        assert answer.status == 403
        read = """async () => {
          const body = '{"trainerId": "MNIST"}', headers = {"Content-Type": "application/json"};
          const tries = ["/info", "/settings", "/jobs", "/"].map(path => fetch(path));
          tries.push(fetch("/training/trigger", {method: "POST", headers, body}));
          tries.push(fetch("/jobs/MNIST/models/ff/pin", {method: "DELETE"}));
          return (await Promise.all(tries)).map(answer => answer.status);
        }"""
        assert set(await page.evaluate(read)) == {403}
        await page.context.close()
    assert node.received == []
    assert {status for _, _, status, _ in told} == {403}
    assert {method for method, *_ in told} == {"GET", "POST", "DELETE"}
