"""Which forms of bodies this node reads and writes, and what it makes of one before it is read."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Literal, TypeVar

from flnet.blob import Blob
from flnet.codec import BINARY_TYPE, ZSTD, BinaryCodec, JsonCodec, available_codings, compressed, read_head
from flnet.errors import ParamsRefused, UnknownModel, UnreadableBody
from flnet.jobs import Phase
from flnet.messages import FLOAT16, INT8, SAFETENSORS, Announce, JobMessage, Message, Packet, Trigger
from flnet.node.core import NodeCore
from flnet.node.translate import KINDS
from flnet.packing import Encoding
from flnet.params import Digest, Params, Schema, TrainerId
from flnet.store import Store

Form = Literal["safetensors", "float16", "int8", "json"]
T = TypeVar("T")

CONTROL_BYTES = 64 * 1024  # of a body without parameters
BYTES_PER_NUMBER = 32  # of a number in JSON, generously
BYTES_PER_ARRAY = 256  # of an array's description in a header
OFF_LOOP_BYTES = 64 * 1024  # larger bodies are encoded and decoded beside the event loop
_PACKED: dict[Form, Encoding] = {"float16": "float16", "int8": "int8"}
KEPT_BLOBS = 4  # packed and compressed bodies that are kept for the next peer that fetches them
PACKED = 2  # times fewer bytes than the arrays have: then most of them are packed, and zstd saves something more


class Wire:
    """Bodies in and out."""

    def __init__(self, core: NodeCore, store: Store, form: Form, max_body_bytes: int) -> None:
        """Args:
        form: how updates are sent to peers that can read it.
        max_body_bytes: bytes that a body may have whatever the models are.
        """
        self._core, self._store, self._form, self._max_body_bytes = core, store, form, max_body_bytes
        self._json, self._plain = JsonCodec(), BinaryCodec()
        self._packed = BinaryCodec(encoding_of(form))
        self._blobs: OrderedDict[tuple[Digest, str | None], asyncio.Future[Blob]] = OrderedDict()

    def body_limit(self, path: str) -> int:
        """How many bytes a request to this path may have: what the largest model here needs, as JSON."""
        if path in (Announce.path, Trigger.path) or path not in KINDS:
            return CONTROL_BYTES
        return min(max([self._needs(t) for t in self._core.jobs], default=CONTROL_BYTES), self._max_body_bytes)

    def inspect(self, path: str, content_type: str, head: memoryview, total: int) -> bool:
        """Whether the head of a binary body is whole, and what it describes is wanted here.

        Raises:
            PeerError: it is not wanted.
        """
        found = read_head(head, total)
        if found is None:
            return False
        if found.fields is None:
            raise UnreadableBody("the body holds no message")
        trainer = found.fields.get("trainerId")
        if found.specs and isinstance(trainer, str):
            model = self._core.job(trainer).state.model
            if model is not None:
                found.check(model.schema)
        return True

    async def read(self, kind: type[Message], body: bytes | memoryview, content_type: str) -> Packet:
        """The message in a body; parameters are checked here already where they are large, off the event loop."""
        codec = self._plain if content_type == BINARY_TYPE else self._json

        def decode() -> Packet:
            packet = codec.decode(kind, body)
            message = packet.message
            schema = self._schema(message.trainer) if isinstance(message, JobMessage) else None
            if packet.params is None or schema is None:
                return packet
            try:
                return replace(packet, params=schema.conform(packet.params))
            except ParamsRefused:  # the job says so, after all that it looks at first
                return packet

        return await asyncio.to_thread(decode) if len(body) > OFF_LOOP_BYTES else codec.decode(kind, body)

    async def write(self, packet: Packet, accepts: Collection[str] = ()) -> tuple[bytes | Blob, str]:
        """A body and its content type, for a peer that accepts these forms; without parameters it is JSON."""
        if packet.params is None or SAFETENSORS not in accepts or self._form == "json":
            large = packet.params is not None and packet.params.nbytes > OFF_LOOP_BYTES
            encode = self._json.encode
            return await asyncio.to_thread(encode, packet) if large else encode(packet), self._json.content_type
        codec = self._packed if self._packed.encoding in ("float32", *accepts) else self._plain
        if packet.params.nbytes > OFF_LOOP_BYTES and codec is not self._plain:
            return await asyncio.to_thread(codec.encode, packet), BINARY_TYPE
        return codec.encode(packet), BINARY_TYPE

    async def held(self, digest: str, codings: Collection[str] = ()) -> Blob:
        """The parameters of this digest as they go over the wire; compressed only where that saves much.

        Args:
            codings: that the caller reads.

        Raises:
            UnknownModel: this node does not hold them, or no longer.
        """
        params = await self._find(Digest(digest))
        if self._packed.encoding == "float32":
            return self._plain.encode_params(params)
        blob = await self._once((params.digest, None), self._packed.encode_params, params)
        is_packed = self._packed.encoding == "int8" and PACKED * len(blob) <= params.nbytes
        if not is_packed or ZSTD not in codings or ZSTD not in available_codings():
            return blob
        return await self._once((params.digest, ZSTD), compressed, blob)

    def landing_limit(self, trainer: TrainerId) -> int:
        """Bytes that fetched parameters of this trainer may have."""
        return min(self._needs(trainer), self._max_body_bytes)

    def wanted(self, trainer: TrainerId, head: memoryview, total: int) -> bool:
        """Like `inspect`, for bare parameters of a trainer."""
        found, schema = read_head(head, total), self._schema(trainer)
        if found is not None and schema is not None:
            found.check(schema)
        return found is not None

    def fetched(self, trainer: TrainerId, body: memoryview, proof: Digest | None) -> Params:
        """Bare parameters that came by their digest.

        Args:
            proof: the digest that they must have; None where that need not be shown.

        Raises:
            PeerError: they are not what was asked for, or do not fit.
        """
        params, schema = self._plain.decode_params(body), self._schema(trainer)
        params = schema.conform(params) if schema else params
        if proof is not None and params.digest != proof:
            raise ParamsRefused(f"other parameters came than those asked for ({params.digest[:10]})")
        return params

    async def _once(self, key: tuple[Digest, str | None], make: Callable[[T], Blob], of: T) -> Blob:
        if key not in self._blobs:
            self._blobs[key] = asyncio.get_running_loop().run_in_executor(None, make, of)
            while len(self._blobs) > KEPT_BLOBS:
                self._blobs.popitem(last=False)
        return await asyncio.shield(self._blobs[key])

    async def _find(self, digest: Digest) -> Params:
        if (found := self._core.find(digest)) is not None:
            return found[1]
        for trainer in self._core.jobs:
            kept = await self._store.load_model(trainer, digest)
            if kept is not None and kept.shared is not None:
                return kept.shared
        raise UnknownModel(f"this node does not hold parameters of digest {digest[:10]} (any more)")

    def _needs(self, trainer: TrainerId) -> int:
        job = self._core.jobs[trainer]
        if job.phase is Phase.LOADING:
            return self._max_body_bytes
        schema = self._schema(trainer)
        if schema is None:
            return CONTROL_BYTES
        return CONTROL_BYTES + BYTES_PER_NUMBER * schema.numbers + BYTES_PER_ARRAY * len(schema.specs)

    def _schema(self, trainer: TrainerId) -> Schema | None:
        job = self._core.jobs.get(trainer)
        return job.state.model.schema if job and job.state.model else None


def encoding_of(form: Form) -> Encoding:
    """How the arrays of own updates are packed."""
    return _PACKED.get(form, "float32")


def accepted(form: Form) -> tuple[str, ...]:
    """What a node of this form says that it accepts."""
    return () if form == "json" else (SAFETENSORS, FLOAT16, INT8)
