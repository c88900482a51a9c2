"""A picture as a list of lines, areas, dots and words, written as SVG or drawn as PNG, alike in both."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from flnet.errors import NotOffered

INK, GREY, GRID = "#1b221d", "#5f6f66", "#dde4de"
# Told apart by those who see red and green alike: the first are the darkest and lightest of Okabe and Ito (2008).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#4b2e83")
SCALE = 2  # pixels of a PNG for each unit, so that it is sharp in print
FONT = "DejaVu Sans, Verdana, sans-serif"
SIZE = 12  # of words
ANCHORS = {"start": "l", "middle": "m", "end": "r"}
_LETTER = 0.55  # width of a letter beside its height, on the average

Place = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """Straight pieces from place to place."""

    places: tuple[Place, ...]
    colour: str = INK
    width: float = 1.0


@dataclass(frozen=True)
class Area:
    """A polygon filled with a colour, of which `opacity` covers what is below."""

    places: tuple[Place, ...]
    colour: str
    opacity: float = 1.0


@dataclass(frozen=True)
class Dot:
    """A filled circle."""

    x: float
    y: float
    colour: str = INK
    radius: float = 2.5


@dataclass(frozen=True)
class Words:
    """One line of text; `y` is its base line, `anchor` what of it is at `x`: start, middle or end."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    size: int = SIZE
    colour: str = INK
    bold: bool = False


Shape = Line | Area | Dot | Words


@dataclass(frozen=True)
class Picture:
    """Shapes on white paper, the first at the bottom; `y` grows downwards."""

    title: str
    width: float
    height: float
    shapes: tuple[Shape, ...]


def width_of(words: str, size: int = SIZE) -> float:
    """About how wide a line of text is."""
    return _LETTER * size * len(words)


def box(left: float, top: float, right: float, bottom: float, colour: str, opacity: float = 1.0) -> Area:
    """A rectangle."""
    return Area(((left, top), (right, top), (right, bottom), (left, bottom)), colour, opacity)


def as_svg(picture: Picture) -> bytes:
    """A file that stands alone: no style sheet, no script, no font of its own."""
    width, height = _short(picture.width), _short(picture.height)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="{FONT}">'
    )
    paper = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    title = f"<title>{_plain(picture.title)}</title>"
    return "\n".join([head, title, paper, *map(_svg, picture.shapes), "</svg>", ""]).encode()


def as_png(picture: Picture) -> bytes:
    """The same picture in pixels.

    Raises:
        NotOffered: Pillow is not installed.
    """
    try:
        from PIL import Image, ImageDraw, ImageFont  # noqa: PLC0415
    except ImportError as exc:
        words = (
            "a PNG needs Pillow, which is not installed; install it (pip install "
            '"flnet[experiments]"), or take the SVG'
        )
        raise NotOffered(words) from exc
    size = round(SCALE * picture.width), round(SCALE * picture.height)
    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image, "RGBA")
    for shape in picture.shapes:
        _draw(draw, shape, ImageFont)
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


def _svg(shape: Shape) -> str:
    match shape:
        case Line(places, colour, width):
            path = f"M{_joined(places, 'L')}"
            return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{_short(width)}"/>'
        case Area(places, colour, opacity):
            return f'<path d="M{_joined(places, "L")}Z" fill="{colour}" fill-opacity="{opacity:g}"/>'
        case Dot(x, y, colour, radius):
            return f'<circle cx="{_short(x)}" cy="{_short(y)}" r="{_short(radius)}" fill="{colour}"/>'
        case Words():
            weight = ' font-weight="bold"' if shape.bold else ""
            place = f'x="{_short(shape.x)}" y="{_short(shape.y)}" text-anchor="{shape.anchor}"'
            return (
                f'<text {place} font-size="{shape.size}" fill="{shape.colour}"{weight}>{_plain(shape.text)}</text>'
            )


def _draw(draw: Any, shape: Shape, fonts: Any) -> None:
    match shape:
        case Line(places, colour, width):
            draw.line(_scaled(places), colour, max(1, round(SCALE * width)), joint="curve")
        case Area(places, colour, opacity):
            draw.polygon(_scaled(places), f"{colour}{round(255 * opacity):02x}")
        case Dot(x, y, colour, radius):
            corners = _scaled([(x - radius, y - radius), (x + radius, y + radius)])
            draw.ellipse(corners, colour)
        case Words(x, y, text, anchor, size, colour, bold):
            font = fonts.load_default(SCALE * size)
            stroke = {"stroke_width": 1, "stroke_fill": colour} if bold else {}
            draw.text((SCALE * x, SCALE * y), _printable(text), colour, font, ANCHORS[anchor] + "s", **stroke)


def _scaled(places: Sequence[Place]) -> list[Place]:
    return [(SCALE * x, SCALE * y) for x, y in places]


def _joined(places: Sequence[Place], between: str) -> str:
    return between.join(f"{_short(x)} {_short(y)}" for x, y in places)


def _short(length: float) -> str:
    return f"{length:.1f}".removesuffix(".0")


def _printable(words: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in words)


def _plain(words: str) -> str:
    return escape(_printable(words))
