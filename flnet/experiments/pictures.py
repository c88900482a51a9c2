"""The pictures of a report: critical differences, curves over rounds, bars beside published values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flnet.experiments.ranks import alike
from flnet.experiments.shapes import (
    COLOURS,
    GREY,
    GRID,
    INK,
    Area,
    Dot,
    Line,
    Picture,
    Shape,
    Words,
    box,
    width_of,
)

WIDTH = 760
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 40, 30  # room around what is drawn
HEIGHT = 260  # of the axes
LEGEND = 20  # of a line of the legend


@dataclass(frozen=True)
class Curve:
    """One figure by round, with its spread.

    Attributes:
        points: (round, mean, lowest, highest), in rising order.
    """

    name: str
    points: tuple[tuple[int, float, float, float], ...]


@dataclass(frozen=True)
class Bar:
    """One value; `spread` is drawn to both sides of it, `published` as a mark across it."""

    value: float
    spread: float = 0.0
    published: float | None = None


def critical_difference_picture(
    title: str, names: Sequence[str], ranks: Sequence[float], distance: float
) -> Picture:
    """Mean ranks on a line, the best at the left; a bar joins methods that do not differ (Demšar 2006, figure 1).

    Args:
        distance: the critical difference.
    """
    left, right, axis, methods = 150.0, WIDTH - 150.0, 96.0, len(names)

    def x(rank: float) -> float:
        return left + (right - left) * (rank - 1) / max(methods - 1, 1)

    reach = min(distance, methods - 1)
    shapes: list[Shape] = [Words(12, 24, title, size=16, bold=True)]
    shapes += [Line(((x(1), 58), (x(1 + reach), 58)), INK, 2), Words(x(1), 52, f"CD = {distance:.4f}")]
    shapes += [Line(((at, 54), (at, 62)), INK) for at in (x(1), x(1 + reach))]
    shapes.append(Line(((left, axis), (right, axis)), INK))
    for rank in range(1, methods + 1):
        shapes += [Line(((x(rank), axis - 6), (x(rank), axis)), INK)]
        shapes += [Words(x(rank), axis - 10, str(rank), "middle")]
    groups = alike(ranks, distance)
    for number, group in enumerate(groups):
        y = axis + 10 + 8 * number
        shapes.append(Line(((x(ranks[group[0]]) - 4, y), (x(ranks[group[-1]]) + 4, y)), INK, 4))
    first = axis + 30 + 8 * len(groups)
    order = sorted(range(methods), key=lambda number: (ranks[number], number))
    half = (methods + 1) // 2
    for place, number in enumerate(order):
        is_left = place < half
        y = first + 20 * (place if is_left else methods - 1 - place)
        end, anchor = (left - 10, "end") if is_left else (right + 10, "start")
        words = f"{names[number]} ({ranks[number]:.3f})"
        shapes.append(Line(((x(ranks[number]), axis), (x(ranks[number]), y), (end, y)), GREY))
        shapes.append(Words(end + (-4 if is_left else 4), y + 4, words, anchor))
    return Picture(title, WIDTH, first + 20 * half + 4, tuple(shapes))


def curves_picture(title: str, curves: Sequence[Curve], across: str = "round") -> Picture:
    """Lines over rounds, each within a band of its spread."""
    shown = [curve for curve in curves if curve.points]
    rounds = [round for curve in shown for round, *_ in curve.points] or [0]
    values = [value for curve in shown for _, *three in curve.points for value in three] or [0.0, 1.0]
    first, last = min(rounds), max(rounds)
    low, high, step = levels(min(values), max(values))

    def place(round: int, value: float) -> tuple[float, float]:
        x = LEFT + (WIDTH - LEFT - RIGHT) * ((round - first) / (last - first) if last > first else 0.5)
        return x, _y(value, low, high)

    shapes = [*_frame(title, low, high, step)]
    for round in marks(first, last):
        shapes.append(Words(place(round, low)[0], TOP + HEIGHT + 16, str(round), "middle", colour=GREY))
    shapes.append(Words(WIDTH - RIGHT, TOP + HEIGHT + 28, across, "end", 11, GREY))
    for number, curve in enumerate(shown):
        lower = [place(round, least) for round, _, least, _ in curve.points]
        upper = [place(round, most) for round, _, _, most in curve.points]
        shapes.append(Area((*upper, *reversed(lower)), _colour(number), 0.18))
    for number, curve in enumerate(shown):
        line = tuple(place(round, mean) for round, mean, _, _ in curve.points)
        shapes.append(Line(line, _colour(number), 2))
        shapes += [Dot(x, y, _colour(number)) for x, y in line if len(line) <= 40]
    named = [(f"{curve.name} ({curve.points[-1][1]:.4f})", _colour(number)) for number, curve in enumerate(shown)]
    legend, height = _legend(named, TOP + HEIGHT + BOTTOM + 8)
    return Picture(title, WIDTH, height, (*shapes, *legend))


def bars_picture(
    title: str, groups: Sequence[str], names: Sequence[str], bars: Sequence[Sequence[Bar | None]]
) -> Picture:
    """Bars beside each other in groups, from zero on.

    Args:
        groups: what stands below each group: data sets.
        names: of the bars in a group: methods.
        bars: one row for each group; None where there is nothing to show.
    """
    there = [bar for row in bars for bar in row if bar is not None]
    tops = [max(bar.value + bar.spread, bar.published or 0.0) for bar in there] or [1.0]
    low, high, step = levels(0.0, max([*tops, 1e-9]))
    shapes = [*_frame(title, low, high, step)]
    each = (WIDTH - LEFT - RIGHT) / max(len(groups), 1)
    wide = 0.8 * each / max(len(names), 1)
    for group, (words, row) in enumerate(zip(groups, bars, strict=True)):
        begin = LEFT + each * group
        fitting = max(3, int(each / width_of("x", 11)))
        shapes.append(Words(begin + each / 2, TOP + HEIGHT + 16, words[:fitting], "middle", 11, GREY))
        for number, bar in enumerate(row):
            if bar is not None:
                left = begin + 0.1 * each + wide * number
                shapes += _bar(bar, left, left + 0.92 * wide, _colour(number), low, high)
    named = [(name, _colour(number)) for number, name in enumerate(names)]
    if any(bar.published is not None for bar in there):
        named.append(("published", INK))
    legend, height = _legend(named, TOP + HEIGHT + BOTTOM + 8)
    return Picture(title, WIDTH, height, (*shapes, *legend))


def levels(low: float, high: float) -> tuple[float, float, float]:
    """Lowest and highest level of an axis, and the step between its marks: 1, 2 or 5 times a power of ten."""
    span = high - low or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / 5))
    step = next(power * base for base in (1, 2, 5, 10) if span / (power * base) <= 5.5)
    bottom, top = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    return bottom, top if top > bottom else bottom + step, step


def marks(first: int, last: int) -> list[int]:
    """At most eight rounds, at distances of 1, 2 or 5 times a power of ten."""
    steps = (base * 10**power for power in range(16) for base in (1, 2, 5))
    step = next(step for step in steps if (last - first) / step <= 7)
    return list(range(-(-first // step) * step, last + 1, step))


def _frame(title: str, low: float, high: float, step: float) -> Iterable[Shape]:
    """The title, and lines at the levels of the axis with what they mean."""
    yield Words(12, 24, title, size=16, bold=True)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    for mark in range(round((high - low) / step) + 1):
        value = low + step * mark
        y = _y(value, low, high)
        yield Line(((LEFT, y), (WIDTH - RIGHT, y)), GRID)
        yield Words(LEFT - 6, y + 4, f"{value:.{digits}f}", "end", colour=GREY)


def _bar(bar: Bar, left: float, right: float, colour: str, low: float, high: float) -> Iterable[Shape]:
    yield box(left, _y(bar.value, low, high), right, _y(low, low, high), colour, 0.75)
    middle = (left + right) / 2
    if bar.spread:
        least, most = (_y(max(low, bar.value + sign * bar.spread), low, high) for sign in (-1, 1))
        yield Line(((middle, least), (middle, most)), INK, 1)
    if bar.published is not None:
        y = _y(bar.published, low, high)
        yield Line(((left - 1, y), (right + 1, y)), INK, 2)


def _legend(named: Sequence[tuple[str, str]], top: float) -> tuple[list[Shape], float]:
    """Colours with their words, as many on a line as fit, and where the picture ends."""
    shapes: list[Shape] = []
    x, y = float(LEFT), top
    for words, colour in named:
        wide = 22 + width_of(words) + 18
        if x > LEFT and x + wide > WIDTH - RIGHT:
            x, y = float(LEFT), y + LEGEND
        shapes += [Line(((x, y + 6), (x + 16, y + 6)), colour, 3), Words(x + 22, y + 10, words)]
        x += wide
    return shapes, y + LEGEND + 8


def _y(value: float, low: float, high: float) -> float:
    return TOP + HEIGHT * (high - value) / (high - low)


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]
