"""A job's history as PNG, drawn with Pillow, which comes with the extra `images`; loaded when it is asked for."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from flnet.errors import NotOffered
from flnet.node.base import View
from flnet.web.charts import HEIGHT, LEFT, RIGHT, WIDTH
from flnet.web.history_files import GRID, INK, TITLE, Panel, height_of, legend_of, panels_of
from flnet.web.view import text

SCALE = 2  # pixels for each unit, so that it is sharp in print


def as_png(records: Sequence[View], title: str) -> bytes:
    """The picture of `history_files.as_svg` in pixels; takes a tenth of a second, so call it in a thread.

    Raises:
        NotOffered: Pillow is not installed.
    """
    try:
        from PIL import Image, ImageDraw, ImageFont  # noqa: PLC0415
    except ImportError as exc:
        words = (
            'a PNG needs Pillow, which is not installed; install it (pip install "flnet[images]"), or take the SVG'
        )
        raise NotOffered(words) from exc
    panels = panels_of(records)
    image = Image.new("RGB", (SCALE * WIDTH, SCALE * height_of(panels)), "white")
    draw = ImageDraw.Draw(image)
    fonts = {size: ImageFont.load_default(SCALE * size) for size in (12, 16)}
    pen = _Pen(draw, fonts)
    pen.words(12, 24, text(title, 200), size=16)
    for panel in panels:
        _draw(pen, panel)
    if not panels:
        pen.words(12, 64, "no rounds yet")
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


class _Pen:
    """Draws in the units of the SVG; `y` of words is their base line."""

    def __init__(self, draw: Any, fonts: Any) -> None:
        self._draw, self._fonts = draw, fonts

    def words(self, x: float, y: float, words: str, *, size: int = 12, anchor: str = "ls") -> None:
        self._draw.text((SCALE * x, SCALE * y), words, INK, font=self._fonts[size], anchor=anchor)

    def line(self, places: Sequence[tuple[float, float]], colour: str, width: float) -> None:
        scaled = [(SCALE * x, SCALE * y) for x, y in places]
        if len(scaled) > 1:
            self._draw.line(scaled, colour, round(SCALE * width), joint="curve")

    def dot(self, x: float, y: float, colour: str) -> None:
        box = [SCALE * (x - 2.5), SCALE * (y - 2.5), SCALE * (x + 2.5), SCALE * (y + 2.5)]
        self._draw.ellipse(box, colour)


def _draw(pen: _Pen, panel: Panel) -> None:
    chart, top = panel.chart, panel.top + TITLE
    pen.words(12, panel.top + 16, panel.title)
    for tick in chart.levels:
        y = top + float(tick.at)
        pen.line([(LEFT, y), (WIDTH - RIGHT, y)], GRID, 1)
        pen.words(LEFT - 6, y + 4, tick.label, anchor="rs")
    for tick in chart.rounds:
        pen.words(float(tick.at), top + HEIGHT - 12, tick.label, anchor="ms")
    legend = legend_of(chart)
    for line in reversed(chart.lines):
        colour = legend[line.number][0]
        places = [(float(x), top + float(y)) for x, y in line.dots]
        pen.line(places, colour, 2)
        for x, y in places if len(places) <= 40 else ():
            pen.dot(x, y, colour)
    for number, (colour, words) in enumerate(legend):
        x, y = LEFT + 280 * number, top + HEIGHT + 12
        pen.line([(x, y - 4), (x + 20, y - 4)], colour, 2)
        pen.words(x + 26, y, words)
