"""The training child: `python -m flnet.compute.worker`, or forked by fork_server.py, for one node or for several.

Orders arrive and replies leave over one socket for each node (channel.py). A trainer's standard output goes to standard
error. A thread for each node reads all its messages, so that a training can be cancelled while the main thread trains.

A child of one node exits at once when its socket is closed, because the node is gone. Where memory is short, nodes share a
child (`share`): the fork server hands it the socket of each. Every node has trainers of its own in it, so that neither data
nor models meet. The main thread does the orders of all in order of arrival; as a node has one order here at a time, it
waits for one of each other node at most. When a socket is closed, the trainers of that node are dropped.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from flnet.compute.channel import (
    CancelOrder,
    ChildChannel,
    OrderBegun,
    ProgressReport,
    WorkOrder,
    WorkReply,
    receive_message,
    send_message,
)
from flnet.compute.in_process import InProcessBackend, cancelled_early, import_beside_others
from flnet.compute.loader import loaded_families
from flnet.compute.verbs import CALL_ERRORS, TrainingRequest
from flnet.errors import TrainerError, without_frames
from flnet.text import text

_PR_SET_PDEATHSIG = 1
_NICENESS = 10
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of mallopt(3)
_REUSED, _SPARE = 32 * 1024 * 1024, 256 * 1024 * 1024  # bytes: the largest block, and all blocks together


def main(descriptor: int, parent: int) -> None:
    """Work for one node until it is gone.

    Args:
        descriptor: of the socket to the node.
        parent: the process that started this one, and that it must not outlive.
    """
    worker = _Worker(parent)
    # Nothing else of the trainer is called before the reply is written, so that a copy would only cost memory.
    place = _Place(worker.channel(descriptor), InProcessBackend(copies=False))
    worker.read(place, closed=lambda: os._exit(0))
    worker.work()


def share(control: socket.socket, parent: int) -> None:
    """Work for several nodes until the process at the other end of `control` is gone.

    Over `control` come `{"place": number}` with the socket and the log of a node, and `{"leave": number}` when the node has
    let go of its place. Back goes `{"left": number}` once nothing of the place is left here.

    Args:
        parent: the process that forked this one, and that it must not outlive.
    """
    worker = _Worker(parent)
    with suppress(OSError, AttributeError):  # one heap: what one thread frees, others use
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
    worker.hold(control)
    threading.Thread(target=_take_places, args=(worker, control), daemon=True).start()
    worker.work()


def _take_places(worker: _Worker, control: socket.socket) -> None:
    places: dict[int, _Place] = {}
    sending = threading.Lock()

    def left(number: int) -> None:
        places.pop(number, None)
        with sending, suppress(OSError):
            send_message(control, {"left": number})

    def admit(number: int, descriptor: int, log: int) -> None:
        # No copies, as in `main`: a node gives its next order when it has the reply.
        backend = InProcessBackend(import_beside_others, copies=False)
        place = _Place(worker.channel(descriptor), backend, log, lambda: left(number))
        places[number] = place
        worker.read(place, closed=lambda: worker.leave(place))

    try:
        while (message := receive_message(control, 2)) is not None:
            order, descriptors = message
            if "place" in order:
                admit(order["place"], *descriptors)
            elif (place := places.pop(order["leave"], None)) is not None:
                worker.leave(place)
                del place
    finally:
        os._exit(0)


@dataclass(eq=False)
class _Place:
    """What one node has in this process.

    Attributes:
        backend: with the trainers of this node alone.
        log: descriptor of the node's log, where nodes share this process.
        when_left: called when nothing of it is left here.
    """

    channel: ChildChannel
    backend: InProcessBackend
    log: int | None = None
    when_left: Callable[[], None] = lambda: None
    is_left: bool = False


class _Worker:
    """Does the orders of all places, in the main thread and one at a time; other threads read them.

    Args:
        parent: the process that this one must not outlive.
    """

    def __init__(self, parent: int) -> None:
        be_killed_with(parent)
        # Ctrl-C reaches the whole group; the node decides what it means.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._waiting: deque[tuple[_Place, WorkOrder]] = deque()
        self._running: tuple[_Place, WorkOrder] | None = None
        self._changed = threading.Condition()  # holds these two
        self._held: set[int] = set()  # descriptors of sockets
        self._pid = os.getpid()
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(2, 1)

        def let_go() -> None:
            """A process that a trainer forks must neither send replies nor keep sockets open after this process ends."""
            for descriptor in self._held:
                os.dup2(nothing, descriptor, inheritable=False)
            parent, self._pid = self._pid, os.getpid()
            be_killed_with(parent)  # also if it has died since it forked

        os.register_at_fork(after_in_child=let_go)

    def channel(self, descriptor: int) -> ChildChannel:
        """The channel to a node over this descriptor."""
        end = socket.socket(fileno=descriptor)
        end.set_inheritable(False)
        self.hold(end)
        return ChildChannel(end)

    def hold(self, end: socket.socket) -> None:
        """Keep this socket from processes that a trainer forks."""
        self._held.add(end.fileno())

    def read(self, place: _Place, closed: Callable[[], object]) -> None:
        """Take the orders of a place, in a thread of its own, until its channel is closed."""
        threading.Thread(target=self._read_all, args=(place, closed), daemon=True).start()

    def work(self) -> NoReturn:
        """Do all orders that come."""
        while True:
            place, order = self._next()
            reply = self._reply(place, order)
            with self._changed:
                self._running = None
                is_left = place.is_left
            if is_left:
                self._let_go(place)
            elif place.log is None:
                _send(place, reply)
            else:  # nobody waits for a node that does not read
                threading.Thread(target=_answer, args=(place, reply), daemon=True).start()
            del place, order, reply  # their arrays with them, and not only when the next order comes

    def leave(self, place: _Place) -> None:
        """Drop what a place has here; what it computes just now is cancelled, and its result thrown away."""
        with self._changed:
            if place.is_left:
                return
            place.is_left = True
            self._waiting = deque(item for item in self._waiting if item[0] is not place)
            running = self._running[1] if self._running is not None and self._running[0] is place else None
        place.channel.shut()
        if running is None:
            self._let_go(place)
        else:
            place.backend.cancel(running.number)

    def _let_go(self, place: _Place) -> None:
        place.backend.forget()
        if place.log is not None:
            os.close(place.log)
        gc.collect()
        _return_memory()
        place.when_left()

    def _read_all(self, place: _Place, closed: Callable[[], object]) -> None:
        descriptor = place.channel.fileno()
        try:
            while (order := place.channel.receive()) is not None:
                if isinstance(order, CancelOrder):
                    self._cancel(place, order.number)
                else:
                    with self._changed:
                        self._waiting.append((place, order))
                        self._changed.notify()
                del order
        finally:
            closed()
            self._held.discard(descriptor)  # first: its number may be another file's afterwards
            place.channel.close()

    def _cancel(self, place: _Place, number: int) -> None:
        """Cancel an order; one that waits is answered at once."""
        with self._changed:
            waiting = [item for item in self._waiting if item[0] is place and item[1].number == number]
            for item in waiting:
                self._waiting.remove(item)
        if not waiting:
            place.backend.cancel(number)
        for _, order in waiting:
            _send(place, WorkReply(None, cancelled_early(order.assignment.file.id), loaded_families()))

    def _next(self) -> tuple[_Place, WorkOrder]:
        with self._changed:
            while not self._waiting:
                self._changed.wait()
            self._running = self._waiting.popleft()
            return self._running

    def _reply(self, place: _Place, order: WorkOrder) -> WorkReply:
        """Do what an order asks."""

        def report(done: int, total: int) -> None:
            with suppress(OSError, ValueError):
                place.channel.offer(ProgressReport(done, total))

        if place.log is not None:
            _print_into(place.log)
        if isinstance(order.request, TrainingRequest):
            _lower_priority()
            _keep_memory()
        _send(place, OrderBegun(order.number))
        try:
            result, error = place.backend.call(order.assignment, order.request, order.number, report), None
        except CALL_ERRORS as exc:
            result, error = None, without_frames(exc)
        except MemoryError:
            result, error = None, TrainerError(text("there was not enough memory for this task"))
        return WorkReply(result, error, loaded_families())


def _send(place: _Place, value: object) -> None:
    # A node that is gone is noticed by the thread that reads; ValueError: its socket was closed on this side.
    with suppress(OSError, ValueError):
        place.channel.send(value)


def _answer(place: _Place, reply: WorkReply) -> None:
    try:
        _send(place, reply)
    except BaseException:  # it cannot be sent: the node must not wait for it
        place.channel.shut()
        raise


def _print_into(log: int) -> None:
    """Let what a trainer prints from now on go to the log of its node."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os.dup2(log, 1)
    os.dup2(log, 2)


def be_killed_with(parent: int) -> None:
    """Ask Linux to kill this process when its parent dies; on other systems the closed socket ends it."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it went before the line above
            os._exit(0)


def _lower_priority() -> None:
    """Lower the priority of this process, so that the node keeps answering requests.

    Done at the first training only: on a busy machine, importing a framework at low priority took a minute instead of
    two seconds.
    """
    if hasattr(os, "nice"):
        os.nice(max(0, _NICENESS - os.nice(0)))


def _keep_memory() -> None:
    """Keep freed memory for the next step of a training (docs/benchmarks.md, "New memory and the system's cache").

    The C library would return blocks of some MB to the system after each step, and the system fills new blocks with
    zeros: 10,000 new pages a step in workload W2. The memory is returned when this process ends.
    """
    with suppress(OSError, AttributeError):
        adjust = ctypes.CDLL(None).mallopt
        adjust(_M_MMAP_THRESHOLD, _REUSED)
        adjust(_M_TRIM_THRESHOLD, _SPARE)


def _return_memory() -> None:
    """Give memory that is not in use back to the system."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
