"""The batches of the published Python version of CIFAR-10, read without running anything in them.

Such a file is a program for Python's stack machine for objects, and a program can do harm. Here it is only taken
apart: `pickletools.genops` of the standard library says which instruction stands where, and this module follows
the few that a batch needs, of plain values and of one array. A name of a function stays a name; nothing is ever
looked up, imported or called. Any other instruction or name ends the reading (Krizhevsky 2009, "Learning multiple
layers of features from tiny images"; the instructions: the standard library's documentation of `pickletools`).
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from pickletools import genops
from typing import ClassVar

import numpy as np

from flnet.errors import TrainerError
from flnet.params import Array

MAX_BYTES = 64 * 2**20  # a published file has 31 million bytes
MAX_STEPS = 200_000  # a published file has about 30,000
PIXELS = 3 * 32 * 32
_MAX_LINE, _MAX_WORDS = 200, 160  # characters: of an argument that is a line of text, of what is said about a file

_VALUES = ("BINBYTES", "BINFLOAT", "BININT", "BININT1", "BININT2", "BINUNICODE", "LONG1", "SHORT_BINBYTES")
_TEXTS = ("BINSTRING", "SHORT_BINSTRING")
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_PUTS, _GETS = ("BINPUT", "LONG_BINPUT", "PUT"), ("BINGET", "LONG_BINGET", "GET")
_NAMES = {
    "numpy.core.multiarray _reconstruct": "array",
    "numpy._core.multiarray _reconstruct": "array",
    "numpy ndarray": "ndarray",
    "numpy dtype": "dtype",
    "_codecs encode": "encode",
}


@dataclass(frozen=True)
class _Name:
    """A function or class that the file names."""

    means: str


class _Uint8:
    """The only dtype."""


class _Array:
    """An array that is announced first and filled afterwards."""

    filled: Array | None = None


class _Foreign(Exception):
    """What came in a place where a batch has something else."""


class _ShortLines(io.BytesIO):
    """The bytes of a file; arguments that are lines stay short and hold no escapes, as names and numbers do."""

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(_MAX_LINE)
        if b"\\" in line or not line.endswith(b"\n"):
            raise ValueError(f"a line of text that is no name and no number: {line[:40]!r}")
        return line


def read_batch(path: Path) -> Array:
    """The rows of one batch file, each as in the binary version: its label, then its three planes of colour.

    Returns:
        Array (n, 3073) uint8.

    Raises:
        TrainerError: the file cannot be read, or is no batch; nothing in it was run.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as exc:
        raise TrainerError(f"{path} cannot be read: {exc}") from exc
    return parsed_batch(data, str(path))


def parsed_batch(data: bytes, what: str) -> Array:
    """The same out of a file's bytes; `what` names the file in the same errors."""
    if len(data) > MAX_BYTES:
        raise TrainerError(f"{what} is too large for a CIFAR-10 batch: expected at most {MAX_BYTES} bytes")
    content = _content(data, what)
    if not isinstance(content, dict):
        raise TrainerError(f"{what} is no CIFAR-10 batch: expected a dict, got {_kind(content)}")
    images, labels = content.get("data"), content.get("labels")
    pixels = images.filled if isinstance(images, _Array) else None
    if pixels is None or pixels.ndim != 2 or pixels.shape[1] != PIXELS:
        found = _kind(images) if pixels is None else f"uint8 {list(pixels.shape)}"
        raise TrainerError(f"{what}: data are {_brief(found)}; expected uint8 [n, {PIXELS}]")
    if not isinstance(labels, list) or len(labels) != len(pixels):
        found = f"a list of {len(labels)}" if isinstance(labels, list) else _kind(labels)
        raise TrainerError(f"{what}: labels are {found}; expected a list of {len(pixels)}, one for each row")
    for row, label in enumerate(labels):
        if type(label) is not int or not 0 <= label <= 9:
            found = str(label) if isinstance(label, int | float) else _kind(label)
            raise TrainerError(f"{what}: the label of row {row} is {_brief(found)}; expected 0 to 9")
    return np.column_stack([np.array(labels, np.uint8), pixels])


def _content(data: bytes, what: str) -> object:
    """The one value that the instructions put together."""
    machine, at = _Machine(), 0
    try:
        for steps, (opcode, argument, position) in enumerate(genops(_ShortLines(data))):
            at = position or 0
            if steps >= MAX_STEPS:
                raise _Foreign(f"more than {MAX_STEPS} instructions")
            if opcode.name != "STOP":
                machine.step(opcode.name, argument)
        result = machine.result()
        if at + 1 != len(data):
            raise _Foreign("an end before the end of the file")
    except _Foreign as exc:
        said = f"{what}: {_brief(str(exc))} at byte {at} is not part of a CIFAR-10 batch; nothing was run"
        raise TrainerError(said) from exc
    except ValueError as exc:  # what genops raises about bytes that are no instructions
        raise TrainerError(f"{what} is damaged or no CIFAR-10 batch: {_brief(str(exc))}") from exc
    return result


class _Machine:
    """The stack, the stacks below the marks in it, and the values to which the file comes back by number."""

    def __init__(self) -> None:
        self._stack: list[object] = []
        self._below: list[list[object]] = []
        self._memo: dict[int, object] = {}

    def step(self, name: str, argument: object) -> None:
        """Follows one instruction, or raises _Foreign."""
        if name in _VALUES:
            self._push(argument)
        elif name in _TEXTS:  # genops shows the bytes of Python 2 as the characters of the same numbers
            self._push(str(argument).encode("latin-1"))
        elif name in _CONSTANTS:
            self._push(_CONSTANTS[name])
        elif name in _PUTS:
            self._put(argument)
        elif name in _GETS:
            self._get(argument)
        elif name in _TUPLES:
            self._push(tuple([self._pop() for _ in range(_TUPLES[name])][::-1]))
        elif name == "GLOBAL":
            self._push(_named(str(argument)))
        elif name == "PROTO":
            if argument not in (2, 3):
                raise _Foreign(f"protocol {argument}")
        elif name in self._STEPS:
            self._STEPS[name](self)
        else:
            raise _Foreign(f"instruction {name}")

    def result(self) -> object:
        """The value that is left, or _Foreign if it is not exactly one."""
        if self._below or len(self._stack) != 1:
            raise _Foreign(f"an end with {len(self._stack)} values and {len(self._below)} marks")
        return self._stack[0]

    def _push(self, value: object) -> None:
        self._stack.append(value)

    def _pop(self) -> object:
        if not self._stack:
            raise _Foreign("an instruction that lacks a value")
        return self._stack.pop()

    def _put(self, number: object) -> None:
        if not isinstance(number, int) or not 0 <= number < MAX_STEPS:
            raise _Foreign(f"value number {number}")
        value = self._pop()
        self._memo[number] = value
        self._push(value)

    def _get(self, number: object) -> None:
        if not isinstance(number, int) or number not in self._memo:
            raise _Foreign(f"value number {number}, which was not given before,")
        self._push(self._memo[number])

    def _mark(self) -> None:
        self._below.append(self._stack)
        self._stack = []

    def _marked(self) -> list[object]:
        """Everything since the last mark, which is taken away with it."""
        if not self._below:
            raise _Foreign("an instruction that lacks a mark")
        items, self._stack = self._stack, self._below.pop()
        return items

    def _append(self, items: list[object]) -> None:
        target = self._pop()
        if not isinstance(target, list):
            raise _Foreign(f"appending to {_kind(target)}")
        target.extend(items)
        self._push(target)

    def _set(self, items: list[object], new: dict[str, object] | None = None) -> None:
        target = self._pop() if new is None else new
        if not isinstance(target, dict) or len(items) % 2:
            raise _Foreign(f"setting {len(items)} keys and values of {_kind(target)}")
        target.update(zip(map(_key, items[::2]), items[1::2], strict=True))
        self._push(target)

    def _reduce(self) -> None:
        arguments, name = self._pop(), self._pop()
        self._push(_made(name, arguments))

    def _build(self) -> None:
        state, target = self._pop(), self._pop()
        if isinstance(target, _Array):
            target.filled = _filled(state)
        elif not isinstance(target, _Uint8) or state not in _BYTE_STATES:
            raise _Foreign(f"a state of {_kind(target)}")
        self._push(target)

    _STEPS: ClassVar[dict[str, Callable[[_Machine], None]]] = {
        "MARK": _mark,
        "EMPTY_DICT": lambda self: self._push({}),
        "EMPTY_LIST": lambda self: self._push([]),
        "DICT": lambda self: self._set(self._marked(), {}),
        "LIST": lambda self: self._push(self._marked()),
        "TUPLE": lambda self: self._push(tuple(self._marked())),
        "APPEND": lambda self: self._append([self._pop()]),
        "APPENDS": lambda self: self._append(self._marked()),
        "SETITEM": lambda self: self._set([self._pop(), self._pop()][::-1]),
        "SETITEMS": lambda self: self._set(self._marked()),
        "REDUCE": _reduce,
        "BUILD": _build,
    }


# What a dtype of one byte says of itself: a version, no order of bytes, no parts, no size, no flags.
_BYTE_STATES = [(3, order, None, None, None, -1, -1, 0) for order in (b"|", "|")]


def _named(name: str) -> _Name:
    if name not in _NAMES:
        raise _Foreign(f"global {name.replace(' ', '.')}")
    return _Name(_NAMES[name])


def _key(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, str):
        return value
    raise _Foreign(f"a key that is {_kind(value)}")


def _made(name: object, arguments: object) -> object:
    """What a call of one of the known names stands for, seen from its arguments."""
    means = name.means if isinstance(name, _Name) else ""
    match means, arguments:
        case "array", (_Name("ndarray"), (0,), b"b" | "b"):
            return _Array()
        case "dtype", (b"u1" | "u1", 0, 1):
            return _Uint8()
        case "dtype", (bytes() | str() as code, _, _):
            raise _Foreign(f"dtype {_key(code)}")
        case "encode", (str() as text, "latin1"):
            return text.encode("latin-1")
    raise _Foreign(f"a call of {means or _kind(name)} with {_kind(arguments)}")


def _filled(state: object) -> Array:
    """The array out of version, shape, dtype, whether columns come first, and bytes."""
    match state:
        case (1, tuple() as shape, _Uint8(), bool() as columns_first, bytes() as data):
            sizes = [size for size in shape if type(size) is int and size > 0]
            if len(sizes) != len(shape) or not 0 < len(sizes) < 5 or math.prod(sizes) != len(data):
                raise _Foreign(f"an array of {sizes} numbers out of {len(data)} bytes")
            return np.frombuffer(data, np.uint8).reshape(sizes, order="F" if columns_first else "C")
    raise _Foreign(f"a state of an array that is {_kind(state)}")


def _kind(value: object) -> str:
    return "nothing" if value is None else f"type {type(value).__name__.strip('_')}"


def _brief(words: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in words[:_MAX_WORDS])
