"""The training child: `python -m flnet.training.worker`, or forked by fork_server.py.

Frames come and answers go over one socket. What a trainer prints goes where errors go. A thread does all the
reading: so a cancel is heard while the main thread trains, and the end of the input, which is the end of the
node, ends this process at once, whatever it is doing.
"""

from __future__ import annotations

import ctypes
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from flnet.errors import FlnetError, TrainerError
from flnet.messages import HyperParams
from flnet.params import Params
from flnet.training.backend import TOLD, FitOrder
from flnet.training.channel import Channel
from flnet.training.frames import (
    Frame,
    bytes_frame,
    declaration_fields,
    error_fields,
    fit_fields,
    prediction_frame,
    read_assignment,
    read_inputs,
)
from flnet.training.local import LocalBackend
from flnet.training.sources import loaded_families

_PR_SET_PDEATHSIG = 1
_NICENESS = 10
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)
_REUSED, _SPARE = 32 * 1024 * 1024, 256 * 1024 * 1024  # bytes: the largest piece, and all pieces together


def main(descriptor: int, parent: int) -> None:
    """Work until the node is gone.

    Args:
        descriptor: of the socket to the node.
        parent: the process that started this one, and that it must not outlive.
    """
    be_killed_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the node decides what it means
    channel = _take(descriptor)
    # Nothing else of the trainer is called before the answer is written, so that a copy would only cost memory.
    backend = LocalBackend(copies=False)
    waiting: queue.SimpleQueue[Frame] = queue.SimpleQueue()
    threading.Thread(target=_read_all, args=(channel, backend, waiting), daemon=True).start()
    while True:
        order = waiting.get()
        answer = _answer(order, backend, channel)
        del order  # its arrays with it: the answer tells that the node may write over them
        _give(channel, answer)
        del answer


def be_killed_with(parent: int) -> None:
    """When the parent dies, however it does; elsewhere than on Linux the end of the input has to do."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it went before the line above
            os._exit(0)


def _step_back() -> None:
    """Leave the processor to whoever answers people, the node above all.

    Only once there is something to train: on a busy machine a framework imported at low priority was
    measured to take a minute for its two seconds.
    """
    if hasattr(os, "nice"):
        os.nice(max(0, _NICENESS - os.nice(0)))


def _keep_memory() -> None:
    """Let the gradients of one step stand where those of the last one stood.

    The C library would give pieces of some MB back to the system each time, and the system fills with zeros what
    it hands out again. All of it goes back with this process, which ends when nothing is to be trained.
    """
    with suppress(OSError, AttributeError):
        adjust = ctypes.CDLL(None).mallopt
        adjust(_M_MMAP_THRESHOLD, _REUSED)
        adjust(_M_TRIM_THRESHOLD, _SPARE)


def _take(descriptor: int) -> Channel:
    end, nothing = socket.socket(fileno=descriptor), os.open(os.devnull, os.O_RDWR)
    end.set_inheritable(False)
    os.dup2(nothing, 0)
    os.dup2(2, 1)

    def let_go() -> None:
        """What a trainer forks must neither answer for us nor keep the socket open when we are killed."""
        os.dup2(nothing, descriptor, inheritable=False)
        be_killed_with(os.getppid())

    channel = Channel(end)
    # Twice: another thread may take or drop arrays in between.
    os.register_at_fork(before=channel.forked, after_in_parent=channel.forked, after_in_child=let_go)
    return channel


def _read_all(channel: Channel, backend: LocalBackend, waiting: queue.SimpleQueue[Frame]) -> None:
    try:
        while (frame := channel.receive()) is not None:
            if frame.fields["do"] == "cancel":
                backend.cancel(frame.fields["number"])
            else:
                waiting.put(frame)
            del frame  # and not only when the next one comes
    finally:
        os._exit(0)


def _answer(order: Frame, backend: LocalBackend, channel: Channel) -> Frame:
    """Do what a frame asks."""
    try:
        return _done(order.fields, order.params or Params(), backend, channel)
    except TOLD as exc:
        return _failed(exc)
    except MemoryError:
        return _failed(TrainerError("there was not enough memory for this task"))


def _failed(error: FlnetError) -> Frame:
    return Frame({"answer": "error", **error_fields(error)})


def _give(channel: Channel, answer: Frame) -> None:
    with suppress(OSError):  # a node that is gone ends this process elsewhere
        try:
            channel.send(_loaded(answer))
        except TrainerError as exc:  # no room for its arrays
            channel.send(_loaded(_failed(exc)))


def _loaded(answer: Frame) -> Frame:
    return Frame({**answer.fields, "loaded": sorted(loaded_families())}, answer.params)


def _done(fields: Mapping[str, Any], params: Params, backend: LocalBackend, channel: Channel) -> Frame:
    def report(done: int, total: int) -> None:
        with suppress(OSError):
            channel.send(Frame({"answer": "progress", "done": done, "total": total}))

    who = read_assignment(fields["who"])
    match fields["do"]:
        case "prepare":
            declaration, initial = backend.prepare(who, fields["anew"])
            return Frame({"answer": "prepared", "declaration": declaration_fields(declaration)}, initial)
        case "fit":
            fit, score = backend.fit(who, _order(fields, params), report)
            return Frame({"answer": "fitted", **fit_fields(fit, score)}, Params(fit.params))
        case "personalise":
            learnt, score = backend.personalise(who, _order(fields, params), report)
            return Frame({"answer": "personalised", "score": vars(score)}, learnt)
        case "evaluate":
            return Frame({"answer": "evaluated", "score": vars(backend.evaluate(who, params))})
        case "predict":
            return prediction_frame(backend.predict(who, *read_inputs(fields, params)))
        case "findings":
            return Frame({"answer": "found", "findings": backend.findings(who, params)})
        case "export":
            return bytes_frame("exported", backend.export(who, params, fields["metadata"]))
        case other:
            raise TrainerError(f"the worker does not know what {other!r} is")


def _order(fields: Mapping[str, Any], params: Params) -> FitOrder:
    """A training that begins now."""
    _step_back()
    _keep_memory()
    hyper = HyperParams.model_validate(fields["hyper"])
    return FitOrder(fields["number"], params, hyper, fields["seed"], fields["round"])


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
