"""Finished cells as lines of JSON in the output folder: what was begun and broken off goes on where it was.

A line is written whole and synced before the next cell is counted as done; a line that a power cut tore is passed
over. A cell that gave no numbers is kept with its reason, for the report, and tried again the next time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import Field, ValidationError

from flnet.errors import LocalError
from flnet.experiments.base import Cell, Outcome, Record

FILE = "cells.jsonl"


class Result(Record):
    """A cell and what came of it."""

    key: str = Field(pattern=r"^[0-9a-f]{64}$")
    cell: Cell
    outcome: Outcome


class Results:
    """The cells that are done, by key."""

    def __init__(self, folder: Path) -> None:
        """Read what an earlier run left in this folder; it is made.

        Raises:
            LocalError: it cannot be made or read.
        """
        self.path = folder / FILE
        self._found: dict[str, Outcome] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            text = self.path.read_text("utf-8", "replace") if self.path.exists() else ""
        except OSError as exc:
            raise LocalError(f"results cannot be kept in {folder}: {exc}") from exc
        self._is_torn = bool(text) and not text.endswith("\n")
        for line in text.splitlines():
            if (result := _read(line)) is not None:
                self._found[result.key] = result.outcome

    def __len__(self) -> int:
        return len(self._found)

    def get(self, cell: Cell) -> Outcome | None:
        """What came of a cell; None if it was never run."""
        return self._found.get(cell.key)

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """The cells that have no numbers yet, each key once."""
        todo: dict[str, Cell] = {}
        for cell in cells:
            there = self.get(cell)
            if there is None or there.reason:
                todo.setdefault(cell.key, cell)
        return list(todo.values())

    def add(self, done: Sequence[tuple[Cell, Outcome]]) -> None:
        """Keep what came of these cells; all of it is on the disk when this returns.

        Raises:
            LocalError: the disk is full or gone.
        """
        results = [Result(key=cell.key, cell=cell, outcome=outcome) for cell, outcome in done]
        lines = "".join(json.dumps(result.model_dump(mode="json")) + "\n" for result in results)
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write("\n" + lines if self._is_torn else lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError as exc:
            raise LocalError(f"results cannot be written to {self.path}: {exc}") from exc
        self._is_torn = False
        self._found |= {result.key: result.outcome for result in results}


def _read(line: str) -> Result | None:
    """A result, or None where the line is torn, or is of another key than its cell has by now."""
    try:
        result = Result.model_validate_json(line)
    except ValidationError:
        return None
    return result if result.key == result.cell.key else None
