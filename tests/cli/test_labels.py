"""`flnet labels`: known, estimated, and why there is no estimate yet."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from click.testing import Result

from tests.cli.fake_node import FakeNode

Run = Callable[..., Result]
MODEL = {"digest": "0123456789abcdef", "round": 3, "accuracy": 0.9}
FOUND: dict[str, Any] = {
    "kind": "labels",
    "space": {"id": "two", "classes": ["no", "yes"]},
    "desired": {"id": "three", "classes": ["a", "b", "\u202ec"]},
    "estimated": False,
    "threshold": 0.95,
    "matrix": [[1, 0.25, 0], [0, 0.75, 1]],
    "deviation": None,
    "counts": None,
    "waiting": None,
    "model": MODEL,
}
ESTIMATE = {
    **FOUND,
    "estimated": True,
    "deviation": [[0.01, 0.1, 0.5], [0.01, 0.1, 0.5]],
    "counts": [[40, 3, 0], [0, 9, 0]],
}
WAITING = {"from_round": 11, "share": 0.125, "needed": 0.5, "judged": 300}


def asked(flnet: Run, fake_node: FakeNode, found: Any, *more: str, query: str = "") -> Result:
    fake_node.answers[f"/jobs/MNIST/labels{query}"] = (200, json.dumps(found).encode())
    return flnet("labels", "MNIST", "--node", fake_node.address, *more)


def test_a_known_correspondence(flnet: Run, fake_node: FakeNode) -> None:
    shown = asked(flnet, fake_node, FOUND)
    assert shown.exit_code == 0
    assert "two (rows) and three (columns), as the labels file says it" in shown.output
    assert ["no", "1.000", "0.250", "0.000"] in [line.split() for line in shown.output.splitlines()]
    assert "\u202e" not in shown.output
    assert "model 0123456789" in shown.output


def test_an_estimate_with_what_stands_behind_it(flnet: Run, fake_node: FakeNode) -> None:
    shown = asked(flnet, fake_node, {**ESTIMATE, "pooled": True})
    assert "each of these nodes tells the others how often its labels occur" in shown.output
    assert "0.750 ±0.100 (9)" in shown.output
    assert ["rows", "behind", "it", "40", "12", "0"] in [line.split() for line in shown.output.splitlines()]


def test_no_estimate_yet_and_why(flnet: Run, fake_node: FakeNode) -> None:
    shown = asked(flnet, fake_node, {**ESTIMATE, "matrix": None, "deviation": None, "waiting": WAITING})
    assert "there is no estimate yet" in shown.output
    assert "they do from round 11 on" in shown.output
    assert "sure of 50 % of the rows; now of 12 % of 300" in shown.output


def test_for_scripts_of_a_model_of_choice(flnet: Run, fake_node: FakeNode) -> None:
    shown = asked(flnet, fake_node, FOUND, "--json", "--digest", "01/", query="?digest=01%2F")
    assert json.loads(shown.output) == FOUND


def test_a_job_of_one_label_space(flnet: Run, fake_node: FakeNode) -> None:
    words = {"error": "not_offered", "message": "MNIST has no labels to show"}
    fake_node.answers["/jobs/MNIST/labels"] = (404, json.dumps(words).encode())
    shown = flnet("labels", "MNIST", "--node", fake_node.address)
    assert shown.exit_code == 1
    assert "MNIST has no labels to show" in shown.stderr
