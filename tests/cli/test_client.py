from __future__ import annotations

import socket

import pytest

from flnet.cli import client as client_module
from flnet.cli.client import NodeClient, parse_address
from flnet.errors import PeerRefused, PeerTimeout, PeerUnreachable
from tests.cli.fake_node import FakeNode


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


def test_nobody_there(taken_port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with NodeClient(f"127.0.0.1:{port}") as node, pytest.raises(PeerUnreachable, match=str(port)):
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


def test_a_refused_feed_is_told_in_the_nodes_words(fake_node: FakeNode) -> None:
    fake_node.answers["/events"] = (503, b'{"error": "busy", "message": "too many watch already"}')
    with NodeClient(fake_node.address) as node, pytest.raises(PeerRefused, match="too many"):
        list(node.events())


def test_a_silent_feed_counts_as_gone(taken_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "SILENCE_SECONDS", 0.05)
    with NodeClient(f"127.0.0.1:{taken_port}") as node, pytest.raises(PeerTimeout):
        list(node.events())
