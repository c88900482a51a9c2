"""Nodes that are forked from one process: `python -m flnet.cli.node_forks`, started by `local_mesh`.

A node that is started as a program of its own imports flnet, which takes half a second of a processor and 60 MB. For many
nodes on one machine, one process does that once and forks the nodes. Each of them is a whole node all the same: a
process with an event loop, a socket, a state folder and connections of its own, run by the same `flnet run`.

The starter of the nodes holds one end of a socket. Over it go the orders (arguments, environment and the log, as an open
file) and back come process ids and exit codes. When that end is closed this process exits, and the nodes, which
look for it every second, end too.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from flnet.compute.channel import Garbled, receive_message, send_message
from flnet.compute.forking import Forks, set_environment
from flnet.errors import StartError

START_SECONDS = 60.0  # for this process to import everything, and for each node to be forked


class ForkedNode:
    """A node's process, asked and ended as a `subprocess.Popen` is."""

    def __init__(self, forks: NodeForks, pid: int) -> None:
        self._forks, self.pid = forks, pid

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._forks.code_of(self.pid, 0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended.

        Raises:
            subprocess.TimeoutExpired: it still runs after so many seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self._forks.code_of(self.pid, 0.05)) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("flnet run", timeout or 0.0)
        return code

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended; its process id is not another's before its end was told here."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


class NodeForks:
    """The end of the socket that the starter of the nodes holds."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self.pid = process.pid
        self._process, self._control = process, control
        self._codes: dict[int, int] = {}

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], log: int) -> ForkedNode:
        """Start a node.

        Args:
            arguments: of `flnet`.
            log: descriptor of the file that gets what it prints.

        Raises:
            StartError: it cannot be forked.
        """
        order = {"arguments": list(arguments), "environment": dict(environment)}
        try:
            send_message(self._control, order, (log,))
            while (answer := self._next(START_SECONDS)) is not None and "ended" in answer:
                self._note(answer)
        except (OSError, Garbled) as exc:
            raise StartError(f"the process that forks nodes does not answer: {exc}") from exc
        if answer is None or "pid" not in answer:
            reason = "it has ended" if answer is None else answer.get("refused")
            raise StartError(f"a node cannot be forked: {reason}")
        return ForkedNode(self, int(answer["pid"]))

    def code_of(self, pid: int, seconds: float) -> int | None:
        """The exit code of a node; waits so long for one if it runs. Nodes outlive this process by a second at most."""
        if pid not in self._codes:
            with suppress(TimeoutError):
                while pid not in self._codes and (answer := self._next(seconds)) is not None:
                    self._note(answer)
                if pid not in self._codes and self._process.poll() is not None:
                    return self._process.returncode or 1
        return self._codes.get(pid)

    def close(self) -> None:
        """Let the process that forks end."""
        self._control.close()
        self._process.wait()

    def _next(self, seconds: float) -> dict[str, Any] | None:
        with selectors.DefaultSelector() as watched:
            watched.register(self._control, selectors.EVENT_READ)
            if not watched.select(seconds):
                raise TimeoutError(f"no answer within {seconds:g} s")
        message = receive_message(self._control, 0)
        return None if message is None else message[0]

    def _note(self, answer: Mapping[str, Any]) -> None:
        self._codes[int(answer["ended"])] = int(answer["code"])


@contextmanager
def node_forks(environment: Mapping[str, str]) -> Iterator[NodeForks]:
    """Run the process that forks nodes while the block is open.

    Args:
        environment: in which it imports flnet.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs:
        process = subprocess.Popen(  # noqa: S603  our own module, nothing from outside
            [sys.executable, "-m", "flnet.cli.node_forks", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            # The only library that starts its threads when it is imported; a process with threads must not fork.
            env={**environment, "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C is no business of its own
        )
    forks = NodeForks(process, ours)
    try:
        yield forks
    finally:
        forks.close()


# What runs in the process that forks.


def main(descriptor: int) -> None:
    """Import everything that a node needs, then fork nodes until the other end of the socket is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=descriptor) as control:
        control.set_inheritable(False)
        _warm_up()
        _Forker(control).run()


def _warm_up() -> None:
    """Import flnet and build its messages, whose memory the nodes then share."""
    from flnet.cli import commands, run  # noqa: F401, PLC0415  not for who only starts this process
    from flnet.node.inbound import KINDS  # noqa: PLC0415

    for kind in KINDS.values():
        kind.model_rebuild()
    with suppress(ImportError):
        import uvloop  # noqa: F401, PLC0415
    gc.collect()
    gc.freeze()  # a collection in a node would write to every page that it shares


class _Forker:
    """Forks nodes and tells how they end."""

    def __init__(self, control: socket.socket) -> None:
        self._control, self._forks = control, Forks()

    def run(self) -> None:
        """Take orders until nobody gives any more."""
        with selectors.DefaultSelector() as watched:
            watched.register(self._control, selectors.EVENT_READ)
            watched.register(self._forks, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in watched.select()}
                if self._control in ready and not self._take_order(watched):
                    return
                if self._forks in ready:
                    self._report_ends()

    def _take_order(self, watched: selectors.BaseSelector) -> bool:
        try:
            asked = receive_message(self._control, 1)
        except (OSError, Garbled):
            asked = None
        if asked is None:
            return False
        order, (log,) = asked
        try:
            answer: dict[str, Any] = {"pid": self._forks.fork(lambda: self._run_node(watched, order, log))}
        except OSError as exc:
            answer = {"refused": exc.strerror or str(exc)}
        os.close(log)
        send_message(self._control, answer)
        return True

    def _run_node(self, watched: selectors.BaseSelector, order: Mapping[str, Any], log: int) -> int:
        watched.close()
        self._control.close()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        return _run(order["arguments"], order["environment"])

    def _report_ends(self) -> None:
        for pid, code in self._forks.reap().items():
            with suppress(OSError):
                send_message(self._control, {"ended": pid, "code": code})


def _run(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the command line of flnet in this process; its exit code."""
    from flnet.cli.commands import cli  # noqa: PLC0415

    set_environment(environment)
    try:
        cli(args=list(arguments), prog_name="flnet")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


if __name__ == "__main__":
    main(int(sys.argv[1]))
