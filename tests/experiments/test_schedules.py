"""Models that travel by schedules which nodes do not offer, and the topologies of nodes beside them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from flnet.experiments.cells import Cell, Outcome
from flnet.experiments.learners import Order, carry_out, learners_of, trainer_file
from flnet.experiments.mesh import spread_of
from flnet.experiments.run import run_together
from flnet.experiments.schedules import ScheduledMesh
from flnet.params.params import Params, Schema
from tests.experiments.cells import SETTINGS, cell

SCHEDULES = ("cyclic", "random-passing", "bacombo:4:2")


def scheduled(folder: Path, **fields: Any) -> tuple[ScheduledMesh, list[list[Order]]]:
    """A schedule that was played to its end, with its work step by step."""
    of = cell(0, **fields)
    mesh = ScheduledMesh(of, learners_of(of, trainer_file("TINY", SETTINGS), SETTINGS, folder / "state"))
    steps = []
    while orders := mesh.advance():
        carry_out(orders)
        steps.append(orders)
        mesh.resume()
    return mesh, steps


def outcome(topology: str, **fields: Any) -> Outcome:
    of = cell(0, topology=topology, **fields)
    (made,) = run_together([of], SETTINGS)
    return made


def test_with_passing_each_training_goes_on_from_the_one_before(tmp_path: Path) -> None:
    mesh, steps = scheduled(tmp_path, topology="cyclic", rounds=2)
    trainings = [step[0] for step in steps if step[0].task is not None]
    assert [order.learner for order in trainings] == 2 * list(mesh.learners.values())
    for before, after in itertools.pairwise(trainings):
        assert before.fit is not None and after.task is not None
        assert Params(before.fit.params).digest == Params(after.task.params).digest
    last = trainings[-1].fit
    assert last is not None and {model.digest for model in mesh.models.values()} == {Params(last.params).digest}
    made = mesh.outcome()
    assert (made.rounds, made.models, made.spread, mesh.done) == (2, 1.0, 0.0, 1.0)


def test_with_random_passing_as_many_trainings_are_done_and_nobody_passes_to_itself(tmp_path: Path) -> None:
    mesh, steps = scheduled(tmp_path, topology="random-passing", rounds=4)
    trainings = [step[0].learner for step in steps if step[0].task is not None]
    assert len(trainings) == 4 * len(mesh.learners)
    assert all(one is not other for one, other in itertools.pairwise(trainings))


def test_one_segment_of_all_others_makes_what_a_mesh_makes(tmp_path: Path) -> None:
    mesh, _ = scheduled(tmp_path, topology="bacombo:1:2", nodes=3, rounds=1, partition="quantity:0.3")
    common = outcome("mesh", nodes=3, rounds=1, partition="quantity:0.3")
    assert len({model.digest for model in mesh.models.values()}) == 1
    made = mesh.outcome()
    assert made.examples == common.examples and len(set(made.examples)) > 1
    assert made.figures["after.accuracy"] == common.figures["after.accuracy"]
    assert made.counts["after"] == common.counts["after"]
    assert made.course("after.accuracy", over="rows") == common.course("after.accuracy", over="rows") != {}
    assert made.models == common.models == 2


@pytest.mark.parametrize(
    ("topology", "models", "is_one"),
    [
        *(("mesh", 5, True), ("segments", 2, True), ("random:2", 2, False), ("ring", 2, False)),
        *(("cyclic", 1, True), ("random-passing", 1, True), ("bacombo:3:1", 1, False), ("bacombo:1:5", 5, True)),
    ],
)
def test_models_sent_and_spread_are_those_of_the_topology(topology: str, models: float, is_one: bool) -> None:
    made = outcome(topology, nodes=6, rounds=2)
    assert made.reason == ""
    assert made.models == pytest.approx(models, rel=0.2 if topology == "segments" else 1e-9)
    assert (made.spread == 0) == is_one
    assert len(made.figures["after.accuracy"]) == 6 and len(made.curves["after.accuracy"][0]) == 2
    assert outcome(topology, nodes=6, rounds=2).figures == made.figures


def test_segments_learn_what_a_mesh_learns_to_the_last_bit() -> None:
    mesh = dict(outcome("mesh", nodes=5).figures)
    del mesh["after.weight"]  # in segments, no node sees the weight of a whole update
    assert outcome("segments", nodes=5).figures == mesh


def test_the_spread_is_the_distance_from_the_mean() -> None:
    models = [Params({"w": np.array(w)}) for w in ([1.0, 2.0], [5.0, 2.0], [3.0, 8.0])]  # mean (3, 4)
    assert spread_of(models, Schema.of(models[0])) == pytest.approx(((8 + 8 + 16) / 3) ** 0.5 / 5)


@pytest.mark.parametrize("topology", SCHEDULES)
def test_a_trainer_that_fails_is_told(topology: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINY_FAILS", "2")
    assert "the second node cannot train" in outcome(topology).reason


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"topology": "star"}, "expected mesh, segments"),
        ({"topology": "bacombo:0:1"}, "expected mesh, segments"),
        ({"topology": "cyclic", "aggregation": "median"}, "the topology cyclic leaves no place for aggregation"),
        ({"topology": "bacombo:2:1", "until": "accuracy>=0.9"}, "leaves no place for until"),
        ({"topology": "random:2", "exchange": True}, "leaves no place for exchange"),
        ({"topology": "random:2", "aggregation": "krum:1"}, "has no weights for pairs of nodes"),
    ],
)
def test_what_does_not_go_together_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        cell(0, **fields)


@pytest.mark.parametrize("topology", SCHEDULES)
def test_topologies_have_keys_of_their_own_and_a_mesh_that_of_before(topology: str) -> None:
    assert cell(0, topology="mesh").key == cell(0).key != cell(0, topology=topology).key
    assert Cell.model_validate(cell(0, topology=topology).model_dump()).setup.is_schedule
