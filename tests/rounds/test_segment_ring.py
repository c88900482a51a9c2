"""Who sums and who holds which segment of the updates of a round."""

from __future__ import annotations

from collections import Counter

import pytest

from flnet.algorithms.topology import Topology
from flnet.params.params import PeerId
from flnet.protocol.updates import RoundKey
from flnet.rounds.segment_ring import SegmentRing


def names(count: int) -> list[PeerId]:
    return [PeerId(f"n{number:02}") for number in range(count)]


def ring(count: int, copies: int, number: int = 0) -> SegmentRing:
    return SegmentRing(RoundKey(number, PeerId("n00")), names(count), copies)


@pytest.mark.parametrize("count", [1, 2, 3, 8, 30])
@pytest.mark.parametrize("copies", [1, 2, 3])
def test_each_node_owns_as_many_segments_as_any_other(count: int, copies: int) -> None:
    made = ring(count, copies)
    owned = Counter(owner for segment in range(count) for owner in made.owners(segment))
    assert set(owned.values()) == {min(copies, count)} and len(owned) == count


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_a_faster_node_owns_more_segments_and_each_one_has_as_many_owners_as_ever(copies: int) -> None:
    more = {"n01": 4, "n03": 2}
    made = SegmentRing(RoundKey(0, PeerId("n00")), names(6), copies, owned=more)
    assert len(made.places) == 6 + 3 + 1 and sorted(made.order) == names(6)
    owners = [made.owners(segment) for segment in range(len(made.places))]
    assert all(len(set(each)) == len(each) == copies for each in owners)
    assert Counter(each[0] for each in owners) == {name: more.get(name, 1) for name in names(6)}


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_no_segment_of_an_update_is_held_by_its_sender_alone(copies: int) -> None:
    made = ring(5, copies)
    for contributor in made.order:
        for segment in range(5):
            holders = made.holders(segment, contributor)
            assert holders and contributor not in holders


def test_the_next_in_the_ring_takes_the_place_of_who_is_gone() -> None:
    made = ring(6, 2)
    first, second = made.owners(4)
    assert made.owners(4, {first})[0] == second
    assert first not in made.owners(4, {first}) and len(made.owners(4, {first})) == 2
    assert made.owners(4, set(made.order)) == []


def test_places_change_from_round_to_round_and_are_the_same_on_all_nodes() -> None:
    assert ring(8, 1).order == SegmentRing(RoundKey(0, PeerId("n00")), names(8)[::-1], 1).order
    assert len({tuple(ring(8, 1, number).order) for number in range(20)}) > 15


@pytest.mark.parametrize(
    ("words", "topology"),
    [
        ("mesh", Topology()),
        ("segments", Topology("segments", copies=1)),
        ("segments:3", Topology("segments", copies=3)),
        ("random:5", Topology("random", neighbours=5)),
        ("ring", Topology("ring", neighbours=2)),
    ],
)
def test_a_topology_is_read_from_its_words(words: str, topology: Topology) -> None:
    read = Topology.read(words)
    assert read == topology
    assert Topology.read(read.words or "mesh") == read


@pytest.mark.parametrize(
    "words",
    [
        *("", "star", "mesh:2", "segments:", "segments:0", "segments:10", "segments:x", "segments:1:2"),
        *("random", "random:", "random:0", "random:65", "random:²", f"random:{'9' * 5000}", "ring:2", "ring:"),
    ],
)
def test_other_words_are_refused(words: str) -> None:
    with pytest.raises(ValueError, match="expected mesh, segments or segments:3"):
        Topology.read(words)
