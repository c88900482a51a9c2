"""Writes large files past the system's cache, where the system can.

Nobody reads the file of a model before the next start of its node. So its way through the cache would be a copy
into new memory, page by page, for nothing: that took longer than the disk did. What is small goes the usual way.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterable
from pathlib import Path

LARGE = 4 * 1024 * 1024  # bytes: a file of so many or more goes past the cache, so many at a time
BLOCK = 4096  # bytes: where such writes begin in memory and in the file, and of what their length is a multiple
_DIRECT = getattr(os, "O_DIRECT", 0)
_UNABLE = (errno.EINVAL, errno.EOPNOTSUPP)  # so file systems say that they have no such writes

Pieces = Iterable[bytes | memoryview]


def write_whole(path: Path, pieces: Pieces, nbytes: int) -> None:
    """Write a new file, or over an old one, and force it to the disk.

    Args:
        pieces: what is to stand in it; may be gone through twice.
        nbytes: about how many those are.

    Raises:
        OSError: it cannot be written; what is there then is for the caller to remove.
    """
    if _DIRECT and nbytes >= LARGE:
        try:
            _write_past_cache(path, pieces)
            return
        except OSError as exc:
            if exc.errno not in _UNABLE:
                raise
    with path.open("wb") as file:
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())


def _write_past_cache(path: Path, pieces: Pieces) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | _DIRECT, 0o666)
    try:
        size = _write_pieces(descriptor, pieces, memoryview(mmap.mmap(-1, LARGE)))
        os.ftruncate(descriptor, size)  # the last block was filled up
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_pieces(descriptor: int, pieces: Pieces, room: memoryview) -> int:
    """Write pieces by way of memory that lies as such writes want it; how many bytes there were."""
    written = filled = 0
    for piece in pieces:
        taken = 0
        while taken < len(piece):
            count = min(len(room) - filled, len(piece) - taken)
            room[filled : filled + count] = piece[taken : taken + count]
            taken, filled = taken + count, filled + count
            if filled == len(room):
                _write_at(descriptor, room, written)
                written, filled = written + filled, 0
    _write_at(descriptor, room[: -(-filled // BLOCK) * BLOCK], written)
    return written + filled


def _write_at(descriptor: int, blocks: memoryview, offset: int) -> None:
    while blocks:
        count = os.pwrite(descriptor, blocks, offset)
        count -= count % BLOCK  # what a full disk cut in the middle of a block is written once more
        if not count:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        blocks, offset = blocks[count:], offset + count
