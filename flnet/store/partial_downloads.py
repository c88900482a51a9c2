"""Downloads that are not complete yet, so that they go on after the node was stopped or killed.

One file each, to which parts are appended as they come: the index of the part (4 bytes, little-endian), BLAKE3 over its
bytes, and the bytes. Before them stand the size of the whole body and that of a part, 8 bytes each. Nothing is forced to
the disk: what a crash spoilt is not what its hash says, and is cut off with all that comes after it.
"""

from __future__ import annotations

import io
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from blake3 import blake3

from flnet.params.params import Digest

SUFFIX = ".parts"
KEPT = 2  # downloads that nobody goes on with; the newest stay
KEPT_SECONDS = 24 * 3600.0  # since their last part came
_SIZE, _INDEX, _HASH = 8, 4, 32  # bytes


class PartialDownload:
    """The parts of one body. Its methods block, and raise nothing when the disk is full or broken.

    Attributes:
        body_bytes: size of the whole body; None until it is known.
        parts: the parts that are here.
    """

    def __init__(self, file: io.FileIO | io.BytesIO, part_bytes: int) -> None:
        """Read what is in the file.

        Args:
            part_bytes: size of a part, but for the last one; a file with parts of another size is begun again.
        """
        self._file, self._part_bytes = file, part_bytes
        self._places: dict[int, int] = {}  # where the bytes of a part begin in the file
        self._unwritten: dict[int, bytes] = {}
        self._lock = threading.Lock()  # a part may still be written when nobody waits for it any more
        self.body_bytes: int | None = None
        try:
            self._read()
        except OSError:
            self.begin_again()

    @property
    def parts(self) -> frozenset[int]:
        """See the class."""
        return frozenset(self._places.keys() | self._unwritten.keys())

    @property
    def count(self) -> int:
        """How many parts the whole body has; 0 until its size is known."""
        return -(-(self.body_bytes or 0) // self._part_bytes)

    def span(self, part: int) -> tuple[int, int]:
        """The first byte of a part, and the one after its last."""
        first = part * self._part_bytes
        stop = first + self._part_bytes
        return first, stop if self.body_bytes is None else min(stop, self.body_bytes)

    def begin(self, body_bytes: int) -> None:
        """Note the size of the whole body."""
        self.body_bytes = body_bytes
        self._append(body_bytes.to_bytes(_SIZE, "little") + self._part_bytes.to_bytes(_SIZE, "little"))

    def begin_again(self) -> None:
        """Forget all of it."""
        self._places, self._unwritten, self.body_bytes = {}, {}, None
        with suppress(OSError):
            self._file.truncate(0)

    def add(self, part: int, data: bytes | memoryview) -> bytes:
        """Keep a part; returns its hash. Where the disk does not take it, it is kept in memory."""
        hashed = blake3(data).digest()
        end = self._append(b"".join((part.to_bytes(_INDEX, "little"), hashed, data)))
        if end is None:
            self._unwritten[part] = bytes(data)
        else:
            self._places[part] = end - len(data)
        return hashed

    def read_into(self, body: memoryview) -> None:
        """Put the parts into their places.

        Args:
            body: of the size of the whole body.

        Raises:
            OSError: the disk does not give them back.
        """
        for part in self.parts:
            first, stop = self.span(part)
            if part in self._unwritten:
                body[first:stop] = self._unwritten[part]
                continue
            self._file.seek(self._places[part])
            if self._fill(body[first:stop]) < stop - first:
                raise OSError

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._file.close()

    def _append(self, data: bytes) -> int | None:
        """Write at the end; returns where that is now, None if it could not be written."""
        with self._lock:
            if self._file.closed:
                return None
            end = written = 0
            try:
                end = self._file.seek(0, io.SEEK_END)
                while written < len(data):
                    written += self._file.write(memoryview(data)[written:])
            except OSError:
                with suppress(OSError):
                    self._file.truncate(end)
                return None
            return end + len(data)

    def _read(self) -> None:
        """Take in what is whole, and cut off the rest."""
        self._file.seek(0)
        head = self._file.read(2 * _SIZE)
        if int.from_bytes(head[_SIZE:], "little") != self._part_bytes or len(head) < 2 * _SIZE:
            self.begin_again()
            return
        self.body_bytes = int.from_bytes(head[:_SIZE], "little")
        buffer = memoryview(bytearray(self._part_bytes))
        while True:
            record = self._file.tell()
            start = self._file.read(_INDEX + _HASH)
            part = int.from_bytes(start[:_INDEX], "little")
            first, stop = self.span(part)
            data = buffer[: max(0, stop - first)]
            is_whole = len(start) == _INDEX + _HASH and part < self.count and self._fill(data) == len(data)
            if not is_whole or blake3(data).digest() != start[_INDEX:]:
                self._file.truncate(record)
                return
            self._places[part] = record + _INDEX + _HASH

    def _fill(self, buffer: memoryview) -> int:
        done = 0
        while done < len(buffer) and (read := self._file.readinto(buffer[done:])):
            done += read
        return done


class PartialDownloads(Protocol):
    """Keeps downloads by the digest of what they bring. Its methods block."""

    def open(self, digest: Digest, part_bytes: int) -> PartialDownload:
        """The parts of a download that are here, and the place for the others; a new one if it is in use already."""
        ...

    def close(self, digest: Digest, download: PartialDownload, *, is_over: bool) -> None:
        """Nobody works with it any more.

        Args:
            is_over: whether it is forgotten, because it is complete or of no use.
        """
        ...


class MemoryDownloads:
    """Keeps them as long as the process lives: the twin of a folder."""

    def __init__(self) -> None:
        self._kept: dict[Digest, io.BytesIO] = {}
        self._in_use: dict[Digest, PartialDownload] = {}

    def open(self, digest: Digest, part_bytes: int) -> PartialDownload:
        """See PartialDownloads."""
        if digest in self._in_use:
            return PartialDownload(io.BytesIO(), part_bytes)
        kept = self._kept.pop(digest, None) or io.BytesIO()
        self._kept[digest] = kept
        for old in [old for old in self._kept if old not in self._in_use][: -KEPT - 1]:
            del self._kept[old]
        return self._in_use.setdefault(digest, PartialDownload(kept, part_bytes))

    def close(self, digest: Digest, download: PartialDownload, *, is_over: bool) -> None:
        """See PartialDownloads."""
        if self._in_use.get(digest) is download:
            del self._in_use[digest]
            if is_over:
                del self._kept[digest]


class FolderDownloads:
    """Keeps them in a folder, which is made when it is needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._in_use: dict[Digest, PartialDownload] = {}
        self._lock = threading.Lock()
        self._tidy()

    def open(self, digest: Digest, part_bytes: int) -> PartialDownload:
        """See PartialDownloads; on a disk that takes no files it is kept in memory."""
        with self._lock:
            if digest in self._in_use:
                return PartialDownload(io.BytesIO(), part_bytes)
            try:
                self._folder.mkdir(mode=0o700, exist_ok=True)
                handle = os.open(self._path(digest), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError:
                return PartialDownload(io.BytesIO(), part_bytes)
            download = PartialDownload(io.FileIO(handle, "r+"), part_bytes)
            self._in_use[digest] = download
            self._tidy()
            return download

    def close(self, digest: Digest, download: PartialDownload, *, is_over: bool) -> None:
        """See PartialDownloads."""
        with self._lock:
            download.close()
            if self._in_use.get(digest) is download:
                del self._in_use[digest]
                if is_over:
                    with suppress(OSError):
                        self._path(digest).unlink(missing_ok=True)

    def _path(self, digest: Digest) -> Path:
        return self._folder / (digest + SUFFIX)

    def _tidy(self) -> None:
        """Remove downloads that nobody goes on with, but for the newest."""
        with suppress(OSError):
            unused = [path for path in self._folder.glob("*" + SUFFIX) if Digest(path.stem) not in self._in_use]
            ages = sorted((time.time() - path.stat().st_mtime, path) for path in unused)
            for place, (age, path) in enumerate(ages):
                if place >= KEPT or age > KEPT_SECONDS:
                    path.unlink()
