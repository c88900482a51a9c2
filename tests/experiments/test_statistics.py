"""Means and spreads of a table, and rank tests by hand, against published values, and against SciPy."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import NotOffered, SettingsError
from flnet.experiments.published import Published, PublishedTest, Value, published_tests
from flnet.experiments.statistics import (
    Summary,
    TableEntry,
    comparisons,
    critical_difference,
    entries,
    friedman,
    friedman_of_ranks,
    groups_alike,
    holm,
    seed_rows,
    wilcoxon,
)
from flnet.installing import install
from flnet.protocol.counts import EvaluationCounts
from tests.experiments.cells import TABLE, results_of, small_plan

ROWS = np.array([(0.9, 0.8, 0.7), (0.6, 0.7, 0.5), (0.8, 0.85, 0.6), (0.9, 0.95, 0.7), (0.5, 0.5, 0.4)])


@pytest.fixture(scope="module", autouse=True)
def stats() -> Any:
    """SciPy's, which takes seconds to import."""
    return pytest.importorskip("scipy.stats", reason="SciPy is not installed")


# Entries.


def test_entries_hold_mean_spread_and_difference(tmp_path: Path) -> None:
    plan = small_plan(tmp_path)
    cells = plan.cells()
    table = {(e.row, e.column, e.measure): e for e in entries(plan, cells, results_of(tmp_path, cells))}
    assert len(table) == 3 * 3 * 2
    scene = table["scene", "agg0", "accuracy"]
    assert (scene.mean, scene.spread, scene.difference) == pytest.approx((0.61, 0.01, 0.01))
    assert dict(scene.values) == pytest.approx({seed: 0.6 + 0.01 * seed for seed in range(3)})
    assert scene.standard_errors is None  # the source does not say how many seeds it has
    agg1 = table["scene", "agg1", "accuracy"]
    assert agg1.standard_errors == pytest.approx(0.19 / (0.01 * (1 / 3 + 1 / 3) ** 0.5))
    assert (agg1.nearest, scene.nearest) == (2, 2)  # the mean of the first round is 0.3
    lost = table["lost", "alone", "accuracy"]
    assert (lost.mean, lost.spread, lost.difference, lost.nearest) == (None, None, None, None)
    assert lost.reasons == ("no data set lost.npz",)
    assert table["scene", "agg0", "bytes"].mean == 1000


def test_cells_that_were_not_run_yet_are_missing(tmp_path: Path) -> None:
    plan = small_plan(tmp_path)
    cells = plan.cells()
    table = entries(plan, cells, results_of(tmp_path, cells[:2]))
    assert [e.missing for e in table if e.measure == "accuracy"] == [1, *[3] * 8]
    assert table[0].mean == pytest.approx(0.605)


def test_when_the_accuracy_of_another_column_is_reached(tmp_path: Path) -> None:
    """agg0 ends at 0.6 to 0.62; agg1 is there after its second round, and alone (0.5 to 0.52) never is."""
    when = """
[[measures]]
name = "rounds"
reaches = "agg0"
[[measures]]
name = "seconds"
reaches = "agg0"
unit = "processor_seconds"
"""
    plan = small_plan(tmp_path, TABLE + when)
    cells = [cell for cell in plan.cells() if (cell.row, cell.column, cell.seed) != ("ye|ast", "agg0", 0)]
    table = {(e.row, e.column, e.measure): e for e in entries(plan, cells, results_of(tmp_path, cells))}
    for column in ("agg0", "agg1"):
        assert dict(table["scene", column, "rounds"].values) == {0: 2, 1: 2, 2: 2}
        assert dict(table["scene", column, "seconds"].values) == pytest.approx({0: 1, 1: 1, 2: 1})
    never = table["scene", "alone", "rounds"]
    assert (never.values, never.reasons) == ((), ("after.accuracy of agg0 not reached in 2 rounds",))
    assert set(dict(table["ye|ast", "agg1", "rounds"].values)) == {1, 2}  # seed 0 has nothing to reach
    assert table["lost", "alone", "rounds"].reasons == ("no data set lost.npz",)
    with pytest.raises(SettingsError, match=r"no column 'aggO'; there are agg0, agg1, alone"):
        small_plan(tmp_path, TABLE + when.replace("agg0", "aggO"))


def test_a_measure_over_all_rows_is_empty_with_a_reason_where_nobody_counted(tmp_path: Path) -> None:
    """Of two nodes with 10 and 90 rows, all rows have 0.1 and 0.9 of their accuracies."""
    plan = small_plan(
        tmp_path,
        TABLE
        + """
[[measures]]
name = "all rows"
over = "rows"
[[measures]]
name = "rounds"
over = "rows"
reaches = "alone"
""",
    )
    cells = plan.cells()
    results = results_of(tmp_path, cells)
    uncounted = {(e.row, e.column, e.measure): e for e in entries(plan, cells, results)}
    (reason,) = uncounted["scene", "agg0", "all rows"].reasons
    assert "does not count its rows" in reason
    assert uncounted["scene", "agg0", "all rows"].mean is None
    for cell in cells:
        of = results.get(cell)
        if of is None or of.reason:
            continue
        last = [round(1000 * value) for value in of.figures["after.accuracy"] if value is not None]
        right = ((last[0], 1000), (9 * last[1], 9000))
        update = {
            "figures": {"after.accuracy": of.figures["after.accuracy"][:2]},
            "counts": {"after": tuple(EvaluationCounts(right=r, examples=n) for r, n in right)},
            "right": {"after.accuracy": (((200, 1000), right[0]), ((3600, 9000), right[1]))},
        }
        results.add([(cell, of.model_copy(update=update))])
    table = {(e.row, e.column, e.measure): e for e in entries(plan, cells, results)}
    assert table["scene", "agg0", "accuracy"].mean == pytest.approx(0.61)
    assert table["scene", "agg0", "all rows"].mean == pytest.approx(0.61 + 0.08)
    # After the first round all rows have 0.38.
    assert dict(table["scene", "agg0", "rounds"].values) == {0: 2, 1: 2, 2: 2}


def test_rows_of_a_comparison_have_a_number_in_every_column(tmp_path: Path) -> None:
    plan = small_plan(tmp_path)
    cells = [cell for cell in plan.cells() if (cell.row, cell.seed, cell.column) != ("scene", 2, "agg0")]
    table = entries(plan, cells, results_of(tmp_path, cells))
    rows = seed_rows(table, "accuracy", ("agg0", "agg1", "alone"))
    assert rows.shape == (5, 3)  # two data sets of three seeds, one of them without agg0
    assert np.allclose(rows - rows[:, :1], [0, 0.1, -0.1])
    three, two = comparisons(plan, table)
    assert three.friedman.ranks == (2, 1, 3)
    pairs = {(pair.better, pair.other) for pair in three.pairs}
    assert pairs == {("agg1", "agg0"), ("agg0", "alone"), ("agg1", "alone")}
    # Of five rows that all differ in one direction, two of 32 choices of signs are as extreme; there are three pairs.
    assert [pair.test.p for pair in three.pairs] == pytest.approx([2 / 32] * 3)
    assert [pair.p for pair in three.pairs] == pytest.approx([6 / 32] * 3)
    assert (two.friedman.rows, [pair.test.rows for pair in two.pairs]) == (6, [6])
    assert two.pairs[0].p == two.pairs[0].test.p
    cells = [cell for cell in cells if cell.column == "agg0"]
    assert comparisons(plan, entries(plan, cells, results_of(tmp_path, cells))) == []


def entry(published: str, mean: float, spread: float | None = None, seeds: int | None = None) -> TableEntry:
    """A cell of four seeds."""
    value = Published(row="r", column="c", measure="m", value=Value.of(published), seeds=seeds)
    return TableEntry("r", "c", "m", (), value, summary=Summary(4, mean, spread))


@pytest.mark.parametrize(
    ("cell", "is_near", "is_within"),
    [
        (entry("0.5", 0.52, 0.01, 4), False, True),  # 2.8 standard errors: exact means that differ by little
        (entry("0.5", 0.56, 0.08, 4), True, False),  # 1.1 standard errors: means that are not exact
        (entry("0.5", 0.52, 0.01), True, True),  # the number of their seeds is not known: the tolerance decides
        (entry("0.5", 0.54, 0.01), False, False),
        (entry("0.05", 0.0649), True, True),  # below 0.1 the tolerance of 0.03 is 30 % of the value
        (entry("0.05", 0.0651), False, False),
        (entry("> 0.96", 0.99), True, True),  # a bound, which holds or not
        (entry("> 0.96", 0.95), False, False),
        (entry("0.98 to 0.99", 0.985), True, True),
        (entry("0.98 to 0.99", 1.01), True, True),  # 0.02 from the nearer end
        (entry("0.98 to 0.99", 0.94), False, False),
    ],
)
def test_standard_errors_decide_before_the_tolerance_does(
    cell: TableEntry, is_near: bool, is_within: bool
) -> None:
    assert (cell.is_near(0.03), cell.is_within(0.03)) == (is_near, is_within)


# Rank tests.


def test_friedman_by_hand() -> None:
    test = friedman(ROWS)
    assert test.ranks == pytest.approx((1.7, 1.3, 3.0), abs=1e-12)
    assert (test.rows, test.statistic, test.p) == pytest.approx((5, 7.9, 0.0192547018))
    assert friedman(np.array([[0.5, 0.9, 0.5, 0.1]])).ranks == (2.5, 1, 2.5, 4)
    assert friedman(np.array([[0.5, 0.9, 0.5, 0.1]]), higher_is_better=False).ranks == (2.5, 4, 2.5, 1)


@given(st.integers(3, 6).flatmap(lambda k: st.lists(st.permutations(range(k)), min_size=1, max_size=20)))
def test_friedman_is_that_of_scipy_without_ties(stats: Any, rows: list[list[int]]) -> None:
    table = np.array(rows, np.float64)
    test, expected = friedman(table), stats.friedmanchisquare(*table.T)
    assert test.statistic == pytest.approx(expected.statistic, abs=1e-9)
    assert test.p == pytest.approx(expected.pvalue, abs=1e-9)


@pytest.mark.parametrize(
    "theirs", list(published_tests(["delgado2024"])), ids=lambda test: f"{test.measure} {test.columns}"
)
def test_friedman_of_delgado_bejarano(theirs: PublishedTest) -> None:
    """From the mean ranks if there are any, else from some that give this Q: one best, one worst, others between."""
    methods = len(theirs.columns)
    apart = (theirs.statistic * methods * (methods + 1) / (12 * 179) / 2) ** 0.5
    middle = (methods + 1) / 2
    made_up = (middle - apart, *[middle] * (methods - 2), middle + apart)
    test = friedman_of_ranks(theirs.ranks or made_up, 179)
    assert test.statistic == pytest.approx(theirs.statistic, abs=0.02 if theirs.ranks else 1e-9)  # four decimals
    assert test.p == pytest.approx(theirs.p, rel=1e-2 if theirs.ranks or theirs.p < 1e-9 else 2e-5)


@pytest.mark.parametrize(
    ("methods", "rows", "difference"),
    [(3, 5, 1.4822864), (3, 179, 0.2477368), (2, 179, 0.1464946), (3, 1, 2.3437 * 2**0.5), (2, 6, 1.96 / 6**0.5)],
)
def test_critical_differences_by_hand_and_of_the_thesis(methods: int, rows: int, difference: float) -> None:
    assert critical_difference(methods, rows) == pytest.approx(difference, rel=2e-4)


@pytest.mark.parametrize(
    ("ranks", "distance", "groups"),
    [
        ([1.0, 2.0, 3.0, 1.5], 1.0, [(0, 3, 1), (1, 2)]),
        ([1.0, 3.0, 2.0], 5.0, [(0, 2, 1)]),
        ([1.0, 3.0, 2.0], 0.5, []),
        ([1.0, 1.2, 3.0, 3.1], 0.5, [(0, 1), (2, 3)]),
        ([1.8128, 2.1536, 2.0335], 0.2477368, [(0, 2), (2, 1)]),  # the thesis: only agg0 and agg1 differ
    ],
)
def test_groups_are_the_largest_within_the_critical_difference(
    ranks: list[float], distance: float, groups: list[tuple[int, ...]]
) -> None:
    assert groups_alike(ranks, distance) == groups


def test_wilcoxon_by_hand() -> None:
    # The differences are 1, 2, 3, -4 and a 0 that is left out; the negative ones have a rank sum of 4.
    test = wilcoxon(np.array([1.0, 2, 3, 0, 7]), np.array([0.0, 0, 0, 4, 7]))
    assert (test.statistic, test.rows) == (4.0, 4)
    assert test.p == pytest.approx(14 / 16)  # 7 of 16 choices of signs have a sum of 4 or less, on each side
    assert wilcoxon(np.ones(3), np.ones(3)).p == 1.0


def test_holm_by_hand() -> None:
    """Holm 1979: the smallest of four counts four times, the next three times, and none falls below one before."""
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_holm_keeps_the_order_and_multiplies_by_at_most_the_number_of_tests(p_values: list[float]) -> None:
    corrected = holm(p_values)
    for before, after in zip(p_values, corrected, strict=True):
        assert before <= after <= min(1.0, len(p_values) * before) + 1e-12
    in_order = [after for _, after in sorted(zip(p_values, corrected, strict=True))]
    assert in_order == sorted(in_order)


@pytest.mark.parametrize("table", [[[np.nan, 1.0]], np.ones((3, 1)), np.ones((0, 2))])
def test_tables_that_cannot_be_compared_are_refused(table: Any) -> None:
    with pytest.raises(ValueError, match="at least two methods and one row"):
        friedman(np.array(table))


def test_without_scipy_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(NotOffered, match=re.escape(install("experiments"))):
        friedman(ROWS)
