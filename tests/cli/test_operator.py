from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from flnet.cli import operator
from flnet.cli.client import node_option
from flnet.cli.operator import is_token_needed, page_address, sign_in_link, token_for
from flnet.settings import load_settings
from flnet.store.disk.lock import FolderLock
from flnet.web.operator_token import NAME, write_new

ELSEWHERE = "192.0.2.7:4000"
TOKEN = "0123456789abcdefghij"


@click.command()
@node_option
def shown(address: str, as_json: bool) -> None:
    click.echo(token_for(address) or "none")


def ask(*args: str, **variables: str) -> str:
    return CliRunner().invoke(shown, args, env=variables).output.strip()


def test_what_is_given_is_shown_to_the_node_that_is_named() -> None:
    assert ask("--node", ELSEWHERE, "--token", TOKEN) == TOKEN
    assert ask("--node", ELSEWHERE, FLNET_OPERATOR_TOKEN=TOKEN) == TOKEN
    assert ask("--node", ELSEWHERE) == ask() == "none"
    assert "a token has no such characters" in ask("--token", "a\nHost: evil")
    assert token_for(ELSEWHERE) is None


@pytest.fixture
def own_address(monkeypatch: pytest.MonkeyPatch) -> str:
    """An address that counts as this machine's, and not as loopback, wherever the tests run."""
    monkeypatch.setattr(operator, "_is_own_address", lambda host: host == "192.0.2.9")
    return "192.0.2.9:4000"


def test_a_running_nodes_token_is_read_from_its_folder(
    own_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLNET_STATE_PATH", str(tmp_path))
    assert token_for(own_address) is None
    token = write_new(tmp_path / NAME)
    assert token_for(own_address) is None  # no node runs there: another program may have the port
    lock = FolderLock(tmp_path)
    assert (token_for(own_address), token_for(ELSEWHERE), token_for("127.0.0.1:4000")) == (token, None, None)
    lock.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0", "::", "192.0.2.7", "localhost", "fl.example", ""])
def test_loopback_other_machines_and_names_are_no_own_address(host: str) -> None:
    assert not operator._is_own_address(host)


def test_an_own_address_is_one_that_a_socket_can_have(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Any] = []
    monkeypatch.setattr(socket.socket, "bind", lambda self, place: tried.append(place))
    assert operator._is_own_address("192.0.2.7")
    assert tried == [("192.0.2.7", 0)]


@pytest.mark.parametrize(
    ("options", "page", "needed"),
    [
        ({}, "http://127.0.0.1:4000/", False),
        ({"trust_loopback": "false"}, "http://127.0.0.1:4000/", True),
        ({"listen_address": "0.0.0.0"}, "http://127.0.0.1:4000/", True),
        ({"listen_address": "0.0.0.0", "node_ip": "10.0.0.7"}, "http://10.0.0.7:4000/", True),
        ({"listen_address": "::1", "node_port": 5}, "http://[::1]:5/", False),
    ],
)
def test_a_link_is_for_who_has_to_sign_in(options: dict[str, Any], page: str, needed: bool) -> None:
    settings = load_settings(options, {})
    assert (page_address(settings), is_token_needed(settings)) == (page, needed)
    assert sign_in_link(settings, TOKEN) == f"{page}sign-in#{TOKEN}"
