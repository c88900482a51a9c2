"""Signing in, and out: a cookie that scripts cannot read and other sites cannot send."""

from __future__ import annotations

from typing import Any

import pytest

from flnet.web.app import create_app
from flnet.web.auth.operator_token import OperatorToken
from flnet.web.auth.permissions import WRONG_TOKENS
from tests.web.conftest import SETTINGS, Client
from tests.web.fake_node import FakeNode
from tests.web.page_reading import Page

TOKEN = "0123456789abcdefghij"
FAR: Any = {"client": ("192.0.2.7", 5)}
PAGE = {"Origin": "http://localhost"}
TLS: Any = {**FAR, "scheme": "https"}
ACT = "/jobs/MNIST/pause"


@pytest.fixture
def client(node: FakeNode) -> Client:
    return create_app(node, SETTINGS, OperatorToken(TOKEN), clock=lambda: 0.0).test_client()


async def sign_in(client: Client, scope: Any = FAR, **fields: str) -> Any:
    return await client.post("/sign-in", form={"token": TOKEN, **fields}, headers=PAGE, scope_base=scope)


async def test_a_person_signs_in_acts_and_signs_out(client: Client, node: FakeNode) -> None:
    answer = await sign_in(client, back="/view/data")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/view/data")
    assert (await client.post(ACT, headers=PAGE, scope_base=FAR)).status_code == 200
    assert node.jobs["MNIST"].paused
    answer = await client.post("/sign-out", headers=PAGE, scope_base=FAR)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    assert (await client.post(ACT, headers=PAGE, scope_base=FAR)).status_code == 401


async def test_the_cookie_is_for_this_node_alone_and_holds_no_token(client: Client, node: FakeNode) -> None:
    cookie = (await sign_in(client)).headers["Set-Cookie"]
    assert TOKEN not in cookie
    parts = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/", "max-age=43200"} <= parts
    assert "secure" not in parts
    node.me = node.me.model_copy(update={"id": "NODE_2"})
    other = (await sign_in(client)).headers["Set-Cookie"]
    assert other.partition("=")[0] != cookie.partition("=")[0]


async def test_under_tls_the_cookie_travels_there_only(node: FakeNode) -> None:
    client = create_app(node, SETTINGS, OperatorToken(TOKEN)).test_client()
    cookie = (await sign_in(client, scope=TLS)).headers["Set-Cookie"]
    assert cookie.startswith("__Host-flnet-")
    assert "; Secure" in cookie


async def test_each_time_is_another_session_and_the_one_before_ends(client: Client) -> None:
    first = (await sign_in(client)).headers["Set-Cookie"].partition(";")[0]
    second = (await sign_in(client)).headers["Set-Cookie"].partition(";")[0]
    assert first != second
    headers = {**PAGE, "Cookie": first}
    fresh = client.app.test_client()
    assert (await fresh.post(ACT, headers=headers, scope_base=FAR)).status_code == 401
    assert (await fresh.post(ACT, headers={**PAGE, "Cookie": second}, scope_base=FAR)).status_code == 200


async def test_a_value_that_nobody_was_given_is_no_session(client: Client) -> None:
    name = (await sign_in(client)).headers["Set-Cookie"].partition("=")[0]
    for value in ("", "x", TOKEN, "\u00ff", '"'):
        headers = {**PAGE, "Cookie": f"{name}={value}"}
        assert (await client.app.test_client().post(ACT, headers=headers, scope_base=FAR)).status_code == 401


async def test_a_session_acts_from_the_nodes_own_page_only(client: Client) -> None:
    await sign_in(client)
    assert (await client.post(ACT, scope_base=FAR)).status_code == 403  # a browser says from where it comes
    assert (await client.post(ACT, headers={"Origin": "http://evil.example"}, scope_base=FAR)).status_code == 403


@pytest.mark.parametrize("back", ["//evil.example", "http://evil.example", "/\\evil.example", "", "/\n/evil"])
async def test_nobody_is_led_elsewhere(client: Client, back: str) -> None:
    assert (await sign_in(client, back=back)).headers["Location"] == "/"
    page = Page(await (await client.get("/sign-in", query_string={"back": back})).get_data(as_text=True))
    assert [field["value"] for field in page.all("input") if field.get("name") == "back"] == ["/sign-in", "/"]


async def test_a_wrong_token_is_told_in_words_and_after_some_the_address_waits(client: Client) -> None:
    answer = await sign_in(client, token="<b>wrong</b>")
    page = Page(await answer.get_data(as_text=True))
    assert answer.status_code == 401
    assert "this is not the operator's token of this node" in page.text
    assert "wrong</b>" not in page.text
    for _ in range(WRONG_TOKENS):
        answer = await sign_in(client, token="wrong")
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "10")
    assert (await sign_in(client)).status_code == 429


async def test_who_may_only_read_is_told_so_and_buttons_cannot_be_pressed(client: Client) -> None:
    page = Page(await (await client.get("/", scope_base=FAR)).get_data(as_text=True))
    assert "You can read here. To start rounds or change something, sign in." in page.text
    acting = [button for button in page.all("button") if button.get("class") in ("go", "plain")]
    look = [button for button in acting if "disabled" not in button]
    assert len(acting) > 5
    assert len(look) == 1  # language and colours
    await sign_in(client)
    page = Page(await (await client.get("/", scope_base=FAR)).get_data(as_text=True))
    assert "You can read here" not in page.text
    assert "Sign out" in page.text


async def test_on_this_machine_nothing_is_said_of_it(client: Client) -> None:
    page = Page(await (await client.get("/")).get_data(as_text=True))
    assert "Sign" not in page.text
