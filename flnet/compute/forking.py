"""Forks children and collects their exit codes, for processes that have imported once what their children share.

Two processes do this: one forks whole nodes (`flnet.cli.node_forks`), one forks training children
(`flnet.compute.fork_server`). Both wait with `selectors` for orders and for the end of a child, because a process with
threads or with an event loop of asyncio must not fork.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NoReturn

import numpy as np


class Forks:
    """The children of this process. A selector can wait for it: it can be read from when a child has ended.

    There is one in a process, because it takes SIGCHLD.
    """

    def __init__(self) -> None:
        self._running: set[int] = set()
        self._bell, self._ringing = socket.socketpair()
        for end in (self._bell, self._ringing):
            end.setblocking(False)
        # Without a handler the wakeup descriptor is silent.
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self._ringing.fileno(), warn_on_full_buffer=False)

    def fileno(self) -> int:
        """The descriptor that a selector waits for."""
        return self._bell.fileno()

    def fork(self, work: Callable[[], int]) -> int:
        """Start a child that does this work, leads a session of its own, and ends with the exit code that it returns.

        Descriptors and other signal handlers of the parent are for the work to close and to set.

        Returns:
            Its process id.

        Raises:
            OSError: it cannot be forked.
        """
        pid = os.fork()
        if pid == 0:
            run_and_exit(lambda: self._work_apart(work))
        self._running.add(pid)
        return pid

    def reap(self) -> dict[int, int]:
        """The children that have ended since the last call: process id -> exit code, negative for a signal."""
        with suppress(BlockingIOError):
            while self._bell.recv(4096):
                pass
        ended = {}
        for pid in self._running:
            gone, status = os.waitpid(pid, os.WNOHANG)
            if gone:
                ended[pid] = os.waitstatus_to_exitcode(status)
        self._running -= ended.keys()
        return ended

    def kill(self, pid: int) -> None:
        """End a child at once, unless its end was collected: its process id may be another's then."""
        if pid in self._running:
            os.kill(pid, signal.SIGKILL)

    def kill_all(self) -> None:
        """End all children at once."""
        for pid in self._running:
            os.kill(pid, signal.SIGKILL)

    def _work_apart(self, work: Callable[[], int]) -> int:
        # Linux shares time out among sessions first: in one together, all children would get what one gets. A stuck
        # child can also be killed together with its own children.
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._bell.close()
        self._ringing.close()
        return work()


def run_and_exit(work: Callable[[], int]) -> NoReturn:
    """Do this work in a forked process and exit with the code that it returns; never returns to the parent's code."""
    code = 1
    try:
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def set_environment(environment: Mapping[str, str]) -> None:
    """Replace the environment of a forked process, and give it random numbers of its own."""
    os.environ.clear()
    os.environ.update(environment)
    np.random.seed()  # or siblings would draw the same numbers; the standard library does it by itself
