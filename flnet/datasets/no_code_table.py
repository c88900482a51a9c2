"""Data of a no-code trainer of kind "table": rows are checked cell by cell, split once, and standardised.

Every error names the file and the line.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from flnet.datasets.labelled import Labelled, Rows, fingerprint
from flnet.datasets.no_code import CHECKSUM_SHOWN, OwnLabels, OwnTable, counted, words_on_common_test
from flnet.datasets.samples import is_sample
from flnet.datasets.split import (
    SIDES,
    dealt_counts,
    grouped_split,
    how_to_split_anew,
    own_grouped,
    own_rows,
    split_by_folders,
    stored_split,
    with_partition,
    words_on_kept,
)
from flnet.datasets.tables import ABSENT, BadRow, ColumnSpec, check_values, shown
from flnet.datasets.text_rows import text_rows
from flnet.errors import DataMissing, TrainerError
from flnet.labels.losses import Labels
from flnet.params.params import Array
from flnet.text import joined, text
from flnet.trainer import DataInfo, TrainerSettings

_MOST_CLASSES = 1000
_BANDS = 10  # of a regression's target, so that its split is as even as one by class
_NAN = float("nan")


class Missing(BadRow):
    """A row with a cell that has no value."""


@dataclass(frozen=True)
class LabelledTable:
    """The usable rows of a file.

    Attributes:
        features: names, sorted, so that the order of columns need not be alike on all nodes.
        x: float32 (n, inputs): numbers as they stand there, NaN where one is missing; categories one-hot.
        scales: for each input (mean, spread); (0, 1) for categories, NaN where the node's own are to be taken.
        y: class numbers, int64, or the target in units of target_scale, float32; -1 for a row that carries only a
            label of the node's own space.
        classes: names of the classes; empty for regress.
        groups: what each row belongs to, by the id column; empty without one.
        note: for people: what was left out.
        coarse: class numbers in the node's own space, -1 for none; None where nodes label alike.
        by_label: what rows are dealt and split by; None where that is y.
        others: the columns that are no features.
        parts: the side of each row, by the column `split_by`; empty without one.
    """

    features: tuple[str, ...]
    x: Array
    scales: Array
    y: Array
    classes: tuple[str, ...]
    groups: tuple[str, ...]
    note: str
    coarse: Labels | None = None
    by_label: Labels | None = None
    others: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()

    @property
    def kinds(self) -> Array:
        """The stratum of each row for the split: its class, or the decile of its target."""
        if self.by_label is not None:
            return self.by_label
        if self.classes:
            return self.y
        return np.searchsorted(np.quantile(self.y, np.linspace(0, 1, _BANDS + 1)[1:-1]), self.y)


def read_table(path: Path, own: OwnTable, labels: OwnLabels | None = None) -> LabelledTable:
    """Read the rows of a file and check every cell.

    Args:
        labels: what words may stand as labels where nodes label differently; None where they do not.

    Raises:
        DataMissing: pyarrow is needed and not installed.
        TrainerError: the header or a cell is not as agreed.
    """
    with text_rows(path, "\t" if own.separator == "tab" else own.separator) as text:
        reader = _TableReader(path, own, text.header, labels)
        for where, cells in text.rows:
            reader.take(where, cells)
    return reader.table()


@dataclass
class _TableReader:
    path: Path
    own: OwnTable
    header: tuple[str, ...]
    labels: OwnLabels | None = None
    x: array[float] = field(default_factory=lambda: array("f"))
    targets: list[str | float] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)  # sides, by the column split_by
    beside: list[str] = field(default_factory=list)  # labels of the node's own space
    skipped: int = 0
    first_skipped: str = ""
    filled: int = 0

    def __post_init__(self) -> None:
        own = self.own
        spoken_for = {own.target, own.id, own.coarse, own.split_by, *(own.ignore or [])}
        others = [name for name in self.header if name not in spoken_for]
        self.features = tuple(sorted(own.features or others))
        _check_header(self.path, own, self.header, self.features)
        self._size = self.path.stat().st_size
        self._absent = ABSENT.union(own.no_value)
        self._at = {name: place for place, name in enumerate(self.header)}
        self._cells = [(self._at[name], self._read(name)) for name in self.features]
        self.unused = [name for name in others if name not in self.features]

    def take(self, where: str, cells: list[str]) -> None:
        """Add a row.

        Raises:
            BadRow: it cannot be used, and is not to be skipped.
            TrainerError: with it, the rows stand for too many values.
        """
        if len(cells) != len(self.header):
            raise BadRow(text("{where}: {count} values for {number} columns", where, len(cells), len(self.header)))
        try:
            target, beside = self._target(cells, where), self._beside(cells, where)
            group, part = self._group(cells, where), self._part(cells, where)
            if not target and not beside and self.labels is not None:
                raise Missing(text("{where}: the label {name} has no value", where, self._label_columns))
            x = [number for place, read in self._cells for number in read(cells[place].strip(), where)]
        except Missing as exc:
            if self.own.missing == "stop":
                raise BadRow(text('{reason}; fill it in, or set missing = "skip" or "mean"', exc)) from exc
            self.skipped, self.first_skipped = self.skipped + 1, self.first_skipped or str(exc)
            return
        self.x.extend(x)
        check_values(len(self.x) + len(self.targets), where, self._size)
        self.targets.append(target)
        self.beside.append(beside)
        self.groups.append(group)
        self.parts.append(part)

    def table(self) -> LabelledTable:
        """The table of all added rows.

        Raises:
            TrainerError: there are none, or fewer than two classes.
        """
        if not self.targets:
            why = (
                text(" that can be used: {reason}", self.first_skipped)
                if self.skipped
                else text(" below its header")
            )
            raise TrainerError(text("{path} has no rows{why}", self.path, why))
        x = np.array(self.x, np.float32).reshape(len(self.targets), -1)
        groups = tuple(self.groups) if self.own.id else ()
        parts = tuple(self.parts) if self.own.split_by else ()
        others = tuple(name for name in self.header if name not in self.features)
        if self.labels is None:
            y, classes = self._numbered()
            note = self._note(y, classes)
            scales = self._scales()
            return LabelledTable(self.features, x, scales, y, classes, groups, note, others=others, parts=parts)
        y, coarse = self.labels.numbers(map(str, self.targets), self.beside)
        kinds, classes = self.labels.kinds(y, coarse), self.labels.desired
        note = self._note(y, ())
        return LabelledTable(
            self.features, x, self._scales(), y, classes, groups, note, coarse, kinds, others, parts
        )

    def _read(self, name: str) -> Callable[[str, str], Sequence[float]]:
        """The function that turns a cell of this column into inputs."""
        allowed = self.own.categories.get(name)
        if allowed is None:
            column = ColumnSpec(name)

            def number(cell: str, where: str) -> Sequence[float]:
                if cell in self._absent:
                    return [self._fill(name, cell, where)]
                try:
                    return [column.number(self._pointed(cell), where)]
                except BadRow as exc:
                    raise BadRow(
                        text("{reason}, or the values of {name} listed under [categories]", exc, name)
                    ) from exc

            return number
        places = {cell: i for i, cell in enumerate(allowed)}

        def category(cell: str, where: str) -> Sequence[float]:
            if cell not in places and cell in self._absent:
                self._fill(name, cell, where)
            elif cell not in places:
                raise BadRow(
                    text(
                        "{where}: {name} is {value}; expected one of {expected}",
                        where,
                        repr(name),
                        repr(cell[:40]),
                        shown(allowed),
                    )
                )
            return [float(i == places.get(cell)) for i in range(len(allowed))]

        return category

    def _pointed(self, cell: str) -> str:
        """A cell with a decimal point, whatever the file has."""
        return cell.replace(",", ".") if self.own.decimal == "," else cell

    def _fill(self, name: str, cell: str, where: str) -> float:
        if self.own.missing != "mean":
            raise Missing(
                text("{where}: {name} has no value ({value})", where, repr(name), cell or text("an empty cell"))
            )
        self.filled += 1
        return _NAN

    @property
    def _label_columns(self) -> str:
        return " / ".join(repr(name) for name in (self.own.target, self.own.coarse) if name in self._at)

    def _label(self, name: str | None, allowed: tuple[str, ...], cells: list[str], where: str) -> str:
        """A label of these classes, or nothing: where nodes label differently, a row may lack one kind of label."""
        cell = cells[self._at[name]].strip() if name in self._at else ""
        if cell in self._absent and cell not in allowed:
            return ""
        if cell not in allowed:
            raise BadRow(
                text(
                    "{where}: the label {name} is {value}; expected one of {expected}",
                    where,
                    repr(name),
                    repr(cell[:40]),
                    shown(allowed),
                )
            )
        return cell

    def _beside(self, cells: list[str], where: str) -> str:
        if self.labels is None or not self.labels.own:
            return ""
        return self._label(self.own.coarse, self.labels.own, cells, where)

    def _target(self, cells: list[str], where: str) -> str | float:
        if self.labels is not None:
            return self._label(self.own.target, self.labels.words, cells, where)
        name, cell = self.own.target, cells[self._at[self.own.target]].strip()
        if cell in self._absent and cell not in (self.own.classes or ()):
            raise Missing(
                text(
                    "{where}: the target {name} has no value ({value})",
                    where,
                    repr(name),
                    cell or text("an empty cell"),
                )
            )
        if self.own.target_scale is not None:
            return ColumnSpec(name).number(self._pointed(cell), where)
        if self.own.classes is not None and cell not in self.own.classes:
            raise BadRow(
                text(
                    "{where}: the target {name} is {value}; expected one of {expected}",
                    where,
                    repr(name),
                    repr(cell[:40]),
                    shown(self.own.classes),
                )
            )
        return cell

    def _group(self, cells: list[str], where: str) -> str:
        cell = cells[self._at[self.own.id]].strip() if self.own.id else ""
        if self.own.id and cell in self._absent:
            raise Missing(
                text(
                    "{where}: the id {name} has no value ({value})",
                    where,
                    repr(self.own.id),
                    cell or text("an empty cell"),
                )
            )
        return cell

    def _part(self, cells: list[str], where: str) -> str:
        if self.own.split_by is None:
            return ""
        cell = cells[self._at[self.own.split_by]].strip()
        if cell not in SIDES:
            raise BadRow(
                text(
                    "{where}: {name} is {value}; expected one of {expected}",
                    where,
                    repr(self.own.split_by),
                    repr(cell[:40]),
                    ", ".join(SIDES),
                )
            )
        return SIDES[cell]

    def _numbered(self) -> tuple[Array, tuple[str, ...]]:
        if self.own.target_scale is not None:
            mean, spread = self.own.target_scale
            return ((np.array(self.targets, np.float64) - mean) / spread).astype(np.float32), ()
        present = sorted({str(target) for target in self.targets})
        classes = tuple(self.own.classes or present)
        if not 2 <= len(classes) <= _MOST_CLASSES:
            rule = text("expected 2 to {most} classes", _MOST_CLASSES)
            hint = text('list them under classes, or set task = "regress"')
            raise TrainerError(
                text(
                    "{path}: {name} has {value} values; {rule}: {how}",
                    self.path,
                    repr(self.own.target),
                    len(classes),
                    rule,
                    hint,
                )
            )
        numbers = {name: i for i, name in enumerate(classes)}
        return np.array([numbers[str(target)] for target in self.targets], np.int64), classes

    def _scales(self) -> Array:
        """(inputs, 2)."""
        scales: list[Sequence[float]] = []
        for name in self.features:
            if name in self.own.categories:
                scales += [(0.0, 1.0)] * len(self.own.categories[name])
            else:
                scales.append(self.own.scale.get(name, (_NAN, _NAN)))
        return np.array(scales, np.float64).reshape(-1, 2)

    def _note(self, y: Array, classes: tuple[str, ...]) -> str:
        notes = []
        if self.skipped:
            notes.append(
                text("skipped rows: {count}; the first because {reason}", self.skipped, self.first_skipped)
            )
        if self.filled:
            notes.append(text("missing values taken as the mean: {count}", self.filled))
        if self.unused:
            notes.append(text("columns not used: {names}", shown(self.unused)))
        if absent := [name for i, name in enumerate(classes) if not (y == i).any()]:
            notes.append(text("no row of {names}", shown(absent)))
        return joined(notes)


def _check_header(path: Path, own: OwnTable, header: tuple[str, ...], features: tuple[str, ...]) -> None:
    labelled_by = {own.target, own.coarse} & set(header) if own.coarse else set()  # a node may have either label
    wanted = {
        *(labelled_by or {own.target}),
        *features,
        *own.categories,
        *own.scale,
        *([own.id] if own.id else []),
        *([own.split_by] if own.split_by else []),
        *(own.ignore or []),
    }
    missing, extra = sorted(wanted - set(header)), sorted(set(header) - wanted)
    if missing:
        raise TrainerError(
            _words_on_separator(path, own, header)
            or text("{path}, line 1: wrong header: {words}", path, _words_on_columns(missing, extra, header))
        )
    if not features:
        raise TrainerError(text("{path} has no features: its columns are {columns}", path, shown(header)))


def _words_on_columns(missing: Sequence[str], extra: Sequence[str], header: Sequence[str]) -> str:
    if not extra:
        return text("missing {missing}; found {header}", shown(missing), shown(header))
    return text(
        "missing {missing}; not expected {extra}; found {header}", shown(missing), shown(extra), shown(header)
    )


def _words_on_separator(path: Path, own: OwnTable, header: Sequence[str]) -> str:
    """What to do if the columns are separated by another sign than the trainer's file says; empty if they are not."""
    seen = [sign for sign in ";," if sign in header[0] and sign != own.separator]
    if len(header) > 1 or not seen:
        return ""
    return text(
        '{path}, line 1: the columns seem to be separated by "{sign}", but the trainer\'s file says "{separator}"; '
        'set separator = "{value}" in it',
        path,
        seen[0],
        own.separator,
        seen[0],
    )


_FARTHEST = 1e6  # spreads from the mean; beyond it one typing error would be all that a model sees


@dataclass(frozen=True)
class TableData:
    """One node's part: sides (x standardised by `scales`, y), and what is known about it. A common test is one more side.

    Attributes:
        coarse: by side the labels in the node's own space, -1 for none; None where nodes label alike.
    """

    sides: Mapping[str, tuple[Array, Array]]
    table: LabelledTable
    scales: Array
    info: DataInfo
    coarse: Mapping[str, Array] | None = None


def load_table(own: OwnTable, settings: TrainerSettings) -> TableData:
    """This node's rows, split for good, features standardised.

    Raises:
        DataMissing: there is no file, or too few rows.
        TrainerError: something in it is not as agreed; says file, line and column.
    """
    path = own.path(settings)
    labels = OwnLabels.of(settings.labels, own.classes) if own.task == "classify" else None
    table = read_table(path, own, labels)
    rows, kept = _sides(own, table, settings)
    counts = {side: len(numbers) for side, numbers in rows.items()}
    if not all(counts.values()):
        words = ", ".join(f"{n} in {side}" for side, n in counts.items())
        raise DataMissing(
            text("too few rows in {path}: {counts}", path, words), text("bring more rows, or change split")
        )
    per_class = {
        side: counted(table.y[numbers], len(table.classes)) for side, numbers in rows.items() if table.classes
    }
    scales = _complete(table, table.x[rows["train"]])
    x = standardised(table.x, scales)
    sides = {side: (x[numbers], table.y[numbers]) for side, numbers in rows.items()}
    common, mark, on_common = _common_test(own, table, settings, labels)
    if common is not None:
        sides["common"] = standardised(common.x, scales), common.y
    note, columns = (
        with_partition(joined(filter(None, (table.note, kept, on_common))), settings),
        table.classes or (own.target,),
    )
    checksum = fingerprint({side: Labelled(table.x[numbers], table.y[numbers]) for side, numbers in rows.items()})
    is_counted = not table.groups and labels is None
    dealt = dealt_counts(table.kinds, settings, len(table.classes)) if is_counted else ()
    words = text("table {path}", path)
    info = DataInfo(words, counts, columns, is_sample(path), note, per_class, checksum, dealt, mark)
    if table.coarse is None:
        return TableData(sides, table, scales, info)
    return TableData(sides, table, scales, info, {side: table.coarse[numbers] for side, numbers in rows.items()})


def _common_test(
    own: OwnTable, table: LabelledTable, settings: TrainerSettings, labels: OwnLabels | None
) -> tuple[LabelledTable | None, str, str]:
    """The rows of the common test, in the form of this node's own, their checksum and a sentence; None without one."""
    there = own.of_common_test(settings)
    if there is None:
        return None, "", ""
    if table.classes and labels is None:
        there = there.model_copy(update={"classes": list(table.classes)})
    common = read_table(Path(there.data), there, labels)
    if labels is not None and not (common.y >= 0).any():  # only labels that are not desired
        raise TrainerError(text("nothing in {path} can be used for the common test", there.data))
    if common.features != table.features:
        differing = sorted(set(common.features) ^ set(table.features))
        raise TrainerError(text("{path}: other features than in the data: {names}", there.data, shown(differing)))
    checksum = fingerprint({"common": Labelled(common.x, common.y)})[:CHECKSUM_SHOWN]
    known = _keys(common) & _keys(table)
    return common, checksum, words_on_common_test(len(common.y), checksum, len(known))


def _keys(table: LabelledTable) -> set[bytes]:
    """Each different row of a table, as bytes."""
    rows = np.ascontiguousarray(np.c_[table.x, table.y].astype(np.float64))
    return {row.tobytes() for row in rows}


def standardised(x: Array, scales: Array) -> Array:
    """(x - mean) / spread, clipped to a million spreads; a missing value becomes the mean, 0."""
    scaled = np.clip((x - scales[:, 0]) / scales[:, 1], -_FARTHEST, _FARTHEST)
    return np.nan_to_num(scaled, nan=0.0).astype(np.float32)


def _sides(own: OwnTable, table: LabelledTable, settings: TrainerSettings) -> tuple[dict[str, Rows], str]:
    """This node's rows, by side, and a sentence on rows that are on another side than their column says."""
    kept = ""
    kinds, seed, path = table.kinds, settings.seed, settings.state_path / "split-table.npz"
    if table.groups:
        mine = own_grouped(table.groups, kinds, settings)
        groups = [table.groups[row] for row in mine]
        sides = grouped_split(path, groups, kinds[mine], own.shares, seed)
    elif table.parts:
        mine = own_rows(kinds, settings)
        parts, rows = [table.parts[row] for row in mine], np.c_[table.x, table.y][mine]
        split = split_by_folders(path, rows, kinds[mine], parts, own.shares, seed)
        sides = split.sides
        kept = joined([words_on_kept(split.kept), how_to_split_anew(path)]) if split.kept else ""
    else:
        mine = own_rows(kinds, settings)
        sides = stored_split(path, np.c_[table.x, table.y][mine], kinds[mine], own.shares, seed)
    return {side: mine[rows] for side, rows in sides.items()}, kept


def _complete(table: LabelledTable, train: Array) -> Array:
    """The scales, with this node's own mean and spread where none are agreed: they never leave the node."""
    scales = table.scales.copy()
    for j in np.flatnonzero(np.isnan(scales[:, 0])):
        present = train[:, j][~np.isnan(train[:, j])].astype(np.float64)
        mean, spread = (float(present.mean()), float(present.std())) if present.size else (0.0, 0.0)
        scales[j] = mean, spread if spread > 0 else 1.0
    return scales
