"""The pictures in the documents: small, all shown, and all there."""

from __future__ import annotations

import re

from tests.test_layout import ROOT

FOLDER = ROOT / "docs" / "screenshots"
SHOWN = re.compile(r"!\[[^\]]+\]\(([^)]+\.png)\)")


def test_every_picture_is_shown_and_every_one_that_is_shown_is_there() -> None:
    shown = {
        (path.parent / link).resolve()
        for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
        for link in SHOWN.findall(path.read_text("utf-8"))
    }
    results = {path.resolve() for path in (ROOT / "docs" / "results").rglob("*.png")}
    assert shown - results == {path.resolve() for path in FOLDER.glob("*.png")}
    assert results <= shown
    assert len(shown) > 10


def test_the_pictures_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in FOLDER.glob("*.png")}
    assert max(sizes.values()) < 150_000
    assert sum(sizes.values()) < 1_500_000
