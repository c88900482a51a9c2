"""The files of a state folder: parameters, the node's id, and the lock that keeps a second process out.

Parameters are safetensors files, each named by the digest of what it holds. A file is written under another name,
forced to the disk, and then renamed: a file under its digest is complete, whenever the process or
the machine stopped. The id is in a file of its own, so that it survives the loss of the database.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from flnet.errors import PeerError, StartError
from flnet.names import check_name
from flnet.params.params import Digest, Params, TrainerId, former_digest_of
from flnet.params.safetensors import in_order, read_header, write_header
from flnet.store.base import KeptModel
from flnet.text import text

KIND, TRAINER, ROUND, CONTRIBUTORS = "kind", "trainer", "round", "contributors"
SHARED, PRIVATE, SENT, REMEMBERED, RECEIVED = "shared", "private", "sent", "remembered", "received"
PARTS = (SHARED, PRIVATE, SENT, REMEMBERED)  # of a job, in the order of `SavedJob.parts`
SUFFIX = ".safetensors"
UNFINISHED = ".unfinished"
NAME = "node.json"
LOCK = "lock"
_NOT_WHOLE = frozenset({errno.ENOENT, errno.EIO, errno.EBADMSG, errno.EISDIR})
"""With these errors a file is missing, or the disk cannot read it; with others it may be whole: no handle was free."""


class DamagedFile(Exception):
    """A file that is not what its name says; the message says why."""


class ModelFiles:
    """The folder of parameter files. Its methods block, and raise OSError when the disk does not work."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._renamed = False  # since the folder was forced to the disk

    def write(self, params: Params, metadata: Mapping[str, str]) -> Digest:
        """Keep parameters; nothing is written if they are there already.

        Args:
            said: what the file says of itself, should everything else be lost.
        """
        self.write_all([(params, metadata)])
        return params.digest

    def write_all(self, models: Iterable[tuple[Params, Mapping[str, str]]]) -> None:
        """Keep several, and force the folder to the disk once for all of them.

        Args:
            models: parameters, and what the file of each says of itself.
        """
        for params, metadata in models:
            if not self.path(params.digest).exists():
                self._write(params, metadata)
        if self._renamed:  # also what an earlier call could not force there
            sync_folder(self.folder)
            self._renamed = False

    def _write(self, params: Params, metadata: Mapping[str, str]) -> None:
        path = self.path(params.digest)
        unfinished = path.with_suffix(UNFINISHED)
        try:
            with unfinished.open("wb") as file:
                file.writelines(_pieces(params, metadata))
                file.flush()
                os.fsync(file.fileno())
            self._renamed = True
            unfinished.rename(path)
        except OSError:
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)  # on a full disk even half a file takes room from others
            raise

    def read(self, digest: Digest) -> Params:
        """The parameters of this digest.

        Raises:
            DamagedFile: it is missing, the disk cannot read it, or it holds something else.
            OSError: it cannot be read now, and may be whole.
        """
        params = from_bytes(self._content(digest))
        if digest != params.digest and digest != former_digest_of(params):
            raise DamagedFile(text("the file of {digest} holds other parameters than its name says", digest[:10]))
        return params

    def metadata(self, digest: Digest) -> Mapping[str, str]:
        """The metadata of the file; empty if it is damaged.

        Raises:
            OSError: it cannot be read now, and may be whole.
        """
        try:
            data = memoryview(self._content(digest))
            header = read_header(data, len(data))
        except (DamagedFile, PeerError):
            return {}
        return header[1] if header else {}

    def _content(self, digest: Digest) -> bytes:
        reason: object
        try:
            return self.path(digest).read_bytes()
        except OSError as exc:
            if exc.errno not in _NOT_WHOLE:
                raise
            reason = exc.strerror or exc
        except ValueError as exc:  # of a damaged row: no file can have that name
            reason = exc
        raise DamagedFile(text("the file of {digest} cannot be read: {reason}", digest[:10], reason))

    def names(self) -> dict[Digest, int]:
        """The digests of all files, and how many bytes each has."""
        return {Digest(path.stem): path.stat().st_size for path in sorted(self.folder.glob("*" + SUFFIX))}

    def unfinished(self) -> list[Path]:
        """The files that an interrupted writer left."""
        return sorted(self.folder.glob("*" + UNFINISHED))

    def remove_unfinished(self) -> int:
        """Remove what a stopped writer left; how many that were."""
        left = self.unfinished()
        for path in left:
            path.unlink(missing_ok=True)
        return len(left)

    def keep_only(self, wanted: Collection[Digest]) -> list[Digest]:
        """Remove every other file; which they were."""
        with os.scandir(self.folder) as entries:
            existing = {
                Digest(entry.name.removesuffix(SUFFIX)) for entry in entries if entry.name.endswith(SUFFIX)
            }
        gone = sorted(existing - set(wanted))
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
        """The path of the parameters with this digest, whether they exist or not."""
        return self.folder / (digest + SUFFIX)


def labels(kind: str, trainer: TrainerId, round: int = -1, contributors: int = 0) -> dict[str, str]:
    """The metadata of a file."""
    return {KIND: kind, TRAINER: trainer, ROUND: str(round), CONTRIBUTORS: str(contributors)}


def files_of(trainer: TrainerId, model: KeptModel) -> list[tuple[Params, dict[str, str]]]:
    """The parameters of a model, and what the file of each says of itself."""
    where = (model.figures.get("round", -1), model.figures.get("contributors", 0))
    parts = ((SHARED, model.shared), (PRIVATE, model.private))
    return [(params, labels(kind, trainer, *where)) for kind, params in parts if params is not None]


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
        header = read_header(body, len(body))
        if header is None:
            raise DamagedFile(text("the file is cut off"))
        return Params({name: entry.view(body) for name, entry in header[0].items()})
    except PeerError as exc:
        raise DamagedFile(text("it is no whole file of parameters: {reason}", exc)) from exc


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


def _pieces(params: Params, metadata: Mapping[str, str]) -> Iterator[bytes | memoryview]:
    yield write_header(params, metadata)
    for name in in_order(params):
        array = params[name]
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        yield little.reshape(-1).view(np.uint8).data


def identity(folder: Path, wanted: str | None = None) -> tuple[str, str]:
    """The id of this folder's node, which is made on its first start, and what people should know of it.

    Args:
        folder: held by this process.
        wanted: FLNET_NODE_ID; another one than before renames the node.

    Raises:
        StartError: it cannot be read or written.
    """
    path = folder / NAME
    try:
        known, notice = _read(path)
        name = wanted or known or str(uuid.uuid4())
        if name == known:
            return name, notice
        if known:
            notice = f"this node was {known} and is {name} now; peers see another node, and its open rounds end"
        _write(path, name)
    except OSError as exc:
        raise StartError(f"the identity in {path} cannot be kept: {exc.strerror or exc}") from exc
    return name, notice


def _read(path: Path) -> tuple[str, str]:
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return "", ""
    try:
        return check_name(json.loads(text)["id"]), ""
    except (ValueError, KeyError, TypeError, RecursionError):
        aside = free_name(path)
        path.rename(aside)
        return "", f"the file with this node's id was damaged; it was renamed to {aside.name}, and the id is new"


def _write(path: Path, name: str) -> None:
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("w") as file:
        json.dump({"id": name}, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    sync_folder(path.parent)


class FolderLock:
    """Holds the folder until it is closed."""

    def __init__(self, folder: Path) -> None:
        """Take the folder.

        Raises:
            StartError: another process has it.
            OSError: the folder cannot be written.
        """
        self._handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            who = holder(folder)
            os.close(self._handle)
            raise StartError(
                text(
                    "the state folder {folder} is in use by another node (process {number}); end it, or "
                    "give this node another FLNET_STATE_PATH",
                    folder,
                    who,
                )
                if who
                else text(
                    "the state folder {folder} is in use by another node; end it, or give this node "
                    "another FLNET_STATE_PATH",
                    folder,
                )
            ) from exc
        with contextlib.suppress(OSError):  # for people only; the disk may be full
            os.ftruncate(self._handle, 0)
            os.write(self._handle, str(os.getpid()).encode())

    def close(self) -> None:
        """Let others have the folder."""
        os.close(self._handle)


def holder(folder: Path) -> str:
    """The process that said last that it has the folder; empty if none did."""
    try:
        text = (folder / LOCK).read_text("ascii", "replace")[:20].strip()
    except OSError:
        return ""
    return text if text.isdecimal() else ""
