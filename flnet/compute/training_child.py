"""The training child: how a node starts it, gives it work, and notices that it has ended.

Frameworks are imported in this process only. It is a new interpreter (`Spawned`), or it is forked by a fork server
that has imported the framework already (`Forked`); fork_server.py is that server, worker.py is what runs in the child.
Where memory is short, a node has a place in a child that it shares with the other nodes of its machine (`Forked`, too).
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from flnet.compute.assignment import Assignment, thread_bounds
from flnet.compute.channel import (
    CancelOrder,
    ChildChannel,
    Garbled,
    OrderBegun,
    ProgressReport,
    WorkOrder,
    WorkReply,
    receive_message,
    send_message,
)
from flnet.compute.verbs import VERBS, PrepareRequest, Report, TrainerRequest
from flnet.errors import FlnetError, TrainerError, WorkerDied
from flnet.settings import PREFIX
from flnet.temporary import temporary_folder
from flnet.text import text
from flnet.trainer import TrainerFile

Result = TypeVar("Result")
log = logging.getLogger(__name__)
START_S = 120.0  # for the first child of a framework, which waits until a busy machine has imported that
_END_S = 5.0  # for the system to end a process that was told or forced to end
_MOMENT_S = 2.0  # for a training that is to end at once to end by itself, which keeps the child
_TRIES = 10  # of an order that waits in a shared child whenever another node's ends that
_SHIPPED = "flnet_trainers."


class Child(Protocol):
    """A training child."""

    @property
    def pid(self) -> int:
        """Its process id."""
        ...

    @property
    def channel(self) -> ChildChannel:
        """The channel to it."""
        ...

    def has_ended(self) -> bool:
        """Whether it has ended; does not wait."""
        ...

    def kill(self) -> None:
        """Kill it; from any thread."""
        ...

    def wait(self, seconds: float) -> int | None:
        """Its exit code, negative for a signal; None if it is not known by then."""
        ...

    def close(self) -> None:
        """Close its channel and connection, after it was killed."""
        ...


class Spawned:
    """A child in a new interpreter, which imports its framework itself."""

    def __init__(self, process: subprocess.Popen[bytes], channel: ChildChannel) -> None:
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


def spawned(threads: int, folder: Path | None = None) -> Spawned:
    """Start a child.

    Args:
        threads: that its framework may use.
        folder: for its temporary files; those of this process, if absent.

    Raises:
        WorkerDied: the system cannot.
    """
    try:
        ours, theirs = pair()
    except OSError as exc:
        raise WorkerDied(text("the training process cannot be started: {reason}", exc)) from exc
    with theirs:
        try:
            process = subprocess.Popen(  # noqa: S603  our own module, nothing from outside
                [sys.executable, "-m", "flnet.compute.worker", str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # it prints where its errors go, which is the node's log
                pass_fds=[theirs.fileno()],
                env=_child_environment(threads, folder),
            )
        except OSError as exc:
            ours.close()
            raise WorkerDied(text("the training process cannot be started: {reason}", exc)) from exc
    return Spawned(process, ChildChannel(ours))


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets, for the node and for the child.

    Raises:
        WorkerDied: this system has none over which open files can be handed.
    """
    if not hasattr(socket, "send_fds"):
        raise WorkerDied(
            text("this system has no Unix sockets for a training process; set FLNET_COMPUTE to thread")
        )
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a child: without the settings of the node, which may hold keys."""
    return {name: value for name, value in environ.items() if not name.startswith(PREFIX)}


def _child_environment(threads: int, folder: Path | None) -> dict[str, str]:
    temporary = {} if folder is None else {"TMPDIR": str(folder)}
    return {**environment(), **thread_bounds(threads), **temporary}


class NotForked(Exception):
    """The fork server made no child; the text says why."""


class Forked:
    """A child of the fork server, which kills it when this connection is closed, and tells how it ended.

    Of a shared child this is the node's place: to kill it is to give it up, and the child goes on for the other nodes.
    """

    def __init__(self, connection: socket.socket, pid: int, channel: ChildChannel) -> None:
        self._connection, self.pid, self.channel = connection, pid, channel
        self._gone = False
        self._code: int | None = None
        self._listening = threading.Lock()

    def has_ended(self) -> bool:
        """Whether it has ended, or its server has."""
        self._listen(0.0)
        return self._gone

    def kill(self) -> None:
        """Let the server kill it: the server is its parent, so that the process id cannot belong to another process."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    def wait(self, seconds: float) -> int | None:
        """Its exit code; None also when the server has ended, which ends all its children."""
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
                message = receive_message(self._connection, 0)
            except (BlockingIOError, TimeoutError):
                return
            except (OSError, Garbled):
                message = None
            self._gone = True
            if message is not None and isinstance(message[0].get("ended"), int):
                self._code = message[0]["ended"]


def forked(
    server: Path, file: TrainerFile, threads: int, folder: Path | None = None, *, shares: bool = False
) -> Forked:
    """A child for this trainer, or a place in one.

    Args:
        server: socket of the fork server.
        threads, folder: as of `spawned`.
        shares: whether to have a place in the child that nodes share.

    Raises:
        NotForked: the server cannot be reached, or cannot do it.
    """
    ours, theirs = pair()
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    order = {**_order(file, threads, folder), "shared": shares}
    try:
        with theirs:
            connection.settimeout(START_S)
            connection.connect(str(server))
            send_message(connection, order, (theirs.fileno(), 2))
        message = receive_message(connection, 0)
        if message is None:
            raise NotForked("it has ended")
        if not isinstance(message[0].get("pid"), int):
            raise NotForked(str(message[0].get("refused", "it speaks differently")))
        return Forked(connection, message[0]["pid"], ChildChannel(ours))
    except (OSError, Garbled, NotForked) as exc:
        connection.close()
        ours.close()
        raise NotForked(str(exc) or type(exc).__name__) from exc


def _order(file: TrainerFile, threads: int, folder: Path | None) -> dict[str, Any]:
    return {
        "frameworks": sorted(file.frameworks),
        # Each child reads a person's own file again, so that it can be changed.
        "module": file.module if file.module.startswith(_SHIPPED) else "",
        "threads": threads,
        "environment": _child_environment(threads, folder),
        "folder": str(Path.cwd()),
    }


class ProcessBackend:
    """Does calls in a child process, which it starts when there is work and replaces when it has ended.

    One child serves all trainers, but two frameworks never meet in it: the child is replaced before a trainer whose source
    imports another framework than the child has loaded.

    A shared child does the orders of all nodes one after the other. If it dies, the node whose order it was doing sees
    WorkerDied, and the others give their order to the next one.
    """

    def __init__(self, threads: int, fork_server: Path | None = None, *, shares: bool = False) -> None:
        """Args:
        threads: that a framework may use.
        fork_server: socket of a process that forks children; without it, or when it cannot, the node
            starts its own.
        shares: whether to have a place in the child that nodes share, and none if the fork server cannot give one.
        """
        self._threads, self._fork_server, self._shares = threads, fork_server, shares
        self._place_for: frozenset[str] = frozenset()  # frameworks of the shared child
        self._child: Child | None = None
        self._temporary = ExitStack()  # holds the folder of the child's temporary files
        self._loaded: frozenset[str] = frozenset()  # frameworks in the child
        self._cancelled: set[int] = set()
        self._running: int | None = None  # number of the order that the child works on
        self._ended: int | None = None  # number of the last order that was ended with its child
        self._ending = threading.Lock()  # of these two
        self._closed = False
        self._starting = threading.Lock()  # `close` comes from another thread

    @property
    def pid(self) -> int | None:
        """The child's process id, or None when there is none."""
        child = self._child
        return child.pid if child is not None and not child.has_ended() else None

    def call(
        self,
        assignment: Assignment,
        request: TrainerRequest[Result],
        number: int = 0,
        report: Report = lambda done, total: None,
    ) -> Result:
        """Let the child do what the request asks; see `flnet.compute.queue.Backend`."""
        seconds = request.seconds if isinstance(request, PrepareRequest) else None
        order = WorkOrder(number, assignment, request)
        try:
            for tries_left in reversed(range(_TRIES)):
                child = self._child_for(assignment)
                reply, has_begun = self._done(child, order, report, seconds)
                is_lost = reply is None and self._shares and not has_begun and not self._closed
                if not (is_lost and tries_left and self._ended != number):
                    break
                self._end()  # it died of another node's order
        finally:
            self._cancelled.discard(number)
        if number and self._ended == number:
            self._end()
            if seconds:
                words = text(
                    "{trainer} did not load its data within {seconds} s", assignment.file.id, f"{seconds:g}"
                )
                raise TrainerError(words)
            raise TrainerError(text("the training of {trainer} was cancelled", assignment.file.id))
        if reply is None:
            raise WorkerDied(self._cause_of_end(child))
        if isinstance(reply, WorkReply) and isinstance(reply.error, FlnetError | None):
            self._loaded = reply.loaded
            if reply.error is not None:
                try:
                    raise reply.error
                finally:
                    del reply  # else the error would hold this call, and the call the error
            if isinstance(reply.result, VERBS[type(request)].result):
                result: Result = reply.result
                return result
        self._end()
        raise WorkerDied(text("the training process answered nonsense: {words}", str(reply)[:200]))

    def cancel(self, number: int, *, at_once: bool = False) -> None:
        """Tell the child, in a thread of its own: the socket may be full, and the event loop must not wait."""
        self._cancelled.add(number)  # first, for an order that is not written yet; see `call`
        child = self._child
        if child is not None:
            threading.Thread(target=self._send_cancel, args=(child, number), daemon=True).start()
        if at_once:
            self._ending_after(_MOMENT_S, number)

    def _ending_after(self, seconds: float, number: int) -> threading.Timer:
        """Kill the child after so many seconds, if it still works on this order then."""
        timer = threading.Timer(seconds, self._end_running, args=(number,))
        timer.daemon = True
        timer.start()
        return timer

    def _end_running(self, number: int) -> None:
        """Kill the child, if it still works on this order."""
        with self._ending:
            if self._running == number and self._child is not None:
                self._ended = number
                self._child.kill()

    def rest(self) -> None:
        """End the child; its memory comes back, and the next task starts another one."""
        self._end()

    def close(self) -> None:
        """Kill the child; a task that is under way ends in WorkerDied."""
        with self._starting:
            self._closed = True
            child = self._child
        if child is not None:
            child.kill()

    def _done(self, child: Child, order: WorkOrder, report: Report, seconds: float | None) -> tuple[Any, bool]:
        """The reply to an order, after all reports of progress, and whether the child had begun it.

        Args:
            seconds: after which the child is killed, counted from when it begins; None for never.

        Returns:
            The reply is None if the child is gone, and Garbled if it was none.
        """
        limit, has_begun, reply = None, False, None
        with self._ending:
            self._running = order.number
        try:
            child.channel.send(order)
            if order.number in self._cancelled:
                child.channel.send(CancelOrder(order.number))
            while isinstance(reply := child.channel.receive(), OrderBegun | ProgressReport):
                if isinstance(reply, ProgressReport):
                    report(reply.done, reply.total)
                    continue
                has_begun = True
                limit = self._ending_after(seconds, order.number) if seconds else None
        except Garbled as exc:
            reply = exc
        except OSError:  # it died while it was spoken to
            reply = None
        finally:
            if limit is not None:
                limit.cancel()
            with self._ending:
                self._running = None
        return reply, has_begun

    def _send_cancel(self, child: Child, number: int) -> None:
        # With its child the training has ended too; ValueError: the channel was closed on this side.
        with suppress(OSError, ValueError):
            child.channel.send(CancelOrder(number))

    def _child_for(self, assignment: Assignment) -> Child:
        needed = assignment.file.frameworks
        if self._child is not None and (self._child.has_ended() or not self._is_fit_for(needed)):
            self._end()
        if self._child is None:
            child = self._started(assignment)
            with self._starting:
                if self._closed:
                    _end_child(child)
                    self._temporary.close()
                    raise TrainerError(text("the node is stopping"))
                self._child = child
        return self._child

    def _is_fit_for(self, needed: frozenset[str]) -> bool:
        """Whether a trainer that needs these frameworks can work in the child."""
        if self._shares and not needed <= self._place_for:  # or other nodes could bring another one
            return False
        return not _frameworks_clash(self._loaded, needed)

    def _started(self, assignment: Assignment) -> Child:
        if self._shares and self._fork_server is not None:
            try:
                place = forked(self._fork_server, assignment.file, self._threads, shares=True)
            except NotForked as exc:  # a child of its own would take the memory that is short
                raise WorkerDied(
                    text("there is no place in the training process that nodes share: {reason}", exc)
                ) from exc
            self._place_for = assignment.file.frameworks
            return place
        folder = self._temporary_folder()
        if self._fork_server is not None:
            try:
                return forked(self._fork_server, assignment.file, self._threads, folder)
            except NotForked as exc:
                log.warning("no training child from the fork server (%s); this node starts its own", exc)
        return spawned(self._threads, folder)

    def _temporary_folder(self) -> Path | None:
        """A folder for what the child leaves behind: it ends by a kill, and Keras removes its files at an exit only."""
        with suppress(OSError):  # without one, the child works as well
            return self._temporary.enter_context(temporary_folder("child"))
        return None

    def _end(self) -> None:
        child, self._child, self._loaded = self._child, None, frozenset()
        if child is not None:
            _end_child(child)
        self._temporary.close()

    def _cause_of_end(self, child: Child) -> str:
        code = child.wait(_END_S)
        self._end()
        return _describe_end(code)


def _end_child(child: Child) -> None:
    child.kill()
    child.wait(_END_S)
    child.close()


def _frameworks_clash(loaded: frozenset[str], needed: frozenset[str]) -> bool:
    """Whether a trainer that needs these frameworks would bring another one to those that are loaded."""
    return bool(loaded - needed and needed - loaded)


def _describe_end(code: int | None) -> str:
    if code is None:
        return text("the training process does not answer any more, and nothing tells why")
    if code >= 0:
        return text(
            "the training process ended by itself with exit code {code_number} in the middle of its work", code
        )
    try:
        name = f" ({signal.Signals(-code).name})"
    except ValueError:
        name = ""
    hint = (
        text("; often the system does this when memory runs out") if -code == getattr(signal, "SIGKILL", 9) else ""
    )
    return text("the training process was killed by signal {number}{cause}{hint}", -code, name, hint)


def can_fork_children() -> bool:
    """Whether this system can run a fork server."""
    return hasattr(os, "fork") and hasattr(socket, "send_fds")


@contextmanager
def running_fork_server() -> Iterator[Path | None]:
    """Run a fork server while the block is open; yields the path of its socket, or None if this system cannot run one.

    The server and all its children end with this process, also when this process is killed.
    """
    if not can_fork_children():
        yield None
        return
    with temporary_folder("fork") as folder:
        path = folder / "socket"  # the folder is this person's alone
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            try:
                listener.bind(str(path))
            except OSError:  # a path that is too long for a socket
                yield None
                return
            listener.listen(128)
            server = _start_server(listener)
        try:
            yield path
        finally:
            _end_server(server)


def _start_server(listener: socket.socket) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603  our own module, nothing from outside
        [sys.executable, "-m", "flnet.compute.fork_server", str(listener.fileno())],
        stdin=subprocess.PIPE,  # it ends when this does
        stdout=subprocess.DEVNULL,
        pass_fds=[listener.fileno()],
        # The only library that starts its threads when it is imported; a process with threads must not fork.
        env={**environment(), "OPENBLAS_NUM_THREADS": "1"},
        start_new_session=True,  # Ctrl-C is no business of its own
    )


def _end_server(server: subprocess.Popen[bytes]) -> None:
    assert server.stdin is not None
    server.stdin.close()
    try:
        server.wait(_END_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
