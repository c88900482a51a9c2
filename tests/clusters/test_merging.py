"""The merge of centroids: the oracle O12, clusters nobody has, bits, and what a liar may state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flnet.clusters.learning import move
from flnet.clusters.merging import MOST_ROWS, merge_centroids, total_counts
from tests.clusters.rows import FIRST, SECOND, START

SENT = [(one.counts, one.centroids) for one in (move(FIRST, START), move(SECOND, START))]
numbers = arrays(np.float64, (3, 2), elements=st.floats(-1e300, 1e300))
updates = st.lists(st.tuples(arrays(np.int64, 3, elements=st.integers(-(2**63), 2**63 - 1)), numbers), max_size=4)


def test_oracle_12() -> None:
    assert merge_centroids(START, 1.0, SENT).tolist() == [[0.5, 0], [10, 10], [50, 50]]
    assert merge_centroids(START, 0.5, SENT).tolist() == [[0.25, 0], [10, 10], [50, 50]]
    assert total_counts([counts for counts, _ in SENT], 3).tolist() == [2, 3, 0]


def test_as_printed_a_cluster_that_nobody_has_is_no_number() -> None:
    weights = np.array([counts for counts, _ in SENT], np.float64)
    with np.errstate(invalid="ignore"):
        printed = (weights[:, :, None] * [points for _, points in SENT]).sum(axis=0) / weights.sum(axis=0)[:, None]
    assert np.isnan(printed[2]).all()
    assert merge_centroids(START, 1.0, SENT)[2].tolist() == START[2].tolist()


def test_nobody_sent_anything() -> None:
    assert merge_centroids(START, 1.0, []).tolist() == START.tolist()
    assert total_counts([], 3).tolist() == [0, 0, 0]


def test_a_cluster_of_one_node_is_taken_as_it_is_to_the_last_bit() -> None:
    point = np.array([[0.1, 1 / 3], [0.0, 0.0], [0.0, 0.0]])
    found = merge_centroids(START, 1.0, [(np.array([3, 0, 0]), point), (np.array([7, 0, 0]), point)])
    assert found[0].tolist() == point[0].tolist()


@settings(deadline=None)
@given(updates, numbers)
def test_whatever_is_stated_a_centroid_lies_between_those_that_came(sent: list[Any], base: Any) -> None:
    found = merge_centroids(base, 1.0, sent)
    for place in range(3):
        there = np.array([points[place] for counts, points in sent if counts[place] > 0] or [base[place]])
        assert (there.min(axis=0) <= found[place]).all()
        assert (found[place] <= there.max(axis=0)).all()
    assert (total_counts([counts for counts, _ in sent], 3) >= 0).all()


def test_no_statement_outweighs_all_others_by_more_than_rows_can() -> None:
    liar = (np.full(3, 2**63 - 1), np.zeros((3, 2)))
    honest = (np.full(3, MOST_ROWS), np.ones((3, 2)))
    assert merge_centroids(START, 1.0, [liar, honest]) == pytest.approx(0.5)
