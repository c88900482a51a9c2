"""The child process in which frameworks are imported and trainers work, as the node sees it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any

from flnet.errors import TrainerError, WorkerDied
from flnet.events import Declaration
from flnet.params import Params
from flnet.settings import PREFIX
from flnet.training.api import Fit, Prediction, Score
from flnet.training.backend import Assignment, FitOrder, Inputs, Report, thread_bounds
from flnet.training.frames import (
    Frame,
    assignment_fields,
    nonsense,
    read_bytes,
    read_declaration,
    read_error,
    read_fit,
    read_frame,
    read_prediction,
    with_inputs,
    write_frame,
)

_END_S = 5.0  # for the system to reap a killed process


class ProcessBackend:
    """Starts the child when there is work, and starts another one when it is gone.

    One child serves all trainers, but two frameworks never meet in it: before a trainer whose source
    imports another framework than the child has loaded, the child is replaced.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._child: subprocess.Popen[bytes] | None = None
        self._loaded: frozenset[str] = frozenset()  # frameworks in the child
        self._cancelled: set[int] = set()
        self._closed = False
        self._starting = threading.Lock()  # `close` comes from another thread
        self._writing = threading.Lock()  # a cancel comes while an order may still be on its way

    @property
    def pid(self) -> int | None:
        """The child's process id, or None when there is none."""
        child = self._child
        return child.pid if child is not None and child.poll() is None else None

    def prepare(self, who: Assignment) -> tuple[Declaration, Params]:
        """Ask the child for a trainer's declaration and initial parameters."""
        answer = self._ask(who, "prepared", {"do": "prepare"})
        return read_declaration(answer.fields["declaration"]), answer.params or Params()

    def fit(self, who: Assignment, order: FitOrder, report: Report) -> tuple[Fit, Score]:
        """Let the child train and measure."""
        fields = {"do": "fit", "number": order.number, "hyper": order.hyper.fields(), "seed": order.seed}
        try:
            answer = self._ask(who, "fitted", fields, order.params, report)
        finally:
            self._cancelled.discard(order.number)
        return read_fit(answer.fields, answer.params or Params())

    def evaluate(self, who: Assignment, params: Params) -> Score:
        """Let the child measure."""
        return Score(**self._ask(who, "evaluated", {"do": "evaluate"}, params).fields["score"])

    def predict(self, who: Assignment, params: Params, inputs: Inputs) -> Prediction:
        """Let the child judge."""
        fields, arrays = with_inputs(params, inputs)
        return read_prediction(self._ask(who, "predicted", {"do": "predict", **fields}, arrays))

    def export(self, who: Assignment, params: Params, metadata: Mapping[str, str]) -> bytes:
        """Let the child describe its model."""
        return read_bytes(self._ask(who, "exported", {"do": "export", "metadata": dict(metadata)}, params))

    def cancel(self, number: int) -> None:
        """Tell the child, in a thread of its own: the pipe may be full, and the event loop must not wait."""
        self._cancelled.add(number)  # first, for an order that is not written yet; see _ask
        child = self._child
        if child is not None:
            threading.Thread(target=self._tell, args=(child, number), daemon=True).start()

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

    def _ask(
        self,
        who: Assignment,
        expected: str,
        fields: Mapping[str, Any],
        params: Params | None = None,
        report: Report = lambda done, total: None,
    ) -> Frame:
        child = self._child_for(who)
        orders, answers = _pipes(child)
        try:
            with self._writing:
                write_frame(orders, Frame({**fields, "who": assignment_fields(who)}, params))
                if fields.get("number") in self._cancelled:
                    write_frame(orders, Frame({"do": "cancel", "number": fields["number"]}))
            answer = read_frame(answers)
            while answer is not None and answer.fields["answer"] == "progress":
                report(answer.fields["done"], answer.fields["total"])
                answer = read_frame(answers)
        except OSError:  # it died while it was spoken to
            answer = None
        if answer is None:
            raise WorkerDied(self._epitaph(child))
        self._loaded = frozenset(answer.fields["loaded"])
        if answer.fields["answer"] == "error":
            raise read_error(answer.fields)
        if answer.fields["answer"] != expected:
            self._end()
            raise nonsense(answer)
        return answer

    def _tell(self, child: subprocess.Popen[bytes], number: int) -> None:
        # With its child the training has ended too; ValueError: the pipe was closed on this side.
        with suppress(OSError, ValueError), self._writing:
            write_frame(_pipes(child)[0], Frame({"do": "cancel", "number": number}))

    def _child_for(self, who: Assignment) -> subprocess.Popen[bytes]:
        needed = who.file.frameworks
        if self._child is not None and (self._child.poll() is not None or _clash(self._loaded, needed)):
            self._end()
        if self._child is None:
            with self._starting:
                if self._closed:
                    raise TrainerError("the node is stopping")
                self._child = self._started()
        return self._child

    def _started(self) -> subprocess.Popen[bytes]:
        # The child gets what it needs in frames; the node's own settings, keys among them, stay here.
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        try:
            return subprocess.Popen(  # noqa: S603  our own module, nothing from outside
                [sys.executable, "-m", "flnet.training.worker", str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**inherited, **thread_bounds(self._threads)},
            )
        except OSError as exc:
            raise WorkerDied(f"the training process cannot be started: {exc}") from exc

    def _end(self) -> None:
        child, self._child, self._loaded = self._child, None, frozenset()
        if child is None:
            return
        child.kill()
        for pipe in _pipes(child):
            with suppress(OSError):  # what was buffered for a dead child
                pipe.close()
        with suppress(subprocess.TimeoutExpired):
            child.wait(_END_S)

    def _epitaph(self, child: subprocess.Popen[bytes]) -> str:
        try:
            code = child.wait(_END_S)
        except subprocess.TimeoutExpired:
            code = 0
        self._end()
        return _cause_of_death(code)


def _pipes(child: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert child.stdin is not None
    assert child.stdout is not None
    return child.stdin, child.stdout


def _clash(loaded: frozenset[str], needed: frozenset[str]) -> bool:
    """Whether a trainer that needs these frameworks would bring another one to those that are loaded."""
    return bool(loaded - needed and needed - loaded)


def _cause_of_death(code: int) -> str:
    if code >= 0:
        return f"the training process ended by itself with exit code {code} in the middle of its work"
    try:
        name = f" ({signal.Signals(-code).name})"
    except ValueError:
        name = ""
    hint = "; often the system does this when memory runs out" if -code == getattr(signal, "SIGKILL", 9) else ""
    return f"the training process was killed by signal {-code}{name}{hint}"
