"""A network with batch normalisation: its running means and variances are no weights, whatever the rule.

Specification, section 17. Each rule is compared with formulas written here, over arrays as one block of such a network
has them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flnet.aggregation.base import AggregationRule, RoundStart, with_bounded_buffers
from flnet.aggregation.centered_clipping import centered_clipping
from flnet.aggregation.consistency import consistency
from flnet.aggregation.fed_avg import fed_avg
from flnet.aggregation.fed_opt import adaptive, fed_avg_m
from flnet.aggregation.krum import bulyan, krum, multi_krum, squared_distances
from flnet.aggregation.median import geometric_median, median
from flnet.aggregation.screening import Bounds, Screening, clip, composed, cosine
from flnet.algorithms.scaffold import scaffold
from flnet.params.arithmetic import clipped, distance
from flnet.params.params import Array, Params, Schema
from flnet.protocol.updates import Update
from tests.helpers import update

BUFFERS = ("mean", "variance", "seen")
NODES, ROUNDS = 7, 20


def network(chance: np.random.Generator, around: float = 0.0) -> dict[str, Array]:
    """One block: a kernel and an offset, the statistics of a batch normalisation, and how many batches it has seen."""
    return {
        "kernel": chance.normal(around, 0.1, (6, 4)),
        "offset": chance.normal(around, 0.1, 4),
        "mean": chance.normal(0, 3, 4),
        "variance": chance.uniform(0.5, 60, 4),
        "seen": np.array(chance.integers(9)),
    }


def begin(arrays: dict[str, Array], number: int = 0) -> RoundStart:
    return RoundStart(Schema.of(Params(arrays), buffers=BUFFERS), Params(arrays), number)


def told(peer: int, arrays: dict[str, Any], examples: int = 1) -> Update:
    return update(f"p{peer:03}", examples=examples, **arrays)


def trained(
    chance: np.random.Generator, base: dict[str, Array], peer: int, step: float = 0.05
) -> dict[str, Array]:
    """What honest training makes of it: all go much the same way, and find statistics of their own."""
    way = np.random.default_rng(99)
    made: dict[str, Array] = {}
    for name in ("kernel", "offset"):
        made[name] = base[name] + step * way.normal(1, 0.2, base[name].shape)
        made[name] += chance.normal(0, 0.01, base[name].shape)
    mean, variance = chance.normal(2, 3, 4), chance.uniform(10, 60, 4)
    return {**made, "mean": mean, "variance": variance, "seen": np.array(10 + peer)}


def mean_of(sets: list[dict[str, Array]], name: str) -> Array:
    mean: Array = np.mean([arrays[name] for arrays in sets], axis=0)
    return mean


OPTIMISERS = [fed_avg_m(1, 0.9), adaptive("fedadam", 0.1), adaptive("fedyogi", 0.1), scaffold(2.0)]


@pytest.mark.parametrize("rule", OPTIMISERS, ids=lambda rule: rule.name.split(":")[0])
def test_optimisers_step_weights_and_take_the_mean_of_statistics(rule: AggregationRule) -> None:
    chance = np.random.default_rng(1)
    base, state = network(chance), None
    controls = {f"control {name}": np.zeros_like(base[name]) for name in ("kernel", "offset")}
    is_scaffold = rule.name.startswith("scaffold")
    first = {name: np.zeros_like(base[name]) for name in ("kernel", "offset")}
    second = {name: np.full_like(base[name], 1e-6) for name in ("kernel", "offset")}
    for number in range(ROUNDS):
        sets = [trained(chance, base, peer) for peer in range(NODES)]
        extra = controls if is_scaffold else {}
        params = Params({**base, **extra})
        schema = Schema.of(params, dict.fromkeys(extra, "control"), buffers=BUFFERS)
        updates = [told(peer, {**arrays, **extra}) for peer, arrays in enumerate(sets)]
        merged = rule.merge(state, RoundStart(schema, params, number), updates)
        expected = {name: mean_of(sets, name) for name in ("mean", "variance")}
        for name in ("kernel", "offset"):
            change = mean_of(sets, name) - base[name]
            expected[name] = base[name] + _step(rule.name, change, first, second, name)
        for name, array in expected.items():
            np.testing.assert_allclose(merged.params[name], array, rtol=1e-9, atol=1e-12, err_msg=name)
        assert merged.params["seen"] == 10 + NODES - 1  # integers: the maximum
        assert (merged.params["variance"] > 0).all()
        base, state = {name: np.array(merged.params[name]) for name in base}, merged.state


def _step(rule: str, change: Array, first: dict[str, Array], second: dict[str, Array], name: str) -> Array:
    """Reddi et al. (2021), Algorithm 2, and Hsu et al. (2019), written down for one array."""
    if rule.startswith("scaffold"):
        return 2 * change
    if rule.startswith("fedavgm"):
        first[name] = 0.9 * first[name] + change
        return first[name]
    first[name] = 0.9 * first[name] + 0.1 * change
    square = change**2
    if "adam" in rule:
        second[name] = 0.99 * second[name] + 0.01 * square
    else:
        second[name] = second[name] - 0.01 * square * np.sign(second[name] - square)
    step: Array = 0.1 * first[name] / (np.sqrt(second[name]) + 1e-3)
    return step


def test_distances_and_clipping_are_those_of_weights() -> None:
    chance = np.random.default_rng(2)
    base = network(chance)
    start, other = begin(base), trained(chance, base, 0)
    moved = np.concatenate([(other[name] - base[name]).ravel() for name in ("kernel", "offset")])
    assert distance(start.base, other, start.schema) == pytest.approx(np.linalg.norm(moved))
    pair = [told(0, base), told(1, other)]
    assert squared_distances(pair, start.schema)[0, 1] == pytest.approx(moved @ moved)
    shorter = clipped(start.base, Params(other), start.schema, 0.01)
    assert distance(start.base, shorter, start.schema) == pytest.approx(0.01)
    assert (shorter["mean"] == other["mean"]).all()


def attacked(turn: float, seed: int = 3, **odd: Any) -> tuple[RoundStart, list[Update]]:
    """Updates of seven nodes; the last one turned its weights, and kept or changed its statistics."""
    chance = np.random.default_rng(seed)
    base = network(chance)
    sets = [trained(chance, base, peer) for peer in range(NODES)]
    for name in ("kernel", "offset"):
        sets[-1][name] = base[name] - turn * (sets[-1][name] - base[name])
    sets[-1] |= odd
    return begin(base), [told(peer, arrays) for peer, arrays in enumerate(sets)]


@pytest.mark.parametrize("turn", [1.0, 5.0])
@pytest.mark.parametrize("seed", range(20))
def test_who_turns_every_weight_and_keeps_honest_statistics_is_left_out(turn: float, seed: int) -> None:
    start, updates = attacked(turn, seed)
    assert multi_krum(1).merge(None, start, updates).weighed[updates[-1].peer].weight == 0
    assert updates[-1] not in cosine().apply(start, updates).updates
    weighed = geometric_median().merge(None, start, updates).weighed
    weights = [weighed[one.peer].weight or 0.0 for one in updates]
    assert weights[-1] < min(weights[:-1])


CHOOSING = [
    *(krum(1), multi_krum(1), geometric_median(), centered_clipping(), consistency()),
    *(composed([clip()], fed_avg()), composed([cosine()], fed_avg()), bulyan(1), median()),
]


@pytest.mark.parametrize("rule", CHOOSING, ids=lambda rule: rule.name)
@pytest.mark.parametrize("value", [-1e6, 0.0, 1e6])
def test_statistics_of_an_update_that_passes_stay_in_the_usual_range(rule: AggregationRule, value: float) -> None:
    """Its weights are those of another update, so that every rule takes it; its statistics would break the model."""
    start, updates = attacked(-1.0)
    honest = updates[:-1]
    hostile = {**updates[0].params, "mean": np.full(4, value), "variance": np.full(4, value), "seen": np.array(3)}
    result = rule.merge(None, start, [*honest, told(99, hostile)]).params
    for name in ("mean", "variance"):
        rows = np.array([one.params[name] for one in honest])
        spread = 5 * 1.4826 * np.median(np.abs(rows - np.median(rows, axis=0)), axis=0).max()
        assert (result[name] <= rows.max(axis=0) + spread).all()
        assert (result[name] >= rows.min(axis=0) - spread).all()
    assert (result["variance"] > 0).all()


def test_honest_statistics_are_hardly_moved() -> None:
    start, updates = attacked(-1.0)
    bounded = with_bounded_buffers(updates, start.schema)
    for name in ("mean", "variance"):
        before, after = (np.array([one.params[name] for one in some]) for some in (updates, bounded))
        assert (np.abs(after.mean(axis=0) - before.mean(axis=0)) <= 0.05 * before.std(axis=0)).all()
        assert (after == before).mean() > 0.95


def test_of_two_nobody_says_whose_statistics_are_odd() -> None:
    start, updates = attacked(-1.0)
    pair = [updates[0], told(1, {**updates[1].params, "mean": np.full(4, 1e6)})]
    assert with_bounded_buffers(pair, start.schema) == pair


def test_who_counts_for_nothing_does_not_say_what_is_usual() -> None:
    start, updates = attacked(-1.0)
    crowd = [told(50 + at, {**updates[0].params, "mean": np.full(4, 1e6)}, examples=0) for at in range(20)]
    bounded = with_bounded_buffers([*updates, *crowd], start.schema)
    assert bounded[: len(updates)] == with_bounded_buffers(updates, start.schema)


def test_statistics_that_moved_absurdly_far_are_refused_by_every_rule() -> None:
    """As weights are, by the screening before the plain mean, too."""
    start, updates = attacked(-1.0, mean=np.full(4, 1e9))
    screening = Screening(Bounds(), start.base, start.schema)
    screening.take(updates)
    assert list(screening.refused()) == [updates[-1].peer]
    words = screening.refused()[updates[-1].peer]
    assert words.startswith("its running statistics moved 2e+09 from the base of the round, more than 100 times")


def test_without_buffers_nothing_changes() -> None:
    start, updates = attacked(-1.0)
    plain = Schema.of(start.base)
    assert with_bounded_buffers(updates, plain) == updates
    assert plain.digest == start.schema.digest  # nodes of earlier versions go on averaging with these
