"""How much is taken in at once: messages of each address, messages under way, and memory for large bodies.

What is refused here is refused before its body is read: 429 says when to come again, 503 "not_ready" that any
moment will do. Nodes do so by themselves.
"""

from __future__ import annotations

import os
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

from quart import Quart, request
from quart.wrappers.request import Body

from flnet.errors import NotReady, PeerError
from flnet.messages import Accuracy, Announce, AskVersion, ModelParams, Probe, StartTraining
from flnet.node.buckets import Buckets
from flnet.postponing import postponed
from flnet.refusals import TooManyMessages
from flnet.web.body import CONTROL_BYTES, LandedBody, LimitedBody
from flnet.web.caller import Asked, ip_of
from flnet.web.rates import network_of

with postponed("psutil"):
    import psutil

NODE_PATHS = frozenset(kind.path for kind in (Announce, Probe, StartTraining, ModelParams, Accuracy, AskVersion))
BURST, PER_SECOND = 2000.0, 200.0  # of one address; fifty nodes on one machine send a hundred messages a second
UNDER_WAY = 512  # messages at once that wait for their answer
AS_OBJECTS = 3  # times the bytes of a JSON body that its numbers take while they are read
MEGABYTE = 1024 * 1024
LEAST_ROOM, MOST_ROOM = 64 * MEGABYTE, 2048 * MEGABYTE


def room_bytes() -> int:
    """Memory that large bodies may take: a quarter of what this machine has, within bounds."""
    try:
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError):  # not every system says so
        whole = psutil.virtual_memory().total
    return min(max(whole // 4, LEAST_ROOM), MOST_ROOM)


class Room:
    """Memory for bodies that are on their way, and who has how much of it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.taken = Counter[str]()

    def take(self, caller: str, nbytes: int) -> bool:
        """Take so much, if it is there; half of it at most for one caller, who may always have one body."""
        total, own = sum(self.taken.values()), self.taken[caller]
        if (total and total + nbytes > self.size) or (own and own + nbytes > self.size // 2):
            return False
        self.taken[caller] += nbytes
        return True

    def give(self, caller: str, nbytes: int) -> None:
        """Give it back."""
        self.taken[caller] -= nbytes
        if self.taken[caller] <= 0:
            del self.taken[caller]


class Intake:
    """The bounds of one app."""

    def __init__(self, size: int | None = None) -> None:
        """Args:
        size: bytes of memory for large bodies; a part of this machine's if nobody says.
        """
        self.room = Room(room_bytes() if size is None else size)
        self._held: weakref.WeakKeyDictionary[Body, Callable[[], object]] = weakref.WeakKeyDictionary()
        self._under_way: weakref.WeakSet[Body] = weakref.WeakSet()
        self._buckets = Buckets(BURST, PER_SECOND)

    def bodies(self, body_of: Callable[[Any], LimitedBody]) -> Callable[[Any], LimitedBody]:
        """The same choice of bodies, but of large ones only those for which there is memory."""

        def reserved(asked: Asked) -> LimitedBody:
            body = body_of(asked)
            nbytes = _memory_of(body) if _is_of_nodes(asked) else 0
            if nbytes <= AS_OBJECTS * CONTROL_BYTES:
                return body
            caller = _caller(asked)
            if not self.room.take(caller, nbytes):
                return RefusedBody(NotReady("other large bodies are being read here; send this one again"))
            self._held[body] = weakref.finalize(body, self.room.give, caller, nbytes)
            return body

        return reserved

    def install(self, app: Quart) -> None:
        """Look at every request of the app first."""

        async def admit() -> None:
            self.admit(request, request.body)

        async def done(_: BaseException | None) -> None:
            self.done(request.body)

        app.before_request(admit)
        app.teardown_request(done)

    def admit(self, asked: Asked, body: Body) -> None:
        """Let a request in.

        Raises:
            TooManyMessages: there were too many from there of late.
            NotReady: there is no room for it now.
        """
        if not _is_of_nodes(asked):
            return
        if seconds := self._buckets.take(_caller(asked)):
            raise TooManyMessages(seconds)
        if isinstance(body, RefusedBody):
            raise body.error
        if len(self._under_way) >= UNDER_WAY:
            raise NotReady("too many messages wait here for their answer; send this one again")
        self._under_way.add(body)

    def done(self, body: Body) -> None:
        """A request is answered, or has failed."""
        self._under_way.discard(body)
        if give := self._held.pop(body, None):
            give()


class RefusedBody(LimitedBody):
    """The body of a request that is refused: nothing of it is kept."""

    def __init__(self, error: PeerError) -> None:
        super().__init__(None, -1)
        self.error = error


def _is_of_nodes(asked: Asked) -> bool:
    return asked.method == "POST" and asked.path in NODE_PATHS


def _memory_of(body: LimitedBody) -> int:
    """Bytes that it may take while it is read; nothing if it will be refused unread."""
    if body.announced is not None and body.announced > body.limit:
        return 0
    if isinstance(body, LandedBody):
        return body.announced or 0
    return AS_OBJECTS * max(0, body.limit if body.announced is None else body.announced)


def _caller(asked: Asked) -> str:
    return network_of(ip_of(asked))
