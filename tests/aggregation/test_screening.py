"""Screening and filters: which updates are refused, shortened or dropped, and which base is the common one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.aggregation.base import AggregationRule
from flnet.aggregation.fed_avg import fed_avg
from flnet.aggregation.krum import bulyan, krum
from flnet.aggregation.median import geometric_median, median
from flnet.aggregation.screening import (
    CLIP,
    FEWEST,
    LARGEST_UPDATE,
    USUAL,
    Bounds,
    Screening,
    clip,
    common_base,
    composed,
    cosine,
    cosines,
    too_far,
)
from flnet.params.arithmetic import distance
from flnet.params.params import Digest, Params, PeerId, Schema
from flnet.protocol.events import Weighed
from flnet.protocol.updates import Update
from tests.aggregation.robust import begun, elsewhere, tables, updates_of
from tests.helpers import key, params, update

BASE = params(w=[1, 1], b=[0])
SCHEMA = Schema.of(BASE)


def moved(name: str, by: float, base: str | None = None) -> Update:
    """An update that is `by` away from the base."""
    learnt = Params({"w": BASE["w"] + np.array([by, 0], np.float32), "b": BASE["b"]})
    return Update(PeerId(name), key(), learnt, 1, base=Digest(base) if base else None)


def screened(*updates: Update, bounds: Bounds = USUAL) -> Screening:
    made = Screening(bounds, BASE, SCHEMA)
    made.take(updates)
    return made


# --- the largest update


def test_the_one_that_moved_absurdly_far_is_refused_in_words() -> None:
    refused = screened(moved("a", 1), moved("b", 2), moved("c", 3), moved("evil", 201)).refused()
    assert list(refused) == ["evil"]
    assert refused[PeerId("evil")] == (
        "it moved 201 from the base of the round, more than 100 times the median of 2"
    )


@pytest.mark.parametrize(
    ("distances", "refused"),
    [
        ([1, 100.5], ""),  # of two nobody can say which is absurd
        ([1, 1, 100], ""),  # exactly the bound
        ([1, 1, 101], "c"),
        ([0, 1, 1000], ""),  # two moved
        ([0, 1, 1, 1000], "d"),
        ([1, 1, 1000, 1000], "cd"),  # half of them
        ([1e-9, 1, 1, 1], ""),  # nor can few make all others absurd
        ([1, 1, math.inf], "c"),
        ([math.inf] * 3, ""),
    ],
)
def test_who_is_refused(distances: list[float], refused: str) -> None:
    by_peer = {PeerId(name): one for name, one in zip("abcd", distances, strict=False)}
    assert "".join(too_far(by_peer, 100)) == refused


@given(st.lists(st.floats(0.01, 50), min_size=3, max_size=9), st.data())
def test_a_minority_cannot_have_honest_updates_refused(honest: list[float], data: st.DataObject) -> None:
    few = data.draw(st.lists(st.floats(0, 1e30), max_size=len(honest) - 1))
    named = [*(f"h{place}" for place in range(len(honest))), *(f"x{place}" for place in range(len(few)))]
    distances = {PeerId(name): value for name, value in zip(named, [*honest, *few], strict=True)}
    ratio = max(honest) / min(honest) * 1.001
    assert not [peer for peer in too_far(distances, ratio) if peer.startswith("h")]


@given(st.lists(st.floats(0, 1e300), max_size=8), st.floats(1, 1000))
def test_never_all_are_refused_and_the_order_does_not_matter(distances: list[float], ratio: float) -> None:
    by_peer = {PeerId(str(place)): one for place, one in enumerate(distances)}
    refused = too_far(by_peer, ratio)
    assert len(refused) <= max(0, len(distances) - 2)
    assert too_far(dict(reversed(by_peer.items())), ratio) == refused
    assert not refused or len(distances) >= FEWEST


def test_nothing_is_refused_where_it_is_turned_off() -> None:
    assert screened(moved("a", 1), moved("b", 1), moved("c", 1e9), bounds=Bounds(ratio=0)).refused() == {}


# --- clipping


def test_updates_are_measured_as_they_came_and_then_clipped() -> None:
    screening = Screening(Bounds(clip=2), BASE, SCHEMA)
    taken = screening.take([moved("a", 1), moved("b", 4), moved("c", 1000)])
    assert [distance(BASE, one.params, SCHEMA) for one in taken] == [1, 2, 2]
    assert screening.distances == {"a": 1, "b": 4, "c": 1000}
    assert list(screening.refused()) == ["c"]


# --- the base


@pytest.mark.parametrize(
    ("bases", "common"), [("", None), ("-", None), ("b", "b"), ("abb", "b"), ("ba", "a"), ("-a-", "a")]
)
def test_the_base_that_most_name_is_the_common_one(bases: str, common: str | None) -> None:
    assert common_base(None if each == "-" else Digest(each) for each in bases) == common


def test_a_node_knows_whether_it_decides_on_the_common_base() -> None:
    here, elsewhere = BASE.digest, "f" * 64
    assert screened(moved("a", 1, here), moved("b", 1, here), moved("c", 1, elsewhere)).is_common
    assert not screened(moved("a", 1, here), moved("b", 1, elsewhere), moved("c", 1, elsewhere)).is_common
    assert screened(moved("a", 1), moved("b", 1)).is_common  # callers of the thesis' form name none
    assert screened(moved("a", 1, elsewhere), bounds=Bounds(ratio=0)).is_common  # nothing is decided


def test_a_rule_that_measures_from_the_base_decides_too() -> None:
    for needs_base in (False, True):
        screening = Screening(Bounds(ratio=0), BASE, SCHEMA, needs_base)
        screening.take([moved("a", 1, "f" * 64)])
        assert screening.is_common is not needs_base


def test_naming_another_base_changes_no_distance() -> None:
    plain = screened(moved("a", 1), moved("b", 1), moved("c", 900))
    lying = screened(moved("a", 1), moved("b", 1), moved("c", 900, "f" * 64))
    assert plain.refused() == lying.refused() != {}


# --- what nodes agree on


def test_only_what_is_not_usual_is_stated() -> None:
    assert USUAL.stated() == {}
    assert Bounds(ratio=0, clip=1.5).stated() == {LARGEST_UPDATE: "any", CLIP: "to the norm 1.5"}
    assert replace(USUAL, ratio=10).stated() == {LARGEST_UPDATE: "10 x the median"}


def test_an_update_keeps_what_else_is_said_of_it() -> None:
    first = update("a", examples=7, w=[9, 1], b=[0])
    (taken,) = Screening(Bounds(clip=1), BASE, SCHEMA).take([first])
    assert (taken.peer, taken.key, taken.examples) == (first.peer, first.key, 7)


RULES = [fed_avg(), median(), geometric_median(), krum(), bulyan()]
small = st.integers(-3, 3).map(float) | st.floats(-9, 9, width=16)
FILTERS = [clip(), cosine()]
EACH = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def test_the_name_is_that_of_all_parts() -> None:
    rule = composed([clip(), clip(2.5), cosine()], fed_avg())
    assert rule.name == "clip,clip:2.5,cosine,agg1"
    assert rule.needs_base
    assert rule.running is None


def test_each_filter_sees_what_the_one_before_left() -> None:
    """Changes 1, 1, 4 and -100: without the last one the median norm is 1; with it, too, and the -1 counts."""
    updates = updates_of([[1.0], [1.0], [4.0], [-100.0]])
    gated = composed([cosine(), clip()], fed_avg()).merge(None, begun(w=[0.0]), updates)
    assert gated.params["w"].tolist() == [1.0]
    clipped = composed([clip()], fed_avg()).merge(None, begun(w=[0.0]), updates)
    assert clipped.params["w"].tolist() == [0.5]


def test_people_see_the_cosine_the_reason_and_the_weight() -> None:
    updates = [*updates_of([[1.0], [3.0], [-2.0]]), update("z", examples=2, w=[2.0])]
    result = composed([cosine()], fed_avg()).merge(None, begun(w=[0.0]), updates).weighed
    assert result[PeerId("p000")] == Weighed(0.25, cosine=1.0)
    assert result[PeerId("z")] == Weighed(0.5, cosine=1.0)
    out = result[PeerId("p002")]
    assert (out.weight, out.cosine, bool(out.reason)) == (0.0, -1.0, True)
    of_median = composed([cosine()], median()).merge(None, begun(w=[0.0]), updates).weighed
    assert of_median[PeerId("p000")] == Weighed(None, cosine=1.0)
    assert of_median[PeerId("p002")].weight == 0.0


@given(table=tables)
def test_where_the_numbers_lie_changes_no_bit(table: Any) -> None:
    whole = composed(FILTERS, fed_avg())
    updates, start = updates_of(table), begun(w=[0.5] * len(table[0]))
    one, other = whole.merge(None, start, updates), whole.merge(None, start, elsewhere(updates))
    assert (one.params.digest, one.weighed) == (other.params.digest, other.weighed)


@EACH
def test_a_turned_and_stretched_update_does_not_count(rule: AggregationRule) -> None:
    """Six honest changes near (1, 2), and one of minus five times that."""
    honest = [[1.0, 2.0], [1.1, 2.1], [0.9, 1.9], [1.05, 2.0], [1.0, 1.95], [0.95, 2.05]]
    updates = updates_of([*honest[:2], [-5.0, -10.0], *honest[2:]])
    merged = composed(FILTERS, rule).merge(None, begun(w=[0.0, 0.0]), updates)
    assert merged.params["w"].tolist() == pytest.approx([1.0, 2.0], abs=0.11)
    assert merged.weighed[PeerId("p002")].weight == 0.0


# Clipping to the median norm, or to a given one.


START = [1.0, 1.0]


def test_those_beyond_the_median_norm_are_shortened_to_it() -> None:
    updates = updates_of([[4.0, 5.0], [1.0, 2.0], [1.0, -99.0]])  # 5, 1 and 100 away
    result = clip().apply(begun(w=START), updates)
    assert [one.params["w"].tolist() for one in result.updates] == [[4, 5], [1, 2], [1, -4]]
    assert result.updates[1] is updates[1]
    assert result.weighed == {}


def test_of_an_even_number_the_lower_middle_counts() -> None:
    result = clip().apply(begun(w=[0.0]), updates_of([[1], [2], [3], [-40]]))
    assert [float(one.params["w"][0]) for one in result.updates] == [1, 2, 2, -2]


def test_who_did_not_move_nor_learn_has_no_part_in_the_median() -> None:
    updates = [*updates_of([[0], [0], [3], [3], [8]]), update("z", examples=0, w=[0.5])]
    result = clip().apply(begun(w=[0.0]), updates)
    assert [float(one.params["w"][0]) for one in result.updates] == [0, 0, 3, 3, 3, 0.5]


def test_of_two_neither_is_shortened_unless_a_norm_is_given() -> None:
    updates = updates_of([[1.0], [50.0]])
    assert clip().apply(begun(w=[0.0]), updates).updates == updates
    assert [float(one.params["w"][0]) for one in clip(2).apply(begun(w=[0.0]), updates).updates] == [1, 2]


def test_the_name_says_the_norm() -> None:
    assert (clip().name, clip(2.50).name) == ("clip", "clip:2.5")
    for most in (0.0, -1.0, float("inf")):
        with pytest.raises(ValueError, match="above 0"):
            clip(most)


@given(st.lists(st.floats(0.5, 100), min_size=3, max_size=9), st.data())
def test_a_minority_cannot_stretch_the_norm_beyond_the_honest_ones(
    honest: list[float], data: st.DataObject
) -> None:
    few = data.draw(st.lists(st.floats(-1e30, 1e30), max_size=len(honest) - 1))
    result = clip().apply(begun(w=[0.0]), updates_of([[value] for value in [*honest, *few]]))
    assert max(abs(float(one.params["w"][0])) for one in result.updates) <= max(honest) * (1 + 1e-12)


# The cosine filter: angles worked by hand, and who is left out.


def test_angles_are_those_to_the_median_of_the_changes() -> None:
    """Changes (1, 0), (0, 2), (2, 2): the median of each number is (1, 2)."""
    result = cosines(begun(w=[5.0, 5.0]), updates_of([[6, 5], [5, 7], [7, 7]]))
    assert list(result.values()) == pytest.approx([1 / 5**0.5, 2 / 5**0.5, 3 / 10**0.5], abs=1e-12)


@given(
    table=st.integers(3, 9).flatmap(
        lambda count: st.lists(st.lists(small, min_size=3, max_size=3), min_size=count, max_size=count)
    )
)
def test_from_four_on_the_median_is_that_of_the_others(table: list[list[float]]) -> None:
    rows = np.array(table)
    for value, (at, row) in zip(
        cosines(begun(w=[0.0] * 3), updates_of(table)).values(), enumerate(rows), strict=True
    ):
        others = np.delete(rows, at, axis=0) if len(rows) > 3 else rows
        median = np.median(others, axis=0)
        expected = None
        if row.any() and median.any():
            expected = float(row @ median) / float(np.linalg.norm(row)) / float(np.linalg.norm(median))
        assert value == (None if expected is None else pytest.approx(expected, abs=1e-9))


@pytest.mark.parametrize("agreement", [0.02, 0.1, 0.2, 0.5])
@pytest.mark.parametrize("count", [4, 5, 7])
def test_a_flipped_update_is_told_from_honest_ones_that_hardly_agree(count: int, agreement: float) -> None:
    """Specification, section 17: honest changes with this cosine between two of them, one of them times -1."""
    chance = np.random.default_rng(count)
    common, own = chance.normal(size=200_000), chance.normal(size=(count, 200_000))
    changes = np.sqrt(agreement) * common + np.sqrt(1 - agreement) * own
    changes[0] *= -1
    flipped, *honest = (
        value or 0.0 for value in cosines(begun(w=np.zeros(200_000)), updates_of(changes.tolist())).values()
    )
    assert flipped < 0 < min(honest)


def test_who_points_away_is_left_out_in_words() -> None:
    result = cosine().apply(begun(w=[1.0, 1.0]), updates_of([[2, 1], [2, 1.5], [-1, 1], [2, 0.5]]))
    assert [one.peer for one in result.updates] == ["p000", "p001", "p003"]
    out = result.weighed[PeerId("p002")]
    assert out.cosine == -1.0
    assert out.reason == "its change points away from the median of the other changes, with a cosine of -1.00"
    assert all(not each.reason for peer, each in result.weighed.items() if peer != "p002")
    right = cosine().apply(begun(w=[0.0, 0.0]), updates_of([[1, 0], [1, 0], [0, 1]]))  # a right angle
    assert [one.peer for one in right.updates] == ["p000", "p001"]


def test_of_two_nobody_can_say_which_one_points_away() -> None:
    updates = updates_of([[1.0], [-9.0]])
    result = cosine().apply(begun(w=[0.0]), updates)
    assert result.updates == updates
    assert result.weighed[PeerId("p000")].cosine == -1.0


def test_where_the_median_did_not_move_there_are_no_angles() -> None:
    updates = updates_of([[0.0], [1.0], [-1.0]])
    result = cosine().apply(begun(w=[0.0]), updates)
    assert result.updates == updates
    assert {value.cosine for value in result.weighed.values()} == {None}


def test_who_did_not_move_has_no_angle_and_counts() -> None:
    result = cosine().apply(begun(w=[0.0]), updates_of([[0.0], [1.0], [1.0]]))
    assert [value.cosine for value in result.weighed.values()] == [None, 1.0, 1.0]
    assert len(result.updates) == 3


def test_who_learnt_from_nothing_is_passed_on_unseen() -> None:
    updates = [*updates_of([[1.0], [1.0], [2.0]]), update("z", examples=0, w=[-5.0])]
    result = cosine().apply(begun(w=[0.0]), updates)
    assert result.updates == updates
    assert "z" not in result.weighed


def test_never_all_are_left_out() -> None:
    """Two of three numbers agree with the median of each, yet every change as a whole points away from it."""
    far = 100.0
    rows = [[1, 1, -far], [1, -far, 1], [-far, 1, 1]]
    result = cosine().apply(begun(w=[0.0, 0.0, 0.0]), updates_of(rows))
    assert all(value.cosine is not None and value.cosine < 0 for value in result.weighed.values())
    assert len(result.updates) == 3


def test_changes_too_large_to_be_computed_with_count_for_nothing() -> None:
    huge = float(np.finfo(np.float64).max)
    result = cosine().apply(begun(w=[0.0]), updates_of([[1.0], [1.0], [2.0], [1.0], [huge]]))
    assert [one.peer for one in result.updates] == ["p000", "p001", "p002", "p003"]
    assert result.weighed[PeerId("p004")].cosine == 0.0


def test_angles_are_those_of_numpy_over_many_numbers() -> None:
    changes = np.random.default_rng(3).normal(size=(5, 300_001)).astype("float32")
    changes[:4] += 0.5
    base = np.ones(300_001, "float32")
    updates = [update(f"p{at}", w=(base + row)) for at, row in enumerate(changes)]
    moved = np.stack([one.params["w"] for one in updates]).astype(float) - base
    medians = [np.median(np.delete(moved, at, axis=0), axis=0) for at in range(5)]
    expected = [
        row @ median / np.linalg.norm(row) / np.linalg.norm(median)
        for row, median in zip(moved, medians, strict=True)
    ]
    result = [value for value in cosines(begun(w=base), updates).values() if value is not None]
    np.testing.assert_allclose(result, expected, rtol=1e-12)
    assert not math.isclose(result[4], result[0], rel_tol=0.1)
