"""Weights by consistency, from the first round on: the specification's numbers, who is late, new or away."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.aggregation.base import AggregationRule, Merged, State, array_of, text_of
from flnet.aggregation.consistency import KINDS, Kind, consistency, mean_scores, shares_of_distance, weights
from flnet.params.params import Digest, Params, PeerId
from flnet.protocol.updates import Update
from tests.aggregation.robust import begun, elsewhere, updates_of
from tests.helpers import update

WORDS = "it changed otherwise than its earlier updates let expect"
BASES = [[0.0, 0.0], [1.0, 0.0], [1.5, 0.5]]
CHANGES: list[list[list[float]]] = [
    [[-1.0, 0], [-1, -0.2], [-1, 0.2]],
    [[-0.5, -0.4], [-0.6, -0.5], [-0.4, -0.6]],
    [[-0.2, -0.1], [-0.3, -0.2], [2, 1]],
]


def sent(base: Any, changes: Any) -> list[Update]:
    """Updates of p0, p1 and so on."""
    return [update(f"p{at}", w=(np.array(base) - change)) for at, change in enumerate(changes)]


def played(rule: AggregationRule, bases: Any, changes: Any, state: State = None) -> Merged:
    """The last of several rounds."""
    merged = Merged(Params(), state)
    for number, (base, row) in enumerate(zip(bases, changes, strict=True)):
        merged = rule.merge(merged.state, begun(number, w=base), sent(base, row))
    return merged


def counted(merged: Merged) -> list[float]:
    return [each.weight or 0.0 for _, each in sorted(merged.weighed.items())]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("mad", [0.5, 0.5, 0.0]),
        ("rows", [0.5, 0.5, 0.0]),
        ("bounded", [0.5, 0.5, 0.0]),
        ("raw", [0.4793089277, 0.4793089277, 0.0413821445]),
        ("shares", [0.4028062741, 0.4028062741, 0.1943874518]),
    ],
)
def test_o9_weights_of_the_third_round(kind: Any, expected: list[float]) -> None:
    merged = played(consistency(kind), BASES, CHANGES)
    assert counted(merged) == pytest.approx(expected, abs=1e-9)
    models = [np.array(BASES[2]) - change for change in CHANGES[2]]
    assert merged.params["w"] == pytest.approx(sum(w * m for w, m in zip(expected, models, strict=True)), abs=1e-9)
    scores = [merged.weighed[PeerId(f"p{at}")].consistency for at in range(3)]
    assert scores == pytest.approx([0.0904658682, 0.0904658682, 0.8190682636], abs=1e-9)
    reasons = [merged.weighed[peer].reason for peer in sorted(merged.weighed)]
    assert reasons == ["", "", "" if expected[2] else WORDS]


def test_in_the_first_two_rounds_all_count_by_examples_and_none_goes_beyond_the_median_norm() -> None:
    updates = [update(f"p{at}", examples=n, w=[w]) for at, (n, w) in enumerate([(1, 1.0), (2, 2.0), (1, -50.0)])]
    first = consistency().merge(None, begun(0, w=[0.0]), updates)
    assert first.params["w"].tolist() == [(1 * 1 + 2 * 2 - 2) / 4]
    assert counted(first) == [0.25, 0.5, 0.25]
    second = consistency().merge(first.state, begun(1, w=first.params["w"]), updates)
    assert counted(second) == [0.25, 0.5, 0.25]
    third = consistency().merge(second.state, begun(2, w=second.params["w"]), updates)
    assert third.weighed[PeerId("p0")].consistency is not None


def mix_of(part: float, kind: Any = "mad") -> Merged:
    """Examples 100, 300 and 100, and the scores of O9."""
    rule = consistency(kind, mix=part)
    state = played(rule, BASES[:2], CHANGES[:2]).state
    updates = [
        replace(each, examples=n) for each, n in zip(sent(BASES[2], CHANGES[2]), (100, 300, 100), strict=True)
    ]
    return rule.merge(state, begun(2, w=BASES[2]), updates)


@pytest.mark.parametrize(
    ("part", "expected"), [(0.0, [0.5, 0.5, 0]), (0.5, [0.35, 0.55, 0.1]), (1.0, [0.2, 0.6, 0.2])]
)
def test_a_part_may_go_by_examples(part: float, expected: list[float]) -> None:
    assert counted(mix_of(part)) == pytest.approx(expected, abs=1e-9)


def test_rows_may_count_beside_trust() -> None:
    """Examples 100, 300 and 100 times trust 1, 1 and 0."""
    assert counted(mix_of(0.0, "rows")) == pytest.approx([0.25, 0.75, 0], abs=1e-9)


@given(st.lists(st.lists(st.floats(-100, 100), min_size=2, max_size=2), min_size=3, max_size=3))
def test_weights_are_shares_and_where_the_numbers_lie_changes_no_bit(rows: list[list[float]]) -> None:
    rule, state = consistency(), played(consistency(), BASES[:2], CHANGES[:2]).state
    updates = sent(BASES[2], rows)
    merged = rule.merge(state, begun(2, w=BASES[2]), updates)
    assert sum(counted(merged)) == pytest.approx(1)
    assert min(counted(merged)) >= 0
    again = rule.merge(state, begun(2, w=BASES[2]), elsewhere(updates))
    assert (again.params, again.state) == (merged.params, merged.state)


def test_of_two_updates_nobody_can_say_which_is_wrong() -> None:
    merged = played(consistency(), BASES, [row[::2] for row in CHANGES])
    assert counted(merged) == [0.5, 0.5]
    assert merged.params["w"] == pytest.approx(np.array(BASES[2]) - np.mean(CHANGES[2][::2], axis=0))


def third(updates: Sequence[Update], state: State = None) -> Merged:
    """These in the third round, after the first two of O9 or another state."""
    rule = consistency()
    state = played(rule, BASES[:2], CHANGES[:2]).state if state is None else state
    return rule.merge(state, begun(2, w=BASES[2]), updates)


def test_one_of_five_that_turns_and_stretches_its_changes_soon_counts_for_nothing() -> None:
    """Nodes with minima near each other, whose training is noisy; one sends minus five times its change."""
    chance, size, rule = np.random.default_rng(7), 200, consistency()
    minima = 3 + 0.3 * chance.normal(size=(5, size))
    base, state, courses = np.zeros(size), None, []
    for number in range(14):
        changes = 0.3 * (base - minima) + 0.05 * chance.normal(size=(5, size))
        changes[4] *= -5
        merged = rule.merge(state, begun(number, w=base), sent(base, changes))
        base, state = merged.params["w"], merged.state
        courses.append(counted(merged))
    assert all(course[4] < 0.02 for course in courses[2:])
    assert all(min(course[:4]) > 0.1 for course in courses[2:])
    assert np.linalg.norm(base - minima[:4].mean(axis=0)) < 0.1 * np.linalg.norm(minima[0])


def test_a_new_peer_has_the_median_of_the_scores_and_is_bounded() -> None:
    updates = [*sent(BASES[2], CHANGES[2]), update("p3", w=[-900.0, 0.0])]
    merged = third(updates)
    assert counted(merged) == pytest.approx([1 / 3, 1 / 3, 0, 1 / 3], abs=1e-9)
    norms = sorted(float(np.linalg.norm(each)) for each in CHANGES[2])
    assert np.linalg.norm(merged.params["w"] - BASES[2]) < norms[1] * 1.01


@pytest.mark.parametrize("change", [{"base": Digest("f" * 64)}, {"staleness": 3}])
def test_who_began_elsewhere_or_earlier_is_not_compared(change: dict[str, Any]) -> None:
    updates = sent(BASES[2], [CHANGES[2][0], CHANGES[2][2], CHANGES[2][1]])
    compared = third(updates)
    neutral = third([updates[0], replace(updates[1], **change), updates[2]])
    assert counted(compared)[1] < 1e-5
    late = 0.5 if "staleness" in change else 1.0
    assert counted(neutral)[1] == pytest.approx(late * counted(neutral)[0], rel=0.4)


def test_where_all_began_elsewhere_they_count_by_examples_and_are_bounded() -> None:
    """As without common rounds, where each node trains from a model of its own."""
    updates = [replace(each, base=Digest("f" * 64), examples=2) for each in sent(BASES[2], CHANGES[2])]
    merged = third(updates)
    assert counted(merged) == pytest.approx([1 / 3] * 3)
    assert {value.consistency for value in merged.weighed.values()} == {None}
    assert np.linalg.norm(merged.params["w"] - BASES[2]) < np.linalg.norm(CHANGES[2][1])


def test_to_name_another_base_does_not_wash_off_what_was_seen_before() -> None:
    rule, base = consistency(), [2.0, 1.0]
    caught = third(sent(BASES[2], CHANGES[2]))
    updates = sent(base, CHANGES[2][:2] * 2)
    updates = [updates[0], updates[1], replace(updates[2], base=Digest("f" * 64)), updates[3]]
    merged = rule.merge(caught.state, begun(3, w=base), updates)
    assert counted(merged)[2] == 0.0


def test_who_was_away_is_predicted_from_its_last_update() -> None:
    """It stays away in the round in which it would be caught, and comes back the same."""
    rule = consistency()
    away = third(sent(BASES[2], CHANGES[2][:2]))
    base = [1.7, 0.6]
    back = rule.merge(away.state, begun(3, w=base), sent(base, [[-0.1, 0], [-0.2, -0.1], [9, 5]]))
    assert counted(back)[2] == 0.0


def test_what_is_remembered_is_bounded() -> None:
    rule, merged = consistency(), Merged(Params())
    base = np.zeros(2)
    for number in range(16):
        updates = [*sent(base, CHANGES[1]), update(f"q{number}", w=base)]
        merged = rule.merge(merged.state, begun(number, w=base), updates)
        base = merged.params["w"]
    assert merged.state is not None
    assert merged.state["distances"].shape == (10, 3 + 11)
    assert merged.state["products"].shape == (10, 10)
    assert sum(name.startswith("move ") for name in merged.state) == 10
    assert sum(name.startswith("change ") for name in merged.state) == 3 + 11


def test_what_an_earlier_version_remembered_is_none() -> None:
    state = played(consistency(), BASES[:2], CHANGES[:2]).state
    assert state is not None
    older = Params({**state, "rule": array_of(text_of(state["rule"]).replace("consistency moves", "consistency"))})
    assert counted(third(sent(BASES[2], CHANGES[2]), older)) == pytest.approx([1 / 3] * 3)


def test_of_a_large_model_a_byte_for_each_number_is_remembered_and_weights_stay(monkeypatch: Any) -> None:
    exact, rounded = courses_of_ten(), None
    monkeypatch.setattr("flnet.aggregation.forecast.EXACT_NUMBERS", 1000)
    rounded = courses_of_ten()
    states = [merged.state for merged in (exact[-1], rounded[-1])]
    assert states[0] is not None and states[1] is not None
    assert states[1]["change 0"].dtype == states[1]["move 0"].dtype == np.int8
    assert states[1].nbytes < 0.33 * states[0].nbytes
    for each, other in zip(exact, rounded, strict=True):
        assert counted(other) == pytest.approx(counted(each), abs=0.003)
    assert counted(rounded[-1])[9] == 0.0


def courses_of_ten() -> list[Merged]:
    """Twelve rounds of ten nodes near each other, one of which turns and stretches what it learnt."""
    chance, size, rule = np.random.default_rng(5), 20_000, consistency()
    minima = (3 + chance.normal(size=(10, size)) * np.geomspace(0.01, 3, size)).astype("float32")
    base, result = np.zeros(size, "float32"), [Merged(Params())]
    for number in range(12):
        changes = 0.3 * (base - minima) + chance.normal(size=(10, size)) * 0.05
        changes[9] *= -5
        updates = [update(f"p{at}", w=(base - change).astype("float32")) for at, change in enumerate(changes)]
        result.append(rule.merge(result[-1].state, begun(number, w=base), updates))
        base = result[-1].params["w"]
    return result[1:]


def test_a_node_knows_when_it_remembers_other_things_than_the_others() -> None:
    rule = consistency(window=2)
    assert played(rule, BASES, CHANGES).is_common is False  # these bases are not what the rule made
    merged = Merged(Params())
    base: Any = [0.0, 0.0]
    for number in range(3):
        merged = rule.merge(merged.state, begun(number, w=base), sent(base, CHANGES[1]))
        assert merged.is_common
        base = merged.params["w"]
    assert not rule.merge(None, begun(3, w=base), sent(base, CHANGES[1])).is_common


def test_the_name_says_what_is_not_usual() -> None:
    rules = [
        consistency(),
        consistency("raw"),
        consistency("mad", 1),
        consistency("ratio", 1, 0.5),
        consistency("rows"),
    ]
    names = [rule.name for rule in rules]
    assert names == [
        "consistency",
        "consistency:raw",
        "consistency:1",
        "consistency:ratio:1:0.5",
        "consistency:rows",
    ]
    for window, mix in ((0, 0.0), (1, -0.1), (1, 1.1)):
        with pytest.raises(ValueError, match="at least 1 round"):
            consistency("mad", window, mix)


# Weights from scores: the numbers of the specification, and what scale does to them.


def by_peer(values: Sequence[float]) -> dict[PeerId, float]:
    return {PeerId(f"p{at}"): value for at, value in enumerate(values)}


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


def test_o9_of_scores_that_differ() -> None:
    result = list(weights(by_peer([0.9, 1, 1.1, 1.2, 1.6]), "mad").values())
    assert result == pytest.approx([0.2351013789] * 4 + [0.0595944842], abs=1e-9)


def test_o9_all_distance_on_one_leaves_it_a_weight_unless_it_is_compared_with_the_median() -> None:
    assert counts([0, 0, 0, 0, 1], "shares")[-1] == pytest.approx(0.0842238084, abs=1e-9)
    assert counts([0, 0, 0, 0, 1], "mad") == counts([0, 0, 0, 0, 1], "ratio") == [0.25] * 4 + [0]


@pytest.mark.parametrize(("window", "expected"), [(2, [0.1875, 0.1875, 0.625]), (3, [5 / 24, 5 / 24, 7 / 12])])
def test_o9_the_mean_over_a_window(window: int, expected: list[float]) -> None:
    rows = [shares_of_distance(by_peer(row)) for row in ([1, 1, 2], [1, 1, 2], [1, 1, 6])]
    result = mean_scores(rows[-window:], list(rows[0]))
    assert list(result.values()) == pytest.approx(expected, abs=1e-12)


def test_who_was_away_has_the_mean_of_the_rounds_in_which_it_was_there() -> None:
    rows = [by_peer([1, 5]), by_peer([3])]
    assert mean_scores(rows, [PeerId("p0"), PeerId("p1"), PeerId("new")]) == {"p0": 2, "p1": 5}


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=9), st.sampled_from(KINDS))
def test_weights_are_shares_and_fall_with_the_score(values: list[float], kind: Kind) -> None:
    result = counts(values, kind)
    assert math.fsum(result) == pytest.approx(1)
    ordered = [value for _, value in sorted(zip(values, result, strict=True))]
    assert all(0 <= later <= earlier for earlier, later in pairwise(ordered))


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=9), st.sampled_from(["mad", "ratio", "shares"]))
def test_the_scale_of_updates_changes_nothing_but_for_the_printed_form(values: list[float], kind: Kind) -> None:
    assert counts([1000 * value for value in values], kind) == pytest.approx(counts(values, kind), abs=1e-8)


def test_the_printed_form_depends_on_the_scale() -> None:
    assert counts([1, 1, 1.1], "raw")[-1] == pytest.approx(0.3115, abs=1e-3)
    assert counts([1000, 1000, 1100], "raw")[-1] == 0.0


def test_infinitely_far_counts_for_nothing() -> None:
    assert list(weights(by_peer([1, 1, math.inf]), "raw").values()) == [0.5, 0.5, 0]


# Numbers that are held to the range of the others.

TURNED = [[1.0, 0.0]] * 4 + [[0.0, 1.0]]  # as long as the others, so nothing shortens it


@pytest.mark.parametrize(("kind", "expected"), [("rows", [0.8, 0.2]), ("bounded", [1.0, 0.0])])
def test_a_trusted_update_is_held_to_what_the_others_changed(kind: Any, expected: list[float]) -> None:
    merged = consistency(kind).merge(None, begun(0, w=[0.0, 0.0]), updates_of(TURNED))
    assert merged.params["w"].tolist() == pytest.approx(expected)
    assert merged.weighed[PeerId("p004")].weight == pytest.approx(0.2)


def test_scores_are_those_of_updates_as_they_came() -> None:
    """What is turned in the third round counts for nothing, though all its numbers were bounded already."""
    rule, state = consistency("bounded"), None
    for number, last in enumerate([[1.0, 0.1], [1.0, 0.1], [-5.0, 5.0]]):
        rows = [[1.0, 0.0], [1.0, 0.1], [0.9, 0.0], [0.9, 0.1], last]
        merged = rule.merge(state, begun(number, w=[0.0, 0.0]), updates_of(rows))
        state = merged.state
    assert merged.weighed[PeerId("p004")].weight == 0.0
    assert rule.name == "consistency:bounded"
    assert merged.params["w"].tolist() == pytest.approx([0.95, 0.05])
