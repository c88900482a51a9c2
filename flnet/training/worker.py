"""The training child: `python -m flnet.training.worker`, started and spoken to by ProcessBackend.

Frames come on standard input and answers go out on what was standard output when it started; afterwards
descriptor 1 is standard error, so that a trainer may print without spoiling an answer. A thread does all the
reading: so a cancel is heard while the main thread trains, and the end of the input, which is the end of the
node, ends this process at once, whatever it is doing.
"""

from __future__ import annotations

import ctypes
import os
import queue
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any

from flnet.errors import TrainerError
from flnet.messages import HyperParams
from flnet.params import Params
from flnet.training.backend import TOLD, FitOrder
from flnet.training.frames import (
    Frame,
    bytes_frame,
    declaration_fields,
    error_fields,
    fit_fields,
    prediction_frame,
    read_assignment,
    read_frame,
    read_inputs,
    write_frame,
)
from flnet.training.local import LocalBackend
from flnet.training.sources import loaded_families

_PR_SET_PDEATHSIG = 1
_NICENESS = 10


def main(parent: int) -> None:
    """Work until the node is gone."""
    _be_killed_with_parent()
    if sys.platform == "linux" and os.getppid() != parent:  # it went before the line above
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the node decides what it means
    answers, orders = _take_pipes()
    backend = LocalBackend()
    waiting: queue.SimpleQueue[Frame] = queue.SimpleQueue()
    threading.Thread(target=_read_all, args=(orders, backend, waiting), daemon=True).start()
    while True:
        _serve(waiting.get(), backend, answers)


def _be_killed_with_parent() -> None:
    """When the parent dies, however it does; elsewhere than on Linux the end of the input has to do."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _step_back() -> None:
    """Leave the processor to whoever answers people, the node above all.

    Only once there is something to train: on a busy machine a framework imported at low priority was
    measured to take a minute for its two seconds.
    """
    if hasattr(os, "nice"):
        os.nice(max(0, _NICENESS - os.nice(0)))


class _Answers:
    """Where answers go, whole, from whichever thread."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe, self._lock = pipe, threading.Lock()

    def give(self, frame: Frame) -> None:
        with suppress(BrokenPipeError), self._lock:  # a node that is gone ends this process elsewhere
            write_frame(self._pipe, frame)


def _take_pipes() -> tuple[_Answers, IO[bytes]]:
    answers, orders, nothing = os.dup(1), os.dup(0), os.open(os.devnull, os.O_RDWR)
    os.dup2(2, 1)
    os.dup2(nothing, 0)

    def let_go() -> None:
        """What a trainer forks must neither answer for us nor keep the pipe open when we are killed."""
        os.dup2(nothing, answers, inheritable=False)
        os.dup2(nothing, orders, inheritable=False)
        _be_killed_with_parent()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=let_go)
    return _Answers(os.fdopen(answers, "wb")), os.fdopen(orders, "rb")


def _read_all(orders: IO[bytes], backend: LocalBackend, waiting: queue.SimpleQueue[Frame]) -> None:
    try:
        while (frame := read_frame(orders)) is not None:
            if frame.fields["do"] == "cancel":
                backend.cancel(frame.fields["number"])
            else:
                waiting.put(frame)
    finally:
        os._exit(0)


def _serve(order: Frame, backend: LocalBackend, answers: _Answers) -> None:
    """Do what a frame asks and answer it."""
    try:
        answer = _done(order.fields, order.params or Params(), backend, answers)
    except TOLD as exc:
        answer = Frame({"answer": "error", **error_fields(exc)})
    except MemoryError:
        answer = Frame({"answer": "error", "message": "there was not enough memory for this task"})
    loaded = sorted(loaded_families())
    answers.give(Frame({**answer.fields, "loaded": loaded}, answer.params))


def _done(fields: Mapping[str, Any], params: Params, backend: LocalBackend, answers: _Answers) -> Frame:
    def report(done: int, total: int) -> None:
        answers.give(Frame({"answer": "progress", "done": done, "total": total}))

    who = read_assignment(fields["who"])
    match fields["do"]:
        case "prepare":
            declaration, initial = backend.prepare(who)
            return Frame({"answer": "prepared", "declaration": declaration_fields(declaration)}, initial)
        case "fit":
            _step_back()
            hyper = HyperParams.model_validate(fields["hyper"])
            fit, score = backend.fit(who, FitOrder(fields["number"], params, hyper, fields["seed"]), report)
            return Frame({"answer": "fitted", **fit_fields(fit, score)}, Params(fit.params))
        case "evaluate":
            return Frame({"answer": "evaluated", "score": vars(backend.evaluate(who, params))})
        case "predict":
            return prediction_frame(backend.predict(who, *read_inputs(fields, params)))
        case "export":
            return bytes_frame("exported", backend.export(who, params, fields["metadata"]))
        case other:
            raise TrainerError(f"the worker does not know what {other!r} is")


if __name__ == "__main__":
    main(int(sys.argv[1]))
