"""Real nodes train until a goal: they end by themselves, in one round, also without the node that was asked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.processes.harness import Harness, RealNode, environment, harness, until

pytestmark = pytest.mark.slow
TRAINER = "SMALL_DIGITS"  # numpy alone: a round takes tenths of a second
MOST = 20  # rounds, of which the test must see the third begin before the last one ends


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Four nodes, on which one series follows another."""
    with harness(tmp_path_factory.mktemp("series")) as made:
        for _ in range(4):
            made.start(TRAINERS=TRAINER, TRAINERS_PATH="")
        made.ready()
        yield made


def train(node: RealNode, *options: str) -> subprocess.Popen[str]:
    """`flnet train --wait` against a node."""
    command = [sys.executable, "-m", "flnet", "train", TRAINER, "--wait", "--json", *options]
    return subprocess.Popen(
        [*command, "--node", f"127.0.0.1:{node.port}"],
        env=environment({}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def goal(node: RealNode) -> Mapping[str, Any]:
    shown: Mapping[str, Any] = node.job(TRAINER)["goal"] or {}
    return shown


def ended(*nodes: RealNode) -> bool:
    """Whether the newest series of all these nodes is over, and the next one can begin on each."""
    is_over = all(goal(node).get("state") in ("reached", "given_up") for node in nodes)
    return is_over and all(node.job(TRAINER)["phase"] == "IDLE" for node in nodes)


def test_all_nodes_end_in_the_same_round_with_the_same_figures(mesh: Harness) -> None:
    waiting = train(mesh.nodes[1], "--until", "accuracy>=0.8", "--max-rounds", "20")
    stdout, stderr = waiting.communicate(timeout=240)
    assert waiting.returncode == 0, stderr
    until(lambda: ended(*mesh.nodes), "the end on all nodes")
    goals = [goal(node) for node in mesh.nodes]
    figures = [[shown[name] for name in ("state", "round", "accuracy", "nodes", "by")] for shown in goals]
    assert figures == [["reached", goals[0]["round"], goals[0]["accuracy"], 4, "n1"]] * 4
    assert goals[0]["accuracy"] >= 0.8
    assert [result["number"] for result in json.loads(stdout)] == list(range(goals[0]["round"] + 1))
    assert "reached: accuracy>=0.8: mean accuracy" in stderr


def test_a_goal_that_is_given_up_has_an_exit_code_of_its_own(mesh: Harness) -> None:
    waiting = train(mesh.nodes[2], "--until", "accuracy>=1, no-gain 9", "--max-rounds", "2")
    _, stderr = waiting.communicate(timeout=240)
    assert (waiting.returncode, "given up: accuracy>=1.0" in stderr) == (4, True)
    until(
        lambda: all(goal(node).get("by") == "n2" for node in mesh.nodes) and ended(*mesh.nodes), "the end on all"
    )


def test_the_others_go_on_and_end_together_when_the_node_that_was_asked_is_killed(mesh: Harness) -> None:
    first, *others = mesh.nodes
    before = first.job(TRAINER)["current_round"]
    waiting = train(first, "--until", "accuracy>=1", "--max-rounds", str(MOST))
    until(lambda: others[0].job(TRAINER)["current_round"] >= before + 2, "two rounds of the series")
    first.kill()
    waiting.communicate(timeout=120)
    assert waiting.returncode == 3
    until(lambda: ended(*others), "the end on the others")
    ends = {(goal(node)["state"], goal(node)["round"], goal(node)["by"]) for node in others}
    assert ends == {("given_up", before + MOST, "n0")}
    assert len({node.job(TRAINER)["digest"] for node in others}) == 1
