"""What counts of what members state of segments, and who makes a segment when owners are silent or differ."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from flnet.params.arithmetic import Squares
from flnet.params.params import PeerId
from flnet.protocol.secure_sum import AddedPart, SegmentDigest
from flnet.protocol.segments import Made, SegmentResult, SumPart
from flnet.protocol.updates import RoundKey
from flnet.rounds.segment_results import MOST_SETS, SegmentResults
from flnet.rounds.segment_ring import SegmentRing

NAMES = [PeerId(f"n{number}") for number in range(5)]
SETTLED, CHANGED, RIGHT, WRONG = "a" * 64, "b" * 64, "c" * 64, "d" * 64
MOVES: tuple[Squares, ...] = (((1.0,), ()), ((4.0,), ()))


def stated(digest: str, of: str = SETTLED, segment: int = 0, moves: tuple[Squares, ...] | None = None) -> SumPart:
    return SumPart(contributors=of, results=(SegmentResult(segment=segment, digest=digest, squares=moves),))


def results_of(segments: Iterable[int]) -> tuple[SegmentResult, ...]:
    return tuple(SegmentResult(segment=segment, digest=RIGHT) for segment in segments)


def results(copies: int) -> tuple[SegmentResults, list[PeerId]]:
    """Results of a round, and its members in the order of the ring."""
    ring = SegmentRing(RoundKey(0, PeerId("n0")), NAMES, copies)
    made = SegmentResults(ring, len(NAMES))
    made.begin(SETTLED, 0)
    return made, ring.order


def decided(made: SegmentResults) -> str | None:
    result: Made | None = made.decided(0)
    return None if result is None else result[0]


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_what_more_than_half_of_the_owners_state_counts(copies: int) -> None:
    made, order = results(copies)
    for count, owner in enumerate(order[:copies], 1):
        assert (decided(made) is None) == (count - 1 <= copies // 2)
        made.note(owner, stated(RIGHT))
    assert decided(made) == RIGHT


def test_who_owns_nothing_of_a_segment_does_not_count_but_serves_it() -> None:
    made, order = results(1)
    made.note(order[3], stated(WRONG))
    assert decided(made) is None
    made.note(order[0], stated(RIGHT))
    assert decided(made) == RIGHT
    made.note(order[4], stated(RIGHT))
    assert set(made.makers(0, made.stated(0)[order[0]])) == {order[0], order[4]}
    made.gone.add(order[4])
    assert made.makers(0, made.stated(0)[order[0]]) == [order[0]]


def test_the_first_statement_counts_and_only_two_sets_of_contributors_are_remembered() -> None:
    made, order = results(1)
    for part in (stated(RIGHT), stated(WRONG), stated(RIGHT, CHANGED), stated(RIGHT, "e" * 64)):
        made.note(order[0], part)
    assert decided(made) == RIGHT
    assert [part.contributors for part in made.stated_by(order[0])] == [SETTLED, CHANGED]


def test_what_a_node_states_is_bounded_by_the_segments_that_there_are() -> None:
    made, order = results(1)
    for number in range(50):
        of = f"{number:064x}"
        made.note(order[0], SumPart(contributors=of, results=results_of(range(number % 5 + 1))))
    assert len(made.stated_by(order[0])) <= MOST_SETS * len(NAMES)


def test_two_results_of_one_segment_in_a_message_are_refused() -> None:
    with pytest.raises(ValueError, match="expected one result of each segment, got two of the same"):
        SumPart(contributors=SETTLED, results=results_of([0, 0]))
    with pytest.raises(ValueError, match="expected one result of each segment, got two of the same"):
        AddedPart(group=SETTLED, contributors=SETTLED, sums=(SegmentDigest(segment=0, digest=RIGHT),) * 2)
    with pytest.raises(ValueError, match="at least 1 item"):
        SumPart(contributors=SETTLED, results=())


def test_strangers_and_segments_that_there_are_not_are_ignored() -> None:
    made, order = results(1)
    made.note(PeerId("stranger"), stated(RIGHT))
    for segment in (len(NAMES), 200):
        own, other = stated(RIGHT).results + stated(RIGHT, segment=segment).results
        made.note(order[0], SumPart(contributors=SETTLED, results=(own, other)))
    assert not any(made.stated_by(peer) for peer in [*order, PeerId("stranger")])


def test_a_result_says_how_far_as_many_updates_moved_as_were_settled() -> None:
    made, order = results(1)
    made.begin(SETTLED, len(MOVES))
    made.note(order[0], stated(RIGHT))
    assert made.decided(0) is None
    made, order = results(1)
    made.begin(SETTLED, len(MOVES))
    made.note(order[0], stated(RIGHT, moves=MOVES))
    assert made.decided(0) == (RIGHT, MOVES)


def test_an_owner_that_says_nothing_is_replaced_and_counts_again_once_it_speaks() -> None:
    made, order = results(1)
    made.replace_silent(0)
    assert made.owners(0) == [order[1]]
    made.replace_silent(0)
    assert made.owners(0) == [order[2]]
    made.note(order[0], stated(RIGHT))
    assert made.owners(0) == [order[0]] and decided(made) == RIGHT


def test_where_two_owners_differ_a_third_one_decides() -> None:
    made, order = results(2)
    made.note(order[0], stated(RIGHT))
    made.note(order[1], stated(WRONG))
    assert decided(made) is None
    made.replace_silent(0)
    assert made.owners(0) == order[:3]
    made.note(order[2], stated(RIGHT))
    assert decided(made) == RIGHT


def test_when_other_contributors_count_what_was_stated_of_them_before_counts() -> None:
    made, order = results(1)
    made.note(order[0], stated(RIGHT))
    made.note(order[0], stated(WRONG, CHANGED))
    made.replace_silent(1)
    made.begin(CHANGED, 0)
    assert decided(made) == WRONG
    assert made.owners(1) == [order[1]]  # the first owner has its turn again


def test_whether_anybody_has_begun_is_asked_of_the_contributors_that_count() -> None:
    made, order = results(1)
    made.note(order[0], stated(RIGHT, CHANGED))
    assert not made.is_any_stated
    made.note(order[1], stated(RIGHT))
    assert made.is_any_stated
