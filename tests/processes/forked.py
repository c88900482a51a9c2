"""Starts nodes by forking a process that has imported flnet already: `python -m tests.processes.forked`.

The imports are nine tenths of what a node costs until it is ready. Everything else is as in a node that a person
starts: a process of its own with its own arguments, variables, working folder, signals and exit code.
tests/cli/test_run.py and the meshes of tests/hosts start `python -m flnet run` itself.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_BYTES = 200_000  # of an order


class Forked:
    """A process that the server has forked; used like `subprocess.Popen`."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self.pid = int(channel.recv(20))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, or None while it runs; -N after signal N."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        Raises:
            subprocess.TimeoutExpired: it still runs after so many seconds.
        """
        if self.returncode is None:
            self._channel.settimeout(timeout)
            try:
                self.returncode = int(self._channel.recv(20) or -signal.SIGKILL)
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0) from None
            self._channel.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it as the power would."""
        self.send_signal(signal.SIGKILL)


def fork_node(module: str, values: Mapping[str, str], folder: Path, log: Path) -> Forked:
    """Start `python -m MODULE run` in a folder; it ends when this process does.

    Args:
        module: that takes the command line of flnet.
        values: all its environment variables.
        log: what it says is added to this file.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, log.open("ab") as said:
        order = json.dumps([module, dict(values), str(folder)]).encode()
        assert len(order) < MOST_BYTES
        socket.send_fds(_server(), [order], [said.fileno(), theirs.fileno()])
    return Forked(ours)


@cache
def _server() -> socket.socket:
    """The connection to the server of this process, which ends when it is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * MOST_BYTES)
    command = [sys.executable, "-m", "tests.processes.forked", str(theirs.fileno())]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FLNET_")}
    # The only library that starts threads when it is imported; a process with threads must not fork.
    variables = {**clean, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    with theirs:
        server = subprocess.Popen(command, env=variables, pass_fds=[theirs.fileno()])

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return ours


def serve(orders: socket.socket) -> tuple[str, dict[str, str], str] | None:
    """Fork a process for each order until there are no more.

    Returns:
        In a forked process, its order; None in the server at its end.
    """
    waking, woken = socket.socketpair()
    for end in (waking, woken):
        end.setblocking(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken.fileno())
    running: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as watched:
        watched.register(orders, selectors.EVENT_READ)
        watched.register(waking, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in watched.select()}
            if waking in ready:
                waking.recv(4096)
                _report_ended(running)
            if orders not in ready:
                continue
            order, descriptors, _, _ = socket.recv_fds(orders, MOST_BYTES, 2)
            if not order:
                return None
            log, channel = descriptors[0], socket.socket(fileno=descriptors[1])
            if (pid := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.signal(signal.SIGINT, signal.default_int_handler)
                for inherited in (orders, waking, woken, channel, *running.values()):
                    inherited.close()
                os.dup2(log, 1)
                os.dup2(log, 2)
                os.close(log)
                module, values, folder = json.loads(order)
                return module, values, folder
            os.close(log)
            running[pid] = channel
            channel.sendall(str(pid).encode())


def _report_ended(running: dict[int, socket.socket]) -> None:
    """Tell who asked for a process how it ended."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = ended
            with running.pop(pid) as channel, suppress(OSError):
                channel.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def become(module: str, values: Mapping[str, str], folder: str) -> None:
    """Go on as a node."""
    os.environ.clear()
    os.environ.update(values)
    os.chdir(folder)
    sys.argv = [module, "run", "--exit-with-parent", str(os.getppid())]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def main(arguments: Sequence[str]) -> None:
    """Import what nodes need, and fork them."""
    import flnet.cli.run  # noqa: F401 - not for the tests, which import this module too

    with suppress(ImportError):
        import uvloop  # noqa: F401 - there is none for some systems
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(arguments[1])) as orders:
        order = serve(orders)
    if order is not None:
        become(*order)


if __name__ == "__main__":
    main(sys.argv)
