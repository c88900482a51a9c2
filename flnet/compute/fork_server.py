"""The process that forks training children: `python -m flnet.compute.fork_server`, started by training_child.py.

Importing a framework takes a second and about 200 MB. Nodes on one machine can share that. For each set of
frameworks this server keeps a template: a process that has imported them and forks a training child for every order
that arrives over a Unix socket. The child runs the same worker that a node starts by itself otherwise. Two
frameworks never meet in one process, and a process with threads never forks.

The connection of a node stays open. It tells the node how its child ended; when it is closed, the child is killed.

Where memory is short, a node asks for a place in a child that it shares with the other nodes instead: the template forks
one, and hands it the socket of each further node. A node that closes its connection gives its place up. The child is
killed when the last place is given up, or when it does not part from a node within a moment, because a trainer hangs.
"""

from __future__ import annotations

import gc
import importlib
import os
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from flnet.compute import worker
from flnet.compute.assignment import thread_bounds
from flnet.compute.channel import Garbled, receive_message, send_message
from flnet.compute.forking import Forks, run_and_exit, set_environment

IDLE_S = 60.0  # without a child, after which a template ends
LEAVE_S = 4.0  # for a child of several nodes to part from one of them, whose training ends at its next batch
_ORDER_S = 5.0  # for a node to say what it wants
Key = tuple[tuple[str, ...], int]  # frameworks, threads


def main(listening: int) -> None:
    """Pass orders on to the template of their frameworks until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the exit code of a template says nothing
    with socket.socket(fileno=listening) as listener:
        listener.set_inheritable(False)
        _Server(listener).run()


class _Server:
    """Keeps one template for each set of frameworks; imports nothing itself, so that it can fork all of them."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._templates: dict[Key, socket.socket] = {}
        self._watched = selectors.DefaultSelector()
        self._watched.register(listener, selectors.EVENT_READ)
        self._watched.register(0, selectors.EVENT_READ)

    def run(self) -> None:
        while True:
            for key, _ in self._watched.select():
                if key.fileobj == 0:
                    return
                if key.fileobj is self._listener:
                    self._admit()
                elif key.data in self._templates:
                    self._drop(key.data)

    def _admit(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            connection.settimeout(_ORDER_S)
            try:
                asked = receive_message(connection, 2)
            except (OSError, Garbled):
                return
            if asked is None:
                return
            order, descriptors = asked
            try:
                self._pass_on(order, (connection.fileno(), *descriptors))
            except (OSError, KeyError, TypeError, ValueError):
                pass  # the node sees its connection closed, and starts a child by itself
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)

    def _pass_on(self, order: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        key = (tuple(map(str, order["frameworks"])), int(order["threads"]))
        if key in self._templates:
            try:
                return send_message(self._templates[key], order, descriptors)
            except OSError:  # it has just ended
                self._drop(key)
        self._begin(key, str(order["module"]), descriptors)
        return send_message(self._templates[key], order, descriptors)

    def _begin(self, key: Key, module: str, foreign: Sequence[int]) -> None:
        """Fork a template for these frameworks; `foreign` descriptors belong to the order."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        parent, folder = os.getpid(), Path(self._listener.getsockname()).parent
        if os.fork() == 0:
            self._leave(ours, foreign)
            run_and_exit(lambda: _template(theirs, key, module, parent, folder))
        theirs.close()
        self._templates[key] = ours
        self._watched.register(ours, selectors.EVENT_READ, key)

    def _leave(self, ours: socket.socket, foreign: Sequence[int]) -> None:
        """Close, in a forked process, the descriptors that belong to the server or that it is passing on."""
        self._watched.close()
        for end in (ours, self._listener, *self._templates.values()):
            end.close()
        for descriptor in foreign:
            os.close(descriptor)

    def _drop(self, key: Key) -> None:
        end = self._templates.pop(key)
        self._watched.unregister(end)
        end.close()


def _template(control: socket.socket, key: Key, module: str, parent: int, folder: Path) -> int:
    """Import, then fork until the server is gone; the exit code, which nobody reads."""
    worker.be_killed_with(parent)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.close(nothing)
    frameworks, threads = key
    # Some are read when a framework is imported; the child gets all of them once more from its node.
    os.environ.update({**thread_bounds(threads), "OPENBLAS_NUM_THREADS": "1"})
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    refusal = _import_all(frameworks, module)
    gc.collect()
    gc.freeze()  # a collection in a child would write to every page that it shares
    _Template(control, refusal, folder).run()
    return 0


def _import_all(frameworks: Sequence[str], module: str) -> str:
    """Import the frameworks; the reason why this process cannot fork, or an empty string."""
    try:
        for name in (*frameworks, *filter(None, [module])):
            importlib.import_module(name)
    except Exception as exc:  # a child of the node's own will say more
        return f"{type(exc).__name__}: {exc}"[:500]
    count = _threads()
    return f"{', '.join(frameworks) or 'numpy'} started {count - 1} threads when imported" if count > 1 else ""


def _threads() -> int:
    try:
        return len(os.listdir("/proc/self/task"))  # noqa: PTH208  only the number
    except OSError:  # another system than Linux
        return 1


@dataclass(eq=False)
class _SharedChild:
    """A child of several nodes, as its template sees it.

    Attributes:
        control: over which it is given places, and says which ones it has left.
        folder: of its temporary files.
        nodes: place -> connection of the node that has it.
        deadlines: place that its node has given up -> when the child is killed unless it has left it.
    """

    pid: int
    control: socket.socket
    folder: str
    nodes: dict[int, socket.socket] = field(default_factory=dict)
    deadlines: dict[int, float] = field(default_factory=dict)


class _Template:
    """A process with its frameworks imported, which forks children; it has no threads and no other event loop.

    Args:
        refusal: why it cannot fork; empty if it can.
        folder: in which the temporary files of shared children are.
    """

    def __init__(self, control: socket.socket, refusal: str, folder: Path) -> None:
        self._control, self._refusal, self._folder = control, refusal, folder
        self._forks = Forks()
        self._nodes: dict[int, socket.socket] = {}  # running child -> connection of its node
        self._shared: dict[int, _SharedChild] = {}  # running child -> its nodes
        self._open: _SharedChild | None = None  # the one that takes further nodes
        self._places = count()
        self._watched = selectors.DefaultSelector()
        self._watched.register(control, selectors.EVENT_READ)
        self._watched.register(self._forks, selectors.EVENT_READ)

    def run(self) -> None:
        """Work until the server is gone, or until there has been no child for a while."""
        try:
            while True:
                ready = self._watched.select(self._patience_s())
                if not ready and not self._nodes and not self._shared:
                    return
                for key, _ in ready:
                    if key.fileobj is self._control and not self._take_order():
                        return
                    if key.data is not None:
                        key.data()
                self._end_stuck()
                for pid, code in self._forks.reap().items():
                    self._part_from_all(pid, code)
        finally:
            self._forks.kill_all()

    def _patience_s(self) -> float | None:
        """How long to wait for something to happen; None for ever."""
        ends = [end for child in self._shared.values() for end in child.deadlines.values()]
        if ends:
            return max(0.0, min(ends) - time.monotonic())
        return None if self._nodes or self._shared else IDLE_S

    def _take_order(self) -> bool:
        try:
            asked = receive_message(self._control, 3)
        except (OSError, Garbled):
            asked = None
        if asked is None:
            return False
        order, descriptors = asked
        connection, *rest = descriptors
        node = socket.socket(fileno=connection)
        try:
            if self._refusal or len(rest) != 2:
                send_message(node, {"refused": self._refusal or "it was not given a channel and a log"})
                node.close()
            elif order.get("shared"):
                self._give_place(order, node, *rest)
            else:
                self._fork(order, node, *rest)
        except OSError:
            node.close()
        finally:
            for descriptor in rest:
                os.close(descriptor)
        return True

    def _fork(self, order: Mapping[str, Any], node: socket.socket, channel: int, log: int) -> None:
        parent = os.getpid()
        pid = self._forks.fork(lambda: self._work(order, node, channel, log, parent))
        self._nodes[pid] = node
        self._watched.register(node, selectors.EVENT_READ, partial(self._kill, pid))
        with suppress(OSError):  # a node that is gone is noticed like any other
            send_message(node, {"pid": pid})

    def _work(self, order: Mapping[str, Any], node: socket.socket, channel: int, log: int, parent: int) -> int:
        self._become_child(order, log, node)
        worker.main(channel, parent)
        return 1  # not reached

    def _become_child(self, order: Mapping[str, Any], log: int, *ends: socket.socket) -> None:
        """Close, in a forked child, what belongs to the template, and take over from the node what a child has."""
        self._watched.close()
        shared = [end for child in self._shared.values() for end in (child.control, *child.nodes.values())]
        for end in (self._control, *self._nodes.values(), *shared, *ends):
            end.close()
        os.dup2(log, 2)
        os.close(log)
        set_environment(order["environment"])
        tempfile.tempdir = None  # a framework may have asked before; the child has a folder of its own
        with suppress(OSError):
            os.chdir(order["folder"])

    def _give_place(self, order: Mapping[str, Any], node: socket.socket, channel: int, log: int) -> None:
        """Hand the socket of a node to the child that nodes share."""
        place = next(self._places)
        try:
            child = self._open or self._fork_shared(order, node, channel, log)
            send_message(child.control, {"place": place}, (channel, log))
        except OSError:  # it has just ended
            self._open = None
            child = self._fork_shared(order, node, channel, log)
            send_message(child.control, {"place": place}, (channel, log))
        child.nodes[place] = node
        self._watched.register(node, selectors.EVENT_READ, partial(self._leave, child, place))
        with suppress(OSError):
            send_message(node, {"pid": child.pid})

    def _fork_shared(self, order: Mapping[str, Any], node: socket.socket, channel: int, log: int) -> _SharedChild:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            ours.settimeout(_ORDER_S)
            folder, parent = tempfile.mkdtemp(prefix="child-", dir=self._folder), os.getpid()
            pid = self._forks.fork(lambda: self._share(order, (node, ours), channel, log, theirs, folder, parent))
        self._open = self._shared[pid] = child = _SharedChild(pid, ours, folder)
        self._watched.register(ours, selectors.EVENT_READ, partial(self._hear, child))
        return child

    def _share(
        self,
        order: Mapping[str, Any],
        ends: Sequence[socket.socket],
        channel: int,
        log: int,
        control: socket.socket,
        folder: str,
        parent: int,
    ) -> int:
        os.close(channel)  # it comes once more as that of a place
        self._become_child(order, log, *ends)
        os.environ["TMPDIR"] = folder
        worker.share(control, parent)
        return 1  # not reached

    def _hear(self, child: _SharedChild) -> None:
        """A shared child has left a place; if it was the last one, the child is not needed any more."""
        try:
            message = receive_message(child.control, 0)
        except (OSError, Garbled):
            message = None
        if message is None:
            self._watched.unregister(child.control)
            self._end_shared(child)
            return
        child.deadlines.pop(message[0]["left"], None)
        if (node := child.nodes.pop(message[0]["left"], None)) is not None:
            self._part_from(node, 0)
        if not child.nodes:
            self._end_shared(child)

    def _leave(self, child: _SharedChild, place: int) -> None:
        """Take the place of a node that closed its connection from it."""
        if place not in child.nodes:
            return None
        self._watched.unregister(child.nodes[place])
        if child.nodes.keys() - child.deadlines.keys() == {place}:
            return self._end_shared(child)
        child.deadlines[place] = time.monotonic() + LEAVE_S
        try:
            return send_message(child.control, {"leave": place})
        except OSError:  # it is full, or gone
            return self._end_shared(child)

    def _end_stuck(self) -> None:
        """Kill the shared child that does not part from a node in time; its other nodes get places in the next one."""
        now = time.monotonic()
        for child in self._shared.values():
            if child.deadlines and min(child.deadlines.values()) <= now:
                child.deadlines.clear()
                self._end_shared(child)

    def _end_shared(self, child: _SharedChild) -> None:
        """Kill a shared child; its nodes are told when it has ended."""
        if self._open is child:
            self._open = None
        self._forks.kill(child.pid)

    def _kill(self, pid: int) -> None:
        """Kill the child of a node that closed its connection; it is removed when it has ended."""
        if pid in self._nodes:
            self._watched.unregister(self._nodes[pid])
            self._forks.kill(pid)

    def _part_from_all(self, pid: int, code: int) -> None:
        """Tell the nodes of a child that it has ended."""
        if pid in self._nodes:
            return self._part_from(self._nodes.pop(pid), code)
        child = self._shared.pop(pid)
        if self._open is child:
            self._open = None
        for node in child.nodes.values():
            self._part_from(node, code)
        with suppress(KeyError):
            self._watched.unregister(child.control)
        child.control.close()
        return shutil.rmtree(child.folder, ignore_errors=True)

    def _part_from(self, node: socket.socket, code: int) -> None:
        with suppress(KeyError, ValueError):
            self._watched.unregister(node)
        with suppress(OSError):
            send_message(node, {"ended": code})
        node.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
