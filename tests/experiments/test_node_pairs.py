"""Who gains, node by node: worked by hand on six nodes and two seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from flnet.experiments.cells import Outcome
from flnet.experiments.node_pairs import draw_pairs, node_pairs, pairs_section
from flnet.experiments.plan import Plan
from flnet.experiments.plots import save
from flnet.experiments.statistics import Done
from tests.experiments.cells import cell, small_plan

ROWS, UNLIKENESS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0), (0.1, 0.6, 0.2, 0.5, 0.3, 0.4)


def plan_of(folder: Path) -> Plan:
    return small_plan(folder).model_copy(update={"pairs": (("alone", "agg1"),)})


def done(drifts: tuple[float, ...] = (0.0,) * 6) -> Done:
    """Alone all nodes have 0.5; together the first two gain, the last one loses, in the second seed twice as much."""
    cells = []
    for seed, size in ((0, 0.1), (1, 0.2)):
        of_nodes = {"node.rows": ROWS, "node.unlikeness": UNLIKENESS, "node.drifts": drifts}
        together = (0.5 + size, 0.5 + size, 0.5, 0.5, 0.5, 0.5 - size)
        for column, accuracies in (("alone", (0.5,) * 6), ("agg1", together)):
            outcome = Outcome(rounds=1, figures={**of_nodes, "after.accuracy": accuracies})
            cells.append((cell(seed, "scene", column), outcome))
    return cells


def test_gains_are_those_of_the_nodes_of_each_group(tmp_path: Path) -> None:
    (pair,) = node_pairs(plan_of(tmp_path), done())
    assert (pair.row, pair.sides(), len(pair.points)) == ("scene", (2, 1), 12)
    assert pair.gain("small") == "+15.00 ± 7.07"  # nodes 0 and 1: 10 and 20 points
    assert pair.gain("middle") == "+0.00 ± 0.00"
    assert pair.gain("large", "between") == "-7.50 ± 3.54"  # nodes 4 and 5
    assert pair.gain("large", "alike") == ""
    text = "\n".join(pairs_section([pair]))
    assert "Of 6 nodes 2.0 gain and 1.0 lose" in text
    assert "| small | +15.00 ± 7.07 |  | +15.00 ± 7.07 | +15.00 ± 7.07 |" in text
    assert "drift" not in text


def test_nodes_that_drift_are_told_apart(tmp_path: Path) -> None:
    pairs = node_pairs(plan_of(tmp_path), done((0.0, 0.0, 0.0, 0.0, 0.0, 1.0)))
    assert "Nodes that drift -15.00 ± 7.07, others +6.00 ± 2.83." in "\n".join(pairs_section(pairs))


def test_columns_with_other_nodes_are_no_pair(tmp_path: Path) -> None:
    first, *rest = done()
    shorter = first[1].model_copy(update={"figures": {"after.accuracy": (0.5, None)}})
    (pair,) = node_pairs(plan_of(tmp_path), [(first[0], shorter), *rest])
    assert len(pair.seeds) == 1
    assert node_pairs(plan_of(tmp_path), []) == []
    assert list(pairs_section([])) == []


def test_a_pair_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    (pair,) = node_pairs(plan_of(tmp_path), done())
    save("who gains", lambda axes: draw_pairs(axes, pair), [tmp_path / "pairs.svg"])
    text = (tmp_path / "pairs.svg").read_text("utf-8")
    assert "alone: accuracy on own test rows" in text
    assert "large" in text
