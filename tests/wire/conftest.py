"""Ports that nobody else can take."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest


@pytest.fixture
def bound() -> Iterator[socket.socket]:
    """Nobody listens yet, so connections are refused; and nobody else can take the port."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held


@pytest.fixture
def free_port(bound: socket.socket) -> int:
    return int(bound.getsockname()[1])
