"""The training child: `python -m flnet.compute.worker`, or forked by fork_server.py.

Orders arrive and replies leave over one socket (channel.py). A trainer's standard output goes to standard error. A thread
reads all messages, so that a training can be cancelled while the main thread trains. When the socket is closed, the node is
gone, and this process exits at once.
"""

from __future__ import annotations

import ctypes
import os
import queue
import signal
import socket
import sys
import threading
from contextlib import suppress

from flnet.compute.channel import CancelOrder, ChildChannel, ProgressReport, WorkOrder, WorkReply
from flnet.compute.in_process import InProcessBackend
from flnet.compute.loader import loaded_families
from flnet.compute.verbs import CALL_ERRORS, TrainingRequest
from flnet.errors import TrainerError, without_frames
from flnet.text import text

_PR_SET_PDEATHSIG = 1
_NICENESS = 10
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)
_REUSED, _SPARE = 32 * 1024 * 1024, 256 * 1024 * 1024  # bytes: the largest block, and all blocks together


def main(descriptor: int, parent: int) -> None:
    """Work until the node is gone.

    Args:
        descriptor: of the socket to the node.
        parent: the process that started this one, and that it must not outlive.
    """
    be_killed_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the node decides what it means
    channel = _take(descriptor)
    # Nothing else of the trainer is called before the reply is written, so that a copy would only cost memory.
    backend = InProcessBackend(copies=False)
    waiting: queue.SimpleQueue[WorkOrder] = queue.SimpleQueue()
    threading.Thread(target=_read_all, args=(channel, backend, waiting), daemon=True).start()
    while True:
        with suppress(OSError):  # a node that is gone ends this process elsewhere
            channel.send(_reply(waiting.get(), backend, channel))


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


def _take(descriptor: int) -> ChildChannel:
    end, nothing = socket.socket(fileno=descriptor), os.open(os.devnull, os.O_RDWR)
    end.set_inheritable(False)
    os.dup2(nothing, 0)
    os.dup2(2, 1)

    def let_go() -> None:
        """A process that a trainer forks must neither send replies nor keep the socket open after this process ends."""
        os.dup2(nothing, descriptor, inheritable=False)
        be_killed_with(os.getppid())

    os.register_at_fork(after_in_child=let_go)
    return ChildChannel(end)


def _read_all(channel: ChildChannel, backend: InProcessBackend, waiting: queue.SimpleQueue[WorkOrder]) -> None:
    try:
        while (order := channel.receive()) is not None:
            if isinstance(order, CancelOrder):
                backend.cancel(order.number)
            else:
                waiting.put(order)
            del order  # its arrays with it, and not only when the next order comes
    finally:
        os._exit(0)


def _reply(order: WorkOrder, backend: InProcessBackend, channel: ChildChannel) -> WorkReply:
    """Do what an order asks."""

    def report(done: int, total: int) -> None:
        with suppress(OSError):
            channel.send(ProgressReport(done, total))

    if isinstance(order.request, TrainingRequest):
        _lower_priority()
        _keep_memory()
    try:
        result, error = backend.call(order.assignment, order.request, order.number, report), None
    except CALL_ERRORS as exc:
        result, error = None, without_frames(exc)
    except MemoryError:
        result, error = None, TrainerError(text("there was not enough memory for this task"))
    return WorkReply(result, error, loaded_families())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
