"""Weights by consistency over numbers that are held to the range of the others."""

from __future__ import annotations

from typing import Any

import pytest

from flnet.params import PeerId
from flnet.strategies.consistency import consistency
from tests.strategies.robust import begun, updates_of

TURNED = [[1.0, 0.0]] * 4 + [[0.0, 1.0]]  # as long as the others, so nothing shortens it


@pytest.mark.parametrize(("kind", "expected"), [("rows", [0.8, 0.2]), ("bounded", [1.0, 0.0])])
def test_a_trusted_update_is_held_to_what_the_others_changed(kind: Any, expected: list[float]) -> None:
    merged = consistency(kind).merge(None, begun(0, w=[0.0, 0.0]), updates_of(TURNED))
    assert merged.params["w"].tolist() == pytest.approx(expected)
    assert merged.weighed[PeerId("p004")].weight == pytest.approx(0.2)


def test_scores_are_those_of_updates_as_they_came() -> None:
    """What is turned in the third round counts for nothing, though all its numbers were bounded already."""
    rule, state = consistency("bounded"), None
    for number, last in enumerate([[1.0, 0.1], [1.0, 0.1], [-5.0, 5.0]]):
        rows = [[1.0, 0.0], [1.0, 0.1], [0.9, 0.0], [0.9, 0.1], last]
        merged = rule.merge(state, begun(number, w=[0.0, 0.0]), updates_of(rows))
        state = merged.state
    assert merged.weighed[PeerId("p004")].weight == 0.0
    assert rule.name == "consistency:bounded"
    assert merged.params["w"].tolist() == pytest.approx([0.95, 0.05])
