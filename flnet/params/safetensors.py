"""The header of a safetensors file, written so that equal arrays give equal bytes, and read without any trust.

A file is 8 bytes of length (little-endian), that many bytes of JSON, then the arrays, little-endian and back to
back. JSON: {name: {"dtype", "shape", "data_offsets": [start, stop]}} and "__metadata__", text by text. Here the
arrays with larger items come first, so that each of them is aligned once the header fills whole 8 bytes.
Source: https://huggingface.co/docs/safetensors
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flnet.errors import LocalError, ParamsRefused, UnreadableBody
from flnet.params.params import Array
from flnet.text import text

MAX_HEADER = 2 * 1024 * 1024  # bytes of JSON: all the arrays that a message may hold, with names of usual length
MAX_ARRAYS = 10_000  # in one message: far above real models, far below what would fill memory with headers
MAX_DIMENSIONS = 32  # numpy 1's own bound
MAX_NAME = 256  # characters
_LENGTH = 8  # bytes before the JSON
_ALIGNED = 8  # bytes; the largest item
_MOST_BYTES = 2**48  # of one array, were its empty dimensions 1: far below what numpy can count
_METADATA = "__metadata__"
_FIELDS = {"dtype", "shape", "data_offsets"}
_DTYPES: dict[str, np.dtype[Any]] = {
    **{f"{kind.upper()}{8 * size}": np.dtype(f"<{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
    "BOOL": np.dtype(np.bool_),
}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}
_KINDS = {dtype: dtype.name for dtype in _CODES}  # numpy makes the name up each time, in Python


@dataclass(frozen=True)
class ArrayEntry:
    """The place of one array: bytes `start` to before `stop` of the file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    stop: int

    @property
    def kind(self) -> str:
        """The dtype's name."""
        return _KINDS[self.dtype]

    def view(self, body: memoryview) -> Array:
        """The array in the memory of the whole file.

        Raises:
            ParamsRefused: a boolean that is neither 0 nor 1.
        """
        if self.start == self.stop:
            return np.empty(self.shape, self.dtype)
        array = np.frombuffer(body[self.start : self.stop], self.dtype).reshape(self.shape)
        if self.dtype == np.bool_ and array.view(np.uint8).max() > 1:
            raise ParamsRefused(text("a boolean must be 0 or 1"))
        return array if array.flags.aligned else array.copy()


def in_order(arrays: Mapping[str, Array]) -> list[str]:
    """The names of the arrays in file order: larger items first, then by name."""
    return sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))


def write_header(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> bytes:
    """The header of a file, which the arrays follow in the order of `in_order`.

    Raises:
        LocalError: it would not be read again: a name or dtype that cannot stand there, or too many of them.
    """
    header: dict[str, Any] = {_METADATA: metadata}
    stop = 0
    for name in in_order(arrays):
        array, start = arrays[name], stop
        stop += array.nbytes
        try:
            _check(name, array.shape)
            dtype = _CODES[array.dtype.newbyteorder("<")]
        except (ParamsRefused, KeyError) as exc:
            raise LocalError(
                text(
                    "array {name} of dtype {dtype} cannot stand in a file: {reason}",
                    repr(name[:60]),
                    array.dtype,
                    exc,
                )
            ) from exc
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [start, stop]}
    value = json.dumps(header, separators=(",", ":")).encode()
    value += b" " * (-len(value) % _ALIGNED)
    if len(value) > MAX_HEADER or len(arrays) > MAX_ARRAYS:
        raise LocalError(
            text("{count} arrays need a header of {size} bytes; neither would be read", len(arrays), len(value))
        )
    return len(value).to_bytes(_LENGTH, "little") + value


def read_header(head: memoryview, total: int) -> tuple[dict[str, ArrayEntry], dict[str, str]] | None:
    """The arrays by name, in header order, and the metadata; None while the header is incomplete.

    Args:
        head: the first bytes of the file, or all of them.
        total: bytes of the whole file.

    Raises:
        UnreadableBody: not of this format, or the file is not what its header says.
        ParamsRefused: names, dtypes or shapes that are not taken.
    """
    if len(head) < min(_LENGTH, total):
        return None
    length = int.from_bytes(head[:_LENGTH], "little")
    data = _LENGTH + length
    if total < _LENGTH or length > MAX_HEADER or data > total or data % _ALIGNED:
        raise UnreadableBody(
            text(
                "no safetensors: a body of {size} bytes, whose header would have {length}; expected "
                "whole {step} bytes, at most {most}",
                total,
                length,
                _ALIGNED,
                MAX_HEADER,
            )
        )
    if len(head) < data:
        return None
    header = strict_object(bytes(head[_LENGTH:data]))
    metadata = header.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise UnreadableBody(text("{name} must hold text by name", _METADATA))
    if len(header) > MAX_ARRAYS:
        raise ParamsRefused(text("the body has {count} arrays; at most {most} are read", len(header), MAX_ARRAYS))
    entries = {name: _entry(name, described, data) for name, described in header.items()}
    _check_gapless(entries.values(), data, total)
    return entries, metadata


def strict_object(encoded: bytes | str) -> dict[str, Any]:
    """A JSON object in which no object has two fields of one name, and no number is infinite or none.

    Raises:
        UnreadableBody: it is something else.
    """
    try:
        read = encoded.decode() if isinstance(encoded, bytes) else encoded
        if not read.startswith("{"):
            raise ValueError(text("it does not begin with {{"))
        header: dict[str, Any] = json.loads(read, object_pairs_hook=_distinct, parse_constant=_no_number)
    except (ValueError, RecursionError) as exc:
        raise UnreadableBody(text("the header is no JSON object: {reason}", ascii(str(exc)[:120])[1:-1])) from exc
    return header


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError(text("two fields of one object have the same name"))
    return entries


def _no_number(name: str) -> None:
    raise ValueError(text("{name} is no number", name))


def _check(name: str, shape: Sequence[int]) -> None:
    if not name.isprintable() or len(name) > MAX_NAME or name == _METADATA:
        raise ParamsRefused(
            text(
                "an array's name must be printable, of at most {most} characters, not {name}", MAX_NAME, _METADATA
            )
        )
    if len(shape) > MAX_DIMENSIONS:
        raise ParamsRefused(text("{name} has more than {most} dimensions", _quoted(name), MAX_DIMENSIONS))


def _entry(name: str, described: Any, data: int) -> ArrayEntry:
    """One array's description, `data` bytes before the first array."""
    if not isinstance(described, dict) or described.keys() != _FIELDS:
        raise UnreadableBody(
            text("{name} must be described by {fields}", _quoted(name), ", ".join(sorted(_FIELDS)))
        )
    shape, offsets, code = described["shape"], described["data_offsets"], described["dtype"]
    if not _are_counts(shape) or not _are_counts(offsets) or len(offsets) != 2:
        raise UnreadableBody(
            text("the shape and the offsets of {name} must be whole numbers from 0 on", _quoted(name))
        )
    _check(name, shape)
    dtype = _DTYPES.get(code) if isinstance(code, str) else None
    if dtype is None:
        raise ParamsRefused(
            text(
                "{name} has a dtype that is not read; expected one of {expected}",
                _quoted(name),
                ", ".join(_DTYPES),
            )
        )
    start, stop = offsets
    nbytes = math.prod(shape) * dtype.itemsize
    if math.prod(filter(None, shape)) * dtype.itemsize > _MOST_BYTES:
        raise ParamsRefused(text("{name} has a shape beyond {most} bytes", _quoted(name), _MOST_BYTES))
    if stop - start != nbytes or start % dtype.itemsize:
        raise UnreadableBody(text("the offsets of {name} do not fit its shape and dtype", _quoted(name)))
    return ArrayEntry(dtype, tuple(shape), data + start, data + stop)


def _quoted(name: str) -> str:
    return ascii(name[:60])


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value <= _MOST_BYTES for value in values)


def _check_gapless(entries: Iterable[ArrayEntry], data: int, total: int) -> None:
    at = data
    for start, stop in sorted((entry.start, entry.stop) for entry in entries):
        if start != at:
            raise UnreadableBody(text("the arrays of the body must lie back to back, without holes and overlaps"))
        at = stop
    if at != total:
        raise UnreadableBody(text("expected {count} bytes after the header's words, got {total}", at, total))
