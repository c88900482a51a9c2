"""Rows that change over the rounds, and a central node that is measured at each of the nodes whose rows it has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.datasets.labelled import Labelled
from flnet.experiments.cells import Outcome
from flnet.experiments.drift import Drift, relabelled, turned_shares, unlikeness
from flnet.experiments.learners import rows_of
from flnet.experiments.run import run_together
from flnet.params.params import Array
from tests.experiments.cells import SETTINGS, cell
from tests.experiments.test_mesh import Run, learners


def rows(counts: list[int]) -> Labelled:
    """Rows that are told apart by their only column, with so many of each class."""
    y = np.repeat(np.arange(len(counts)), counts)
    return Labelled(np.arange(len(y), dtype=np.float32)[:, None], y)


def chance() -> np.random.Generator:
    return np.random.default_rng(1)


@given(st.lists(st.integers(1, 40), min_size=2, max_size=4), st.floats(0, 1))
def test_shares_turn_round_and_rows_keep_their_labels(counts: list[int], done: float) -> None:
    first = rows(counts)
    changed = turned_shares(first, done, len(counts), chance())
    wanted = (1 - done) * np.array(counts) + done * np.array(counts[::-1])
    assert np.abs(np.bincount(changed.y, minlength=len(counts)) - wanted).max() <= 0.5
    assert (first.y[changed.x[:, 0].astype(int)] == changed.y).all()
    for label in range(len(counts)):  # no row is repeated while others of its class were not taken
        times = np.bincount(changed.x[changed.y == label, 0].astype(int), minlength=len(first))[first.y == label]
        assert times.max() - times.min() <= 1


@given(st.lists(st.integers(0, 9), min_size=2, max_size=5).filter(any), st.floats(0, 1))
def test_a_class_without_rows_gets_none_and_the_others_turn_round(counts: list[int], done: float) -> None:
    changed = turned_shares(rows(counts), done, len(counts), chance())
    of_each = np.bincount(changed.y, minlength=len(counts)).tolist()
    assert [count > 0 for count in counts] >= [count > 0 for count in of_each]
    assert abs(len(changed) - sum(counts)) <= len(counts)
    turned = np.bincount(turned_shares(rows(counts), 1.0, len(counts), chance()).y, minlength=len(counts))
    there = [count for count in counts if count]
    assert [count for count in turned.tolist() if count] == there[::-1]


@pytest.mark.parametrize(("done", "last"), [(0.0, 50), (0.5, 35), (1.0, 20)])
def test_the_last_class_comes_to_be_labelled_as_the_first_one(done: float, last: int) -> None:
    changed = relabelled(rows([10, 0, 50]), done, 3, chance())
    assert np.bincount(changed.y).tolist() == [60 - last, 0, last]
    assert (changed.x == rows([10, 0, 50]).x).all()


def test_nodes_drift_from_a_quarter_to_three_quarters_of_the_rounds(tmp_path: Path) -> None:
    nodes = learners(cell(nodes=4), tmp_path)
    before = [rows_of(node, "test") for node in nodes]
    drift = Drift("labels:0.5", nodes, rounds=8, seed=0)
    assert len(drift.places) == 2
    place, steady = drift.places[0], next(p for p in range(4) if p not in drift.places)
    assert [drift.reach(place, number) for number in range(8)] == [False] * 3 + [True] * 4 + [False]
    assert not any(drift.reach(steady, number) for number in range(8))
    for side, was in (("train", None), ("test", before[place])):
        labels = rows_of(nodes[place], side).y  # type: ignore[arg-type]
        assert (labels == 0).sum() > (labels == 3).sum()
        assert was is None or (len(labels) == len(was) and (rows_of(nodes[place], "test").x == was.x).all())
    assert (rows_of(nodes[steady], "test").y == before[steady].y).all()


def test_nodes_that_drift_are_measured_on_the_rows_of_their_time(tmp_path: Path) -> None:
    plain, drifting = (
        Run(tmp_path / name, nodes=4, rounds=8, drift=drift).outcome
        for name, drift in (("plain", ""), ("drifting", "labels:0.5"))
    )
    curves = [of.curves["after.accuracy"] for of in (plain, drifting)]
    assert [c[:3] for c in curves[0]] == [c[:3] for c in curves[1]]  # nothing changed yet
    drifts = drifting.figures["node.drifts"]
    assert sorted(value for value in drifts if value is not None) == [0, 0, 1, 1]
    lost = [before[-1] - after[-1] for before, after in zip(*curves, strict=True)]
    assert min(loss for loss, is_drifting in zip(lost, drifts, strict=True) if is_drifting) > 0
    assert plain.figures["node.drifts"] == (0, 0, 0, 0)


def central(drift: str = "") -> Outcome:
    of = cell(kind="central", nodes=4, parts=True, partition="dirichlet:1", rounds=4, drift=drift)
    return run_together([of], SETTINGS)[0]


def test_a_central_node_learns_from_the_rows_of_all_nodes_and_is_measured_at_each(tmp_path: Path) -> None:
    nodes = learners(cell(nodes=4, partition="dirichlet:1"), tmp_path)
    outcome = central()
    assert outcome.examples == (sum(len(rows_of(node, "train")) for node in nodes),)
    assert outcome.figures["after.rows"] == tuple(len(rows_of(node, "test")) for node in nodes)
    assert outcome.figures["node.rows"] == tuple(len(rows_of(node, "train")) for node in nodes)
    assert [len(of) for of in outcome.curves["after.accuracy"]] == [4] * 4
    assert tuple(of[-1] for of in outcome.curves["after.accuracy"]) == outcome.figures["after.accuracy"]
    assert min(value for value in outcome.figures["after.accuracy"] if value is not None) > 0.5
    right = [of.right for of in outcome.counts["after"] if of is not None]
    assert outcome.value("after.accuracy", "rows") == sum(right) / sum(filter(None, outcome.figures["after.rows"]))
    assert outcome.course("after.accuracy", over="rows")[4] == outcome.value("after.accuracy", "rows")
    drifting = central("labels:0.5").figures["after.accuracy"]
    assert drifting != outcome.figures["after.accuracy"]


def test_nodes_are_unlike_by_the_distance_of_their_shares() -> None:
    counts: list[Array] = [np.array([10, 0]), np.array([10, 20])]
    assert unlikeness(counts) == pytest.approx([0.5, 1 / 6])  # shares of all: a half each
    assert unlikeness([np.array([1, 3]), np.array([10, 30])]) == [0, 0]
