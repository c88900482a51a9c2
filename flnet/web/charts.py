"""Charts of figures by round: their coordinates, and the SVG that the page and the history files show."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from flnet.web.formatting import NONE, accuracy, one_line

WIDTH, HEIGHT = 640, 240
LEFT, RIGHT, TOP, BOTTOM = 60, 12, 12, 30  # room for the axes
SPARK_WIDTH, SPARK_HEIGHT, SPARK_MARGIN = 120, 28, 3
MAX_ROUNDS = 100  # the newest, in a chart
MAX_LINES = 8  # this node's two and six peers; so many can be told apart
BEFORE, AFTER = "pre_fedavg_accuracy", "post_fedavg_accuracy"  # figures of a record
MAX_DOTS = 40  # of one line; more of them would hide it
FAR = 1000  # rounds; two with nothing between them that are farther apart are drawn side by side
MOST_ROUNDS_MARKED = 8
DIGIT = 3  # units that a digit of a round takes on either side of its mark, or a little less
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25)

Point = tuple[int, float]  # round, and what was measured in it


@dataclass(frozen=True)
class ChartSeries:
    """One figure by round, in rising order: an accuracy in [0, 1], or seconds, or bytes."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Line:
    """One series on the picture; `path` is what the attribute d of an SVG path takes."""

    name: str
    number: int
    path: str
    dots: tuple[tuple[str, str], ...]
    last: str


@dataclass(frozen=True)
class Tick:
    """A mark on an axis, `at` so many units from the left or from the top."""

    at: str
    label: str


@dataclass(frozen=True)
class Chart:
    """A picture of lines with its axes."""

    lines: tuple[Line, ...]
    rounds: tuple[Tick, ...]
    levels: tuple[Tick, ...]


@dataclass(frozen=True)
class Look:
    """The attributes of the parts of a chart: classes of a style sheet, or colours.

    Attributes:
        line, dot: with a gap for the colour of the line, or for its number where the look has no colours.
    """

    grid: Markup
    level: Markup
    round: Markup
    line: Markup
    dot: Markup
    colours: tuple[str, ...] = ()

    def mark(self, number: int) -> str:
        """The mark of a line."""
        return self.colours[number % len(self.colours)] if self.colours else str(number)


PAGE_LOOK = Look(
    Markup('class="grid"'),
    Markup('class="level"'),
    Markup('class="round"'),
    Markup('class="line line-{}"'),
    Markup(),
)
_GRID = Markup('<path {} d="M{} {}H{}"/><text {} x="{}" y="{}" dy="4">{}</text>')
_ROUND = Markup('<text {} x="{}" y="{}">{}</text>')
_LINE = Markup('<g {}><title>{}</title><path d="{}"/>{}</g>')
_DOT = Markup('<circle cx="{}" cy="{}" r="{}"{}/>')


def svg_of(chart: Chart, look: Look) -> Markup:
    """The axes and lines of a chart, for an SVG of WIDTH by HEIGHT."""
    parts = [
        _GRID.format(look.grid, LEFT, level.at, WIDTH - RIGHT, look.level, LEFT - 6, level.at, level.label)
        for level in chart.levels
    ]
    parts += [_ROUND.format(look.round, tick.at, HEIGHT - 12, tick.label) for tick in chart.rounds]
    for line in reversed(chart.lines):
        mark, radius = look.mark(line.number), 3.5 if line.number == 0 else 2.5
        shown = line.dots if len(line.dots) <= MAX_DOTS else ()
        dots = Markup().join(_DOT.format(x, y, radius, look.dot.format(mark)) for x, y in shown)
        parts.append(_LINE.format(look.line.format(mark), line.name, line.path, dots))
    return Markup("\n").join(parts)


def accuracy_chart(series: Sequence[ChartSeries], most: int = MAX_ROUNDS) -> Chart | None:
    """Lines of accuracy by round on common axes, of the `most` newest rounds; None while there is no point."""
    shown = _shown(series, most)
    if not shown:
        return None
    return _chart(shown, _levels(_values(shown)), accuracy, lambda level: f"{100 * level:.0f} %")


def figure_chart(
    series: Sequence[ChartSeries],
    words: Callable[[float], str],
    most: int = MAX_ROUNDS,
    level_words: Callable[[float], str] | None = None,
) -> Chart | None:
    """Lines of figures that are not negative, from zero on; None while all of them are zero.

    Args:
        words: what a figure is called, with its unit.
        most: rounds of each line, the newest.
        level_words: what a level of the axis is called, where that is shorter.
    """
    shown = _shown(series, most)
    highest = max(_values(shown), default=0.0)
    if highest <= 0:
        return None
    return _chart(shown, _levels_from_zero(highest), words, level_words or words)


def _shown(series: Sequence[ChartSeries], most: int) -> list[ChartSeries]:
    newest = (ChartSeries(one_line(each.name, 64), each.points[-most:]) for each in series)
    return [each for each in newest if each.points][:MAX_LINES]


def _values(series: Sequence[ChartSeries]) -> list[float]:
    return [value for each in series for _, value in each.points]


def _chart(
    shown: Sequence[ChartSeries],
    axis: tuple[float, float, float],
    words: Callable[[float], str],
    level_words: Callable[[float], str],
) -> Chart:
    (bottom, top, step), places = axis, _places(round for each in shown for round, _ in each.points)
    last = max(places.values())

    def x(place: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (place / last if last else 0.5)

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (top - value) / (top - bottom)

    lines = [
        _line(number, each, [(x(places[r]), y(v)) for r, v in each.points], words)
        for number, each in enumerate(shown)
    ]
    marks = math.floor((top - bottom) / step + 0.5)
    levels = [bottom + step * mark for mark in range(marks + 1)]
    return Chart(
        tuple(lines),
        _round_ticks(places, x),
        tuple(Tick(_short(y(level)), level_words(level)) for level in levels),
    )


def spark_path(points: Sequence[Point]) -> str:
    """A small line without axes, of SPARK_WIDTH by SPARK_HEIGHT; empty for fewer than two points."""
    kept = points[-MAX_ROUNDS:]
    if len(kept) < 2:
        return ""
    values = [value for _, value in kept]
    low, span = min(values), (max(values) - min(values)) or 1.0
    width, height = SPARK_WIDTH - 2 * SPARK_MARGIN, SPARK_HEIGHT - 2 * SPARK_MARGIN
    places = _places(round for round, _ in kept)
    last = max(places.values())
    return _path(
        [
            (SPARK_MARGIN + width * places[r] / last, SPARK_MARGIN + height * (1 - (v - low) / span))
            for r, v in kept
        ]
    )


def points_of(history: Sequence[Mapping[str, Any]], name: str, part: str = "") -> tuple[Point, ...]:
    """The points of one figure in a job's history; rounds in which it was not measured are left out.

    Args:
        name: of an accuracy in a record, or of the figures of which `part` is one.
    """
    values = {
        record["round"]: (record.get(name) or {}).get(part) if part else record.get(name) for record in history
    }
    sound = _is_figure if part else lambda value: accuracy(value) != NONE
    return tuple(sorted((r, float(v)) for r, v in values.items() if v is not None and sound(v)))


def _is_figure(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= 0


def _line(
    number: int, series: ChartSeries, places: Sequence[tuple[float, float]], words: Callable[[float], str]
) -> Line:
    dots = tuple((_short(x), _short(y)) for x, y in places)
    return Line(series.name, number, _path(places), dots, words(series.points[-1][1]))


def _path(places: Sequence[tuple[float, float]]) -> str:
    """Straight pieces from place to place: "M1 2L3 4"."""
    return "M" + "L".join(f"{_short(x)} {_short(y)}" for x, y in places)


def _short(length: float) -> str:
    return f"{length:.1f}".removesuffix(".0")


def _levels(values: Sequence[float]) -> tuple[float, float, float]:
    """Lowest and highest level of the axis, and the step between its marks: at most six marks."""
    low, high = min(values), max(values)
    for step in _STEPS:
        bottom, top = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
        if top <= bottom:
            bottom, top = (bottom - step, top) if top >= 1 else (bottom, bottom + step)
        if (top - bottom) / step < 5.5:
            return bottom, top, step
    return 0.0, 1.0, _STEPS[-1]


def _levels_from_zero(highest: float) -> tuple[float, float, float]:
    """As `_levels`, for an axis that starts at zero: steps of 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(highest) - 0.7)  # a fifth of the highest, or a little less
    step = next(step for step in (power * base for base in (1, 2, 5, 10, 20)) if highest / step <= 5)
    return 0.0, step * math.ceil(highest / step - 1e-9), step


def _places(rounds: Iterable[int]) -> dict[int, int]:
    """Places of rounds on their axis, from 0 on; what a new numbering leaves out takes no room."""
    first, *others = sorted(set(rounds))
    places, before = {first: 0}, first
    for round in others:
        places[round] = places[before] + (1 if round - before > FAR else round - before)
        before = round
    return places


def _round_ticks(places: Mapping[int, int], x: Callable[[int], float]) -> tuple[Tick, ...]:
    """The marked rounds; where some were left out, the first one of each stretch and the last one of all."""
    rounds = list(places)
    begins = [new for new, before in zip(rounds[1:], rounds, strict=False) if new - before > FAR]
    if not begins:
        return tuple(_tick(round, x(round - rounds[0])) for round in _marked_rounds(rounds[0], rounds[-1]))
    ticks = [_tick(rounds[-1], x(places[rounds[-1]]))]
    for round in reversed([rounds[0], *begins]):  # the newest ones first, as far as there is room
        tick = _tick(round, x(places[round]))
        has_room = float(ticks[-1].at) - float(tick.at) > 2.5 * DIGIT * len(ticks[-1].label)
        if has_room and len(ticks) < MOST_ROUNDS_MARKED:
            ticks.append(tick)
    return tuple(reversed(ticks))


def _tick(round: int, at: float) -> Tick:
    return Tick(_short(min(at, WIDTH - DIGIT * len(str(round)))), str(round))


def _marked_rounds(first: int, last: int) -> list[int]:
    """Choose at most MOST_ROUNDS_MARKED rounds, at distances of 1, 2 or 5 times a power of ten."""
    steps = (base * 10**power for power in range(16) for base in (1, 2, 5))
    step = next(step for step in steps if (last - first) / step <= MOST_ROUNDS_MARKED - 1)
    start = -(-first // step) * step
    return list(range(start, last + 1, step))
