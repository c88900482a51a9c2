"""The report of an experiment: Markdown with plots for readers, and CSV for further computation."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from flnet.errors import LocalError, NotOffered
from flnet.experiments.cells import OF_CELL, Cell, Outcome, Results
from flnet.experiments.node_pairs import node_pairs, pairs_section
from flnet.experiments.plan import Measure, Plan
from flnet.experiments.plots import Plot, write_plots
from flnet.experiments.published import PublishedTest
from flnet.experiments.statistics import (
    CHANCE,
    SMALL,
    Done,
    RankComparison,
    Summary,
    TableEntry,
    comparisons,
    entries,
    groups_alike,
)

REPORT, TABLE, CELLS, CURVES, NODES = "report.md", "table.csv", "cells.csv", "curves.csv", "nodes.csv"
TABLE_COLUMNS = (
    *("measure", "row", "column", "seeds", "mean", "standard_deviation", "published", "difference"),
    *("standard_errors", "near", "nearest_round", "reason"),
)
DIGITS = 4
MOST_PAIRS = 15  # rows of a table of pairs
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would take text that starts so for a formula


def write_report(plan: Plan, cells: Sequence[Cell], results: Results, folder: Path) -> list[Path]:
    """Write the report of all results so far, and return the paths of its files.

    Args:
        cells: those that were asked for; the ones without a result are counted as missing.

    Raises:
        LocalError: the report cannot be written.
    """
    table = entries(plan, cells, results)
    done = [(cell, outcome) for cell in cells if (outcome := results.get(cell)) is not None]
    missing_parts: list[str] = []
    tests: list[RankComparison] = []
    plots: list[Plot] = []
    try:
        tests = comparisons(plan, table)
    except NotOffered as exc:
        missing_parts.append(exc.message)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            plots = write_plots(plan, table, done, tests, folder)
        except NotOffered as exc:
            missing_parts.append(exc.message)
        lines = _report(plan, table, done, tests, plots, missing_parts, len(cells))
        (folder / REPORT).write_text("\n".join(lines) + "\n", "utf-8")
        write_table(plan, table, folder / TABLE)
        _write_csv(folder / CELLS, _cell_rows(plan, table, done))
        _write_csv(folder / CURVES, _curve_rows(plan, done))
        if plan.by_node:
            _write_csv(folder / NODES, _node_rows(plan, done))
    except OSError as exc:
        raise LocalError(f"the report cannot be written to {folder}: {exc}") from exc
    names = (REPORT, TABLE, CELLS, CURVES, *([NODES] if plan.by_node else []))
    return [folder / name for name in names] + [path for plot in plots for path in plot.paths]


def _report(
    plan: Plan,
    table: Sequence[TableEntry],
    done: Done,
    tests: Sequence[RankComparison],
    plots: Sequence[Plot],
    missing_parts: Sequence[str],
    count: int,
) -> Iterator[str]:
    yield f"# {plan.title}"
    if plan.source:
        yield f"\nCompared with: {plan.source}."
    yield from _effort(done, count)
    if plan.words:
        yield f"\n{plan.words.strip()}"
    for measure in plan.measures:
        yield from measure_section(plan, measure.name, table)
        yield from _images(plots, f"bars {measure.name}")
    yield from pairs_section(node_pairs(plan, done))
    yield from _images(plots, "pairs")
    yield from published_section(plan, table)
    yield from rank_tests_section(tests, plan.published_tests)
    yield from _images(plots, "ranks")
    yield from _nodes(plan, done)
    yield from _missing(table)
    yield from _images(plots, "curves", "\n## Round by round")
    yield from _costs(done)
    if missing_parts:
        yield "\n" + "\n".join(f"Not in this report: {part}." for part in missing_parts)


def _effort(done: Done, count: int) -> Iterator[str]:
    """How much was computed, in how much time, on which machine, with which data."""
    complete = [outcome for _, outcome in done if not outcome.reason]
    different = {cell.key: outcome for cell, outcome in done if not outcome.reason}.values()  # rows may share one
    seconds = _time(sum(outcome.seconds for outcome in different))
    processor_seconds = _time(sum(outcome.processor_seconds for outcome in different))
    yield f"\n{len(complete)} of {count} trainings are done, in {seconds} ({processor_seconds} of processor time)."
    for machine in sorted({outcome.machine for outcome in complete if outcome.machine}):
        yield f"\nMachine: {machine}."
    for data in sorted({outcome.data for outcome in complete if outcome.data}):
        yield f"\nData: {data}."


def measure_section(plan: Plan, name: str, entries_of_all: Sequence[TableEntry]) -> Iterator[str]:
    """The table of one measure, with the rows and columns of the plan; nothing if there are no numbers yet."""
    table = [entry for entry in entries_of_all if entry.measure == name]
    if not any(entry.count or entry.published for entry in table):
        return
    has_published = any(entry.published for entry in table)
    has_spread = any(entry.published and entry.published.spread is not None for entry in table)
    theirs = "the published value" + (" ± its standard deviation" if has_spread else "")
    below = f"; below it {theirs} and the difference" if has_published else ""
    what = _over_words(next(measure for measure in plan.measures if measure.name == name))
    yield f"\n## {name}\n\n{what}ean ± standard deviation over seeds (number of seeds){below}.\n"
    columns = [column.name for column in plan.columns]
    at = {(entry.row, entry.column): entry for entry in table}
    yield from _head("", *columns)
    for row in plan.row_names:
        cells = [at.get((row, column)) for column in columns]
        if any(cell is not None for cell in cells):
            yield _row(row, *map(_cell, cells))


_NODES = {
    "mean": "mean of nodes",
    "rows": "all rows of the nodes together, from summed counts",
    "min": "lowest node",
    "max": "highest node",
    "deviation": "standard deviation over the nodes",
    "others": "mean of nodes without the first",
}


def _over_words(measure: Measure) -> str:
    """What a number of a measure is of the nodes, before "Mean ± standard deviation"; nothing where it is not of nodes."""
    if measure.figure in OF_CELL:
        return "M"
    words = _NODES[measure.over] if isinstance(measure.over, str) else f"node {measure.over}"
    if measure.reaches:
        over = "all rows of the nodes together are" if measure.over == "rows" else "the mean of nodes is"
        words = f"{measure.unit.replace('_', ' ')} until {over} as high as in {measure.reaches}"
    if measure.nodes:
        words += f" ({', '.join(measure.nodes)})"
    return f"{words[0].upper()}{words[1:]}; m"


def _cell(entry: TableEntry | None) -> str:
    if entry is None:
        return ""
    text = "-"
    if entry.mean is not None:
        spread = f" ± {_number(entry.spread, like=entry.mean)}" if entry.spread is not None else ""
        text = f"{_number(entry.mean)}{spread} ({entry.count})"
    if entry.published is not None:
        theirs = entry.published.spread
        text += f"<br>{_value(entry)}" + (f" ± {theirs:.{DIGITS}f}," if theirs is not None else "")
        text += f" {_difference(entry)}" if entry.difference is not None else ""
    return text


# Published values.


def published_section(plan: Plan, table: Sequence[TableEntry]) -> Iterator[str]:
    """How many cells agree with what was published, and hypotheses about those that do not."""
    known = [entry for entry in table if entry.difference is not None and entry.published]
    compared = [entry for entry in known if entry.published and not entry.published.value.is_bound]
    bounds = [entry for entry in known if entry not in compared]
    if not known:
        return
    near = sum(entry.is_near(plan.tolerance) for entry in compared)
    yield "\n## Comparison with published values\n"
    if compared:
        yield f"{near} of {len(compared)} cells are near the published value."
        with_errors = [entry for entry in compared if entry.standard_errors is not None]
        yield from _criteria(plan, with_errors, len(compared))
    if bounds:
        held = sum(entry.is_near(plan.tolerance) for entry in bounds)
        yield f"{held} of {len(bounds)} cells keep the bound that the source has in place of a value."
    far = [entry for entry in known if not (entry.is_near(plan.tolerance) and entry.is_within(plan.tolerance))]
    if not far:
        return
    yield "\nCells that are not near, or farther than the tolerance:\n"
    names = ("published", "ours", "difference", "spread", "standard errors", "near", "nearest after rounds")
    yield from _head("row", "column", "measure", *names)
    for entry in far:
        mean, difference = entry.mean, entry.difference
        assert mean is not None and difference is not None
        spread = f"{entry.spread:.{DIGITS}f}" if entry.spread is not None else "-"
        errors_off = f"{entry.standard_errors:.1f}" if entry.standard_errors is not None else "-"
        numbers = (_value(entry), _number(mean), f"{difference:+.{DIGITS}f}", spread, errors_off)
        verdict = "yes" if entry.is_near(plan.tolerance) else "no"
        yield _row(entry.row, entry.column, entry.measure, *numbers, verdict, str(entry.nearest or "-"))
    yield from _notes(plan, far)


def _criteria(plan: Plan, known: Sequence[TableEntry], count: int) -> Iterator[str]:
    """What near means, and how many cells meet which of the two criteria.

    Args:
        known: the cells whose standard errors are known, of `count` in all.
    """
    tolerance = f"{plan.tolerance:g} (below {SMALL:g}, {plan.tolerance / SMALL:.0%} of what was published)"
    if not known:
        yield f"Near is within {tolerance}: standard errors are not known."
        return
    rest = f"; for the other {count - len(known)} cells it is within {tolerance}" if len(known) < count else ""
    yield f"Near is within {CHANCE:g} standard errors of the difference{rest}."
    yield f"Both criteria, with a tolerance of {tolerance}:\n"
    yield from _head("", f"within {CHANCE:g} standard errors", "farther")
    for name, wanted in (("within the tolerance", True), ("farther", False)):
        errors = [entry.is_near(plan.tolerance) for entry in known if entry.is_within(plan.tolerance) == wanted]
        yield _row(name, str(sum(errors)), str(len(errors) - sum(errors)))


def _notes(plan: Plan, far: Sequence[TableEntry]) -> Iterator[str]:
    """The plan's notes about cells that are far off, and how many cells have none."""
    if plan.notes:
        yield (
            "\nHypotheses about them. All were made after the results were seen; none is shown to be the cause "
            "unless the experiment that shows it is named:"
        )
    explained: set[TableEntry] = set()
    for note in plan.notes:
        about = (note.row, note.column, note.measure)
        meant = [
            entry
            for entry in far
            if all(
                name in {"", own}
                for name, own in zip(about, (entry.row, entry.column, entry.measure), strict=True)
            )
        ]
        if meant:
            explained.update(meant)
            yield f"\n- **{', '.join(filter(None, about)) or 'all of them'}** ({len(meant)}): {note.words.strip()}"
    unexplained = len(far) - len(explained)
    if unexplained and plan.notes:
        yield f"\nThere is no hypothesis yet about {unexplained} of them."


# Rank tests.


def rank_tests_section(tests: Sequence[RankComparison], published: Sequence[PublishedTest] = ()) -> Iterator[str]:
    """Friedman's and Nemenyi's tests with those of the source, and Wilcoxon's for each pair of columns."""
    if not tests:
        return
    yield "\n## Do the columns differ?"
    yield (
        "\nFriedman's test without a correction for ties; a row of the test is a row and seed of the table, and "
        "rank 1 is the best. Nemenyi's critical difference at 0.05.\n"
    )
    theirs = {(test.measure, test.columns): test for test in published}
    extra = ("published Q", "published p") if theirs else ()
    yield from _head("measure", "mean ranks", "rows", "Q", "p", "critical difference", "differ", *extra)
    for test in tests:
        other = theirs.get((test.measure, test.columns))
        yield _row(*_rank_cells(test), *(_published_cells(other) if extra else ()))
    for words in dict.fromkeys(test.words for test in published if test.words):
        yield f"\nPublished Q and p: {words}."
    for test in tests:
        yield from _pairs(test)


def _rank_cells(test: RankComparison) -> tuple[str, ...]:
    friedman = test.friedman
    ranks = ", ".join(f"{name} {rank:.4f}" for name, rank in zip(test.columns, friedman.ranks, strict=True))
    numbers = (str(friedman.rows), f"{friedman.statistic:.4f}", f"{friedman.p:.3g}", f"{test.distance:.4f}")
    return (test.measure, ranks, *numbers, _different(test))


def _published_cells(test: PublishedTest | None) -> tuple[str, str]:
    if test is None:
        return "", ""
    printed = f" (printed: {test.printed_p:.3g})" if test.printed_p is not None else ""
    return f"{test.statistic:.4f}", f"{test.p:.3g}{printed}"


def _pairs(test: RankComparison) -> Iterator[str]:
    if len(test.pairs) == 1:
        (pair,) = test.pairs
        yield (
            f"\nWilcoxon's signed ranks, {test.measure}, {test.columns[0]} and {test.columns[1]}: "
            f"W {pair.test.statistic:g}, p {pair.test.p:.3g}, {pair.test.rows} rows that differ."
        )
        return
    yield (
        f"\nWilcoxon's signed ranks, {test.measure}, {len(test.columns)} columns: each pair, with p after Holm's "
        f"correction for all {len(test.pairs)} of them. The column on the left is the better one in the mean.\n"
    )
    yield from _head("better", "other", "W", "rows that differ", "p", "p after Holm")
    for pair in test.pairs[:MOST_PAIRS]:
        numbers = (f"{pair.test.statistic:g}", str(pair.test.rows), f"{pair.test.p:.3g}", f"{pair.p:.3g}")
        yield _row(pair.better, pair.other, *numbers)
    if rest := test.pairs[MOST_PAIRS:]:
        least = min(pair.p for pair in rest)
        yield f"\nThe other {len(rest)} pairs have a p of {least:.3g}{' or more' if least < 1 else ''} after Holm."


def _different(test: RankComparison) -> str:
    """The pairs whose mean ranks differ by more than the critical difference."""
    ranks = test.friedman.ranks
    alike = {
        frozenset(pair)
        for group in groups_alike(ranks, test.distance)
        for pair in itertools.combinations(group, 2)
    }
    named = [
        " above ".join(test.columns[number] for number in sorted(pair, key=lambda number: ranks[number]))
        for pair in itertools.combinations(range(len(ranks)), 2)
        if frozenset(pair) not in alike
    ]
    return "; ".join(named) or "none"


# Single nodes.


def _by_place(plan: Plan, done: Done) -> Iterator[tuple[str, str, list[Outcome]]]:
    """Row, column and the outcomes of their seeds, if there are some."""
    for row, column in itertools.product(plan.rows, plan.columns):
        outcomes = [o for c, o in done if (c.row, c.column) == (row.name, column.name) and not o.reason]
        if outcomes:
            yield row.name, column.name, outcomes


def _nodes(plan: Plan, done: Done) -> Iterator[str]:
    """The figures of single nodes, a table for each cell."""
    for number, (row, column, outcomes) in enumerate(_by_place(plan, done) if plan.by_node else ()):
        if not number:
            yield "\n## By node\n\nMeans over seeds after the last round; weights are means over the last five rounds."
        lines = {figure: [o.of_nodes(figure) for o in outcomes] for figure in plan.by_node}
        count = max(len(nodes) for seeds in lines.values() for nodes in seeds)
        yield f"\n### {row}, {column}\n"
        yield from _head("", *(f"node {node + 1}" for node in range(count)))
        for figure, seeds in lines.items():
            known = [_over_seeds(values) for values in zip(*seeds, strict=False)]
            if any(known):
                yield _row(figure, *(_number(summary.mean) if summary else "" for summary in known))


def _node_rows(plan: Plan, done: Done) -> Iterator[list[Any]]:
    """The same for spreadsheets, and by round where the round is known."""
    yield ["row", "column", "figure", "node", "round", "seeds", "mean", "standard_deviation"]
    for row, column, outcomes in _by_place(plan, done):
        for figure in plan.by_node:
            last = max(outcome.rounds for outcome in outcomes)
            curves = [
                o.curves.get(figure) or [(None,) * (last - 1) + (n,) for n in o.of_nodes(figure)] for o in outcomes
            ]
            for node, courses in enumerate(zip(*curves, strict=True), start=1):
                for number, values in enumerate(zip(*courses, strict=False), start=1):
                    if summary := _over_seeds(values):
                        spread = "" if summary.spread is None else f"{summary.spread:.6g}"
                        yield [row, column, figure, node, number, summary.count, f"{summary.mean:.6g}", spread]


def _over_seeds(values: Iterable[float | None]) -> Summary | None:
    known = [value for value in values if value is not None]
    return Summary(len(known), fmean(known), stdev(known) if len(known) > 1 else None) if known else None


# What is missing, images and tables.


def _missing(table: Sequence[TableEntry]) -> Iterator[str]:
    """Cells without numbers, with the reasons, and how many trainings are still to be done."""
    reasons: dict[str, dict[str, None]] = {}
    for entry in table:
        for reason in entry.reasons:
            reasons.setdefault(reason, {})[f"{entry.row}, {entry.column}"] = None
    first = table[0].measure if table else ""
    missing = sum(entry.missing for entry in table if entry.measure == first)
    if reasons or missing:
        yield "\n## Missing results\n"
    for reason, places in reasons.items():
        yield f"- {'; '.join(places)}: {reason.rstrip('.')}."
    if missing:
        yield f"- {missing} trainings have not been run yet; the same command continues with them."


def _costs(done: Done) -> Iterator[str]:
    """What the trainings of each row cost; one that rows share is in the first of them."""
    rows: dict[str, list[Outcome]] = {}
    for cell, outcome in {cell.key: (cell, outcome) for cell, outcome in reversed(done)}.values():
        if not outcome.reason:
            rows.setdefault(cell.row, []).insert(0, outcome)
    if not rows:
        return
    yield "\n## Cost\n\nProcessor time; time on the clock includes other programs.\n"
    yield from _head("", "trainings", "the dearest", "together", "on the clock")
    for name in dict.fromkeys(cell.row for cell, _ in done if cell.row in rows):
        spent = [outcome.processor_seconds for outcome in rows[name]]
        times = (max(spent), sum(spent), sum(outcome.seconds for outcome in rows[name]))
        yield _row(name, str(len(spent)), *map(_time, times))
    total = sum(outcome.processor_seconds for outcomes in rows.values() for outcome in outcomes)
    yield f"\nAll together {total / 3600:.2f} processor-hours."


def _images(plots: Sequence[Plot], kind: str, heading: str = "") -> Iterator[str]:
    shown = [plot for plot in plots if plot.kind == kind]
    if shown and heading:
        yield heading
    for plot in shown:
        yield f"\n![{_one_line(plot.title)}]({plot.link})"


def _head(*names: str) -> Iterator[str]:
    """The first two lines of a Markdown table."""
    yield _row(*names)
    yield _row(*["---"] * len(names))


def _row(*cells: str) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(map(_one_line, cells))} |"


def _one_line(text: str) -> str:
    """Text that ends neither a cell of a table nor a line."""
    return " ".join(text.replace("|", "\\|").split())


def _table_rows(plan: Plan, table: Iterable[TableEntry]) -> Iterator[list[Any]]:
    yield list(TABLE_COLUMNS)
    for entry in table:
        published = entry.published.value.printed if entry.published else None
        near = None if entry.difference is None else "yes" if entry.is_near(plan.tolerance) else "no"
        compared = [published, entry.difference, entry.standard_errors, near, entry.nearest]
        numbers = [entry.count, entry.mean, entry.spread]
        yield [entry.measure, entry.row, entry.column, *numbers, *compared, "; ".join(entry.reasons)]


def read_table(plan: Plan, path: Path) -> list[TableEntry]:
    """The entries of a table that was written, with the published values of the plan and without single seeds.

    Raises:
        LocalError: it cannot be read.
    """
    published = {(value.row, value.column, value.measure): value for value in plan.published}
    table = []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file):
                row, column, measure = (line[name].removeprefix("'") for name in ("row", "column", "measure"))
                spread = float(line["standard_deviation"]) if line["standard_deviation"] else None
                summary = Summary(int(line["seeds"]), float(line["mean"]), spread) if line["mean"] else None
                nearest = int(text) if (text := line.get("nearest_round")) else None
                value, reasons = published.get((row, column, measure)), tuple(filter(None, [line["reason"]]))
                entry = TableEntry(row, column, measure, (), value, reasons, 0, nearest, summary)
                table.append(entry)
    except (OSError, KeyError, ValueError) as exc:
        raise LocalError(f"{path} is no table of {plan.id}: {exc}") from exc
    return table


def _cell_rows(plan: Plan, table: Iterable[TableEntry], done: Done) -> Iterator[list[Any]]:
    names = [measure.name for measure in plan.measures]
    at = {(entry.row, entry.column, entry.measure): dict(entry.values) for entry in table}
    yield ["row", "column", "seed", *names, "rounds", "bytes", "seconds", "processor_seconds", "machine", "reason"]
    for cell, outcome in done:
        values = [at[cell.row, cell.column, name].get(cell.seed) for name in names]
        costs = [outcome.rounds, outcome.bytes, round(outcome.seconds, 3), round(outcome.processor_seconds, 3)]
        yield [cell.row, cell.column, cell.seed, *values, *costs, outcome.machine, outcome.reason]


def _curve_rows(plan: Plan, done: Done) -> Iterator[list[Any]]:
    """Every figure that was kept by round: its mean over the nodes, and over all rows where the plan has such measures."""
    has_rows = any(measure.over == "rows" for measure in plan.measures)
    yield ["figure", "row", "column", "seed", "round", "mean", *(["all_rows"] if has_rows else [])]
    for cell, outcome in done:
        for figure in outcome.curves:
            all_rows = outcome.course(figure, over="rows")
            for number, mean in outcome.course(figure).items():
                counted = [all_rows.get(number)] if has_rows else []
                yield [figure, cell.row, cell.column, cell.seed, number, mean, *counted]


def write_table(plan: Plan, table: Iterable[TableEntry], path: Path) -> None:
    """Write the means as CSV, which `read_table` reads.

    Raises:
        OSError: it cannot be written.
    """
    _write_csv(path, _table_rows(plan, table))


def _write_csv(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\r\n").writerows([_no_formula(value) for value in row] for row in rows)


def _no_formula(value: Any) -> Any:
    """Text that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _value(entry: TableEntry) -> str:
    """The published value; bounds and ranges as the source has them."""
    assert entry.published is not None
    value = entry.published.value
    return _number(value.low) if value.is_number else value.printed


def _difference(entry: TableEntry) -> str:
    assert entry.published is not None
    if entry.difference == 0 and not entry.published.value.is_number:
        return "holds"
    return f"{entry.difference:+.{DIGITS}f}"


def _number(value: float, like: float | None = None) -> str:
    """Four digits after the point, fewer for larger numbers, or as many as another number has."""
    size = abs(value if like is None else like)
    return f"{value:.{DIGITS}f}" if size < 2 else f"{value:.1f}" if size < 1000 else f"{value:,.0f}"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
