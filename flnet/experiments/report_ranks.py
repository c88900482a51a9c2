"""The part of a report that says whether columns differ: Friedman and Nemenyi, then Wilcoxon for each pair."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from flnet.experiments.markdown import line
from flnet.experiments.ranks import alike
from flnet.experiments.summary import Comparison

MOST_PAIRS = 15  # lines of a table of pairs


def ranks_compared(tests: Sequence[Comparison]) -> Iterator[str]:
    """The lines of that part; none where nothing was compared."""
    if not tests:
        return
    yield "\n## Do the columns differ?"
    yield (
        "\nFriedman's test without a correction for ties; a row of the test is a row and seed of the table, and "
        "rank 1 is the best. Nemenyi's critical difference at 0.05.\n"
    )
    yield line(["measure", "mean ranks", "rows", "Q", "p", "critical difference", "differ"])
    yield line(["---"] * 7)
    for test in tests:
        ranks = ", ".join(f"{n} {rank:.4f}" for n, rank in zip(test.columns, test.friedman.ranks, strict=True))
        found = test.friedman
        numbers = [str(found.rows), f"{found.statistic:.4f}", f"{found.p:.3g}", f"{test.distance:.4f}"]
        yield line([test.measure, ranks, *numbers, _apart(test)])
    for test in tests:
        yield from _pairs(test)


def _pairs(test: Comparison) -> Iterator[str]:
    if len(test.pairs) == 1:
        (pair,) = test.pairs
        yield (
            f"\nWilcoxon's signed ranks, {test.measure}, {test.columns[0]} and {test.columns[1]}: "
            f"W {pair.test.statistic:g}, p {pair.test.p:.3g}, {pair.test.rows} rows that differ."
        )
        return
    columns = len(test.columns)
    yield (
        f"\nWilcoxon's signed ranks, {test.measure}, {columns} columns: each pair, with p after Holm's correction "
        f"for all {len(test.pairs)} of them. The column on the left is the better one in the mean.\n"
    )
    yield line(["better", "other", "W", "rows that differ", "p", "p after Holm"])
    yield line(["---"] * 6)
    for pair in test.pairs[:MOST_PAIRS]:
        numbers = [f"{pair.test.statistic:g}", str(pair.test.rows), f"{pair.test.p:.3g}", f"{pair.p:.3g}"]
        yield line([pair.better, pair.other, *numbers])
    if len(test.pairs) > MOST_PAIRS:
        rest = test.pairs[MOST_PAIRS:]
        least = min(one.p for one in rest)
        yield f"\nThe other {len(rest)} pairs have a p of {least:.3g}{' or more' if least < 1 else ''} after Holm."


def _apart(test: Comparison) -> str:
    """The pairs whose mean ranks are farther apart than the critical difference."""
    ranks = test.friedman.ranks
    pairs = itertools.combinations(range(len(ranks)), 2)
    together = {
        frozenset(pair) for group in alike(ranks, test.distance) for pair in itertools.combinations(group, 2)
    }
    named = [
        " above ".join(test.columns[number] for number in sorted(pair, key=lambda number: ranks[number]))
        for pair in pairs
        if frozenset(pair) not in together
    ]
    return "; ".join(named) or "none"
