"""Backup and restore of a state folder: one archive that a running node can be copied into.

An archive is a zip file without compression. Its entry `backup.json` says its version, whose state it holds, and size and
SHA-256 of every other entry. The database is copied with SQLite's online backup, and then the model files that this copy
refers to, so that rows and files belong together. Nothing is restored before the whole archive was read and checked.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shutil
import sqlite3
import struct
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from flnet import __version__
from flnet.datasets.archives import member_path
from flnet.errors import StartError
from flnet.store.repair import DATABASE, MODELS
from flnet.store.sqlite_tables import VERSION, DamagedDatabase, open_database, referenced, version_of
from flnet.store.state_folder import LOCK, NAME, SUFFIX, FolderLock, sync_folder

MANIFEST = "backup.json"
FORMAT = 1  # version of the archive
IDENTITY = ("identity.pub", "identity.key")
_DRAFT = ".restoring"  # folder inside the state folder until everything is there
_KEPT_IN_PLACE = frozenset({LOCK, "lost+found"})  # of a folder that counts as empty
_NOT_COPIED = _KEPT_IN_PLACE | {DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", MODELS, "downloads", _DRAFT}
_PIECE = 1024 * 1024
_MOST_MANIFEST_BYTES = 16 * 1024 * 1024
_LOCK_SECONDS = 30.0  # for a node that is saving


@dataclass(frozen=True)
class BackupInfo:
    """What an archive holds.

    Attributes:
        made: time of the backup, ISO 8601 in UTC by the clock of its machine.
        flnet: version of the program that made it.
        state_version: of the database.
        files: size and SHA-256 of each file, by its path in the folder.
        missing: model files that the database refers to and that were not there.
    """

    node: str
    made: str
    flnet: str
    state_version: int
    files: Mapping[str, tuple[int, str]]
    missing: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(size for size, _ in self.files.values())


def back_up(folder: Path, target: Path) -> BackupInfo:
    """Write the state of a node, running or stopped, into a new archive that only this user can read.

    Raises:
        StartError: there is no state, its database is damaged, a file's name could not be restored, or the target
            exists or lies in the folder.
        OSError: a file cannot be read or written.
    """
    if not (folder / DATABASE).is_file():
        raise StartError(f"there is no state of a node in {folder}: {DATABASE} is missing")
    linked = {root.resolve() for root, _ in _walked(folder)}
    if target.parent.resolve() in linked or target.resolve().is_relative_to(folder.resolve()):
        raise StartError(
            f"the backup {target} would lie in the state folder itself; give a path outside of {folder}"
        )
    if target.exists():
        raise StartError(f"{target} exists; a backup does not overwrite, so give another name")
    # A folder of this user alone: it holds a copy of the database, and the archive until it is complete.
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as made:
        draft = Path(made) / target.name
        with contextlib.ExitStack() as stack:
            version, files, missing = _opened(folder, Path(made) / DATABASE, stack)
            info = BackupInfo(_node(folder), _now(), __version__, version, {}, missing)
            info = _written(draft, files, folder, info)
        os.link(draft, target)  # unlike a rename, it never replaces a file
    sync_folder(target.parent)
    return info


def read_backup(archive: Path) -> BackupInfo:
    """Check a whole archive and say what it holds; nothing is written.

    Raises:
        StartError: it is no backup, damaged, of a newer flnet, or a path in it leads out of the folder.
        OSError: it cannot be read.
    """
    with _unzipped(archive) as opened:
        return _checked(opened, archive)


def restore(archive: Path, folder: Path) -> BackupInfo:
    """Check an archive, and write its files into a state folder that is missing or empty.

    Everything is written into a folder inside it first, and the private key gets its name last: a node does not start on
    a folder with `identity.pub` alone, so it never starts on half a state.

    Raises:
        StartError: as `read_backup`; the folder is not empty or a node runs on it; the disk has too little space.
        OSError: a file cannot be read or written.
    """
    _check_empty(folder)
    with _unzipped(archive) as opened:
        info = _checked(opened, archive)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        if (free := shutil.disk_usage(folder).free) < info.size:
            raise StartError(f"{folder} has {free} bytes free, and the backup needs {info.size}")
        lock = FolderLock(folder)
        try:
            _check_empty(folder)
            draft = folder / _DRAFT
            draft.mkdir(mode=0o700)
            try:
                for path in info.files:
                    _extracted(opened, path, draft / path)
                _moved(draft, folder)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
            sync_folder(folder)
        finally:
            lock.close()
    return info


def _opened(
    folder: Path, copy: Path, stack: contextlib.ExitStack
) -> tuple[int, dict[str, IO[bytes]], tuple[str, ...]]:
    """Version of the database, it and its model files, open, by their paths, and which of them are missing.

    While the write lock of the database is held, a running node commits nothing and removes no file that is referred to.
    That takes milliseconds: open files can be read when the node has removed them, and the reader keeps its view.
    """
    found: dict[str, IO[bytes]] = {}
    try:
        with contextlib.closing(open_database(folder / DATABASE, read_only=True)) as db:
            with _held(folder / DATABASE):
                db.execute("BEGIN")
                wanted = {f"{MODELS}/{digest}{SUFFIX}": digest for digest in sorted(referenced(db))}
                for path in wanted:
                    with contextlib.suppress(FileNotFoundError):
                        found[path] = stack.enter_context((folder / path).open("rb"))
            version = version_of(db)
            with contextlib.closing(sqlite3.connect(copy)) as target:
                db.backup(target)
                target.execute("PRAGMA journal_mode = DELETE")  # one file, whole without a -wal beside it
    except DamagedDatabase as exc:
        raise StartError(f"the database in {folder} is damaged ({exc}); see `flnet doctor`") from exc
    except sqlite3.Error as exc:
        raise StartError(f"the database in {folder} cannot be copied: {exc}") from exc
    missing = tuple(digest for path, digest in wanted.items() if path not in found)
    found[DATABASE] = stack.enter_context(copy.open("rb"))
    return version, found, missing


@contextlib.contextmanager
def _held(database: Path) -> Iterator[None]:
    """Hold the write lock; a node that wants to commit waits for it."""
    with contextlib.closing(sqlite3.connect(database, timeout=_LOCK_SECONDS, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            writer.execute("ROLLBACK")


def _others(folder: Path) -> list[str]:
    """Files apart from database and models, without what a node can make again or what is unfinished or damaged.

    Raises:
        StartError: a restore would refuse the name of one, or a link leads to nothing.
        OSError: a folder cannot be read.
    """
    paths = []
    for root, names in _walked(folder):
        at_top = root == folder
        for name in names:
            path = root / name
            is_cache = not at_top and name.startswith("images-")  # decoded pictures of a data set
            is_partial = path.suffix in (".unfinished", ".part", ".parts") or ".damaged-" in name
            if (at_top and name in _NOT_COPIED) or is_cache or is_partial:
                continue
            if path.is_symlink() and not path.exists():  # perhaps to a disk that is not mounted
                raise StartError(
                    f"{str(path)!r} is a link to what is not there: bring that back, or remove the link"
                )
            if path.is_file() and _is_restored(path.relative_to(folder).as_posix()):
                paths.append(path.relative_to(folder).as_posix())
    return sorted(paths)


def _walked(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """The folder and those in it that are copied, with the names of their files; links to folders are followed."""
    for root, folders, names in os.walk(folder, followlinks=True, onerror=_unless_gone):
        at = Path(root)
        skipped = _NOT_COPIED if at == folder else frozenset()
        folders[:] = [name for name in folders if name not in skipped and not _leads_back(at / name, folder)]
        yield at, names


def _leads_back(path: Path, folder: Path) -> bool:
    """Whether it is a link to a folder through which the walk came to it: it would never end."""
    if not path.is_symlink():
        return False
    end = path.resolve()
    return any(above.resolve().is_relative_to(end) for above in path.parents if above.is_relative_to(folder))


def _unless_gone(exc: OSError) -> None:
    if not isinstance(exc, FileNotFoundError):  # a running node may have removed it
        raise exc


def _is_restored(path: str) -> bool:
    """False for what operating systems leave behind, which a restore refuses and nobody needs.

    Raises:
        StartError: a restore refuses its name, though somebody may need it.
    """
    try:
        path.encode()
        if path == MANIFEST:
            raise ValueError("has the name of the list in a backup")
        return member_path(path) is not None
    except UnicodeEncodeError as exc:
        raise _unfit(path, "has a name that is not UTF-8") from exc
    except ValueError as exc:
        raise _unfit(path, exc) from exc


def _unfit(path: str, reason: object) -> StartError:
    return StartError(
        f"{path!r} in the state folder {reason}, so it cannot be in a backup: rename it, or move it away"
    )


def _opened_others(folder: Path, known: Collection[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """The other files with their paths, each open until the next one; without those that are known or have vanished."""
    for _ in range(2):  # a running node may have renamed a file before it was opened: its new name comes then
        for path in _others(folder):
            if path not in known:
                with contextlib.suppress(FileNotFoundError), (folder / path).open("rb") as source:
                    yield path, source


def _written(draft: Path, files: Mapping[str, IO[bytes]], folder: Path, info: BackupInfo) -> BackupInfo:
    """Write these files and the others of the folder into an archive."""
    copied: dict[str, tuple[int, str]] = {}
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, strict_timestamps=False) as archive:
            for path, source in itertools.chain(sorted(files.items()), _opened_others(folder, copied)):
                with archive.open(zipfile.ZipInfo(path), "w", force_zip64=True) as entry:
                    copied[path] = _copied(source, entry)
            info = BackupInfo(info.node, info.made, info.flnet, info.state_version, copied, info.missing)
            archive.writestr(zipfile.ZipInfo(MANIFEST), json.dumps({"backup": FORMAT, **vars(info)}, indent=1))
        file.flush()
        os.fsync(file.fileno())
    return info


def _copied(source: IO[bytes], target: IO[bytes] | None) -> tuple[int, str]:
    """Bytes and SHA-256 of what was copied, or only read."""
    size, digest = 0, hashlib.sha256()
    while piece := source.read(_PIECE):
        size += len(piece)
        digest.update(piece)
        if target is not None:
            target.write(piece)
    return size, digest.hexdigest()


@contextlib.contextmanager
def _unzipped(archive: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(archive) as opened:
            yield opened
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError, struct.error) as exc:
        raise StartError(f"{archive} is no whole backup of flnet: {exc}") from exc


def _checked(opened: zipfile.ZipFile, archive: Path) -> BackupInfo:
    """The manifest, once all entries were compared with it."""
    entries = opened.infolist()
    names = [entry.filename for entry in entries]
    if MANIFEST not in names or len(set(names)) < len(names):
        raise StartError(f"{archive} is no backup of flnet: expected one entry {MANIFEST} and no name twice")
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise StartError(f"{archive} is no backup of flnet: its entries are compressed")
    if sum(entry.file_size for entry in entries) > archive.stat().st_size:
        raise StartError(f"{archive} is no whole backup: its entries are larger than the file")
    if opened.getinfo(MANIFEST).file_size > _MOST_MANIFEST_BYTES:
        raise StartError(f"{archive}: expected at most {_MOST_MANIFEST_BYTES} bytes of {MANIFEST}")
    info = _manifest(opened.read(MANIFEST), archive)
    if odd := sorted(set(names) ^ {MANIFEST, *info.files}):
        raise StartError(f"{archive} is damaged: {odd[0]!r} is in the archive or in its list, but not in both")
    for path, expected in info.files.items():
        with opened.open(path) as entry:
            if _copied(entry, None) != expected:
                raise StartError(f"{archive} is damaged: {path} is not what {MANIFEST} says")
    return info


def _manifest(data: bytes, archive: Path) -> BackupInfo:
    """Parse and check the manifest.

    Raises:
        StartError: it is of a newer flnet, not readable, or names a path that leads out of the folder.
    """
    try:
        fields: dict[str, Any] = json.loads(data)
        format, version = int(fields["backup"]), int(fields["state_version"])
        files = {str(path): (int(size), str(digest)) for path, (size, digest) in fields["files"].items()}
        missing = tuple(map(str, fields["missing"]))
        info = BackupInfo(str(fields["node"]), str(fields["made"]), str(fields["flnet"]), version, files, missing)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise StartError(f"{archive} is no backup of flnet: {MANIFEST} cannot be read ({exc})") from exc
    if format != FORMAT or version > VERSION:
        raise StartError(
            f"{archive} was written by flnet {info.flnet}: expected a backup of version {FORMAT} with a "
            f"state of version {VERSION} at most, got {format} and {version}"
        )
    for path in files:
        try:
            if member_path(path) is None or Path(path).as_posix() != path or path.split("/")[0] in _KEPT_IN_PLACE:
                raise ValueError("is no file of a state folder")
        except ValueError as exc:
            raise StartError(f"{archive} is refused: {path!r} {exc}") from exc
    if DATABASE not in files:
        raise StartError(f"{archive} is no backup of flnet: {DATABASE} is missing in it")
    return info


def _check_empty(folder: Path) -> None:
    """Raises StartError unless the folder is missing or empty."""
    if folder.exists() and not folder.is_dir():
        raise StartError(f"{folder} is no folder")
    held = sorted({path.name for path in folder.iterdir()} - _KEPT_IN_PLACE) if folder.exists() else []
    if held:
        raise StartError(
            f"the state folder {folder} is not empty (it holds {held[0]}): a backup is restored into an empty one only. "
            f"Move it away, or give another --state-path; nothing was changed"
        )


def _extracted(opened: zipfile.ZipFile, path: str, target: Path) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with opened.open(path) as entry, os.fdopen(handle, "wb") as file:
        _copied(entry, file)
        file.flush()
        os.fsync(file.fileno())


def _moved(draft: Path, folder: Path) -> None:
    public, private = IDENTITY
    order = {public: -1, private: 1}
    for path in sorted(draft.iterdir(), key=lambda path: order.get(path.name, 0)):
        path.rename(folder / path.name)


def _node(folder: Path) -> str:
    try:
        return str(json.loads((folder / NAME).read_bytes())["id"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
