"""Which files of memory the two ends of a channel lend to each other, so that they are written again and again.

The system fills new memory with zeros before a process may see it; for a model of 40 MB this costs more than
copying its parameters does. So each end keeps a few files. It counts how often it has lent one to the other end,
which says with its frames which of them nothing there looks at any more, and writes into those that have all
come back. One at which something goes on looking is never written again.

An end could write to its file while the other one looks at it, against this agreement. A node is safe from
anything else, a file that gets shorter above all; and the numbers of an update are those of its child, where a
trainer of the node's own person is at work, in any case.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from flnet.params import Params
from flnet.training.memory_file import Layout, MemoryFile, UnreadableLayout, layout_of

MOST = 3  # files of its own that an end keeps: one is looked at, one is written, and one is on its way back
LENT, BACK, FREE = "lent", "back", "free"  # fields: the sender's file, the receiver's own one, those not needed


@dataclass(eq=False)
class _Known:
    """A file that can be sent, or sent again.

    Attributes:
        name: the field and the number by which the other end is told what it is; none for one that never changes.
        out: how many of the other end's mappings look at it.
    """

    file: MemoryFile
    name: dict[str, int] = field(default_factory=dict)
    out: int = 0


class _Returned:
    """Numbers of files at which one mapping less looks.

    Noted by whatever thread lets go of the last array, in the middle of anything; so nothing here may wait.
    """

    def __init__(self) -> None:
        self.numbers: deque[int] = deque()
        self.forks = 0

    def note(self, number: int, forks: int) -> None:
        """A mapping has gone here; if this process was forked meanwhile, it goes on there."""
        if forks == self.forks:
            self.numbers.append(number)

    def all(self) -> list[int]:
        """Those that nobody was told of yet."""
        told = []
        while True:
            try:
                told.append(self.numbers.popleft())
            except IndexError:
                return told


class Lending:
    """The files of one end of a channel, and what it still holds of the other's.

    Args:
        remember: of how many sets of arrays that came the files are kept, to be sent again; without any, what
            stands in a file is not known again either.
    """

    def __init__(self, remember: int) -> None:
        self._remember = remember
        self._ours: list[_Known] = []  # of both lists, the one used last comes last
        self._others: list[_Known] = []
        self._made = 0
        self._theirs_free, self._ours_free = _Returned(), _Returned()
        self._choosing = threading.Lock()

    def lend(self, params: Params) -> tuple[MemoryFile, dict[str, int]]:
        """A file in which these arrays stand, and what the other end must be told of it beside its layout.

        Raises:
            TrainerError: there is no room.
        """
        with self._choosing:
            self._take_back(self._ours_free.all())
            known = self._holding(params) or self._written(params)
            known.out += 1
            self._used(known)
            return known.file, known.name

    def borrow(self, descriptor: int, layout: Layout | None, fields: dict[str, Any]) -> Params:
        """Map a file that came with these fields, and take out of them what is said of it.

        Raises:
            UnreadableLayout: what is said fits no file, or not this one; its descriptor is closed.
        """
        file, lent, back = MemoryFile(descriptor, layout or ()), fields.pop(LENT, None), fields.pop(BACK, None)
        try:
            params = file.arrays(self._borrowed(lent, back))
        except UnreadableLayout:
            file.close()
            raise
        if self._remember and back is None:
            name = {} if lent is None else {BACK: lent}
            with self._choosing:
                self._used(_Known(file.remembering(params), name))
        return params

    def free(self) -> list[int]:
        """The other end's files at which nothing looks here any more and that it does not know of."""
        return self._theirs_free.all()

    def freed(self, numbers: Any) -> None:
        """What the other end says of ours.

        Raises:
            UnreadableLayout: it says nonsense.
        """
        if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
            raise UnreadableLayout("files that are free have numbers")
        self._ours_free.numbers.extend(numbers)

    def forked(self) -> None:
        """Note that all that is mapped here may be looked at for ever, in another process."""
        for returned in (self._ours_free, self._theirs_free):
            returned.forks += 1

    def clear(self) -> None:
        """Let go of all files."""
        with self._choosing:
            self._ours.clear()
            self._others.clear()

    def _borrowed(self, lent: Any, back: Any) -> Callable[[], None] | None:
        """What is to be done when a mapping has gone; None for a file that never changes."""
        number, to = (lent, self._theirs_free) if back is None else (back, self._ours_free)
        if number is None:
            return None
        if type(number) is not int:
            raise UnreadableLayout("a file that is lent has a number")
        if back is not None:
            with self._choosing:
                for known in self._ours:
                    known.out += known.name == {LENT: back}
        return partial(to.note, number, to.forks)

    def _take_back(self, numbers: list[int]) -> None:
        by_number = {known.name[LENT]: known for known in self._ours}
        for number in numbers:
            if (known := by_number.get(number)) is not None:
                known.out = max(0, known.out - 1)

    def _holding(self, params: Params) -> _Known | None:
        if not self._remember:
            return None
        self._others = [known for known in self._others if known.file.wanted]
        return next((known for known in (*self._others, *self._ours) if known.file.holds(params)), None)

    def _written(self, params: Params) -> _Known:
        known = self._to_write(layout_of(params)[1])
        if known is None:
            return _Known(MemoryFile.of(params))
        known.file.write(params)
        if self._remember:
            known.file.remembering(params)
        return known

    def _to_write(self, size: int) -> _Known | None:
        """A file for so many bytes: one that holds nothing that may be asked for again, or a new one.

        Twice the size at most: a large file under a small model would be kept from larger ones.
        """
        fitting = [known for known in self._ours if not known.out and size <= known.file.size <= 2 * size]
        at_once = [known for known in fitting if not known.file.wanted]
        if at_once:
            return at_once[-1]  # the one used last may still be in the processor's cache
        if fitting and len(self._ours) == MOST:
            return fitting[0]
        file = MemoryFile.rewritable(size)
        if file is None:
            return None
        self._made += 1
        return _Known(file, {LENT: self._made})

    def _used(self, known: _Known) -> None:
        ours = LENT in known.name
        kept = [*(other for other in (self._ours if ours else self._others) if other is not known), known]
        if ours:
            self._ours = kept[-MOST:]
        else:
            self._others = kept[-self._remember :] if self._remember else []
