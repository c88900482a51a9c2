"""Every aggregation rule over ten updates of 40 MB, compared with the plain mean of the same ones."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.codec import model
from benchmarks.options import Options
from benchmarks.report import Row
from benchmarks.timing import extra_mb, in_turns
from benchmarks.trainers._work import WORKS
from flnet.aggregation.base import AggregationRule, Merged, RoundStart, State
from flnet.algorithms.registry import parse_rule
from flnet.params.params import Params, PeerId, Schema
from flnet.protocol.updates import RoundKey, Update

UPDATES = 10
REPETITIONS = 3
ROUNDS = 8  # before a rule is measured, so that it remembers as much as it ever will
MEAN = "agg1"
RULES = (
    "median", "trimmed-mean", "winsorised-mean", "geometric-median", "krum:2", "multi-krum:2", "bulyan:1",
    "consistency", "consistency:bounded", "scaffold", "fedavgm", "fedadam", "fedyogi", "clip,agg1", "cosine,agg1",
    "clip,cosine,median", "clip,cosine,consistency",
)  # fmt: skip


def run(options: Options) -> None:
    """Time and memory of each; the rules take turns with the mean."""
    shapes = WORKS["W2"].shapes
    base = model(shapes, UPDATES)
    updates = [_update(at, base, model(shapes, at)) for at in range(UPDATES)]
    schema = Schema.of(base)

    def merge(strategy: AggregationRule, state: State = None, number: int = 0) -> Merged:
        return strategy.merge(state, RoundStart(schema, base, number), updates)

    mean = partial(merge, parse_rule(MEAN))
    mean_mb = extra_mb(mean)
    for rule in RULES:
        strategy, state = parse_rule(rule), _remembered(parse_rule(rule), schema, base, updates)
        ours = partial(merge, strategy, state, ROUNDS)
        seconds = in_turns({MEAN: mean, rule: ours}, options.times(REPETITIONS))
        kept = f", what it remembers {state.nbytes / 1e6:.0f} MB" if state is not None else ""
        note = f"{extra_mb(ours):.0f} MB more memory, the result included{kept}; the mean {mean_mb:.0f}"
        options.report.add(
            Row(f"{rule} of {UPDATES} updates of 40 MB", "s", seconds[rule], seconds[MEAN], MEAN, note=note)
        )
        del state, ours


def _update(at: int, base: Params, other: Params) -> Update:
    """The base and a tenth of another model: updates that differ as those of one round do."""
    near = Params({name: base[name] + np.float32(0.1) * other[name] for name in base})
    return Update(PeerId(f"node-{at}"), RoundKey(1, PeerId("node-0")), near, examples=64)


def _remembered(strategy: AggregationRule, schema: Schema, base: Params, updates: list[Update]) -> State:
    """What a rule remembers after some rounds, whose last one began here."""
    state: State = None
    for number in range(ROUNDS):
        start = Params(
            {name: array * np.float32(1 + 0.01 * (number + 1 - ROUNDS)) for name, array in base.items()}
        )
        state = strategy.merge(state, RoundStart(schema, start, number), updates).state
    return state
