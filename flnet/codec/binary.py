"""Parameters as a safetensors file, with the message beside them in its metadata.

Metadata: "flnet" is the version of this form; "message" the fields of the message as JSON, absent for bare
parameters; "scales" a JSON object {name: [scale, dtype]} of the arrays that were packed into fewer bytes: such an
array is what is stored, times the scale, in that dtype. Nothing is lost whatever the encoding, for only arrays
that are exactly representable so are packed (see flnet/codec/lossy.py for how they become that).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from flnet.blob import Blob
from flnet.errors import LocalError, ParamsRefused, UnreadableBody
from flnet.messages import Message, Packet
from flnet.packing import Encoding, is_scale, packed, widened
from flnet.params import Array, Params, ParamSpec, Schema
from flnet.tensorfile import MAX_HEADER, Entry, in_order, read_header, strict_object, write_header

BINARY_TYPE = "application/vnd.flnet.safetensors"
HEAD_LIMIT = 8 + MAX_HEADER  # bytes: in no more than these the whole head is found, or none
_VERSION = "1"
_WIDE: dict[str, np.dtype[Any]] = {"float32": np.dtype(np.float32), "float64": np.dtype(np.float64)}


@dataclass(frozen=True)
class Head:
    """What the first bytes of a body say of all of it.

    Attributes:
        fields: of the message; None for bare parameters.
        specs: shape and dtype of each array as it will be decoded.
    """

    fields: Mapping[str, Any] | None
    specs: Mapping[str, tuple[tuple[int, ...], str]]
    entries: Mapping[str, Entry]
    scales: Mapping[str, tuple[float, str]]

    def check(self, schema: Schema) -> None:
        """Whether parameters of these names, shapes and dtypes can fit a job; their numbers are not known yet.

        Raises:
            ParamsRefused: they cannot.
        """
        if self.specs == {name: (spec.shape, spec.dtype) for name, spec in schema.specs.items()}:
            return
        one_each = {}
        for name, (shape, dtype) in self.specs.items():
            spec = schema.specs.get(name)
            nothing = spec is not None and math.prod(shape) == math.prod(spec.shape) == 0
            one_each[name] = np.zeros((), spec.dtype if spec and nothing else dtype)
            if spec is not None and not nothing and shape != spec.shape:
                raise ParamsRefused(f"{name!r} has shape {list(shape)}; expected {list(spec.shape)}")
        wanted = {name: ParamSpec((), spec.dtype) for name, spec in schema.specs.items()}
        Schema(wanted).conform(one_each)  # what may stand for what is the schema's to say: asked with one 0 each


def read_head(head: memoryview, total: int) -> Head | None:
    """What the head of a body says; None while not all of it is here. No memory is taken for arrays.

    Args:
        head: the first bytes of the body.
        total: bytes of the whole body.

    Raises:
        UnreadableBody: no body of this format, or one that is not as long as its head says.
        ParamsRefused: names, dtypes, shapes or scales that are not taken.
    """
    found = read_header(head, total)
    if found is None:
        return None
    entries, metadata = found
    fields = None
    if "message" in metadata:
        if metadata.get("flnet") != _VERSION:
            raise UnreadableBody(f"the body is of another version of this form; expected {_VERSION}")
        fields = _message(metadata["message"])
    scales = _scales(metadata["scales"], entries) if "scales" in metadata else {}
    dtypes = {name: scales[name][1] if name in scales else entry.kind for name, entry in entries.items()}
    return Head(fields, {name: (entry.shape, dtypes[name]) for name, entry in entries.items()}, entries, scales)


class BinaryCodec:
    """Bodies as safetensors files; see the module."""

    content_type = BINARY_TYPE

    def __init__(self, encoding: Encoding = "float32") -> None:
        self.encoding = encoding

    def encode(self, packet: Packet) -> Blob:
        """The body of a message; it shares the memory of the arrays, but for those that are packed.

        Raises:
            LocalError: the parameters do not belong to this message, or cannot stand in a file.
        """
        kind = type(packet.message).__name__
        if packet.params is not None and not packet.message.carries_params:
            raise LocalError(f"no parameters travel beside {kind}")
        try:
            message = orjson.dumps(packet.message.fields()).decode()
        except orjson.JSONEncodeError as exc:
            raise LocalError(f"{kind} cannot be written as JSON: {exc}") from exc
        return self._blob(packet.params or Params(), {"message": message})

    def encode_params(self, params: Params, metadata: Mapping[str, str] | None = None) -> Blob:
        """Bare parameters, without a message; equal ones give equal bytes.

        Args:
            metadata: what else shall stand in the file, for people.

        Raises:
            LocalError: they cannot stand in a file.
        """
        return self._blob(params, metadata or {})

    def decode(self, kind: type[Message], body: bytes | memoryview) -> Packet:
        """Read a message of this kind; without arrays beside it the parameters are None.

        Raises:
            UnreadableBody: no safetensors file, or one without a message.
            InvalidMessage: a field is missing or breaks its rule.
            ParamsRefused: the arrays are none that are taken, or none travel beside this message.
        """
        head, whole = _opened(body)
        if head.fields is None:
            raise UnreadableBody("the body holds no message")
        message = kind.read(head.fields)
        if head.entries and not kind.carries_params:
            raise ParamsRefused(f"no parameters travel beside {kind.__name__}")
        return Packet(message, _arrays(head, whole) if head.entries else None)

    def decode_params(self, body: bytes | memoryview) -> Params:
        """Read bare parameters from any safetensors file.

        Raises:
            UnreadableBody: no safetensors file.
            ParamsRefused: the arrays are none that are taken.
        """
        return _arrays(*_opened(body))

    def _blob(self, params: Params, metadata: Mapping[str, str]) -> Blob:
        arrays: dict[str, Array] = {}
        scales: dict[str, tuple[float, str]] = {}
        for name in sorted(params):
            array = params[name].astype(params[name].dtype.newbyteorder("="), copy=False)
            fewer = packed(array, self.encoding)
            if fewer is not None:
                scales[name] = (fewer[1], array.dtype.name)
            arrays[name] = array if fewer is None else fewer[0]
        more = {"scales": orjson.dumps(scales).decode()} if scales else {}
        header = write_header(arrays, {"flnet": _VERSION, **metadata, **more})
        return Blob([header, *(_memory(arrays[name]) for name in in_order(arrays))])


def _memory(array: Array) -> memoryview:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return little.reshape(-1).view(np.uint8).data


def _opened(body: bytes | memoryview) -> tuple[Head, memoryview]:
    whole = memoryview(body)
    head = read_head(whole, len(whole))
    if head is None:
        raise UnreadableBody(f"a body of {len(whole)} bytes ends before its header does")
    return head, whole


def _arrays(head: Head, body: memoryview) -> Params:
    arrays = {}
    for name, entry in head.entries.items():
        array = entry.view(body)
        if name in head.scales:
            scale, dtype = head.scales[name]
            array = widened(array, scale, _WIDE[dtype])
        arrays[name] = array
    return Params(arrays)


def _message(text: str) -> Mapping[str, Any]:
    try:
        fields = orjson.loads(text)
    except orjson.JSONDecodeError as exc:
        raise UnreadableBody(f"the message in the header is no JSON: {exc}") from exc
    if not isinstance(fields, dict):
        raise UnreadableBody("the message in the header must be a JSON object")
    return fields


def _scales(text: str, entries: Mapping[str, Entry]) -> dict[str, tuple[float, str]]:
    scales = {}
    for name, described in strict_object(text).items():
        match described:
            case [int() | float() as scale, str(dtype)] if name in entries and dtype in _WIDE:
                if not isinstance(scale, bool) and is_scale(scale, entries[name].dtype):
                    scales[name] = (float(scale), dtype)
                    continue
        raise ParamsRefused(f"the scale of {name[:60]!r} is none that packed an array of this body")
    return scales
