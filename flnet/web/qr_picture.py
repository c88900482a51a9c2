"""A text as a QR code (ISO/IEC 18004), drawn as one path of an SVG."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

QUIET = 4  # modules of free space on each side, as the standard asks for


@dataclass(frozen=True)
class QrPicture:
    """The dark modules as what the attribute d of an SVG path takes, in a square of `size` modules."""

    size: int
    path: str


@lru_cache(8)  # a node shows its own fingerprint only
def qr_picture(text: str) -> QrPicture:
    """The smallest QR code that holds a text and survives 15 % of damage (level M).

    Args:
        text: capital letters, digits and hyphens take the least room.

    Raises:
        ValueError: there is no code for so long a text.
    """
    import segno  # noqa: PLC0415 - half a megabyte, for a view that few look at

    rows = segno.make(text, error="m", micro=False, boost_error=False).matrix
    parts = []
    for y, row in enumerate(rows, QUIET):
        x = QUIET
        for is_dark, run in groupby(row):
            width = len(list(run))
            if is_dark:
                parts.append(f"M{x} {y}h{width}v1h-{width}z")
            x += width
    return QrPicture(len(rows) + 2 * QUIET, "".join(parts))
