"""Nobody keeps a live member out of the mesh by what it says of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from flnet.protocol.messages import StateWord
from tests.processes.harness import Harness, RealNode, harness, until
from tests.threats.insider import claim
from tests.threats.stranger import post

pytestmark = pytest.mark.slow
HIGHEST = 2**53
LOST = ("peer_left", "peer_lost", "peer_replaced", "peer_moved")


@pytest.fixture
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with harness(tmp_path_factory.mktemp("exclusion")) as made:
        for _ in range(3):
            made.start()
        made.ready()
        yield made


def probe(node: RealNode, who: dict[str, Any], *news: dict[str, Any], **fields: Any) -> int:
    return post(node, "/probe", json.dumps({"iAm": who, "news": news, **fields}).encode())[0]


def dropped(node: RealNode) -> list[str]:
    return [words for kind in LOST for words in node.told(kind)]


def refuted(node: RealNode, least: int) -> bool:
    return any(peer["incarnation"] >= least for peer in node.get("/peers") if peer["id"] == "n1")


def test_no_stranger_or_member_says_that_another_one_is_gone(mesh: Harness) -> None:
    first, victim, _ = mesh.nodes
    stranger = {"id": "x", "ip": "127.0.0.1", "port": 1 + victim.port}
    itself = {"id": victim.name, "ip": "127.0.0.1", "port": victim.port}
    key = next(peer["key"] for peer in first.get("/peers") if peer["id"] == victim.name)
    states: tuple[StateWord, ...] = ("left", "dead", "suspect")
    for state in states:
        for incarnation in (0, 1, 900, HIGHEST):
            assert probe(first, stranger, claim(victim, state, incarnation, by="n2")) == 200
            # Anybody can state a key.
            assert probe(first, itself, claim(victim, state, incarnation), key=key) == 200
    assert probe(first, itself, incarnation=HIGHEST, key=key) == 200
    announce = {"iAm": stranger, "incarnation": 0, "members": [claim(victim, "left", 5)]}
    assert post(first, "/announce", json.dumps(announce).encode())[0] == 201
    until(lambda: refuted(first, 6), "the member's own word")
    assert first.states()[victim.name] == "alive"
    assert dropped(first) == []
    mesh.go()
    assert victim.trigger().status_code == 202
    until(lambda: bool(victim.history()), "a round")
    assert {"n0", "n1", "n2"} <= set(victim.history()[-1]["contributors"])


def test_nobody_takes_the_address_of_a_member_that_answers(mesh: Harness) -> None:
    first, victim, other = mesh.nodes
    key = next(peer["key"] for peer in first.get("/peers") if peer["id"] == victim.name)
    thefts: tuple[dict[str, Any], ...] = (
        {"iAm": {"id": "x", "ip": "127.0.0.1", "port": victim.port}},
        {"iAm": {"id": "y", "ip": "127.0.0.1", "port": victim.port}, "incarnation": 0},
        {"iAm": {"id": "z", "ip": "127.0.0.1", "port": 1 + victim.port}, "incarnation": 0, "key": key},
    )
    for theft in thefts:
        assert post(first, "/announce", json.dumps(theft).encode())[0] == 201
    mesh.meshed(first, victim, other)
    until(lambda: first.job()["phase"] == "IDLE", "calm")
    moved = {"iAm": {"id": victim.name, "ip": "127.0.0.1", "port": 1 + victim.port}, "incarnation": 0, "key": key}
    assert post(first, "/announce", json.dumps(moved).encode())[0] == 201
    until(lambda: not first.get("/peers") or first.states()["n1"] == "alive", "the member's answer")
    assert dropped(first) == []
    assert [peer["port"] for peer in first.get("/peers") if peer["id"] == victim.name] == [str(victim.port)]
    assert not {"x", "y", "z"} & set(first.states())


def test_a_member_that_goes_is_gone_at_once(mesh: Harness) -> None:
    first, victim, other = mesh.nodes
    victim.process.terminate()
    victim.process.wait()
    for node in (first, other):
        until(lambda n=node: n.states()["n1"] == "left", f"{node.name} hearing of it")  # type: ignore[misc]
