"""`flnet train --until`: what it asks for, how long it waits, and how its exit codes tell the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from tests.cli.fake_node import FakeNode, job, record

Run = Callable[..., Result]
GOAL = ("--until", "accuracy>=0.9")


def goal(state: str, number: int, words: str = "") -> dict[str, Any]:
    return {"until": "accuracy>=0.9", "state": state, "round": number, "words": words}


def test_a_goal_is_asked_for_with_its_bound(flnet: Run, fake_node: FakeNode) -> None:
    shown = flnet("train", "MNIST", *GOAL, "--max-rounds", "7", "--node", fake_node.address)
    assert shown.exit_code == 0
    assert "rounds of MNIST from 0 on, 7 at most, until accuracy>=0.9" in shown.output
    told = flnet("train", "MNIST", *GOAL, "--json", "--node", fake_node.address)
    assert json.loads(told.stdout) == {"trainerId": "MNIST", "round": 0, "rounds": 100, "until": "accuracy>=0.9"}
    assert fake_node.posted == [{"trainerId": "MNIST", "rounds": n, "until": "accuracy>=0.9"} for n in (7, 100)]


@pytest.mark.parametrize(
    "options", [("--max-rounds", "3"), (*GOAL, "--rounds", "3"), (*GOAL, "--max-rounds", "0")]
)
def test_rounds_and_bounds_are_not_mixed_up(flnet: Run, fake_node: FakeNode, options: tuple[str, ...]) -> None:
    assert flnet("train", "MNIST", *options, "--node", fake_node.address).exit_code == 2
    assert fake_node.posted == []


@pytest.mark.parametrize(("state", "code"), [("reached", 0), ("given_up", 4)])
def test_the_end_of_a_series_is_waited_for_and_told(
    flnet: Run, fake_node: FakeNode, state: str, code: int
) -> None:
    fake_node.views = [
        job(phase="TRAINING", current_round=0, goal=goal("open", 0)),
        job(current_round=0, goal=goal("open", 0)),  # another node is to start the next round
        job(current_round=0, goal=goal("open", 0)),
        job(phase="TRAINING", current_round=1, goal=goal("open", 1)),
        job(current_round=1, goal=goal(state, 1, "as it is")),
    ]
    fake_node.records = [record(0, "d0"), record(1, "d1")]
    shown = flnet("train", "MNIST", *GOAL, "--wait", "--json", "--node", fake_node.address)
    assert shown.exit_code == code
    assert [result["number"] for result in json.loads(shown.stdout)] == [0, 1]
    assert f"{state.replace('_', ' ')}: accuracy>=0.9: as it is" in shown.stderr
