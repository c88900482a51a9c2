"""Parameters as safetensors files, each named by the digest of what it holds.

A file is written under another name, forced to the disk, and then renamed: whoever finds a file under its digest
finds all of it, whenever the process or the machine stopped.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from flnet.digests import former_digest_of
from flnet.errors import PeerError
from flnet.params import Digest, Params
from flnet.store.disk.direct import write_whole
from flnet.tensorfile import in_order, read_header, write_header

SUFFIX = ".safetensors"
UNFINISHED = ".unfinished"


class DamagedFile(Exception):
    """A file that is not what its name says; the message says why."""


class ModelFiles:
    """The folder of parameter files. Its methods block, and raise OSError when the disk does not work."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._renamed = False  # since the folder was forced to the disk

    def write(self, params: Params, said: Mapping[str, str]) -> Digest:
        """Keep parameters; nothing is written if they are there already.

        Args:
            said: what the file says of itself, should everything else be lost.
        """
        self.write_all([(params, said)])
        return params.digest

    def write_all(self, models: Iterable[tuple[Params, Mapping[str, str]]]) -> None:
        """Keep several, and force the folder to the disk once for all of them.

        Args:
            models: parameters, and what the file of each says of itself.
        """
        for params, said in models:
            if not self.path(params.digest).exists():
                self._write(params, said)
        if self._renamed:  # also what an earlier call could not force there
            sync_folder(self.folder)
            self._renamed = False

    def _write(self, params: Params, said: Mapping[str, str]) -> None:
        path = self.path(params.digest)
        unfinished = path.with_suffix(UNFINISHED)
        try:
            write_whole(unfinished, list(_pieces(params, said)), params.nbytes)
            self._renamed = True
            unfinished.rename(path)
        except OSError:
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)  # on a full disk even half a file takes room from others
            raise

    def read(self, digest: Digest) -> Params:
        """The parameters of this digest.

        Raises:
            DamagedFile: it is missing, cannot be read, or holds something else.
        """
        try:
            params = from_bytes(self.path(digest).read_bytes())
        except OSError as exc:
            raise DamagedFile(f"the file of {digest[:10]} cannot be read: {exc.strerror or exc}") from exc
        if digest != params.digest and digest != former_digest_of(params):
            raise DamagedFile(f"the file of {digest[:10]} holds other parameters than its name says")
        return params

    def said(self, digest: Digest) -> Mapping[str, str]:
        """What the file says of itself; nothing if it cannot be read."""
        try:
            data = memoryview(self.path(digest).read_bytes())
            found = read_header(data, len(data))
        except (OSError, PeerError):
            return {}
        return found[1] if found else {}

    def names(self) -> dict[Digest, int]:
        """The digests of all files, and how many bytes each has."""
        return {Digest(path.stem): path.stat().st_size for path in sorted(self.folder.glob("*" + SUFFIX))}

    def unfinished(self) -> list[Path]:
        """What a writer left that was stopped."""
        return sorted(self.folder.glob("*" + UNFINISHED))

    def remove_unfinished(self) -> int:
        """Remove what a stopped writer left; how many that were."""
        left = self.unfinished()
        for path in left:
            path.unlink(missing_ok=True)
        return len(left)

    def keep_only(self, wanted: Collection[Digest]) -> list[Digest]:
        """Remove every other file; which they were."""
        with os.scandir(self.folder) as found:
            there = {Digest(one.name.removesuffix(SUFFIX)) for one in found if one.name.endswith(SUFFIX)}
        gone = sorted(there - set(wanted))
        for digest in gone:
            self.path(digest).unlink(missing_ok=True)
        return gone

    def set_aside(self, digest: Digest) -> Path:
        """Give a damaged file another name, so that it is not taken for whole and not lost either."""
        aside = free_name(self.path(digest))
        self.path(digest).rename(aside)
        sync_folder(self.folder)
        return aside

    def path(self, digest: Digest) -> Path:
        """Where the parameters of this digest lie, or would."""
        return self.folder / (digest + SUFFIX)


def to_bytes(params: Params) -> bytes:
    """Small parameters as one piece, to stand in the database."""
    return b"".join(_pieces(params, {}))


def from_bytes(data: bytes) -> Params:
    """Parameters as they were written.

    Raises:
        DamagedFile: the bytes are none.
    """
    body = memoryview(data)
    try:
        found = read_header(body, len(body))
        if found is None:
            raise DamagedFile("the file is cut off")
        return Params({name: entry.view(body) for name, entry in found[0].items()})
    except PeerError as exc:
        raise DamagedFile(f"it is no whole file of parameters: {exc}") from exc


def sync_folder(folder: Path) -> None:
    """Force to the disk which files a folder has."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def free_name(path: Path) -> Path:
    """The first name of the form <name>.damaged-N that is not taken."""
    numbers = iter(range(1, 1_000_000))
    return next(p for p in (path.with_name(f"{path.name}.damaged-{n}") for n in numbers) if not p.exists())


def _pieces(params: Params, said: Mapping[str, str]) -> Iterator[bytes | memoryview]:
    yield write_header(params, said)
    for name in in_order(params):
        array = params[name]
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        yield little.reshape(-1).view(np.uint8).data
