"""Arrays that go to another process in a file of memory: written once, mapped there, and never changed again.

Where the system can, the file is sealed before it is handed over: nobody, its writer included, can change it or
make it shorter any more, so that one who maps it meets neither other numbers later nor an end too early.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from flnet.errors import TrainerError
from flnet.params import Array, Params

if sys.platform == "linux":
    import fcntl

    _SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL

_ALIGNED = 64  # bytes: a line of the cache
_KINDS = "fiub"  # nothing that could hold an object
_MOST_DIMENSIONS = 32

Layout = Sequence[tuple[str, str, Sequence[int], int]]  # name, dtype, shape, offset in bytes


class UnreadableLayout(ValueError):
    """A description of arrays that does not fit what it describes."""


def layout_of(params: Mapping[str, Array]) -> tuple[list[tuple[str, str, list[int], int]], int]:
    """Where each array stands when they are put one after the other, and the bytes of all."""
    layout, offset = [], 0
    for name, value in params.items():
        layout.append((name, value.dtype.str, list(value.shape), offset))
        offset += -(-value.nbytes // _ALIGNED) * _ALIGNED
    return layout, offset


def raw(value: Array) -> memoryview:
    """The bytes of a C-contiguous array, not copied."""
    return value.reshape(-1).view(np.uint8).data if value.size else memoryview(b"")


def arrays_in(buffer: Any, layout: Any) -> Params:
    """Read-only views of a buffer, which lives as long as the last of them.

    Raises:
        UnreadableLayout: the layout does not fit the buffer, or is none.
    """
    size = len(memoryview(buffer))
    try:
        return Params({str(name): _view(buffer, size, str(kind), shape, at) for name, kind, shape, at in layout})
    except (TypeError, ValueError, OverflowError, AttributeError, SyntaxError) as exc:
        raise UnreadableLayout(f"arrays are described in a way that does not fit them: {exc}") from exc


def _view(buffer: Any, size: int, dtype: str, shape: Sequence[int], offset: int) -> Array:
    kind = np.dtype(dtype)
    if (
        kind.kind not in _KINDS
        or len(shape) > _MOST_DIMENSIONS
        or not all(type(n) is int for n in (*shape, offset))
    ):
        raise UnreadableLayout(f"an array of {dtype[:20]} at {str(offset)[:20]}")
    count = 1
    for length in shape:
        count *= length
    if min(*shape, offset, 0) < 0 or offset + count * kind.itemsize > size:
        raise UnreadableLayout(f"an array reaches beyond the {size} bytes that there are")
    if not count:
        return np.empty(shape, kind)
    view = np.frombuffer(buffer, kind, count, offset).reshape(shape)
    view.flags.writeable = False
    return view


class MemoryFile:
    """Arrays in a file of memory, open for as long as this object is; can be handed to several processes.

    Attributes:
        layout: where each array stands in it.
        descriptor: of the open file.
    """

    def __init__(self, descriptor: int, layout: Layout) -> None:
        """Take over an open file; `of` makes one."""
        self.descriptor, self.layout = descriptor, layout
        self._arrays: dict[str, weakref.ref[Array]] = {}
        self._closing = weakref.finalize(self, os.close, descriptor)

    @classmethod
    def of(cls, params: Params) -> MemoryFile:
        """Copy arrays into a new file.

        Raises:
            TrainerError: there is no room.
        """
        layout, size = layout_of(params)
        try:
            file = cls(_new_file(), layout)
            os.ftruncate(file.descriptor, size)
            for (_, _, _, offset), value in zip(layout, params.values(), strict=True):
                _write(file.descriptor, raw(value), offset)
            _seal(file.descriptor)
        except OSError as exc:
            raise TrainerError(f"{params.nbytes} bytes of parameters cannot be handed over: {exc}") from exc
        return file.remembering(params)

    def remembering(self, params: Params) -> MemoryFile:
        """Note which arrays stand in the file, without keeping them alive."""
        self._arrays = {name: weakref.ref(value) for name, value in params.items()}
        return self

    def holds(self, params: Params) -> bool:
        """Whether these very arrays stand in the file."""
        return list(self._arrays) == list(params) and all(
            ref() is params[name] for name, ref in self._arrays.items()
        )

    @property
    def wanted(self) -> bool:
        """Whether all the arrays still live: without one of them, nobody can ask for the file again."""
        return all(ref() is not None for ref in self._arrays.values())

    def arrays(self) -> Params:
        """Map the file; its memory lasts as long as the last of these arrays, also when this object is closed.

        Raises:
            UnreadableLayout: the layout does not fit the file, or the file could still change.
        """
        if sys.platform == "linux" and not _is_sealed(self.descriptor):
            raise UnreadableLayout("a file that can still change")
        try:
            # Copied when written to: a trainer that does so by force changes its own numbers only.
            mapped = mmap.mmap(self.descriptor, 0, access=mmap.ACCESS_COPY)
        except (OSError, ValueError) as exc:
            raise UnreadableLayout(f"a file that cannot be mapped: {exc}") from exc
        return arrays_in(mapped, self.layout)

    def close(self) -> None:
        """Close the descriptor; arrays that were mapped stay."""
        self._closing()


def _new_file() -> int:
    if sys.platform == "linux":
        return os.memfd_create("flnet-arrays", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    descriptor, path = tempfile.mkstemp(prefix="flnet-")
    with suppress(OSError):
        os.unlink(path)  # noqa: PTH108  the name of a descriptor's file
    return descriptor


def _write(descriptor: int, data: memoryview, offset: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written


def _seal(descriptor: int) -> None:
    if sys.platform == "linux":
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)


def _is_sealed(descriptor: int) -> bool:
    if sys.platform != "linux":
        return True
    try:
        return fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & _SEALS == _SEALS
    except OSError:  # no file of memory
        return False
