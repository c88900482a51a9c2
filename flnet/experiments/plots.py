"""Plots of a report: bars with published values, curves over rounds, and critical differences of ranks.

matplotlib, which comes with the extra `experiments`, draws them; it is loaded when a plot is drawn.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from flnet.errors import NotOffered
from flnet.experiments.cells import Over, in_all
from flnet.experiments.node_pairs import DRIFT, draw_pairs, node_pairs
from flnet.experiments.plan import Plan
from flnet.experiments.statistics import Done, RankComparison, TableEntry, groups_alike
from flnet.installing import install
from flnet.params.params import Array

FOLDER = "pictures"
MOST_COLUMNS = 8  # bars or lines that can be told apart
MOST_ROWS = 12  # groups of bars in one plot
# Readers who see red and green alike can tell these apart: Okabe and Ito (2008), with a darkest and a grey.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#4b2e83")
INK, GREY = "#1b221d", "#5f6f66"
STYLE: dict[Any, Any] = {
    "axes.prop_cycle": f"cycler('color', {list(COLOURS)})",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 9,
    "grid.color": "#dde4de",
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text
    "text.parse_math": False,
    "svg.hashsalt": "flnet",  # equal plots are equal files
}
WIDTH, HEIGHT = 7.6, 4.0  # inches
DPI = 200  # of PNG files
IMAGE_DPI = 110  # of pictures of small images, which show no more with more

Draw = Callable[[Any], None]  # draws on the axes of a plot


@dataclass(frozen=True)
class Plot:
    """A plot that was written.

    Attributes:
        kind: its place in the report: "bars accuracy", "pairs", "ranks" or "curves".
        link: its path in the report's folder.
    """

    kind: str
    title: str
    link: str
    paths: tuple[Path, ...]


def write_plots(
    plan: Plan, table: Sequence[TableEntry], done: Done, tests: Sequence[RankComparison], folder: Path
) -> list[Plot]:
    """Write all plots of a report as SVG and PNG files.

    Raises:
        NotOffered: matplotlib is not installed.
        OSError: they cannot be written.
    """
    plots = []
    for kind, name, title, draw in (
        *_bars(plan, table),
        *_pairs(plan, done),
        *_ranks(tests),
        *_curves(plan, done),
    ):
        (folder / FOLDER).mkdir(exist_ok=True)
        link = f"{FOLDER}/{_file_name(name)}"
        paths = tuple(folder / f"{link}.{ending}" for ending in ("svg", "png"))
        save(title, draw, paths)
        plots.append(Plot(kind, title, f"{link}.png", paths))
    return plots


def save(title: str, draw: Draw, paths: Sequence[Path]) -> None:
    """Draw a plot and write it to files, whose endings say in which formats.

    Raises:
        NotOffered: matplotlib is not installed.
    """
    matplotlib = _matplotlib()
    with matplotlib.rc_context(STYLE):
        figure = matplotlib.figure.Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        axes = figure.add_subplot()
        axes.set_title(_plain(title), loc="left", fontweight="bold")
        draw(axes)
        for path in paths:
            metadata = {"Date": None} if path.suffix == ".svg" else {}
            figure.savefig(path, dpi=DPI, metadata=metadata)


def save_images(columns: Mapping[str, Sequence[Array]], rows: Sequence[str], path: Path) -> None:
    """Write grey images side by side.

    Args:
        columns: by title, one image (height, width) in [0, 1] for each row.
        rows: what stands beside each.

    Raises:
        NotOffered: matplotlib is not installed.
    """
    matplotlib = _matplotlib()
    with matplotlib.rc_context({**STYLE, "font.size": 7}):
        figure = matplotlib.figure.Figure(figsize=(len(columns), 1.05 * len(rows) + 0.6), layout="constrained")
        grid = figure.subplots(len(rows), len(columns), squeeze=False)
        for place, (title, images) in enumerate(columns.items()):
            grid[0][place].set_title(_plain(title).replace(", ", "\n"), fontsize=7)
            for axes, image in zip(grid[:, place], images, strict=True):
                axes.imshow(image, cmap="gray", vmin=0, vmax=1)
                axes.set(xticks=[], yticks=[])
        for axes, name in zip(grid[:, 0], rows, strict=True):
            axes.set_ylabel(_plain(name))
        figure.savefig(path, dpi=IMAGE_DPI)


def _matplotlib() -> Any:
    try:
        import matplotlib.figure  # noqa: PLC0415
    except ImportError as exc:
        message = f"plots need matplotlib, which is not installed; install it ({install('experiments')})"
        raise NotOffered(message) from exc
    return matplotlib


def draw_bars(
    axes: Any, rows: Sequence[str], columns: Sequence[str], bars: Sequence[Sequence[TableEntry | None]]
) -> None:
    """Draw groups of bars from zero on, with standard deviations and marks at published values.

    Args:
        rows: names of the groups.
        columns: names of the bars in a group.
        bars: for each group its bars; None, or an entry without a mean, leaves a gap.
    """
    width = 0.8 / max(len(columns), 1)
    marks: list[tuple[float, float]] = []  # places and published values, bounds or ends of ranges
    for number, name in enumerate(columns):
        places, means, spreads = [], [], []
        for group, entry in enumerate(row[number] for row in bars):
            if entry is not None and entry.mean is not None:
                place = group + width * (number + 0.5) - 0.4
                places.append(place)
                means.append(entry.mean)
                spreads.append(entry.spread or 0.0)
                marks += [(place, end) for end in entry.published.value.ends] if entry.published else []
        axes.bar(places, means, 0.92 * width, yerr=spreads, label=_plain(name), alpha=0.75, error_kw={"lw": 1})
    if marks:
        values, left = [value for _, value in marks], [place - 0.46 * width for place, _ in marks]
        axes.hlines(values, left, [x + 0.92 * width for x in left], color=INK, lw=2, zorder=3, label="published")
    slant = {"rotation": 20, "ha": "right"} if len(rows) > 4 else {}
    axes.set_xticks(range(len(rows)), [_plain(row) for row in rows], **slant)
    axes.grid(axis="x", visible=False)
    _legend(axes)


def draw_curves(axes: Any, curves: Sequence[tuple[str, Mapping[int, Sequence[float]]]]) -> None:
    """Draw the mean over seeds by rounds done, in a band from the lowest to the highest seed.

    Args:
        curves: names, and by the number of rounds done the values of all seeds.
    """
    for name, rounds in curves:
        numbers, values = list(rounds), list(rounds.values())
        means = list(map(fmean, values))
        marker = "o" if len(rounds) <= 40 else ""
        axes.plot(numbers, means, marker=marker, ms=3, label=f"{_plain(name)} ({means[-1]:.4f})")
        axes.fill_between(numbers, list(map(min, values)), list(map(max, values)), alpha=0.18)
    axes.set_xlabel("rounds done")
    axes.xaxis.get_major_locator().set_params(integer=True)
    _legend(axes)


def draw_ranks(axes: Any, test: RankComparison) -> None:
    """Draw mean ranks on a line with a bar over methods that do not differ (Demšar 2006, figure 1)."""
    ranks, methods = test.friedman.ranks, len(test.columns)
    order = sorted(range(methods), key=lambda number: (ranks[number], number))
    groups = groups_alike(ranks, test.distance)
    for place, number in enumerate(order):
        is_left = place < (methods + 1) // 2
        level = -(len(groups) + 1 + (place if is_left else methods - 1 - place))
        end = 0.9 if is_left else methods + 0.1
        axes.plot([ranks[number], ranks[number], end], [0, level, level], c=GREY, lw=1)
        label = f"{_plain(test.columns[number])} ({ranks[number]:.3f})"
        axes.annotate(label, (end, level), ha="right" if is_left else "left", va="center")
    for level, group in enumerate(groups, start=1):
        axes.plot([ranks[group[0]], ranks[group[-1]]], [-0.8 * level] * 2, c=INK, lw=4)
    axes.plot([1, 1 + min(test.distance, methods - 1)], [1.6, 1.6], c=INK, lw=2, marker="|")
    axes.annotate(f"CD = {test.distance:.4f}", (1, 1.8))
    axes.set_ylim(top=2.8)
    axes.set_xlim(-0.2 * methods, 1.2 * methods + 1)
    axes.xaxis.tick_top()
    axes.set_xticks(range(1, methods + 1))
    axes.spines["top"].set(visible=True, position=("data", 0), bounds=(1, methods))
    for spine in ("left", "bottom"):
        axes.spines[spine].set_visible(False)
    axes.set_yticks([])
    axes.grid(visible=False)


Planned = Iterator[tuple[str, str, str, Draw]]  # kind, file name, title, and how to draw it


def _bars(plan: Plan, table: Sequence[TableEntry]) -> Planned:
    """One plot for each measure, or several if there are many rows."""
    columns = [column.name for column in plan.columns][:MOST_COLUMNS]
    for measure in plan.measures:
        at = {(entry.row, entry.column): entry for entry in table if entry.measure == measure.name}
        rows = [
            row.name
            for row in plan.rows
            if any((entry := at.get((row.name, column))) and entry.count for column in columns)
        ]
        for start in range(0, len(rows), MOST_ROWS):
            part = rows[start : start + MOST_ROWS]
            bars = [[at.get((row, column)) for column in columns] for row in part]
            title = f"{measure.name}: mean and standard deviation over seeds"
            number = f" {start // MOST_ROWS + 1}" if len(rows) > MOST_ROWS else ""
            kind = f"bars {measure.name}"
            yield kind, f"{kind}{number}", title, partial(draw_bars, rows=part, columns=columns, bars=bars)


def _pairs(plan: Plan, done: Done) -> Planned:
    """One plot for each row and pair of columns."""
    for pair in node_pairs(plan, done):
        title = f"{pair.row}: {pair.second} against {pair.first}, a dot for each node and seed"
        yield "pairs", f"pairs {pair.row} {pair.first} {pair.second}", title, partial(draw_pairs, pair=pair)


def _ranks(tests: Sequence[RankComparison]) -> Planned:
    for test in tests:
        title = f"{test.measure}: mean ranks over {test.friedman.rows} rows"
        name = f"ranks {test.measure} {' '.join(test.columns)}"
        yield "ranks", name, title, partial(draw_ranks, test=test)


def _curves(plan: Plan, done: Done) -> Planned:
    """One plot for each row and each figure that was kept by round, with a line for each column.

    Where some nodes drift there are two, of the nodes that do not and of those that do. Of a figure that a measure takes
    over all rows there are such plots, too.
    """
    figures = dict.fromkeys(figure for _, outcome in done for figure in outcome.curves)
    for row in plan.rows:
        own = [(cell.column, outcome) for cell, outcome in done if cell.row == row.name and not outcome.reason]
        drifts = any(outcome.members(DRIFT[1:], len(outcome.examples)) for _, outcome in own)
        groups = [[name] for name in DRIFT] if drifts else [[]]
        for (figure, over), group in itertools.product(_courses(plan, figures), groups):
            names = [column.name for column in plan.columns[:MOST_COLUMNS]]
            courses = [
                (name, [of.course(figure, group, over) for column, of in own if column == name]) for name in names
            ]
            curves = [(name, in_all(of_seeds)) for name, of_seeds in courses]
            curves = [(name, rounds) for name, rounds in curves if rounds]
            if any(len(rounds) > 1 for _, rounds in curves):
                nodes = " ".join([*group, "nodes"])
                what = "all rows" if over == "rows" else "mean"
                title = f"{row.name}: {figure}, {what} of the {nodes}; band over seeds"
                name = " ".join(["curves", row.name, figure, *group, *(["all rows"] if over == "rows" else [])])
                yield "curves", name, title, partial(draw_curves, curves=curves)


def _courses(plan: Plan, figures: Iterable[str]) -> Iterator[tuple[str, Over]]:
    """The figures that are drawn by round, and over what."""
    counted = {measure.figure for measure in plan.measures if measure.over == "rows"}
    for figure in figures:
        yield figure, "mean"
        if figure in counted:
            yield figure, "rows"


def _legend(axes: Any) -> None:
    axes.figure.legend(loc="outside lower center", ncols=4)


def _plain(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.").lower()[:100] or "picture"
