"""`flnet schedule`, and what `flnet status` says of goals and of the next start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from flnet.cli.schedule import time_words
from tests.cli.fake_node import FakeNode, job

Flnet = Callable[..., Result]


def schedule(**changes: Any) -> dict[str, Any]:
    usual = {
        "when": "every 6h",
        "by_person": False,
        "next_seconds": 11_520,
        "next_words": "6h after the last round",
    }
    return {**usual, "new_examples": 0, "unwilling": "", **changes}


def test_it_is_shown_with_the_next_start(fake_node: FakeNode, flnet: Flnet) -> None:
    fake_node.views = [job(schedule=schedule())]
    done = flnet("schedule", "MNIST", "--node", fake_node.address)
    assert done.exit_code == 0
    assert done.output.splitlines() == [
        "MNIST: every 6h (of the node's settings)",
        "next round in 3 h 12 min: 6h after the last round",
    ]


@pytest.mark.parametrize(("given", "when"), [(["new 5"], "new 5"), (["--reset"], None)])
def test_it_is_changed(fake_node: FakeNode, flnet: Flnet, given: list[str], when: str | None) -> None:
    said = schedule(when="new 5", by_person=True, next_seconds=None, next_words="", unwilling="the battery is low")
    fake_node.prediction = job(schedule=said)
    done = flnet("schedule", "MNIST", *given, "--node", fake_node.address)
    assert fake_node.posted == [{"when": when}]
    assert done.output.splitlines() == [
        "MNIST: new 5 (given by a person)",
        "takes no part in rounds of others now: the battery is low",
    ]


def test_one_of_the_two_is_asked_for(fake_node: FakeNode, flnet: Flnet) -> None:
    assert flnet("schedule", "MNIST", "new 5", "--reset", "--node", fake_node.address).exit_code == 2


def test_scripts_get_json(fake_node: FakeNode, flnet: Flnet) -> None:
    fake_node.views = [job(schedule=schedule())]
    assert '"next_seconds": 11520' in flnet("schedule", "MNIST", "--json", "--node", fake_node.address).output


def test_status_tells_goal_and_next_start(fake_node: FakeNode, flnet: Flnet) -> None:
    goal = {"until": "accuracy>=0.9", "by": "n1", "state": "open", "done": 3, "rounds": 30, "best": 0.75}
    fake_node.views = [job(goal=goal, schedule=schedule(unwilling="outside of the hours 22:00-06:00"))]
    lines = flnet("status", "--node", fake_node.address).output.splitlines()
    assert "MNIST until accuracy>=0.9: 3 of at most 30 rounds, best mean accuracy 0.7500; asked for at n1" in lines
    assert "MNIST next round in 3 h 12 min: 6h after the last round (every 6h)" in lines
    assert "MNIST takes no part in rounds of others now: outside of the hours 22:00-06:00" in lines


def test_status_says_nothing_of_what_is_not_there(fake_node: FakeNode, flnet: Flnet) -> None:
    fake_node.views = [job(goal={"state": "reached"}, schedule=schedule(next_words=""))]
    lines = flnet("status", "--node", fake_node.address).output.splitlines()
    assert [line for line in lines if line.startswith("MNIST ")] == []


def test_durations() -> None:
    assert [time_words(n) for n in (5, 65, 3600, 90_000)] == ["5 s", "1 min 5 s", "1 h 0 min", "1 d 1 h"]
