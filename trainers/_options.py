"""Reads the TOML file of options next to a data set, for all trainers."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flnet.text import text
from flnet.trainer import TrainerError

Fits = Callable[[Any], bool]


def read_lines(path: Path, rules: Mapping[str, tuple[str, Fits]]) -> dict[str, Any]:
    """The lines of a TOML file by name; none if there is no file.

    Args:
        path: of the file, which need not exist.
        rules: of each option what is expected, in words, and whether a value is that.

    Raises:
        TrainerError: it cannot be read, an option is unknown, or a value is not what is expected.
    """
    if not path.is_file():
        return {}
    try:
        lines = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise TrainerError(text("{path} cannot be read: {reason}", path, exc)) from exc
    for name, value in lines.items():
        if name not in rules:
            raise TrainerError(
                text("{path}: {name} is no option; expected {expected}", path, name, ", ".join(rules))
            )
        expected, fits = rules[name]
        if not fits(value):
            raise TrainerError(
                text("{path}: {name} = {value}; expected {expected}", path, name, repr(value), expected)
            )
    return lines


def is_whole(value: Any, least: float = 1, most: float = float("inf")) -> bool:
    """Whether it is a whole number within these bounds, and not true or false."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
