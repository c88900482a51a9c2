"""Rank tests by hand, against what was published, and against SciPy."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import NotOffered
from flnet.experiments.ranks import (
    alike,
    critical_difference,
    friedman,
    friedman_of_ranks,
    holm,
    ranked,
    wilcoxon,
)

ROWS = np.array([(0.9, 0.8, 0.7), (0.6, 0.7, 0.5), (0.8, 0.85, 0.6), (0.9, 0.95, 0.7), (0.5, 0.5, 0.4)])

tables = st.integers(3, 6).flatmap(
    lambda methods: st.lists(
        st.lists(st.integers(0, 4), min_size=methods, max_size=methods), min_size=1, max_size=20
    )
)


@pytest.fixture(scope="module", autouse=True)
def stats() -> Any:
    """Of SciPy, imported only where it is needed: it takes seconds."""
    return pytest.importorskip("scipy.stats", reason="SciPy is not installed")


def test_the_best_of_a_row_is_first_and_ties_share_their_places() -> None:
    assert ranked(np.array([[0.5, 0.9, 0.5, 0.1]])).tolist() == [[2.5, 1, 2.5, 4]]
    assert ranked(np.array([[0.5, 0.9, 0.5, 0.1]]), higher_is_better=False).tolist() == [[2.5, 4, 2.5, 1]]


def test_friedman_of_the_worked_example() -> None:
    found = friedman(ROWS)
    assert found.ranks == pytest.approx((1.7, 1.3, 3.0), abs=1e-12)
    assert found.rows == 5
    assert found.statistic == pytest.approx(7.9, abs=1e-9)
    assert found.p == pytest.approx(0.0192547018, abs=1e-9)


def test_friedman_with_the_correction_for_ties() -> None:
    found = friedman(ROWS, tie_corrected=True)
    assert found.statistic == pytest.approx(8.3157894737, abs=1e-9)
    assert found.p == pytest.approx(0.0156404505, abs=1e-9)


@pytest.mark.parametrize(
    ("ranks", "q", "p"),
    [
        ((1.8128, 2.1536, 2.0335), 10.69553, 0.0047588),  # Delgado Bejarano 2024, F1-macro on the common test
        ((1.8156, 2.1285, 2.0559), 9.59777, 0.0082390),  # the same, argmax accuracy
    ],
)
def test_friedman_from_published_mean_ranks(ranks: tuple[float, ...], q: float, p: float) -> None:
    found = friedman_of_ranks(ranks, 179)
    assert found.statistic == pytest.approx(q, abs=0.02)  # of ranks with four decimals
    assert found.p == pytest.approx(p, abs=5e-5)


@pytest.mark.parametrize(
    ("q", "methods", "p"),
    [
        (10.69553, 3, 0.0047588),
        (0.68156, 3, 0.71121),
        (9.59777, 3, 0.0082390),
        (3.22067, 3, 0.19982),
        (76.47486, 2, 2.23e-18),  # the thesis prints 7.65e-11 here and 3.65e-11 below: artefacts of its sums
        (68.83240, 2, 1.07e-16),
        (5.36872, 2, 0.0205011),
        (1.81006, 2, 0.178502),
    ],
)
def test_the_published_statistics_have_these_chances(q: float, methods: int, p: float) -> None:
    """Of mean ranks that give just this Q: one method better, one worse by as much, the others between."""
    apart = (q * methods * (methods + 1) / (12 * 179) / 2) ** 0.5
    middle = (methods + 1) / 2
    found = friedman_of_ranks([middle - apart, *[middle] * (methods - 2), middle + apart], 179)
    assert found.statistic == pytest.approx(q, rel=1e-12)
    assert found.p == pytest.approx(p, rel=3e-3 if p < 1e-9 else 2e-5)


def test_critical_differences_of_the_worked_example_and_of_the_thesis() -> None:
    assert critical_difference(3, 5) == pytest.approx(1.4822864013, abs=1e-8)
    assert critical_difference(3, 179) == pytest.approx(0.2477368, abs=1e-6)
    assert critical_difference(2, 179) == pytest.approx(0.1464946, abs=1e-6)
    assert critical_difference(3, 1) == pytest.approx(2.3437 * 2**0.5, abs=1e-3)
    assert critical_difference(2, 6) == pytest.approx(1.9600 / 6**0.5, abs=1e-4)


@given(rows=tables)
def test_with_the_correction_it_is_scipys(stats: Any, rows: list[list[int]]) -> None:
    table = np.array(rows, np.float64)
    found = friedman(table, tie_corrected=True)
    if (table == table[:, :1]).all():
        assert (found.statistic, found.p) == (0.0, 1.0)
        return
    theirs = stats.friedmanchisquare(*table.T)
    assert found.statistic == pytest.approx(theirs.statistic, abs=1e-9)
    assert found.p == pytest.approx(theirs.pvalue, abs=1e-9)


@given(tables)
def test_ranks_of_a_row_add_up_and_turn_around(rows: list[list[int]]) -> None:
    table = np.array(rows, np.float64)
    methods = table.shape[1]
    ranks = ranked(table)
    assert ranks.sum(axis=1).tolist() == [methods * (methods + 1) / 2] * len(table)
    assert (ranks + ranked(table, higher_is_better=False) == methods + 1).all()


def test_groups_are_the_largest_within_the_critical_difference() -> None:
    assert alike([1.0, 2.0, 3.0, 1.5], 1.0) == [(0, 3, 1), (1, 2)]
    assert alike([1.0, 3.0, 2.0], 5.0) == [(0, 2, 1)]
    assert alike([1.0, 3.0, 2.0], 0.5) == []
    assert alike([1.0, 1.2, 3.0, 3.1], 0.5) == [(0, 1), (2, 3)]


def test_the_groups_of_the_thesis_on_the_common_test() -> None:
    # agg0 differs from agg1, and agg2 from none of the two.
    assert alike((1.8128, 2.1536, 2.0335), critical_difference(3, 179)) == [(0, 2), (2, 1)]


def test_wilcoxon_by_hand() -> None:
    # differences 1, 2, 3, -4, and one of 0 that is left out: ranks 1 to 4, the negative ones add up to 4
    found = wilcoxon(np.array([1.0, 2, 3, 0, 7]), np.array([0.0, 0, 0, 4, 7]))
    assert (found.statistic, found.rows) == (4.0, 4)
    assert found.p == pytest.approx(14 / 16)  # 7 of 16 choices of signs have a sum of 4 or less, on each side
    assert wilcoxon(np.ones(3), np.ones(3)).p == 1.0


def test_holm_by_hand() -> None:
    """Holm 1979: of four sorted chances the first counts four times, the next three times; none falls again."""
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_holm_keeps_the_order_and_lies_between_the_chance_and_m_times_it(chances: list[float]) -> None:
    for one, found in zip(chances, holm(chances), strict=True):
        assert one <= found <= min(1.0, len(chances) * one) + 1e-12
    in_order = [found for _, found in sorted(zip(chances, holm(chances), strict=True))]
    assert in_order == sorted(in_order)


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        ranked(np.array([[np.nan, 1.0]]))
    with pytest.raises(ValueError, match="two methods"):
        friedman(np.ones((3, 1)))
    with pytest.raises(ValueError, match="two methods"):
        friedman_of_ranks((1.0, 2.0), 0)
    with pytest.raises(ValueError, match="equally many"):
        wilcoxon(np.ones(3), np.ones(2))


def test_without_scipy_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(NotOffered, match=r"flnet\[experiments\]"):
        friedman(ROWS)
