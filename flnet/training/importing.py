"""Data brought to one trainer: written beside their place, checked, moved in by one renaming, undone if need be.

Nothing that is brought is trusted, see `bringing` and `member_names`. What lay in the place before is never
written over: it is kept aside under another name, and only where that was asked for.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from flnet.errors import DataMissing
from flnet.training.adding import Added, add_to
from flnet.training.bringing import Limit, broken, drafted, is_archive
from flnet.training.member_names import member_path
from flnet.training.places import ImportRefused, NoRoom, Place

GIGABYTE = 1e9
DRAFT = ".import-"  # begins the names of folders in which data wait until they are whole
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_OF_PROCESS = re.compile(rf"{re.escape(DRAFT)}(\d+)-.*")


@dataclass(frozen=True)
class Moved:
    """Data in their place: how much, and where those went that were there before (None: nothing was there)."""

    place: Path
    files: int
    size: int
    aside: Path | None

    def undo(self) -> None:
        """Take them out again, and put back what was there."""
        with tempfile.TemporaryDirectory(dir=self.place.parent, prefix=_prefix()) as draft:
            self.place.rename(Path(draft) / "undone")
            if self.aside is not None:
                self.aside.rename(self.place)


class Upload:
    """Files on their way to one trainer: `begin` one, `write` its parts, and at last `settle` or `discard` all."""

    def __init__(self, place: Place, gigabytes: float, *, replace: bool = False, add: bool = False) -> None:
        """Make the hidden folder in which they wait.

        Args:
            place: where they go.
            gigabytes: of all files together, unpacked.
            replace: whether they may take the place of others.
            add: whether they are further examples beside those that are there.

        Raises:
            DataThere: there are data, and they may not be replaced.
            ImportRefused, NoRoom: the folder cannot be written.
        """
        self.adds = add and place.path.exists()
        if not replace and not self.adds:
            place.must_be_free()
        self.place, self.replace = place, replace
        self._remedy = f"FLNET_MAX_IMPORT_GIGABYTES={gigabytes:g} allows no more"
        self._limit = Limit(Path("what came"), gigabytes * GIGABYTE, self._remedy)
        self._open: IO[bytes] | None = None
        with self._told():
            place.datasets.mkdir(parents=True, exist_ok=True)
            _sweep(place.datasets)
            self._draft = Path(tempfile.mkdtemp(dir=place.datasets, prefix=_prefix()))
            self._came = self._draft / "came"
            self._came.mkdir()

    def begin(self, name: str) -> None:
        """The parts that follow are of a file of this name, which may have folders in it.

        Raises:
            ImportRefused: of such a name, or a second one of the same name.
        """
        self._close()
        with self._told():
            self._limit.another_file()
            try:
                inside = member_path(name)
            except ValueError as exc:
                raise ImportRefused(f"{name[:200]!r} {exc}") from exc
            if inside is not None:
                target = self._came.joinpath(*inside.parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                self._open = target.open("xb")

    def write(self, data: bytes | memoryview) -> None:
        """More of the file that was begun.

        Raises:
            ImportRefused: too much. NoRoom: the disk is full.
        """
        with self._told():
            self._limit.more(len(data))
            if self._open is not None:
                self._open.write(data)

    def settle(self) -> Moved | Added:
        """Unpack what is an archive, and move all into its place.

        Raises:
            ImportRefused: nothing came, or it is not safe to unpack. NoRoom: the disk is full.
            DataThere: there are data, and they may not be replaced.
        """
        self._close()
        try:
            with self._told():
                if self.adds:
                    return add_to(self.place, self._unpacked())
                whole = self._whole()
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
        files = [self.place.path] if self.place.is_file else [p for p in self.place.path.rglob("*") if p.is_file()]
        return Moved(self.place.path, len(files), sum(file.stat().st_size for file in files), aside)

    def discard(self) -> None:
        """Forget all that came; again and again if need be."""
        with suppress(ImportRefused, NoRoom):
            self._close()
        shutil.rmtree(self._draft, ignore_errors=True)

    def _unpacked(self) -> Path:
        """The folder of what came, or of what was in the archive that came."""
        files = [path for path in self._came.rglob("*") if path.is_file()]
        if not files:
            raise ImportRefused("no files came; choose a file, a folder, or a .zip or .tar archive")
        if len(files) > 1 or not is_archive(files[0].name):
            return self._came
        allowed = min(self._limit.size, shutil.disk_usage(self._draft).free)
        return drafted(files[0], self._draft / "new", Limit(Path(files[0].name), allowed, self._remedy))

    def _whole(self) -> Path:
        """The folder or file that goes into the place."""
        whole = self._unpacked()
        files = [path for path in whole.rglob("*") if path.is_file()]
        if self.place.is_file:
            if len(files) != 1:
                raise ImportRefused(
                    f"{self.place.trainer} reads one file, {self.place.path.name}; {len(files)} came"
                )
            return files[0]
        if not files:
            raise ImportRefused("the archive holds no files")
        return _inner(whole)

    def _moved_aside(self) -> Path | None:
        """Where what was there is now."""
        path = self.place.path
        if not path.exists():
            self.place.must_be_free()  # a link that leads nowhere
            return None
        if not self.replace:
            self.place.must_be_free()
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
        """Whatever goes wrong inside is told as one of our refusals."""
        try:
            yield
        except DataMissing as exc:
            raise ImportRefused(exc.message) from exc
        except broken() as exc:
            raise ImportRefused(f"the archive cannot be unpacked: {exc or type(exc).__name__}") from exc
        except OSError as exc:
            if exc.errno in _NO_ROOM:
                raise NoRoom(f"the disk of {self.place.datasets} is full; make room, and try again") from exc
            raise ImportRefused(f"it cannot be written to {self.place.datasets}: {exc.strerror or exc}") from exc
        except (RuntimeError, ValueError) as exc:  # RuntimeError: a zip file with a password
            raise ImportRefused(f"it cannot be taken in: {exc}") from exc


def bring_to(
    place: Place,
    source: Path,
    gigabytes: float,
    *,
    replace: bool = False,
    add: bool = False,
    told: Callable[[int], None] = lambda count: None,
) -> Moved | Added:
    """A file, folder or archive of this machine brought to a trainer; left as it is.

    Args:
        place: where it goes.
        source: what is brought.
        gigabytes: of all files together, unpacked.
        replace: whether it may take the place of others.
        add: whether it is added to them.
        told: called with the number of bytes of every part that was copied.

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
                    told(len(piece))
    except OSError as exc:
        upload.discard()
        raise ImportRefused(f"{source} cannot be read: {exc.strerror or exc}") from exc
    except BaseException:
        upload.discard()
        raise
    return upload.settle()


def files_of(source: Path) -> Iterator[tuple[str, Path]]:
    """Every file with the name that it has in there.

    Raises:
        ImportRefused: there is none, or one is a link or a device.
    """
    if not source.exists():
        raise ImportRefused(f"{source} is not there; name a folder, a file, or a .zip or .tar archive")
    for path in sorted(source.rglob("*")) if source.is_dir() else [source]:
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise ImportRefused(f"{path} is a link or a device; put the file itself in its place, or remove it")
        if path.is_file():
            yield (path.relative_to(source).as_posix() if source.is_dir() else path.name), path


def _inner(folder: Path) -> Path:
    """The folder, or the one in it if there is nothing else: people choose and pack folders as often as files."""
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder


def _prefix() -> str:
    return f"{DRAFT}{os.getpid()}-"


def _sweep(datasets: Path) -> None:
    """Remove what processes left here that were killed while they took data in."""
    for path in datasets.glob(f"{DRAFT}*"):
        named = _OF_PROCESS.fullmatch(path.name)
        if named and int(named[1]) != os.getpid():
            try:
                os.kill(int(named[1]), 0)
            except ProcessLookupError:
                shutil.rmtree(path, ignore_errors=True)
            except OSError:
                continue
