"""Pictures as files: sound SVG that stands alone, and the same in pixels."""

from __future__ import annotations

import io
import sys
from xml.etree import ElementTree

import pytest

from flnet.errors import NotOffered
from flnet.experiments.shapes import SCALE, Area, Dot, Line, Picture, Words, as_png, as_svg, box

SPACE = "{http://www.w3.org/2000/svg}"
PICTURE = Picture(
    "a < b & c",
    40,
    30,
    (
        box(0, 0, 20, 30, "#ff0000", 0.5),
        Area(((20, 0), (40, 0), (40, 30)), "#0000ff"),
        Line(((0, 10), (20, 10)), "#00ff00", 4),
        Dot(10, 20, "#000000", 3),
        Words(2, 28, '<script>"x"\x00</script>', size=3, bold=True),
    ),
)


def test_svg_is_well_formed_and_holds_no_markup_of_others() -> None:
    root = ElementTree.fromstring(as_svg(PICTURE))
    assert root.get("viewBox") == "0 0 40 30"
    assert [child.tag.removeprefix(SPACE) for child in root] == [
        *("title", "rect", "path", "path", "path", "circle", "text")
    ]
    assert root.findtext(f"{SPACE}title") == "a < b & c"
    assert root.findtext(f"{SPACE}text") == '<script>"x" </script>'


def test_png_shows_what_lies_where() -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    shown = image.open(io.BytesIO(as_png(PICTURE))).convert("RGB")
    assert shown.size == (40 * SCALE, 30 * SCALE)

    def at(x: float, y: float) -> tuple[int, int, int]:
        found: tuple[int, int, int] = shown.getpixel((round(SCALE * x), round(SCALE * y)))
        return found

    red, green, blue = at(5, 3)
    assert red == 255
    assert green == blue in range(125, 130)  # half of it is the paper
    assert at(38, 5) == (0, 0, 255)
    assert at(5, 10) == (0, 255, 0)
    assert at(10, 20) == (0, 0, 0)
    assert at(22, 20) == (255, 255, 255)


def test_without_pillow_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(NotOffered, match=r"flnet\[experiments\]"):
        as_png(PICTURE)
