"""A job's history as PNG, where Pillow is installed."""

from __future__ import annotations

import builtins
import io
from typing import Any

import pytest
from PIL import Image

from flnet.errors import NotOffered
from flnet.web.history_files import height_of, panels_of
from flnet.web.history_png import SCALE, as_png
from tests.web.test_history_files import record


def test_it_is_the_picture_of_the_svg_in_pixels() -> None:
    records = [record(number, post_fedavg_accuracy=0.5 + number / 10) for number in range(4)]
    with Image.open(io.BytesIO(as_png(records, "Digits on n1"))) as image:
        assert image.size == (SCALE * 640, SCALE * height_of(panels_of(records)))
        colours = {colour for _, colour in image.convert("RGB").getcolors(maxcolors=1 << 24) or []}
    assert {(255, 255, 255), (0x1C, 0x7A, 0x4B), (0x6F, 0x85, 0x78)} <= colours


def test_without_rounds_and_with_one_it_is_a_picture_too() -> None:
    for records in ([], [record(0)]):
        assert as_png(records, "Digits \u2603 \N{GREEK SMALL LETTER ALPHA}").startswith(b"\x89PNG")


def test_without_pillow_people_are_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuses(name: str, *rest: Any, **more: Any) -> Any:
        if name == "PIL":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuses)
    with pytest.raises(NotOffered, match=r"needs Pillow, .* or take the SVG"):
        as_png([], "Digits")
