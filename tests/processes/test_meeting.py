"""Two real nodes, one with a column less: both say so when they meet, and a round alone is no success."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.harness import Harness, RealNode, answers, environment, harness, until
from tests.processes.unlike import TRAINER

pytestmark = pytest.mark.slow
NAME = "UNLIKE"
HERE, THERE = "columns missing here: c10", "columns missing there: c10"


@pytest.fixture
def loading(tmp_path: Path) -> Iterator[Harness]:
    """Two nodes whose data are not loaded before a test says so."""
    with harness(tmp_path) as made:
        (made.trainers / f"{NAME}.py").write_text(TRAINER)
        for _ in range(2):
            made.start(TRAINERS=NAME)
        for node in made.nodes:
            until(lambda node=node: answers(node, "/health"), f"an answer of {node.name}")  # type: ignore[misc]
        made.meshed(*made.nodes)
        yield made


def load(mesh: Harness) -> None:
    (mesh.trainers / "load").touch()
    mesh.ready()


def flnet(node: RealNode, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of a person on the machine of the node."""
    command = [sys.executable, "-m", "flnet", *words, "--node", f"127.0.0.1:{node.port}"]
    return subprocess.run(command, env=environment({}), capture_output=True, text=True, timeout=120, check=False)


def differs(node: RealNode) -> list[dict[str, str]]:
    found: list[dict[str, str]] = node.job(NAME)["differs"]
    return found


def test_both_nodes_say_what_differs_before_any_training_each_from_its_own_side(loading: Harness) -> None:
    load(loading)
    one, two = loading.nodes
    until(lambda: bool(differs(one) and differs(two)), "the check of both nodes")
    assert differs(one) == [{"peer": "n1", "words": THERE}]
    assert differs(two) == [{"peer": "n0", "words": HERE}]
    assert two.told("differs") == [f"n0 and this node cannot train {NAME} together: {HERE}"]
    assert (one.job(NAME)["current_round"], two.job(NAME)["current_round"]) == (-1, -1)
    assert f"{NAME} cannot be trained with n0: {HERE}" in flnet(two, "status").stdout


def test_a_round_alone_warns_and_ends_with_code_4_on_whichever_node_it_is_started(loading: Harness) -> None:
    load(loading)
    for node, other, words in zip(loading.nodes, ("n1", "n0"), (THERE, HERE), strict=True):
        until(lambda node=node: bool(differs(node)), "the check")  # type: ignore[misc]
        done = flnet(node, "train", NAME, "--wait")
        assert done.returncode == 4, done.stdout + done.stderr
        assert f"warning: {other} cannot train with this node: {words}" in done.stderr
        assert f"this node was alone: {other}: {words}" in done.stderr
        (record,) = node.history(NAME)
        assert list(record["alone"]) == [other]
        assert record["contributors"] == [node.name]


def test_a_round_asked_for_while_data_are_loaded_begins_when_they_are_there(loading: Harness) -> None:
    one, _ = loading.nodes
    asked = flnet(one, "train", NAME, "--rounds", "2")
    assert (asked.returncode, "is loading its data" in asked.stdout) == (0, True), asked.stdout + asked.stderr
    status = flnet(one, "status").stdout
    assert "LOADING" in status
    assert "2 requested rounds will begin when they are there" in status
    load(loading)
    until(lambda: len(one.history(NAME)) == 2, "the rounds that were asked for")


def test_a_request_while_loading_outlives_a_kill(loading: Harness) -> None:
    one, _ = loading.nodes
    assert one.trigger(NAME).status_code == 202
    one.kill()
    loading.again(one)
    load(loading)
    until(lambda: len(one.history(NAME)) == 1, "the round that was asked for before the kill")
