"""What is made of the feeds of nodes."""

from __future__ import annotations

from typing import Any

from benchmarks.nodes import Series, is_end, only, parse_events


def event(kind: str, at: float, number: int, **data: Any) -> dict[str, Any]:
    return {"kind": kind, "at": at, "trainer": "T", "data": {"round": number, **data}}


def closed(at: float, number: int) -> dict[str, Any]:
    return event("round_closed", at, number)


def averaged(at: float, number: int, *contributors: str) -> dict[str, Any]:
    return event("averaged", at, number, contributors=list(contributors))


ONE = [event("trained", 1.0, 5), averaged(2.5, 5, "a", "b"), closed(3.0, 5), event("trained", 4.0, 6)]
ONE += [averaged(5.5, 6, "a", "b"), closed(6.0, 6)]
OTHER = [event("trained", 2.0, 5), averaged(2.5, 5, "a", "b"), closed(3.5, 5), event("trained", 5.0, 6)]
OTHER += [averaged(7.0, 6, "b"), closed(7.5, 6)]


def test_a_round_lasts_from_one_closing_everywhere_to_the_next() -> None:
    series = Series(0.5, range(5, 7), [ONE, OTHER])
    assert series.first_s() == 3.0
    assert series.rounds_s() == [4.0]
    assert series.spans_s("trained", "round_closed") == [1.5, 2.5]


def test_rounds_without_someone_and_rounds_that_did_not_end_are_lost() -> None:
    assert Series(0.0, range(5, 7), [ONE, OTHER]).lost() == 1
    assert Series(0.0, range(5, 8), [ONE, OTHER]).lost() == 3


def test_events_are_read_from_a_stream_until_the_round_is_over() -> None:
    lines = ["retry: 2000", "", ": still here", "id: 1", "event: x", 'data: {"kind": "x", "trainer": "T"}', ""]
    (result,) = parse_events(iter(lines))
    assert result == {"kind": "x", "trainer": "T"}
    assert only([result, {"trainer": ""}], "T") == [result]
    assert is_end(closed(1.0, 5), "T", 5)
    assert not is_end(closed(1.0, 5), "T", 6)
    assert not is_end(event("trained", 1.0, 5), "T", 5)
