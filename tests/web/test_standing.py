"""Who may act: callers on this machine, with the token, or with a session; each of them only so often."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from flnet.settings import load_settings
from flnet.web import create_app
from flnet.web.operator_token import OperatorToken, write_new
from flnet.web.standing import ACTIONS, OWN_ACTIONS, WRONG_TOKENS

from .conftest import SETTINGS, Client
from .fake_node import FakeNode
from .still import still

TOKEN = "0123456789abcdefghij"
FAR: Any = {"client": ("192.0.2.7", 5)}
OTHER: Any = {"client": ("192.0.2.8", 5)}
ACT = "/jobs/MNIST/pause"
PAGE = {"Origin": "http://localhost"}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def client(node: FakeNode) -> Client:
    return still(create_app(node, SETTINGS, OperatorToken(TOKEN))).test_client()


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
