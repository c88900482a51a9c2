"""`flnet groups`: the elbow in numbers."""

from __future__ import annotations

import json
from collections.abc import Callable

from click.testing import Result

from tests.cli.fake_node import FakeNode

Run = Callable[..., Result]
FOUND = {
    "kind": "groups",
    "rows": 9000,
    "judged": 2000,
    "compared": 500,
    "model": {"digest": "0123456789abcdef", "round": 3, "accuracy": 0.9},
    "common": {"k": 3, "inertia": 0.51, "silhouette": 0.4},
    "tried": [{"k": 1, "inertia": 2.0, "silhouette": None}, {"k": 2, "inertia": 0.5, "silhouette": 0.4375}],
    "bend": 2,
}


def test_a_row_for_each_number_of_groups(flnet: Run, fake_node: FakeNode) -> None:
    fake_node.answers["/jobs/MNIST/groups"] = (200, json.dumps(FOUND).encode())
    shown = flnet("groups", "MNIST", "--node", fake_node.address)
    assert shown.exit_code == 0
    lines = [line.split() for line in shown.output.splitlines()]
    assert ["3", "0.51", "0.400", "the", "common", "model"] in lines
    assert ["1", "2", "-", "own", "rows", "alone"] in lines
    assert ["2", "0.5", "0.438", "own", "rows", "alone,", "bend"] in lines
    assert "on 2000 of 9000 own rows; silhouettes compare 500 of them" in shown.output
    assert json.loads(flnet("groups", "MNIST", "--json", "--node", fake_node.address).output) == FOUND
