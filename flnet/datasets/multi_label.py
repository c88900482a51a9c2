"""Multi-label data sets: rows with several labels each, read from ARFF, CSV or .npz.

Read are Mulan's ARFF with its list of labels in XML, MEKA's ARFF with `-C n` in the relation's name, CSV with a header,
and .npz (`X`, or `X_data`, `X_indices`, `X_indptr`, `X_shape` of compressed rows; `Y`; `label_names`).
ARFF is read by arff.py. Labels may also be `{no,yes}` or `{false,true}` there.
"""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ET
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from flnet.datasets.arff import Arff, read_arff
from flnet.datasets.labelled import UNREADABLE, Matrix, SparseRows, dense_rows, open_npz, pick_columns, read_npz
from flnet.datasets.tables import (
    LONGEST_ROW,
    ColumnSpec,
    OnBadRows,
    RowBuilder,
    Table,
    check_width,
    composed,
    csv_rows,
    gather,
    near,
    shown,
)
from flnet.errors import TrainerError
from flnet.params.params import Array
from flnet.text import text

_NO_AND_YES = ({"no", "yes"}, {"false", "true"})  # the values of labels in words

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
        nominal: those of `features` that stand for a value of a nominal attribute: 1 or 0.
    """

    x: Matrix
    y: Array
    labels: tuple[str, ...]
    features: tuple[str, ...]
    skipped: str = ""
    nominal: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.y.ndim != 2 or len(self.y) != self.x.shape[0] or self.y.shape[1] != len(self.labels):
            raise TrainerError(
                text(
                    "{rows} rows came with labels of shape {shape} and with {count} names of labels; "
                    "expected one row of labels each, and one name each",
                    self.x.shape[0],
                    list(self.y.shape),
                    len(self.labels),
                )
            )

        if len(self.features) != self.x.shape[1]:
            raise TrainerError(
                text("{columns} columns came with {count} names of features", self.x.shape[1], len(self.features))
            )

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
        labels_xml: Mulan's list of labels; by default the .xml file with the name of the ARFF file.
        ignore: columns that are neither feature nor label, an identity number for instance; they may hold anything.
        on_bad_rows: "stop" raises at the first one, "skip" leaves them out and counts them in `skipped`.

    Raises:
        TrainerError: the file is not there or damaged, a row is bad, or it does not say what is a label.
    """
    if path.suffix == ".npz":
        return _without(path, _from_npz(path), ignore)
    stated: LabelColumns | None = None
    nominal: Sequence[ColumnSpec] = ()
    if path.suffix == ".csv":
        table = _read_csv(path, ignore, on_bad_rows)
        names = table.names
    elif path.suffix == ".arff":
        arff = read_arff(path, on_bad_rows, ignore)
        _check_ignored(path, [column.name for column in arff.columns], ignore)
        table, stated = arff.table, _meka_labels(path, arff)
        names = tuple(column.name for column in arff.columns if not column.is_ignored)
        nominal = [column for column in arff.columns if column.words]
        beside = path.with_suffix(".xml")
        if labels_xml is None and label_columns is None and beside.is_file():
            labels_xml = beside
    else:
        raise TrainerError(text("{path} is no file of a known kind: expected .arff, .csv or .npz", path))
    if labels_xml is not None:
        listed = [name for name in _names_in_xml(labels_xml) if name not in ignore]
        return _divided(path, table, listed, nominal)
    columns = stated if label_columns is None else label_columns
    if columns is None:
        how = text("put Mulan's .xml into the same folder, or name the columns in label_columns")
        raise TrainerError(text("{path} does not say which columns are labels: {reason}", path, how))
    return _divided(path, table, _label_names(path, names, columns), nominal)


def _meka_labels(path: Path, arff: Arff) -> tuple[str, ...] | None:
    """The labels by MEKA's `-C n`, which counts ignored attributes too; None if the file has none."""
    count = arff.meka_labels
    if count is None:
        return None
    ignored = {column.name for column in arff.columns if column.is_ignored}
    names = _label_names(path, tuple(column.name for column in arff.columns), count)
    return tuple(name for name in names if name not in ignored)


def _check_ignored(path: Path, names: Sequence[str], ignore: Collection[str]) -> None:
    """Refuse to ignore what is not there: a column that is misspelt would be a feature.

    Raises:
        TrainerError: one of these columns is not there.
    """
    if absent := [name for name in ignore if name not in names]:
        raise TrainerError(
            text("{path} has no column {names} to ignore; {words}", path, shown(absent), near(absent, names))
        )


def _without(path: Path, data: MultiLabel, ignore: Collection[str]) -> MultiLabel:
    """The same without some of the features."""
    _check_ignored(path, data.features, ignore)
    if not ignore:
        return data
    kept = np.array([j for j, name in enumerate(data.features) if name not in ignore], np.int64)
    names = tuple(data.features[j] for j in kept)
    return replace(data, x=pick_columns(data.x, kept), features=names)


def _from_npz(path: Path) -> MultiLabel:
    try:
        with open_npz(path) as file:
            sparse = "X_data" in file.files
            unnamed = "feature_names" not in file.files
    except UNREADABLE as exc:
        raise TrainerError(text("{path} cannot be read as an .npz file: {reason}", path, exc)) from exc
    if sparse:
        data, indices, indptr, shape, y, names = read_npz(
            path, ("X_data", "X_indices", "X_indptr", "X_shape", "Y", "label_names")
        )
        if shape.shape != (2,):
            raise TrainerError(text("{path}: X_shape is {shape}; expected rows and columns", path, shape.tolist()))
        x: Matrix = SparseRows(
            data, indices.astype(np.int64), indptr.astype(np.int64), (int(shape[0]), int(shape[1]))
        )
        numbers = data
    else:
        x, y, names = read_npz(path, ("X", "Y", "label_names"))
        numbers = x
    if len(x.shape) != 2 or numbers.dtype.kind not in "fiub" or not np.isfinite(numbers).all():
        raise TrainerError(
            text(
                "{path}: X is {dtype} {shape}; expected a table of finite numbers",
                path,
                numbers.dtype,
                list(x.shape),
            )
        )
    check_width(x.shape[1], str(path))  # a file of few bytes may state any number
    if not np.isin(y, (0, 1)).all():  # before the cast: 256 would become 0
        raise TrainerError(text("{path}: Y has other values than 0 and 1", path))
    features = np.arange(x.shape[1]) if unnamed else read_npz(path, ("feature_names",))[0]
    return MultiLabel(x, y.astype(np.uint8), _texts(path, names), _texts(path, features))


def _texts(path: Path, names: Array) -> tuple[str, ...]:
    return tuple(composed(str(name), str(path)) for name in names.reshape(-1))


def _read_csv(path: Path, ignore: tuple[str, ...], on_bad_rows: OnBadRows) -> Table:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv_rows(path, file)
            header = [name.strip() for name in next(rows, (1, []))[1]]
            check_width(len(header), text("{path}, line {line}", path, 1))
            if not header or len(set(header)) != len(header) or not all(header):
                got = ", ".join(header)[:80] or text("nothing")
                raise TrainerError(
                    text("{path}, line 1: expected a header of different names, got {value}", path, got)
                )
            _check_ignored(path, header, ignore)
            builder = RowBuilder([ColumnSpec(name, is_ignored=name in ignore) for name in header])
            return gather(path, builder, (row for row in rows if row[1]), builder.add_dense, on_bad_rows)
    except (csv.Error, UnicodeDecodeError) as exc:
        raise TrainerError(text("{path} is not CSV text in UTF-8: {reason}", path, exc)) from exc
    except OSError as exc:
        raise TrainerError(text("{path} cannot be read: {reason}", path, exc)) from exc


def _label_names(path: Path, names: tuple[str, ...], columns: LabelColumns) -> list[str]:
    """The labels, in the order in which the source names them."""
    if isinstance(columns, int):
        if not 0 < abs(columns) < len(names):
            raise TrainerError(
                text("{path}: {count} of {number} columns cannot be the labels", path, columns, len(names))
            )
        return list(names[:columns] if columns > 0 else names[columns:])
    if isinstance(columns, str):
        labels = [name for name in names if name.startswith(columns)]
        if not labels:
            raise TrainerError(text("{path}: no column begins with {name}", path, repr(columns)))
        return labels
    return list(columns)


def _names_in_xml(path: Path) -> list[str]:
    try:
        if path.stat().st_size > LONGEST_ROW:
            raise TrainerError(
                text("{path} has more than {most} bytes; no list of labels is so long", path, f"{LONGEST_ROW:,}")
            )
        xml = path.read_text("utf-8")
        if "<!" in xml.replace("<!--", ""):
            raise TrainerError(text("{path}: declarations (<!...>) are not read", path))
        root = ET.fromstring(xml)  # noqa: S314  without declarations it can expand nothing
    except (OSError, UnicodeDecodeError, ET.ParseError) as exc:
        raise TrainerError(text("{path} cannot be read as Mulan's list of labels: {reason}", path, exc)) from exc
    names = [
        composed(str(node.get("name")), str(path))
        for node in root.iter()
        if node.tag.rpartition("}")[2] == "label" and node.get("name")
    ]
    if not names:
        raise TrainerError(text('{path} lists no labels: expected <labels><label name="..."/> ...</labels>', path))
    return names


def _stated_by(path: Path, label: ColumnSpec) -> str:
    """The column of a label in words that is 1 where a row has the label.

    Raises:
        TrainerError: its values do not say which of them that is.
    """
    for words, column in zip(label.words, label.inputs, strict=True):
        if {value.lower() for value in label.words} in _NO_AND_YES and words.lower() in ("yes", "true"):
            return column
    raise TrainerError(
        text(
            "{path}: label {name} has the values {values}; expected 0 and 1, no and yes, or false and true",
            path,
            repr(label.name),
            shown(label.words),
        )
    )


def _divided(path: Path, table: Table, labels: list[str], nominal: Sequence[ColumnSpec]) -> MultiLabel:
    """Labels to the one side, features to the other."""
    in_words = {column.name: column for column in nominal if column.name in labels}
    stated = [_stated_by(path, in_words[name]) if name in in_words else name for name in labels]
    at = table.numbers_of(stated, str(path))
    both = table.numbers_of([name for column in in_words.values() for name in column.inputs], str(path))
    unused = {*at.tolist(), *both.tolist()}
    features = np.array([j for j in range(len(table.names)) if j not in unused], np.int64)
    if not features.size:
        raise TrainerError(
            text("{path}: all {count} columns are labels; none is left to learn from", path, len(table.names))
        )
    y = dense_rows(pick_columns(table.values, at), np.arange(table.values.shape[0]))
    wrong = np.flatnonzero(~np.isin(y, (0, 1)).all(axis=0))
    if wrong.size:
        raise TrainerError(
            text("{path}: label {name} has other values than 0 and 1", path, repr(labels[wrong[0]]))
        )
    skipped = (
        text("skipped rows: {count}; the first because {reason}", table.skipped, table.first_skipped)
        if table.skipped
        else ""
    )
    names = tuple(table.names[j] for j in features)
    kept = frozenset(name for column in nominal if column.name not in in_words for name in column.inputs)
    x = pick_columns(table.values, features)
    return MultiLabel(x, y.astype(np.uint8), tuple(labels), names, skipped, kept)
