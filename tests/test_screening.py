"""What stands before the merge: who is refused, what is shortened, and whose base is the common one."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.params import Digest, Params, PeerId, Schema, Update
from flnet.screening import CLIP, FEWEST, GATE, USUAL, Bounds, Screening, common_base, too_far
from flnet.vectors import distance
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
    assert Bounds(ratio=0, clip=1.5).stated() == {GATE: "any", CLIP: "to the norm 1.5"}
    assert replace(USUAL, ratio=10).stated() == {GATE: "10 x the median"}


def test_an_update_keeps_what_else_is_said_of_it() -> None:
    first = update("a", examples=7, w=[9, 1], b=[0])
    (taken,) = Screening(Bounds(clip=1), BASE, SCHEMA).take([first])
    assert (taken.peer, taken.key, taken.examples) == (first.peer, first.key, 7)
