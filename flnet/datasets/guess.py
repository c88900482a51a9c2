"""Guesses at data that a person brings: which columns a table has and what each may be, or which classes of pictures.

A guess is shown to the person, who may change it, and becomes the description of a no-code trainer (no_code.py).
"""

from __future__ import annotations

import csv
import io
import re
import statistics
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from flnet.datasets.files import class_folders, entries
from flnet.datasets.no_code import Own, OwnImages, OwnTable, checked_own
from flnet.datasets.pictures import Unreadable, size_and_mode
from flnet.datasets.tables import ABSENT, near, shown
from flnet.datasets.text_rows import TextRows, separator_of, text_rows
from flnet.errors import DataMissing, InvalidMessage, TrainerError
from flnet.text import text

Kind = Literal["number", "words", "text", "constant", "empty"]
Use = Literal["number", "words", "ignore", "id", "target"]
MOST_CELLS = 5_000_000  # that are looked at; what comes later is checked when the trainer loads
MOST_GUESSED = 1000  # columns: a form of more is no help
FEW_ROWS = 2000
MOST_WORDS = 50  # of a column of categories
MOST_ODD = 20  # different words in a column of numbers
NUMBERS_SHARE = 0.8  # of the cells of a column of numbers, at least
FEW_NUMBERS = 10  # different whole numbers of a target that are classes
_SEPARATORS = {",": ",", ";": ";", "\t": "tab"}
_COMMA_NUMBER = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_ID = re.compile(
    r"(.*[ _-])?(id|uuid|patient|subject|person|customer|client|case)([ _-]?(id|no|nr|number))?", re.I
)
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}")
_TARGET = re.compile(r"(target|class|label|y|outcome|diagnosis|result|clase|etiqueta|objetivo)", re.I)
_TABLES = frozenset({".csv", ".tsv", ".txt", ".parquet", ".pq", ".arff"})
_PICTURES = frozenset({".jpg", ".jpeg", ".png"})
_PARTS = ("train", "val", "valid", "validation", "test")
_LOOKED_AT = 30  # pictures whose size and colours are read


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        use: what it is taken for.
        words: its values, of a column of words; the most frequent ones of others.
        missing: cells without a value.
        odd: words in a column of numbers; they would count as missing values.
        scale: mean and standard deviation, rounded to two digits; None if it holds no numbers.
        is_whole: whether all its numbers are whole.
    """

    name: str
    kind: Kind
    use: Use
    words: tuple[str, ...] = ()
    missing: int = 0
    odd: tuple[str, ...] = ()
    scale: tuple[float, float] | None = None
    is_whole: bool = False


@dataclass(frozen=True)
class TableGuess:
    """A table as it seems to be.

    Attributes:
        rows: that were looked at.
        is_part: whether the file has more of them.
    """

    columns: tuple[Column, ...]
    rows: int
    is_part: bool
    separator: str
    decimal: str
    suffix: str

    @property
    def target(self) -> Column:
        """The column to be predicted."""
        return next(column for column in self.columns if column.use == "target")

    def column(self, name: str) -> Column:
        """A column by name, or by position: 0 is the first one, -1 the last one.

        Raises:
            InvalidMessage: there is none.
        """
        named = {column.name: column for column in self.columns}
        if name in named:
            return named[name]
        if re.fullmatch(r"-?\d{1,6}", name) and -len(self.columns) <= int(name) < len(self.columns):
            return self.columns[int(name)]
        raise InvalidMessage(
            text("there is no column {name}; {words}", repr(name[:60]), near([name], list(named)))
        )


@dataclass(frozen=True)
class ImagesGuess:
    """A folder of pictures as it seems to be: classes with the number of pictures of each."""

    classes: Mapping[str, int]
    size: int
    colour: Literal["grey", "rgb"]


Guess = TableGuess | ImagesGuess


def guess(place: Path) -> Guess:
    """What a file or a folder seems to hold.

    Raises:
        TrainerError: it is neither a table nor a folder of pictures, or cannot be read.
        DataMissing: a library is needed to read it.
    """
    if place.is_dir():
        files = [entry for entry in entries(place) if entry.is_file()]
        if len(files) == 1 and files[0].suffix.lower() in _TABLES and not class_folders(place):
            return guess_table(files[0])
        return guess_images(place)
    if place.suffix.lower() not in _TABLES:
        kinds = text("a .csv, .parquet or .arff file, or a folder with a folder of pictures for each class")
        raise TrainerError(text("{path} is of no known kind; expected {kinds}", place.name, kinds))
    return guess_table(place)


@dataclass
class _Cells:
    """What is counted of a column."""

    numbers: array[float] = field(default_factory=lambda: array("d"))
    commas: int = 0
    missing: int = 0
    values: Counter[str] = field(default_factory=Counter)  # at most MOST_WORDS + 1 different ones
    odd: Counter[str] = field(default_factory=Counter)  # what is no number; MOST_ODD + MOST_WORDS + 1 at most

    def take(self, cell: str) -> None:
        if cell in ABSENT:
            self.missing += 1
            return
        if len(self.values) <= MOST_WORDS or cell in self.values:
            self.values[cell] += 1
        number = _number(cell)
        if number is not None:
            self.commas += _COMMA_NUMBER.fullmatch(cell) is not None
            self.numbers.append(number)
        elif len(self.odd) <= MOST_ODD + MOST_WORDS or cell in self.odd:
            self.odd[cell] += 1

    def column(self, name: str, nominal: tuple[str, ...], rows: int) -> Column:
        """The column as it seems to be, and not yet as target or id."""
        if not self.values:
            return Column(name, "empty", "ignore", (), self.missing)
        most = tuple(value for value, _ in self.values.most_common(MOST_WORDS))
        if len(nominal) > 1:
            kind: Kind = "words" if len(nominal) <= MOST_WORDS else "text"
            return Column(name, kind, "words" if kind == "words" else "ignore", nominal, self.missing)
        if len(self.values) == 1:
            return Column(name, "constant", "ignore", most, self.missing)
        present = rows - self.missing
        if len(self.numbers) >= NUMBERS_SHARE * present and len(self.odd) <= MOST_ODD:
            numbers = np.array(self.numbers, np.float64)
            scale = _rounded(float(numbers.mean())), _rounded(float(numbers.std()) or 1.0)
            is_whole = bool((numbers == np.floor(numbers)).all()) and not self.odd
            missing = self.missing + sum(self.odd.values())
            return Column(name, "number", "number", most, missing, tuple(sorted(self.odd)), scale, is_whole)
        is_dates = all(map(_DATE.match, self.values))  # of which a later file has others
        if not is_dates and len(self.values) <= MOST_WORDS and 2 * len(self.values) <= max(present, 4):
            return Column(name, "words", "words", tuple(sorted(most)), self.missing)
        return Column(name, "text", "ignore", most[:5], self.missing)


def guess_table(path: Path) -> TableGuess:
    """What a table seems to hold; a target is chosen, which may be the wrong one.

    Raises:
        TrainerError: it cannot be read, or has no rows or no column that could be predicted.
        DataMissing: it is Parquet, and pyarrow is not installed.
    """
    separator = separator_of(path) if path.suffix.lower() in (".csv", ".tsv", ".txt") else ","
    with text_rows(path, separator) as table:
        if len(table.header) > MOST_GUESSED:
            raise TrainerError(
                text("{path} has {count} columns; a form is made for at most {most}", *_wide(path, table))
            )
        cells = [_Cells() for _ in table.header]
        rows, is_part = 0, False
        for where, row in table.rows:
            if rows * len(cells) > MOST_CELLS:
                is_part = True
                break
            if len(row) != len(cells):
                raise TrainerError(
                    text("{where}: {count} values for {number} columns", where, len(row), len(cells))
                )
            for counted, cell in zip(cells, row, strict=True):
                counted.take(cell.strip())
            rows += 1
        columns = [
            counted.column(name, table.words.get(name, ()), rows)
            for name, counted in zip(table.header, cells, strict=True)
        ]
    if not rows:
        raise TrainerError(text("{path} has no rows below its header", path))
    decimal = "," if separator != "," and any(counted.commas for counted in cells) else "."
    used = _with_uses(path, columns)
    return TableGuess(used, rows, is_part, _SEPARATORS[separator], decimal, path.suffix.lower())


def _wide(path: Path, table: TextRows) -> tuple[str, str, str]:
    return path.name, f"{len(table.header):,}", f"{MOST_GUESSED:,}"


def _number(cell: str) -> float | None:
    try:
        number = float(cell.replace(",", ".")) if _COMMA_NUMBER.fullmatch(cell) else float(cell)
    except ValueError:
        return None
    return number if abs(number) <= float(np.finfo(np.float32).max) and "_" not in cell else None


def _rounded(value: float) -> float:
    return float(f"{value:.2g}")


def _with_uses(path: Path, columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns, one of them as id where its name says so, and one as target: by its name, or else the last."""
    ids = [
        column for column in columns if _ID.fullmatch(column.name) and column.kind in ("number", "text", "words")
    ]
    possible = [column for column in columns if column.kind in ("number", "words") and column not in ids[:1]]
    if not possible:
        raise TrainerError(
            text(
                "{path} has no column that could be predicted: its columns are {columns}",
                path.name,
                _named(columns),
            )
        )
    target = next((column for column in possible if _TARGET.fullmatch(column.name)), possible[-1])
    uses: dict[str, Use] = {target.name: "target"}
    uses |= {ids[0].name: "id"} if ids else {}
    return tuple(replace(column, use=uses.get(column.name, column.use)) for column in columns)


def _named(columns: Sequence[Column]) -> str:
    return shown([column.name for column in columns])


def guess_images(folder: Path) -> ImagesGuess:
    """What a folder of pictures seems to hold.

    Raises:
        TrainerError: it has no folders of classes with pictures.
    """
    parts = [entry for entry in entries(folder) if entry.is_dir() and entry.name.lower() in _PARTS]
    tops = parts or [folder]
    counts: Counter[str] = Counter()
    pictures: list[Path] = []
    for top in tops:
        for name, places in class_folders(top).items():
            files = [file for place in places for file in _pictures_in(place)]
            counts[name] += len(files)
            pictures += files
    classes = {name: counts[name] for name in sorted(counts) if counts[name]}
    if len(classes) < 2:
        raise TrainerError(
            text(
                "there are pictures of {count} classes ({names}); expected a folder of .jpg or .png files for each of two "
                "or more classes",
                len(classes),
                shown(list(classes)),
            )
        )
    step = max(1, len(pictures) // _LOOKED_AT)
    return ImagesGuess(classes, *_size_and_colour(pictures[::step][:_LOOKED_AT]))


def _pictures_in(folder: Path) -> Iterator[Path]:
    return (file for file in entries(folder) if file.is_file() and file.suffix.lower() in _PICTURES)


def _size_and_colour(pictures: Sequence[Path]) -> tuple[int, Literal["grey", "rgb"]]:
    """A size to which they can be reduced, 32 or 64 pixels or less, and whether all are grey."""
    sides, grey = [], True
    for path in pictures:
        try:
            size, mode = size_and_mode(path)
        except DataMissing:
            return 32, "rgb"  # the trainer says that Pillow is missing
        except Unreadable:
            continue  # which of them are damaged is told when the trainer loads
        sides.append(min(size))
        grey = grey and mode in ("1", "L", "LA", "I", "I;16", "F")
    middle = statistics.median(sides) if sides else 32
    return (64 if middle >= 128 else 32 if middle >= 32 else max(8, int(middle))), "grey" if grey else "rgb"


def words_in(listing: str) -> tuple[str, ...]:
    """Words as a person lists them: separated by commas, in quotes where they hold one.

    Raises:
        InvalidMessage: a quote has no end.
    """
    try:
        lines = list(csv.reader([listing], skipinitialspace=True, strict=True))
    except csv.Error as exc:
        raise InvalidMessage(text("the words {words} cannot be read: {reason}", repr(listing[:60]), exc)) from exc
    return tuple(word.strip() for line in lines for word in line if word.strip())


def listing_of(words: Sequence[str]) -> str:
    """The same the other way round."""
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(words)
    return out.getvalue().replace("\n", " ")


@dataclass(frozen=True)
class Choices:
    """What a person chose in place of a guess; empty values leave it.

    Attributes:
        target: name or position of the column to be predicted.
        uses: of other columns, by name or position.
        words: of columns of words, and of a target of classes, by name or position: all that may come on any node.
        missing: what happens to rows with a missing value.
        scaling: whether numbers are standardised by each node's own rows, or by the mean and spread of these
            data, which all nodes are then told.
    """

    target: str = ""
    uses: Mapping[str, Use] = field(default_factory=dict)
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)
    missing: Literal["", "stop", "skip", "mean"] = ""
    scaling: Literal["own", "common"] = "own"
    model: str = ""
    label: str = ""
    size: int | None = None
    colour: Literal["", "grey", "rgb"] = ""


def described(guessed: Guess, choices: Choices, data: str) -> OwnImages | OwnTable:
    """The description of a no-code trainer.

    Args:
        data: where the data are, as the description says it.

    Raises:
        InvalidMessage: a choice does not fit the data; says which.
    """
    if isinstance(guessed, ImagesGuess):
        fields: dict[str, Any] = {
            **{"kind": "images", "data": data, "classes": list(guessed.classes)},
            **{"size": choices.size or guessed.size, "colour": choices.colour or guessed.colour},
            "on_bad_file": "skip",
        }
    else:
        fields = _table_fields(guessed, choices, data)
    fields |= {"model": choices.model} if choices.model else {}
    if isinstance(guessed, TableGuess) and guessed.rows < FEW_ROWS and fields.get("model", "linear") == "linear":
        fields["rate"] = 0.1  # few steps in an epoch: with the usual 0.02 the first rounds would show nothing
    fields |= {"label": choices.label} if choices.label else {}
    own = checked_own(fields)
    assert isinstance(own, OwnImages | OwnTable)
    return own


def _table_fields(guessed: TableGuess, choices: Choices, data: str) -> dict[str, Any]:
    target = guessed.column(choices.target) if choices.target else guessed.target
    uses = {column.name: column.use for column in guessed.columns}
    if target.name != guessed.target.name:
        uses[guessed.target.name] = "words" if guessed.target.kind == "words" else "number"
    uses |= {guessed.column(name).name: use for name, use in choices.uses.items()}
    uses[target.name] = "target"
    words = {guessed.column(name).name: tuple(words) for name, words in choices.words.items() if words}
    by_use = {
        use: [c for c in guessed.columns if uses[c.name] == use] for use in ("number", "words", "ignore", "id")
    }
    _check_uses(by_use)
    odd = {word for column in (*by_use["number"], target) for word in column.odd}
    fields: dict[str, Any] = {"kind": "table", "data": data, "target": target.name, **_goal(target, words)}
    fields |= {"id": by_use["id"][0].name} if by_use["id"] else {}
    fields |= {"ignore": [column.name for column in by_use["ignore"]]} if by_use["ignore"] else {}
    lacks = any(column.missing for column in (*by_use["number"], *by_use["words"]))
    fields["missing"] = choices.missing or ("mean" if lacks else "stop" if not target.missing else "skip")
    fields |= {"no_value": sorted(odd)} if odd else {}
    fields |= {"separator": guessed.separator} if guessed.separator != "," else {}
    fields |= {"decimal": guessed.decimal} if guessed.decimal != "." else {}
    if by_use["words"]:
        fields["categories"] = {c.name: list(words.get(c.name, c.words)) for c in by_use["words"]}
    if choices.scaling == "common":
        fields["scale"] = {column.name: list(column.scale) for column in by_use["number"] if column.scale}
    return fields


def _check_uses(by_use: Mapping[str, Sequence[Column]]) -> None:
    """Refuse uses that a column cannot have.

    Raises:
        InvalidMessage: says which column.
    """
    for column in by_use["number"]:
        if column.kind in ("words", "text", "empty") and column.scale is None:
            raise InvalidMessage(text("column {name} holds words; expected numbers", repr(column.name)))
    for column in by_use["words"]:
        if column.kind not in ("words", "constant") and not (column.kind == "number" and not _is_long(column)):
            raise InvalidMessage(
                text("column {name} has more than {most} different values", repr(column.name), MOST_WORDS)
            )
    if len(by_use["id"]) > 1:
        raise InvalidMessage(text("{names} are ids; expected one column", _named(by_use["id"])))
    if not by_use["number"] and not by_use["words"]:
        raise InvalidMessage(text("all columns are left out; expected at least one that says something"))


def _is_long(column: Column) -> bool:
    return len(column.words) >= MOST_WORDS


def _goal(target: Column, words: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Classes of the target; or of numbers a rough mean and spread.

    Raises:
        InvalidMessage: it can be neither.
    """
    if target.kind == "number" and not (target.is_whole and len(target.words) <= FEW_NUMBERS):
        assert target.scale is not None
        return {"task": "regress", "target_scale": list(target.scale)}
    if target.kind not in ("words", "number"):
        raise InvalidMessage(
            text(
                "column {name} cannot be predicted: expected numbers, or a few different words", repr(target.name)
            )
        )
    if target.name in words:
        return {"classes": list(words[target.name])}
    numeric = target.kind == "number"
    return {"classes": sorted(target.words, key=_by_number) if numeric else list(target.words)}


def _by_number(word: str) -> float:
    return _number(word) or 0.0  # float does not read decimal commas


HERE = ("data", "common_test", "offered")  # options that are each node's own business


def stated(own: Own) -> dict[str, Any]:
    """The options that a description states, without those of HERE: nothing about where data are."""
    return own.model_dump(mode="json", exclude_unset=True, exclude=set(HERE))
