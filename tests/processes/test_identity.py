"""Who a node is, over restarts, moves and lost folders: real processes with real keys."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes.harness import Harness, RealNode, answers, harness, until


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Harness]:
    with harness(tmp_path) as h:
        h.start()
        h.start()
        h.ready()
        yield h


def conflicts(node: RealNode) -> list[str]:
    """What a node said of names that two nodes use."""
    return node.told("identity_conflict")


def peer(node: RealNode, name: str) -> dict[str, Any]:
    (found,) = [one for one in node.get("/peers") if one["id"] == name]
    view: dict[str, Any] = found
    return view


@pytest.mark.slow
def test_a_killed_node_on_another_port_is_the_same_node(two: Harness) -> None:
    first, second = two.nodes
    fingerprint = second.get("/info")["fingerprint"]
    assert peer(first, "n1")["fingerprint"] == fingerprint != first.get("/info")["fingerprint"]
    second.kill()
    moved = two.start(NODE_ID="n1", STATE_PATH=str(two.state(second)))
    until(lambda: answers(moved, "/health"), "the node that moved")
    until(lambda: [p["port"] for p in first.get("/peers")] == [str(moved.port)], "the new address")
    until(lambda: first.states() == {"n1": "alive"}, "the node that moved among the living")
    assert peer(first, "n1")["fingerprint"] == fingerprint
    assert moved.get("/info")["fingerprint"] == fingerprint
    assert conflicts(first) == conflicts(moved) == []


@pytest.mark.slow
def test_a_node_that_lost_its_folder_is_another_one_until_a_person_forgets_the_old(two: Harness) -> None:
    first, second = two.nodes
    old = second.get("/info")["fingerprint"]
    second.kill()
    shutil.rmtree(two.state(second))
    two.again(second)
    until(lambda: answers(second, "/health"), "the node without its folder")
    new = second.get("/info")["fingerprint"]
    assert new != old
    until(lambda: bool(conflicts(second)), "word that it is refused")
    assert f"127.0.0.1:{first.port} refuses this node: answered 409 id_taken" in conflicts(second)[0]
    assert old in conflicts(second)[0] and new in conflicts(second)[0]
    until(lambda: bool(conflicts(first)), "word that it refused one")
    until(lambda: first.states() == {"n1": "dead"}, "the death of the old one")
    assert peer(first, "n1")["fingerprint"] == old
    first.kill()  # who it refuses does not hang on its memory
    two.again(first)
    two.up(first)
    assert first.states() == {}
    left = first.http.delete("/peers/n1").json()
    assert {one["fingerprint"] for one in left} <= {new}  # it may have announced itself again before the answer
    two.meshed(first, second)
    assert peer(first, "n1")["fingerprint"] == new


@pytest.mark.slow
def test_a_second_node_with_a_name_does_not_touch_the_first_one(two: Harness) -> None:
    first, second = two.nodes
    fingerprint = second.get("/info")["fingerprint"]
    third = two.start(NODE_ID="n1", STATE_PATH=str(two.folder / "other"))
    until(lambda: answers(third, "/health"), "the third node")
    until(lambda: len(conflicts(third)) >= 1 and len(conflicts(first)) >= 1, "the refusal on both sides")
    assert first.http.delete("/peers/n0").status_code == 404
    assert (peer(first, "n1")["port"], peer(first, "n1")["fingerprint"]) == (str(second.port), fingerprint)
    two.meshed(first, second)  # either may suspect the other for a moment on a busy machine
    assert (set(first.states()), set(second.states())) == ({"n1"}, {"n0"})
