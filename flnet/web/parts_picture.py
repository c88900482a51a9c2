"""How one data set is dealt to the parts of an experiment, as a picture: a dot for each class in each part."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flnet.node.base import View
from flnet.web.view import text

STEP, LARGEST = 22.0, 9.5  # pixels from one dot to the next, and the radius of the largest
LEFT, TOP = 110.0, 22.0  # room for the names of classes, and for the numbers of parts
MOST_PARTS, MOST_CLASSES = 30, 30
_LABEL = 14  # characters of a class


@dataclass(frozen=True)
class PartDot:
    """So many rows of a class in a part; the area of the dot is in proportion to them."""

    x: float
    y: float
    radius: float
    own: bool
    words: str


@dataclass(frozen=True)
class Mark:
    """A name beside the dots."""

    x: float
    y: float
    text: str
    own: bool = False


@dataclass(frozen=True)
class PartsPicture:
    """All that is drawn, and the same numbers for a table; what did not fit is counted.

    Attributes:
        rows: for each class its name and the rows in each part.
        totals: rows in each part.
        own: this node's part, from 1.
    """

    width: float
    height: float
    dots: tuple[PartDot, ...]
    classes: tuple[Mark, ...]
    parts: tuple[Mark, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    totals: tuple[str, ...]
    own: int
    hidden_parts: int
    hidden_classes: int


@dataclass(frozen=True)
class PeerRows:
    """How many rows a peer says that it has; `percent` of the most."""

    id: str
    rows: str
    percent: float


def parts_picture(parts: Sequence[Sequence[int]], names: Sequence[str], own: int) -> PartsPicture | None:
    """The picture; None where there is nothing to compare.

    Args:
        parts: for each part the rows of each class.
        names: of the classes.
        own: this node's part, from 1.
    """
    if len(parts) < 2 or not names or any(len(counts) != len(names) for counts in parts):
        return None
    first = max(
        0, min(own - 1 - MOST_PARTS // 2, len(parts) - MOST_PARTS)
    )  # this node's part is among those shown
    shown = range(first, min(first + MOST_PARTS, len(parts)))
    classes = [text(name, 60) for name in names[:MOST_CLASSES]]
    most = max(parts[part][place] for part in shown for place in range(len(classes))) or 1
    dots = tuple(
        _dot(column, place, parts[part][place], most, own=part + 1 == own, words=f"{name} · {part + 1}")
        for place, name in enumerate(classes)
        for column, part in enumerate(shown)
        if parts[part][place]
    )
    return PartsPicture(
        round(LEFT + STEP * len(shown), 1),
        round(TOP + STEP * len(classes), 1),
        dots,
        tuple(Mark(LEFT - 8, _at(TOP, place) + 4, text(name, _LABEL)) for place, name in enumerate(classes)),
        tuple(Mark(_at(LEFT, column), TOP - 8, str(p + 1), p + 1 == own) for column, p in enumerate(shown)),
        tuple((name, tuple(f"{parts[part][place]:,}" for part in shown)) for place, name in enumerate(classes)),
        tuple(f"{sum(parts[part]):,}" for part in shown),
        own,
        len(parts) - len(shown),
        len(names) - len(classes),
    )


def rows_of_peers(trainer: str, infos: Sequence[View]) -> tuple[PeerRows, ...]:
    """How many rows the peers say that they have for a trainer, those that say it."""
    found: dict[str, int] = {}
    for one in infos:
        info = one.get("info")
        jobs = info.get("jobsInfo") if isinstance(info, Mapping) else None
        for job in jobs if isinstance(jobs, list) else ():
            if isinstance(job, Mapping) and job.get("trainer_id") == trainer:
                total = _total(job.get("data"))
                if total is not None:
                    found[text(one.get("id"), 64)] = total
    most = max(found.values(), default=0) or 1
    return tuple(PeerRows(peer, f"{rows:,}", round(100 * rows / most, 2)) for peer, rows in sorted(found.items()))


def _total(data: Any) -> int | None:
    """All rows of all splits; None for what is no number of rows, as a peer may claim anything."""
    rows = data.get("rows") if isinstance(data, Mapping) else None
    numbers = list(rows.values())[:10] if isinstance(rows, Mapping) else [rows]
    right = all(type(number) is int and 0 <= number < 10**12 for number in numbers)
    return sum(numbers) if numbers and right else None


def _dot(column: int, place: int, count: int, most: int, *, own: bool, words: str) -> PartDot:
    radius = max(1.0, LARGEST * math.sqrt(count / most))
    return PartDot(_at(LEFT, column), _at(TOP, place), round(radius, 2), own, f"{words}: {count:,}")


def _at(start: float, place: int) -> float:
    return round(start + STEP * (place + 0.5), 1)
