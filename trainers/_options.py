"""What a person may write into a file of options beside a data set: one way to read it for all trainers."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flnet.training.api import TrainerError

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
        raise TrainerError(f"{path} cannot be read: {exc}") from exc
    for name, value in lines.items():
        if name not in rules:
            raise TrainerError(f"{path}: {name} is no option; expected {', '.join(rules)}")
        expected, fits = rules[name]
        if not fits(value):
            raise TrainerError(f"{path}: {name} = {value!r}; expected {expected}")
    return lines


def is_whole(value: Any, least: int = 1, most: float = float("inf")) -> bool:
    """Whether it is a whole number within these bounds, and not true or false."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
