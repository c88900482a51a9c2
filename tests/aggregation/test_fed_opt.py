"""Optimisers over mean changes: numbers worked by hand, and what a node remembers that the others do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flnet.aggregation.base import AggregationRule, Merged, State
from flnet.aggregation.fed_avg import fed_avg
from flnet.aggregation.fed_opt import PERIOD, adaptive, fed_avg_m
from flnet.params.params import PeerId
from tests.aggregation.robust import begun, updates_of
from tests.helpers import update

RULES = [fed_avg_m(), adaptive("fedadam"), adaptive("fedyogi")]
EACH = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name.split(":")[0])


def course(rule: AggregationRule, changes: list[float], base: float = 0.0) -> list[float]:
    """The model after each round, in which all updates moved by this much."""
    result, state = [], None
    for number, change in enumerate(changes):
        merged = rule.merge(state, begun(number, w=[base]), updates_of([[base + change]] * 2))
        base, state = float(merged.params["w"][0]), merged.state
        result.append(base)
    return result


def test_momentum_adds_what_was_added_before() -> None:
    """Steps 1, 0.9 + 1 and 0.9 x 1.9 - 2."""
    assert course(fed_avg_m(), [1, 1, -2]) == pytest.approx([1, 2.9, 2.61])
    assert course(fed_avg_m(0.5, 0.5), [1, 1, -2]) == pytest.approx([0.5, 1.25, 0.625])


def test_without_momentum_it_is_the_mean() -> None:
    updates = [update("a", examples=1, w=[1.0]), update("b", examples=3, w=[5.0])]
    merged = fed_avg_m(1, 0).merge(None, begun(w=[2.0]), updates)
    assert merged.params == fed_avg().merge(None, begun(w=[2.0]), updates).params
    assert merged.weighed == fed_avg().merge(None, begun(w=[2.0]), updates).weighed


def test_adam_divides_by_the_root_of_the_mean_square() -> None:
    """With beta 0.5 and 0.75 and tau 1: moments 1 and 1.75 after a change of 2, then 0.5 and 1.3125 after 0."""
    first = 1 / (1.75**0.5 + 1)
    second = first + 0.5 / (1.3125**0.5 + 1)
    assert course(adaptive("fedadam", 1, (0.5, 0.75), 1), [2, 0]) == pytest.approx([first, second])


def test_yogi_moves_its_second_moment_towards_the_square_by_a_part_of_the_square() -> None:
    """From 1: towards 4 by a quarter of 4, then towards 1 by a quarter of 1."""
    first = 1 / (2**0.5 + 1)
    second = first + (0.5 + 0.5) / (1.75**0.5 + 1)
    assert course(adaptive("fedyogi", 1, (0.5, 0.75), 1), [2, 1]) == pytest.approx([first, second])


@EACH
def test_the_same_steps_as_with_whole_vectors(rule: AggregationRule) -> None:
    """Three rounds over more numbers than a block holds, beside the formulas."""
    chance, size = np.random.default_rng(5), 140_000
    base, state, first, second = np.zeros(size), None, np.zeros(size), np.full(size, 1e-6)
    for number in range(3):
        change = chance.normal(size=size)
        merged = rule.merge(
            state, begun(number, w=base), [update("a", w=(base + change)), update("b", w=(base + change))]
        )
        if rule.name.startswith("fedavgm"):
            first = 0.9 * first + change
            base = base + first
        else:
            first = 0.9 * first + 0.1 * change
            square = change**2
            adam = 0.99 * second + 0.01 * square
            second = adam if "adam" in rule.name else second - 0.01 * square * np.sign(second - square)
            base = base + 0.01 * first / (np.sqrt(second) + 1e-3)
        np.testing.assert_allclose(merged.params["w"], base, rtol=1e-9, atol=1e-9)
        base, state = merged.params["w"], merged.state


@EACH
def test_counters_take_the_maximum_and_shapes_stay(rule: AggregationRule) -> None:
    updates = [update("a", w=[[1.0], [2.0]], n=np.array(4)), update("b", w=[[1.0], [2.0]], n=np.array(7))]
    merged = rule.merge(None, begun(w=[[0.0], [0.0]], n=np.array(1)), updates)
    assert (int(merged.params["n"]), merged.params["w"].shape) == (7, (2, 1))


def merged_at(rule: AggregationRule, number: int, state: State, base: Any) -> Merged:
    return rule.merge(state, begun(number, w=base), updates_of([[1.0], [2.0]]))


@EACH
def test_who_joins_takes_own_steps_until_all_start_again(rule: AggregationRule) -> None:
    base: Any = [0.0]
    old: State = None
    new: State = None
    for number in range(PERIOD + 2):
        merged = merged_at(rule, number, old, base)
        assert merged.is_common
        if number >= PERIOD - 3:
            joined = merged_at(rule, number, new, base)
            assert joined.is_common is (number >= PERIOD)
            assert (joined.params == merged.params) is (number >= PERIOD)
            new = joined.state
        base, old = merged.params["w"], merged.state


@EACH
def test_who_adopts_a_model_keeps_its_moments_and_is_not_followed(rule: AggregationRule) -> None:
    first = merged_at(rule, 0, None, [0.0])
    own = merged_at(rule, 1, first.state, [5.0])
    assert not own.is_common
    assert own.params != merged_at(rule, 1, None, [5.0]).params
    away = merged_at(rule, 3, first.state, [5.0])
    assert away.params == merged_at(rule, 3, None, [5.0]).params


def test_the_name_says_all_numbers_and_the_weights_are_by_examples() -> None:
    assert [rule.name for rule in RULES] == [
        "fedavgm:1:0.9",
        "fedadam:0.01:0.9:0.99:0.001",
        "fedyogi:0.01:0.9:0.99:0.001",
    ]
    updates = [
        update("a", examples=1, w=[1.0]),
        update("b", examples=3, w=[5.0]),
        update("c", examples=0, w=[9.0]),
    ]
    weighed = fed_avg_m().merge(None, begun(w=[0.0]), updates).weighed
    assert [weighed[PeerId(name)].weight for name in "abc"] == [0.25, 0.75, 0.0]


@pytest.mark.parametrize("numbers", [(0.0, 0.9), (1.0, 1.0), (1.0, -0.1), (float("inf"), 0.9)])
def test_numbers_have_a_range(numbers: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        fed_avg_m(*numbers)
    with pytest.raises(ValueError, match="above 0"):
        adaptive("fedyogi", numbers[0], (0.9, numbers[1]))
