"""Pooled counts: what is shared, how an average of nodes reads, and that nothing is where nobody asked for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.labels import Labelling
from flnet.params import Params
from flnet.training.api import TrainerSettings
from flnet.training.checks import declared
from flnet.training.findings import LabelFindings
from flnet.training.methods import with_labels
from flnet.training.methods.by_labels import COUNTS
from flnet.training.methods.pooling import POOLED, POOLING, Pooling
from tests.training.methods.test_by_labels import PAIRS, fine, labelling, learnt
from trainers.SMALL_DIGITS import SmallDigits

OTHER = {"id": "pairs", "classes": list(PAIRS)}


def node(labels: Labelling, part: int = 1) -> Pooling:
    told = TrainerSettings(None, Path(), (part, 5), labels=labels)
    made = with_labels(SmallDigits(told), told, "SMALL_DIGITS")
    assert isinstance(made, Pooling)
    return made


def rows_of(trainer: Pooling) -> int:
    inputs = trainer.inputs()
    assert inputs is not None
    return len(inputs)


def joined(trainer: Pooling, sure: Any) -> Any:
    """What a node learns in its first turn."""
    return learnt(trainer, sure, 1, first=1)


def averaged(some: list[Any], name: str) -> Any:
    return np.mean([one[name] for one in some], axis=0)


def test_all_nodes_say_alike_whose_counts_are_pooled() -> None:
    coarse, desired = node(labelling(estimate=True, pool_counts=True)), node(fine(pool_counts=True, pooled=OTHER))
    said = [declared(one, "X", Params(one.initial_params(0))) for one in (coarse, desired)]
    assert said[0].agreement == said[1].agreement
    assert said[0].agreement["pooled counts"].startswith("pairs, 5 classes, ")
    assert all({POOLED, POOLING} < set(one.shared) for one in said)
    assert all(COUNTS not in one.shared for one in said)
    assert "tells them how often it occurs" in coarse.data_info().note


def test_an_estimate_is_made_of_what_all_nodes_counted() -> None:
    labels = labelling(estimate=True, pool_counts=True, threshold=0.9)
    teacher = node(fine(steps=60, pool_counts=True, pooled=OTHER), part=3)
    model = learnt(teacher, teacher.initial_params(0), 5)
    assert not model[POOLED].any()  # it has nothing to count
    both = [node(labels, part) for part in (1, 2)]
    learned = [joined(one, {**model, COUNTS: one.initial_params(0)[COUNTS]}) for one in both]
    rows = [rows_of(one) for one in both]
    for mine, count in zip(learned, rows, strict=True):
        assert mine[POOLED] == pytest.approx(mine[COUNTS] / count)
        assert mine[POOLING].tolist() == [1]
    shared = {name: averaged(learned, name) for name in learned[0] if name != COUNTS}
    then = {**shared, COUNTS: learned[0][COUNTS]}
    expected = np.rint(rows[0] * (learned[0][COUNTS] / rows[0] + learned[1][COUNTS] / rows[1]) / 2)
    assert np.abs(both[0].behind(then, then[COUNTS]) - expected).max() <= 1
    assert not np.array_equal(both[0].behind(then, then[COUNTS]), learned[0][COUNTS])
    found = both[0].findings(then)
    assert isinstance(found, LabelFindings)
    assert found.pooled
    assert found.counts is not None
    assert np.array_equal(found.counts, both[0].behind(then, then[COUNTS]))


def test_nodes_with_fine_labels_hand_on_what_was_pooled_and_count_for_nothing_beside_others() -> None:
    pooled = {POOLED: np.full((5, 10), 0.01, np.float32), POOLING: np.ones(1, np.float32)}
    turns, beside = (
        node(fine(steps=2, pool_counts=True, pooled=OTHER, schedule=schedule))
        for schedule in ("two-phase", "parallel")
    )
    start = {**turns.initial_params(0), **pooled}
    after = [learnt(one, start, 1) for one in (turns, beside)]
    assert np.array_equal(after[0][POOLED], pooled[POOLED])
    assert after[1][POOLED].shape == (5, 10)
    assert (after[1][POOLED].any(), after[1][POOLING].any()) == (False, False)
    counting = {POOLED: np.full((5, 10), 0.02, np.float32), POOLING: np.ones(1, np.float32)}
    mixed = {name: averaged([after[1], counting], name) for name in pooled}
    trainer = node(labelling(estimate=True, pool_counts=True))
    own = np.zeros((5, 10), np.int64)
    there = trainer.behind(mixed, own)
    assert np.array_equal(there, np.full((5, 10), round(0.02 * rows_of(trainer))))  # not half of it


@pytest.mark.parametrize(("part", "nodes"), [(-1.0, 1.0), (0.5, 0.0), (0.5, -1.0)])
def test_nonsense_of_a_peer_leaves_the_own_counts(part: float, nodes: float) -> None:
    trainer, own = node(labelling(estimate=True, pool_counts=True)), np.eye(5, 10, dtype=np.int64)
    told = {POOLED: np.full((5, 10), part, np.float32), POOLING: np.array([nodes], np.float32)}
    assert np.array_equal(trainer.behind(told, own), own)
    too_much = trainer.behind({POOLED: np.full((5, 10), 1e30), POOLING: np.ones(1)}, own)
    assert np.array_equal(too_much, np.full((5, 10), rows_of(trainer)))
