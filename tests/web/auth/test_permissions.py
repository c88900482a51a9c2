"""Who may act: callers on this machine, with the token, or with a session; each of them only so often."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from quart import Quart

from flnet.settings import load_settings
from flnet.web.app import create_app
from flnet.web.auth.operator_token import OperatorToken, write_new
from flnet.web.auth.permissions import (
    ACTIONS,
    ALL_WRONG_TOKENS,
    MAX_SESSIONS,
    OWN_ACTIONS,
    UNGUESSABLE,
    WRONG_TOKENS,
    Sessions,
    asked_host,
    caller_ip,
    is_address,
    is_browser,
    is_from_this_machine,
    is_loopback,
)
from tests.web.conftest import SETTINGS, Client
from tests.web.fake_node import FakeNode


@pytest.mark.parametrize(
    ("host", "own"), [("127.0.0.1", True), ("127.3.2.1", True), ("::1", True), ("10.0.0.1", False), ("<x>", False)]
)
def test_this_machine_is_known_by_its_loopback_addresses(host: str, own: bool) -> None:
    assert is_loopback(host) is own


@pytest.mark.parametrize(
    ("host", "address"), [("10.0.0.1", True), ("fe80::1", True), ("0.0.0.0", True), ("127.1", False), ("", False)]
)
def test_an_address_is_no_name(host: str, address: bool) -> None:
    assert is_address(host) is address


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("localhost:4000", "localhost"),
        ("LOCALHOST.", "localhost"),
        ("[::1]:4000", "::1"),
        ("Node_A.example:1", "node_a.example"),
        ("evil.example\t", ""),
        ("a b", ""),
        ("user@localhost", ""),
        ("localhost/", ""),
        ("localhost:4000:1", ""),
        ("", ""),
    ],
)
async def test_the_host_is_read_without_port_and_brackets(header: str, host: str) -> None:
    async with Quart(__name__).test_request_context("/", headers={"Host": header}):
        assert asked_host() == host


async def test_a_header_does_not_change_the_address() -> None:
    scope = {"client": ("::ffff:10.0.0.7", 5)}
    headers = {"X-Forwarded-For": "127.0.0.1"}
    async with Quart(__name__).test_request_context("/", headers=headers, scope_base=scope):
        assert caller_ip() == "10.0.0.7"
        assert not is_from_this_machine()


@pytest.mark.parametrize(
    ("caller", "host", "is_here"),
    [
        ("127.0.0.1", "localhost:4000", True),
        ("::1", "[::1]:4000", True),
        ("127.0.0.1", "evil.example", False),
        ("127.0.0.1", "localhost.evil.example", False),
        ("127.0.0.1", "192.168.1.5:4000", False),
        ("127.0.0.1", "0.0.0.0:4000", False),
        ("192.168.1.9", "localhost:4000", False),
        ("192.168.1.9", "127.0.0.1:4000", False),
    ],
)
async def test_both_address_and_name_have_to_be_of_this_machine(caller: str, host: str, is_here: bool) -> None:
    scope = {"client": (caller, 5)}
    async with Quart(__name__).test_request_context("/", headers={"Host": host}, scope_base=scope):
        assert is_from_this_machine() is is_here


@pytest.mark.parametrize(
    "name",
    [
        *(
            "Forwarded",
            "Via",
            "CDN-Loop",
            "X-Forwarded",
            "X-Forwarded-For",
            "X-Forwarded-Host",
            "X-Forwarded-Port",
        ),
        *("X-Forwarded-Proto", "X-Forwarded-Server", "X-Forwarded-Client-Cert", "X-Original-Forwarded-For"),
        *("X-Real-IP", "CF-Connecting-IP", "CF-Connecting-IPv6", "True-Client-IP", "X-Client-IP", "Fly-Client-IP"),
        *("Fastly-Client-IP", "X-Cluster-Client-IP", "X-Azure-ClientIP", "X-Azure-SocketIP", "X-ProxyUser-Ip"),
        *("X-Envoy-External-Address", "X-Remote-Addr", "X-Appengine-User-Ip", "Proxy-Client-IP"),
    ],
)
async def test_what_a_proxy_sends_on_is_not_of_this_machine(name: str) -> None:
    scope = {"client": ("127.0.0.1", 5)}
    headers = {"Host": "localhost:4000", name.upper(): "x"}
    async with Quart(__name__).test_request_context("/", headers=headers, scope_base=scope):
        assert not is_from_this_machine()


async def test_headers_of_browsers_and_programs_are_not_of_a_proxy() -> None:
    scope = {"client": ("127.0.0.1", 5)}
    names = (
        "Accept",
        "Accept-Encoding",
        "Sec-Fetch-Site",
        "Upgrade-Insecure-Requests",
        "Max-Forwards",
        "X-Requested-With",
    )
    headers = {"Host": "localhost:4000", **dict.fromkeys(names, "x")}
    async with Quart(__name__).test_request_context("/", headers=headers, scope_base=scope):
        assert is_from_this_machine()


@pytest.mark.parametrize(("name", "browser"), [("Origin", True), ("Cookie", True), ("Accept", False)])
async def test_a_browser_is_known_by_what_it_sends(name: str, browser: bool) -> None:
    async with Quart(__name__).test_request_context("/", headers={name: "x"}):
        assert is_browser() is browser


TOKEN = "0123456789abcdefghij"
FAR: Any = {"client": ("192.0.2.7", 5)}
OTHER: Any = {"client": ("192.0.2.8", 5)}
ACT = "/jobs/MNIST/pause"
PAGE = {"Origin": "http://localhost"}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def client(node: FakeNode) -> Client:
    return create_app(node, SETTINGS, OperatorToken(TOKEN), clock=lambda: 0.0).test_client()


async def test_another_machine_needs_the_token(client: Client, node: FakeNode) -> None:
    answer = await client.post(ACT, scope_base=FAR)
    assert (answer.status_code, (await answer.get_json())["error"]) == (401, "sign_in_needed")
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="flnet"'
    answer = await client.post(ACT, scope_base=FAR, headers=bearer(TOKEN + "x"))
    assert answer.status_code == 401
    assert "not the operator's token" in (await answer.get_json())["message"]
    assert not node.jobs["MNIST"].paused
    assert (await client.post(ACT, scope_base=FAR, headers=bearer(TOKEN))).status_code == 200
    assert node.jobs["MNIST"].paused


@pytest.mark.parametrize("given", ["", TOKEN, f"Basic {TOKEN}", f"Bearer{TOKEN}", "Bearer", "Bearer  ", "\x00"])
async def test_what_is_no_bearer_token_is_none(client: Client, given: str) -> None:
    answer = await client.post(ACT, scope_base=FAR, headers={"Authorization": given})
    assert answer.status_code == 401


async def test_this_machine_acts_without_the_token_unless_it_is_not_trusted(node: FakeNode) -> None:
    careful = create_app(node, load_settings({"trust_loopback": "false"}, {}), OperatorToken(TOKEN)).test_client()
    assert (await careful.post(ACT)).status_code == 401
    assert (await careful.post(ACT, headers=bearer(TOKEN))).status_code == 200
    assert (await careful.get("/info")).status_code == 200


async def test_reading_needs_nothing_and_a_wrong_token_does_not_hurt_there(client: Client) -> None:
    for path in ("/info", "/jobs", "/peers", "/", "/events.jsonl"):
        assert (await client.get(path, scope_base=FAR, headers=bearer("wrong"))).status_code == 200


async def test_wrong_tokens_are_counted_by_address_and_logged_once(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "flnet.web"):
        found = [
            (await client.post(ACT, scope_base=FAR, headers=bearer("x" * 20))) for _ in range(WRONG_TOKENS + 5)
        ]
    assert [answer.status_code for answer in found] == [401] * WRONG_TOKENS + [429] * 5
    assert found[-1].headers["Retry-After"] == "10"
    assert [record.getMessage() for record in caplog.records] == [
        "192.0.2.7 was used to ask with a wrong operator token"
    ]
    assert (await client.post(ACT, scope_base=FAR, headers=bearer(TOKEN))).status_code == 429
    assert (await client.post(ACT, scope_base=OTHER, headers=bearer(TOKEN))).status_code == 200


@pytest.mark.parametrize("token", [TOKEN, "B" * UNGUESSABLE])
async def test_guesses_from_many_addresses_do_not_keep_the_right_token_out(node: FakeNode, token: str) -> None:
    client = create_app(node, SETTINGS, OperatorToken(token), clock=lambda: 0.0).test_client()
    found = Counter[int]()
    for number in range(2 * ALL_WRONG_TOKENS):
        for _ in range(2):
            caller: Any = {"client": (f"198.51.{number // 250}.{number % 250}", 5)}
            found[(await client.post(ACT, scope_base=caller, headers=bearer("x" * 20))).status_code] += 1
    assert found == {401: ALL_WRONG_TOKENS + 300, 429: 300}  # beyond 200, each address has one
    assert (await client.post(ACT, scope_base=FAR, headers=bearer(token))).status_code == 200
    assert (
        await client.post("/sign-in", form={"token": token}, headers=PAGE, scope_base=OTHER)
    ).status_code == 303


async def test_a_token_that_nobody_can_guess_is_right_wherever_wrong_ones_came_from(node: FakeNode) -> None:
    token = "B" * UNGUESSABLE
    client = create_app(node, SETTINGS, OperatorToken(token), clock=lambda: 0.0).test_client()
    found = [await client.post(ACT, scope_base=FAR, headers=bearer("x" * 43)) for _ in range(WRONG_TOKENS + 5)]
    assert found[-1].status_code == 429
    assert (await client.post(ACT, scope_base=FAR, headers=bearer(token))).status_code == 200


async def test_a_session_that_does_not_say_its_page_changes_nothing(client: Client, node: FakeNode) -> None:
    await client.post("/sign-in", form={"token": TOKEN}, headers=PAGE, scope_base=FAR)
    answer = await client.post(ACT, scope_base=FAR)
    assert answer.status_code == 403
    assert "does not say from which page it comes" in (await answer.get_json())["message"]
    assert not node.jobs["MNIST"].paused
    assert (await client.post(ACT, headers=PAGE, scope_base=FAR)).status_code == 200


async def test_the_addresses_of_one_ipv6_network_are_one_caller(client: Client) -> None:
    found = Counter[int]()
    for number in range(2 * WRONG_TOKENS):
        caller: Any = {"client": (f"2001:db8::{number:x}", 5)}
        found[(await client.post(ACT, scope_base=caller, headers=bearer("x" * 20))).status_code] += 1
    assert found == {401: WRONG_TOKENS, 429: WRONG_TOKENS}
    other: Any = {"client": ("2001:db8:0:1::1", 5)}
    assert (await client.post(ACT, scope_base=other, headers=bearer(TOKEN))).status_code == 200


async def test_one_caller_acts_so_often_and_others_are_not_held_up(client: Client) -> None:
    asked = [await client.post(ACT, scope_base=FAR, headers=bearer(TOKEN)) for _ in range(ACTIONS + 9)]
    assert [answer.status_code for answer in asked] == [200] * ACTIONS + [429] * 9
    assert (await client.post(ACT, scope_base=OTHER, headers=bearer(TOKEN))).status_code == 200
    assert (await client.post(ACT)).status_code == 200


async def test_scripts_on_this_machine_may_do_more_and_not_without_end(client: Client) -> None:
    asked = [await client.post(ACT) for _ in range(OWN_ACTIONS + 9)]
    assert [answer.status_code for answer in asked] == [200] * OWN_ACTIONS + [429] * 9


async def test_with_another_token_the_old_one_and_its_sessions_are_over(node: FakeNode, tmp_path: Path) -> None:
    path = tmp_path / "token"
    old = write_new(path)
    client = create_app(node, SETTINGS, OperatorToken(file=path)).test_client()
    await client.post("/sign-in", form={"token": old}, headers=PAGE, scope_base=FAR)
    assert (await client.post(ACT, headers=PAGE, scope_base=FAR)).status_code == 200
    new = write_new(path)
    assert (await client.post(ACT, headers=PAGE, scope_base=FAR)).status_code == 401
    assert (await client.post(ACT, headers=bearer(old), scope_base=FAR)).status_code == 401
    assert (await client.post(ACT, headers=bearer(new), scope_base=FAR)).status_code == 200


# sessions


def test_a_session_is_known_until_it_ends() -> None:
    now = [0.0]
    sessions = Sessions(seconds=10, clock=lambda: now[0])
    one, other = sessions.begin(), sessions.begin()
    assert (sessions.knows(one), sessions.knows(other), sessions.knows("x"), sessions.knows("")) == (
        *(True, True),
        *(False, False),
    )
    sessions.end(other)
    sessions.end("never begun")
    assert (sessions.knows(one), sessions.knows(other)) == (True, False)
    now[0] = 10
    assert not sessions.knows(one)
    assert len(sessions) == 0


def test_there_are_never_many_and_the_oldest_ends_first() -> None:
    sessions = Sessions()
    values = [sessions.begin() for _ in range(MAX_SESSIONS + 5)]
    assert len(set(values)) == MAX_SESSIONS + 5
    assert len(sessions) == MAX_SESSIONS
    assert [sessions.knows(value) for value in values] == [False] * 5 + [True] * MAX_SESSIONS


def test_all_can_end_at_once_and_broken_values_are_known_to_nobody() -> None:
    sessions = Sessions()
    value = sessions.begin()
    assert not sessions.knows("\udcff")
    sessions.end_all()
    assert not sessions.knows(value)


def test_the_values_are_not_kept() -> None:
    sessions = Sessions()
    value = sessions.begin()
    assert len(value) >= 43
    assert value not in repr(vars(sessions))
