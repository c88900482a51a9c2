"""Parameters as a safetensors file, with the message in its metadata, and zstd compression of such bodies.

Metadata: "flnet" is the version of this form; "message" the fields of the message as JSON, absent for bare
parameters; "scales" a JSON object {name: [scale, dtype]} of the arrays that were packed into fewer bytes: such an
array is what is stored, times the scale, in that dtype. Nothing is lost whatever the encoding, for only arrays
that are exactly representable so are packed (see flnet/params/quantization.py for how they become that).

zstd (RFC 8878) is used where the package `zstandard` is installed, for int8 bodies only: of 10 MB, 1.7 MB are saved
in 8 to 12 ms to compress and 7 to 9 ms to decompress (one core of a server). Floats hold next to nothing that
repeats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import orjson

from flnet.errors import LocalError, ParamsRefused, UnreadableBody
from flnet.params.blob import PIECE, Blob, Landing
from flnet.params.params import Array, Params, ParamSpec, Schema
from flnet.params.quantization import Encoding, is_scale, packed, widened
from flnet.params.safetensors import MAX_HEADER, ArrayEntry, in_order, read_header, strict_object, write_header
from flnet.protocol.messages import Message, Packet
from flnet.text import text

ZSTD = "zstd"  # as HTTP names it
LEVEL = 1  # rounded numbers hold no long repetitions: level 3 takes three times as long and saves nothing more
WINDOW = 8 * 1024 * 1024  # bytes that decompressing may keep of what came before; more is a stranger's wish
BINARY_TYPE = "application/vnd.flnet.safetensors"
HEAD_LIMIT = 8 + MAX_HEADER  # bytes: in no more than these the whole head is found, or none
_VERSION = "1"
_WIDE: dict[str, np.dtype[Any]] = {"float32": np.dtype(np.float32), "float64": np.dtype(np.float64)}


def available_codings() -> tuple[str, ...]:
    """In which codings bodies are read and written here; nothing is loaded for the answer."""
    return (ZSTD,) if find_spec("zstandard") is not None else ()


def compressed(blob: Blob) -> Blob:
    """The same body in fewer bytes; its size is stated in its head."""
    import zstandard  # noqa: PLC0415  not installed everywhere

    work = zstandard.ZstdCompressor(level=LEVEL).compressobj(size=len(blob))
    parts = [work.compress(piece) for piece in blob.pieces()]
    return Blob([*parts, work.flush()], ZSTD)


def decompress(body: memoryview, landing: Landing) -> None:
    """Let what was compressed land; a piece at a time, so that a small body that says it is huge costs nothing.

    Args:
        body: all of a compressed body.
        landing: looks at the head, and takes no more than the size that is stated and allowed.

    Raises:
        PeerError: it is not zstd, not as large as it says, or `landing` does not want it.
    """
    import zstandard  # noqa: PLC0415

    try:
        size = zstandard.frame_content_size(body)
        if size < 0:
            raise UnreadableBody(text("a compressed body must state how large it is without compression"))
        landing.expect(size)
        unpacking = zstandard.ZstdDecompressor(max_window_size=WINDOW)
        with unpacking.stream_reader(body, closefd=False) as reader:
            while piece := reader.read(PIECE):
                landing.write(piece)
    except zstandard.ZstdError as exc:
        raise UnreadableBody(text("the compressed body cannot be read: {reason}", exc)) from exc


@dataclass(frozen=True)
class Head:
    """What the first bytes of a body say of all of it.

    Attributes:
        fields: of the message; None for bare parameters.
        specs: shape and dtype of each array as it will be decoded.
    """

    fields: Mapping[str, Any] | None
    specs: Mapping[str, tuple[tuple[int, ...], str]]
    entries: Mapping[str, ArrayEntry]
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
                raise ParamsRefused(
                    text(
                        "{name} has shape {shape}; expected {expected}", repr(name), list(shape), list(spec.shape)
                    )
                )
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
    header = read_header(head, total)
    if header is None:
        return None
    entries, metadata = header
    fields = None
    if "message" in metadata:
        if metadata.get("flnet") != _VERSION:
            raise UnreadableBody(text("the body is of another version of this form; expected {version}", _VERSION))
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
            raise LocalError(text("no parameters travel beside {kind}", kind))
        try:
            message = orjson.dumps(packet.message.fields()).decode()
        except orjson.JSONEncodeError as exc:
            raise LocalError(text("{kind} cannot be written as JSON: {reason}", kind, exc)) from exc
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
        """Read a message of this kind; without arrays the parameters are None.

        Raises:
            UnreadableBody: no safetensors file, or one without a message.
            InvalidMessage: a field is missing or breaks its rule.
            ParamsRefused: the arrays are none that are taken, or this message has none.
        """
        head, whole = _opened(body)
        if head.fields is None:
            raise UnreadableBody(text("the body holds no message"))
        message = kind.read(head.fields)
        if head.entries and not kind.carries_params:
            raise ParamsRefused(text("no parameters travel beside {kind}", kind.__name__))
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
        raise UnreadableBody(text("a body of {count} bytes ends before its header does", len(whole)))
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


def _message(header: str) -> Mapping[str, Any]:
    try:
        fields = orjson.loads(header)
    except orjson.JSONDecodeError as exc:
        raise UnreadableBody(text("the message in the header is no JSON: {reason}", exc)) from exc
    if not isinstance(fields, dict):
        raise UnreadableBody(text("the message in the header must be a JSON object"))
    return fields


def _scales(header: str, entries: Mapping[str, ArrayEntry]) -> dict[str, tuple[float, str]]:
    scales = {}
    for name, described in strict_object(header).items():
        match described:
            case [int() | float() as scale, str(dtype)] if name in entries and dtype in _WIDE:
                if not isinstance(scale, bool) and is_scale(scale, entries[name].dtype):
                    scales[name] = (float(scale), dtype)
                    continue
        raise ParamsRefused(text("the scale of {name} is none that packed an array of this body", repr(name[:60])))
    return scales
