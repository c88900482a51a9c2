"""A file of inputs as the question that a node is asked: JSON, CSV, NumPy arrays, PNG and JPEG pictures."""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["SUFFIXES", "question_of"]

MAX_BYTES = 12 * 1024 * 1024  # a node takes no more


def question_of(path: Path) -> dict[str, Any]:
    """The body of POST /jobs/{trainer}/predict, without the digest.

    Raises:
        ValueError: the file cannot be read, or is not what its ending says.
    """
    read = SUFFIXES.get(path.suffix.lower())
    if read is None:
        raise ValueError(f"{path} ends in {path.suffix or 'nothing'!r}; expected {', '.join(SUFFIXES)}")
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ValueError(f"{path} has {size} bytes; a node takes at most {MAX_BYTES}")
        question = read(path)
        json.dumps(question, allow_nan=False)
    except OSError as exc:
        raise ValueError(f"{path} cannot be read: {exc.strerror or exc}") from exc
    except (ValueError, EOFError, RecursionError) as exc:
        raise ValueError(f"{path} holds no usable inputs: {exc}") from exc
    return question


def _json(path: Path) -> dict[str, Any]:
    data = json.loads(path.read_text(encoding="utf-8"))
    return data if isinstance(data, dict) else {"inputs": data}


def _npy(path: Path) -> dict[str, Any]:
    import numpy as np  # noqa: PLC0415  other kinds of files need none

    return {"inputs": np.load(path, allow_pickle=False).tolist()}


def _picture(path: Path) -> dict[str, Any]:
    return {"image": base64.b64encode(path.read_bytes()).decode("ascii")}


def _csv(path: Path) -> dict[str, Any]:
    """Numbers with commas between; a first line that holds something else names the columns."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = [line for line in csv.reader(file) if line]
    names = None if not lines or _is_numbers(lines[0]) else [name.strip() for name in lines.pop(0)]
    rows = [_numbers(line, number) for number, line in enumerate(lines, start=1 if names is None else 2)]
    if names is None:
        return {"inputs": rows}
    return {"inputs": [_named(names, row, number) for number, row in enumerate(rows, start=2)]}


def _named(names: list[str], row: list[float], number: int) -> Mapping[str, float]:
    if len(names) != len(row):
        raise ValueError(f"line {number} has {len(row)} values for {len(names)} columns")
    return dict(zip(names, row, strict=True))


def _numbers(line: list[str], number: int) -> list[float]:
    try:
        return [float(cell) for cell in line]
    except ValueError as exc:
        raise ValueError(f"line {number}: {exc}") from exc


def _is_numbers(line: list[str]) -> bool:
    try:
        _numbers(line, 1)
    except ValueError:
        return False
    return True


SUFFIXES: Mapping[str, Callable[[Path], dict[str, Any]]] = {
    ".json": _json,
    ".csv": _csv,
    ".npy": _npy,
    ".png": _picture,
    ".jpg": _picture,
    ".jpeg": _picture,
}
