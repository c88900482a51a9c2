from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from click.testing import Result

from flnet.web.operator_token import NAME, write_new
from tests.cli.live import answers, until
from tests.cli.live import flnet as live
from tests.ports import free_port

TOKEN = "0123456789abcdefghij"
Run = Callable[..., Result]


def is_ready(port: int) -> bool:
    return answers(port) and httpx.get(f"http://127.0.0.1:{port}/ready", trust_env=False).status_code == 200


def test_the_token_is_shown_with_a_link(flnet: Run, tmp_path: Path) -> None:
    token = write_new(tmp_path / NAME)
    shown = flnet("token", "--state-path", str(tmp_path), "--node-port", "4711")
    assert shown.output == f"token    {token}\nsign in  http://127.0.0.1:4711/sign-in#{token}\n"
    told = json.loads(flnet("token", "--state-path", str(tmp_path), "--json").output)
    assert told["token"] == token


def test_a_new_one_takes_its_place(flnet: Run, tmp_path: Path) -> None:
    old = write_new(tmp_path / NAME)
    shown = flnet("token", "--new", "--state-path", str(tmp_path))
    new = (tmp_path / NAME).read_text().strip()
    assert shown.exit_code == 0
    assert new in shown.output
    assert new != old
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600


def test_where_there_is_none_it_says_how_to_get_one(flnet: Run, tmp_path: Path) -> None:
    shown = flnet("token", "--state-path", str(tmp_path / "s"))
    assert (shown.exit_code, "the first start of a node makes one" in shown.stderr) == (1, True)
    assert not (tmp_path / "s").exists()
    assert flnet("token", "--new", "--state-path", str(tmp_path / "s")).exit_code == 0


def test_what_is_set_elsewhere_is_shown_and_not_replaced(
    flnet: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLNET_OPERATOR_TOKEN", TOKEN)
    assert TOKEN in flnet("token", "--state-path", str(tmp_path)).output
    refused = flnet("token", "--new", "--state-path", str(tmp_path))
    assert (refused.exit_code, refused.stderr) == (
        1,
        "flnet: the token is set by FLNET_OPERATOR_TOKEN; change it there\n",
    )
    assert list(tmp_path.iterdir()) == []


def test_one_in_a_file_is_read_from_there(flnet: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text(TOKEN)
    monkeypatch.setenv("FLNET_OPERATOR_TOKEN_FILE", str(tmp_path / "secret"))
    assert TOKEN in flnet("token").output
    assert flnet("token", "--new").exit_code == 1
    assert (tmp_path / "secret").read_text() == TOKEN


@pytest.mark.slow
@pytest.mark.parametrize(("listen", "is_told"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_a_node_prints_the_link_where_somebody_needs_it(tmp_path: Path, listen: str, is_told: bool) -> None:
    port = free_port()
    variables = {
        "FLNET_NODE_PORT": str(port),
        "FLNET_LISTEN_ADDRESS": listen,
        "FLNET_STATE_PATH": str(tmp_path / "s"),
    }
    with live(tmp_path, "run", **variables) as process:
        until(lambda: answers(port), "an answer")
        token = (tmp_path / "s" / NAME).read_text().strip()
        process.terminate()
        said, logged = process.communicate(timeout=30)
    assert (f"sign in  http://127.0.0.1:{port}/sign-in#{token}\n" in said) is is_told
    assert token not in logged


@pytest.mark.slow
def test_commands_show_the_token_and_a_node_that_trusts_nobody_lets_them_act(tmp_path: Path, flnet: Run) -> None:
    port = free_port()
    variables = {"FLNET_NODE_PORT": str(port), "FLNET_TRUST_LOOPBACK": "false", "FLNET_OPERATOR_TOKEN": TOKEN}
    with live(tmp_path, "run", **variables) as process:
        until(lambda: is_ready(port), "a node that is ready")
        asked = ("train", "TINY", "--node", f"127.0.0.1:{port}")
        refused, allowed = flnet(*asked), flnet(*asked, "--token", TOKEN)
        assert (refused.exit_code, "sign_in_needed" in refused.stderr) == (1, True)
        assert allowed.exit_code == 0, allowed.output
        process.terminate()
        said = "".join(process.communicate(timeout=30))
    assert TOKEN not in said + refused.output + allowed.output
