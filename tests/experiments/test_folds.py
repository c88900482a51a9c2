"""Cross-validation by node: every node, or every row, is left out by one of the seeds, and the others learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from flnet.experiments.cells import Cell, Outcome
from flnet.experiments.folds import Fold
from flnet.experiments.learners import Learner, carry_out, learners_of, rows_of, trainer_file
from flnet.experiments.mesh import CellMesh
from flnet.experiments.run import run_together
from tests.experiments.cells import SETTINGS, cell
from tests.experiments.test_mesh import learners


def of(seed: int, folds: str, **fields: Any) -> Cell:
    return cell(seed, nodes=5, partition="dirichlet:1", folds=folds, **fields)


def nodes(given: Cell, folder: Path) -> list[Learner]:
    return learners_of(given, trainer_file("TINY", SETTINGS), SETTINGS, folder, Fold.of_cell(given).seed)


def test_every_node_is_left_out_once(tmp_path: Path) -> None:
    left: list[float] = []
    for seed in (4, 5):
        both = Fold.of_cell(of(seed, "nodes:2")).divided(nodes(of(seed, "nodes:2"), tmp_path / str(seed)))
        assert sorted(map(len, both)) == [2, 3]
        left += [rows_of(one, "train").x.sum() for one in both[1]]
    whole = nodes(of(4, "nodes:2"), tmp_path / "whole")
    assert sorted(left) == sorted(rows_of(one, "train").x.sum() for one in whole)
    assert Fold.of_cell(of(6, "nodes:2")).seed != Fold.of_cell(of(4, "nodes:2")).seed  # other data


def test_every_row_of_a_node_is_tested_once_and_labels_are_spread(tmp_path: Path) -> None:
    tested: list[list[float]] = [[] for _ in range(5)]
    for seed in range(3):
        given = of(seed, "rows:3")
        ours = nodes(given, tmp_path / str(seed))
        pooled = [np.concatenate([rows_of(one, side).x for side in ("train", "test")]) for one in ours]
        Fold.of_cell(given).set_apart(ours)
        for place, one in enumerate(ours):
            train, test = rows_of(one, "train"), rows_of(one, "test")
            assert sorted([*train.x[:, 0], *test.x[:, 0]]) == sorted(pooled[place][:, 0])
            counts = [np.bincount(side.y, minlength=4) for side in (train, test)]
            assert np.abs(counts[1] - (counts[0] + counts[1]) / 3).max() < 1
            tested[place] += test.x[:, 0].tolist()
    assert [sorted(rows) for rows in tested] == [sorted(rows[:, 0].tolist()) for rows in pooled]


def ran(given: Cell) -> Outcome:
    (outcome,) = run_together([given], SETTINGS)
    assert not outcome.reason
    return outcome


@pytest.mark.parametrize("fields", [{}, {"kind": "central", "parts": True}])
def test_the_model_of_the_others_is_measured_at_those_left_out(tmp_path: Path, fields: dict[str, Any]) -> None:
    given = of(1, "nodes:5", **fields)
    outcome = ran(given)
    stay, (out,) = Fold.of_cell(given).divided(nodes(of(1, "nodes:5"), tmp_path))
    assert outcome.figures["after.rows"] == (len(rows_of(out, "test")),)
    assert len(outcome.curves["after.accuracy"]) == 1
    seen = [number for number in outcome.examples if number is not None]
    assert sum(seen) == sum(len(rows_of(one, "train")) for one in stay)


def test_the_figure_is_the_accuracy_of_the_common_model(tmp_path: Path) -> None:
    given = of(1, "nodes:5")
    stay, out = Fold.of_cell(given).divided(nodes(given, tmp_path))
    mesh = CellMesh(given, stay, left_out=out)
    while orders := mesh.advance():
        carry_out(orders)
        mesh.resume()
    params = next(iter(mesh.nodes.values())).job.held.current.full
    assert mesh.outcome().figures["after.accuracy"] == (out[0].trainer.evaluate(params).accuracy,)


def test_folds_of_rows_are_the_test_rows_of_lone_nodes_too(tmp_path: Path) -> None:
    given = of(2, "rows:4", kind="lone")
    ours = nodes(given, tmp_path)
    Fold.of_cell(given).set_apart(ours)
    assert ran(given).figures["after.rows"] == tuple(len(rows_of(one, "test")) for one in ours)


def test_without_folds_a_seed_draws_the_data(tmp_path: Path) -> None:
    plain = cell(7, nodes=5)
    assert Fold.of_cell(plain) == ("", 0, 1, 7)
    ours = learners(plain, tmp_path)
    assert Fold.of_cell(plain).divided(ours) == (ours, [])


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"folds": "nodes:1"}, "expected nodes:5 or rows:5"),
        ({"folds": "nodes:6"}, "more folds than the 5 nodes"),
        ({"folds": "nodes:5", "kind": "lone"}, "need nodes that learn together"),
        ({"folds": "nodes:5", "kind": "central"}, "need nodes that learn together"),
        ({"folds": "nodes:5", "drift": "shares:0.5"}, "one common model"),
        ({"folds": "rows:5", "topology": "cyclic"}, "leaves no place for folds"),
    ],
)
def test_what_cannot_be_left_out_is_refused(fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        cell(0, nodes=5, **fields)
