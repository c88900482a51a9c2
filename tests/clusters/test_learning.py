"""A node's part of k-means: the oracle O12, Lloyd's step, batches, what fails as printed, what is kept back."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flnet.clusters import learning
from flnet.clusters.learning import Pace, assign, batches_in, blocks, move
from flnet.clusters.merging import merge_centroids
from tests.clusters.rows import FIRST, SECOND, START, heaps

tables = arrays(np.float64, st.tuples(st.integers(1, 12), st.just(2)), elements=st.floats(-100, 100, width=16))


def lloyd(rows: Any, centroids: Any) -> Any:
    """One step of the centralised algorithm, written down anew."""
    nearest = ((rows[:, None] - centroids[None]) ** 2).sum(axis=2).argmin(axis=1)
    return np.array(
        [rows[nearest == j].mean(axis=0) if (nearest == j).any() else c for j, c in enumerate(centroids)]
    )


def test_oracle_12() -> None:
    one, two = move(FIRST, START), move(SECOND, START)
    assert one.counts.tolist() == [2, 1, 0]
    assert one.centroids.tolist() == [[0.5, 0], [10, 10], [50, 50]]
    assert two.counts.tolist() == [0, 2, 0]
    assert two.centroids.tolist() == [[0, 0], [10, 10], [50, 50]]
    assert move(FIRST, START, Pace(beta=0.5)).centroids.tolist() == [[0.25, 0], [10, 10], [50, 50]]


def test_what_is_given_is_not_changed() -> None:
    start = START.copy()
    start.flags.writeable = False
    move(FIRST, start, Pace(epochs=3, batch=2))
    assert start.tolist() == START.tolist()


@settings(deadline=None)
@given(
    st.lists(tables, min_size=1, max_size=4), arrays(np.float64, (3, 2), elements=st.floats(-100, 100, width=16))
)
def test_everyone_with_all_rows_at_once_is_lloyds_step(parts: list[Any], start: Any) -> None:
    sent = [move(rows, start) for rows in parts]
    merged = merge_centroids(start, 1.0, [(one.counts, one.centroids) for one in sent])
    assert merged == pytest.approx(lloyd(np.concatenate(parts), start), abs=1e-12)
    assert sum(int(one.counts.sum()) for one in sent) == sum(map(len, parts))


def test_as_printed_a_cluster_without_rows_in_a_batch_is_no_number() -> None:
    """Batches of 8, three clusters: as printed each moves by lb / lam, which is 0/0 for one without rows."""
    rows, start = np.tile([[0.0, 0], [1, 0]], (4, 1)), START
    nearest, _ = assign(rows, start)
    lb = np.bincount(nearest, minlength=3).astype(float)
    with np.errstate(invalid="ignore"):
        printed = start + (lb / lb)[:, None] * (rows.mean(axis=0) - start)
    assert np.isnan(printed[1:]).all()
    assert move(rows, start, Pace(batch=8)).centroids.tolist() == [[0.5, 0], [10, 10], [50, 50]]


def test_batches_by_hand() -> None:
    # beta 1, rows 0, 2, 4 one by one from 0: 0; then half the way to 2; then a third of the way from 1 to 4.
    rows, start = np.array([[0.0], [2], [4]]), np.array([[0.0]])
    assert move(rows, start, Pace(batch=1)).centroids.tolist() == [[2.0]]
    # the counts begin anew in each epoch: the second pass goes to row 0 at once, and ends at the mean again
    twice = move(rows, start, Pace(epochs=2, batch=1))
    assert (twice.centroids.tolist(), twice.counts.tolist()) == ([[2.0]], [3])
    # beta 1/2: 0; 0 + 1/4 * 2 = .5; .5 + 1/6 * 3.5
    assert move(rows, start, Pace(batch=1, beta=0.5)).centroids[0, 0] == pytest.approx(0.5 + 3.5 / 6)


def test_a_training_may_end_early_and_says_how_far_it_got() -> None:
    rows, asked = np.array([[0.0], [2], [4]]), list[int]()

    def is_over(batches: int) -> bool:
        asked.append(batches)
        return batches == 2

    found = move(rows, np.array([[0.0]]), Pace(epochs=5, batch=1), done=is_over)
    assert (found.counts.tolist(), found.centroids.tolist(), asked) == ([2], [[1.0]], [1, 2])
    assert batches_in(3, Pace(epochs=5, batch=2)) == 10
    assert batches_in(3, Pace(epochs=5)) == 5
    assert batches_in(0, Pace()) == 0


def test_of_no_rows_nothing_moves() -> None:
    found = move(np.zeros((0, 2)), START)
    assert (found.counts.tolist(), found.centroids.tolist()) == ([0, 0, 0], START.tolist())


@pytest.mark.parametrize(("least", "counts"), [(0, [2, 1, 0]), (1, [2, 1, 0]), (2, [2, 0, 0]), (3, [0, 0, 0])])
def test_small_clusters_are_kept_back(least: int, counts: list[int]) -> None:
    rows = FIRST + 0.25  # so that every cluster moves
    found = move(rows, START, Pace(min_count=least, epochs=2))
    assert found.counts.tolist() == counts
    stayed = np.array(counts) == 0
    assert found.centroids[stayed].tolist() == START[stayed].tolist()
    assert not (found.centroids[~stayed] == START[~stayed]).any()


def test_of_equally_near_centroids_the_first_counts() -> None:
    nearest, squares = assign(np.array([[0.0], [3.0]]), np.array([[1.0], [-1.0], [1.0]]))
    assert (nearest.tolist(), squares.tolist()) == ([0, 0], [1, 4])


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = heaps(3, rows=40)
    whole = move(rows, START, Pace(epochs=2, batch=16))
    monkeypatch.setattr(learning, "_BLOCK", 7)
    assert [(part.start, part.stop) for part in itertools.islice(blocks(40, 2), 2)] == [(0, 3), (3, 6)]
    parts = move(rows, START, Pace(epochs=2, batch=16))
    assert parts.counts.tolist() == whole.counts.tolist()
    assert parts.centroids == pytest.approx(whole.centroids, abs=1e-12)


def test_the_order_of_rows_is_drawn_and_equal_seeds_draw_alike() -> None:
    rows, _ = heaps(1)
    pace = Pace(batch=10, beta=0.5)
    found = [move(rows, START, pace, np.random.default_rng(seed)).centroids.tolist() for seed in (1, 1, 2)]
    assert found[0] == found[1] != found[2]
