from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flnet.cli import client
from flnet.cli import client as client_module
from flnet.cli import client as pinned
from flnet.cli.client import NodeClient, parse_address
from flnet.cli.commands import cli
from flnet.errors import PeerRefused, PeerTimeout, PeerUnreachable
from flnet.fingerprints import fingerprint, key_text, short
from tests.cli.fake_node import FakeNode
from tests.cli.tls_node import PinnedNode, running_pinned_node


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:4000", "127.0.0.1:4000"),
        ("4001", "127.0.0.1:4001"),
        (":4001", "127.0.0.1:4001"),
        ("http://lab-3:4000/", "lab-3:4000"),
        ("[::1]:4000", "[::1]:4000"),
    ],
)
def test_addresses(text: str, address: str) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "lab-3", "lab-3:", "lab-3:0", "lab-3:70000", "lab-3:x", "a/b:1", "u@h:1"])
def test_wrong_addresses(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_address(text)


def test_an_error_of_the_node_keeps_its_code_and_words(fake_node: FakeNode) -> None:
    with NodeClient(fake_node.address) as node, pytest.raises(PeerRefused, match="no trainer 'X'") as caught:
        node.trigger("X", 1)
    assert caught.value.answer_status == 404
    assert caught.value.error == "unknown_trainer"


@pytest.mark.parametrize(
    "answer",
    [(200, b"<html>"), (200, b"[1]"), (500, b"oops"), (404, b'{"detail": 1}'), (400, b"[1]")],
)
def test_something_that_is_no_node_is_said_to_be_none(fake_node: FakeNode, answer: tuple[int, bytes]) -> None:
    fake_node.answers["/info"] = answer
    with NodeClient(fake_node.address) as node, pytest.raises(PeerRefused) as caught:
        node.info()
    assert caught.value.error == "no_node"
    assert fake_node.address in caught.value.message


def test_a_list_must_be_a_list(fake_node: FakeNode) -> None:
    fake_node.answers["/peers"] = (200, b'{"peers": 1}')
    with NodeClient(fake_node.address) as node, pytest.raises(PeerRefused, match="no JSON list"):
        node.peers()


def test_trainer_ids_cannot_leave_their_place_in_the_path(fake_node: FakeNode) -> None:
    with NodeClient(fake_node.address) as node, pytest.raises(PeerRefused, match=r"/jobs/\.\.%2Finfo"):
        node.job("../info")


def test_nobody_there(nobody: str) -> None:
    with NodeClient(nobody) as node, pytest.raises(PeerUnreachable, match=nobody):
        node.info()


def test_somebody_there_who_never_answers(taken_port: int) -> None:
    with NodeClient(f"127.0.0.1:{taken_port}", timeout=0.05) as node, pytest.raises(PeerTimeout):
        node.info()


def test_events_resume_after_an_id(fake_node: FakeNode) -> None:
    fake_node.events = [{"id": 4, "text": "one"}, {"id": 5, "text": "two"}]
    with NodeClient(fake_node.address) as node:
        assert [event["id"] for event in node.events(after=3)] == [4, 5]
    assert fake_node.headers[-1]["Last-Event-ID"] == "3"


@pytest.mark.parametrize("line", [b"data: {\n\n", b"data: 5\n\n"])
def test_events_that_are_none(fake_node: FakeNode, line: bytes) -> None:
    fake_node.answers["/events"] = (200, line)
    with NodeClient(fake_node.address) as node, pytest.raises(PeerRefused, match="no JSON"):
        list(node.events())


def test_a_silent_feed_counts_as_gone(taken_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "SILENCE_SECONDS", 0.05)
    with NodeClient(f"127.0.0.1:{taken_port}") as node, pytest.raises(PeerTimeout):
        list(node.events())


# The command line speaks TLS to a node of a pinned mesh, and to nobody who only says to be that node.


Run = Callable[..., Result]
TOKEN = "0123456789abcdefghij"
OTHER = fingerprint(key_text(bytes(32)))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[PinnedNode]:
    with running_pinned_node(tmp_path / "state") as made:
        yield made


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node is on another machine, as far as the command line can tell."""
    monkeypatch.setattr(pinned, "is_own_machine", lambda address, **_: False)


def test_a_node_of_this_machine_is_known_by_its_folder(
    flnet: Run, node: PinnedNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLNET_STATE_PATH", str(tmp_path / "state"))
    done = flnet("status", "--node", node.address)
    assert done.exit_code == 0, done.output
    assert "node-a" in done.output
    assert set(node.names) == {"node.flnet.internal"}
    assert node.plain == []


def test_a_node_that_was_in_a_pinned_mesh_once_is_asked_without_tls(
    flnet: Run, fake_node: FakeNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_pinned_node(tmp_path / "state"):
        pass  # what it leaves in the folder
    monkeypatch.setenv("FLNET_STATE_PATH", str(tmp_path / "state"))
    assert flnet("status", "--node", fake_node.address).exit_code == 0
    assert flnet("status", "--node", f"https://{fake_node.address}").exit_code == 3


def test_another_node_on_the_port_of_this_one_gets_nothing(
    flnet: Run, node: PinnedNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_pinned_node(tmp_path / "other"):
        pass
    monkeypatch.setenv("FLNET_STATE_PATH", str(tmp_path / "other"))
    done = flnet("status", "--node", node.address, "--token", TOKEN)
    assert (done.exit_code, "is refused" in done.output) == (1, True)
    assert (node.plain, node.headers) == ([], [])


def test_a_pinned_node_whose_folder_has_no_certificate_yet_says_so_itself(
    flnet: Run, node: PinnedNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state" / "identity.crt").unlink()
    monkeypatch.setenv("FLNET_STATE_PATH", str(tmp_path / "state"))
    assert flnet("status", "--node", node.address).exit_code == 0
    assert len(node.plain) == 1  # after which it knew


def test_without_folder_and_fingerprint_it_is_said_what_is_missing(
    flnet: Run, node: PinnedNode, tmp_path: Path
) -> None:
    done = CliRunner().invoke(cli, ["status", "--node", node.address], env={"FLNET_STATE_PATH": str(tmp_path)})
    assert (done.exit_code, "--fingerprint" in done.output) == (1, True)
    assert node.names == []


def test_with_a_fingerprint_nothing_is_sent_in_the_clear(flnet: Run, node: PinnedNode, elsewhere: None) -> None:
    typed = fingerprint(node.key).lower().replace("-", " ")
    done = flnet("peers", "--node", f"https://{node.address}/", "--fingerprint", typed, "--token", TOKEN)
    assert done.exit_code == 0, done.output
    assert (node.plain, node.headers[-1]["Authorization"]) == ([], f"Bearer {TOKEN}")


def test_another_node_gets_nothing(flnet: Run, node: PinnedNode, elsewhere: None) -> None:
    done = flnet("status", "--node", node.address, "--fingerprint", OTHER, "--token", TOKEN)
    assert done.exit_code == 1
    assert f"begins with {short(node.key)}, and not with {OTHER[:11]}" in done.output
    assert (node.plain, node.headers) == ([], [])


def test_a_wrong_fingerprint_is_wrong_usage(flnet: Run) -> None:
    wrong = ("B" if OTHER[0] != "B" else "C") + OTHER[1:]
    done = flnet("status", "--fingerprint", wrong)
    assert (done.exit_code, "group 1" in done.output) == (2, True)


def test_no_token_is_sent_before_the_node_said_that_it_speaks_no_tls(
    flnet: Run, node: PinnedNode, fake_node: FakeNode, elsewhere: None
) -> None:
    done = flnet("status", "--node", node.address, "--token", TOKEN)
    assert done.exit_code == 1 and "--fingerprint" in done.output
    assert len(node.plain) == 1 and b"GET /health" in node.plain[0]
    assert TOKEN.encode() not in b"".join(node.plain) and node.headers == []
    assert flnet("status", "--node", fake_node.address, "--token", TOKEN).exit_code == 0
    assert "Authorization" not in fake_node.headers[0]  # the question
    assert all("Authorization" in headers for headers in fake_node.headers[1:])


def test_https_is_asked_of_a_node_that_speaks_none(flnet: Run, fake_node: FakeNode) -> None:
    done = flnet("status", "--node", fake_node.address, "--fingerprint", OTHER)
    assert (done.exit_code, fake_node.headers) == (3, [])
    assert "speaks no TLS" in done.output


@pytest.mark.parametrize(
    ("address", "is_own", "is_loopback"),
    [
        ("127.0.0.1:4000", True, True),
        ("[::1]:4000", True, True),
        ("localhost:4000", True, True),
        ("192.0.2.9:4000", True, False),
        ("192.0.2.7:4000", False, False),
        ("lab-3:4000", False, False),
    ],
)
def test_which_addresses_are_this_machines(
    address: str, is_own: bool, is_loopback: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_is_own_address", lambda host: host == "192.0.2.9")
    assert client.is_own_machine(address) is is_own
    assert client.is_own_machine(address, loopback_only=True) is is_loopback
