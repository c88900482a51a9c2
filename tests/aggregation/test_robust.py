"""What holds for every aggregation rule that bears hostile updates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from flnet.aggregation.base import AggregationRule, RoundStart
from flnet.aggregation.krum import bulyan, krum, multi_krum
from flnet.aggregation.median import geometric_median, median
from flnet.aggregation.trimmed_mean import trimmed_mean, winsorised_mean
from flnet.params.params import Schema
from tests.aggregation.robust import elsewhere, merged, tables, updates_of, w
from tests.helpers import update

RULES = [
    *(median(), trimmed_mean(), trimmed_mean(0.4), winsorised_mean(), geometric_median(), krum(), multi_krum()),
    bulyan(),
]
EACH = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


@EACH
def test_a_rule_that_compares_updates_needs_them_all_and_keeps_no_state(rule: AggregationRule) -> None:
    assert rule.running is None
    one = update("a", w=[1.0])
    assert rule.merge(None, RoundStart(Schema.of(one.params), one.params), [one]).state is None


@EACH
def test_one_update_is_itself(rule: AggregationRule) -> None:
    assert w(rule, [[0.1, -7.0]]) == [0.1, -7.0]


@EACH
@given(table=tables)
def test_what_a_rule_gives_lies_among_the_updates(rule: AggregationRule, table: list[list[float]]) -> None:
    result = np.array(w(rule, table))
    rows = np.array(table)
    slack = 1e-9 * np.abs(rows).max() + 1e-300
    assert (result >= rows.min(axis=0) - slack).all()
    assert (result <= rows.max(axis=0) + slack).all()


@EACH
@given(table=tables)
def test_where_the_numbers_lie_changes_no_bit(rule: AggregationRule, table: Any) -> None:
    updates = updates_of(table)
    assert merged(rule, elsewhere(updates)).digest == merged(rule, updates).digest


@EACH
def test_one_liar_of_seven_is_borne(rule: AggregationRule) -> None:
    """Six honest updates near (1, 2), and one that would take the mean to a million."""
    honest = [[1.0, 2.0], [1.1, 2.1], [0.9, 1.9], [1.05, 2.0], [1.0, 1.95], [0.95, 2.05]]
    result = w(rule, [*honest[:2], [-7e6, 7e6], *honest[2:]])
    assert result == pytest.approx([1.0, 2.0], abs=0.11)


@EACH
def test_who_learnt_from_nothing_does_not_count(rule: AggregationRule) -> None:
    updates = [update("a", w=[1.0]), update("b", w=[3.0]), update("c", examples=0, w=[50.0])]
    assert merged(rule, updates) == merged(rule, updates[:2])
    nobody = [update("a", examples=0, w=[1.0]), update("b", examples=0, w=[3.0])]
    assert merged(rule, nobody)["w"].tolist() == [2.0]


@EACH
def test_numbers_near_the_largest_do_not_overflow(rule: AggregationRule) -> None:
    huge = float(np.finfo(np.float64).max)
    assert w(rule, [[huge], [huge], [huge]]) == pytest.approx([huge])
    assert np.isfinite(w(rule, [[huge], [-huge], [huge], [1.0]])).all()


@EACH
def test_a_batch_counter_takes_the_maximum(rule: AggregationRule) -> None:
    updates = [update(name, n=np.array(count), w=[1.0]) for name, count in (("a", 3), ("b", 9), ("c", 4))]
    result = int(merged(rule, updates)["n"])
    chosen_by_krum = rule.name.startswith(("krum", "multi-krum"))
    assert result in ((3, 4, 9) if chosen_by_krum else (9,))
