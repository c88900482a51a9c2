"""Arrays that go to another process in a file of memory, and are mapped there.

Where the system can, the file is sealed before it is handed over: nobody, its writer included, can make it
shorter any more, so that one who maps it never meets an end too early. A file that is made for one set of arrays
cannot be changed any more either. One that can be written again is changed by its writer alone, to whom others
must have said that they look at it no more (lending.py); others get a descriptor that can only be read.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from flnet.errors import TrainerError
from flnet.params import Array, Params

if sys.platform == "linux":
    import fcntl

    _SIZE = fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    _ALL = _SIZE | fcntl.F_SEAL_WRITE

_ALIGNED = 64  # bytes: a line of the cache
_KINDS = "fiub"  # nothing that could hold an object
_MOST_DIMENSIONS = 32
_MAPPED = 4 * 1024 * 1024  # bytes: so much is copied through a mapping in a third of the time that a call takes

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
        size: of a file that can be written again, in bytes; 0 for all others.
    """

    def __init__(self, descriptor: int, layout: Layout, writable: int | None = None, size: int = 0) -> None:
        """Take over an open file, and a descriptor to write it by; `of` and `rewritable` make one."""
        self.descriptor, self.layout, self.size = descriptor, layout, size
        self._writable = writable
        self._mapped: mmap.mmap | None = None  # for writing
        self._filled = 0  # bytes from the first on for which there is room already
        self._arrays: dict[str, weakref.ref[Array]] = {}
        self._closing = weakref.finalize(self, _close, descriptor, writable)

    @classmethod
    def of(cls, params: Params) -> MemoryFile:
        """Copy arrays into a new file that nobody can change any more.

        Raises:
            TrainerError: there is no room.
        """
        layout, size = layout_of(params)
        try:
            file = cls(_new_file(), layout)
            os.ftruncate(file.descriptor, size)
            _write_all(file.descriptor, layout, params)
            if sys.platform == "linux":
                fcntl.fcntl(file.descriptor, fcntl.F_ADD_SEALS, _ALL)
        except OSError as exc:
            raise _no_room(params, exc) from exc
        return file.remembering(params)

    @classmethod
    def rewritable(cls, size: int) -> MemoryFile | None:
        """An empty file of so many bytes that only its maker can write; None where the system has no such."""
        if sys.platform != "linux":
            return None
        try:
            writable = _new_file()
        except OSError:
            return None
        try:
            os.ftruncate(writable, size)
            fcntl.fcntl(writable, fcntl.F_ADD_SEALS, _SIZE)
            reading = os.open(f"/proc/self/fd/{writable}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            os.close(writable)
            return None
        return cls(reading, (), writable, size)

    def write(self, params: Params) -> None:
        """Put other arrays into a file that can be written again; nobody must look at it.

        Raises:
            TrainerError: there is no room.
        """
        assert self._writable is not None
        self._arrays = {}  # from here on it holds none of them whole
        self.layout, size = layout_of(params)
        try:
            if _MAPPED <= size <= self._filled:
                self._copy(params)
            else:  # a call says that there is no room; a mapping would end the process
                _write_all(self._writable, self.layout, params)
                self._filled = max(self._filled, size)
        except OSError as exc:
            raise _no_room(params, exc) from exc

    def _copy(self, params: Params) -> None:
        """Write arrays to where others stood before."""
        if self._mapped is None:
            assert self._writable is not None
            self._mapped = mmap.mmap(self._writable, self.size)
        for (_, _, _, offset), value in zip(self.layout, params.values(), strict=True):
            if value.size:
                there = np.frombuffer(self._mapped, np.uint8, value.nbytes, offset)
                there[:] = value.reshape(-1).view(np.uint8)

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
        return bool(self._arrays) and all(ref() is not None for ref in self._arrays.values())

    def arrays(self, gone: Callable[[], object] | None = None) -> Params:
        """Map the file; its memory lasts as long as the last of these arrays, also when this object is closed.

        Args:
            gone: called once nothing looks at these arrays any more, from whatever thread lets go of the last;
                with it, the file may be one that is written again after that.

        Raises:
            UnreadableLayout: the layout does not fit the file, or the file could change while it is looked at.
        """
        if not _is_sealed(self.descriptor, for_good=gone is None):
            raise UnreadableLayout("a file that can still change")
        try:
            # Copied when written to: a trainer that does so by force changes its own numbers only.
            mapped = mmap.mmap(self.descriptor, 0, access=mmap.ACCESS_COPY)
        except (OSError, ValueError) as exc:
            raise UnreadableLayout(f"a file that cannot be mapped: {exc}") from exc
        params = arrays_in(mapped, self.layout)
        if gone is not None:
            weakref.finalize(mapped, gone).atexit = False
        return params

    def close(self) -> None:
        """Close its descriptors; arrays that were mapped stay."""
        self._mapped = None
        self._closing()


def _new_file() -> int:
    if sys.platform == "linux":
        return os.memfd_create("flnet-arrays", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    descriptor, path = tempfile.mkstemp(prefix="flnet-")
    with suppress(OSError):
        os.unlink(path)  # noqa: PTH108  the name of a descriptor's file
    return descriptor


def _write_all(descriptor: int, layout: Layout, params: Params) -> None:
    for (_, _, _, offset), value in zip(layout, params.values(), strict=True):
        data, done = raw(value), 0
        while done < len(data):
            done += os.pwrite(descriptor, data[done:], offset + done)


def _no_room(params: Params, cause: OSError) -> TrainerError:
    return TrainerError(f"{params.nbytes} bytes of parameters cannot be handed over: {cause}")


def _close(*descriptors: int | None) -> None:
    for descriptor in descriptors:
        if descriptor is not None:
            os.close(descriptor)


def _is_sealed(descriptor: int, *, for_good: bool) -> bool:
    if sys.platform != "linux":
        return True
    seals = _ALL if for_good else _SIZE
    try:
        return fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & seals == seals
    except OSError:  # no file of memory
        return False
