"""Import of data for one trainer: new data, a replacement, or further examples for data that exist.

`place_of` says where the data of a trainer are. `Upload` collects files in a hidden folder next to it and moves them there
when they are complete. Further examples are appended to a table, or added to the class folders of images; rows and images
that exist already are skipped, so the same files may be imported repeatedly. Existing rows never change, so they stay on
their side of the split.
"""

from __future__ import annotations

import csv
import errno
import filecmp
import hashlib
import os
import re
import shutil
import tempfile
import unicodedata
import zipfile
from array import array
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TypeVar

from flnet.datasets.archives import Limit, broken, drafted, inner_folder, is_archive, member_path
from flnet.datasets.files import class_folders
from flnet.datasets.labelled import unpacked_size
from flnet.datasets.no_code import OwnImages, read_own
from flnet.datasets.tables import shown
from flnet.datasets.text_rows import TextRows, separator_of, text_rows
from flnet.datasets.zip_source import ZipSource
from flnet.errors import DataMissing, DataThere, FlnetError, ImportRefused, NoRoom
from flnet.text import Text, text
from flnet.trainer import TrainerFile

MOST_ROWS = 5_000_000  # of a table to which rows are added: a digest of each is held in memory
MOST_NEW_ROWS, MOST_NEW_BYTES = 1_000_000, 256 * 1024 * 1024  # that are added at once, and held in memory
R = TypeVar("R")
_CHOOSE = text(
    "choose that with --replace on the command line, the tick on the page, or replace=true in a request"
)
_FILES = (".csv", ".tsv", ".txt", ".parquet", ".pq", ".arff")  # a place that ends so is a file


@dataclass(frozen=True)
class Place:
    """The place in which a trainer looks for its data: a folder, or one file (`is_file`).

    Attributes:
        toml: the file of a trainer without code; None for other trainers.
        options: name of the file of options next to the data, for a trainer that has one: it says which file is read.
            Without the folder `path`, the trainer looks for both in `datasets` itself.
    """

    trainer: str
    datasets: Path
    path: Path
    is_file: bool
    toml: Path | None = None
    options: str = ""

    @property
    def options_file(self) -> Path | None:
        """The file of options that is used now; None if there is none."""
        if not self.options:
            return None
        file = (self.path if self.path.is_dir() else self.datasets) / self.options
        return file if file.is_file() else None

    def must_be_free(self) -> None:
        """Refuse an import over existing data.

        Raises:
            DataThere: there are data.
        """
        if self.path.is_symlink() or self.path.exists():
            raise DataThere(
                text(
                    "{trainer} has data in {folder} already; these can take their place, and the old ones are kept "
                    "aside: {words}",
                    self.trainer,
                    self.path,
                    _CHOOSE,
                )
            )
        if self.options_file is not None:
            raise DataThere(
                text(
                    "{trainer} reads the data that {file} is for; after this import it would read those in {folder} only, "
                    "with the same options if it brings none: {words}",
                    self.trainer,
                    self.options_file,
                    self.path,
                    _CHOOSE,
                )
            )

    def must_take_examples(self) -> None:
        """Refuse further examples for data to which none can be added.

        Raises:
            ImportRefused: the trainer has such data.
        """
        if self.options and (self.path.exists() or self.options_file is not None):
            raise ImportRefused(
                text("no examples can be added to the data of {trainer}; import all of them anew", self.trainer)
            )


def place_of(file: TrainerFile, datasets: Path | None) -> Place:
    """The place of the data of this trainer.

    Raises:
        ImportRefused: nobody said where, or it is not below the folder of data sets.
    """
    if datasets is None:
        raise ImportRefused(
            text("this node has no folder of data sets; set FLNET_DATASETS_PATH and start it again")
        )
    if not file.place:
        raise ImportRefused(
            text("{trainer} does not say where it looks for data (DATA_PLACE); put them there by hand", file.id)
        )
    root = datasets.resolve()
    path = Path(os.path.normpath(root / Path(file.place).expanduser()))
    if root not in path.parents:
        raise ImportRefused(
            text(
                "{trainer} reads {place}, which is not below {folder}; put the data there by hand",
                file.id,
                path,
                datasets,
            )
        )
    toml = Path(file.location) if file.location.endswith(".toml") else None
    return Place(file.id, root, path, path.suffix.lower() in _FILES, toml, file.options)


IMAGES = frozenset({".jpg", ".jpeg", ".png"})
_TABLES = frozenset({".csv", ".tsv", ".txt", ".parquet", ".pq"})
_TAIL = 64 * 1024  # bytes at the end of a picture in which its end mark lies
_LINE_ENDS = re.compile("\r\n|\r|\n")


class RowSources:
    """The file and line from which each row came that is added to a table; a few bytes a row."""

    def __init__(self, table: Path) -> None:
        self._pattern = re.compile(rf"{re.escape(str(table))}, line (\d+)")
        self._files: list[str] = []
        self._ends, self._of_file, self._numbers = array("q"), array("q"), array("q")

    def begin_file(self, name: str) -> None:
        """The rows that are noted from now on are of this file."""
        self._files.append(name)

    def note(self, number: int) -> None:
        """Note the next row: its line in its own file, or its number where that has no lines."""
        self._of_file.append(len(self._files) - 1)
        self._numbers.append(number)

    def written(self, line: int) -> None:
        """The next of the noted rows ends in this line of the table."""
        self._ends.append(line)

    def as_they_came(self, words: str) -> str:
        """Words on the table, with the file and the line that a person gave where they name the line of a new row."""
        return _replaced(words, lambda part: self._pattern.sub(lambda found: str(self._place(found)), part))

    def _place(self, found: re.Match[str]) -> str:
        at = bisect_left(self._ends, int(found[1]))
        if not self._ends or at >= len(self._ends) or int(found[1]) < self._ends[0]:
            return found[0]
        return text("{path}, line {line}", self._files[self._of_file[at]], self._numbers[at])


def _replaced(words: str, change: Callable[[str], str]) -> str:
    """Words with changed parts; a sentence that can be translated still can."""
    if not isinstance(words, Text):
        return change(words)
    if not any(isinstance(value, Text) for value in words.params.values()) and change(words) != words:
        line = words.params.get("line")  # the place of a row: "{path}, line {line}"
        if isinstance(line, int) and (parts := re.fullmatch(r"(.*), line (\d+)", change(words), re.DOTALL)):
            return Text(words.template, {**words.params, "path": parts[1], "line": int(parts[2])})
    changed = {name: _replaced(v, change) if isinstance(v, str) else v for name, v in words.params.items()}
    return Text(words.template, changed)


@dataclass(frozen=True)
class AddedExamples:
    """Examples that were added to existing data, and how to remove them again.

    Attributes:
        made: files that are new there, each with the name under which it came.
        folders: of classes, that are new there.
        length: bytes of a table before rows were added; None for a folder.
        rows: where the rows that were added to a table came from; None for a folder.
    """

    place: Path
    files: int
    size: int
    made: Mapping[Path, str] = field(default_factory=dict)
    folders: Sequence[Path] = ()
    length: int | None = None
    rows: RowSources | None = None
    aside: Path | None = None

    def as_it_came(self, words: str) -> str:
        """A trainer's words on the data, with the file and the line that the person gave for an added example."""
        for path, name in self.made.items():
            if str(path) in words:
                words = _replaced(words, lambda part, path=path, name=name: part.replace(str(path), name))  # type: ignore[misc]
        return self.rows.as_they_came(words) if self.rows is not None else words

    def undo(self) -> None:
        """Remove the added examples."""
        for path in self.made:
            path.unlink(missing_ok=True)
        for folder in self.folders:
            with suppress(OSError):  # of somebody who put something into it meanwhile
                folder.rmdir()
        if self.length is not None:
            draft = _draft(self.place)
            shutil.copyfile(self.place, draft)
            os.truncate(draft, self.length)
            draft.replace(self.place)


def add_to(place: Place, came: Path) -> AddedExamples:
    """Add the files of a folder to existing data.

    Raises:
        ImportRefused: they are no further examples of what is there; nothing has changed.
        OSError: they cannot be read or written.
    """
    files = sorted(path for path in came.rglob("*") if path.is_file())
    if not files:
        raise ImportRefused(text("no files came"))
    if place.is_file:
        return _rows_to(place, came, files)
    return _images_to(place, came, files)


def _images_to(place: Place, came: Path, files: Sequence[Path]) -> AddedExamples:
    root = place.path / "train" if (place.path / "train").is_dir() else place.path
    there = class_folders(root)
    known = sorted({*there, *_classes_in(place.toml)})
    wanted = [(file, _class_of(file, came, known)) for file in files]
    made: dict[Path, str] = {}
    folders = [root / name for name in sorted({name for _, name in wanted} - there.keys())]
    size = 0
    try:
        for folder in folders:
            folder.mkdir()
        for file, name in wanted:
            if (target := _free_name(there.get(name, [root / name])[0], file)) is not None:
                draft = _draft(target)
                shutil.copyfile(file, draft)
                draft.replace(target)
                made[target] = file.relative_to(came).as_posix()
                size += target.stat().st_size
    except BaseException:
        AddedExamples(place.path, 0, 0, made, folders).undo()
        raise
    return AddedExamples(place.path, len(made), size, made, folders)


def _classes_in(toml: Path | None) -> Sequence[str]:
    """The classes in the file of a trainer of images; none where it lists none.

    Raises:
        ImportRefused: it cannot be read.
    """
    if toml is None:
        return ()
    try:
        own = read_own(toml)
    except FlnetError as exc:
        raise ImportRefused(exc.message) from exc
    return own.classes or () if isinstance(own, OwnImages) else ()


def _class_of(file: Path, came: Path, classes: Sequence[str]) -> str:
    folder = unicodedata.normalize("NFC", file.parent.name)
    name, known = file.relative_to(came).as_posix(), shown(classes)
    if file.suffix.lower() not in IMAGES:
        raise ImportRefused(text("{name} is no .jpg, .jpeg or .png", name))
    if file.parent == came or folder not in classes:
        raise ImportRefused(
            text("{name} does not lie in a folder of its class; expected one of {known}", name, known)
        )
    if not _is_whole(file):
        raise ImportRefused(text("{name} is no whole image", name))
    return folder


def _is_whole(file: Path) -> bool:
    """Whether a file begins and ends like an image of its format; the rest is checked when it is decoded."""
    with file.open("rb") as opened:
        head = opened.read(8)
        opened.seek(max(0, file.stat().st_size - _TAIL))
        tail = opened.read()
    if head[:2] == b"\xff\xd8":
        return b"\xff\xd9" in tail
    return head == b"\x89PNG\r\n\x1a\n" and b"IEND" in tail


def _free_name(folder: Path, file: Path) -> Path | None:
    """A free path for a file; None if the same file exists, under its name or with a number appended."""
    number, target = 0, folder / file.name
    while target.exists():
        if filecmp.cmp(target, file, shallow=False):
            return None
        number += 1
        target = folder / f"{file.stem}-{number}{file.suffix}"
    return target


def _rows_to(place: Place, came: Path, files: Sequence[Path]) -> AddedExamples:
    path, sources = place.path, RowSources(place.path)
    if path.suffix.lower() in (".parquet", ".pq"):
        raise ImportRefused(
            text("{name} is a Parquet file, to which no rows can be added; save it as CSV", path.name)
        )
    if path.suffix.lower() == ".arff":
        raise ImportRefused(
            text("{name} is an ARFF file, to which no rows can be added; save it as CSV", path.name)
        )
    if sum(file.stat().st_size for file in files) > MOST_NEW_BYTES:
        raise ImportRefused(
            text("the rows have more than {most} bytes; add fewer, or replace the table", f"{MOST_NEW_BYTES:,}")
        )
    separator = _stated_separator(place.toml) or separator_of(path)
    try:
        with text_rows(path, separator) as existing:
            rows_there = (_mark(cells) for _, cells in existing.rows)
            header, known = existing.header, Counter(_at_most(MOST_ROWS, rows_there, path.name))
        new = (row for file in files for row in _new_rows(file, came, header, separator, known, sources))
        rows = list(_at_most(MOST_NEW_ROWS, new, text("what came")))
    except FlnetError as exc:
        raise ImportRefused(exc.message) from exc
    if not rows:
        return AddedExamples(path, 0, 0)
    length = path.stat().st_size
    _append(path, rows, separator, sources)
    return AddedExamples(path, len(files), path.stat().st_size - length, length=length, rows=sources)


def _append(path: Path, rows: Iterable[Sequence[str]], separator: str, sources: RowSources) -> None:
    """Append rows to a table, which is complete at any time, and note in which line each of them ends."""
    draft = _draft(path)
    shutil.copyfile(path, draft)
    with draft.open(encoding="utf-8-sig", newline="") as old:
        line, last = next(iter(deque(enumerate(old, start=1), maxlen=1)), (0, "\n"))
    with draft.open("a", encoding="utf-8", newline="") as output:
        if not last.endswith(("\n", "\r")):
            output.write("\n")
        writer = csv.writer(output, delimiter=separator, lineterminator="\n")
        for row in rows:
            writer.writerow(row)
            line += 1 + sum(len(_LINE_ENDS.findall(cell)) for cell in row)
            sources.written(line)
    draft.replace(path)


def _at_most(most: int, rows: Iterable[R], source: str) -> Iterator[R]:
    """The same rows; they are held in memory, so that there may not be more than this.

    Raises:
        ImportRefused: there are more.
    """
    for number, row in enumerate(rows, start=1):
        if number > most:
            raise ImportRefused(
                text("{source} has more than {most} rows; add fewer, or replace the table", source, f"{most:,}")
            )
        yield row


def _new_rows(
    file: Path, came: Path, header: Sequence[str], separator: str, known: Counter[bytes], sources: RowSources
) -> Iterator[list[str]]:
    """Rows of a file that do not exist yet, in the order of the header; repeated rows count as often as they occur.

    Errors name the file as it came, not the copy that is read; so does `sources`.

    Raises:
        ImportRefused: it is no table, or one with other columns.
        FlnetError: it cannot be read.
    """
    if file.suffix.lower() not in _TABLES:
        raise ImportRefused(text("{name} is no table; expected .csv, .tsv or .parquet", file.name))
    name = file.relative_to(came).as_posix()
    sources.begin_file(name)
    seen: Counter[bytes] = Counter()
    try:
        with text_rows(file, separator_of(file, separator)) as table:
            for where, row in _in_order(table, header, name):
                mark = _mark(row)
                seen[mark] += 1
                if seen[mark] > known[mark]:
                    sources.note(int(where.rpartition(" ")[2]))
                    yield row
    except FlnetError as exc:
        raise ImportRefused(_replaced(str(exc), lambda part: part.replace(str(file), name))) from exc
    for mark, count in seen.items():
        known[mark] = max(known[mark], count)


def _in_order(table: TextRows, header: Sequence[str], name: str) -> Iterator[tuple[str, list[str]]]:
    """The rows of a table with the same columns in another order, each with its place.

    Raises:
        ImportRefused: it has other columns, or a row of another number of values.
    """
    if sorted(table.header) != sorted(header):
        raise ImportRefused(
            text(
                "{name} has the columns {columns}; expected {others}",
                name,
                ", ".join(table.header[:12]),
                ", ".join(header[:12]),
            )
        )
    order = [table.header.index(column) for column in header]
    for where, cells in table.rows:
        if len(cells) != len(order):
            raise ImportRefused(
                text("{where}: {count} values for {number} columns", where, len(cells), len(order))
            )
        yield where, [cells[place] for place in order]


def _mark(cells: Iterable[str]) -> bytes:
    """A digest of a row, 16 bytes."""
    return hashlib.blake2b("\0".join(cell.strip() for cell in cells).encode(), digest_size=16).digest()


def _stated_separator(toml: Path | None) -> str | None:
    """The separator by which a trainer without code reads its table; None if its file states none."""
    if toml is None:
        return None
    try:
        own = read_own(toml)
    except FlnetError:
        return None  # what is wrong with it is told when the trainer loads
    if isinstance(own, OwnImages) or "separator" not in own.model_fields_set:
        return None
    return "\t" if own.separator == "tab" else own.separator


def _draft(target: Path) -> Path:
    """A hidden file in the same folder."""
    return target.with_name(f".{target.name}.{os.getpid()}")


GIGABYTE = 1e9
DRAFT = ".import-"  # begins the names of folders in which data wait until they are whole
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_OF_PROCESS = re.compile(rf"{re.escape(DRAFT)}(\d+)-.*")


@dataclass(frozen=True)
class ImportedFolder:
    """Imported data, and the folder to which earlier data were moved (None: there were none).

    Attributes:
        name: under which the file came, if the place is a file.
    """

    place: Path
    files: int
    size: int
    aside: Path | None
    name: str = ""

    def as_it_came(self, words: str) -> str:
        """A trainer's words on the data, with the name of the file that the person gave instead of its place."""
        old, new = (str(self.place), self.name) if self.name else (f"{self.place}{os.sep}", "")
        return _replaced(words, lambda part: part.replace(old, new))

    def undo(self) -> None:
        """Remove the imported data, and restore the data that were there before."""
        with tempfile.TemporaryDirectory(dir=self.place.parent, prefix=_prefix()) as draft:
            self.place.rename(Path(draft) / "undone")
            if self.aside is not None:
                self.aside.rename(self.place)


class Upload:
    """Files that are being imported: `begin` a file, `write` its parts, and finally `settle` or `discard` all of them."""

    def __init__(self, place: Place, gigabytes: float, *, replace: bool = False, add: bool = False) -> None:
        """Create the hidden folder in which files are collected.

        Args:
            place: where they go.
            gigabytes: of all files together, unpacked.
            replace: whether they may take the place of others.
            add: whether the examples are added to the existing ones.

        Raises:
            DataThere: there are data, and they may not be replaced.
            ImportRefused: examples cannot be added to data of this kind.
            ImportRefused, NoRoom: the folder cannot be written.
        """
        if add:
            place.must_take_examples()
        self.adds = add and place.path.exists()
        if not replace and not self.adds:
            place.must_be_free()
        self.place, self.replace, self.name = place, replace, ""
        self._remedy = text("FLNET_MAX_IMPORT_GIGABYTES={limit} allows no more", f"{gigabytes:g}")
        self._limit = Limit(text("what came"), gigabytes * GIGABYTE, self._remedy)
        self._open: IO[bytes] | None = None
        self._unpacked: Path | None = None
        with self._told():
            place.datasets.mkdir(parents=True, exist_ok=True)
            _sweep(place.datasets)
            self._draft = Path(tempfile.mkdtemp(dir=place.datasets, prefix=_prefix()))
            self._came = self._draft / "came"
            self._came.mkdir()

    def begin(self, name: str) -> None:
        """Start a file; its name may contain folders.

        Raises:
            ImportRefused: of such a name, or a second one of the same name.
        """
        self._close()
        with self._told():
            self._limit.another_file()
            try:
                inside = member_path(name)
            except ValueError as exc:
                raise ImportRefused(text("{name} {reason}", repr(name[:200]), exc)) from exc
            if inside is not None:
                self.name = self.name or inside.parts[0]
                target = self._came.joinpath(*inside.parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                self._open = target.open("xb")

    def write(self, data: bytes | memoryview) -> None:
        """Append to the file that was started last.

        Raises:
            ImportRefused: too much. NoRoom: the disk is full.
        """
        with self._told():
            self._limit.more(len(data))
            if self._open is not None:
                self._open.write(data)

    def unpack(self) -> None:
        """Unpack an archive. `settle` does so too; but who has to wait for that learns here what is wrong with it.

        Raises:
            ImportRefused: nothing came, or it is not safe to unpack. NoRoom: the disk is full.
        """
        self._close()
        with self._told():
            self._unpacked = self._unpacked or self._files()
            self._count_arrays(self._unpacked)

    def inside(self) -> Path:
        """What came, unpacked: a folder, or the file if it is a single one. `name` says how it was called.

        Raises:
            ImportRefused, NoRoom: as `unpack`.
        """
        self.unpack()
        assert self._unpacked is not None
        files = [path for path in self._unpacked.rglob("*") if path.is_file()]
        return files[0] if len(files) == 1 else inner_folder(self._unpacked)

    def settle(self) -> ImportedFolder | AddedExamples:
        """Unpack archives, and move all files into their place.

        Raises:
            ImportRefused: nothing came, or it is not safe to unpack. NoRoom: the disk is full.
            DataThere: there are data, and they may not be replaced.
        """
        try:
            self.unpack()
            with self._told():
                assert self._unpacked is not None
                if self.adds:
                    return add_to(self.place, self._unpacked)
                whole = self._whole(self._unpacked)
                name = whole.name if self.place.is_file else ""
                sizes = [file.stat().st_size for file in self._unpacked.rglob("*") if file.is_file()]
                self._keep_options(whole)
                aside = self._moved_aside()
                try:
                    self.place.path.parent.mkdir(parents=True, exist_ok=True)
                    whole.rename(self.place.path)
                except BaseException:
                    if aside is not None:
                        aside.rename(self.place.path)
                    raise
        finally:
            self.discard()
        return ImportedFolder(self.place.path, len(sizes), sum(sizes), aside, name)

    def discard(self) -> None:
        """Delete all collected files; may be called repeatedly."""
        with suppress(ImportRefused, NoRoom):
            self._close()
        shutil.rmtree(self._draft, ignore_errors=True)

    def _count_arrays(self, folder: Path) -> None:
        """Count .npz files as what they unpack to: trainers read that into memory.

        Raises:
            DataMissing: they are too large.
        """
        limit = Limit(text("what came"), self._limit.size, self._remedy)
        for path in folder.rglob("*.npz"):
            with ZipSource(path) as raw, suppress(zipfile.BadZipFile):  # its trainer says what is wrong with it
                limit.more(unpacked_size(raw))

    def _files(self) -> Path:
        """The folder of collected files, or of the unpacked archive."""
        files = [path for path in self._came.rglob("*") if path.is_file()]
        if not files:
            raise ImportRefused(text("no files came; choose a file, a folder, or a .zip or .tar archive"))
        if len(files) > 1 or not is_archive(files[0].name):
            return self._came
        allowed = min(self._limit.size, shutil.disk_usage(self._draft).free)
        return drafted(files[0], self._draft / "new", Limit(files[0].name, allowed, self._remedy))

    def _whole(self, whole: Path) -> Path:
        """The folder or file that is moved into the place, of the folder of collected or unpacked files."""
        files = [path for path in whole.rglob("*") if path.is_file()]
        if self.place.is_file:
            if len(files) != 1:
                raise ImportRefused(
                    text(
                        "{trainer} reads one file, {name}; {value} came",
                        self.place.trainer,
                        self.place.path.name,
                        len(files),
                    )
                )
            return files[0]
        if not files:
            raise ImportRefused(text("the archive holds no files"))
        return inner_folder(whole)

    def _keep_options(self, whole: Path) -> None:
        """Copy the options of the old data to the new ones, where these came without."""
        if (options := self.place.options_file) is not None and not (whole / options.name).exists():
            shutil.copyfile(options, whole / options.name)

    def _moved_aside(self) -> Path | None:
        """The path to which existing data were moved."""
        path = self.place.path
        leads_nowhere = path.is_symlink() and not path.exists()
        if leads_nowhere or not self.replace:
            self.place.must_be_free()
        if not path.exists():
            return None
        number = 1
        while (aside := path.with_name(f"{path.name}.before-{number}")).exists():
            number += 1
        path.rename(aside)
        return aside

    def _close(self) -> None:
        file, self._open = self._open, None
        if file is not None:
            with self._told():
                file.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn every failure inside into ImportRefused or NoRoom."""
        try:
            yield
        except DataMissing as exc:
            raise ImportRefused(exc.message) from exc
        except broken() as exc:
            raise ImportRefused(
                text("the archive cannot be unpacked: {reason}", exc or type(exc).__name__)
            ) from exc
        except OSError as exc:
            if exc.errno in _NO_ROOM:
                raise NoRoom(
                    text("the disk of {folder} is full; make room, and try again", self.place.datasets)
                ) from exc
            raise ImportRefused(
                text("it cannot be written to {folder}: {reason}", self.place.datasets, exc.strerror or exc)
            ) from exc
        except (RuntimeError, ValueError) as exc:  # RuntimeError: a zip file with a password
            raise ImportRefused(text("it cannot be taken in: {reason}", exc)) from exc


def bring_to(
    place: Place,
    source: Path,
    gigabytes: float,
    *,
    replace: bool = False,
    add: bool = False,
    report: Callable[[int], None] = lambda count: None,
) -> ImportedFolder | AddedExamples:
    """Import a file, folder or archive of this machine for a trainer; the source is not changed.

    Args:
        place: where it goes.
        source: what is brought.
        gigabytes: of all files together, unpacked.
        replace: whether it may take the place of others.
        add: whether it is added to them.
        report: called with the number of bytes of every part that was copied.

    Raises:
        ImportRefused, DataThere, NoRoom: as in `Upload`.
    """
    upload = Upload(place, gigabytes, replace=replace, add=add)
    try:
        for name, path in files_of(source):
            upload.begin(name)
            with path.open("rb") as file:
                while piece := file.read(1024 * 1024):
                    upload.write(piece)
                    report(len(piece))
    except OSError as exc:
        upload.discard()
        raise ImportRefused(text("{path} cannot be read: {reason}", source, exc.strerror or exc)) from exc
    except BaseException:
        upload.discard()
        raise
    return upload.settle()


def files_of(source: Path) -> Iterator[tuple[str, Path]]:
    """Every file of a source, with its name relative to the source.

    Raises:
        ImportRefused: there is none, or one is a link or a device.
    """
    if not source.exists():
        raise ImportRefused(text("{path} is not there; name a folder, a file, or a .zip or .tar archive", source))
    for path in sorted(source.rglob("*")) if source.is_dir() else [source]:
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise ImportRefused(
                text("{path} is a link or a device; put the file itself in its place, or remove it", path)
            )
        if path.is_file():
            yield (path.relative_to(source).as_posix() if source.is_dir() else path.name), path


def _prefix() -> str:
    return f"{DRAFT}{os.getpid()}-"


def _sweep(datasets: Path) -> None:
    """Remove the hidden folders of processes that were killed during an import."""
    for path in datasets.glob(f"{DRAFT}*"):
        named = _OF_PROCESS.fullmatch(path.name)
        if named and int(named[1]) != os.getpid():
            try:
                os.kill(int(named[1]), 0)
            except ProcessLookupError:
                shutil.rmtree(path, ignore_errors=True)
            except OSError:
                continue
