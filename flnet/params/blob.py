"""Large bodies without copies: a `Blob` is sent in the pieces that it consists of, a `Landing` is filled in place.

A `PartLanding` receives a part of a body, where several peers serve one.

The arrays of a model are sent from their own memory, and are received into one buffer of the announced size. The buffer
is allocated only after the first bytes, the head, were found to describe something that this node wants.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from flnet.errors import BodyTooLarge, LocalError, UnreadableBody
from flnet.text import text

PIECE = 256 * 1024  # bytes; larger and smaller pieces were measured slower over loopback

Bytes = NDArray[np.uint8]
Memory = Callable[[int], Bytes]  # gives so many bytes, with anything in them
Inspect = Callable[[memoryview, int], bool]  # (what has come so far, size of all) -> whether that was the head


def fresh(nbytes: int) -> Bytes:
    """Allocate memory without zeroing it, so that its pages are touched only when they are written."""
    return np.empty(nbytes, np.uint8)


class Blob:
    """Bytes in several buffers, which are neither joined nor copied; they must not change while it is used.

    Attributes:
        coding: in which they are compressed, as HTTP names it; None: they are not.
    """

    def __init__(self, parts: Sequence[bytes | memoryview], coding: str | None = None) -> None:
        # Nothing is made of empty parts: a view without bytes cannot be cast.
        self._parts = [memoryview(part).cast("B") for part in parts if memoryview(part).nbytes]
        self.nbytes = sum(len(part) for part in self._parts)
        self.coding = coding

    def __len__(self) -> int:
        return self.nbytes

    def __bytes__(self) -> bytes:
        return b"".join(self._parts)

    def pieces(self, start: int = 0, stop: int | None = None) -> Iterator[memoryview]:
        """The bytes from `start` to before `stop`, at most PIECE at a time."""
        stop = self.nbytes if stop is None else min(stop, self.nbytes)
        offset = 0
        for part in self._parts:
            first, last = max(start - offset, 0), min(stop - offset, len(part))
            for at in range(first, last, PIECE):
                yield part[at : min(at + PIECE, last)]
            offset += len(part)


class Landing:
    """Receives a body of known size into one buffer, after its first bytes were inspected.

    Attributes:
        first, stop: the bytes of the body that land here, from `first` to before `stop`; None: to its end.
        received: bytes that have come; after a broken transfer the rest can be asked for from there.
        joined: whether it came in more than one transfer.
        codings: in which it may come compressed.
        coding: in which it comes; None: as it is.
        accepts: forms in which its arrays may be packed, as messages name them; empty: the sender is not told.
    """

    first: int = 0
    stop: int | None = None

    def __init__(
        self,
        inspect: Inspect,
        limit: int,
        head_limit: int,
        memory: Memory = fresh,
        codings: Collection[str] = (),
        accepts: Collection[str] = (),
    ) -> None:
        """Args:
        inspect: looks at the first bytes whenever they have doubled, until it returns True; raises PeerError for
            what is not wanted. What it is given stays as it is, so views of it may be kept.
        limit: bytes that a body may have in all.
        head_limit: bytes that are kept before `inspect` must have seen enough.
        memory: where the buffer comes from.
        codings: in which it may come compressed. Then it lands so, and `inspect` sees nothing of it.
        accepts: forms in which its arrays may be packed.
        """
        self._inspect, self._limit, self._head_limit = inspect, limit, head_limit
        self._memory = memory
        self._head = bytearray()
        self._look_at = 1  # bytes; looking at every write would copy a head of n single bytes n times
        self._buffer: memoryview | None = None
        self.total: int | None = None
        self.received = 0
        self.joined = False
        self.codings, self.accepts = tuple(codings), tuple(accepts)
        self.coding: str | None = None

    @property
    def complete(self) -> bool:
        """Whether the whole body has arrived."""
        return self.received == self.total and (self._buffer is not None or self.total == 0)

    def expect(self, total: int, coding: str | None = None) -> None:
        """Set the size of the whole body. It may be set again, but only to the same value.

        Raises:
            BodyTooLarge: more than this node takes.
            UnreadableBody: another size or coding than the one said before, or a coding that is not taken.
        """
        if total > self._limit:
            raise BodyTooLarge(self._limit, total)
        if self.total not in (None, total):
            raise _other_size(self.total, total)
        if coding not in (None, *self.codings) or (self.total is not None and coding != self.coding):
            raise UnreadableBody(
                text(
                    "the body came in the coding {coding}, which was not asked for",
                    f"{(coding or 'identity')[:40]!a}",
                )
            )
        self.total, self.coding = total, coding
        self.joined = self.joined or self.received > 0

    def write(self, data: bytes | memoryview) -> None:
        """Add the next bytes.

        Raises:
            PeerError: `inspect` does not want them.
            UnreadableBody: there are more than were announced, or the head has no end.
        """
        if self.total is None:
            raise LocalError(text("the size of a body must be known before its bytes are taken in"))
        if self.received + len(data) > self.total:
            raise UnreadableBody(text("expected {count} bytes, but more came", self.total))
        if not len(data):
            return
        if self._buffer is not None:
            self._buffer[self.received : self.received + len(data)] = data
            self.received += len(data)
            return
        self._head += data
        self.received = len(self._head)
        no_more = self.received >= min(self._head_limit, self.total)
        if self.received < self._look_at and not no_more:
            return
        self._look_at = 2 * self.received
        if self.coding is not None or self._inspect(memoryview(bytes(self._head)), self.total):
            self._buffer = self._memory(self.total).data.cast("B")
            self._buffer[: self.received] = self._head
            self._head = bytearray()
        elif no_more:
            raise UnreadableBody(
                text("the first {count} bytes of the body do not hold its whole head", self.received)
            )

    def whole(self) -> memoryview:
        """The whole body, read-only and without a copy.

        Raises:
            UnreadableBody: the body ended too early.
        """
        if not self.complete:
            raise UnreadableBody(text("expected {count} bytes, but {received} came", self.total, self.received))
        return (self._buffer if self._buffer is not None else memoryview(b"")).toreadonly()


class PartLanding(Landing):
    """Receives the bytes from `first` to before `stop` of a body, or to its end if that comes earlier.

    Attributes:
        body_bytes: size of the whole body; None until the sender states it.
    """

    def __init__(
        self, first: int, stop: int, limit: int, body_bytes: int | None = None, accepts: Collection[str] = ()
    ) -> None:
        """Args:
        limit: bytes that the whole body may have.
        body_bytes: that it must have; None if that is not known yet.
        accepts: forms in which its arrays may be packed.
        """
        super().__init__(lambda head, total: True, limit, 1, accepts=accepts)
        self.first, self.stop, self._size = first, stop, stop - first
        self.body_bytes = body_bytes

    def expect(self, total: int, coding: str | None = None) -> None:
        """Set the size of the whole body.

        Raises:
            BodyTooLarge: more than this node takes.
            UnreadableBody: another size than before, or a coding.
        """
        if total > self._limit:
            raise BodyTooLarge(self._limit, total)
        if self.body_bytes not in (None, total):
            raise _other_size(self.body_bytes, total)
        self.body_bytes = total
        super().expect(min(self._size, total - self.first), coding)


def _other_size(before: int | None, now: int) -> UnreadableBody:
    return UnreadableBody(text("the body had {one} bytes before and has {other} now", before, now))
