"""What a node knows of the others' versions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.events import Mark
from flnet.messages import MAX_PEERS
from flnet.params import Digest, PeerId
from flnet.rounds import Versions, common_start
from tests.jobs.versions import version

A, B = PeerId("a"), PeerId("b")


def test_what_was_merged_is_not_merged_again() -> None:
    known = Versions()
    first = {A: version("a", 3), B: version("b", 1, (9, 9))}
    assert known.newer(first) == [first[A], first[B]]
    known.merge({A: first[A].mark}, into=5, at=12.5)
    assert known.newer(first) == [first[B]]
    assert known.newer({A: version("a", 4, (5, 5))}) == [version("a", 4, (5, 5))]


def test_a_version_that_was_long_on_its_way_changes_nothing() -> None:
    known = Versions()
    assert known.hear(version("a", 3), {A})
    assert not known.hear(version("a", 2, (7, 7)), {A})
    assert known.heard[A].number == 3
    assert known.hear(version("a", 1, (7, 7), run="run 2"), {A})
    assert known.heard[A].number == 1


def test_peers_that_are_gone_make_room_and_those_that_are_there_do_not() -> None:
    known = Versions()
    for i in range(MAX_PEERS):
        known.hear(version(f"p{i:04}"), ())
    there = set(known.heard)
    assert not known.hear(version("new"), there)
    assert len(known.heard) == MAX_PEERS
    assert known.hear(version("new"), there - {PeerId("p0003")})
    assert PeerId("p0003") not in known.heard and len(known.heard) == MAX_PEERS


def test_what_people_see_of_them() -> None:
    known = Versions()
    known.hear(version("a", 3), {A})
    known.merge({A: version("a", 3).mark}, into=5, at=12.5)
    known.hear(version("b", 1, (9, 9)), {B})
    assert known.view() == [
        {"peer": "a", "version": 3, "merged": 3, "into": 5, "at": 12.5, "newer": False},
        {"peer": "b", "version": 1, "merged": None, "into": None, "at": None, "newer": True},
    ]


marks = st.builds(Mark, st.text(min_size=1), st.integers(0, 2**53), st.text("0123456789abcdef", min_size=64))
seconds = st.none() | st.floats(0, 1e12)


@given(st.dictionaries(st.text(min_size=1), st.tuples(marks, st.integers(1, 2**53), seconds), max_size=5))
def test_a_restart_keeps_all_of_it(merged: dict[str, tuple[Mark, int, float | None]]) -> None:
    known = Versions()
    for peer, (mark, into, at) in merged.items():
        known.heard[PeerId(peer)] = mark
        known.merge({PeerId(peer): mark}, into, at)
    assert Versions.read(known.kept()) == known
    assert Versions.read(None) == Versions()


@pytest.mark.parametrize("damaged", [{}, {"heard": 1, "merged": {}}, {"heard": {"a": [1]}, "merged": {}}])
def test_what_is_damaged_is_named_as_that(damaged: dict[str, object]) -> None:
    with pytest.raises((AttributeError, KeyError, TypeError, ValueError)):
        Versions.read(damaged)


def test_all_begin_with_the_model_of_the_lowest_digest() -> None:
    low, high = sorted((version("a", 0, (1, 1)), version("b", 0, (2, 2))), key=lambda one: one.mark.digest)
    assert common_start(Digest("f" * 64), [high, low]) == low
    assert common_start(Digest("0" * 64), [high, low]) is None
    assert common_start(Digest("f" * 64), [high, version("c", 1)]) is None  # somebody has trained: that is merged
    assert common_start(Digest("f" * 64), []) is None
