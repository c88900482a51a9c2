"""What a report says of whether columns differ: by all of them, and pair by pair."""

from __future__ import annotations

import numpy as np
import pytest

from flnet.experiments.plan import Measure
from flnet.experiments.report_ranks import MOST_PAIRS, ranks_compared
from flnet.experiments.summary import Comparison, compared

pytest.importorskip("scipy", reason="SciPy is not installed")


def of(columns: int, rows: int = 8) -> Comparison:
    """Columns a, b, c ..., each better than the one before it in every row."""
    table = np.arange(columns) + np.random.default_rng(1).uniform(0, 0.5, (rows, columns))
    return compared(Measure(name="accuracy"), tuple("abcdefghij"[:columns]), table)


def words(*tests: Comparison) -> str:
    return "\n".join(ranks_compared(tests))


def test_without_tests_nothing_is_said() -> None:
    assert words() == ""


def test_two_columns_have_a_sentence() -> None:
    assert "Wilcoxon's signed ranks, accuracy, a and b: W 0, p 0.00781, 8 rows that differ." in words(of(2))


def test_of_more_columns_each_pair_has_a_line_with_the_better_one_first() -> None:
    said = words(of(3))
    assert "for all 3 of them" in said
    for better, other in ("ba", "ca", "cb"):
        assert f"| {better} | {other} | 0 | 8 | 0.00781 | 0.0234 |" in said
    assert "c above a" in said


def test_of_many_pairs_only_the_first_are_listed() -> None:
    said = words(of(7))
    assert said.count("| 0.00781 |") == MOST_PAIRS
    assert "The other 6 pairs have a p of 0.164 or more after Holm." in said
    assert "The other 6 pairs have a p of 1 after Holm." in words(of(7, rows=2))
