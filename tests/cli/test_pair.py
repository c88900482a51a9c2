"""`flnet pair`: who waits, and what a person decides."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flnet.cli import pair
from flnet.cli.commands import cli
from flnet.fingerprints import fingerprint, key_text, words

from .fake_node import FakeNode

Run = Callable[..., Result]
OWN, STRANGER, FRIEND = (key_text(bytes([number]) * 32) for number in range(3))


def view(key: str, name: str, **more: Any) -> dict[str, Any]:
    said = {"name": name, "address": "192.0.2.7:4000", "key": key, "since": 0.0, "introduced_by": None}
    return {**said, "fingerprint": fingerprint(key), "words": words(key), **more}


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


def test_scripts_get_all_of_it(flnet: Run, pinned: FakeNode) -> None:
    known = json.loads(flnet("pair", "--json", "--node", pinned.address).output)
    assert [one["key"] for one in known["pending"]] == [STRANGER]


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
    done = flnet("pair", "--forget", words(FRIEND), "--json", "--node", pinned.address)
    assert json.loads(done.output)["own"]["key"] == OWN


def test_one_is_forgotten_by_its_key_and_named(flnet: Run, pinned: FakeNode) -> None:
    done = flnet("pair", "--forget", FRIEND, "--node", pinned.address)
    assert done.output.startswith(f"friend ({fingerprint(FRIEND)[:11]}) is forgotten")


def test_one_that_is_not_listed_is_told_by_its_fingerprint(flnet: Run, pinned: FakeNode) -> None:
    done = flnet("pair", "--reject", fingerprint(OWN), "--node", pinned.address)
    assert done.output.startswith(f"{fingerprint(OWN)[:11]} is rejected")


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


def test_a_refusal_of_the_node_is_told(flnet: Run, pinned: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = {"error": "trust_full", "message": "1024 keys are kept already"}
    monkeypatch.setattr(pinned, "post", lambda body: (409, refusal))
    done = flnet("pair", "--accept", fingerprint(STRANGER), "--node", pinned.address)
    assert (done.exit_code, "1024 keys are kept" in done.output) == (1, True)


def test_an_open_mesh_says_so(flnet: Run, fake_node: FakeNode) -> None:
    fake_node.answers["/trust"] = (200, b'{"own": null, "pending": [], "accepted": [], "refused": []}')
    done = flnet("pair", "--node", fake_node.address)
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
