"""Centered clipping, by hand and against the iteration as it is printed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from flnet.aggregation.base import Merged
from flnet.algorithms.registry import parse_rule
from flnet.params.params import PeerId
from tests.aggregation.robust import begun, tables
from tests.helpers import update

BY_HAND = {  # of 1, 2 and 9 around a base of 0
    "centered-clipping:1:2": 5 / 3,  # 1 + 2 + 2
    "centered-clipping:2:2": 20 / 9,  # from 5/3: -2/3 + 1/3 + 2
    "centered-clipping:1": 5 / 3,  # the median distance is 2
    "centered-clipping:2": 16 / 9,  # from 5/3: -2/3 + 1/3 + 2/3
    "centered-clipping": 50 / 27,  # from 16/9: -7/9 + 2/9 + 7/9
    "centered-clipping:1:100": 4,  # nothing is clipped
}


def merged(rule: str, rows: Sequence[Sequence[float]]) -> Merged:
    updates = [update(f"p{at:03}", w=list(row)) for at, row in enumerate(rows)]
    return parse_rule(rule).merge(None, begun(w=[0.0] * len(rows[0])), updates)


def printed(rows: NDArray[np.float64], steps: int, radius: float) -> NDArray[np.float64]:
    center = np.zeros(rows.shape[1])
    for _ in range(steps):
        moved = rows - center
        norms = np.linalg.norm(moved, axis=1, keepdims=True)
        center = center + (moved * np.minimum(1, radius / np.maximum(norms, 1e-300))).mean(axis=0)
    return center


@pytest.mark.parametrize("rule", BY_HAND)
def test_numbers_by_hand(rule: str) -> None:
    assert merged(rule, [[1], [2], [9]]).params["w"].tolist() == pytest.approx([BY_HAND[rule]], abs=1e-12)
    assert parse_rule(rule).name == rule


@given(table=tables, steps=st.integers(1, 5), radius=st.sampled_from([0.5, 100.0, 1e5]))
def test_it_is_the_printed_iteration(table: list[list[float]], steps: int, radius: float) -> None:
    result = merged(f"centered-clipping:{steps}:{radius:.1f}", table).params["w"]
    np.testing.assert_allclose(result, printed(np.array(table), steps, radius), rtol=1e-5, atol=1e-2)


def test_an_update_beyond_all_numbers_counts_for_nothing() -> None:
    result = merged("centered-clipping", [[1.0], [1.0], [1e300]])
    assert np.isfinite(result.params["w"]).all()
    assert result.weighed[PeerId("p002")].weight == 0


def test_one_update_is_the_model() -> None:
    assert merged("centered-clipping", [[3.0, -7.0]]).params["w"].tolist() == [3.0, -7.0]


@pytest.mark.parametrize("rule", ["centered-clipping:0", "centered-clipping:1:0", "centered-clipping:1:2:3"])
def test_bounds_of_its_arguments(rule: str) -> None:
    with pytest.raises(ValueError, match="expected agg0"):
        parse_rule(rule)
