"""Filters before a rule: in their order, each over what the one before left."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from flnet.params import PeerId
from flnet.strategies import Strategy, bulyan, clip, composed, cosine, fed_avg, geometric_median, krum, median
from flnet.weighing import Weighed
from tests.helpers import update
from tests.strategies.robust import begun, elsewhere, tables, updates_of

RULES = [fed_avg(), median(), geometric_median(), krum(), bulyan()]
FILTERS = [clip(), cosine()]
EACH = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def test_the_name_is_that_of_all_parts() -> None:
    rule = composed([clip(), clip(2.5), cosine()], fed_avg())
    assert rule.name == "clip,clip:2.5,cosine,agg1"
    assert rule.needs_base
    assert rule.running is None


def test_without_filters_it_is_the_rule_itself() -> None:
    rule = fed_avg()
    assert composed([], rule) is rule


def test_each_filter_sees_what_the_one_before_left() -> None:
    """Changes 1, 1, 4 and -100: without the last one the median norm is 1; with it, too, and the -1 counts."""
    there = updates_of([[1.0], [1.0], [4.0], [-100.0]])
    gated = composed([cosine(), clip()], fed_avg()).merge(None, begun(w=[0.0]), there)
    assert gated.params["w"].tolist() == [1.0]
    clipped = composed([clip()], fed_avg()).merge(None, begun(w=[0.0]), there)
    assert clipped.params["w"].tolist() == [0.5]


def test_people_see_the_cosine_the_reason_and_the_weight() -> None:
    there = [*updates_of([[1.0], [3.0], [-2.0]]), update("z", examples=2, w=[2.0])]
    found = composed([cosine()], fed_avg()).merge(None, begun(w=[0.0]), there).weighed
    assert found[PeerId("p000")] == Weighed(0.25, cosine=1.0)
    assert found[PeerId("z")] == Weighed(0.5, cosine=1.0)
    out = found[PeerId("p002")]
    assert (out.weight, out.cosine, bool(out.reason)) == (0.0, -1.0, True)
    of_median = composed([cosine()], median()).merge(None, begun(w=[0.0]), there).weighed
    assert of_median[PeerId("p000")] == Weighed(None, cosine=1.0)
    assert of_median[PeerId("p002")].weight == 0.0


@EACH
def test_one_update_is_itself(rule: Strategy) -> None:
    there = updates_of([[0.1, -7.0]])
    merged = composed(FILTERS, rule).merge(None, begun(w=[5.0, 5.0]), there)
    assert merged.params["w"].tolist() == [0.1, -7.0]


@EACH
@given(table=tables)
def test_where_the_numbers_lie_changes_no_bit(rule: Strategy, table: Any) -> None:
    whole = composed(FILTERS, rule)
    there, start = updates_of(table), begun(w=[0.5] * len(table[0]))
    one, other = whole.merge(None, start, there), whole.merge(None, start, elsewhere(there))
    assert (one.params.digest, one.weighed) == (other.params.digest, other.weighed)


@EACH
def test_a_turned_and_stretched_update_does_not_count(rule: Strategy) -> None:
    """Six honest changes near (1, 2), and one of minus five times that."""
    honest = [[1.0, 2.0], [1.1, 2.1], [0.9, 1.9], [1.05, 2.0], [1.0, 1.95], [0.95, 2.05]]
    there = updates_of([*honest[:2], [-5.0, -10.0], *honest[2:]])
    merged = composed(FILTERS, rule).merge(None, begun(w=[0.0, 0.0]), there)
    assert merged.params["w"].tolist() == pytest.approx([1.0, 2.0], abs=0.11)
    assert merged.weighed[PeerId("p002")].weight == 0.0
