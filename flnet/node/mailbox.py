"""The one queue of a node: events are taken one at a time, so that the core is never entered twice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from flnet.errors import FlnetError, LocalError, PeerError
from flnet.events import Event
from flnet.messages import Packet
from flnet.params import TrainerId

log = logging.getLogger(__name__)

Waiting = asyncio.Future[Packet | None]
Handle = Callable[[TrainerId | None, Event], Awaitable[Packet | Waiting | None]]


class Mailbox:
    """Takes events in the order in which they came, and hands the answer to whoever waits for it."""

    def __init__(self, handle: Handle, fault: Callable[[str], object]) -> None:
        """Args:
        handle: takes one event; what it raises as a PeerError is the caller's fault. A future that it gives has
            the answer, or the error, later; meanwhile further events are taken.
        fault: is told, in words, what went wrong by our own fault.
        """
        self._handle, self._fault = handle, fault
        self._queue: asyncio.Queue[tuple[TrainerId | None, Event, Waiting | None]] = asyncio.Queue()
        self._consumer: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Take events from now on."""
        self._consumer = asyncio.create_task(self._consume())

    def put(self, owner: TrainerId | None, event: Event) -> None:
        """Add an event; from the event loop's own thread only."""
        self._queue.put_nowait((owner, event, None))

    async def ask(self, owner: TrainerId | None, event: Event) -> Packet | None:
        """Add an event and wait for the answer to it.

        Raises:
            PeerError: it was refused.
            LocalError: the node is not running, or failed by its own fault.
        """
        if self._consumer is None or self._consumer.done():
            raise LocalError("the node is not running")
        waiting: Waiting = asyncio.get_running_loop().create_future()
        self._queue.put_nowait((owner, event, waiting))
        try:
            return await waiting
        finally:
            del waiting  # it holds what is raised here, which holds this call

    async def stop(self) -> None:
        """Take no event any more; whoever waits for an answer gets an error."""
        if self._consumer is not None:
            self._consumer.cancel()
            await asyncio.gather(self._consumer, return_exceptions=True)
        while not self._queue.empty():
            _stopping(self._queue.get_nowait()[2])

    async def _consume(self) -> None:
        while True:
            owner, event, waiting = await self._queue.get()
            try:
                answer = await self._handle(owner, event)
            except asyncio.CancelledError:
                _stopping(waiting)
                raise
            except Exception as exc:  # a bug or a full disk must not end the node
                self._refuse(waiting, event, exc)
            else:
                self._answer(waiting, event, answer)

    def _answer(self, waiting: Waiting | None, event: Event, answer: Packet | Waiting | None) -> None:
        if isinstance(answer, asyncio.Future):
            if answer.done():
                self._end(waiting, event, answer)
            else:
                answer.add_done_callback(lambda done: self._end(waiting, event, done))
        elif waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def _end(self, waiting: Waiting | None, event: Event, done: Waiting) -> None:
        if done.cancelled():
            _stopping(waiting)
            return
        exc = done.exception()
        if isinstance(exc, Exception):
            self._refuse(waiting, event, exc)
        elif waiting is not None and not waiting.done():
            waiting.set_result(done.result())

    def _refuse(self, waiting: Waiting | None, event: Event, exc: Exception) -> None:
        if not isinstance(exc, PeerError):
            log.error("%s could not be handled", type(event).__name__, exc_info=exc)
            self._fault(f"{type(event).__name__} could not be handled: {exc}")
        if waiting is not None and not waiting.done():
            known = exc if isinstance(exc, FlnetError) else LocalError("something went wrong here; see the log")
            waiting.set_exception(known)


def _stopping(waiting: Waiting | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_exception(LocalError("the node is stopping"))
