"""Copies a data set into the folder of data sets, or unpacks an archive there: completely or not at all.

Sources are not trusted. Names that lead out of the folder, links and devices are refused, and so is an archive that unpacks
to more than the limit. `member_path` holds the rule for names, for archives and for uploads from a browser alike.
"""

from __future__ import annotations

import lzma
import re
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Self

from flnet.datasets.labelled import MOST_TIMES_LARGER, SMALL
from flnet.datasets.zip_source import ZipSource
from flnet.errors import DataMissing
from flnet.text import text

_LEFT_BEHIND = frozenset({"__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini"})  # by operating systems
_LONGEST = 255  # bytes of one step, as file systems have it
_DEEPEST = 40
_DRIVE = re.compile(r"[A-Za-z]:")


def member_path(name: str) -> PurePosixPath | None:
    """The safe relative path of a file: never absolute, no ".."; None for files that operating systems leave behind.

    Raises:
        ValueError: the name leads out of the folder, or no file can have it; says why.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or _DRIVE.match(name):
        raise ValueError(text("leads out of its folder"))
    if any(not sign.isprintable() for sign in name):
        raise ValueError(text("has signs in its name that cannot be seen"))
    if len(path.parts) > _DEEPEST:
        raise ValueError(text("lies more than {most} folders deep", _DEEPEST))
    if any(len(step.encode()) > _LONGEST for step in path.parts):
        raise ValueError(text("has a name of more than {most} bytes", _LONGEST))
    if not path.parts or _LEFT_BEHIND & set(path.parts) or path.name.startswith("._"):
        return None
    return path


MAX_GIGABYTES = 50.0
MAX_FILES = 1_000_000
_MOST_NAME_BYTES = 1024 * 1024  # of a name, or of further facts of a file, which are read at once
_PIECE = 1024 * 1024
_ARCHIVE = re.compile(r"(.+?)\.(zip|tar|tgz|tbz2|txz|tar\.(gz|bz2|xz))", re.IGNORECASE)
_NAME = re.compile(r"[^/\\\0]{1,200}")
_IS_UTF8 = 0x800  # bit of a zip entry's flags, by which its name is UTF-8


@dataclass(frozen=True)
class CopiedData:
    """A data set that was copied or unpacked: its folder, number of files, and bytes."""

    place: Path
    files: int
    size: int


@dataclass
class Limit:
    """Counts files and bytes that are written, and raises when there are too many.

    Attributes:
        source: of the data, for messages.
        size: bytes of all files together.
        remedy: what to do where that is too little.
    """

    source: Path | str
    size: float
    remedy: str = "if that is right, allow more with --limit-gigabytes"
    files: int = 0
    written: int = 0

    def another_file(self) -> None:
        """Count one more file.

        Raises:
            DataMissing: that is one too many.
        """
        self.files += 1
        if self.files > MAX_FILES:
            raise DataMissing(
                text("{source} has more than {count} files", self.source, f"{MAX_FILES:,}"),
                text("bring it in parts"),
            )

    def more(self, count: int) -> None:
        """Count this number of bytes.

        Raises:
            DataMissing: they are too many.
        """
        self.written += count
        if self.written > self.size:
            size = f"{self.size / 1e9:.3g}"
            raise DataMissing(text("{source} holds more than {size} GB", self.source, size), self.remedy)


def copy_or_unpack(
    source: Path, datasets: Path, name: str | None = None, limit_gigabytes: float = MAX_GIGABYTES
) -> CopiedData:
    """Copy a file or folder, or unpack a zip or tar archive, into the folder of data sets.

    If an archive contains only one folder, that folder is unpacked.

    Args:
        source: the file or folder; it is not changed.
        datasets: the folder of data sets; made if it is not there.
        name: what it is called there; its own name if absent.
        limit_gigabytes: of all files together, unpacked.

    Raises:
        DataMissing: it cannot be read, is not safe to unpack, is too large, or is there already; says what to do.
    """
    if not source.exists():
        raise DataMissing(text("{path} is not there", source), "name a folder, a file, or a .zip or .tar archive")
    if name is not None and (not _NAME.fullmatch(name) or name.startswith(".")):
        raise DataMissing(f"{name!r} is no name for a data set", "take one without slashes or a leading dot")
    try:
        datasets.mkdir(parents=True, exist_ok=True)
        allowed = min(limit_gigabytes * 1e9, shutil.disk_usage(datasets).free)
        with tempfile.TemporaryDirectory(dir=datasets, prefix=".import-") as draft:
            limit = Limit(source, allowed)
            whole = drafted(source, Path(draft) / "new", limit)
            target = datasets / (name or whole.name)
            if target.exists() or target.is_symlink():
                raise DataMissing(f"{target} is there already", "remove it, or give another name with --as")
            if not limit.files:
                raise DataMissing(f"{source} holds no files", "name another one")
            whole.rename(target)
    except broken() as exc:
        what = f"{source} cannot be unpacked: {exc or type(exc).__name__}"
        raise DataMissing(what, "fetch or pack it again") from exc
    except (OSError, RuntimeError, ValueError) as exc:  # RuntimeError: a zip file with a password
        raise DataMissing(f"{source} cannot be brought to {datasets}: {exc}", "mend that, and try again") from exc
    return CopiedData(target, limit.files, limit.written)


def drafted(source: Path, draft: Path, limit: Limit) -> Path:
    """A copy of a file or folder, or the contents of an archive, in a new folder, under its final name.

    Raises:
        DataMissing: it is not safe to unpack, or too large. One of `broken`: it is no whole archive.
    """
    draft.mkdir()
    archive = _ARCHIVE.fullmatch(source.name)
    if source.is_dir():
        _copy_folder(source, draft / source.resolve().name, limit)
        return draft / source.resolve().name
    if archive is None:
        with source.open("rb") as file:
            _write(file, draft / source.name, limit)
        return draft / source.name
    limit.size = min(limit.size, max(SMALL, MOST_TIMES_LARGER * source.stat().st_size))
    folder = draft / archive[1]
    folder.mkdir()
    with closing(_members(source)) as members:
        for member, opened in members:
            with opened as file:
                if is_archive(member.name):  # what is in it would escape all that is counted here
                    raise _unsafe(source, str(member), "is an archive itself")
                _write(file, folder.joinpath(*member.parts), limit)
    return inner_folder(folder)


def inner_folder(folder: Path) -> Path:
    """The folder, or its only subfolder if it holds nothing else: folders are chosen and packed as often as files."""
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder


def broken() -> tuple[type[Exception], ...]:
    """Turn the errors of reading a damaged archive into DataMissing."""
    return (tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, NotImplementedError)


def is_archive(name: str) -> bool:
    """Whether a file of this name is an archive."""
    return _ARCHIVE.fullmatch(name) is not None


def _copy_folder(source: Path, target: Path, limit: Limit) -> None:
    """Copy all files below a folder."""
    target.mkdir()
    for path in sorted(source.rglob("*")):
        inside = path.relative_to(source)
        if path.is_symlink():
            raise DataMissing(f"{path} is a link", "put the file itself in its place, or remove it")
        if path.is_dir() or _checked(source, inside.as_posix()) is None:
            continue
        if not path.is_file():
            raise DataMissing(f"{path} is no file", "remove it")
        with path.open("rb") as file:
            _write(file, target / inside, limit)


_BEFORE_FILES = (  # entries that are facts of the next one: long names and the like
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
)


class TarEntry(tarfile.TarInfo):
    """An entry of a tar archive. One with a long name is refused before the name is read: a few bytes unpack to any."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Read the header of an entry.

        Raises:
            tarfile.ReadError: its name, or what else stands before the file, is too long.
        """
        entry = super().frombuf(buf, encoding, errors)
        if entry.type in _BEFORE_FILES and entry.size > _MOST_NAME_BYTES:
            raise tarfile.ReadError(text("a name in it has {count} bytes", f"{entry.size:,}"))
        return entry


def tar_entries(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The entries of a tar archive that was opened with `tarinfo=TarEntry`, MAX_FILES of them at most.

    Raises:
        tarfile.ReadError: there are more. They stay in memory, whatever they are.
    """
    for number, entry in enumerate(archive):
        if number >= MAX_FILES:
            raise tarfile.ReadError(text("it has more than {count} entries", f"{MAX_FILES:,}"))
        yield entry


def _members(source: Path) -> Generator[tuple[PurePosixPath, IO[bytes]], None, None]:
    """The files of an archive: checked paths and open files."""
    if source.suffix.lower() == ".zip":
        with ZipSource(source) as listed, zipfile.ZipFile(listed) as packed:
            for entry in packed.infolist():
                kind, called = stat.S_IFMT(entry.external_attr >> 16), zip_name(entry)
                if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                    raise _unsafe(source, called, "is a link or a device")
                name = _checked(source, called)
                if name is not None and not entry.is_dir():
                    yield name, packed.open(entry)
        return
    with tarfile.open(source, tarinfo=TarEntry) as packed_tar:
        for member in tar_entries(packed_tar):
            if not (member.isfile() or member.isdir()):
                raise _unsafe(source, member.name, "is a link or a device")
            name, file = _checked(source, member.name), packed_tar.extractfile(member)
            if name is not None and file is not None:
                yield name, file


def zip_name(entry: zipfile.ZipInfo) -> str:
    """The name of a file in a zip archive: UTF-8 if it is flagged so or its bytes are valid UTF-8, else code page 437.

    Programs on Unix, `zip` of Linux among them, write names in UTF-8 without the flag. zipfile takes these for code
    page 437; a name that really is in that code page is hardly ever valid UTF-8 beyond ASCII.
    """
    if entry.flag_bits & _IS_UTF8:
        return entry.filename
    try:
        return entry.filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        return entry.filename


def _checked(source: Path, text: str) -> PurePosixPath | None:
    """The checked path of a member; None for files that operating systems leave behind."""
    try:
        return member_path(text)
    except ValueError as exc:
        raise _unsafe(source, text, str(exc)) from exc


def _unsafe(source: Path, name: str, why: str) -> DataMissing:
    words = text("{source} is not unpacked: {name} in it {reason}", source, repr(name[:200]), why)
    return DataMissing(words, text("unpack what you need by hand"))


def _write(file: IO[bytes], target: Path, limit: Limit) -> None:
    limit.another_file()
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as copy:  # a name that comes twice is an error, not a surprise
        while piece := file.read(_PIECE):
            limit.more(len(piece))
            copy.write(piece)
