"""What a node holds of its training child, and a child that it starts by itself."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

from flnet.errors import WorkerDied
from flnet.settings import PREFIX
from flnet.training.backend import thread_bounds
from flnet.training.channel import Channel

REMEMBERED = 2  # sets of arrays: an average is measured, then trained on; what was trained may be measured again


class Child(Protocol):
    """A process that works off frames."""

    @property
    def pid(self) -> int:
        """Its process id."""
        ...

    @property
    def channel(self) -> Channel:
        """Where frames go and answers come from."""
        ...

    def has_ended(self) -> bool:
        """Whether it is gone; does not wait."""
        ...

    def kill(self) -> None:
        """End it at once; from any thread."""
        ...

    def wait(self, seconds: float) -> int | None:
        """Its exit code, negative for a signal; None if it is not known by then."""
        ...

    def close(self) -> None:
        """Let go of all that the node holds of it; it must have been killed."""
        ...


class Spawned:
    """A child that is a new interpreter: it imports its framework by itself."""

    def __init__(self, process: subprocess.Popen[bytes], channel: Channel) -> None:
        self._process, self.channel = process, channel

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def has_ended(self) -> bool:
        """Whether it is gone."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def wait(self, seconds: float) -> int | None:
        """Its exit code."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def close(self) -> None:
        """Close the channel."""
        self.channel.close()


def spawned(threads: int) -> Spawned:
    """Start a child.

    Raises:
        WorkerDied: the system cannot.
    """
    try:
        ours, theirs = pair()
    except OSError as exc:
        raise WorkerDied(f"the training process cannot be started: {exc}") from exc
    with theirs:
        try:
            process = subprocess.Popen(  # noqa: S603  our own module, nothing from outside
                [sys.executable, "-m", "flnet.training.worker", str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # it prints where its errors go, which is the node's log
                pass_fds=[theirs.fileno()],
                env={**environment(), **thread_bounds(threads)},
            )
        except OSError as exc:
            ours.close()
            raise WorkerDied(f"the training process cannot be started: {exc}") from exc
    return Spawned(process, Channel(ours, REMEMBERED))


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets, for the node and for the child.

    Raises:
        WorkerDied: this system has none over which open files can be handed.
    """
    if not hasattr(socket, "send_fds"):
        raise WorkerDied("this system has no Unix sockets for a training process; set FLNET_COMPUTE to thread")
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What a child gets: it is told its settings in frames; the node's own, keys among them, stay here."""
    return {name: value for name, value in environ.items() if not name.startswith(PREFIX)}
