"""A cell is a mesh of the nodes' own jobs: their rounds, weights and records, with trainings done at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.experiments.base import Outcome
from flnet.experiments.learners import Order, carry_out, learners_of, trainer_file
from flnet.experiments.mesh import Mesh
from flnet.params import Params, PeerId
from tests.experiments.cells import TOLD, cell


class Run:
    """A mesh that ran, with all that its nodes waited for, step by step."""

    def __init__(self, tmp_path: Path, seed: int = 0, **says: Any) -> None:
        self.cell = cell(seed, **says)
        file = trainer_file("TINY", TOLD)
        self.mesh = Mesh(self.cell, learners_of(self.cell, file, TOLD, tmp_path / "state"))
        self.steps: list[list[Order]] = []
        while orders := self.mesh.advance():
            carry_out(orders)
            self.steps.append(orders)
            self.mesh.go_on()
        self.outcome: Outcome = self.mesh.outcome()

    @property
    def trainings(self) -> list[int]:
        """How many trainings each step had; 0 of one that measured."""
        return [sum(order.task is not None for order in step) for step in self.steps]


def test_all_nodes_train_at_once_and_then_measure_at_once(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert run.trainings == [3, 0, 3, 0, 3, 0]
    assert [len(step) for step in run.steps] == [3] * 6
    outcome = run.outcome
    assert (outcome.rounds, outcome.reason) == (3, "")
    assert outcome.curves["after.accuracy"] == tuple(
        tuple(record["post_fedavg_accuracy"] for record in run.mesh.records[node]) for node in run.mesh.nodes
    )
    assert set(outcome.figures) == {
        f"{when}.{name}" for when in ("before", "after") for name in ("accuracy", "rows")
    } | {"before.loss"}
    assert run.mesh.done == 1.0


def test_the_average_is_that_of_the_strategy(tmp_path: Path) -> None:
    run = Run(tmp_path, rounds=1, partition="quantity:0.3", aggregation="agg1")
    trained, measured = run.steps
    weights = [order.fit.examples for order in trained if order.fit is not None]
    assert len(set(weights)) > 1
    for name in ("w", "b"):
        mean = np.average([order.params[name] for order in trained], axis=0, weights=weights)
        for order in measured:
            np.testing.assert_allclose(order.params[name], mean, rtol=1e-5, atol=1e-7)
    assert run.outcome.examples == tuple(weights)
    assert len({order.params.digest for order in measured}) == 1


def test_every_merging_rule_of_a_node_can_be_compared(tmp_path: Path) -> None:
    run = Run(tmp_path, rounds=1, aggregation="median")
    trained, measured = run.steps
    for name in ("w", "b"):
        middle = np.median([order.params[name] for order in trained], axis=0)
        assert np.array_equal(measured[0].params[name], middle.astype(np.float32))


def test_all_know_each_other_without_announcements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = cell(nodes=5)
    mesh = Mesh(one, learners_of(one, trainer_file("TINY", TOLD), TOLD, tmp_path))
    announced: list[object] = []
    monkeypatch.setattr(mesh.calls, "announce", lambda *told: announced.append(told))
    assert mesh.advance()
    assert not announced
    for name, node in mesh.nodes.items():
        assert node.core.members.alive == [other for other in mesh.nodes if other != name]


def test_work_comes_in_the_order_of_the_nodes(tmp_path: Path) -> None:
    """Whoever heard first of a round: sums over what is trained together would round otherwise."""
    run = Run(tmp_path, nodes=6)
    learners = list(run.mesh.learners.values())
    assert [[order.learner for order in step] for step in run.steps] == [learners] * 6


def test_bytes_are_those_of_updates_and_of_what_is_said(tmp_path: Path) -> None:
    one, two = Run(tmp_path / "1", rounds=1, nodes=4), Run(tmp_path / "2", rounds=2, nodes=4)
    update = one.mesh.learners[PeerId("n000-0")].initial.nbytes
    for outcome, rounds in ((one.outcome, 1), (two.outcome, 2)):
        exchanged = rounds * 4 * 3 * update + 3 * update  # and the first one's parameters, with which all begin
        assert exchanged < outcome.bytes < exchanged + rounds * 12 * 4000


def test_lone_nodes_know_nobody(tmp_path: Path) -> None:
    run = Run(tmp_path, kind="lone")
    assert run.trainings == [3, 0, 3, 0, 3, 0]
    assert run.outcome.bytes == 0
    assert all(len(record["contributors"]) == 1 for records in run.mesh.records.values() for record in records)
    figures = run.outcome.figures
    assert figures["after.accuracy"] == figures["before.accuracy"]


def test_lone_nodes_end_after_rounds_of_their_own_number_and_all_are_measured(tmp_path: Path) -> None:
    run = Run(tmp_path, kind="lone", rounds=30, until="no-gain 2", partition="dirichlet:1", rate=0.005)
    lengths = [len(records) for records in run.mesh.records.values()]
    assert len(set(lengths)) > 1
    assert run.outcome.rounds == max(lengths)
    last = [records[-1]["post_fedavg_accuracy"] for records in run.mesh.records.values()]
    assert list(run.outcome.figures["after.accuracy"]) == last


def test_a_central_node_has_all_rows(tmp_path: Path) -> None:
    run = Run(tmp_path, kind="central")
    assert len(run.outcome.figures["after.accuracy"]) == 1
    assert run.outcome.examples == (320,)


def test_hyper_parameters_are_the_cells(tmp_path: Path) -> None:
    run = Run(tmp_path, rounds=1, epochs=7, batch=5)
    hypers = {tuple(order.task.hyper.model_dump().items()) for order in run.steps[0] if order.task}
    assert hypers == {(("e", 7), ("u", 0.5), ("b", 5))}


def test_part_of_the_nodes_train_others_in_each_round_and_for_each_seed(tmp_path: Path) -> None:
    chosen = []
    for seed in (0, 1):
        run = Run(tmp_path / str(seed), seed, nodes=6, participation=0.3, rounds=6)
        assert [number for number in run.trainings if number] == [2] * 6
        records = run.mesh.records[PeerId(f"n000-{seed}")]
        chosen.append([tuple(name[:4] for name in record["contributors"]) for record in records])
        assert None not in run.outcome.figures["after.accuracy"]  # who rests averages and measures all the same
    assert len(set(chosen[0])) > 2
    assert chosen[0] != chosen[1]


def test_a_goal_ends_the_rounds(tmp_path: Path) -> None:
    run = Run(tmp_path, rounds=50, until="accuracy>=0.5")
    outcome = run.outcome
    assert outcome.rounds < 50
    course = outcome.course("after.accuracy")
    assert course[-1] >= 0.5 > max([0.0, *course[:-1]])


def test_long_runs_keep_every_round(tmp_path: Path) -> None:
    outcome = Run(tmp_path, rounds=150, nodes=2).outcome
    assert [len(course) for course in outcome.curves["after.accuracy"]] == [150, 150]


def test_a_node_that_cannot_train_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINY_FAILS", "2")
    outcome = Run(tmp_path).outcome
    assert outcome.reason == "n001-0: the second node cannot train"
    assert outcome.value("after.accuracy") is None


def test_equal_seeds_give_equal_numbers(tmp_path: Path) -> None:
    says = {"partition": "dirichlet:0.5", "participation": 0.7, "nodes": 4}
    one, same, other = (Run(tmp_path / name, int(name[0]), **says) for name in ("3", "3b", "4"))
    assert one.outcome == same.outcome
    assert one.outcome.figures != other.outcome.figures
    assert isinstance(one.steps[-1][0].params, Params)
