"""Ports for real processes that tests start a moment later.

A port that the system picks may be picked again, for another node or for the near end of any connection, before
the process that it was meant for listens on it. So these lie below what the system picks from, and each test
process takes them in turn from a stretch of its own, where another run on this machine begins elsewhere.
"""

from __future__ import annotations

import itertools
import os
import re
import socket

FIRST, STRETCH, STRETCHES = 20000, 2000, 6  # all below 32768, where Linux begins to pick
STEP = 4  # a demo takes further ports behind its first one
_steps = itertools.count(os.getpid())


def free_port() -> int:
    """A port nobody listens on, which this process was not given for a long time, nor are the three behind it."""
    for _ in range(STRETCH // STEP):
        port = _start() + next(_steps) * STEP % STRETCH
        if _is_free(port):
            return port
    raise OSError(f"no free port of {STRETCH // STEP} from {_start()} on")


def _start() -> int:
    """Of the stretch of this process: that of its number among the processes that share the suite."""
    worker = re.search(r"\d+$", os.environ.get("PYTEST_XDIST_WORKER", ""))
    return FIRST + STRETCH * (int(worker[0]) % STRETCHES if worker else STRETCHES - 1)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
