"""A job's history as files: CSV for tables, SVG for pictures. PNG is drawn from the same picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import escape

from flnet.node.base import View
from flnet.web.cards import AFTER, BEFORE, seconds_words
from flnet.web.charts import (
    HEIGHT,
    LEFT,
    RIGHT,
    WIDTH,
    Chart,
    Point,
    Series,
    accuracy_chart,
    figure_chart,
    points_of,
)
from flnet.web.view import text
from flnet.web.views.frame import size_words

MOST_POINTS = 1000  # of a line in a picture; of a longer history every so many rounds are drawn
TITLE, LEGEND, GAP = 24, 20, 16  # heights around a panel
COLOURS = ("#1c7a4b", "#6f8578", "#0f5f8a")
INK, GRID = "#1b221d", "#dde4de"
FONT = "sans-serif"
SECONDS = ("fetch", "train", "wait", "average", "measure", "exchange")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would take for one
_COLUMNS = (
    *("round", "initiator", "why", "outcome", "error", "participants", "contributors", "missing", "examples"),
    *(BEFORE, AFTER, "exchanged_with", "digest", "bytes_sent", "bytes_received", "seconds"),
    *(f"seconds_{part}" for part in SECONDS),
    *("decision", "decided", "mean_accuracy", "mean_loss"),
)


@dataclass(frozen=True)
class Panel:
    """One chart of the picture, with its name; `top` is where it begins."""

    title: str
    chart: Chart
    top: int


def as_csv(records: Sequence[View]) -> bytes:
    """One line for each round, oldest first; lists are joined with semicolons."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\r\n")
    lines.writerow(_COLUMNS)
    lines.writerows([_cell(row.get(name)) for name in _COLUMNS] for row in map(_row, records))
    return out.getvalue().encode()


def panels_of(records: Sequence[View]) -> list[Panel]:
    """Accuracy, participants, seconds and bytes by round, one below the other, as far as there are figures."""
    counted = [{**one, "of": {"count": len(one.get("contributors") or ())}} for one in records]
    totals = [{**one, "of": {"seconds": sum(_seconds(one).values())}} for one in records]
    train = points_of(records, "seconds", "train")
    accuracies = _lines(
        ("after averaging", points_of(records, AFTER)), ("before averaging", points_of(records, BEFORE))
    )
    counts = _lines(("updates averaged", points_of(counted, "of", "count")))
    seconds = _lines(("the whole round", points_of(totals, "of", "seconds")), ("local training", train))
    directions = [(name, points_of(records, "bytes", name)) for name in ("sent", "received")]
    charts = (
        ("Accuracy", accuracy_chart(accuracies, MOST_POINTS)),
        ("Participants", figure_chart(counts, lambda count: f"{count:g}", MOST_POINTS)),
        ("Seconds", figure_chart(seconds, seconds_words, MOST_POINTS)),
        ("Bytes", figure_chart(_lines(*directions), lambda nbytes: size_words(int(nbytes)), MOST_POINTS)),
    )
    there = [(title, chart) for title, chart in charts if chart is not None]
    each = TITLE + HEIGHT + LEGEND + GAP
    return [Panel(title, chart, TITLE + GAP + number * each) for number, (title, chart) in enumerate(there)]


def height_of(panels: Sequence[Panel]) -> int:
    """Of the whole picture, in the units of `charts.WIDTH`."""
    return TITLE + GAP + max(len(panels), 1) * (TITLE + HEIGHT + LEGEND + GAP)


def as_svg(records: Sequence[View], title: str) -> bytes:
    """A picture that stands alone: no style sheet, no script, no font of its own."""
    panels = panels_of(records)
    height = height_of(panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="{FONT}" font-size="12" fill="{INK}">',
        f"<title>{_plain(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="24" font-size="16" font-weight="bold">{_plain(title)}</text>',
        *(_drawn(panel) for panel in panels),
    ]
    if not panels:
        parts.append(f'<text x="12" y="{TITLE + GAP + 24}">no rounds yet</text>')
    return "\n".join([*parts, "</svg>", ""]).encode()


def legend_of(chart: Chart) -> list[tuple[str, str]]:
    """Colour and words of each line."""
    return [(COLOURS[line.number % len(COLOURS)], f"{line.name} ({line.last})") for line in chart.lines]


def _drawn(panel: Panel) -> str:
    chart, top = panel.chart, panel.top
    parts = [f'<text x="12" y="{top + 16}" font-weight="bold">{panel.title}</text>']
    parts.append(f'<g transform="translate(0 {top + TITLE})">')
    for tick in chart.levels:
        parts.append(f'<path d="M{LEFT} {tick.at}H{WIDTH - RIGHT}" stroke="{GRID}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{tick.at}" dy="4" text-anchor="end">{_plain(tick.label)}</text>')
    for tick in chart.rounds:
        parts.append(f'<text x="{tick.at}" y="{HEIGHT - 12}" text-anchor="middle">{_plain(tick.label)}</text>')
    for line in reversed(chart.lines):
        colour = COLOURS[line.number % len(COLOURS)]
        parts.append(f'<path d="{line.path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        if len(line.dots) <= 40:
            parts += [f'<circle cx="{x}" cy="{y}" r="2.5" fill="{colour}"/>' for x, y in line.dots]
    parts.append("</g>")
    for number, (colour, words) in enumerate(legend_of(chart)):
        x, y = LEFT + 280 * number, top + TITLE + HEIGHT + 12
        parts.append(f'<path d="M{x} {y - 4}h20" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{x + 26}" y="{y}">{_plain(words)}</text>')
    return "\n".join(parts)


def _lines(*named: tuple[str, Sequence[Point]]) -> list[Series]:
    return [Series(name, _thinned(points)) for name, points in named]


def _thinned(points: Sequence[Point]) -> tuple[Point, ...]:
    """Not more than MOST_POINTS, evenly, the newest among them."""
    step = -(-len(points) // MOST_POINTS) or 1
    return tuple(points[::-1][::step][::-1])


def _row(record: View) -> Mapping[str, Any]:
    moved, decision = record.get("bytes") or {}, record.get("decision") or {}
    seconds = _seconds(record)
    return {
        **record,
        "participants": len(record.get("contributors") or ()),
        "bytes_sent": moved.get("sent"),
        "bytes_received": moved.get("received"),
        "seconds": round(sum(seconds.values()), 3) if seconds else None,
        **{f"seconds_{part}": round(seconds[part], 3) if part in seconds else None for part in SECONDS},
        "decision": decision.get("over"),
        "decided": decision.get("words"),
        "mean_accuracy": decision.get("accuracy"),
        "mean_loss": decision.get("loss"),
    }


def _seconds(record: View) -> Mapping[str, float]:
    seconds: Mapping[str, Any] = record.get("seconds") or {}
    return {name: value for name, value in seconds.items() if isinstance(value, int | float)}


def _cell(value: Any) -> Any:
    """A figure as it is; words so that no spreadsheet takes them for a formula."""
    if value is None or isinstance(value, int | float):
        return value
    words = ";".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f"'{words}" if words.startswith(_FORMULA) else words


def _plain(words: object) -> str:
    return str(escape(text(words, 200)))
