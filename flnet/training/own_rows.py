"""Rows of a table, checked cell by cell against what its trainer's file says; every fault has file and line."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from flnet.errors import TrainerError
from flnet.params import Array
from flnet.training.columns import shown, text_rows
from flnet.training.lesson import Labels
from flnet.training.own import OwnTable
from flnet.training.own_labels import OwnLabels
from flnet.training.table import BadRow, Column

ABSENT = frozenset({"", "?", "NA", "N/A", "NaN", "nan", "NULL", "null", "None"})
_LONGEST = 200  # characters of a class's name
_MOST_CLASSES = 1000
_BANDS = 10  # of a regression's target, so that its split is as even as one by class
_NAN = float("nan")


class Missing(BadRow):
    """A row with a cell that has no value."""


@dataclass(frozen=True)
class Table:
    """All rows of a file that can be used.

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

    @property
    def kinds(self) -> Array:
        """For each row what the split should be even in: its class, or the tenth in which its target lies."""
        if self.by_label is not None:
            return self.by_label
        if self.classes:
            return self.y
        return np.searchsorted(np.quantile(self.y, np.linspace(0, 1, _BANDS + 1)[1:-1]), self.y)


def read_table(path: Path, own: OwnTable, labels: OwnLabels | None = None) -> Table:
    """The rows of a file, checked cell by cell.

    Args:
        labels: what words may stand as labels where nodes label differently; None where they do not.

    Raises:
        DataMissing: pyarrow is needed and not installed.
        TrainerError: the header or a cell is not as agreed.
    """
    with text_rows(path, "\t" if own.separator == "tab" else own.separator) as text:
        reader = _Reader(path, own, text.header, labels)
        for where, cells in text.rows:
            reader.take(where, cells)
    return reader.table()


@dataclass
class _Reader:
    path: Path
    own: OwnTable
    header: tuple[str, ...]
    labels: OwnLabels | None = None
    x: array[float] = field(default_factory=lambda: array("f"))
    targets: list[str | float] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)  # labels of the node's own space
    skipped: int = 0
    first_skipped: str = ""
    filled: int = 0

    def __post_init__(self) -> None:
        own = self.own
        spoken_for = {own.target, own.id, own.coarse, *(own.ignore or [])}
        others = [name for name in self.header if name not in spoken_for]
        self.features = tuple(sorted(own.features or others))
        _check_header(self.path, own, self.header, self.features)
        self._at = {name: place for place, name in enumerate(self.header)}
        self._cells = [(self._at[name], self._read(name)) for name in self.features]
        self.unused = [name for name in others if name not in self.features]

    def take(self, where: str, cells: list[str]) -> None:
        """Add a row.

        Raises:
            BadRow: it cannot be used, and is not to be skipped.
        """
        if len(cells) != len(self.header):
            raise BadRow(f"{where}: {len(cells)} values for {len(self.header)} columns")
        try:
            target, beside = self._target(cells, where), self._beside(cells, where)
            group = self._group(cells, where)
            if not target and not beside and self.labels is not None:
                raise Missing(f"{where}: the label {self._label_columns} has no value")
            x = [number for place, read in self._cells for number in read(cells[place].strip(), where)]
        except Missing as exc:
            if self.own.missing == "stop":
                raise BadRow(f'{exc}; fill it in, or set missing = "skip" or "mean"') from exc
            self.skipped, self.first_skipped = self.skipped + 1, self.first_skipped or str(exc)
            return
        self.x.extend(x)
        self.targets.append(target)
        self.beside.append(beside)
        self.groups.append(group)

    def table(self) -> Table:
        """All rows that were taken.

        Raises:
            TrainerError: there are none, or fewer than two classes.
        """
        if not self.targets:
            why = f" that can be used: {self.first_skipped}" if self.skipped else " below its header"
            raise TrainerError(f"{self.path} has no rows{why}")
        x = np.array(self.x, np.float32).reshape(len(self.targets), -1)
        groups = tuple(self.groups) if self.own.id else ()
        if self.labels is None:
            y, classes = self._numbered()
            return Table(self.features, x, self._scales(), y, classes, groups, self._note(y, classes))
        y, coarse = self.labels.numbers(map(str, self.targets), self.beside)
        kinds, classes = self.labels.kinds(y, coarse), self.labels.desired
        return Table(self.features, x, self._scales(), y, classes, groups, self._note(y, ()), coarse, kinds)

    def _read(self, name: str) -> Callable[[str, str], Sequence[float]]:
        """What turns a cell of this column into inputs."""
        allowed = self.own.categories.get(name)
        if allowed is None:
            column = Column(name)

            def number(text: str, where: str) -> Sequence[float]:
                if text in ABSENT:
                    return [self._fill(name, text, where)]
                try:
                    return [column.number(text, where)]
                except BadRow as exc:
                    raise BadRow(f"{exc}, or the values of {name} listed under [categories]") from exc

            return number
        places = {text: i for i, text in enumerate(allowed)}

        def category(text: str, where: str) -> Sequence[float]:
            if text not in places and text in ABSENT:
                self._fill(name, text, where)
            elif text not in places:
                raise BadRow(f"{where}: {name!r} is {text[:40]!r}; expected one of {shown(allowed)}")
            return [float(i == places.get(text)) for i in range(len(allowed))]

        return category

    def _fill(self, name: str, text: str, where: str) -> float:
        if self.own.missing != "mean":
            raise Missing(f"{where}: {name!r} has no value ({text or 'an empty cell'})")
        self.filled += 1
        return _NAN

    @property
    def _label_columns(self) -> str:
        return " / ".join(repr(name) for name in (self.own.target, self.own.coarse) if name in self._at)

    def _label(self, name: str | None, allowed: tuple[str, ...], cells: list[str], where: str) -> str:
        """A label of these classes, or nothing: where nodes label differently, a row need not have each kind."""
        text = cells[self._at[name]].strip() if name in self._at else ""
        if text in ABSENT and text not in allowed:
            return ""
        if text not in allowed:
            raise BadRow(f"{where}: the label {name!r} is {text[:40]!r}; expected one of {shown(allowed)}")
        return text

    def _beside(self, cells: list[str], where: str) -> str:
        if self.labels is None or not self.labels.own:
            return ""
        return self._label(self.own.coarse, self.labels.own, cells, where)

    def _target(self, cells: list[str], where: str) -> str | float:
        if self.labels is not None:
            return self._label(self.own.target, self.labels.words, cells, where)
        name, text = self.own.target, cells[self._at[self.own.target]].strip()
        if text in ABSENT and text not in (self.own.classes or ()):
            raise Missing(f"{where}: the target {name!r} has no value ({text or 'an empty cell'})")
        if self.own.target_scale is not None:
            return Column(name).number(text, where)
        if self.own.classes is not None and text not in self.own.classes:
            raise BadRow(
                f"{where}: the target {name!r} is {text[:40]!r}; expected one of {shown(self.own.classes)}"
            )
        return text

    def _group(self, cells: list[str], where: str) -> str:
        text = cells[self._at[self.own.id]].strip() if self.own.id else ""
        if self.own.id and text in ABSENT:
            raise Missing(f"{where}: the id {self.own.id!r} has no value ({text or 'an empty cell'})")
        return text

    def _numbered(self) -> tuple[Array, tuple[str, ...]]:
        if self.own.target_scale is not None:
            mean, spread = self.own.target_scale
            return ((np.array(self.targets, np.float64) - mean) / spread).astype(np.float32), ()
        found = sorted({str(text) for text in self.targets})
        classes = tuple(self.own.classes or found)
        if not 2 <= len(classes) <= _MOST_CLASSES:
            rule = f"expected 2 to {_MOST_CLASSES} classes"
            hint = 'list them under classes, or set task = "regress"'
            raise TrainerError(f"{self.path}: {self.own.target!r} has {len(classes)} values; {rule}: {hint}")
        numbers = {name: i for i, name in enumerate(classes)}
        return np.array([numbers[str(text)] for text in self.targets], np.int64), classes

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
        said = []
        if self.skipped:
            said.append(f"{self.skipped} rows were skipped, the first because {self.first_skipped}")
        if self.filled:
            said.append(f"{self.filled} missing values were taken as the mean")
        if self.unused:
            said.append(f"columns not used: {shown(self.unused)}")
        if absent := [name for i, name in enumerate(classes) if not (y == i).any()]:
            said.append(f"no row of {shown(absent)}")
        return "; ".join(said)


def _check_header(path: Path, own: OwnTable, header: tuple[str, ...], features: tuple[str, ...]) -> None:
    one = {own.target, own.coarse} & set(header) if own.coarse else set()  # a node may have either label
    wanted = {
        *(one or {own.target}),
        *features,
        *own.categories,
        *own.scale,
        *([own.id] if own.id else []),
        *(own.ignore or []),
    }
    missing, extra = sorted(wanted - set(header)), sorted(set(header) - wanted)
    if missing:
        words = f"missing {shown(missing)}; not expected {shown(extra)}; found {shown(header)}"
        hint = "; is separator right?" if len(header) == 1 else ""
        raise TrainerError(f"{path}, line 1: wrong header: {words}{hint}")
    if not features:
        raise TrainerError(f"{path} has no features: its columns are {shown(header)}")
