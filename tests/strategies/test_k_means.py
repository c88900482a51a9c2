"""The merging rule of k-means: the oracle O12 through updates, the first centroids, and models of another kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flnet.clusters import candidates, inertia, move
from flnet.params import Params, PeerId, Schema, Update
from flnet.strategies import Merged, RoundStart, fed_avg, k_means
from flnet.strategies.k_means import groups_rows
from tests.clusters.rows import FIRST, SECOND, START, heaps
from tests.helpers import key, update


def of(counts: Any, centroids: Any, dtype: str = "float64") -> Params:
    return Params({"centroids": np.asarray(centroids, dtype), "counts": np.asarray(counts, np.int64)})


def merged(base: Params, sent: list[Any], alpha: float = 1.0) -> Merged:
    updates = [Update(PeerId(f"p{at}"), key(), of(one.counts, one.centroids), 5) for at, one in enumerate(sent)]
    return k_means(alpha).merge(None, RoundStart(Schema.of(base), base), updates)


def test_oracle_12() -> None:
    sent = [move(FIRST, START), move(SECOND, START)]
    found = merged(of([0, 0, 0], START), sent)
    assert found.params["centroids"].tolist() == [[0.5, 0], [10, 10], [50, 50]]
    assert found.params["counts"].tolist() == [2, 3, 0]
    assert {peer: one.weight for peer, one in found.weighed.items()} == {"p0": 0.6, "p1": 0.4}
    half = merged(of([2, 3, 0], START), sent, alpha=0.5)
    assert half.params["centroids"].tolist() == [[0.25, 0], [10, 10], [50, 50]]


def test_a_base_that_has_not_begun_takes_the_candidates_of_all() -> None:
    rows, groups = heaps(0)
    base = of([-1, -1, -1], np.full((3, 2), 50.0))
    parts = [rows[groups == heap] for heap in range(3)]
    sent = [candidates(part, base["centroids"], np.random.default_rng(at)) for at, part in enumerate(parts)]
    found = merged(base, sent).params
    assert inertia(rows, found["centroids"]) < 3
    assert found["counts"].sum() == len(rows)
    assert merged(base, sent).params == found
    assert not np.allclose(merged(of([0, 0, 0], base["centroids"]), sent).params["centroids"], found["centroids"])


def test_until_somebody_sends_a_candidate_it_has_not_begun() -> None:
    base = of([-1, -1, -1], START)
    nobody = candidates(np.zeros((0, 2)), START, np.random.default_rng(0))
    assert merged(base, [nobody, nobody]).params == base


def test_narrow_centroids_stay_narrow() -> None:
    base = of([0, 0, 0], START, "float32")
    sent = Update(PeerId("a"), key(), of([1, 0, 0], START, "float32"), 1)
    found = k_means().merge(None, RoundStart(Schema.of(base), base), [sent]).params
    assert Schema.of(found) == Schema.of(base)


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
