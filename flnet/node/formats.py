"""The formats of bodies that this node reads and writes, and the memory that large bodies are received into.

`BufferPool` hands memory out again while rounds go on. The system zeroes new memory before a process may see it,
although an update overwrites it at once: receiving and averaging three updates of 40 MB takes 66 ms of processor
time with the pool and 123 ms without it (docs/benchmarks.md, "Memory, one measure at a time").
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

import numpy as np

from flnet.errors import ParamsRefused, UnknownModel, UnreadableBody
from flnet.node.core import NodeCore
from flnet.node.inbound import KINDS
from flnet.params.blob import Blob, Bytes
from flnet.params.params import Digest, Params, Schema, TrainerId
from flnet.params.quantization import Encoding
from flnet.params.segments import side_by_side, taken_apart
from flnet.protocol.messages import (
    ANNOUNCE_BYTES,
    EARLIER_FORMS,
    INT8,
    INT8_BLOCKS,
    SAFETENSORS,
    Announce,
    JobMessage,
    Message,
    Packet,
    Trigger,
)
from flnet.protocol.vertical import VerticalMessage
from flnet.rounds.compatibility import must_agree
from flnet.rounds.steps import Phase
from flnet.rounds.vertical_job import VerticalJob
from flnet.store.base import Store
from flnet.text import text
from flnet.wire.binary_codec import BINARY_TYPE, ZSTD, BinaryCodec, available_codings, compressed, read_head
from flnet.wire.json_codec import JsonCodec
from flnet.wire.transport import CONTROL_BYTES

Form = Literal["safetensors", "float16", "int8", "json"]
T = TypeVar("T")

BYTES_PER_NUMBER = 32  # of a number in JSON, generously
VERTICAL_BYTES = 64 * 1024 * 1024  # of a message of a vertical job: outputs of one batch, or parts of lists
BYTES_PER_ARRAY = 256  # of an array's description in a header
OFF_LOOP_BYTES = 64 * 1024  # larger bodies are encoded and decoded in a thread
# Best first. A peer must read the form of this name; what it does not read is sent to it in full, with the same numbers.
_PACKED: dict[Form, tuple[Encoding, ...]] = {"float16": ("float16",), "int8": ("int8-blocks", "int8")}
LOADED_SECONDS = 10.0  # that a model which was read from the store stays in memory
KEPT_BLOBS = 4  # packed and compressed bodies that are kept for the next peer that fetches them
PACKED = 2  # times fewer bytes than the arrays have: then most of them are packed, and zstd saves something more
IDLE_SECONDS = 5.0  # between two looks; unused memory is given back when both find nothing to do
SMALLEST = 1024 * 1024  # bytes; the interpreter keeps smaller pieces itself
_GRAIN = 64 * 1024  # bytes, of which a buffer has a multiple
_UNUSED = 3  # references to an array: in the list, in the loop, and as the argument of getrefcount


class BodyFormats:
    """Encodes and decodes the bodies of messages, and says how large they may be."""

    def __init__(self, core: NodeCore, store: Store, form: Form, max_body_bytes: int) -> None:
        """Args:
        form: how updates are sent to peers that can read it.
        max_body_bytes: bytes that a body may have whatever the models are.
        """
        self._core, self._store, self._form, self._max_body_bytes = core, store, form, max_body_bytes
        self._json, self._plain = JsonCodec(), BinaryCodec()
        self._packed = [BinaryCodec(encoding) for encoding in _PACKED.get(form, ())]
        self._loaded: Params | None = None  # from the store
        self._blobs: OrderedDict[tuple[Digest, Encoding, str | None], asyncio.Future[Blob]] = OrderedDict()

    def agreed_encoding(self) -> Encoding:
        """How an own update is rounded now, so that the live members can read it."""
        members = self._core.members
        return encoding_of(self._form, map(members.accepts_of, members.alive))

    def body_limit(self, path: str) -> int:
        """Bytes that a request to this path may have: of most messages what the largest model here needs as JSON."""
        if path == Announce.path:
            return ANNOUNCE_BYTES
        if path == Trigger.path or path not in KINDS:
            return CONTROL_BYTES
        if path == VerticalMessage.path:
            has_some = any(isinstance(job, VerticalJob) for job in self._core.jobs.values())
            return min(VERTICAL_BYTES, self._max_body_bytes) if has_some else CONTROL_BYTES
        return min(max([self._needs(t) for t in self._core.jobs], default=CONTROL_BYTES), self._max_body_bytes)

    def inspect(self, path: str, content_type: str, head: memoryview, total: int) -> bool:
        """Whether the head of a binary body is whole, and what it describes is wanted here.

        Raises:
            PeerError: it is not wanted.
        """
        header = read_head(head, total)
        if header is None:
            return False
        if header.fields is None:
            raise UnreadableBody(text("the body holds no message"))
        trainer = header.fields.get("trainerId")
        if header.specs and isinstance(trainer, str):
            job = self._core.job(trainer)
            if job.held.model is not None and path != VerticalMessage.path:
                message = KINDS[path].read(header.fields) if path in KINDS else None
                try:
                    header.check(job.form_of(message) if isinstance(message, JobMessage) else job.held.schema)
                except ParamsRefused:
                    # An option that differs, such as the size of a layer, tells more than a shape.
                    if isinstance(message, JobMessage):
                        must_agree(job.settings, message.sender, message.agreement)
                    raise
        return True

    async def read(self, kind: type[Message], body: bytes | memoryview, content_type: str) -> Packet:
        """The message in a body; parameters are checked here already where they are large, off the event loop."""
        codec = self._plain if content_type == BINARY_TYPE else self._json

        def decode() -> Packet:
            packet = codec.decode(kind, body)
            message = packet.message
            if (
                packet.params is None
                or not isinstance(message, JobMessage)
                or isinstance(message, VerticalMessage)
            ):
                return packet
            if self._schema(message.trainer) is None:
                return packet
            try:
                form = self._core.job(message.trainer).form_of(message)
                return replace(packet, params=form.conform(packet.params))
            except ParamsRefused:  # the job says so, after all that it looks at first
                return packet

        return await asyncio.to_thread(decode) if len(body) > OFF_LOOP_BYTES else codec.decode(kind, body)

    async def write(self, packet: Packet, accepts: Collection[str] = ()) -> tuple[bytes | Blob, str]:
        """A body and its content type, for a peer that accepts these forms; without parameters it is JSON."""
        if packet.params is None or SAFETENSORS not in accepts or self._form == "json":
            large = packet.params is not None and packet.params.nbytes > OFF_LOOP_BYTES
            encode = self._json.encode
            return await asyncio.to_thread(encode, packet) if large else encode(packet), self._json.content_type
        codec = self._plain if isinstance(packet.message, VerticalMessage) else self._codec(accepts)
        if packet.params.nbytes > OFF_LOOP_BYTES and codec is not self._plain:
            return await asyncio.to_thread(codec.encode, packet), BINARY_TYPE
        return codec.encode(packet), BINARY_TYPE

    async def held(
        self, digest: str, codings: Collection[str] = (), accepts: Collection[str] = EARLIER_FORMS
    ) -> Blob:
        """The parameters of this digest as they go over the wire; compressed only where that saves much.

        Args:
            digest: of parameters, or several between commas, of segments that this round holds; these come side by side.
            codings: that the caller reads.
            accepts: forms that the caller reads.

        Raises:
            UnknownModel: this node does not hold them, or no longer.
        """
        params = await self._find(Digest(digest)) if "," not in digest else self._segments(digest.split(","))
        codec = self._codec(accepts)
        if codec is self._plain:
            return codec.encode_params(params)
        blob = await self._once((Digest(digest), codec.encoding, None), codec.encode_params, params)
        is_packed = codec.encoding != "float16" and PACKED * len(blob) <= params.nbytes
        if not is_packed or ZSTD not in codings or ZSTD not in available_codings():
            return blob
        return await self._once((Digest(digest), codec.encoding, ZSTD), compressed, blob)

    def landing_limit(self, trainer: TrainerId, form: Schema | None = None) -> int:
        """Bytes that fetched parameters of this trainer may have.

        Args:
            form: of arrays that are no parameters of its model.
        """
        needed = self._needs(trainer) if form is None else _bytes_of(form)
        return min(needed, self._max_body_bytes)

    def model_bytes(self, trainer: TrainerId) -> int:
        """Bytes of the parameters of this trainer's model; 0 as long as it has none."""
        schema = self._schema(trainer)
        return schema.nbytes if schema else 0

    def wanted(self, trainer: TrainerId, head: memoryview, total: int, form: Schema | None = None) -> bool:
        """As `inspect`, for parameters of a trainer without a message, or for arrays of this form."""
        header, schema = read_head(head, total), form or self._schema(trainer)
        if header is not None and schema is not None:
            header.check(schema)
        return header is not None

    def fetched(
        self, trainer: TrainerId, body: memoryview, proof: Digest | None, form: Schema | None = None
    ) -> Params:
        """Bare parameters that came by their digest.

        Args:
            proof: the digest that they must have; None where that need not be shown.
            form: of arrays that are no parameters of the trainer's model.

        Raises:
            PeerError: they are not what was asked for, or do not fit.
        """
        params, schema = self._plain.decode_params(body), form or self._schema(trainer)
        params = schema.conform(params) if schema else params
        if proof is not None:
            _must_have(proof, params)
        return params

    def fetched_segments(self, body: memoryview, forms: Mapping[Digest, Schema]) -> Mapping[Digest, Params]:
        """Segments that came side by side in one body.

        Args:
            forms: by digest, the arrays of each.

        Raises:
            PeerError: they are not what was asked for, or do not fit.
        """
        segments = taken_apart(self._plain.decode_params(body), list(forms.values()))
        for digest, params in zip(forms, segments, strict=True):
            _must_have(digest, params)
        return dict(zip(forms, segments, strict=True))

    def _codec(self, accepts: Collection[str]) -> BinaryCodec:
        return next((codec for codec in self._packed if codec.encoding in accepts), self._plain)

    async def _once(self, key: tuple[Digest, Encoding, str | None], make: Callable[[T], Blob], of: T) -> Blob:
        if key not in self._blobs:
            self._blobs[key] = asyncio.get_running_loop().run_in_executor(None, make, of)
            while len(self._blobs) > KEPT_BLOBS:
                self._blobs.popitem(last=False)
        return await asyncio.shield(self._blobs[key])

    def _segments(self, digests: Sequence[str]) -> Params:
        """Parameters side by side, if they are in memory: a stranger could have all kept models read at once."""
        found = [self._core.find(Digest(digest)) for digest in digests]
        here = [held[1] for held in found if held is not None]
        if len(here) < len(found):
            raise UnknownModel(text("this node does not hold all {count} segments (any more)", len(digests)))
        return Params(side_by_side(here))

    async def _find(self, digest: Digest) -> Params:
        if (held := self._core.find(digest)) is not None:
            return held[1]
        if self._loaded is not None and self._loaded.digest == digest:
            return self._loaded
        for trainer in self._core.jobs:
            kept = await self._store.load_model(trainer, digest)
            if kept is not None and kept.shared is not None:
                self._loaded = kept.shared  # the next part of it is asked for soon
                asyncio.get_running_loop().call_later(LOADED_SECONDS, self._forget, kept.shared)
                return kept.shared
        raise UnknownModel(text("this node does not hold parameters of digest {digest} (any more)", digest[:10]))

    def _forget(self, loaded: Params) -> None:
        if self._loaded is loaded:
            self._loaded = None

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
        return job.held.model.schema if job and job.held.model else None


def _must_have(digest: Digest, params: Params) -> None:
    if params.digest != digest:
        raise ParamsRefused(text("other parameters came than those asked for ({digest})", params.digest[:10]))


def _bytes_of(form: Schema) -> int:
    """Bytes that a body with arrays of this form may have."""
    return CONTROL_BYTES + form.nbytes + BYTES_PER_ARRAY * len(form.specs)


def encoding_of(form: Form, accepted_by_peers: Iterable[Collection[str]] = ()) -> Encoding:
    """How the arrays of own updates are rounded; all nodes hold the same numbers, so that all must be able to read them.

    Args:
        accepted_by_peers: the forms that each peer accepts.
    """
    if form != "int8":
        return "float16" if form == "float16" else "float32"
    is_any_earlier = any(INT8 in forms and INT8_BLOCKS not in forms for forms in accepted_by_peers)
    return "int8" if is_any_earlier else "int8-blocks"


def accepted(form: Form) -> tuple[str, ...]:
    """The formats that a node with this setting accepts."""
    return () if form == "json" else (*EARLIER_FORMS, INT8_BLOCKS)


class BufferPool:
    """Large buffers; one that nothing refers to any more is used again."""

    def __init__(self) -> None:
        self._kept: list[Bytes] = []
        self._lock = threading.Lock()  # merges ask from threads

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers, in use or not."""
        return sum(array.nbytes for array in self._kept)

    def take(self, nbytes: int) -> Bytes:
        """A buffer of this size with undefined content; it is the caller's as long as a view of it lives."""
        if nbytes < SMALLEST:
            return np.empty(nbytes, np.uint8)
        with self._lock:
            for array in self._kept:
                # Twice the size at most: a large array under a small model would be kept from larger ones.
                if nbytes <= array.nbytes <= 2 * nbytes and sys.getrefcount(array) == _UNUSED:
                    return array[:nbytes]
            # Else bodies that grow a little each time, as a stranger may send, would pile up.
            for array in self._kept:
                if array.nbytes < nbytes <= 2 * array.nbytes and sys.getrefcount(array) == _UNUSED:
                    self._kept = [other for other in self._kept if other is not array]
                    break
            # Bodies of one model differ by a few bytes of their heads.
            self._kept.append(np.empty(-(-nbytes // _GRAIN) * _GRAIN, np.uint8))
            return self._kept[-1][:nbytes]

    def let_go(self) -> None:
        """Give back what nobody uses, and keep nothing of the rest once it is not used any more.

        Unused reference cycles, which may hold models, go as well, where `settle` has left few objects to look at.
        """
        with self._lock:
            self._kept.clear()
        if _is_settled.is_set():
            gc.collect()


_is_settled = threading.Event()  # asking for the count of what was set aside takes ten milliseconds


def settle() -> None:
    """All that is there stays until the process ends: from now on only what comes later is looked at for garbage.

    A full collection waits until a quarter more objects have come than there were: after a start these are 20,000,
    and so hours. With the modules and tables of the start set aside, it comes soon, and takes few milliseconds.
    """
    gc.collect()
    gc.freeze()
    gc.collect()  # counts what exists
    _is_settled.set()


async def give_back_when_idle(buffers: BufferPool, is_busy: Callable[[], bool], every: float) -> None:
    """Give unused memory back whenever nothing was to do at two looks, `every` seconds apart, until cancelled."""
    was_busy = True
    while True:
        await asyncio.sleep(every)
        busy = is_busy()
        if not busy and not was_busy:
            buffers.let_go()
        was_busy = busy
