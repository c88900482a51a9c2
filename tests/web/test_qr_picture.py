"""The path is drawn again here, module by module, and holds what the library put into it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import segno

from flnet.fingerprints import fingerprint, key_text
from flnet.web.qr_picture import QUIET, qr_picture

RUN = re.compile(r"M(\d+) (\d+)h(\d+)v1h-(\d+)z")


def modules(path: str) -> set[tuple[int, int]]:
    """The dark modules that the path fills."""
    assert RUN.sub("", path) == ""
    dark: list[tuple[int, int]] = []
    for x, y, width, back in RUN.findall(path):
        assert width == back
        dark += [(int(x) + step, int(y)) for step in range(int(width))]
    assert len(dark) == len(set(dark))
    return set(dark)


def test_a_fingerprint_is_drawn_with_free_space_around_it() -> None:
    text = fingerprint(key_text(bytes(32)))
    drawn = qr_picture(text)
    code = segno.make(text, error="m", micro=False, boost_error=False)
    expected = {(x + QUIET, y + QUIET) for y, row in enumerate(code.matrix) for x, bit in enumerate(row) if bit}
    assert modules(drawn.path) == expected
    assert (drawn.size, code.version, code.mode, code.error) == (33 + 2 * QUIET, 4, "alphanumeric", "M")


def test_the_three_corners_are_there() -> None:
    drawn = qr_picture("A")
    dark, far = modules(drawn.path), drawn.size - QUIET - 7
    for x, y in ((QUIET, QUIET), (far, QUIET), (QUIET, far)):
        assert {(x + step, y) for step in range(7)} <= dark
        assert (x + 1, y + 1) not in dark


def test_too_long_a_text_is_refused() -> None:
    with pytest.raises(ValueError, match="Data too large"):
        qr_picture("A" * 5000)


def test_the_library_is_loaded_by_the_first_who_looks_only() -> None:
    script = (
        "import sys, flnet.web.app, flnet.web.qr_picture as qr\n"
        "assert 'segno' not in sys.modules\nqr.qr_picture('A')\nassert 'segno' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
