"""Many small networks trained as one computation, compared with one by one: MLFedAvg's network, two threads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from statistics import median

from benchmarks.bounds import BOUNDS
from benchmarks.options import Options, in_process
from benchmarks.report import Row

CLIENTS = (20, 60)
TURNS = 9
OTHERS = {"one by one": "one by one, as a node", "plain": "one by one, torch.nn and torch.optim"}


@dataclass(frozen=True)
class Found:
    """What was measured, one figure for each repetition.

    Attributes:
        wall: seconds by way.
        processor: seconds of all processors by way.
        flop: multiplications and additions of the matrix products of one training of all.
        flops: of the large product, a second.
        apart: the largest difference between parameters trained in two ways.
    """

    wall: dict[str, list[float]]
    processor: dict[str, list[float]]
    flop: float
    flops: list[float]
    apart: float


def run(options: Options) -> None:
    """Wall and processor time of both numbers of clients."""
    for clients in [options.nodes] if options.nodes else CLIENTS:
        report(options, clients, measured(clients, options.times(TURNS)))


def measured(clients: int, repetitions: int) -> Found:
    """What a fresh process measures."""
    return Found(**json.loads(in_process("cohort_training", clients, repetitions, patience=900)))


def report(options: Options, clients: int, comparison: Found) -> None:
    """A row for each comparison, and how far from the machine's arithmetic it is."""
    speed, best = comparison.flop / min(comparison.wall["together"]), max(comparison.flops)
    note = (
        f"at best {speed / 1e9:.0f} of the {best / 1e9:.0f} GFLOP/s of a large matrix product: {speed / best:.0%}"
    )
    note += f"; parameters differ by {comparison.apart:.1e} at most"
    for way, words in OTHERS.items():
        for kind, seconds in (("wall", comparison.wall), ("processor", comparison.processor)):
            name = f"{clients} clients of MLFedAvg trained together, {kind} time"
            bound = BOUNDS["cohort"] if kind == "wall" and way == "one by one" else None
            faster = median(theirs / mine for mine, theirs in zip(seconds["together"], seconds[way], strict=True))
            factor = f"{faster:.1f} x as fast" + (f"; {note}" if bound else "")
            options.report.add(Row(name, "s", seconds["together"], seconds[way], words, bound, factor))
