"""A page of another site makes a person's browser speak to a node of the person's network."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import pytest
from quart import Quart

from tests.threats.conftest import CAREFUL, FOREIGN, TOKEN, Serve, Told, site
from tests.web.browsing import MARKS
from tests.web.conftest import SETTINGS, Client
from tests.web.fake_node import FakeNode

CHANGING = ("POST", "PUT", "PATCH", "DELETE", "PROPFIND")
SENT_BY_BROWSERS = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost:4001"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"},
]
FORM_TYPES = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
# What a page can try without asking anybody, and with asking first (for which it gets no leave).
ATTACK = """
<iframe name="hole"></iframe>
<script>
const node = "http://127.0.0.1:%d", body = '{"trainerId": "MNIST", "e": 7}', json = "application/json";
const types = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"];
const posts = ["/training/trigger", "/jobs/MNIST/pause", "/jobs/MNIST/predict", "/jobs/MNIST/models/ff/restore",
  "/data/MNIST/import?name=x",
  "/training/trigger/form", "/training/params/form", "/look", "/sign-in", "/announce"];
function form(path, enctype, name, value) {
  const made = Object.assign(document.createElement("form"), {method: "post", action: node + path, enctype});
  made.target = "hole";
  made.append(Object.assign(document.createElement("input"), {name, value}));
  document.body.append(made);
  made.submit();
}
async function attack() {
  const tries = [];
  for (const path of posts) {
    const post = {method: "POST", mode: "no-cors", credentials: "include"};
    for (const type of types) tries.push(fetch(node + path, {...post, body, headers: {"Content-Type": type}}));
    tries.push(fetch(node + path, {...post, body: new Blob([body])}));
    tries.push(fetch(node + path, {...post, mode: "cors", body, headers: {"Content-Type": json}}));
    navigator.sendBeacon(node + path, new Blob([body], {type: "text/plain"}));
  }
  const include = {credentials: "include"};
  tries.push(fetch(node + "/jobs/MNIST/params", {method: "PATCH", body, ...include}));
  for (const method of ["PUT", "DELETE"])
    tries.push(fetch(node + "/jobs/MNIST/models/" + "0".repeat(64) + "/pin", {method, ...include}));
  for (const path of ["/info", "/settings", "/jobs"]) tries.push(fetch(node + path, include));
  const ended = await Promise.allSettled(tries);
  form("/training/trigger/form", "application/x-www-form-urlencoded", "trainerId", "MNIST");
  await new Promise(done => document.querySelector("iframe").addEventListener("load", done, {once: true}));
  form("/training/trigger", "text/plain", '{"trainerId": "MNIST", "x": "', '"}');
  await new Promise(done => document.querySelector("iframe").addEventListener("load", done, {once: true}));
  return ended.filter(one => one.status === "fulfilled" && one.value && one.value.type !== "opaque").length;
}
</script>
"""


def paths(app: Quart) -> list[str]:
    return sorted({re.sub(r"<[^>]*>", "MNIST", rule.rule) for rule in app.url_map.iter_rules()})


@pytest.mark.parametrize("headers", SENT_BY_BROWSERS, ids=str)
@pytest.mark.parametrize("method", CHANGING)
async def test_no_method_of_any_route_is_open_to_another_site(
    app: Quart, client: Client, node: FakeNode, method: str, headers: dict[str, str]
) -> None:
    before = node.info()
    for path in (*paths(app), "/nothing/there"):
        answer = await client.open(path, method=method, json={"trainerId": "MNIST", "e": 7}, headers=headers)
        assert answer.status_code == 403, path
    assert (node.info(), node.received) == (before, [])


@pytest.mark.parametrize("kind", FORM_TYPES)
async def test_json_is_taken_from_a_browser_only_if_it_says_json(
    client: Client, node: FakeNode, kind: str
) -> None:
    headers = {"Origin": "http://localhost", **({"Content-Type": kind} if kind else {})}
    for path in ("/training/trigger", "/announce", "/jobs/MNIST/predict"):
        answer = await client.post(path, data=b'{"trainerId": "MNIST"}', headers=headers)
        assert answer.status_code == 415, path
    answer = await client.patch("/jobs/MNIST/params", data=b'{"e": 7}', headers=headers)
    assert answer.status_code == 415
    assert (node.received, node.jobs["MNIST"].hyper.e) == ([], 2)


async def test_nothing_is_ever_allowed_to_another_site(app: Quart, client: Client) -> None:
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "DELETE"}
    for path in paths(app):
        answer = await client.options(path, headers=asked)
        assert [name for name, _ in answer.headers.items() if name.lower().startswith("access-control")] == []


def changes(told: Sequence[Told]) -> list[tuple[str, int]]:
    """Path and status of what would have changed something."""
    return [(path, status) for method, path, status, _ in told if method not in ("GET", "OPTIONS")]


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    ("host", "signs_in"),
    [
        *((FOREIGN, False), (FOREIGN, True), ("127.0.0.1", True)),
        *(
            pytest.param(host, signs_in, marks=pytest.mark.long)
            for host, signs_in in (("127.0.0.1", False), ("localhost", False), ("localhost", True))
        ),
    ],
)
async def test_a_page_in_a_real_browser_changes_nothing(
    serving: Serve, node: FakeNode, chromium: Any, host: str, signs_in: bool
) -> None:
    told: list[Told] = []
    settings = CAREFUL if signs_in else SETTINGS
    async with serving(settings, told) as port, site(ATTACK % port) as other, asyncio.timeout(150):
        context = await chromium.new_context()
        page = await context.new_page()
        if signs_in:
            await page.goto(f"http://127.0.0.1:{port}/sign-in#{TOKEN}")
            await page.wait_for_url(f"http://127.0.0.1:{port}/")
        await page.goto(f"http://{host}:{other}/")
        before = node.info()
        told.clear()
        assert await page.evaluate("attack()") == 0  # nothing could be read
        while len(changes(told)) < 50:  # beacons are sent when the browser comes to it
            await asyncio.sleep(0.01)
        assert (node.info(), node.received) == (before, [])
        await context.close()
    changing = changes(told)
    assert len({path for path, _ in changing}) == 10
    assert {status for _, status in changing} == {403}
    # Ports are one site. What the page that was left had asked for may come late, and was no attack.
    attacks = [has_session for method, *_, has_session in told if method not in ("GET", "OPTIONS")]
    assert host == "127.0.0.1" or not any(attacks)
    assert {method for method, *_ in told} == {"GET", "OPTIONS", "POST"}  # the others were never sent


pytestmark = [mark for mark in MARKS if mark.name == "filterwarnings"]
