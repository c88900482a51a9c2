"""How values are shown: as one line of plain text. A value may come from a peer, and so be anything."""

from __future__ import annotations

from typing import Any

from flnet import text

MAX_TEXT = 200  # characters of one value
NONE = "—"


def one_line(value: Any, most: int = MAX_TEXT) -> str:
    """A string or number as one line of at most `most` characters; nothing for anything else.

    A `Text` that is such a line already stays one, so that it can be translated.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    try:
        return text.one_line(value if isinstance(value, str) else str(value), most)
    except ValueError:  # Python refuses to print integers of thousands of digits
        return ""


def accuracy(value: Any) -> str:
    """An accuracy in [0, 1] as per cent; a dash for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        return NONE
    return f"{100 * value:.2f} %"


def count(value: Any) -> str:
    """A whole number with its thousands apart; nothing for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**15:
        return ""
    return f"{value:,}"


def size_words(nbytes: int) -> str:
    """Bytes as people read them: "431 kB"."""
    size = float(nbytes)
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def seconds_words(seconds: float) -> str:
    """A duration with the digits that count: "0.25 s"."""
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"
