"""How a fork server is started, and how a node gets a training child from it; fork_server.py is the server."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from flnet.training.api import TrainerFile
from flnet.training.backend import thread_bounds
from flnet.training.channel import Channel, Garbled, receive_message, send_message
from flnet.training.children import REMEMBERED, environment, pair

START_S = 60.0  # for the first child of a framework, which waits until that is imported
_END_S = 5.0
_SHIPPED = "flnet_trainers."


class NotForked(Exception):
    """There is no child from the fork server; the text says why."""


class Forked:
    """A child of the fork server, which ends it when this connection is closed and tells how it ended."""

    def __init__(self, connection: socket.socket, pid: int, channel: Channel) -> None:
        self._connection, self.pid, self.channel = connection, pid, channel
        self._gone = False
        self._code: int | None = None
        self._listening = threading.Lock()

    def has_ended(self) -> bool:
        """Whether it is gone, or the server that watches over it."""
        self._listen(0.0)
        return self._gone

    def kill(self) -> None:
        """Let the server end it: unlike us, it cannot meet another process of the same id."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    def wait(self, seconds: float) -> int | None:
        """Its exit code; None also when the server is gone, which takes all its children along."""
        self._listen(seconds)
        return self._code

    def close(self) -> None:
        """Close channel and connection."""
        self.channel.close()
        with self._listening:
            self._gone = True
            self._connection.close()

    def _listen(self, seconds: float) -> None:
        with self._listening:
            if self._gone:
                return
            self._connection.settimeout(seconds)
            try:
                said = receive_message(self._connection, 0)
            except (BlockingIOError, TimeoutError):
                return
            except (OSError, Garbled):
                said = None
            self._gone = True
            if said is not None and isinstance(said[0].get("ended"), int):
                self._code = said[0]["ended"]


def forked(server: Path, file: TrainerFile, threads: int) -> Forked:
    """A child for this trainer.

    Raises:
        NotForked: the server cannot be reached, or cannot do it.
    """
    ours, theirs = pair()
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with theirs:
            connection.settimeout(START_S)
            connection.connect(str(server))
            send_message(connection, _order(file, threads), (), (theirs.fileno(), 2))
        said = receive_message(connection, 0)
        if said is None or not isinstance(said[0].get("pid"), int):
            raise NotForked(
                "it has ended" if said is None else str(said[0].get("refused", "it speaks differently"))
            )
        return Forked(connection, said[0]["pid"], Channel(ours, REMEMBERED))
    except (OSError, Garbled, NotForked) as exc:
        connection.close()
        ours.close()
        raise NotForked(str(exc) or type(exc).__name__) from exc


def _order(file: TrainerFile, threads: int) -> dict[str, Any]:
    return {
        "frameworks": sorted(file.frameworks),
        # A person's own file is read by each child anew, so that it can be changed.
        "module": file.module if file.module.startswith(_SHIPPED) else "",
        "threads": threads,
        "environment": {**environment(), **thread_bounds(threads)},
        "folder": str(Path.cwd()),
    }


@contextmanager
def running() -> Iterator[Path | None]:
    """A fork server for as long as this is open: the path of its socket, None where there can be none.

    It ends, and all its children with it, also when this process ends in whichever way.
    """
    if not (hasattr(os, "fork") and hasattr(socket, "send_fds")):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="flnet-fork-", ignore_cleanup_errors=True) as folder:
        path = Path(folder, "socket")  # the folder is this person's alone
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            try:
                listener.bind(str(path))
            except OSError:  # a path that is too long for a socket
                yield None
                return
            listener.listen(128)
            server = _start(listener)
        try:
            yield path
        finally:
            _end(server)


def _start(listener: socket.socket) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603  our own module, nothing from outside
        [sys.executable, "-m", "flnet.training.fork_server", str(listener.fileno())],
        stdin=subprocess.PIPE,  # it ends when this does
        stdout=subprocess.DEVNULL,
        pass_fds=[listener.fileno()],
        # The only library that starts its threads when it is imported; a process with threads must not fork.
        env={**environment(), "OPENBLAS_NUM_THREADS": "1"},
        start_new_session=True,  # Ctrl-C is no business of its own
    )


def _end(server: subprocess.Popen[bytes]) -> None:
    assert server.stdin is not None
    server.stdin.close()
    try:
        server.wait(_END_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
