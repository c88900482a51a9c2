"""The mesh of a cell: rounds, weights and records are those of real nodes, and trainings are done together."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.aggregation.base import Merged, RoundStart, State
from flnet.aggregation.fed_avg import fed_avg
from flnet.errors import LocalError
from flnet.experiments.cells import Cell, Outcome
from flnet.experiments.learners import Learner, Order, carry_out, learners_of, trainer_file
from flnet.experiments.mesh import CellMesh, cached_measure, cached_rule
from flnet.params.arithmetic import distance
from flnet.params.params import Params, PeerId, Schema
from flnet.protocol.updates import RoundKey, Update
from tests.experiments.cells import SETTINGS, cell
from tests.node.mesh import MNIST_3_7, until
from tests.node.mesh import Mesh as NodeMesh

FIELDS = ("round", "contributors", "digest", "examples", "pre_fedavg_accuracy", "post_fedavg_accuracy", "metrics")


def learners(of: Cell, folder: Path) -> list[Learner]:
    return learners_of(of, trainer_file("TINY", SETTINGS), SETTINGS, folder)


class Run:
    """A mesh that has run, with the work of its nodes step by step."""

    def __init__(self, tmp_path: Path, seed: int = 0, **fields: Any) -> None:
        self.cell = cell(seed, **fields)
        self.mesh = CellMesh(self.cell, learners(self.cell, tmp_path / "state"))
        self.steps: list[list[Order]] = []
        while orders := self.mesh.advance():
            carry_out(orders)
            self.steps.append(orders)
            self.mesh.resume()
        self.outcome: Outcome = self.mesh.outcome()

    @property
    def trainings(self) -> list[int]:
        """The number of trainings of each step; 0 for evaluations."""
        return [sum(order.task is not None for order in step) for step in self.steps]


def test_all_nodes_train_together_and_evaluate_together_in_their_order(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert run.trainings == [3, 0, 3, 0, 3, 0]
    nodes = list(run.mesh.learners.values())
    assert [[order.learner for order in step] for step in run.steps] == [nodes] * 6
    assert (run.outcome.rounds, run.outcome.reason, run.mesh.done) == (3, "", 1.0)
    assert run.outcome.curves["after.accuracy"] == tuple(
        tuple(record["post_fedavg_accuracy"] for record in run.mesh.records[node]) for node in run.mesh.nodes
    )
    names = {f"{when}.{name}" for when in ("before", "after") for name in ("accuracy", "rows")}
    of_nodes = {"node.rows", "node.unlikeness", "node.drifts"}
    assert set(run.outcome.figures) == names | of_nodes | {"before.loss", "after.weight"}
    examples = np.array(run.outcome.examples)
    assert run.outcome.figures["after.weight"] == pytest.approx(examples / examples.sum())


def test_over_all_rows_a_cell_has_the_figures_that_its_nodes_add_up(tmp_path: Path) -> None:
    """What each node has in its records of the whole mesh, which a mean of unequal nodes is not."""
    run = Run(tmp_path, partition="quantity:0.3", exchange=True)
    course = run.outcome.course("after.accuracy", over="rows")
    for records in run.mesh.records.values():
        told = [record["mesh"] for record in records]
        assert {mesh["basis"] for mesh in told} == {"counts"}
        assert [mesh["accuracy"] for mesh in told] == list(course.values())
        for name in ("f1_macro", "balanced_accuracy"):
            figures = {f"after.{name}": (0.0,) * 3, **run.outcome.figures}
            kept = run.outcome.model_copy(update={"figures": figures})
            assert kept.value(f"after.{name}", "rows") == told[-1]["figures"][name]
    assert run.outcome.value("after.accuracy", "rows") == course[3] != run.outcome.value("after.accuracy")
    rows = run.outcome.figures["after.rows"]
    assert [of.examples for of in run.outcome.counts["before"] if of is not None] == list(rows)


def test_lone_nodes_are_counted_and_hostile_ones_are_not(tmp_path: Path) -> None:
    lone = Run(tmp_path / "lone", kind="lone", partition="quantity:0.3").outcome
    rows, accuracies = lone.figures["after.rows"], lone.figures["after.accuracy"]
    right = sum(a * b for a, b in zip(rows, accuracies, strict=True) if a is not None and b is not None)
    assert lone.value("after.accuracy", "rows") == pytest.approx(right / sum(filter(None, rows)))
    attacked = Run(tmp_path / "attacked", hostile=1, attack="sign-flip:5").outcome
    assert [of is not None for of in attacked.counts["after"]] == [True, True, False]
    assert attacked.value("after.accuracy", "rows") is not None


@pytest.mark.parametrize("aggregation", ["agg1", "median"])
def test_the_average_is_that_of_the_rule(tmp_path: Path, aggregation: str) -> None:
    run = Run(tmp_path, rounds=1, partition="quantity:0.3", aggregation=aggregation)
    trained, evaluated = run.steps
    weights = [order.fit.examples for order in trained if order.fit is not None]
    assert len(set(weights)) > 1
    assert run.outcome.examples == tuple(weights)
    assert len({order.params.digest for order in evaluated}) == 1
    for name in ("w", "b"):
        updates = [order.params[name] for order in trained]
        mean = np.average(updates, axis=0, weights=weights)
        expected = np.median(updates, axis=0) if aggregation == "median" else mean
        np.testing.assert_allclose(evaluated[0].params[name], expected, rtol=1e-5, atol=1e-7)


async def real_records(of: Cell, folder: Path) -> Mapping[str, list[Mapping[str, Any]]]:
    """The records of real nodes with the same trainers, names and seed."""
    mesh, setup = NodeMesh(of.seed), of.setup
    names = [f"n{number:03}-{of.seed}" for number in range(setup.nodes)]
    try:
        for name, learner in zip(names, learners(of, folder), strict=True):
            first = () if name == names[0] else (names[0],)
            await mesh.add(name, learner.trainer, first, seed=of.seed, aggregation=setup.aggregation)
        await mesh.full()
        request = json.dumps({"trainerId": MNIST_3_7, "rounds": setup.rounds}).encode()
        await mesh.nodes[names[0]].receive("/training/trigger", request, "application/json", "127.0.0.1")
        await until(lambda: all(len(n.history(MNIST_3_7)) == setup.rounds for n in mesh.nodes.values()), 60)
        return {name: list(node.history(MNIST_3_7)) for name, node in mesh.nodes.items()}
    finally:
        await mesh.stop()


@pytest.mark.parametrize("aggregation", ["agg0", "agg1", "median"])
async def test_a_cell_gives_the_updates_averages_and_figures_of_real_nodes(
    tmp_path: Path, aggregation: str
) -> None:
    def chosen(records: Mapping[str, list[Mapping[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
        return {node: [{name: record[name] for name in FIELDS} for record in of] for node, of in records.items()}

    fields: dict[str, Any] = {"exchange": True, "partition": "quantity:0.5", "aggregation": aggregation}
    run = Run(tmp_path / "simulated", **fields)
    simulated = chosen(run.mesh.records)  # type: ignore[arg-type]
    assert chosen(await real_records(run.cell, tmp_path / "real")) == simulated
    assert len({record["digest"] for records in simulated.values() for record in records}) == 3


def test_all_nodes_know_each_other_without_announcements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    five = cell(nodes=5)
    mesh = CellMesh(five, learners(five, tmp_path))
    announced: list[object] = []
    monkeypatch.setattr(mesh.calls, "announce", lambda *args: announced.append(args))
    assert mesh.advance()
    assert not announced
    for name, node in mesh.nodes.items():
        assert node.core.members.alive == [other for other in mesh.nodes if other != name]


@pytest.mark.parametrize("rounds", [1, 2])
def test_bytes_are_those_of_updates_and_messages(tmp_path: Path, rounds: int) -> None:
    run = Run(tmp_path, rounds=rounds, nodes=4)
    update = run.mesh.learners[PeerId("n000-0")].initial.nbytes
    exchanged = rounds * 4 * 3 * update + 3 * update  # all nodes start from the parameters of the first one
    assert exchanged < run.outcome.bytes < exchanged + rounds * 12 * 4000


def test_lone_nodes_know_no_peer_and_end_after_different_numbers_of_rounds(tmp_path: Path) -> None:
    run = Run(tmp_path / "a", kind="lone")
    assert run.trainings == [3, 0, 3, 0, 3, 0]
    assert run.outcome.bytes == 0
    assert all(len(record["contributors"]) == 1 for records in run.mesh.records.values() for record in records)
    assert run.outcome.figures["after.accuracy"] == run.outcome.figures["before.accuracy"]
    run = Run(tmp_path / "b", kind="lone", rounds=30, until="no-gain 2", partition="dirichlet:1", rate=0.005)
    lengths = [len(records) for records in run.mesh.records.values()]
    assert len(set(lengths)) > 1
    assert run.outcome.rounds == max(lengths)
    last = [records[-1]["post_fedavg_accuracy"] for records in run.mesh.records.values()]
    assert list(run.outcome.figures["after.accuracy"]) == last


def test_a_central_node_has_all_rows(tmp_path: Path) -> None:
    outcome = Run(tmp_path, kind="central").outcome
    assert (len(outcome.figures["after.accuracy"]), outcome.examples) == (1, (320,))


def test_hyper_parameters_are_those_of_the_cell(tmp_path: Path) -> None:
    run = Run(tmp_path, rounds=1, epochs=7, batch=5)
    hypers = {tuple(order.task.hyper.model_dump().items()) for order in run.steps[0] if order.task}
    assert hypers == {(("e", 7), ("u", 0.5), ("b", 5))}


def test_other_nodes_train_in_each_round_and_with_each_seed(tmp_path: Path) -> None:
    chosen = []
    for seed in (0, 1):
        run = Run(tmp_path / str(seed), seed, nodes=6, participation=0.3, rounds=6)
        assert [number for number in run.trainings if number] == [2] * 6
        records = run.mesh.records[PeerId(f"n000-{seed}")]
        chosen.append([tuple(name[:4] for name in record["contributors"]) for record in records])
        assert None not in run.outcome.figures["after.accuracy"]  # nodes that do not train average and evaluate
    assert len(set(chosen[0])) > 2
    assert chosen[0] != chosen[1]


def test_a_goal_ends_the_rounds_and_long_runs_keep_all_of_them(tmp_path: Path) -> None:
    outcome = Run(tmp_path / "goal", rounds=50, until="accuracy>=0.5").outcome
    course = list(outcome.course("after.accuracy").values())
    assert outcome.rounds == len(course) < 50
    assert course[-1] >= 0.5 > max([0.0, *course[:-1]])
    outcome = Run(tmp_path / "long", rounds=150, nodes=2).outcome
    assert [len(course) for course in outcome.curves["after.accuracy"]] == [150, 150]


def test_a_node_that_cannot_train_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINY_FAILS", "2")
    outcome = Run(tmp_path).outcome
    assert outcome.reason == "n001-0: the second node cannot train"
    assert outcome.value("after.accuracy") is None


def test_equal_seeds_give_equal_numbers(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"partition": "dirichlet:0.5", "participation": 0.7, "nodes": 4}
    first, same, other = (Run(tmp_path / name, int(name[0]), **fields).outcome for name in ("3", "3b", "4"))
    assert first == same
    assert first.figures != other.figures


def test_the_model_that_answers_has_figures_of_its_own(tmp_path: Path) -> None:
    local, common = (
        Run(tmp_path / choice, rounds=2, personal_model="increment", model_choice=choice).outcome.figures
        for choice in ("local", "global")
    )
    assert local["after.answered_accuracy"] == local["after.local_accuracy"]
    assert common["after.answered_accuracy"] == common["after.accuracy"] == local["after.accuracy"]


# What all nodes of a round compute alike is computed once.


def test_equal_updates_are_merged_once() -> None:
    calls = []

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        calls.append(updates)
        return fed_avg().merge(state, start, updates)

    cached = cached_rule(fed_avg()._replace(merge=merge))
    base, key = Params({"w": np.zeros(1, np.float32)}), RoundKey(0, PeerId("a"))
    start = RoundStart(Schema.of(base), base)
    updates = [
        Update(PeerId(name), key, Params({"w": np.array([w], np.float32)}), 1) for name, w in (("a", 1), ("b", 2))
    ]
    first, again = (cached.merge(None, each, updates) for each in (start, replace(start, me=PeerId("b"))))
    assert first is again
    other = cached.merge(None, start, [updates[0], replace(updates[1], examples=3)])
    assert [first.params["w"], other.params["w"]] == [1.5, 1.75]
    assert len(calls) == 2
    for changed in ({"number": 1}, {"base": Params({"w": np.ones(1, np.float32)})}, {"members": frozenset("ab")}):
        cached.merge(None, replace(start, **changed), updates)
    cached.merge(base, start, updates)
    assert len(calls) == 6


def test_each_distance_is_computed_once_in_a_round() -> None:
    zero, one, two, same = (Params({"w": np.full(4, w, np.float32)}) for w in (0, 1, 2, 1))
    schema, calls = Schema.of(zero), []

    def measure(base: Params, params: Params, schema: Schema) -> float:
        calls.append((base, params))
        return distance(base, params, schema)

    cached = cached_measure(measure)
    assert [cached(zero, params, schema) for params in (one, two, same, two)] == [2.0, 4.0, 2.0, 4.0]
    assert calls == [(zero, one), (zero, two)]
    assert [cached(one, params, schema) for params in (one, two, two)] == [0.0, 2.0, 2.0]
    assert len(calls) == 4


def test_nodes_that_promise_privacy_send_noise_that_lasts_for_the_rounds_and_equal_seeds_are_equal(
    tmp_path: Path,
) -> None:
    pytest.importorskip("dp_accounting")
    promise = "node:3:1e-5"
    run, again = (Run(tmp_path / name, privacy=promise) for name in "ab")
    plain = Run(tmp_path / "c")
    digests = [
        [record["digest"] for record in made.mesh.records[next(iter(made.mesh.nodes))]]
        for made in (run, again, plain)
    ]
    assert digests[0] == digests[1] != digests[2]
    assert run.outcome.rounds == 3
    for node in run.mesh.nodes.values():
        view = node.job.view().privacy
        assert view is not None and (view.updates, view.rounds_left) == (3, 0)


def test_tables_hide_no_single_rows(tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting")
    with pytest.raises(LocalError, match="expected node:epsilon:delta as the privacy of an experiment"):
        Run(tmp_path, privacy="rows:3:1e-5")
