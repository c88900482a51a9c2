"""Memory for bodies while they are read: requests of other nodes, and the answers of peers.

Each body has a limit of its own. What they take together is limited here, and so is the part of one caller.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter

import psutil

from flnet.errors import TransportError
from flnet.text import text
from flnet.wire.transport import CONTROL_BYTES, OFF_LOOP_BYTES, too_large

MEGABYTE = 1024 * 1024
JSON_FACTOR = 3  # times the bytes of a JSON body that its numbers take while it is read
MIN_MEMORY, MAX_MEMORY = 64 * MEGABYTE, 2048 * MEGABYTE


class BodyMemory:
    """Memory for bodies that are being received: how much each caller has reserved."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.taken = Counter[str]()

    def take(self, caller: str, nbytes: int) -> bool:
        """Reserve memory if it is free: at most half of it for one caller, but always enough for one body."""
        total, own = sum(self.taken.values()), self.taken[caller]
        if (total and total + nbytes > self.size) or (own and own + nbytes > self.size // 2):
            return False
        self.taken[caller] += nbytes
        return True

    def give(self, caller: str, nbytes: int) -> None:
        """Return it."""
        self.taken[caller] -= nbytes
        if self.taken[caller] <= 0:
            del self.taken[caller]


def memory_bytes() -> int:
    """Memory for bodies of other nodes: a quarter of what this machine has, within bounds."""
    try:
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError):  # some systems do not tell
        whole = psutil.virtual_memory().total
    return min(max(whole // 4, MIN_MEMORY), MAX_MEMORY)


class ReplyBody:
    """The body of one answer as it arrives, within its own limit and the memory for all answers.

    Answers of CONTROL_BYTES or less reserve nothing, so that large ones cannot keep them out.
    """

    def __init__(self, memory: BodyMemory, address: str, limit: int, factor: int = JSON_FACTOR) -> None:
        """Args:
        memory: for all answers of this kind.
        address: "host:port" that answers.
        limit: bytes that this answer may have.
        factor: times its bytes that it takes while it is read.
        """
        self._memory, self._address, self._limit, self._factor = memory, address, limit, factor
        self._caller = address.rpartition(":")[0]
        self._parts: list[bytes] = []
        self._received = self._reserved = 0

    def expect(self, stated: int) -> None:
        """Take the size that the answer states.

        Raises:
            TransportError: it is larger than allowed, or there is no memory for it now.
        """
        if stated > self._limit:
            raise too_large(self._address, self._limit, stated)
        if stated > CONTROL_BYTES:
            self._reserve(stated)

    def take(self, part: bytes) -> None:
        """Add what arrived.

        Raises:
            TransportError: there is more than allowed, or no memory for an answer that did not state its size.
        """
        self._received += len(part)
        if self._received > self._limit:
            raise too_large(self._address, self._limit, self._received)
        if self._received > CONTROL_BYTES and not self._reserved:
            self._reserve(self._limit)
        self._parts.append(part)

    async def whole(self) -> bytes:
        """All that arrived, which is forgotten here."""
        parts, self._parts = self._parts, []
        return await asyncio.to_thread(b"".join, parts) if self._received > OFF_LOOP_BYTES else b"".join(parts)

    def give_back(self) -> None:
        """Return the memory that was reserved."""
        if self._reserved:
            self._memory.give(self._caller, self._reserved)
            self._reserved = 0

    def _reserve(self, nbytes: int) -> None:
        nbytes *= self._factor
        if not self._memory.take(self._caller, nbytes):
            error = TransportError(
                text("{address}: its answer has to wait, other large ones are being read here", self._address)
            )
            error.is_temporary = True
            raise error
        self._reserved = nbytes
