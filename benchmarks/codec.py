"""Bodies: 40 MB of parameters written and read in every wire format, compared with memcpy of the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.bounds import BOUNDS
from benchmarks.options import Options
from benchmarks.report import Report, Row
from benchmarks.timing import Work, copies, extra_mb, in_turns
from benchmarks.trainers._work import WORKS
from flnet.params.params import Params, Schema
from flnet.protocol.messages import HyperParams, ModelParams, Packet, Peer
from flnet.wire.json_codec import JsonCodec

REPETITIONS = 5
HYPER = HyperParams(e=1, u=0.05, b=64)
SMALL = 10  # JSON is measured on so much less


@dataclass(frozen=True)
class Subject:
    """One format: how it writes and reads, and how much larger the full model is."""

    name: str
    codec: Any
    params: Params
    scale: int = 1


def run(options: Options) -> None:
    """Every format, then what else touches every byte: digest and check."""
    params = model(WORKS["W2"].shapes)
    flat = np.concatenate([array.ravel() for array in params.values()])
    floors = copies(flat)
    for subject in subjects(params):
        _one(options, subject, floors)
    schema = Schema.of(params)
    fresh: dict[str, Work] = {
        "digest (BLAKE3)": lambda: Params(params).digest,
        "check against the schema": lambda: schema.conform(Params(params)),
    }
    seconds = in_turns({**floors, **fresh}, options.times(REPETITIONS))
    for name in fresh:
        for floor in floors:
            options.report.add(Row(f"40 MB: {name}", "s", seconds[name], seconds[floor], floor))


def model(shapes: list[tuple[int, ...]], seed: int = 0) -> Params:
    """Random float32 parameters of these shapes, as large as weights are."""
    chance = np.random.default_rng(seed)
    return Params({f"w{at}": 0.05 * chance.standard_normal(shape, "float32") for at, shape in enumerate(shapes)})


def packet(params: Params) -> Packet:
    """An update with these parameters."""
    peer = Peer(id="node-a", ip="127.0.0.1", port=4000)
    return Packet(
        ModelParams(
            i_am=peer, trainer_id="W2", round=1, federated_learning_params=HYPER, examples=64, accuracy=0.5
        ),
        params,
    )


def subjects(params: Params) -> list[Subject]:
    """The formats that this version has."""
    few = Params({name: array[: max(1, len(array) // SMALL)] for name, array in params.items()})
    subjects = [Subject("json", JsonCodec(), few, round(params.nbytes / few.nbytes))]
    try:
        from flnet.params.quantization import lowered  # noqa: PLC0415 - of a later version
        from flnet.wire.binary_codec import BinaryCodec  # noqa: PLC0415
    except ImportError:
        return subjects
    subjects.append(Subject("safetensors", BinaryCodec(), params))
    for encoding in ("float16", "int8", "int8-blocks"):
        subjects.append(Subject(encoding, BinaryCodec(encoding), lowered(params, None, encoding)[0]))
    return subjects


def _one(options: Options, subject: Subject, floors: Mapping[str, Work]) -> None:
    sent = packet(subject.params)
    codec, scale = subject.codec, subject.scale
    body = bytes(codec.encode(sent))
    works: dict[str, Work] = {
        "encode": lambda: codec.encode(sent),
        "decode": lambda: codec.decode(ModelParams, body),
    }
    seconds = in_turns({**floors, **works}, options.times(REPETITIONS))
    for name, work in works.items():
        note = f"body {len(body) * scale / 1e6:.1f} MB; {extra_mb(work) * scale:.0f} MB more memory"
        if scale > 1:
            note += f"; measured on 1/{scale} of it, and scaled"
        ours = [scale * value for value in seconds[name]]
        for floor in floors:
            _row(options.report, f"40 MB as {subject.name}: {name}", ours, seconds[floor], floor, name, note)


def _row(
    report: Report, words: str, ours: list[float], beside: list[float], floor: str, name: str, note: str
) -> None:
    bound = BOUNDS[f"codec.{name}"] if floor.endswith("new memory") else None
    report.add(Row(words, "s", ours, beside, floor, bound, note))
