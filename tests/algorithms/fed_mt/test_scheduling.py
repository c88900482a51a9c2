"""Who trains when, how many steps, whose models count: the averages of O11, and passes that are no steps."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from flnet.algorithms.fed_mt.scheduling import phase, trains
from flnet.labels.losses import step_batches
from tests.algorithms.fed_mt.digits_mesh import Weighting, average_weights, counts_for

FINE, COARSE = np.array([1.0, 0.0]), np.array([[0.0, 1.0], [0.0, 3.0]])
ALL = np.array([FINE, *COARSE])


def test_the_two_phases_take_turns_and_the_warm_up_has_only_the_first() -> None:
    assert [phase("two-phase", number) for number in range(4)] == ["desired", "others", "desired", "others"]
    assert [phase("two-phase", number, warming=True) for number in range(3)] == ["desired"] * 3
    assert [phase("parallel", 7), phase("pipelined", 8), phase("parallel", 7, True)] == ["all", "all", "desired"]
    early, late = phase("coarse-first", 9, turning=10), phase("coarse-first", 10, turning=10)
    assert (early, late) == ("others", "desired")
    assert [trains("desired", True), trains("desired", False)] == [True, False]
    assert [trains("others", True), trains("others", False)] == [False, True]
    assert trains("all", True)
    assert trains("all", False)


def test_the_pipeline_is_two_runs_in_two_phases_that_never_meet() -> None:
    """Whatever the trainings do: so a mesh with one model has nothing to gain from it."""

    def learnt(model: float, desired: bool, seed: int) -> float:
        return float(np.sin(model + 3 * desired) + np.random.default_rng([seed, desired]).normal())

    begins = {True: 0.5, False: 0.5}
    fine_first, others_first = 0.5, 0.5
    for number in range(7):
        sent = {desired: learnt(begins[desired], desired, number) for desired in (True, False)}
        for mine in (True, False):
            (begins[mine],) = [sent[theirs] for theirs in (True, False) if counts_for("pipelined", mine, theirs)]
        turn = phase("two-phase", number) == "desired"
        fine_first, others_first = learnt(fine_first, turn, number), learnt(others_first, not turn, number)
        assert {sent[True], sent[False]} == {fine_first, others_first}


@pytest.mark.parametrize(
    ("weighting", "examples", "average"),
    [
        ("uniform", (50, 300, 300), (1 / 3, 4 / 3)),
        ("groups", (50, 300, 300), (0.5, 1)),
        ("examples", (1, 1, 2), (0.25, 1.75)),
        ("uniform", (0, 300, 300), (0, 2)),  # who trained on nothing has nothing to say
        ("groups", (50, 0, 300), (0.5, 1.5)),
        ("examples", (0, 0, 0), (1 / 3, 4 / 3)),
        ("groups", (0, 0, 0), (0.5, 1)),
    ],
)
def test_averages_of_oracle_11(
    weighting: Weighting, examples: tuple[int, ...], average: tuple[float, float]
) -> None:
    weights = average_weights(weighting, ["fine", "coarse", "coarse"], examples)
    assert np.array(weights) @ ALL == pytest.approx(average, abs=1e-12)


def test_as_printed_the_aggregation_moves_away_from_what_was_learnt() -> None:
    """The line reads f <- f - eta * sum(f_c - f). With a plus and eta = 1/C it is the mean."""
    base, rate = np.array([2.0, 2.0]), 1 / len(COARSE)
    mean, towards = COARSE.mean(axis=0), (COARSE - base).sum(axis=0)
    assert (base + rate * towards).tolist() == mean.tolist()
    assert np.abs(base - rate * towards - mean).sum() > np.abs(base - mean).sum()


def test_in_equal_passes_nodes_make_unequal_steps_and_in_equal_steps_they_do_not() -> None:
    passes = [-(-rows // 16) for rows in (50, 347)]  # one epoch of batches of 16
    assert passes == [4, 22]
    chance = np.random.default_rng(0)
    assert [len(list(step_batches(rows, 16, 20, chance))) for rows in (50, 347)] == [20, 20]


def test_batches_go_pass_after_pass() -> None:
    batches = list(step_batches(5, 2, 5, np.random.default_rng(1)))
    assert [len(batch) for batch in batches] == [2] * 5
    assert Counter(np.concatenate(batches).tolist()) == dict.fromkeys(range(5), 2)
    assert [sorted(batch.tolist()) for batch in step_batches(2, 8, 2, np.random.default_rng(1))] == [[0, 1]] * 2
    with pytest.raises(ValueError, match="rows=0, size=2"):
        next(step_batches(0, 2, 1, np.random.default_rng(1)))
