"""Ports that nobody else can take, and a clock for which no machine is too slow."""

from __future__ import annotations

import asyncio
import itertools
import socket
import time
from collections.abc import Iterator

import pytest

from flnet.wire import timeouts


@pytest.fixture
def bound() -> Iterator[socket.socket]:
    """Nobody listens yet, so connections are refused; and nobody else can take the port."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held


@pytest.fixture
def free_port(bound: socket.socket) -> int:
    return int(bound.getsockname()[1])


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """At each look at the clock it is 15 s later: a minute is over after some attempts, and not before, however long the
    machine takes for one.
    """
    looks = itertools.count()
    monkeypatch.setattr(timeouts, "now", lambda: asyncio.get_running_loop().time() + 15 * next(looks))


@pytest.fixture
async def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the loop goes on by a fifth of a second at most between two looks at it, so that it passes over times
    in which the machine stalls.
    """
    passed, seen = 0.0, time.monotonic()

    def clock() -> float:
        nonlocal passed, seen
        before, seen = seen, time.monotonic()
        passed += min(seen - before, 0.2)
        return start + passed

    loop = asyncio.get_running_loop()
    start = loop.time()
    monkeypatch.setattr(loop, "time", clock)
