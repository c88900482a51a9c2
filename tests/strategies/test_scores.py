"""Weights from scores: the numbers of the specification, and what scale does to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.params import PeerId
from flnet.strategies.scores import KINDS, Kind, mean_scores, shares_of_distance, weights


def by_peer(values: Sequence[float]) -> dict[PeerId, float]:
    return {PeerId(f"p{at}"): one for at, one in enumerate(values)}


def counts(values: Sequence[float], kind: Kind) -> list[float]:
    given = by_peer(values)
    return list(weights(given if kind == "raw" else shares_of_distance(given), kind).values())


@pytest.mark.parametrize(
    ("kind", "most", "least"),
    [
        ("raw", 0.2418183609, 0.0327265564),
        ("shares", 0.2104608606, 0.1581565578),
        ("mad", 0.25, 0.0),
        ("ratio", 0.2499971625, 0.0000113499),
    ],
)
def test_o9_of_five_distances(kind: Kind, most: float, least: float) -> None:
    assert counts([1, 1, 1, 1, 3], kind) == pytest.approx([most] * 4 + [least], abs=1e-9)


def test_o9_of_three_distances() -> None:
    d = [0.3041381265, 0.3041381265, 2.7536339626]
    assert counts(d, "raw") == pytest.approx([0.4793089277, 0.4793089277, 0.0413821445], abs=1e-9)
    assert counts(d, "shares") == pytest.approx([0.4028062741, 0.4028062741, 0.1943874518], abs=1e-9)
    assert counts(d, "mad") == [0.5, 0.5, 0.0]
    shares = shares_of_distance(by_peer(d))
    assert list(shares.values()) == pytest.approx([0.0904658682, 0.0904658682, 0.8190682636], abs=1e-9)


def test_o9_of_scores_that_differ() -> None:
    found = list(weights(by_peer([0.9, 1, 1.1, 1.2, 1.6]), "mad").values())
    assert found == pytest.approx([0.2351013789] * 4 + [0.0595944842], abs=1e-9)


def test_o9_all_distance_on_one_leaves_it_a_weight_unless_it_is_compared_with_the_median() -> None:
    assert counts([0, 0, 0, 0, 1], "shares")[-1] == pytest.approx(0.0842238084, abs=1e-9)
    assert counts([0, 0, 0, 0, 1], "mad") == counts([0, 0, 0, 0, 1], "ratio") == [0.25] * 4 + [0]


@pytest.mark.parametrize(("window", "expected"), [(2, [0.1875, 0.1875, 0.625]), (3, [5 / 24, 5 / 24, 7 / 12])])
def test_o9_the_mean_over_a_window(window: int, expected: list[float]) -> None:
    rows = [shares_of_distance(by_peer(row)) for row in ([1, 1, 2], [1, 1, 2], [1, 1, 6])]
    found = mean_scores(rows[-window:], list(rows[0]))
    assert list(found.values()) == pytest.approx(expected, abs=1e-12)


def test_who_was_away_has_the_mean_of_the_rounds_in_which_it_was_there() -> None:
    rows = [by_peer([1, 5]), by_peer([3])]
    assert mean_scores(rows, [PeerId("p0"), PeerId("p1"), PeerId("new")]) == {"p0": 2, "p1": 5}


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=9), st.sampled_from(KINDS))
def test_weights_are_shares_and_fall_with_the_score(values: list[float], kind: Kind) -> None:
    found = counts(values, kind)
    assert math.fsum(found) == pytest.approx(1)
    ordered = [one for _, one in sorted(zip(values, found, strict=True))]
    assert all(0 <= later <= earlier for earlier, later in pairwise(ordered))


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=9), st.sampled_from(["mad", "ratio", "shares"]))
def test_the_scale_of_updates_changes_nothing_but_for_the_printed_form(values: list[float], kind: Kind) -> None:
    assert counts([1000 * one for one in values], kind) == pytest.approx(counts(values, kind), abs=1e-8)


def test_the_printed_form_depends_on_the_scale() -> None:
    assert counts([1, 1, 1.1], "raw")[-1] == pytest.approx(0.3115, abs=1e-3)
    assert counts([1000, 1000, 1100], "raw")[-1] == 0.0


def test_without_any_distance_all_count_alike() -> None:
    for kind in KINDS:
        assert counts([0, 0, 0, 0], kind) == [0.25] * 4


def test_infinitely_far_counts_for_nothing() -> None:
    assert list(weights(by_peer([1, 1, math.inf]), "raw").values()) == [0.5, 0.5, 0]
