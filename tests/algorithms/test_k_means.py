"""A node's part of k-means: the oracle O12, Lloyd's step, batches, what fails as printed, what is kept back."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flnet.aggregation.base import Merged, RoundStart
from flnet.aggregation.fed_avg import fed_avg
from flnet.algorithms import k_means as learning
from flnet.algorithms.clustering import inertia, pair_jaccard
from flnet.algorithms.k_means import (
    CENTROIDS,
    COUNTS,
    MOST_ROWS,
    ClusterEncoder,
    LearningPace,
    assign,
    batches_in,
    blocks,
    candidates,
    from_candidates,
    from_seed,
    groups_rows,
    k_means,
    merge_centroids,
    move,
    spread,
    total_counts,
)
from flnet.params.params import Params, PeerId, Schema
from flnet.protocol.updates import Update
from tests.algorithms.rows import FIRST, SECOND, START, heaps
from tests.helpers import key, update

tables = arrays(np.float64, st.tuples(st.integers(1, 12), st.just(2)), elements=st.floats(-100, 100, width=16))


def lloyd(rows: Any, centroids: Any) -> Any:
    """One step of the centralised algorithm, written down again."""
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
    assert move(FIRST, START, LearningPace(beta=0.5)).centroids.tolist() == [[0.25, 0], [10, 10], [50, 50]]


def test_what_is_given_is_not_changed() -> None:
    start = START.copy()
    start.flags.writeable = False
    move(FIRST, start, LearningPace(epochs=3, batch=2))
    assert start.tolist() == START.tolist()


@given(
    st.lists(tables, min_size=1, max_size=4), arrays(np.float64, (3, 2), elements=st.floats(-100, 100, width=16))
)
def test_everyone_with_all_rows_at_once_is_lloyds_step(parts: list[Any], start: Any) -> None:
    sent = [move(rows, start) for rows in parts]
    merged = merge_centroids(start, 1.0, [(each.counts, each.centroids) for each in sent])
    assert merged == pytest.approx(lloyd(np.concatenate(parts), start), abs=1e-12)
    assert sum(int(each.counts.sum()) for each in sent) == sum(map(len, parts))


def test_as_printed_a_cluster_without_rows_in_a_batch_is_no_number() -> None:
    """Batches of 8, three clusters: as printed each moves by lb / lam, which is 0/0 for one without rows."""
    rows, start = np.tile([[0.0, 0], [1, 0]], (4, 1)), START
    nearest, _ = assign(rows, start)
    lb = np.bincount(nearest, minlength=3).astype(float)
    with np.errstate(invalid="ignore"):
        printed = start + (lb / lb)[:, None] * (rows.mean(axis=0) - start)
    assert np.isnan(printed[1:]).all()
    assert move(rows, start, LearningPace(batch=8)).centroids.tolist() == [[0.5, 0], [10, 10], [50, 50]]


def test_batches_by_hand() -> None:
    # beta 1, rows 0, 2, 4 one by one from 0: 0; then half the way to 2; then a third of the way from 1 to 4.
    rows, start = np.array([[0.0], [2], [4]]), np.array([[0.0]])
    assert move(rows, start, LearningPace(batch=1)).centroids.tolist() == [[2.0]]
    # the counts are reset in each epoch: the second pass goes to row 0 at once, and ends at the mean again
    twice = move(rows, start, LearningPace(epochs=2, batch=1))
    assert (twice.centroids.tolist(), twice.counts.tolist()) == ([[2.0]], [3])
    # beta 1/2: 0; 0 + 1/4 * 2 = .5; .5 + 1/6 * 3.5
    assert move(rows, start, LearningPace(batch=1, beta=0.5)).centroids[0, 0] == pytest.approx(0.5 + 3.5 / 6)


def test_a_training_may_end_early_and_says_how_far_it_got() -> None:
    rows, asked = np.array([[0.0], [2], [4]]), list[int]()

    def is_over(batches: int) -> bool:
        asked.append(batches)
        return batches == 2

    result = move(rows, np.array([[0.0]]), LearningPace(epochs=5, batch=1), done=is_over)
    assert (result.counts.tolist(), result.centroids.tolist(), asked) == ([2], [[1.0]], [1, 2])
    assert batches_in(3, LearningPace(epochs=5, batch=2)) == 10
    assert batches_in(3, LearningPace(epochs=5)) == 5
    assert batches_in(0, LearningPace()) == 0


@pytest.mark.parametrize(("least", "counts"), [(0, [2, 1, 0]), (1, [2, 1, 0]), (2, [2, 0, 0]), (3, [0, 0, 0])])
def test_small_clusters_are_kept_back(least: int, counts: list[int]) -> None:
    rows = FIRST + 0.25  # so that every cluster moves
    result = move(rows, START, LearningPace(min_count=least, epochs=2))
    assert result.counts.tolist() == counts
    stayed = np.array(counts) == 0
    assert result.centroids[stayed].tolist() == START[stayed].tolist()
    assert not (result.centroids[~stayed] == START[~stayed]).any()


def test_of_equally_near_centroids_the_first_counts() -> None:
    nearest, squares = assign(np.array([[0.0], [3.0]]), np.array([[1.0], [-1.0], [1.0]]))
    assert (nearest.tolist(), squares.tolist()) == ([0, 0], [1, 4])


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = heaps(3, rows=40)
    whole = move(rows, START, LearningPace(epochs=2, batch=16))
    monkeypatch.setattr(learning, "_BLOCK", 7)
    assert [(part.start, part.stop) for part in itertools.islice(blocks(40, 2), 2)] == [(0, 3), (3, 6)]
    parts = move(rows, START, LearningPace(epochs=2, batch=16))
    assert parts.counts.tolist() == whole.counts.tolist()
    assert parts.centroids == pytest.approx(whole.centroids, abs=1e-12)


def test_the_order_of_rows_is_drawn_and_equal_seeds_draw_alike() -> None:
    rows, _ = heaps(1)
    pace = LearningPace(batch=10, beta=0.5)
    result = [move(rows, START, pace, np.random.default_rng(seed)).centroids.tolist() for seed in (1, 1, 2)]
    assert result[0] == result[1] != result[2]


# Where k-means begins: alike on all nodes, spread over the rows of all, and no row moves.


def test_a_seed_alone_gives_the_same_start_everywhere() -> None:
    start = from_seed(7, 3, [-1, 10], [1, 20])
    assert start.tolist() == from_seed(7, 3, [-1, 10], [1, 20]).tolist()
    assert start.tolist() != from_seed(8, 3, [-1, 10], [1, 20]).tolist()
    assert ((start >= [-1, 10]) & (start <= [1, 20])).all()
    assert start.shape == (3, 2)


def test_candidates_are_means_of_at_least_so_many_rows() -> None:
    rows, _ = heaps(0)
    sent = candidates(rows, START, np.random.default_rng(0), min_count=5)
    assert (sent.counts[sent.counts > 0] >= 5).all()
    assert sent.counts.sum() <= len(rows)
    sums = sent.counts @ sent.centroids
    if sent.counts.sum() == len(rows):
        assert sums == pytest.approx(rows.sum(axis=0))
    assert not {row.tobytes() for row in rows} & {point.tobytes() for point in sent.centroids}
    lonely = candidates(rows[:3], START, np.random.default_rng(0), min_count=2)
    assert lonely.centroids[lonely.counts == 0].tolist() == START[lonely.counts == 0].tolist()


def test_of_nothing_comes_the_base() -> None:
    moved = move(np.zeros((0, 2)), START)
    assert (moved.counts.tolist(), moved.centroids.tolist()) == ([0, 0, 0], START.tolist())
    sent = candidates(np.zeros((0, 2)), START, np.random.default_rng(0))
    assert (sent.counts.tolist(), sent.centroids.tolist()) == ([0, 0, 0], START.tolist())
    assert from_candidates(START, [], 0).tolist() == START.tolist()
    assert from_candidates(START, [(sent.counts, sent.centroids)], 0).tolist() == START.tolist()


def federated(parts: list[Any], base: Any, seed: int) -> Any:
    sent = [candidates(rows, base, np.random.default_rng([seed, at])) for at, rows in enumerate(parts)]
    return from_candidates(base, [(each.counts, each.centroids) for each in sent], seed)


@pytest.mark.parametrize("seed", range(8))
def test_every_heap_gets_a_centroid_though_no_node_has_seen_more_than_one(seed: int) -> None:
    """Each node has one heap only: a draw that a node makes alone could never find the others."""
    rows, groups = heaps(seed)
    parts = [rows[groups == heap] for heap in range(3)]
    start = federated(parts, np.full((3, 2), 100.0), seed)
    result, _ = assign(rows, start)
    assert pair_jaccard(groups, result) > 0.9


def test_a_spread_start_is_better_than_a_box() -> None:
    spread_out, boxed = list[float](), list[float]()
    for seed in range(10):
        rows, _ = heaps(seed, spread=0.5)
        box = from_seed(seed, 3, rows.min(axis=0).tolist(), rows.max(axis=0).tolist())
        for start, result in ((federated([rows[::2], rows[1::2]], box, seed), spread_out), (box, boxed)):
            centroids = start
            for _ in range(20):
                sent = move(rows, centroids)
                centroids = merge_centroids(centroids, 1.0, [(sent.counts, sent.centroids)])
            result.append(inertia(rows, centroids))
    assert max(spread_out) < 0.6  # the variance of a heap is 2 * .25
    assert max(boxed) > 2 * max(spread_out)


def test_more_clusters_than_rows() -> None:
    rows = np.array([[1.0, 1], [2, 2]])
    drawn = spread(rows, np.ones(2), 4, np.random.default_rng(0))
    assert {tuple(row) for row in drawn} == {(1.0, 1.0), (2.0, 2.0)}
    start = federated([rows], np.zeros((4, 2)), 0)
    assert inertia(rows, start) == 0
    assert spread(rows, np.ones(2), 1, np.random.default_rng(0)).shape == (1, 2)


def test_rows_without_weight_are_not_drawn() -> None:
    rows = np.array([[1.0], [5.0], [9.0]])
    drawn = [spread(rows, np.array([1.0, 0, 1.0]), 2, np.random.default_rng(seed)) for seed in range(20)]
    assert {tuple(sorted(each[:, 0])) for each in drawn} == {(1.0, 9.0)}


# The merge of centroids: the oracle O12, clusters nobody has, bits, and what a liar may state.


SENT = [(each.counts, each.centroids) for each in (move(FIRST, START), move(SECOND, START))]
numbers = arrays(np.float64, (3, 2), elements=st.floats(-1e300, 1e300))
updates = st.lists(st.tuples(arrays(np.int64, 3, elements=st.integers(-(2**63), 2**63 - 1)), numbers), max_size=4)


def test_oracle_12_merging() -> None:
    assert merge_centroids(START, 1.0, SENT).tolist() == [[0.5, 0], [10, 10], [50, 50]]
    assert merge_centroids(START, 0.5, SENT).tolist() == [[0.25, 0], [10, 10], [50, 50]]
    assert total_counts([counts for counts, _ in SENT], 3).tolist() == [2, 3, 0]
    assert merge_centroids(START, 1.0, []).tolist() == START.tolist()
    assert total_counts([], 3).tolist() == [0, 0, 0]


def test_as_printed_a_cluster_that_nobody_has_is_no_number() -> None:
    weights = np.array([counts for counts, _ in SENT], np.float64)
    with np.errstate(invalid="ignore"):
        printed = (weights[:, :, None] * [points for _, points in SENT]).sum(axis=0) / weights.sum(axis=0)[:, None]
    assert np.isnan(printed[2]).all()
    assert merge_centroids(START, 1.0, SENT)[2].tolist() == START[2].tolist()


def test_a_cluster_of_one_node_is_taken_as_it_is_to_the_last_bit() -> None:
    point = np.array([[0.1, 1 / 3], [0.0, 0.0], [0.0, 0.0]])
    result = merge_centroids(START, 1.0, [(np.array([3, 0, 0]), point), (np.array([7, 0, 0]), point)])
    assert result[0].tolist() == point[0].tolist()


@given(updates, numbers)
def test_whatever_is_stated_a_centroid_lies_between_those_that_came(sent: list[Any], base: Any) -> None:
    result = merge_centroids(base, 1.0, sent)
    for place in range(3):
        there = np.array([points[place] for counts, points in sent if counts[place] > 0] or [base[place]])
        assert (there.min(axis=0) <= result[place]).all()
        assert (result[place] <= there.max(axis=0)).all()
    assert (total_counts([counts for counts, _ in sent], 3) >= 0).all()


def test_no_statement_outweighs_all_others_by_more_than_rows_can() -> None:
    liar = (np.full(3, 2**63 - 1), np.zeros((3, 2)))
    honest = (np.full(3, MOST_ROWS), np.ones((3, 2)))
    assert merge_centroids(START, 1.0, [liar, honest]) == pytest.approx(0.5)


# The aggregation rule of k-means: the oracle O12 through updates, the first centroids, and models of another kind.


def of(counts: Any, centroids: Any, dtype: str = "float64") -> Params:
    return Params({"centroids": np.asarray(centroids, dtype), "counts": np.asarray(counts, np.int64)})


def merged(base: Params, sent: list[Any], alpha: float = 1.0) -> Merged:
    updates = [Update(PeerId(f"p{at}"), key(), of(each.counts, each.centroids), 5) for at, each in enumerate(sent)]
    return k_means(alpha).merge(None, RoundStart(Schema.of(base), base), updates)


def test_oracle_12_k_means() -> None:
    sent = [move(FIRST, START), move(SECOND, START)]
    result = merged(of([0, 0, 0], START), sent)
    assert result.params["centroids"].tolist() == [[0.5, 0], [10, 10], [50, 50]]
    assert result.params["counts"].tolist() == [2, 3, 0]
    assert {peer: each.weight for peer, each in result.weighed.items()} == {"p0": 0.6, "p1": 0.4}
    half = merged(of([2, 3, 0], START), sent, alpha=0.5)
    assert half.params["centroids"].tolist() == [[0.25, 0], [10, 10], [50, 50]]


def test_a_base_that_has_not_begun_takes_the_candidates_of_all() -> None:
    rows, groups = heaps(0)
    base = of([-1, -1, -1], np.full((3, 2), 50.0))
    parts = [rows[groups == heap] for heap in range(3)]
    sent = [candidates(part, base["centroids"], np.random.default_rng(at)) for at, part in enumerate(parts)]
    result = merged(base, sent).params
    assert inertia(rows, result["centroids"]) < 3
    assert result["counts"].sum() == len(rows)
    assert merged(base, sent).params == result
    assert not np.allclose(merged(of([0, 0, 0], base["centroids"]), sent).params["centroids"], result["centroids"])


def test_until_somebody_sends_a_candidate_it_has_not_begun() -> None:
    base = of([-1, -1, -1], START)
    nobody = candidates(np.zeros((0, 2)), START, np.random.default_rng(0))
    assert merged(base, [nobody, nobody]).params == base


def test_narrow_centroids_stay_narrow() -> None:
    base = of([0, 0, 0], START, "float32")
    sent = Update(PeerId("a"), key(), of([1, 0, 0], START, "float32"), 1)
    result = k_means().merge(None, RoundStart(Schema.of(base), base), [sent]).params
    assert Schema.of(result) == Schema.of(base)


def test_models_of_another_kind_are_averaged_by_examples() -> None:
    updates = [update("a", examples=1, w=[0.0]), update("b", examples=3, w=[4.0])]
    start = RoundStart(Schema.of(updates[0].params), updates[0].params)
    for some in (updates, [update("a", examples=None, w=[1.0]), update("b", examples=None, w=[4.0])]):
        assert k_means().merge(None, start, some).params == fed_avg().merge(None, start, some).params


@pytest.mark.parametrize(
    "arrays",
    [
        {"centroids": np.zeros((3, 2)), "counts": np.zeros(3)},
        {"centroids": np.zeros((3, 2)), "counts": np.zeros(2, np.int64)},
        {"centroids": np.zeros(3), "counts": np.zeros(3, np.int64)},
        {"centroids": np.zeros((3, 2))},
    ],
)
def test_what_only_looks_like_k_means(arrays: dict[str, Any]) -> None:
    assert not groups_rows(Schema.of(arrays))
    assert groups_rows(Schema.of(of([0, 0, 0], START)))


@pytest.mark.parametrize("alpha", [0.0, -1.0, 1.01])
def test_a_step_beyond_the_mean_or_none_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha="):
        k_means(alpha)


# As a secure sum: nobody sees the counts and centroids of a single node.


def secure_case(seed: int) -> tuple[Params, list[Params]]:
    """Centroids that have started, and what nodes learn from rows of their own."""
    chance = np.random.default_rng([seed, *b"k-means"])
    k, columns = int(chance.integers(1, 6)), int(chance.integers(1, 4))
    start = chance.normal(0, 5, (k, columns))
    base = Params({CENTROIDS: start, COUNTS: np.zeros(k, np.int64)})
    moved = [
        move(chance.normal(0, 5, (int(chance.integers(0, 60)), columns)), start)
        for _ in range(chance.integers(1, 9))
    ]
    return base, [Params({CENTROIDS: each.centroids, COUNTS: each.counts}) for each in moved]


@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_the_sum_of_all_nodes_moves_centroids_as_the_plain_rule_does(alpha: float) -> None:
    for seed in range(150):
        base, updates = secure_case(seed)
        terms = ClusterEncoder(Schema.of(base), base, 8, alpha)
        sent = [terms.encode(each) for each in updates]
        assert not any(each.cut or each.weight_cut for each in sent)
        mean = terms.decode(np.sum([each.numbers for each in sent], axis=0, dtype=np.uint64), len(sent))
        plain = [Update(PeerId(str(place)), key(), each, 1) for place, each in enumerate(updates)]
        right = k_means(alpha).merge(None, RoundStart(Schema.of(base), base), plain).params
        assert mean.params[COUNTS].tolist() == right[COUNTS].tolist()
        assert np.abs(mean.params[CENTROIDS] - right[CENTROIDS]).max() <= mean.error + 1e-12
        assert mean.error < 1e-6
        assert mean.weight == right[COUNTS].sum()


def started(*centroids: list[float], counts: Any = None) -> Params:
    return Params(
        {CENTROIDS: np.array(centroids), COUNTS: np.zeros(len(centroids), int) if counts is None else counts}
    )


def test_oracle_12_as_a_sum() -> None:
    base = started(*START.tolist())
    terms = ClusterEncoder(Schema.of(base), base, 2)
    total = np.zeros(terms.size, np.uint64)
    for rows in (FIRST, SECOND):
        found = move(rows, START)
        total += terms.encode({CENTROIDS: found.centroids, COUNTS: found.counts}).numbers
    mean = terms.decode(total, 2).params
    assert mean[COUNTS].tolist() == [2, 3, 0]
    assert mean[CENTROIDS] == pytest.approx(np.array([[0.5, 0], [10, 10], [50, 50]]), abs=1e-6)


def test_a_sum_without_rows_leaves_centroids_where_they_are() -> None:
    base = started([1.0, 2.0], [3.0, 4.0])
    terms = ClusterEncoder(Schema.of(base), base, 3)
    mean = terms.decode(terms.encode(base).numbers * np.uint64(3), 3)
    assert (mean.weight, mean.norm) == (0, 0)
    assert mean.params == base


def test_rows_and_moves_beyond_the_bounds_are_cut_and_told() -> None:
    base = started([0.0], [0.0])
    terms = ClusterEncoder(Schema.of(base), base, 2, most_rows=100)
    sent = terms.encode(started([9.0], [1.0], counts=np.array([500, -3])))
    assert (sent.cut, sent.weight, sent.weight_cut) == (1, 100, True)
    mean = terms.decode(sent.numbers, 1)
    assert mean.params[COUNTS].tolist() == [100, 0]
    assert mean.params[CENTROIDS].tolist() == [[pytest.approx(8)], [0]]
    with pytest.raises(ValueError, match="has length 8; at most 7 is accepted"):
        terms.decode(sent.numbers, 1, most_norm=7)


def test_a_sum_of_clusters_that_honest_nodes_cannot_send_is_refused() -> None:
    base = started([0.0], [0.0])
    terms = ClusterEncoder(Schema.of(base), base, 2)
    few = terms.encode(started([1.0], [1.0], counts=np.array([1, 1]))).numbers
    for place, wrong in ((0, 2**64 - 1), (0, 2**22), (2, int(few[2]) * 9), (3, 2**63)):
        total = few.copy()
        total[place] = wrong
        with pytest.raises(ValueError, match="one of them did not send its update"):
            terms.decode(total, 2)


def test_what_k_means_cannot_put_into_a_sum_is_refused() -> None:
    base = started([0.0], counts=np.array([-1]))
    with pytest.raises(ValueError, match="start it from a seed"):
        ClusterEncoder(Schema.of(base), base, 2)
    other = Params({"w": np.zeros(2)})
    with pytest.raises(ValueError, match="no centroids and counts"):
        ClusterEncoder(Schema.of(other), other, 2)
    with pytest.raises(ValueError, match="do not fit in 32 bits"):
        ClusterEncoder(Schema.of(started([0.0])), started([0.0]), 2**12, bits=32)
