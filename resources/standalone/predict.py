"""Predicts with the ONNX file beside it. It needs no flnet: only what requirements.txt lists.

    pip install -r requirements.txt
    python predict.py picture.png another.jpg
    python predict.py rows.csv
    python predict.py inputs.json

It prints a line of JSON for each input. A CSV or TSV file has one input a row, with a first row of column names as in
the training data (columns in any order, others are left out), or numbers alone in the model's order. A JSON file holds
a list of inputs: numbers in lists, or objects by column name. In other programs:

    from predict import Model
    model = Model()
    print(model.predict([[...], ...]))

Shapes, ranges, column names, class names and what the numbers mean are read from the ONNX file's metadata. The ONNX
file scales inputs and fills missing values itself: give it the values as they are, and NaN for a missing one.
"""

from __future__ import annotations

import csv
import json
import math
import sys
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

ABSENT = {"", "?", "NA", "N/A", "NaN", "nan", "NULL", "null", "None"}
PICTURES = {".png", ".jpg", ".jpeg"}
MAX_PIXELS = 40_000_000  # of one picture
BATCH = 256  # inputs at once


class Model:
    """The network, and what its metadata say of its inputs and outputs."""

    def __init__(self, path: str | Path | None = None) -> None:
        """Open this ONNX file; the only one beside this program if none is named."""
        if path is None:
            found = sorted(Path(__file__).resolve().parent.glob("*.onnx"))
            if len(found) != 1:
                raise ValueError(f"expected one ONNX file beside {Path(__file__).name}, found {len(found)}")
            path = found[0]
        self.session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        self.metadata = self.session.get_modelmeta().custom_metadata_map
        self.spec = json.loads(self.metadata["inputs"])
        self.shape = tuple(self.spec["shape"])
        self.names = list(self.spec.get("names") or ())
        self.gaps = bool(self.spec.get("gaps"))
        self.classes = json.loads(self.metadata.get("classes", "[]"))
        self.predicts = self.metadata.get("predicts", "")
        self.threshold = float(self.metadata.get("threshold", 0.5))

    def values(self, inputs: Any) -> np.ndarray:
        """Numbers of the model for inputs (n, *shape): (n, classes) float32."""
        inputs = self._checked(np.asarray(inputs, np.float32))
        name = self.session.get_inputs()[0].name
        parts = [inputs[at : at + BATCH] for at in range(0, len(inputs), BATCH)]
        return np.concatenate([self.session.run(None, {name: part})[0] for part in parts])

    def predict(self, inputs: Any) -> list[dict[str, Any]]:
        """What is predicted for each input: {"predicted": name, or list of names, "values": by class}."""
        return [self._named(row) for row in self.values(inputs).tolist()]

    def rows(self, rows: list[Any]) -> np.ndarray:
        """Inputs (n, columns) of rows: lists of numbers, or objects by column name as in the training data."""
        return np.array([self._row(row, place) for place, row in enumerate(rows, start=1)], np.float32)

    def picture(self, path: str | Path) -> np.ndarray:
        """One input (1, *shape) of a PNG or JPEG file: turned upright, squeezed to the model's size by Lanczos."""
        from PIL import Image, ImageOps  # noqa: PLC0415  tables need none

        if self.spec["kind"] != "image":
            raise ValueError(f"{path}: the model takes {self.spec['kind']} of shape {self.shape}, no pictures")
        height, width = self.shape[:2]
        mode = "RGB" if self.shape[2:] == (3,) else "L"
        with Image.open(path, formats=("JPEG", "PNG")) as opened:
            if opened.width * opened.height > MAX_PIXELS:
                raise ValueError(f"{path}: {opened.width} x {opened.height} pixels; at most {MAX_PIXELS} are read")
            opened.draft(mode, (2 * width, 2 * height))  # a large JPEG need not be decoded at its full size
            upright = ImageOps.exif_transpose(opened)
            if upright.mode.startswith("I"):  # 16 bits a pixel
                upright = Image.fromarray((np.asarray(upright) / 257).clip(0, 255).astype(np.uint8))
            lanczos = Image.Resampling.LANCZOS
            small = upright.convert(mode).resize((width, upright.height), lanczos).resize((width, height), lanczos)
        low, high = self._bounds(0.0, 255.0)
        values = low + (high - low) / 255 * np.asarray(small, np.float32)
        return values.reshape(1, *self.shape).astype(np.float32)

    def read(self, path: str | Path) -> np.ndarray:
        """Inputs (n, *shape) of a file: a picture, CSV, TSV or JSON."""
        path = Path(path)
        ending = path.suffix.lower()
        if ending in PICTURES:
            return self.picture(path)
        if ending == ".json":
            inputs = json.loads(path.read_text("utf-8"))
            return self.rows(inputs) if len(self.shape) == 1 else np.asarray(inputs, np.float32)
        if ending in (".csv", ".tsv"):
            return self.rows(_table(path))
        raise ValueError(f"{path} ends in {ending!r}; expected .csv, .tsv, .json, {', '.join(sorted(PICTURES))}")

    def _bounds(self, low: float, high: float) -> tuple[float, float]:
        given = self.spec.get("low"), self.spec.get("high")
        return low if given[0] is None else given[0], high if given[1] is None else given[1]

    def _checked(self, inputs: np.ndarray) -> np.ndarray:
        if inputs.shape[1:] != self.shape or not len(inputs):
            raise ValueError(f"inputs have shape {inputs.shape}; expected (n, {', '.join(map(str, self.shape))})")
        low, high = self._bounds(-math.inf, math.inf)
        missing = np.isnan(inputs) & self.gaps
        bad = ~missing & ~(np.isfinite(inputs) & (inputs >= low) & (inputs <= high))
        if bad.any():
            place = [int(axis[0]) for axis in np.nonzero(bad)]
            raise ValueError(
                f"input {place[0]} has {inputs[tuple(place)]} at {place[1:]}; expected {low} to {high}"
            )
        return inputs

    def _named(self, row: list[float]) -> dict[str, Any]:
        names = self.classes or [str(place) for place in range(len(row))]
        values = dict(zip(names, row, strict=True))
        if self.predicts == "any_of":
            return {
                "predicted": [name for name, value in values.items() if value >= self.threshold],
                "values": values,
            }
        return {"predicted": names[int(np.argmax(row))], "values": values}

    def _row(self, row: Any, place: int) -> Any:
        if not isinstance(row, dict):
            return row
        cells = {_plain(name): _plain(cell) for name, cell in row.items()}
        return [self._cell(cells, name, place) for name in self.names]

    def _cell(self, cells: dict[str, Any], name: str, place: int) -> float:
        column, equals, word = name.partition("=")
        # "sex=f" is 1 where the column sex has f.
        of_words = name not in cells and equals and column in cells and column not in self.names
        if not of_words and name not in cells:
            raise ValueError(f"row {place} lacks the column {(column if equals else name)!r}")
        cell = cells[column] if of_words else cells[name]
        if cell is None or cell in ABSENT:
            words = self._words(column) if of_words else ()
            if cell not in words and not self.gaps:
                raise ValueError(f"row {place}, column {(column if of_words else name)!r}, has no value")
            if cell not in words:
                return 0.0 if of_words else math.nan
        if of_words:
            return float(self._word(cell, column, place) == word)
        try:
            return float(cell)
        except ValueError:
            raise ValueError(f"row {place}, column {name!r}, is {cell!r}; expected a number") from None

    def _words(self, column: str) -> list[str]:
        return [name.partition("=")[2] for name in self.names if name.startswith(f"{column}=")]

    def _word(self, cell: Any, column: str, place: int) -> str:
        words = self._words(column)
        if cell in words:
            return cell
        alike = [word for word in words if _number(word) is not None and _number(word) == _number(cell)]
        if not alike:
            raise ValueError(
                f"row {place}, column {column!r}, is {cell!r}; expected one of {', '.join(words[:8])}"
            )
        return alike[0]


def _plain(value: Any) -> Any:
    return unicodedata.normalize("NFC", value).strip() if isinstance(value, str) else value


def _number(cell: Any) -> float | None:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return None


def _table(path: Path) -> list[Any]:
    """Rows of a CSV file, with commas, semicolons or tabs between: lists of numbers, or objects by column name."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        first = file.readline()
        file.seek(0)
        lines = [line for line in csv.reader(file, delimiter=max(",;\t", key=first.count)) if line]
    if not lines or all(_number(cell) is not None for cell in lines[0]):
        return [[float(cell) for cell in line] for line in lines]
    names = lines.pop(0)
    for place, line in enumerate(lines, start=1):
        if len(line) != len(names):
            raise ValueError(f"row {place} has {len(line)} cells; the first row names {len(names)} columns")
    return [dict(zip(names, line, strict=True)) for line in lines]


def main(paths: list[str]) -> int:
    """Predict the inputs of these files, one line of JSON each."""
    if not paths or paths[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if paths else 2
    try:
        model = Model()
        for path in paths:
            for place, answer in enumerate(model.predict(model.read(path)), start=1):
                print(json.dumps({"file": Path(path).name, "input": place, **answer}))
    except (OSError, ValueError) as exc:
        print(f"predict.py: {exc}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
