"""What stands before the merge: distances worked by hand, who is refused, and how far clipping goes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.params import Digest, Params, PeerId, Schema, Update
from flnet.screening import CLIP, FEWEST, GATE, USUAL, Bounds, Screening, clipped, common_base, distance, too_far
from tests.helpers import key, params, update

BASE = params(w=[1, 1], b=[0])
SCHEMA = Schema.of(BASE)
FINITE = st.floats(-(2.0**100), 2.0**100, width=32)


def moved(name: str, by: float, base: str | None = None) -> Update:
    """An update that is `by` away from the base."""
    learnt = Params({"w": BASE["w"] + np.array([by, 0], np.float32), "b": BASE["b"]})
    return Update(PeerId(name), key(), learnt, 1, base=Digest(base) if base else None)


def screened(*updates: Update, bounds: Bounds = USUAL) -> Screening:
    made = Screening(bounds, BASE, SCHEMA)
    made.take(updates)
    return made


# --- distances


def test_the_distance_is_the_norm_over_all_arrays_that_are_averaged() -> None:
    assert distance(BASE, params(w=[4, 5], b=[12]), SCHEMA) == 13.0  # 3, 4 and 12


def test_the_order_of_the_sum_is_fixed() -> None:
    moved = np.random.default_rng(1).normal(size=(40, 4096)).astype("float32")
    lanes = np.zeros(4096, "float32")
    for row in moved[:32]:
        lanes += row * row
    first, lanes = lanes.astype("float64"), np.zeros(4096, "float32")
    for row in moved[32:]:
        lanes += row * row
    here, base = Params({"w": moved.reshape(-1)}), Params({"w": np.zeros(40 * 4096, "float32")})
    assert distance(base, here, Schema.of(base)) == math.sqrt(math.fsum(first + lanes))


def test_what_is_merged_by_maximum_has_no_distance() -> None:
    base = Params({"w": np.zeros(1, np.float32), "seen": np.zeros(1, np.int64), "top": np.zeros(1, np.float32)})
    here = Params({"w": np.full(1, 2, np.float32), "seen": np.full(1, 9), "top": np.full(1, 9, np.float32)})
    assert distance(base, here, Schema.of(base, {"top": "max"})) == 2.0


@given(st.integers(1, 300_000))
def test_the_distance_of_many_numbers_is_exact_where_the_sum_is(size: int) -> None:
    base, here = Params({"w": np.zeros(size, np.float32)}), Params({"w": np.full(size, 2, np.float32)})
    assert distance(base, here, Schema.of(base)) == math.sqrt(4 * size)


def test_numbers_beyond_float64_are_infinitely_far() -> None:
    base = Params({"w": np.full(2, -1e300)})
    assert distance(base, Params({"w": np.full(2, 1e300)}), Schema.of(base)) == math.inf


# --- the gate


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
    distances = {PeerId(name): one for name, one in zip(named, [*honest, *few], strict=True)}
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


def test_an_update_beyond_the_norm_is_shortened_in_its_own_direction() -> None:
    shorter = clipped(BASE, params(w=[4, 5], b=[12]), SCHEMA, 6.5)
    assert shorter == params(w=[2.5, 3], b=[6])


def test_an_update_within_the_norm_is_left_as_it_is() -> None:
    near = params(w=[4, 5], b=[12])
    assert clipped(BASE, near, SCHEMA, 13) is near


@given(st.lists(FINITE, min_size=3, max_size=3), st.floats(0.001, 1000))
def test_what_is_clipped_is_within_the_norm_but_for_its_rounding(numbers: list[float], most: float) -> None:
    shorter = clipped(BASE, params(w=numbers[:2], b=numbers[2:]), SCHEMA, most)
    assert distance(BASE, shorter, SCHEMA) <= most * 1.0001 + 1e-6
    assert shorter.nbytes == BASE.nbytes


def test_updates_are_measured_as_they_came_and_then_clipped() -> None:
    screening = Screening(Bounds(clip=2), BASE, SCHEMA)
    taken = screening.take([moved("a", 1), moved("b", 4), moved("c", 1000)])
    assert [distance(BASE, one.params, SCHEMA) for one in taken] == [1, 2, 2]
    assert screening.distances == {"a": 1, "b": 4, "c": 1000}
    assert list(screening.refused()) == ["c"]


def test_parts_give_what_all_at_once_give() -> None:
    updates = [moved("a", 1), moved("b", 1), moved("c", 500)]
    whole, parts = screened(*updates), Screening(USUAL, BASE, SCHEMA)
    for one in updates:
        parts.take([one])
    assert parts.refused() == whole.refused()


# --- the base


@pytest.mark.parametrize(
    ("bases", "common"), [("", None), ("-", None), ("b", "b"), ("abb", "b"), ("ba", "a"), ("-a-", "a")]
)
def test_the_base_that_most_name_is_the_common_one(bases: str, common: str | None) -> None:
    assert common_base(None if one == "-" else Digest(one) for one in bases) == common


def test_a_node_knows_whether_it_decides_on_the_common_base() -> None:
    here, elsewhere = BASE.digest, "f" * 64
    assert screened(moved("a", 1, here), moved("b", 1, here), moved("c", 1, elsewhere)).is_common
    assert not screened(moved("a", 1, here), moved("b", 1, elsewhere), moved("c", 1, elsewhere)).is_common
    assert screened(moved("a", 1), moved("b", 1)).is_common  # callers of the thesis' form name none
    assert screened(moved("a", 1, elsewhere), bounds=Bounds(ratio=0)).is_common  # nothing is decided


def test_naming_another_base_changes_no_distance() -> None:
    plain = screened(moved("a", 1), moved("b", 1), moved("c", 900))
    lying = screened(moved("a", 1), moved("b", 1), moved("c", 900, "f" * 64))
    assert plain.refused() == lying.refused() != {}


# --- what nodes agree on


def test_only_what_is_not_usual_is_stated() -> None:
    assert USUAL.stated() == {}
    assert Bounds(ratio=0, clip=1.5).stated() == {GATE: "any", CLIP: "to the norm 1.5"}
    assert replace(USUAL, ratio=10).stated() == {GATE: "10 x the median"}


def test_an_update_keeps_what_else_is_said_of_it() -> None:
    first = update("a", examples=7, w=[9, 1], b=[0])
    (taken,) = Screening(Bounds(clip=1), BASE, SCHEMA).take([first])
    assert (taken.peer, taken.key, taken.examples) == (first.peer, first.key, 7)
