"""Every merging rule over ten updates of 40 MB, beside the plain mean of the same ones."""

from __future__ import annotations

from functools import partial

from benchmarks.codec import model
from benchmarks.options import Options
from benchmarks.report import Row
from benchmarks.timing import extra_mb, in_turns
from benchmarks.trainers._work import WORKS
from flnet.node.merging import strategy_for
from flnet.params import Params, PeerId, RoundKey, Schema, Update
from flnet.strategies import RoundStart, Strategy

UPDATES = 10
REPETITIONS = 3
MEAN = "agg1"
RULES = ("median", "trimmed-mean", "geometric-median", "krum:2", "multi-krum:2", "bulyan:1")


def run(options: Options) -> None:
    """Time and memory of each; the rules take turns with the mean."""
    key = RoundKey(1, PeerId("node-0"))
    updates = [
        Update(PeerId(f"node-{at}"), key, model(WORKS["W2"].shapes, at), examples=64) for at in range(UPDATES)
    ]
    start = RoundStart(Schema.of(updates[0].params), model(WORKS["W2"].shapes, UPDATES))

    def merge(strategy: Strategy) -> Params:
        return strategy.merge(None, start, updates).params

    mean = partial(merge, strategy_for(MEAN))
    mean_mb = extra_mb(mean)
    for rule in RULES:
        ours = partial(merge, strategy_for(rule))
        seconds = in_turns({MEAN: mean, rule: ours}, options.times(REPETITIONS))
        note = f"{extra_mb(ours):.0f} MB more memory, the result included; the mean {mean_mb:.0f}"
        options.report.add(
            Row(f"{rule} of {UPDATES} updates of 40 MB", "s", seconds[rule], seconds[MEAN], MEAN, note=note)
        )
