"""Further examples for data that are there: rows behind those of a table, images into the folders of classes.

What is there already is not added again, so the same files may come as often as they like; nothing that was there
is changed, so old rows stay on their side of the split.
"""

from __future__ import annotations

import csv
import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from flnet.errors import FlnetError
from flnet.training.columns import text_rows
from flnet.training.places import ImportRefused, Place

IMAGES = frozenset({".jpg", ".jpeg", ".png"})
_TABLES = frozenset({".csv", ".tsv", ".txt", ".parquet", ".pq"})
_TAIL = 64 * 1024  # bytes at the end of a picture in which its end mark lies
_SEPARATORS = ",;\t"


@dataclass(frozen=True)
class Added:
    """What was added to a place: so many files, or files with rows, and how to take it out again.

    Attributes:
        made: files that are new there.
        length: bytes of a table before rows were added; None for a folder.
    """

    place: Path
    files: int
    size: int
    made: tuple[Path, ...] = ()
    length: int | None = None
    aside: Path | None = None

    def undo(self) -> None:
        """Take it out again."""
        for path in self.made:
            path.unlink(missing_ok=True)
        if self.length is not None:
            draft = _draft(self.place)
            with self.place.open("rb") as old, draft.open("wb") as new:
                _copy(old, new, self.length)
            draft.replace(self.place)


def add_to(place: Place, came: Path) -> Added:
    """Add the files that lie in a folder to the data in a place.

    Raises:
        ImportRefused: they are no further examples of what is there; nothing has changed.
        OSError: they cannot be read or written.
    """
    files = sorted(path for path in came.rglob("*") if path.is_file())
    if not files:
        raise ImportRefused("no files came")
    if place.is_file:
        return _rows_to(place, files)
    return _images_to(place, came, files)


def _images_to(place: Place, came: Path, files: Sequence[Path]) -> Added:
    root = place.path / "train" if (place.path / "train").is_dir() else place.path
    classes = sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    wanted = [(file, _class_of(file, came, classes)) for file in files]
    made: list[Path] = []
    size = 0
    try:
        for file, name in wanted:
            if (target := _free_name(root / name, file)) is not None:
                draft = _draft(target)
                shutil.copyfile(file, draft)
                draft.replace(target)
                made.append(target)
                size += target.stat().st_size
    except BaseException:
        Added(place.path, 0, 0, tuple(made)).undo()
        raise
    return Added(place.path, len(made), size, tuple(made))


def _class_of(file: Path, came: Path, classes: Sequence[str]) -> str:
    name, known = file.relative_to(came).as_posix(), ", ".join(classes[:12])
    if file.suffix.lower() not in IMAGES:
        raise ImportRefused(f"{name} is no .jpg, .jpeg or .png")
    if file.parent == came or file.parent.name not in classes:
        raise ImportRefused(f"{name} does not lie in a folder of its class; expected one of {known}")
    if not _is_whole(file):
        raise ImportRefused(f"{name} is no whole image")
    return file.parent.name


def _is_whole(file: Path) -> bool:
    """Whether it begins and ends as such images do; what is in between shows when it is read."""
    with file.open("rb") as opened:
        head = opened.read(8)
        opened.seek(max(0, file.stat().st_size - _TAIL))
        tail = opened.read()
    if head[:2] == b"\xff\xd8":
        return b"\xff\xd9" in tail
    return head == b"\x89PNG\r\n\x1a\n" and b"IEND" in tail


def _free_name(folder: Path, file: Path) -> Path | None:
    """Where a file goes; None if it is there already, under its name or with a number behind it."""
    number, target = 0, folder / file.name
    while target.exists():
        if _alike(target, file):
            return None
        number += 1
        target = folder / f"{file.stem}-{number}{file.suffix}"
    return target


def _alike(one: Path, other: Path) -> bool:
    return one.stat().st_size == other.stat().st_size and one.read_bytes() == other.read_bytes()


def _rows_to(place: Place, files: Sequence[Path]) -> Added:
    path = place.path
    if path.suffix.lower() in (".parquet", ".pq"):
        raise ImportRefused(f"{path.name} is a Parquet file, to which no rows can be added; save it as CSV")
    separator = _separator(path)
    try:
        with text_rows(path, separator) as there:
            header, known = there.header, Counter(_mark(cells) for _, cells in there.rows)
        rows = [row for file in files for row in _new_rows(file, header, known)]
    except FlnetError as exc:
        raise ImportRefused(exc.message) from exc
    length = path.stat().st_size
    if not rows:
        return Added(path, 0, 0)
    draft = _draft(path)
    with path.open("rb") as old, draft.open("wb") as new:
        _copy(old, new, length)
        old.seek(max(0, length - 1))
        if old.read() not in (b"\n", b""):
            new.write(b"\n")
    with draft.open("a", encoding="utf-8", newline="") as text:
        csv.writer(text, delimiter=separator, lineterminator="\n").writerows(rows)
    size = draft.stat().st_size - length
    draft.replace(path)
    return Added(path, len(files), size, length=length)


def _new_rows(file: Path, header: Sequence[str], known: Counter[bytes]) -> Iterator[list[str]]:
    """Rows of a file that are not there yet, in the order of the header; a row counts as often as it stands there.

    Raises:
        ImportRefused: it is no table, or one with other columns.
        FlnetError: it cannot be read.
    """
    if file.suffix.lower() not in _TABLES:
        raise ImportRefused(f"{file.name} is no table; expected .csv, .tsv or .parquet")
    with text_rows(file, _separator(file)) as table:
        if sorted(table.header) != sorted(header):
            raise ImportRefused(
                f"{file.name} has the columns {', '.join(table.header[:12])}; expected {', '.join(header[:12])}"
            )
        order = [table.header.index(name) for name in header]
        seen: Counter[bytes] = Counter()
        for where, cells in table.rows:
            if len(cells) != len(order):
                raise ImportRefused(
                    f"{where.replace(str(file), file.name)}: {len(cells)} values for {len(order)} columns"
                )
            row = [cells[place] for place in order]
            mark = _mark(row)
            seen[mark] += 1
            if seen[mark] > known[mark]:
                yield row
    for mark, count in seen.items():
        known[mark] = max(known[mark], count)


def _mark(cells: Iterable[str]) -> bytes:
    """A row in sixteen bytes."""
    return hashlib.blake2b("\0".join(cell.strip() for cell in cells).encode(), digest_size=16).digest()


def _separator(path: Path) -> str:
    """What stands between the columns, by the header."""
    with path.open("rb") as file:
        line = file.readline(1024 * 1024).decode("utf-8-sig", errors="replace")
    return max(_SEPARATORS, key=line.count)


def _draft(target: Path) -> Path:
    """A hidden file beside it, on the same disk."""
    return target.with_name(f".{target.name}.{os.getpid()}")


def _copy(source: IO[bytes], target: IO[bytes], length: int) -> None:
    left = length
    while left > 0 and (piece := source.read(min(left, 1024 * 1024))):
        target.write(piece)
        left -= len(piece)
