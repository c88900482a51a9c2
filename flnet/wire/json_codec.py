"""The thesis' JSON: message fields at the top, parameters as nested number lists under "modelParams".

Floats are written in the fewest digits that name exactly one number of their dtype, so a float32 comes
back bit by bit once `Schema.conform` has narrowed it. JSON knows neither dtypes nor the shape of an
empty array nor NaN: reading gives int64 (uint64 where needed), float64 or bool, and what is not finite
is never written.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
import orjson

from flnet.errors import LocalError, ParamsRefused, UnreadableBody
from flnet.params.params import Array, Params
from flnet.params.safetensors import MAX_ARRAYS, MAX_DIMENSIONS
from flnet.protocol.messages import Message, Packet
from flnet.text import text

_PARAMS = "modelParams"
_FIRST = ("iAm", "trainerId", _PARAMS, "accuracy")  # where the thesis prints them; the others follow as they come


class JsonCodec:
    """Bodies as the thesis printed them; see the module."""

    content_type = "application/json"

    def encode(self, packet: Packet) -> bytes:
        """The body of a message.

        Raises:
            LocalError: parameters that JSON cannot carry (not finite), or that do not belong to this message.
        """
        fields = packet.message.fields()
        if packet.params is not None:
            if not packet.message.carries_params:
                raise LocalError(text("no parameters travel beside {kind}", type(packet.message).__name__))
            fields[_PARAMS] = {name: _writable(name, array) for name, array in packet.params.items()}
        if packet.message.carries_params:
            fields = {name: fields[name] for name in (*_FIRST, *fields) if name in fields}
        try:
            return orjson.dumps(fields, option=orjson.OPT_SERIALIZE_NUMPY)
        except orjson.JSONEncodeError as exc:
            raise LocalError(
                text("{kind} cannot be written as JSON: {reason}", type(packet.message).__name__, exc)
            ) from exc

    def decode(self, kind: type[Message], body: bytes | memoryview) -> Packet:
        """Read a message of this kind; of two fields of one name the last counts.

        Raises:
            UnreadableBody: no JSON object: truncated, not UTF-8, too deep, NaN, or a number beyond float64.
            InvalidMessage: a field is missing or breaks its rule.
            ParamsRefused: the parameters are no regular arrays of numbers.
        """
        try:
            fields = orjson.loads(body)
        except orjson.JSONDecodeError as exc:
            raise UnreadableBody(text("the body is no JSON: {reason}", exc)) from exc
        if not isinstance(fields, dict):
            raise UnreadableBody(text("expected a JSON object, got {got}", _kind_of(fields)))
        arrays = fields.pop(_PARAMS, None) if kind.carries_params else None
        message = kind.read(fields)
        return Packet(message, None if arrays is None else _read_params(arrays))


def _writable(name: str, array: Array) -> Any:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise LocalError(text("{name} has numbers that are not finite; JSON cannot carry them", repr(name)))
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return native if native.ndim else native[()]  # orjson takes numpy's scalars, but no arrays without dimensions


def _read_params(arrays: Any) -> Params:
    if not isinstance(arrays, Mapping):
        raise ParamsRefused(
            text("{name} must be an object of number lists by name, got {got}", _PARAMS, _kind_of(arrays))
        )
    if len(arrays) > MAX_ARRAYS:
        raise ParamsRefused(
            text("{name} has {count} arrays; at most {most} are read", _PARAMS, len(arrays), MAX_ARRAYS)
        )
    return Params({name: _read_array(name, value) for name, value in arrays.items()})


def _read_array(name: str, value: Any) -> Array:
    """Nested lists to one array, every element looked at first: numpy would guess from what does not fit."""
    shape = _shape_of_first(name, value)
    flat = [value]
    for length in shape:
        if any(type(item) is not list or len(item) != length for item in flat):
            raise ParamsRefused(
                text("{name} is no regular array: not everything in it has the same length", _quoted(name))
            )
        flat = list(chain.from_iterable(flat))
    dtype = _dtype_for(name, flat)
    return np.array(flat, dtype).reshape(shape)


def _shape_of_first(name: str, value: Any) -> tuple[int, ...]:
    shape: list[int] = []
    while type(value) is list:
        if len(shape) == MAX_DIMENSIONS:
            raise ParamsRefused(text("{name} has more than {most} dimensions", _quoted(name), MAX_DIMENSIONS))
        shape.append(len(value))
        if not value:
            break
        value = value[0]
    return tuple(shape)


def _dtype_for(name: str, flat: list[Any]) -> str:
    kinds = set(map(type, flat))
    if kinds <= {int, float}:
        if kinds != {int}:
            return "float64"
        smallest, largest = min(flat), max(flat)
        if largest < 2**63:
            return "int64"
        # JSON's reader hands over up to 2^64 - 1 as a whole number; no dtype holds both it and a negative one.
        return "uint64" if smallest >= 0 else "float64"
    if kinds == {bool}:
        return "bool"
    if list in kinds:
        raise ParamsRefused(
            text("{name} is no regular array: numbers and lists stand side by side", _quoted(name))
        )
    kinds_found = " and ".join(sorted(_WORDS[kind] for kind in kinds))
    raise ParamsRefused(text("{name} must hold numbers only, but holds {found}", _quoted(name), kinds_found))


_WORDS = {
    dict: text("an object"),
    list: "a list",
    str: "text",
    int: text("whole numbers"),
    float: "fractions",
    bool: text("true or false"),
    type(None): "null",
}


def _kind_of(value: Any) -> str:
    return _WORDS.get(type(value), text("something else"))


def _quoted(name: str) -> str:
    return repr(name[:60])
