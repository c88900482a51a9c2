"""Large memory that is used again while rounds go on, and given back when nothing happens any more.

The system fills new memory with zeros before a process may see it. For updates, which are written over at once,
this was a third of what a node spent on exchanging 40 MB models.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
import threading
from collections.abc import Callable

import numpy as np

from flnet.blob import Bytes

IDLE_SECONDS = 5.0  # between two looks; what is spare is given back when both find nothing to do
SMALLEST = 1024 * 1024  # bytes; the interpreter keeps smaller pieces itself
_UNUSED = 3  # references to an array: in the list, in the loop, and as the argument of getrefcount


class SpareMemory:
    """Hands out memory; what nobody refers to any more is handed out again."""

    def __init__(self) -> None:
        self._kept: list[Bytes] = []
        self._lock = threading.Lock()  # merges ask from threads

    @property
    def nbytes(self) -> int:
        """What is kept, in use or not."""
        return sum(array.nbytes for array in self._kept)

    def take(self, nbytes: int) -> Bytes:
        """So many bytes with anything in them; they are the caller's for as long as a view of them lives."""
        if nbytes < SMALLEST:
            return np.empty(nbytes, np.uint8)
        with self._lock:
            for array in self._kept:
                # Twice the size at most: a large array under a small model would be kept from larger ones.
                if nbytes <= array.nbytes <= 2 * nbytes and sys.getrefcount(array) == _UNUSED:
                    return array[:nbytes]
            self._kept.append(np.empty(nbytes, np.uint8))
            return self._kept[-1][:]

    def let_go(self) -> None:
        """Give back what nobody uses, and keep nothing of the rest once it is not used any more.

        The C library gives back what it holds of it too: it would keep 3 MB of what the first page took to make.
        So go circles of objects that nothing uses any more, where `settle` left few to look at.
        """
        with self._lock:
            self._kept.clear()
        if gc.get_freeze_count():
            gc.collect()
        _trim(0)


def _trimmer() -> Callable[[int], object]:
    """`malloc_trim` of the GNU C library; elsewhere something that does nothing."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return bool


_trim = _trimmer()  # takes some millionths of a second where there is nothing to give back


def settle() -> None:
    """All that is there stays until the process ends: from now on only what comes later is looked at for garbage.

    A full collection waits until a quarter more objects have come than there were: after a start these are 20,000,
    and so hours. With the modules and tables of the start set aside, it comes soon, and takes few milliseconds.
    """
    gc.collect()
    gc.freeze()
    gc.collect()  # counts anew what there is


async def give_back_when_idle(spare: SpareMemory, is_busy: Callable[[], bool], every: float) -> None:
    """Let go of spare memory whenever nothing was to do at two looks, `every` seconds apart, until cancelled."""
    was_busy = True
    while True:
        await asyncio.sleep(every)
        busy = is_busy()
        if not busy and not was_busy:
            spare.let_go()
        was_busy = busy
