"""`flnet keygen`: what it shows, makes and refuses."""

from __future__ import annotations

import hashlib
import json
import socket
import ssl
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from flnet.cli import client
from flnet.cli import keys as pair
from flnet.cli.client import node_option, token_for
from flnet.cli.commands import cli
from flnet.fingerprints import fingerprint, key_text, short, words
from flnet.security.tls import PAGE_CERTIFICATE, ensure_certificates
from flnet.settings import load_settings
from flnet.store.state_folder import FolderLock
from flnet.web.auth.operator_token import NAME, is_token_needed, page_address, sign_in_link, write_new
from tests.cli.fake_node import FakeNode
from tests.cli.live import answers, until
from tests.cli.live import flnet as live
from tests.ports import free_port

Run = Callable[..., Result]


def test_it_makes_the_key_once_and_shows_it(flnet: Run, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    first = flnet("keygen", "--state-path", str(folder), "--json")
    assert first.exit_code == 0
    shown = json.loads(first.output)
    key = shown["key"]
    expected = {"folder": str(folder), "key": key, "fingerprint": fingerprint(key), "short": short(key)}
    assert shown == {**expected, "words": words(key)}
    again = flnet("keygen", "--state-path", str(folder))
    assert f"fingerprint  {fingerprint(key)}\n" in again.output
    assert "PRIVATE" not in again.output


def test_of_a_pinned_node_the_certificate_of_the_page_is_named(flnet: Run, tmp_path: Path) -> None:
    arguments = ("keygen", "--state-path", str(tmp_path))
    flnet(*arguments)
    ensure_certificates(tmp_path)
    der = ssl.PEM_cert_to_DER_cert((tmp_path / PAGE_CERTIFICATE).read_text())
    pairs = ":".join(f"{byte:02X}" for byte in hashlib.sha256(der).digest())
    assert f"page         SHA-256 {pairs}\n" in flnet(*arguments).output


def test_a_new_identity_is_made_only_when_asked_for(flnet: Run, tmp_path: Path) -> None:
    arguments = ("keygen", "--state-path", str(tmp_path))
    first = flnet(*arguments, "--json").output
    (tmp_path / "identity.key").write_bytes(b"x")
    assert flnet(*arguments).exit_code == 1
    done = flnet(*arguments, "--new-identity", "--json")
    assert (done.exit_code, json.loads(done.output) != json.loads(first)) == (0, True)
    assert (tmp_path / "identity.key.damaged-1").read_bytes() == b"x"


def test_of_a_running_nodes_folder_the_key_is_only_read(flnet: Run, tmp_path: Path) -> None:
    arguments = ("keygen", "--state-path", str(tmp_path))
    lock = FolderLock(tmp_path)
    try:
        assert flnet(*arguments).exit_code == 1
        lock.close()
        first = flnet(*arguments).output
        lock = FolderLock(tmp_path)
        assert flnet(*arguments).output == first
        assert flnet(*arguments, "--new-identity").exit_code == 1
    finally:
        lock.close()
    assert flnet(*arguments).output == first


def test_doctor_looks_at_the_key(flnet: Run, tmp_path: Path) -> None:
    flnet("keygen", "--state-path", str(tmp_path))
    assert "  ok      key          whole" in flnet("doctor", "--state-path", str(tmp_path)).output
    (tmp_path / "identity.key").write_bytes(b"x")
    assert flnet("doctor", "--state-path", str(tmp_path), "--repair").exit_code == 1


# `flnet pair`: who waits, and what a person decides.

OWN, STRANGER, FRIEND = (key_text(bytes([number]) * 32) for number in range(3))


def view(key: str, name: str, **more: Any) -> dict[str, Any]:
    message = {"name": name, "address": "192.0.2.7:4000", "key": key, "since": 0.0, "introduced_by": None}
    return {**message, "fingerprint": fingerprint(key), "words": words(key), **more}


@pytest.fixture
def pinned(fake_node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    """A node at which one waits and another is accepted."""
    accepted = view(FRIEND, "friend", is_introducer=True, accepted_by="person")
    known = {
        "own": {"key": OWN, "fingerprint": fingerprint(OWN), "words": words(OWN)},
        **{"pending": [view(STRANGER, "ward\x1b[31m-7")], "accepted": [accepted], "refused": []},
    }
    fake_node.answers["/trust"] = (200, json.dumps(known).encode())

    def post(body: dict[str, Any]) -> tuple[int, Any]:
        fake_node.posted.append(body)
        return 200, {**accepted, **known}

    monkeypatch.setattr(fake_node, "post", post)
    return fake_node


def test_who_waits_is_listed_with_the_words_of_both(flnet: Run, pinned: FakeNode) -> None:
    done = flnet("pair", "--node", pinned.address)
    assert done.exit_code == 0, done.output
    assert f"this node     {words(OWN)}" in done.output
    assert words(STRANGER) in done.output and "192.0.2.7:4000" in done.output
    assert "\x1b" not in done.output and r"ward\x1b[31m-7" in done.output
    assert "friend" not in done.output
    everybody = flnet("pair", "--all", "--node", pinned.address).output
    assert words(FRIEND) in everybody and "introducer" in everybody


@pytest.mark.parametrize(
    "who",
    [
        fingerprint(STRANGER),
        fingerprint(STRANGER).lower().replace("-", " "),
        words(STRANGER),
        " ".join(word[:4].upper() for word in words(STRANGER).split("-")),
    ],
)
def test_one_is_accepted_by_its_fingerprint_or_its_words(flnet: Run, pinned: FakeNode, who: str) -> None:
    done = flnet("pair", "--accept", who, "--introducer", "--node", pinned.address)
    assert (done.exit_code, done.output) == (0, "friend is accepted, with those whom it introduces\n")
    assert pinned.posted == [{"fingerprint": fingerprint(STRANGER), "introducer": True}]


def test_one_is_rejected_and_another_forgotten(flnet: Run, pinned: FakeNode) -> None:
    rejected = flnet("pair", "--reject", words(STRANGER), "--node", pinned.address).output
    assert rejected.startswith(rf"ward\x1b[31m-7 ({fingerprint(STRANGER)[:11]}) is rejected")
    forgotten = flnet("pair", "--forget", words(FRIEND), "--node", pinned.address).output
    assert forgotten.startswith(f"friend ({fingerprint(FRIEND)[:11]}) is forgotten")
    assert [body["fingerprint"] for body in pinned.posted] == [fingerprint(STRANGER), fingerprint(FRIEND)]
    unlisted = flnet("pair", "--reject", fingerprint(OWN), "--node", pinned.address).output
    assert unlisted.startswith(f"{fingerprint(OWN)[:11]} is rejected")
    done = flnet("pair", "--forget", words(FRIEND), "--json", "--node", pinned.address)
    assert json.loads(done.output)["own"]["key"] == OWN


def test_words_that_nobody_has_are_not_accepted(flnet: Run, pinned: FakeNode) -> None:
    done = flnet("pair", "--reject", words(FRIEND), "--node", pinned.address)  # who does not wait
    assert (done.exit_code, "name its whole fingerprint" in done.output) == (1, True)
    assert pinned.posted == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("--accept", "AAAAA"),
        ("--accept", "one two three four five six"),
        ("--accept", ("B" if fingerprint(OWN)[0] != "B" else "C") + fingerprint(OWN)[1:]),
        ("--accept", fingerprint(OWN), "--reject", fingerprint(OWN)),
        ("--introducer",),
    ],
)
def test_wrong_usage(flnet: Run, pinned: FakeNode, arguments: tuple[str, ...]) -> None:
    assert flnet("pair", *arguments, "--node", pinned.address).exit_code == 2
    assert pinned.posted == []


def test_an_open_mesh_says_so(ask: Run, fake_node: FakeNode) -> None:
    fake_node.answers["/trust"] = (200, b'{"own": null, "pending": [], "accepted": [], "refused": []}')
    done = ask("pair")
    assert (done.exit_code, "is not pinned" in done.output) == (0, True)


@pytest.mark.parametrize(
    ("answer", "sent"),
    [
        ("a", [{"fingerprint": fingerprint(STRANGER), "introducer": False}]),
        ("i", [{"fingerprint": fingerprint(STRANGER), "introducer": True}]),
        ("r", [{"fingerprint": fingerprint(STRANGER)}]),
        ("", []),
        ("x\nl", []),
    ],
)
def test_on_a_terminal_each_is_asked_about(
    pinned: FakeNode, monkeypatch: pytest.MonkeyPatch, answer: str, sent: list[dict[str, Any]]
) -> None:
    monkeypatch.setattr(pair, "is_terminal", lambda: True)
    done = CliRunner().invoke(cli, ["pair", "--node", pinned.address], input=f"{answer}\n")
    assert done.exit_code == 0, done.output
    assert f"its words    {words(STRANGER)}" in done.output and f"your words   {words(OWN)}" in done.output
    assert pinned.posted == sent


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
    monkeypatch.setattr(client, "_is_own_address", lambda host: host == "192.0.2.9")
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
    assert not client._is_own_address(host)


def test_an_own_address_is_one_that_a_socket_can_have(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Any] = []
    monkeypatch.setattr(socket.socket, "bind", lambda self, place: tried.append(place))
    assert client._is_own_address("192.0.2.7")
    assert tried == [("192.0.2.7", 0)]


@pytest.mark.parametrize(
    ("options", "page", "needed"),
    [
        ({}, "http://127.0.0.1:4000/", False),
        ({"trust_loopback": "false"}, "http://127.0.0.1:4000/", True),
        ({"listen_address": "0.0.0.0"}, "http://127.0.0.1:4000/", True),
        ({"listen_address": "0.0.0.0", "node_ip": "10.0.0.7"}, "http://10.0.0.7:4000/", True),
        ({"relay": "10.0.0.1:9200"}, "http://127.0.0.1:4000/", True),
        ({"listen_address": "::1", "node_port": 5}, "http://[::1]:5/", False),
    ],
)
def test_a_link_is_for_who_has_to_sign_in(options: dict[str, Any], page: str, needed: bool) -> None:
    settings = load_settings(options, {})
    assert (page_address(settings), is_token_needed(settings)) == (page, needed)
    assert sign_in_link(settings, TOKEN) == f"{page}sign-in#{TOKEN}"


# token


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


@pytest.mark.parametrize("name", ["FLNET_OPERATOR_TOKEN", "FLNET_OPERATOR_TOKEN_FILE"])
def test_what_is_set_elsewhere_is_shown_and_not_replaced(
    flnet: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(TOKEN)
    monkeypatch.setenv(name, str(secret) if name.endswith("FILE") else TOKEN)
    assert TOKEN in flnet("token", "--state-path", str(tmp_path)).output
    refused = flnet("token", "--new", "--state-path", str(tmp_path))
    assert (refused.exit_code, refused.stderr) == (1, f"flnet: the token is set by {name}; change it there\n")
    assert [path.read_text() for path in tmp_path.iterdir()] == [TOKEN]


@pytest.mark.slow
def test_a_node_that_others_reach_prints_the_link(tmp_path: Path) -> None:
    port = free_port()
    variables = {
        "FLNET_NODE_PORT": str(port),
        "FLNET_TRAINERS": "TINY",
        "FLNET_LISTEN_ADDRESS": "0.0.0.0",
        "FLNET_STATE_PATH": str(tmp_path / "s"),
    }
    with live(tmp_path, "run", **variables) as process:
        until(lambda: answers(port), "an answer")
        token = (tmp_path / "s" / NAME).read_text().strip()
        process.terminate()
        message, logged = process.communicate(timeout=120)
    assert f"sign in  http://127.0.0.1:{port}/sign-in#{token}\n" in message
    assert token not in logged


@pytest.mark.slow
def test_commands_show_the_token_and_a_node_that_trusts_nobody_lets_them_act(tmp_path: Path, flnet: Run) -> None:
    port = free_port()
    variables = {
        "FLNET_NODE_PORT": str(port),
        "FLNET_TRAINERS": "TINY",
        "FLNET_TRUST_LOOPBACK": "false",
        "FLNET_OPERATOR_TOKEN": TOKEN,
    }
    with live(tmp_path, "run", **variables) as process:
        until(lambda: answers(port, "/ready"), "a node that is ready")
        asked = ("train", "TINY", "--node", f"127.0.0.1:{port}")
        refused, allowed = flnet(*asked), flnet(*asked, "--token", TOKEN)
        assert (refused.exit_code, "sign_in_needed" in refused.stderr) == (1, True)
        assert allowed.exit_code == 0, allowed.output
        process.terminate()
        message = "".join(process.communicate(timeout=120))
    assert TOKEN not in message + refused.output + allowed.output
