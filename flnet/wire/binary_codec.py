"""Parameters as a safetensors file, with the message in its metadata, and zstd compression of such bodies.

Metadata: "flnet" is the version of this form; "message" the fields of the message as JSON, absent for bare
parameters. Two JSON objects name the arrays that were packed into fewer bytes. "scales", {name: [scale, dtype]}: the
array is what is stored, times the scale, in that dtype; float16 has the scale 1, and int8 one for all numbers. "blocks",
{name: [dtype, shape]}: what is stored is one row of int8, first the numbers in flat order, then the scales of their
blocks of 256 as little-endian float32; the array is each number times the scale of its block, in that dtype and shape.
Nothing is lost whatever the encoding, for only arrays that are exactly representable so are packed (see
flnet/params/quantization.py for how they become that).

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
from flnet.params.quantization import Encoding, Scales, are_scales, count_blocks, is_scale, packed, widened
from flnet.params.safetensors import (
    MAX_DIMENSIONS,
    MAX_HEADER,
    ArrayEntry,
    in_order,
    read_header,
    strict_object,
    write_header,
)
from flnet.protocol.messages import Message, Packet
from flnet.text import text

ZSTD = "zstd"  # as HTTP names it
LEVEL = 1  # rounded numbers hold no long repetitions: level 3 takes three times as long and saves nothing more
WINDOW = 8 * 1024 * 1024  # bytes that decompressing may keep of what came before; more is a stranger's wish
BINARY_TYPE = "application/vnd.flnet.safetensors"
HEAD_LIMIT = 8 + MAX_HEADER  # bytes: in no more than these the whole head is found, or none
_VERSION = "1"
_WIDE: dict[str, np.dtype[Any]] = {"float32": np.dtype(np.float32), "float64": np.dtype(np.float64)}
_SCALE = np.dtype("<f4")  # of a block, as it is stored
Shape = tuple[int, ...]


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
        entries: what is stored of each array, and where.
        scales: of the packed arrays; None where each block has its own.
    """

    fields: Mapping[str, Any] | None
    specs: Mapping[str, tuple[Shape, str]]
    entries: Mapping[str, ArrayEntry]
    scales: Mapping[str, float | None]

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
    one = _scales(metadata.get("scales", "{}"), entries)
    blocks = _blocks(metadata.get("blocks", "{}"), entries)
    if one.keys() & blocks:
        raise ParamsRefused(text("an array has one scale, or one for each of its blocks; the body states both"))
    specs = {name: (entry.shape, entry.kind) for name, entry in entries.items()}
    specs |= {name: (entries[name].shape, dtype) for name, (_, dtype) in one.items()}
    scales = {name: scale for name, (scale, _) in one.items()} | dict.fromkeys(blocks)
    return Head(fields, specs | blocks, entries, scales)


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
        parts: dict[str, tuple[Array, ...]] = {}
        scales: dict[str, tuple[float, str]] = {}
        blocks: dict[str, tuple[str, Shape]] = {}
        for name in sorted(params):
            array = params[name].astype(params[name].dtype.newbyteorder("="), copy=False)
            arrays[name], parts[name] = array, (array,)
            if (fewer := self._packed(array)) is None:
                continue
            stored, factors = fewer
            if factors.size > 1:
                blocks[name] = (array.dtype.name, array.shape)
                parts[name] = fewer
                # Describes both together.
                arrays[name] = np.broadcast_to(np.int8(0), stored.nbytes + factors.nbytes)
            else:
                scales[name] = (float(factors[0]) if factors.size else 1.0, array.dtype.name)
                arrays[name], parts[name] = stored, (stored,)
        more = {"scales": scales, "blocks": blocks}
        stated = {key: orjson.dumps(named).decode() for key, named in more.items() if named}
        header = write_header(arrays, {"flnet": _VERSION, **metadata, **stated})
        return Blob([header, *(_memory(part) for name in in_order(arrays) for part in parts[name])])

    def _packed(self, array: Array) -> tuple[Array, Scales] | None:
        """The array in fewer bytes; with one scale where the mesh has agreed on that for the sake of earlier versions."""
        fewer = packed(array, self.encoding)
        return packed(array, "int8") if fewer is None and self.encoding == "int8-blocks" else fewer


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
        shape, dtype = head.specs[name]
        if name in head.scales:
            scale = head.scales[name]
            stored, scales = (array, np.full(1, scale, np.float32)) if scale else _blocks_of(name, array, shape)
            array = widened(stored, scales, _WIDE[dtype]).reshape(shape)
        arrays[name] = array
    return Params(arrays)


def _blocks_of(name: str, row: Array, shape: Shape) -> tuple[Array, Scales]:
    """The numbers of an array in int8, and the scales of its blocks, which lie in this row."""
    size = math.prod(shape)
    scales = np.frombuffer(row[size:].tobytes(), _SCALE).astype(np.float32, copy=False)
    if not are_scales(scales):
        raise ParamsRefused(text("{name} has a scale that no block of numbers is packed with", repr(name[:60])))
    return row[:size], scales


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


def _blocks(header: str, entries: Mapping[str, ArrayEntry]) -> dict[str, tuple[Shape, str]]:
    """Shape and dtype of each array with a scale for each block."""
    specs = {}
    for name, described in strict_object(header).items():
        match described:
            case [str(dtype), list(shape)] if name in entries and dtype in _WIDE:
                if _holds_blocks(entries[name], shape):
                    specs[name] = (tuple(shape), dtype)
                    continue
        raise ParamsRefused(
            text(
                "the blocks of {name} are not those of an array of this body; expected [dtype, shape]",
                repr(name[:60]),
            )
        )
    return specs


def _holds_blocks(entry: ArrayEntry, shape: list[Any]) -> bool:
    """Whether an entry holds as many numbers as an array of this shape has, and a scale for each of their blocks."""
    if entry.dtype != np.int8 or len(entry.shape) != 1 or len(shape) > MAX_DIMENSIONS:
        return False
    most = entry.shape[0]
    if not all(type(count) is int and 1 <= count <= most for count in shape):
        return False
    size: int = math.prod(shape)
    return size + count_blocks(size) * _SCALE.itemsize == most
