"""Federated averaging, against the oracles O1 and the properties of the algorithms' specification."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.params import Params, Schema, Update
from flnet.strategies import RoundStart
from flnet.strategies.counting import lateness
from flnet.strategies.fed_avg import Weighting, fed_avg
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


def test_the_default_weighs_by_examples() -> None:
    assert fed_avg().name == "agg1"


@pytest.mark.parametrize(  # who states no examples counts as the mean of the others, (1 + 3 + 0) / 3 of 16 / 3
    ("weighting", "expected"), [("agg0", [1 / 3, 1 / 3, 0, 1 / 3]), ("agg1", [3 / 16, 9 / 16, 0, 1 / 4])]
)
def test_each_share_of_the_average_is_told(weighting: Weighting, expected: list[float]) -> None:
    stated: list[int | None] = [1, 3, 0, None]
    updates = [update(name, examples=one, w=[1.0]) for name, one in zip("abcd", stated, strict=True)]
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


def assert_close(one: Params, other: Params, updates: list[Update]) -> None:
    """Equal up to the last bit of float32, and to the rounding of a float64 sum where large numbers cancel out."""
    largest = float(max(abs(u.params["w"]).max() for u in updates))
    np.testing.assert_allclose(one["w"], other["w"], rtol=2.0**-23, atol=2.0**-48 * largest)


@pytest.mark.parametrize("weighting", RULES)
@given(updates=peers, rng=st.randoms())
def test_arrival_order_changes_no_bit(weighting: Weighting, updates: list[Update], rng: Any) -> None:
    arrived = list(updates)
    rng.shuffle(arrived)
    in_order = sorted(arrived, key=lambda one: one.peer)
    assert average(weighting, in_order).digest == average(weighting, updates).digest


@pytest.mark.parametrize("weighting", RULES)
@given(updates=peers)
def test_a_message_that_came_twice_counts_once(weighting: Weighting, updates: list[Update]) -> None:
    by_peer = {one.peer: one for one in [*updates, updates[0]]}
    assert average(weighting, list(by_peer.values())).digest == average(weighting, updates).digest


@given(updates=peers, n=st.integers(1, 10**6))
def test_agg1_with_equal_examples_is_agg0(updates: list[Update], n: int) -> None:
    equal = [Update(u.peer, u.key, u.params, n, u.labels) for u in updates]
    assert_close(average("agg1", equal), average("agg0", equal), updates)


@given(updates=peers, m=st.sampled_from([1, 2, 4, 3, 7]))
def test_agg2_with_equal_labels_is_agg1(updates: list[Update], m: int) -> None:
    equal = [Update(u.peer, u.key, u.params, u.examples, m) for u in updates]
    assert_close(average("agg2", equal), average("agg1", equal), updates)


@pytest.mark.parametrize("weighting", RULES)
@given(updates=peers)
def test_identical_inputs_are_their_average(weighting: Weighting, updates: list[Update]) -> None:
    same = Params({"w": updates[0].params["w"] + np.float32(0)})  # a sum has no negative zero
    alike = [Update(u.peer, u.key, same, u.examples, u.labels) for u in updates]
    assert average(weighting, alike) == same


def test_different_sets_give_different_digests() -> None:
    digests = {average("agg1", list(some)).digest for k in (1, 2, 3) for some in itertools.combinations(THREE, k)}
    assert len(digests) == 7


def test_a_late_update_counts_for_less() -> None:
    """Three rounds late it counts half: (10 * 1 + 5 * 4) / 15."""
    late = replace(update("node-2", examples=10, w=[4]), staleness=3)
    assert w("agg1", [update("node-1", examples=10, w=[1]), late]) == [2]
    assert w("agg0", [update("node-1", examples=7, w=[1]), late]) == [2]
    assert [lateness(rounds) for rounds in (0, 3, 8)] == [1, 0.5, 1 / 3]


def test_a_late_update_counts_the_same_however_they_come() -> None:
    updates = [replace(one, staleness=place) for place, one in enumerate(THREE)]
    running = fed_avg("agg1").running
    assert running is not None
    one_by_one = running(None, RoundStart(Schema.of(updates[0].params), updates[0].params))
    for one in updates:
        one_by_one.add([one])
    assert one_by_one.result().params == average("agg1", updates)
