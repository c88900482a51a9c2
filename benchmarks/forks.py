"""Runs one function in several processes forked from this one, and gathers what they return, as JSON."""

from __future__ import annotations

import json
import os
import socket
import traceback
import warnings
from collections.abc import Callable
from typing import Any

HOST = "127.0.0.1"


def forked(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Call work(0) ... work(count - 1) at once, each in a process of its own; what they returned, in order.

    Fork before any thread or event loop exists. What a child returns must be JSON.

    Raises:
        RuntimeError: a child ended without a result; its traceback is on stderr.
    """
    children = []
    for index in range(count):
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns where libraries keep threads
            pid = os.fork()
        if pid == 0:
            os.close(reading)
            _child(index, work, writing)
        os.close(writing)
        children.append((pid, reading))
    results, failed = [], False
    for pid, reading in children:
        with os.fdopen(reading, "rb") as answers:
            text = answers.read()
        failed = os.waitpid(pid, 0)[1] != 0 or not text or failed
        results.append(json.loads(text) if text else None)
    if failed:
        raise RuntimeError("a forked process ended without a result")
    return results


def _child(index: int, work: Callable[[int], Any], writing: int) -> None:
    code = 1
    try:
        result = json.dumps(work(index)).encode()
        with os.fdopen(writing, "wb") as answer:
            answer.write(result)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def listeners(count: int) -> list[socket.socket]:
    """So many listening sockets of this machine, on ports that the system chooses."""
    seconds = []
    for _ in range(count):
        listening = socket.create_server((HOST, 0), backlog=256)
        seconds.append(listening)
    return seconds
