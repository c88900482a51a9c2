"""Optimisers over mean changes: numbers worked by hand, and what a node remembers that the others do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flnet.aggregation.base import AggregationRule, State
from flnet.aggregation.fed_avg import fed_avg
from flnet.aggregation.fed_opt import adaptive, fed_avg_m
from flnet.aggregation.screening import clip, composed
from flnet.errors import ParamsRefused
from flnet.params.params import Params, PeerId, Schema
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


@EACH
def test_the_moments_never_start_again(rule: AggregationRule) -> None:
    """Against one whose moments are carried over from round to round, and one whose moments begin in round 50."""
    base, state, late = np.zeros(1), None, None
    for number in range(60):
        updates = updates_of([base + 1.0, base + 3.0])
        carried = rule.merge(state, begun(number, w=base), updates)
        if number >= 50:
            begins = rule.merge(late, begun(number, w=base), updates)
            assert begins.params != carried.params
            late = begins.state
        base, state = carried.params["w"], carried.state
        assert carried.is_common


@EACH
def test_with_the_moments_of_another_node_it_makes_the_same_average_for_ever(rule: AggregationRule) -> None:
    assert rule.shared_memory is not None
    base, own = np.zeros(2), None
    for number in range(5):
        merged = rule.merge(own, begun(number, w=base), updates_of([base + 1.0, base - 3.0]))
        base, own = merged.params["w"], merged.state
    assert own is not None
    came = Params({name: np.array(array) for name, array in own.items()})
    other: State = rule.shared_memory.checked(came, begun(w=base).schema)
    for number in range(5, 10):
        start, updates = begun(number, w=base), updates_of([base + 2.0, base])
        mine, theirs = rule.merge(own, start, updates), rule.merge(other, start, updates)
        assert mine.params == theirs.params
        assert mine.state == theirs.state
        base, own, other = mine.params["w"], mine.state, theirs.state


@EACH
def test_who_adopts_a_model_or_was_away_keeps_its_moments(rule: AggregationRule) -> None:
    start, updates = begun(7, w=[5.0]), updates_of([[1.0], [2.0]])
    state = rule.merge(None, begun(0, w=[0.0]), updates).state
    assert rule.merge(state, start, updates).params != rule.merge(None, start, updates).params


@EACH
def test_a_memory_of_another_rule_or_model_is_none(rule: AggregationRule) -> None:
    start, updates = begun(1, w=[5.0]), updates_of([[1.0], [2.0]])
    fresh = rule.merge(None, start, updates).params
    others = [adaptive("fedadam", 0.5), fed_avg_m(0.5), fed_avg()]
    states = [other.merge(None, begun(w=[0.0]), updates).state for other in others]
    wider = rule.merge(None, begun(w=[0.0, 0.0]), updates_of([[1.0, 1.0]])).state
    for state in (*states, wider, Params({"first moment": np.zeros(1)})):
        assert rule.merge(state, start, updates).params == fresh


@EACH
def test_only_a_memory_of_the_form_that_the_rule_makes_is_taken_from_elsewhere(rule: AggregationRule) -> None:
    shared, start = rule.shared_memory, begun(w=[[5.0], [1.0]], n=np.array(3))
    assert shared is not None
    one = update("a", w=[[1.0], [2.0]], n=np.array(4))
    made = rule.merge(None, start, [one]).state
    assert made is not None
    assert shared.form(start.schema).specs == Schema.of(made).specs
    assert shared.checked(made, start.schema) is made
    size = made["second moment"].size
    wrong: list[dict[str, Any]] = [
        {"first moment": np.zeros(3)},
        {"first moment": np.full(2, np.inf)},
        {"second moment": np.full(size, -1.0) if size else np.ones(2)},
        {"rule": made["rule"][::-1]},
        {"w": np.zeros(2)},
    ]
    for changed in wrong:
        with pytest.raises(ParamsRefused):
            shared.checked(made.merged_with(changed), start.schema)


def test_filters_leave_the_memory_what_it_is() -> None:
    assert composed([clip()], RULES[0]).shared_memory is RULES[0].shared_memory


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
