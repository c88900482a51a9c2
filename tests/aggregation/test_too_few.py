"""Rules that bear no hostile update among so few: they take the median, and say so.

Specification, section 17: a trimmed mean drops one at each end from 1 / part updates on, Krum needs 2 f + 3, Bulyan
4 f + 3.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from flnet.aggregation.base import AggregationRule, Merged, RoundStart, note_of_lateness
from flnet.aggregation.fed_avg import fed_avg
from flnet.aggregation.krum import bulyan, krum, multi_krum
from flnet.aggregation.median import median
from flnet.aggregation.screening import clip, composed
from flnet.aggregation.trimmed_mean import trimmed_mean
from flnet.algorithms.registry import RULES, parse_rule
from flnet.params.params import Params, Schema
from tests.aggregation.robust import updates_of
from tests.helpers import update

LEAST: dict[Callable[[], AggregationRule], int] = {
    lambda: trimmed_mean(0.2): 5,
    lambda: trimmed_mean(0.1): 10,
    lambda: krum(1): 5,
    lambda: krum(9): 21,
    lambda: multi_krum(2): 7,
    lambda: bulyan(1): 7,
    lambda: bulyan(2): 11,
}
EACH = pytest.mark.parametrize(("make", "least"), LEAST.items(), ids=[make().name for make in LEAST])
ROWS = np.random.default_rng(3).normal(size=(30, 4)).tolist()


def merged(rule: AggregationRule, count: int) -> Merged:
    updates = updates_of(ROWS[:count])
    first = updates[0].params
    return rule.merge(Params({"kept": np.ones(1)}), RoundStart(Schema.of(first), first), updates)


@EACH
def test_one_fewer_than_it_needs_have_their_median(make: Callable[[], AggregationRule], least: int) -> None:
    rule, count = make(), least - 1
    result = merged(rule, count)
    assert result.params == merged(median(), count).params
    taken = (
        "mean was taken, which keeps no hostile update out" if count < 3 else "coordinate-wise median was taken"
    )
    assert result.note == f"{count} updates are too few for {rule.name}, which needs {least}: their {taken}"
    assert result.state is not None  # what another rule remembers stays


@EACH
def test_as_many_as_it_needs_are_merged_by_the_rule(make: Callable[[], AggregationRule], least: int) -> None:
    result = merged(make(), least)
    assert make().least == least
    assert result.params != merged(median(), least).params
    assert result.note == ""


def test_a_hostile_update_among_four_does_not_pass_as_their_mean() -> None:
    rows = [[1.0], [2.0], [3.0], [-1e9]]
    updates = updates_of(rows)
    start = RoundStart(Schema.of(updates[0].params), updates[0].params)
    assert trimmed_mean(0.2).merge(None, start, updates).params["w"].tolist() == [1.5]
    assert bulyan(1).merge(None, start, updates).params["w"].tolist() == [1.5]


def test_a_filter_passes_on_what_the_rule_says() -> None:
    assert merged(composed([clip()], krum(1)), 4).note == merged(krum(1), 4).note != ""


def test_an_update_alone_is_taken_without_a_word() -> None:
    assert merged(krum(1), 1) == Merged(updates_of(ROWS[:1])[0].params, Params({"kept": np.ones(1)}))


def test_rules_without_weights_say_that_late_updates_count_in_full() -> None:
    late = update("slow", w=[1.0])
    object.__setattr__(late, "staleness", 2)
    updates = [*updates_of([[0.0]] * 6), late]
    assert note_of_lateness(median(), updates) == "late updates count in full under median: slow"
    assert note_of_lateness(median(), updates[:-1]) == note_of_lateness(fed_avg(), updates) == ""
    start = RoundStart(Schema.of(late.params), late.params)
    in_time = [*updates[:-1], update("slow", w=[1.0])]
    for name in RULES:
        rule = parse_rule(name)
        if name != "k-means":
            weighs = rule.merge(None, start, updates).params != rule.merge(None, start, in_time).params
            assert weighs is False if rule.ignores_lateness else True, name
