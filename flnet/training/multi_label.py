"""Rows with several labels each, from the files in which such data are published.

Read are Mulan's ARFF with its list of labels in XML, MEKA's ARFF with `-C n` in the relation's name, CSV with
a header, and .npz (`X`, or `X_data`, `X_indices`, `X_indptr`, `X_shape` of compressed rows; `Y`; `label_names`).
"""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ET
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flnet.errors import TrainerError
from flnet.params import Array
from flnet.training.arff import read_arff
from flnet.training.data import read_npz
from flnet.training.matrix import Matrix, SparseRows, dense_rows, pick_columns
from flnet.training.table import BadRow, Column, OnBadRows, RowBuilder, Table, gather

# Names; the beginning of names; or how many columns, the first ones, or the last ones if below 0.
LabelColumns = tuple[str, ...] | str | int


@dataclass(frozen=True)
class MultiLabel:
    """Rows and their labels.

    Attributes:
        x: features, rows x columns.
        y: 0 or 1, uint8, rows x labels.
        labels: names of the labels.
        features: names of the columns of x.
        skipped: in words, which rows of the file were left out; empty if none.
    """

    x: Matrix
    y: Array
    labels: tuple[str, ...]
    features: tuple[str, ...]
    skipped: str = ""

    def __post_init__(self) -> None:
        if self.y.ndim != 2 or len(self.y) != self.x.shape[0] or self.y.shape[1] != len(self.labels):
            raise TrainerError(
                f"{self.x.shape[0]} rows came with labels of shape {list(self.y.shape)} and with "
                f"{len(self.labels)} names of labels; expected one row of labels each, and one name each"
            )

        if len(self.features) != self.x.shape[1]:
            raise TrainerError(f"{self.x.shape[1]} columns came with {len(self.features)} names of features")

    def __len__(self) -> int:
        return len(self.y)


def read_multi_label(
    path: Path,
    *,
    label_columns: LabelColumns | None = None,
    labels_xml: Path | None = None,
    ignore: tuple[str, ...] = (),
    on_bad_rows: OnBadRows = "stop",
) -> MultiLabel:
    """The rows and labels in a file whose kind its name tells: .arff, .csv or .npz.

    Args:
        path: the file.
        label_columns: which columns are labels; needed for CSV, and for ARFF with neither XML nor `-C n`.
        labels_xml: Mulan's list of labels; beside an ARFF file the .xml of the same name is taken.
        ignore: columns that are neither feature nor label, an identity number for instance.
        on_bad_rows: "stop" raises at the first one, "skip" leaves them out and counts them in `skipped`.

    Raises:
        TrainerError: the file is not there or damaged, a row is bad, or it does not say what is a label.
    """
    if path.suffix == ".npz":
        return _from_npz(path)
    if path.suffix == ".csv":
        table, meka = _read_csv(path, ignore, on_bad_rows), None
    elif path.suffix == ".arff":
        arff = read_arff(path, on_bad_rows)
        table, meka = arff.table, arff.meka_labels
        beside = path.with_suffix(".xml")
        if labels_xml is None and label_columns is None and beside.is_file():
            labels_xml = beside
    else:
        raise TrainerError(f"{path} is no file of a known kind: expected .arff, .csv or .npz")
    if labels_xml is not None:
        return _divided(path, table, _names_in_xml(labels_xml), ignore)
    columns = meka if label_columns is None else label_columns
    if columns is None:
        how = "put Mulan's .xml beside it, or name them in label_columns"
        raise TrainerError(f"{path} does not say which columns are labels: {how}")
    return _divided(path, table, _label_names(path, table.names, columns), ignore)


def _from_npz(path: Path) -> MultiLabel:
    try:
        # Opened here: numpy leaves a file open whose zip is broken.
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            sparse = "X_data" in file.files
            unnamed = "feature_names" not in file.files
    except (OSError, ValueError, EOFError, TypeError, AttributeError, zipfile.BadZipFile) as exc:
        raise TrainerError(f"{path} cannot be read as an .npz file: {exc}") from exc
    if sparse:
        data, indices, indptr, shape, y, names = read_npz(
            path, ("X_data", "X_indices", "X_indptr", "X_shape", "Y", "label_names")
        )
        if shape.shape != (2,):
            raise TrainerError(f"{path}: X_shape is {shape.tolist()}; expected rows and columns")
        x: Matrix = SparseRows(
            data, indices.astype(np.int64), indptr.astype(np.int64), (int(shape[0]), int(shape[1]))
        )
        numbers = data
    else:
        x, y, names = read_npz(path, ("X", "Y", "label_names"))
        numbers = x
    if len(x.shape) != 2 or numbers.dtype.kind not in "fiub" or not np.isfinite(numbers).all():
        raise TrainerError(f"{path}: X is {numbers.dtype} {list(x.shape)}; expected a table of finite numbers")
    if not np.isin(y, (0, 1)).all():  # before the cast: 256 would become 0
        raise TrainerError(f"{path}: Y has other values than 0 and 1")
    features = np.arange(x.shape[1]) if unnamed else read_npz(path, ("feature_names",))[0]
    return MultiLabel(x, y.astype(np.uint8), _texts(names), _texts(features))


def _texts(names: Array) -> tuple[str, ...]:
    return tuple(str(name) for name in names.reshape(-1))


def _read_csv(path: Path, ignore: tuple[str, ...], on_bad_rows: OnBadRows) -> Table:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, strict=True)
            header = [name.strip() for name in next(lines, [])]
            if not header or len(set(header)) != len(header) or not all(header):
                got = ", ".join(header)[:80] or "nothing"
                raise TrainerError(f"{path}, line 1: expected a header of different names, got {got}")
            kept = [j for j, name in enumerate(header) if name not in ignore]
            builder = RowBuilder([Column(header[j]) for j in kept])

            def add(cells: list[str], where: str) -> None:
                if len(cells) != len(header):
                    raise BadRow(f"{where}: {len(cells)} values for {len(header)} columns")
                builder.add_dense([cells[j] for j in kept], where)

            rows = ((lines.line_num, cells) for cells in lines if cells)
            return gather(path, builder, rows, add, on_bad_rows)
    except (csv.Error, UnicodeDecodeError) as exc:
        raise TrainerError(f"{path} is not CSV text in UTF-8: {exc}") from exc
    except OSError as exc:
        raise TrainerError(f"{path} cannot be read: {exc}") from exc


def _label_names(path: Path, names: tuple[str, ...], columns: LabelColumns) -> list[str]:
    """The labels, in the order in which the source names them."""
    if isinstance(columns, int):
        if not 0 < abs(columns) < len(names):
            raise TrainerError(f"{path}: {columns} of {len(names)} columns cannot be the labels")
        return list(names[:columns] if columns > 0 else names[columns:])
    if isinstance(columns, str):
        found = [name for name in names if name.startswith(columns)]
        if not found:
            raise TrainerError(f"{path}: no column begins with {columns!r}")
        return found
    return list(columns)


def _names_in_xml(path: Path) -> list[str]:
    try:
        text = path.read_text("utf-8")
        if "<!" in text.replace("<!--", ""):
            raise TrainerError(f"{path}: declarations (<!...>) are not read")
        root = ET.fromstring(text)  # noqa: S314  without declarations it can expand nothing
    except (OSError, UnicodeDecodeError, ET.ParseError) as exc:
        raise TrainerError(f"{path} cannot be read as Mulan's list of labels: {exc}") from exc
    names = [
        str(node.get("name"))
        for node in root.iter()
        if node.tag.rpartition("}")[2] == "label" and node.get("name")
    ]
    if not names:
        raise TrainerError(f'{path} lists no labels: expected <labels><label name="..."/> ...</labels>')
    return names


def _divided(path: Path, table: Table, labels: list[str], ignore: tuple[str, ...]) -> MultiLabel:
    """Labels to the one side, features to the other."""
    at = table.numbers_of(labels, str(path))
    unused = {*at.tolist(), *(j for j, name in enumerate(table.names) if name in ignore)}
    features = np.array([j for j in range(len(table.names)) if j not in unused], np.int64)
    if not features.size:
        raise TrainerError(f"{path}: all {len(table.names)} columns are labels; none is left to learn from")
    y = dense_rows(pick_columns(table.values, at), np.arange(table.values.shape[0]))
    wrong = np.flatnonzero(~np.isin(y, (0, 1)).all(axis=0))
    if wrong.size:
        raise TrainerError(f"{path}: label {labels[wrong[0]]!r} has other values than 0 and 1")
    skipped = (
        f"{table.skipped} rows were skipped, the first because {table.first_skipped}" if table.skipped else ""
    )
    names = tuple(table.names[j] for j in features)
    return MultiLabel(pick_columns(table.values, features), y.astype(np.uint8), tuple(labels), names, skipped)
