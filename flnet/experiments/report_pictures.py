"""Which pictures a report has, and their files: SVG, and PNG where Pillow is installed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from flnet.errors import NotOffered
from flnet.experiments.base import Cell, Outcome
from flnet.experiments.pictures import (
    Bar,
    Curve,
    bars_picture,
    critical_difference_picture,
    curves_picture,
)
from flnet.experiments.plan import Plan
from flnet.experiments.shapes import Picture, as_png, as_svg
from flnet.experiments.summary import Comparison, Entry

FOLDER = "pictures"
MOST_COLUMNS = 8  # bars that can be told apart
MOST_ROWS = 12  # groups of bars in one picture


@dataclass(frozen=True)
class Shown:
    """A picture that was written.

    Attributes:
        kind: "bars accuracy", "ranks", "curves": where in the report it stands.
        link: from the report to it.
    """

    kind: str
    title: str
    link: str
    paths: tuple[Path, ...]


def write_pictures(
    plan: Plan,
    there: Sequence[Entry],
    done: Sequence[tuple[Cell, Outcome]],
    tests: Sequence[Comparison],
    folder: Path,
) -> tuple[list[Shown], list[str]]:
    """Write all pictures; they and what is missing, in words.

    Raises:
        OSError: they cannot be written.
    """
    made = [*_bars(plan, there), *_ranks(tests), *_curves(plan, done)]
    (folder / FOLDER).mkdir(exist_ok=True)
    shown, remarks = [], []
    for kind, name, picture in made:
        path = folder / FOLDER / f"{_file_name(name)}.svg"
        path.write_bytes(as_svg(picture))
        paths = [path]
        try:
            path.with_suffix(".png").write_bytes(as_png(picture))
            paths.append(path.with_suffix(".png"))
        except NotOffered as exc:
            remarks = [exc.message]
        shown.append(Shown(kind, picture.title, f"{FOLDER}/{paths[-1].name}", tuple(paths)))
    return shown, remarks


def _bars(plan: Plan, there: Sequence[Entry]) -> Iterator[tuple[str, str, Picture]]:
    """One picture for each measure; the rows are cut into several where there are many."""
    columns = [column.name for column in plan.columns][:MOST_COLUMNS]
    for measure in plan.measures:
        at = {(entry.row, entry.column): entry for entry in there if entry.measure == measure.name}
        rows = [
            row.name
            for row in plan.rows
            if any((entry := at.get((row.name, column))) and entry.values for column in columns)
        ]
        for begin in range(0, len(rows), MOST_ROWS):
            part = rows[begin : begin + MOST_ROWS]
            bars = [[_bar(at.get((row, column))) for column in columns] for row in part]
            title = f"{measure.name}: mean and standard deviation over seeds"
            number = f" {begin // MOST_ROWS + 1}" if len(rows) > MOST_ROWS else ""
            yield f"bars {measure.name}", f"bars {measure.name}{number}", bars_picture(title, part, columns, bars)


def _bar(entry: Entry | None) -> Bar | None:
    if entry is None or entry.mean is None:
        return None
    return Bar(entry.mean, entry.spread or 0.0, entry.published.value if entry.published else None)


def _ranks(tests: Sequence[Comparison]) -> Iterator[tuple[str, str, Picture]]:
    for test in tests:
        title = f"{test.measure}: mean ranks over {test.friedman.rows} rows"
        name = f"ranks {test.measure} {' '.join(test.columns)}"
        yield (
            "ranks",
            name,
            critical_difference_picture(title, test.columns, test.friedman.ranks, test.distance),
        )


def _curves(plan: Plan, done: Sequence[tuple[Cell, Outcome]]) -> Iterator[tuple[str, str, Picture]]:
    """One picture for each row and figure that was kept round by round: a line for each column."""
    figures = dict.fromkeys(figure for _, outcome in done for figure in outcome.curves)
    for row in plan.rows:
        for figure in figures:
            curves = [
                curve
                for column in plan.columns[:MOST_COLUMNS]
                if (curve := _curve(row.name, column.name, figure, done)).points
            ]
            if any(len(curve.points) > 1 for curve in curves):
                title = f"{row.name}: {figure}, mean of the nodes; band over seeds"
                yield "curves", f"curves {row.name} {figure}", curves_picture(title, curves)


def _curve(row: str, column: str, figure: str, done: Sequence[tuple[Cell, Outcome]]) -> Curve:
    """Mean, lowest and highest of the seeds, as long as all of them still had rounds."""
    courses = [o.course(figure) for cell, o in done if (cell.row, cell.column) == (row, column) and not o.reason]
    points = [
        (number, fmean(values), min(values), max(values))
        for number, values in enumerate(zip(*courses, strict=False), start=1)
    ]
    return Curve(column, tuple(points))


def _file_name(words: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", words).strip("-.").lower()[:100] or "picture"
