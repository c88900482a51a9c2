"""Messages of the alignment and of the split network as parts of a VerticalMessage, and back.

What arrives is checked here as far as it needs no knowledge of the conversation: each array has the name, dtype and
number of dimensions that its part needs. The machines check the rest. JSON knows no dtypes; numbers that were sent as
float32 are the same float32 afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from flnet.algorithms.vertical import holder, split_messages
from flnet.algorithms.vertical.holder import Acceptance, AlignmentOpening, Chunk, Kind, PairKey
from flnet.algorithms.vertical.split_messages import (
    BottomClosed,
    CutGradients,
    CutOutputs,
    EpochClosed,
    Resumed,
    TopShared,
)
from flnet.errors import BatchRefused, CutLayerRefused
from flnet.params.params import Array, Digest, Params, PeerId
from flnet.protocol.vertical import (
    AcceptancePart,
    BottomClosedPart,
    ChunkPart,
    EpochClosedPart,
    GradientsPart,
    OpeningPart,
    OutputsPart,
    PairKeyPart,
    Part,
    ResumedPart,
    ScorePart,
    TalkPart,
    TopSharedPart,
)
from flnet.text import text
from flnet.trainer import Score

Message = holder.Message | split_messages.Message
_TALK: TypeAdapter[TalkPart] = TypeAdapter(TalkPart)
NOTHING = Params()


def written(message: Message) -> tuple[TalkPart, Params]:
    """A message as a part with its arrays; the session and the sender stand in the message around it."""
    match message:
        case AlignmentOpening() as m:
            return OpeningPart(
                protocol=m.protocol, rule=m.rule, group=m.group, count=m.count, chunk=m.chunk
            ), NOTHING
        case Acceptance() as m:
            return AcceptancePart(count=m.count), NOTHING
        case PairKey() as m:
            return PairKeyPart(), _bytes(m.element)
        case Chunk() as m:
            return ChunkPart(list=m.kind.value, number=m.number, total=m.total), _bytes(m.items)
        case CutOutputs() as m:
            part = OutputsPart(epoch=m.epoch, step=m.step, batch=m.batch, hold_out=m.hold_out)
            return part, Params({"values": m.values})
        case CutGradients() as m:
            return GradientsPart(epoch=m.epoch, step=m.step, batch=m.batch), Params({"values": m.values})
        case BottomClosed() as m:
            return BottomClosedPart(epoch=m.epoch, digest=m.digest), NOTHING
        case TopShared() as m:
            return TopSharedPart(epoch=m.epoch, examples=m.examples), m.params
        case EpochClosed() as m:
            return report_part(m), NOTHING
        case Resumed() as m:
            return ResumedPart(epoch=m.epoch, digest=m.digest), NOTHING
    raise TypeError(f"{type(message).__name__} is no message of a vertical job")


def read(
    part: TalkPart,
    arrays: Params,
    session: str,
    sender: PeerId,
    holders: Sequence[PeerId],
    dtype: str = "float32",
) -> Message:
    """The message that a part stands for.

    Args:
        arrays: that came with it.
        holders: of the session.
        dtype: of outputs and gradients.

    Raises:
        BatchRefused: arrays are missing, or there are others; or the part is of an encrypted regression.
        CutLayerRefused: an array has a wrong form.
    """
    check_arrays(part, arrays)
    match part:
        case OpeningPart() as p:
            return AlignmentOpening(session, sender, tuple(holders), p.protocol, p.rule, p.group, p.count, p.chunk)
        case AcceptancePart() as p:
            return Acceptance(session, sender, p.count)
        case PairKeyPart():
            return PairKey(session, sender, bytes_in(arrays["items"]))
        case ChunkPart() as p:
            return Chunk(session, sender, Kind(p.list), p.number, p.total, bytes_in(arrays["items"]))
        case OutputsPart() as p:
            values = _numbers(arrays["values"], dtype)
            return CutOutputs(sender, p.epoch, p.step, p.batch, values, p.hold_out)
        case GradientsPart() as p:
            return CutGradients(sender, p.epoch, p.step, p.batch, _numbers(arrays["values"], dtype))
        case BottomClosedPart() as p:
            return BottomClosed(sender, p.epoch, Digest(p.digest))
        case TopSharedPart() as p:
            return TopShared(sender, p.epoch, arrays, p.examples)
        case EpochClosedPart() as p:
            return report_in(p, sender)
        case ResumedPart() as p:
            return Resumed(sender, p.epoch, Digest(p.digest))
    raise no_place(part)


def read_fields(fields: Mapping[str, Any]) -> TalkPart:
    """A part from what `Part.as_dict` gave."""
    return _TALK.validate_python(fields)


def report_part(report: EpochClosed) -> EpochClosedPart:
    """The end of an epoch as a part; also how it is saved."""
    score = report.score
    stated = None
    if score is not None:
        metrics = {name: float(value) for name, value in score.metrics.items() if np.isfinite(value)}
        stated = ScorePart(accuracy=score.accuracy, examples=score.examples, metrics=metrics)
    return EpochClosedPart(
        epoch=report.epoch,
        loss=report.loss,
        score=stated,
        bottoms={str(peer): digest for peer, digest in report.bottoms.items()},
        top=report.top,
    )


def report_in(part: EpochClosedPart, sender: PeerId) -> EpochClosed:
    """The end of an epoch that a part states."""
    stated = part.score
    score = None if stated is None else Score(stated.accuracy, stated.examples, dict(stated.metrics))
    bottoms = {PeerId(peer): Digest(digest) for peer, digest in part.bottoms.items()}
    return EpochClosed(sender, part.epoch, part.loss, score, bottoms, Digest(part.top))


def no_place(part: Part) -> BatchRefused:
    """The error for a part of another method."""
    return BatchRefused(text("{kind} has no place in this job", type(part).__name__.removesuffix("Part").lower()))


def check_arrays(part: Part, arrays: Mapping[str, Array]) -> None:
    """Raises:
    BatchRefused: arrays of the part are missing, or there are others.
    """
    expected = part.arrays
    if expected is None or sorted(expected) == sorted(arrays):
        return
    kind = type(part).__name__.removesuffix("Part").lower()
    there, wanted = (", ".join(sorted(names)[:5]) or text("none") for names in (arrays, expected))
    raise BatchRefused(text("expected the arrays {expected} with {kind}, got {got}", wanted, kind, there))


def _bytes(items: bytes) -> Params:
    return Params({"items": np.frombuffer(items, np.uint8)})


def bytes_in(array: Array) -> bytes:
    """Bytes that came as an array.

    Raises:
        CutLayerRefused: it is no list of bytes.
    """
    if (
        array.ndim != 1
        or array.dtype.kind not in "iu"
        or (len(array) and not 0 <= array.min() <= array.max() < 256)
    ):
        raise CutLayerRefused(
            text("expected a list of bytes, got {dtype} {shape}", array.dtype.name, list(array.shape))
        )
    return array.astype(np.uint8).tobytes()


def _numbers(array: Array, dtype: str) -> Array:
    if array.ndim != 2 or array.dtype.kind not in "iuf":
        raise CutLayerRefused(
            text("expected a table of numbers, got {dtype} {shape}", array.dtype.name, list(array.shape))
        )
    with np.errstate(over="ignore"):
        return array.astype(dtype, copy=False)
