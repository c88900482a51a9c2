"""The report of a table: Markdown with pictures for people, CSV for whoever computes on."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from flnet.errors import LocalError, NotOffered
from flnet.experiments.base import Cell, Outcome
from flnet.experiments.markdown import line, plain
from flnet.experiments.plan import Plan
from flnet.experiments.report_pictures import Shown, write_pictures
from flnet.experiments.report_ranks import ranks_compared
from flnet.experiments.results import Results
from flnet.experiments.summary import Comparison, Entry, comparisons, entries

REPORT, TABLE, CELLS = "report.md", "table.csv", "cells.csv"
DIGITS = 4
CHANCE = 2.0  # standard errors within which a difference may well be chance
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would take for one


def write_report(plan: Plan, wanted: Sequence[Cell], results: Results, folder: Path) -> list[Path]:
    """Write the report of what is there by now; the paths of all files.

    Args:
        wanted: the cells that were asked for; those without a result are counted as missing.

    Raises:
        LocalError: it cannot be written.
    """
    there = entries(plan, wanted, results)
    done = [(cell, outcome) for cell in wanted if (outcome := results.get(cell)) is not None]
    remarks: list[str] = []
    tests: list[Comparison] = []
    try:
        tests = comparisons(plan, there)
    except NotOffered as exc:
        remarks.append(exc.message)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pictures, words = write_pictures(plan, there, done, tests, folder)
        remarks += words
        text = "\n".join(_report(plan, there, done, tests, pictures, remarks, len(wanted))) + "\n"
        (folder / REPORT).write_text(text, "utf-8")
        _write_csv(folder / TABLE, _table_lines(there))
        _write_csv(folder / CELLS, _cell_lines(plan, done))
    except OSError as exc:
        raise LocalError(f"the report cannot be written to {folder}: {exc}") from exc
    drawn = [path for picture in pictures for path in picture.paths]
    return [folder / name for name in (REPORT, TABLE, CELLS)] + drawn


def _report(
    plan: Plan,
    there: Sequence[Entry],
    done: Sequence[tuple[Cell, Outcome]],
    tests: Sequence[Comparison],
    pictures: Sequence[Shown],
    remarks: Sequence[str],
    wanted: int,
) -> Iterator[str]:
    yield f"# {plan.title}"
    if plan.source:
        yield f"\nBeside: {plan.source}."
    yield from _effort(done, wanted)
    if plan.words:
        yield f"\n{plan.words.strip()}"
    for measure in plan.measures:
        yield from _measure(plan, measure.name, [entry for entry in there if entry.measure == measure.name])
        yield from _shown(pictures, f"bars {measure.name}")
    yield from _beside(plan, there)
    yield from ranks_compared(tests)
    yield from _shown(pictures, "ranks")
    yield from _absent(there)
    yield from _shown(pictures, "curves", "\n## Round by round")
    if remarks:
        yield "\n" + "\n".join(f"Not in this report: {remark}." for remark in remarks)


def _effort(done: Sequence[tuple[Cell, Outcome]], wanted: int) -> Iterator[str]:
    """How much was computed, on what, and in which time."""
    whole = [outcome for _, outcome in done if not outcome.reason]
    seconds = _time(sum(outcome.seconds for outcome in whole))
    worked = _time(sum(outcome.processor_seconds for outcome in whole))
    yield f"\n{len(whole)} of {wanted} trainings are done; they took {seconds}, and {worked} of a processor."
    for machine in sorted({outcome.machine for outcome in whole if outcome.machine}):
        yield f"\nMachine: {machine}."
    for data in sorted({outcome.data for outcome in whole if outcome.data}):
        yield f"\nData: {data}."


def _measure(plan: Plan, name: str, there: Sequence[Entry]) -> Iterator[str]:
    """The table of one measure: rows as in the plan, a column each."""
    has_published = any(entry.published for entry in there)
    beside = "; below it what was published, and by how much ours is above it" if has_published else ""
    yield f"\n## {name}\n\nMean ± standard deviation over seeds (how many){beside}.\n"
    columns = [column.name for column in plan.columns]
    at = {(entry.row, entry.column): entry for entry in there}
    yield line(["", *columns])
    yield line(["---"] * (len(columns) + 1))
    for row in plan.rows:
        cells = [at.get((row.name, column)) for column in columns]
        if any(cell is not None for cell in cells):
            yield line([row.name, *(_cell(cell) for cell in cells)])


def _cell(entry: Entry | None) -> str:
    if entry is None:
        return ""
    words = "-"
    if entry.mean is not None:
        spread = f" ± {_number(entry.spread, beside=entry.mean)}" if entry.spread is not None else ""
        words = f"{_number(entry.mean)}{spread} ({len(entry.values)})"
    if entry.published is not None:
        words += f"<br>{_number(entry.published.value)}"
        words += f" {entry.difference:+.{DIGITS}f}" if entry.difference is not None else ""
    return words


def _beside(plan: Plan, there: Sequence[Entry]) -> Iterator[str]:
    """How many cells are near what was published, and what is known of those that are not."""
    compared = [entry for entry in there if entry.difference is not None]
    if not compared:
        return
    far = [entry for entry in compared if abs(entry.difference or 0) > plan.tolerance]
    near = len(compared) - len(far)
    yield f"\n## Beside what was published\n\n{near} of {len(compared)} cells are within {plan.tolerance:g} of it."
    if far:
        errors = [entry.standard_errors for entry in far]
        chance = sum(error is not None and error <= CHANCE for error in errors)
        if any(error is not None for error in errors):
            yield (
                f"{chance} of the other {len(far)} are no farther than {CHANCE:g} standard errors: two means of "
                "so few seeds differ by that much by chance."
            )
        yield "\nThe others:\n"
        names = ["published", "ours", "difference", "spread", "standard errors", "nearest in round"]
        yield line(["row", "column", "measure", *names])
        yield line(["---"] * 9)
    for entry in far:
        published, mean, difference = entry.published, entry.mean, entry.difference
        assert published is not None and mean is not None and difference is not None
        spread = f"{entry.spread:.{DIGITS}f}" if entry.spread is not None else "-"
        errors_off = f"{entry.standard_errors:.1f}" if entry.standard_errors is not None else "-"
        numbers = [_number(published.value), _number(mean), f"{difference:+.{DIGITS}f}", spread, errors_off]
        nearest = str(entry.nearest or "-")
        yield line([entry.row, entry.column, entry.measure, *numbers, nearest])
    yield from _notes(plan, far)


def _notes(plan: Plan, far: Sequence[Entry]) -> Iterator[str]:
    """What the plan says of cells that are far off, and which of them nothing is said of."""
    explained: set[Entry] = set()
    for note in plan.notes:
        meant = [
            entry
            for entry in far
            if note.row in {"", entry.row}
            and note.column in {"", entry.column}
            and note.measure in {"", entry.measure}
        ]
        if meant:
            explained.update(meant)
            about = ", ".join(filter(None, (note.row, note.column, note.measure))) or "all of them"
            yield f"\n- **{about}** ({len(meant)}): {note.words.strip()}"
    open_ones = len(far) - len(explained)
    if open_ones and plan.notes:
        yield f"\n{open_ones} of them have no explanation yet."


def _absent(there: Sequence[Entry]) -> Iterator[str]:
    """Rows without numbers, each with its reason, and how many trainings are still to be done."""
    reasons: dict[str, list[str]] = {}
    for entry in there:
        for reason in entry.reasons:
            where = reasons.setdefault(reason, [])
            if (place := f"{entry.row}, {entry.column}") not in where:
                where.append(place)
    first = there[0].measure if there else ""
    missing = sum(entry.missing for entry in there if entry.measure == first)
    if reasons or missing:
        yield "\n## What is not there\n"
    for reason, places in reasons.items():
        yield f"- {'; '.join(places)}: {reason.rstrip('.')}."
    if missing:
        yield f"- {missing} trainings were not run yet; the same command goes on with them."


def _shown(pictures: Sequence[Shown], kind: str, heading: str = "") -> Iterator[str]:
    found = [picture for picture in pictures if picture.kind == kind]
    if found and heading:
        yield heading
    for picture in found:
        yield f"\n![{plain(picture.title)}]({picture.link})"


def _table_lines(there: Iterable[Entry]) -> Iterator[list[Any]]:
    yield [
        *("measure", "row", "column", "seeds", "mean", "standard_deviation", "published", "difference", "reason")
    ]
    for entry in there:
        published = entry.published.value if entry.published else None
        numbers = [len(entry.values), entry.mean, entry.spread, published, entry.difference]
        yield [entry.measure, entry.row, entry.column, *numbers, "; ".join(entry.reasons)]


def _cell_lines(plan: Plan, done: Iterable[tuple[Cell, Outcome]]) -> Iterator[list[Any]]:
    names = [measure.name for measure in plan.measures]
    yield ["row", "column", "seed", *names, "rounds", "bytes", "seconds", "processor_seconds", "machine", "reason"]
    for cell, outcome in done:
        values = [outcome.value(measure.figure, measure.over) for measure in plan.measures]
        costs = [outcome.rounds, outcome.bytes, round(outcome.seconds, 3), round(outcome.processor_seconds, 3)]
        yield [cell.row, cell.column, cell.seed, *values, *costs, outcome.machine, outcome.reason]


def _write_csv(path: Path, lines: Iterable[Sequence[Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\r\n").writerows([_safe(value) for value in line] for line in lines)


def _safe(value: Any) -> Any:
    """Words so that no spreadsheet takes them for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _number(value: float, beside: float | None = None) -> str:
    """Four digits after the point, fewer of larger numbers, as many as the one that it stands beside has."""
    size = abs(value if beside is None else beside)
    return f"{value:.{DIGITS}f}" if size < 2 else f"{value:.1f}" if size < 1000 else f"{value:,.0f}"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
