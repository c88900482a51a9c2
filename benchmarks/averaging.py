"""The average of ten updates of 40 MB, compared with memcpy of the same 400 MB."""

from __future__ import annotations

import numpy as np

from benchmarks.bounds import BOUNDS
from benchmarks.codec import model
from benchmarks.options import Options
from benchmarks.report import Row
from benchmarks.timing import copies, extra_mb, in_turns
from benchmarks.trainers._work import WORKS
from flnet.aggregation.base import RoundStart
from flnet.aggregation.fed_avg import fed_avg
from flnet.params.params import Params, PeerId, Schema
from flnet.protocol.updates import RoundKey, Update

UPDATES = 10
REPETITIONS = 5


def run(options: Options) -> None:
    """With the strategy that nodes use by default."""
    sent = [model(WORKS["W2"].shapes, seed) for seed in range(UPDATES)]
    schema, strategy = Schema.of(sent[0]), fed_avg()
    key = RoundKey(1, PeerId("node-0"))
    updates = [Update(PeerId(f"node-{at}"), key, params, 64 + at) for at, params in enumerate(sent)]

    def average() -> Params:
        return strategy.merge(None, RoundStart(schema, sent[0]), updates).params

    everything = np.concatenate([array.ravel() for params in sent for array in params.values()])
    floors = copies(everything)
    seconds = in_turns({**floors, "average": average}, options.times(REPETITIONS))
    note = f"{extra_mb(average):.0f} MB more memory, the result included"
    for floor in floors:
        bound = BOUNDS["averaging"] if floor.endswith("warm") else None
        words = f"the average of {UPDATES} updates of 40 MB"
        options.report.add(Row(words, "s", seconds["average"], seconds[floor], floor, bound, note))
