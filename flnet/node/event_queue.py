"""The event queue of a node: events are handled one at a time, so that the core is never entered twice.

Timers of jobs and of the membership fire into the same queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from flnet.errors import FlnetError, LocalError, PeerError
from flnet.params.params import Rng, TrainerId
from flnet.protocol.effects import SetTimer
from flnet.protocol.events import Event, TimerFired
from flnet.protocol.messages import Packet
from flnet.text import text

log = logging.getLogger(__name__)

Waiting = asyncio.Future[Packet | None]
Handle = Callable[[TrainerId | None, Event], Awaitable[Packet | Waiting | None]]
Deliver = Callable[[TrainerId | None, Event], None]


class EventQueue:
    """Handles events in the order in which they came, and gives each answer to the caller that waits for it."""

    def __init__(self, handle: Handle, fault: Callable[[str], object]) -> None:
        """Args:
        handle: handles one event; a PeerError is the caller's fault. If it returns a future, the answer or the
            error comes later, and further events are handled meanwhile.
        fault: called with a description of an error that is this node's own fault.
        """
        self._handle, self._fault = handle, fault
        self._queue: asyncio.Queue[tuple[TrainerId | None, Event, Waiting | None]] = asyncio.Queue()
        self._consumer: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Handle events from now on."""
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
            raise LocalError(text("the node is not running"))
        waiting: Waiting = asyncio.get_running_loop().create_future()
        self._queue.put_nowait((owner, event, waiting))
        try:
            return await waiting
        finally:
            del waiting  # it holds what is raised here, which holds this call

    async def stop(self) -> None:
        """Handle no more events; callers that wait for an answer get an error."""
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
            self._fault(text("{event} could not be handled: {reason}", type(event).__name__, exc))
        if waiting is not None and not waiting.done():
            known = (
                exc if isinstance(exc, FlnetError) else LocalError(text("something went wrong here; see the log"))
            )
            waiting.set_exception(known)


def _stopping(waiting: Waiting | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_exception(LocalError(text("the node is stopping")))


class Timers:
    """Timers by owner and name. Each fires once, into the event queue."""

    def __init__(self, deliver: Deliver, rng: Rng) -> None:
        self._deliver, self._rng = deliver, rng
        self._running: dict[tuple[TrainerId | None, str], asyncio.TimerHandle] = {}

    def set(self, owner: TrainerId | None, timer: SetTimer) -> None:
        """Start a timer; it replaces one of the same name."""
        self.cancel(owner, timer.name)
        delay = timer.seconds + self._rng.random() * timer.margin
        loop = asyncio.get_running_loop()
        due = loop.time() + delay
        self._running[owner, timer.name] = loop.call_at(due, self._fire, owner, timer.name, due)

    def cancel(self, owner: TrainerId | None, name: str) -> None:
        """Forget a timer; not an error if it is not set."""
        if running := self._running.pop((owner, name), None):
            running.cancel()

    def close(self) -> None:
        """Forget all timers."""
        for running in self._running.values():
            running.cancel()
        self._running.clear()

    def _fire(self, owner: TrainerId | None, name: str, due: float) -> None:
        self._running.pop((owner, name), None)
        late = max(0.0, asyncio.get_running_loop().time() - due)
        self._deliver(owner, TimerFired(name, late))
