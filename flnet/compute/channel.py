"""How a node and its training child exchange messages: JSON with arrays behind it, over a pair of Unix sockets.

A message is the length of its JSON (4 bytes, big-endian), the number of file descriptors that come with it (1 byte), the
JSON, and then the bytes of the arrays that the JSON lists by dtype and shape. Only values of a fixed table of classes
are built from what arrives (`unpack`); nothing in a message can run code in the process that reads it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from flnet.compute.assignment import Assignment
from flnet.compute.verbs import VERBS, TrainerRequest
from flnet.compute.vertical import AskedOutputs, AskedPrediction, Opened
from flnet.errors import DataMissing, FlnetError, InputRefused, NotOffered, SitsOut, TrainerError
from flnet.labels.spaces import Labelling, read_fields
from flnet.params.params import Array, Params
from flnet.protocol.counts import EvaluationCounts, GroupAccuracy
from flnet.protocol.events import Declaration, Turn
from flnet.protocol.messages import HyperParams
from flnet.text import Text, code_of, restored
from flnet.trainer import (
    Fit,
    InCoarse,
    Method,
    NoisySteps,
    Partition,
    RowPrivacy,
    Score,
    TrainerFile,
    TrainerSettings,
)

MAX_JSON_BYTES = 16 * 1024 * 1024
_HEAD = struct.Struct(">IB")  # bytes of JSON, descriptors
_PIECE_BYTES = 1024 * 1024  # received at once
_KINDS = "fiub"  # of numpy: nothing that could hold an object
_MAX_DIMENSIONS = 32
_CLOSED_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


@dataclasses.dataclass(frozen=True)
class WorkOrder:
    """Message to the child: a call. `number` identifies it for `CancelOrder`."""

    number: int
    assignment: Assignment
    request: TrainerRequest[Any]


@dataclasses.dataclass(frozen=True)
class CancelOrder:
    """Message to the child: end this training at its next batch."""

    number: int


@dataclasses.dataclass(frozen=True)
class OrderBegun:
    """Message from the child: this order is being done now; a child of several nodes lets it wait for its turn."""

    number: int


@dataclasses.dataclass(frozen=True)
class ProgressReport:
    """Message from the child while it trains: the number of finished batches, and of all."""

    done: int
    total: int


@dataclasses.dataclass(frozen=True)
class WorkReply:
    """Message from the child, one for each order: the result or the error, and the frameworks that it has imported."""

    result: Any
    error: FlnetError | None
    loaded: frozenset[str] = frozenset()


class Garbled(ValueError):
    """The received bytes are not a message."""


def _dataclasses() -> dict[str, type[Any]]:
    """The classes that are sent as their fields, by name."""
    messages = (
        WorkOrder,
        CancelOrder,
        OrderBegun,
        ProgressReport,
        WorkReply,
        Assignment,
        TrainerFile,
        TrainerSettings,
    )
    settings = (Partition, Method, RowPrivacy)
    values = (Declaration, Turn, Fit, NoisySteps, Score, InCoarse, Opened, AskedOutputs, AskedPrediction)
    verbs = [kind for verb in VERBS.values() for kind in (verb.request, verb.result) if kind not in (dict, bytes)]
    return {kind.__name__: kind for kind in (*messages, *settings, *values, *verbs)}


_CLASSES = _dataclasses()
# What else can be sent: class -> how it becomes JSON, and how it is read; a subclass stands before its base class.
_FORMS: dict[type[Any], tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    tuple: (list, tuple),
    frozenset: (sorted, frozenset),
    Path: (str, Path),
    HyperParams: (HyperParams.fields, HyperParams.model_validate),
    GroupAccuracy: (GroupAccuracy.model_dump, GroupAccuracy.model_validate),
    EvaluationCounts: (EvaluationCounts.model_dump, EvaluationCounts.model_validate),
    Labelling: (Labelling.fields, read_fields),
    Text: (lambda words: [str.__str__(words), code_of(words)], lambda pair: restored(*pair)),
    DataMissing: (lambda error: [error.missing, error.remedy], lambda pair: DataMissing(*pair)),
    **{kind: (lambda error: error.message, kind) for kind in (SitsOut, TrainerError, InputRefused, NotOffered)},
}
_READERS = {kind.__name__: read for kind, (_, read) in _FORMS.items()}


def pack(value: Any, arrays: list[Array]) -> Any:
    """A value as JSON-ready data; its arrays are appended to `arrays`, and their places there stand in the JSON.

    Raises:
        TypeError: it is of a class that cannot be sent.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, list):
        return [pack(item, arrays) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, bytes):
        return {"bytes": pack(np.frombuffer(value, np.uint8), arrays)}
    if isinstance(value, Mapping):
        kind = "params" if isinstance(value, Params) else "dict"
        return {kind: {name: pack(item, arrays) for name, item in value.items()}}
    kind = type(value).__name__
    if _CLASSES.get(kind) is type(value):
        return {kind: {name: pack(getattr(value, name), arrays) for name in _names_of(type(value))}}
    for parent, (form, _) in _FORMS.items():
        if isinstance(value, parent):
            return {parent.__name__: pack(form(value), arrays)}
    raise TypeError(f"a {kind} cannot be sent")


def _names_of(kind: type[Any]) -> Sequence[str]:
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    names: Sequence[str] = kind._fields  # of a named tuple
    return names


def unpack(data: Any, arrays: Sequence[Array]) -> Any:
    """The value that `pack` was given.

    Raises:
        LookupError, TypeError, ValueError, FlnetError: the data are none that `pack` gives.
    """
    if isinstance(data, list):
        return [unpack(item, arrays) for item in data]
    if not isinstance(data, dict):
        return data
    ((kind, content),) = data.items()
    if kind == "array":
        return arrays[content]
    if kind in ("dict", "params") or kind in _CLASSES:
        fields = {name: unpack(item, arrays) for name, item in content.items()}
        return fields if kind == "dict" else Params(fields) if kind == "params" else _CLASSES[kind](**fields)
    if kind == "bytes":
        return unpack(content, arrays).tobytes()
    return _READERS[kind](unpack(content, arrays))


class ChildChannel:
    """One end of a pair of sockets. Any thread may send, one thread may receive.

    Args:
        end: a connected Unix stream socket.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._sending = threading.Lock()

    def send(self, value: Any) -> None:
        """Send a value, all of it.

        Raises:
            OSError: nobody reads any more.
            TypeError: the value is of a class that cannot be sent.
        """
        arrays: list[Array] = []
        fields = {"value": pack(value, arrays)}
        fields["arrays"] = [(array.dtype.str, array.shape) for array in arrays]
        with self._sending:
            send_message(self._end, fields)
            for array in arrays:
                self._end.sendall(_bytes_of(np.ascontiguousarray(array)))

    def offer(self, value: Any) -> None:
        """Send a small value, unless the other side does not read: then it is not sent.

        Raises:
            OSError, TypeError: as `send`.
        """
        watched = select.poll()
        watched.register(self._end, select.POLLOUT)
        if watched.poll(0):
            self.send(value)

    def receive(self) -> Any:
        """The next value; None when the other side is gone, also in the middle of a message.

        Raises:
            Garbled: what came is no message.
        """
        message = receive_message(self._end, 0)
        if message is None:
            return None
        fields, arrays = message[0], []
        try:
            for dtype, shape in fields["arrays"]:
                array = _empty(dtype, shape)
                if not _filled(self._end, _bytes_of(array)):
                    return None
                arrays.append(array)
            return unpack(fields["value"], arrays)
        except (LookupError, TypeError, ValueError, AttributeError, MemoryError, FlnetError) as exc:
            raise Garbled(f"{type(exc).__name__}: {exc}") from exc

    def fileno(self) -> int:
        """The descriptor of the socket."""
        return self._end.fileno()

    def shut(self) -> None:
        """Let both sides see the end of the conversation; who reads or sends in another thread sees it at once."""
        with suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket."""
        self._end.close()


def _empty(dtype: str, shape: Sequence[int]) -> Array:
    kind = np.dtype(dtype)
    if (
        kind.kind not in _KINDS
        or len(shape) > _MAX_DIMENSIONS
        or not all(type(n) is int and n >= 0 for n in shape)
    ):
        raise Garbled(f"an array of {dtype[:20]} {str(shape)[:80]}")
    return np.empty(shape, kind)


def _bytes_of(array: Array) -> memoryview:
    """The bytes of a C-contiguous array, not copied."""
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


def send_message(end: socket.socket, fields: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send JSON, and open files with it.

    Raises:
        OSError: nobody reads any more.
    """
    body = json.dumps(fields).encode()
    message = memoryview(_HEAD.pack(len(body), len(descriptors)) + body)
    sent = socket.send_fds(end, [message], descriptors) if descriptors else 0
    end.sendall(message[sent:])


def receive_message(end: socket.socket, most_descriptors: int) -> tuple[dict[str, Any], Sequence[int]] | None:
    """Receive what `send_message` sent, with descriptors that are not inherited; None if the other side is gone.

    Raises:
        Garbled: it is no message; its descriptors are closed.
        OSError: the socket's timeout passed, or it was closed on this side.
    """
    descriptors: list[int] = []
    fields = None
    try:
        fields = _received(end, most_descriptors, descriptors)
    except ConnectionError:  # gone before it had read all that was sent
        return None
    finally:
        if fields is None:
            for descriptor in descriptors:
                os.close(descriptor)
    return None if fields is None else (fields, descriptors)


def _received(end: socket.socket, most: int, descriptors: list[int]) -> dict[str, Any] | None:
    head = bytearray(_HEAD.size)
    start, came, _, _ = socket.recv_fds(end, _HEAD.size, most, _CLOSED_ON_EXEC)
    descriptors += came
    for descriptor in came:
        os.set_inheritable(descriptor, False)
    if not start:
        return None
    head[: len(start)] = start
    if not _filled(end, memoryview(head)[len(start) :]):
        return None
    size, count = _HEAD.unpack(head)
    if size > MAX_JSON_BYTES or count != len(descriptors):
        raise Garbled(f"a message of {size} bytes with {count} descriptors")
    body = bytearray(size)
    return _fields(body) if _filled(end, memoryview(body)) else None


def _fields(body: bytearray) -> dict[str, Any]:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise Garbled(f"no JSON: {exc}") from exc
    if not isinstance(fields, dict):
        raise Garbled("no JSON object")
    return fields


def _filled(end: socket.socket, buffer: memoryview) -> bool:
    """Receive as many bytes as the buffer has; whether they all came before the other side was gone."""
    try:
        while buffer:
            count = end.recv_into(buffer[:_PIECE_BYTES])
            if not count:
                return False
            buffer = buffer[count:]
    except ConnectionError:
        return False
    return True
