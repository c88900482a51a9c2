"""Comparisons of figures: medians, ratios, spread, bounds, and the table that is printed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

HEAD = ("measured", "flnet", "baseline", "what that is", "ratio (from - to)", "bound", "", "note")
DIGITS = 3


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes:
        name: what was measured.
        unit: of the figures on both sides: "s", "ms", "MB", ...
        ours: one figure per repetition; empty where nothing came of it (the note says why).
        beside: the same of the baseline; of the same length where the two took turns.
        what: the name of the baseline.
        bound: the largest ratio that was aimed at; without `beside`, the largest figure.
        note: more words.
    """

    name: str
    unit: str
    ours: Sequence[float]
    beside: Sequence[float] = ()
    what: str = ""
    bound: float | None = None
    note: str = ""

    @property
    def ratios(self) -> list[float]:
        """Per repetition where both sides took turns, else of each figure of ours to their median."""
        if not self.ours or not self.beside:
            return []
        if len(self.ours) == len(self.beside):
            return [mine / theirs for mine, theirs in zip(self.ours, self.beside, strict=True)]
        return [mine / median(self.beside) for mine in self.ours]

    @property
    def verdict(self) -> str:
        """ "held" or "missed" for a bound; nothing where there is none; "no figure" where nothing came."""
        if self.bound is None:
            return "" if self.ours else "no figure"
        judged = self.ratios or list(self.ours)
        if not judged or (self.what and not self.ratios):
            return "no figure"
        return "held" if median(judged) <= self.bound else "missed"

    def cells(self) -> tuple[str, ...]:
        """As the table shows it."""
        ratios = self.ratios
        return (
            self.name,
            _figure(self.ours, self.unit),
            _figure(self.beside, self.unit),
            self.what,
            f"{short(median(ratios))} ({short(min(ratios))} - {short(max(ratios))})" if ratios else "",
            "" if self.bound is None else short(self.bound) + ("" if self.what else f" {self.unit}"),
            self.verdict,
            self.note,
        )

    def fields(self) -> dict[str, Any]:
        """For a JSON file."""
        return {**asdict(self), "ratios": self.ratios, "verdict": self.verdict}


@dataclass
class Report:
    """All rows of one run, and free text beneath them (tables of their own, sparklines)."""

    say: Callable[[str], None]
    rows: list[Row] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Keep a row, and say it at once."""
        self.rows.append(row)
        self.say("  " + " | ".join(cell for cell in row.cells() if cell))

    def write(self, text: str) -> None:
        """Keep a text, and say it at once."""
        self.texts.append(text)
        self.say(text)


def table(rows: Sequence[Row]) -> str:
    """All rows as a Markdown table that is legible as plain text too."""
    return columns([HEAD, *(row.cells() for row in rows)])


def columns(lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first line is its head."""
    widths = [max(3, *(len(line[at]) for line in lines)) for at in range(len(lines[0]))]
    ruler = ["-" * width for width in widths]
    padded = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in (lines[0], ruler, *lines[1:])
    ]
    return "\n".join(padded)


def short(value: float) -> str:
    """Three digits that count, without an exponent."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{DIGITS}g}" if abs(value) >= 1e-4 else f"{value:.1e}"


def spark(values: Sequence[float], low: float, high: float) -> str:
    """A line of small bars, between `low` and `high`."""
    bars = "▁▂▃▄▅▆▇█"
    reach = (high - low) or 1.0
    return "".join(bars[max(0, min(7, int(8 * (value - low) / reach)))] for value in values)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values does not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * share // 1).__int__() - 1)]


def _figure(values: Sequence[float], unit: str) -> str:
    if not values:
        return ""
    spread = f" ({short(min(values))} - {short(max(values))})" if len(values) > 1 else ""
    return f"{short(median(values))} {unit}{spread}"
