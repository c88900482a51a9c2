"""Federated averaging, against the oracles O1 and the properties of the algorithms' specification."""

from __future__ import annotations

import itertools
import tracemalloc
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flnet.aggregation.base import RoundStart, Running, lateness
from flnet.aggregation.fed_avg import Weighting, fed_avg
from flnet.params.params import Params, Schema
from flnet.protocol.updates import Update
from tests.helpers import update

THREE = [
    update("node-1", examples=10, labels=2, w=[1, 2]),
    update("node-2", examples=20, labels=3, w=[3, 6]),
    update("node-3", examples=70, labels=5, w=[8, -2]),
]
RULES: tuple[Weighting, ...] = ("agg0", "agg1", "agg2")


def average(weighting: Weighting, updates: list[Update]) -> Params:
    strategy = fed_avg(weighting)
    first = updates[0].params
    merged, state, *_ = strategy.merge(None, RoundStart(Schema.of(first), first), updates)
    assert state is None
    return merged


def w(weighting: Weighting, updates: list[Update]) -> Any:
    return average(weighting, updates)["w"].tolist()


@pytest.mark.parametrize(
    ("weighting", "expected"),
    [
        ("agg0", [4, 2]),  # (1+3+8)/3, (2+6-2)/3
        ("agg1", [6.3, 0]),  # (10*1+20*3+70*8)/100, (20+120-140)/100
        ("agg2", [300 / 43, -30 / 43]),  # 20, 60, 350 of 430
    ],
)
def test_o1_three_nodes(weighting: Weighting, expected: list[float]) -> None:
    assert w(weighting, THREE) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("weighting", "expected"), [("agg0", [2, 4]), ("agg1", [7 / 3, 14 / 3]), ("agg2", [2.5, 5])]
)
def test_o1_node_3_missing(weighting: Weighting, expected: list[float]) -> None:
    assert w(weighting, THREE[:2]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("weighting", RULES)
def test_o1_nobody_has_examples(weighting: Weighting) -> None:
    assert w(weighting, [update("a", examples=0, w=[1, 3]), update("b", examples=0, w=[3, 5])]) == [2, 4]


@pytest.mark.parametrize("weighting", RULES)
@pytest.mark.parametrize("examples", [0, 1, None])
def test_o1_one_node_is_the_identity(weighting: Weighting, examples: int | None) -> None:
    only = update("a", examples=examples, w=[0.1, -7])
    assert average(weighting, [only]) == only.params


@pytest.mark.parametrize("weighting", RULES)
def test_a_peer_without_examples_says_nothing(weighting: Weighting) -> None:
    assert w(weighting, [update("a", examples=0, w=[100]), update("b", examples=5, w=[2])]) == [2]  # rule R4


def test_who_states_no_examples_counts_as_the_mean_of_the_others() -> None:
    assert w(
        "agg1", [update("a", examples=None, w=[0]), update("b", examples=1, w=[3]), update("c", examples=3, w=[6])]
    ) == [
        3.5  # 2, 1 and 3 of 6: (0*2 + 3*1 + 6*3) / 6
    ]
    assert w("agg1", [update("a", examples=None, w=[0]), update("b", examples=None, w=[3])]) == [1.5]


def test_a_batch_counter_takes_the_maximum() -> None:
    one = [update("a", examples=1, n=np.array(7), w=[0.0]), update("b", examples=9, n=np.array(3), w=[1.0])]
    merged = average("agg1", one)
    assert (merged["n"].dtype.name, int(merged["n"])) == ("int64", 7)  # rule R6


@pytest.mark.parametrize(  # who states no examples counts as the mean of the others, (1 + 3 + 0) / 3 of 16 / 3
    ("weighting", "expected"), [("agg0", [1 / 3, 1 / 3, 0, 1 / 3]), ("agg1", [3 / 16, 9 / 16, 0, 1 / 4])]
)
def test_each_share_of_the_average_is_told(weighting: Weighting, expected: list[float]) -> None:
    stated: list[int | None] = [1, 3, 0, None]
    updates = [update(name, examples=each, w=[1.0]) for name, each in zip("abcd", stated, strict=True)]
    start = RoundStart(Schema.of(updates[0].params), updates[0].params)
    weighed = fed_avg(weighting).merge(None, start, updates).weighed
    assert [weighed[one.peer].weight for one in updates] == pytest.approx(expected)


numbers = st.floats(-1e6, 1e6, width=32)
peers = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(1, 40), numbers, numbers), min_size=2, max_size=6
).map(
    lambda rows: [
        update(f"p{i}", examples=n, labels=m, w=np.array(pair, np.float32)) for i, (n, m, *pair) in enumerate(rows)
    ]
)  # fmt: skip


@pytest.mark.parametrize("weighting", RULES)
@given(updates=peers)
def test_identical_inputs_are_their_average(weighting: Weighting, updates: list[Update]) -> None:
    same = Params({"w": updates[0].params["w"] + np.float32(0)})  # a sum has no negative zero
    alike = [Update(u.peer, u.key, same, u.examples, u.labels) for u in updates]
    assert average(weighting, alike) == same


def test_a_late_update_counts_for_less() -> None:
    """Three rounds late it counts half: (10 * 1 + 5 * 4) / 15."""
    late = replace(update("node-2", examples=10, w=[4]), staleness=3)
    assert w("agg1", [update("node-1", examples=10, w=[1]), late]) == [2]
    assert w("agg0", [update("node-1", examples=7, w=[1]), late]) == [2]
    assert [lateness(rounds) for rounds in (0, 3, 8)] == [1, 0.5, 1 / 3]


def test_a_late_update_counts_the_same_however_they_come() -> None:
    updates = [replace(each, staleness=place) for place, each in enumerate(THREE)]
    running = fed_avg("agg1").running
    assert running is not None
    one_by_one = running(None, RoundStart(Schema.of(updates[0].params), updates[0].params))
    for one in updates:
        one_by_one.add([one])
    assert one_by_one.result().params == average("agg1", updates)


MIB = 2**20


def begun(weighting: Weighting, schema: Schema) -> Running:
    begin = fed_avg(weighting).running
    assert begin is not None
    return begin(None, start(schema))


def start(schema: Schema) -> RoundStart:
    return RoundStart(schema, Params())


def folded(weighting: Weighting, groups: Sequence[Sequence[Update]], schema: Schema) -> Params:
    running = begun(weighting, schema)
    for group in groups:
        running.add(group)
    merged, state, *_ = running.result()
    assert state is None
    return merged


def schema_of(updates: Sequence[Update]) -> Schema:
    return Schema.of(updates[0].params, {"low": "min"})


def one_update(name: str, row: tuple[Any, ...]) -> Update:
    examples, labels, narrow, wide, whole = row
    w, n = np.array(narrow, np.float32), np.array(whole)
    return update(name, examples=examples, labels=labels, w=w, d=np.array(wide), n=n, low=n)


def row(examples: Any, labels: Any = 1, narrow: Any = (0.1, -0.0), wide: float = 0.1) -> tuple[Any, ...]:
    return examples, labels, list(narrow), wide, 3


rows = st.tuples(
    st.none() | st.sampled_from([0, 1, 10**12]) | st.integers(0, 10**6),
    st.sampled_from([0, 1, 3, 10**6]),
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=2, max_size=2),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-9, 9),
)


@pytest.mark.parametrize("weighting", RULES)
@given(st.lists(rows, min_size=1, max_size=6), st.data())
@example([row(0), row(None, 0), row(0)], None)
@example([row(None, 0), row(5, 0), row(None, 2)], None)
@example([row(0), row(0), row(7), row(None)], None)
@example([row(None), row(None)], None)
@example([row(3)], None)
def test_any_grouping_gives_the_bits_of_all_at_once(
    weighting: Weighting, came: list[tuple[Any, ...]], data: st.DataObject | None
) -> None:
    updates = [one_update(f"p{i}", one) for i, one in enumerate(came)]
    schema = schema_of(updates)
    at_once = fed_avg(weighting).merge(None, start(schema), updates).params
    every = range(1, len(updates))
    cuts = every if data is None else data.draw(st.lists(st.sampled_from([0, *every]), max_size=6).map(sorted))
    groups = [updates[a:b] for a, b in itertools.pairwise([0, *cuts, len(updates)])]
    assert folded(weighting, groups, schema).digest == at_once.digest
    assert all(np.isfinite(array).all() for array in at_once.values())
    assert schema.conform(at_once) == at_once


@pytest.mark.parametrize("size", [131_071, 131_072, 131_073, 270_000])
def test_blocks_fold_like_the_whole(size: int) -> None:
    rng = np.random.default_rng(size)
    updates = [update(f"p{i}", examples=i, w=rng.normal(size=size), b=rng.normal(size=3)) for i in range(1, 5)]
    at_once = fed_avg().merge(None, start(schema_of(updates)), updates).params
    for groups in ([[one] for one in updates], [updates[:1], updates[1:]], [updates[:3], updates[3:]]):
        assert folded("agg1", groups, schema_of(updates)).digest == at_once.digest


@pytest.mark.parametrize("weighting", RULES)
@pytest.mark.parametrize("examples", [0, 3, None])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_one_update_comes_back_bit_by_bit(weighting: Weighting, examples: int | None, dtype: str) -> None:
    rng = np.random.default_rng(3)
    limits = np.finfo(dtype)
    edges = np.array([-0.0, limits.max, limits.min, limits.tiny, limits.smallest_subnormal], dtype)
    numbers = np.concatenate([rng.normal(size=500).astype(dtype), edges])
    only = update("a", examples=examples, labels=7, w=numbers, n=np.array(5))
    assert folded(weighting, [[only]], schema_of([only])) == only.params


def test_nobody_learns_from_nothing_nor_twice() -> None:
    running = begun("agg1", Schema.of(Params({"n": np.array(1)})))
    with pytest.raises(ValueError, match="nothing to merge"):
        running.result()
    running.add([update("a", n=np.array(4))])
    assert int(running.result().params["n"]) == 4
    with pytest.raises(ValueError, match="handed out before"):
        running.result()


def large(count: int, nbytes: int) -> Iterator[Update]:
    for i in range(count):
        yield update(f"p{i}", examples=i + 1, w=np.full(nbytes // 4, i, np.float32), n=np.full(9, i))


def test_what_was_added_is_let_go_of() -> None:
    came = list(large(2, 1024))
    running, schema = begun("agg1", schema_of(came)), schema_of(came)
    arrays = [weakref.ref(array) for one in came for array in one.params.values()]
    running.add(came)
    del came
    assert [array() for array in arrays] == [None] * 4
    assert running.result().params.keys() == schema.specs.keys()


def test_ten_updates_one_at_a_time_fit_in_four_times_the_memory_of_one() -> None:
    size = 16 * MIB
    running = begun("agg1", schema_of(list(large(1, size))))
    tracemalloc.start()
    try:
        for each in large(10, size):
            running.add([each])
        peak_of_sums = tracemalloc.get_traced_memory()[1]
        merged = running.result().params
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert merged["w"][0] == 6  # sum of i (i + 1) for i below 10, over 55
    assert peak_of_sums < 4.2 * size  # the sum, twice as wide, the update in hand and the next one being made
    assert peak < 4.2 * size  # the sum, the last update and the result


def test_all_at_once_needs_memory_for_the_result_only() -> None:
    size = 16 * MIB
    updates = list(large(5, size))
    tracemalloc.start()
    try:
        fed_avg().merge(None, start(schema_of(updates)), updates)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.3 * size


def test_the_sum_of_an_array_is_given_back_once_its_mean_is_there() -> None:
    size = 4 * MIB
    arrays: dict[str, Any] = {name: np.ones(size // 4, np.float32) for name in "abcdefgh"}
    running = begun("agg1", Schema.of(arrays))
    tracemalloc.start()
    try:
        running.add([update("p", examples=2, **arrays)])
        running.result()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (2 * 8 + 2) * size  # all sums, one mean, and less than another for work
