"""What a trainer tells of its data, in words; built from any data, because a peer may claim anything of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flnet.web.view import count, text
from flnet.web.words import Translate

MAX_CLASSES = 12  # that are named one by one
_SPLITS = ("train", "validation", "test")


def data_words(data: Mapping[str, Any], t: Translate) -> str:
    """Where the data is from and how much it is: rows in all or by split, classes by number or name."""
    classes = data.get("classes")
    named = count(len(classes) if isinstance(classes, list | tuple) else classes)
    classed = t("{count} classes", count=named) if named else ""
    parts = [text(data.get("source")), _rows(data.get("rows"), t), classed]
    return "; ".join(part for part in parts if part)


def classes_words(classes: Any, counts: Any, t: Translate) -> tuple[tuple[str, str], ...]:
    """For each split the rows of each class, of twelve classes at most."""
    if not isinstance(classes, list | tuple) or not isinstance(counts, Mapping):
        return ()
    lines = []
    hidden = len(classes) - MAX_CLASSES
    more = " " + t("and {count} more classes", count=hidden) if hidden > 0 else ""
    for split, numbers in list(counts.items())[:5]:
        pairs = zip(classes, numbers if isinstance(numbers, list | tuple) else (), strict=False)
        words = [f"{text(name, 40)}: {count(number) or 0}" for name, number in list(pairs)[:MAX_CLASSES]]
        lines += [(_split(split, t), ", ".join(words) + more)] if words else []
    return tuple(lines)


def _rows(rows: Any, t: Translate) -> str:
    if not isinstance(rows, Mapping):
        return t("{count} rows", count=count(rows)) if count(rows) else ""
    splits = [f"{count(number)} {_split(split, t)}" for split, number in rows.items() if count(number)]
    return t("{count} rows", count=", ".join(splits[:5])) if splits else ""


def _split(name: Any, t: Translate) -> str:
    return t(name) if name in _SPLITS else text(name, 20)
