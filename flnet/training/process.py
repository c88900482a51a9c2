"""The child process in which frameworks are imported and trainers work, as the node sees it."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from flnet.errors import TrainerError, WorkerDied
from flnet.events import Declaration
from flnet.params import Params
from flnet.training.api import Fit, Prediction, Score
from flnet.training.backend import Assignment, FitOrder, Inputs, Report
from flnet.training.channel import Channel
from flnet.training.children import Child, spawned
from flnet.training.forking import NotForked, forked
from flnet.training.frames import (
    Frame,
    assignment_fields,
    nonsense,
    read_bytes,
    read_declaration,
    read_error,
    read_fit,
    read_prediction,
    with_inputs,
)

T = TypeVar("T")
log = logging.getLogger(__name__)
_END_S = 5.0  # for the system to reap a killed process
_ODD = (KeyError, TypeError, ValueError)  # what reading an answer that is none may end in


class ProcessBackend:
    """Starts the child when there is work, and starts another one when it is gone.

    One child serves all trainers, but two frameworks never meet in it: before a trainer whose source
    imports another framework than the child has loaded, the child is replaced.
    """

    def __init__(self, threads: int, fork_server: Path | None = None) -> None:
        """Args:
        threads: that a framework may use.
        fork_server: socket of a process that forks children; without it, or when it cannot, the node
            starts its own.
        """
        self._threads, self._fork_server = threads, fork_server
        self._child: Child | None = None
        self._loaded: frozenset[str] = frozenset()  # frameworks in the child
        self._cancelled: set[int] = set()
        self._closed = False
        self._starting = threading.Lock()  # `close` comes from another thread

    @property
    def pid(self) -> int | None:
        """The child's process id, or None when there is none."""
        child = self._child
        return child.pid if child is not None and not child.has_ended() else None

    def prepare(self, who: Assignment, anew: bool = False) -> tuple[Declaration, Params]:
        """Ask the child for a trainer's declaration and initial parameters."""

        def read(answer: Frame) -> tuple[Declaration, Params]:
            return read_declaration(answer.fields["declaration"]), answer.params or Params()

        return self._ask(who, "prepared", {"do": "prepare", "anew": anew}, read)

    def fit(self, who: Assignment, order: FitOrder, report: Report) -> tuple[Fit, Score]:
        """Let the child train and measure."""
        fields = {"do": "fit", **_fields(order)}

        def read(answer: Frame) -> tuple[Fit, Score]:
            return read_fit(answer.fields, answer.params or Params())

        try:
            return self._ask(who, "fitted", fields, read, order.params, report)
        finally:
            self._cancelled.discard(order.number)

    def personalise(self, who: Assignment, order: FitOrder, report: Report) -> tuple[Params, Score]:
        """Let the child's private parameters learn on, and measure."""
        fields = {"do": "personalise", **_fields(order)}

        def read(answer: Frame) -> tuple[Params, Score]:
            return answer.params or Params(), Score(**answer.fields["score"])

        try:
            return self._ask(who, "personalised", fields, read, order.params, report)
        finally:
            self._cancelled.discard(order.number)

    def evaluate(self, who: Assignment, params: Params) -> Score:
        """Let the child measure."""
        return self._ask(who, "evaluated", {"do": "evaluate"}, lambda a: Score(**a.fields["score"]), params)

    def predict(self, who: Assignment, params: Params, inputs: Inputs) -> Prediction:
        """Let the child judge."""
        fields, arrays = with_inputs(params, inputs)
        return self._ask(who, "predicted", {"do": "predict", **fields}, read_prediction, arrays)

    def findings(self, who: Assignment, params: Params) -> dict[str, Any]:
        """Let the child look."""
        return self._ask(who, "found", {"do": "findings"}, lambda a: dict(a.fields["findings"]), params)

    def export(self, who: Assignment, params: Params, metadata: Mapping[str, str]) -> bytes:
        """Let the child describe its model."""
        fields = {"do": "export", "metadata": dict(metadata)}
        return self._ask(who, "exported", fields, read_bytes, params)

    def cancel(self, number: int) -> None:
        """Tell the child, in a thread of its own: the socket may be full, and the event loop must not wait."""
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
        read: Callable[[Frame], T],
        params: Params | None = None,
        report: Report = lambda done, total: None,
    ) -> T:
        child = self._child_for(who)
        answer = None
        try:
            with suppress(OSError):  # it died while it was spoken to
                child.channel.send(Frame({**fields, "who": assignment_fields(who)}, params))
                if fields.get("number") in self._cancelled:
                    child.channel.send(Frame({"do": "cancel", "number": fields["number"]}))
                answer = _last_answer(child.channel, report)
            if answer is None:
                raise WorkerDied(self._epitaph(child))
            self._loaded = frozenset(answer.fields["loaded"])
            if answer.fields["answer"] == "error":
                raise read_error(answer.fields)
            if answer.fields["answer"] == expected:
                return read(answer)
        except _ODD as exc:
            answer = Frame({**(answer.fields if answer else {}), "fault": str(exc)})
        self._end()
        raise nonsense(answer)

    def _tell(self, child: Child, number: int) -> None:
        # With its child the training has ended too; ValueError: the channel was closed on this side.
        with suppress(OSError, ValueError):
            child.channel.send(Frame({"do": "cancel", "number": number}))

    def _child_for(self, who: Assignment) -> Child:
        needed = who.file.frameworks
        if self._child is not None and (self._child.has_ended() or _clash(self._loaded, needed)):
            self._end()
        if self._child is None:
            child = self._started(who)
            with self._starting:
                if self._closed:
                    _part_from(child)
                    raise TrainerError("the node is stopping")
                self._child = child
        return self._child

    def _started(self, who: Assignment) -> Child:
        if self._fork_server is not None:
            try:
                return forked(self._fork_server, who.file, self._threads)
            except NotForked as exc:
                log.warning("no training child from the fork server (%s); this node starts its own", exc)
        return spawned(self._threads)

    def _end(self) -> None:
        child, self._child, self._loaded = self._child, None, frozenset()
        if child is not None:
            _part_from(child)

    def _epitaph(self, child: Child) -> str:
        code = child.wait(_END_S)
        self._end()
        return _cause_of_death(code)


def _fields(order: FitOrder) -> dict[str, Any]:
    """A training as the child reads it; parameters go beside it."""
    return {"number": order.number, "hyper": order.hyper.fields(), "seed": order.seed, "round": order.round}


def _part_from(child: Child) -> None:
    child.kill()
    child.wait(_END_S)
    child.close()


def _last_answer(channel: Channel, report: Report) -> Frame | None:
    """What an order ends in, after all reports of progress; None when the child is gone."""
    answer = channel.receive()
    while answer is not None and answer.fields["answer"] == "progress":
        report(answer.fields["done"], answer.fields["total"])
        answer = channel.receive()
    return answer


def _clash(loaded: frozenset[str], needed: frozenset[str]) -> bool:
    """Whether a trainer that needs these frameworks would bring another one to those that are loaded."""
    return bool(loaded - needed and needed - loaded)


def _cause_of_death(code: int | None) -> str:
    if code is None:
        return "the training process does not answer any more, and nothing tells why"
    if code >= 0:
        return f"the training process ended by itself with exit code {code} in the middle of its work"
    try:
        name = f" ({signal.Signals(-code).name})"
    except ValueError:
        name = ""
    hint = "; often the system does this when memory runs out" if -code == getattr(signal, "SIGKILL", 9) else ""
    return f"the training process was killed by signal {-code}{name}{hint}"
