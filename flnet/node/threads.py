"""Threads for work beside the event loop, such as merging: where processors are scarce, the loop goes first."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

LOWER = 5  # steps of niceness: a third of the loop's share, where both want one processor


def beside_the_loop() -> ThreadPoolExecutor:
    """What `asyncio.to_thread` works with in a node."""
    return ThreadPoolExecutor(thread_name_prefix="beside", initializer=step_back)


def step_back() -> None:
    """Lower the priority of this thread alone, where the system has one for each thread."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            own = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, own, os.getpriority(os.PRIO_PROCESS, own) + LOWER)
