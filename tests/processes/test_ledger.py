"""Broken promises are found, kept ones are not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.processes.ledger import Taken, fate, faults, gaps, read_ledger

UPDATE = Taken("a", "b", 3, "a")


def record(number: int = 3, **changes: Any) -> dict[str, Any]:
    known = {"round": number, "initiator": "a", "contributors": ["a", "b"], "missing": [], "digest": "d"}
    return known | {"outcome": "averaged 2 updates"} | changes


@pytest.mark.parametrize(
    ("found", "became"),
    [
        ([record()], "averaged"),
        ([record(contributors=["b"], missing=["a"])], "missing"),
        ([record(contributors=[], digest=None, outcome="cut short: a started round 4")], "left"),
        ([record(contributors=["b"])], "lost"),
        ([record(contributors=["b"], missing=["a"], outcome="")], "lost"),
        ([record(contributors=[], digest=None, outcome="open")], "lost"),
        ([record(4)], "lost"),
        ([record(initiator="c")], "lost"),
        ([], "lost"),
    ],
)
def test_what_became_of_an_update(found: list[dict[str, Any]], became: str) -> None:
    assert fate(UPDATE, {"b": found}) == became
    told = faults([UPDATE], {"a": [record()], "b": found})
    assert (len(told) == 0) is (became != "lost")
    if became == "lost":
        assert "b took the update of a in round 3" in told[0]


def test_a_sender_that_forgot_its_round_is_found() -> None:
    assert faults([UPDATE], {"a": [], "b": [record()]}) == [
        "a sent its update of round 3, and its history has no such round"
    ]


def test_histories_that_contradict_themselves_or_each_other_are_found() -> None:
    assert "out of order" in faults([], {"a": [record(2), record(1)]})[0]
    assert "2 times" in faults([], {"a": [record(1), record(1)]})[0]
    (told,) = faults([], {"a": [record(digest="x")], "b": [record(digest="y")]})
    assert told == "round 3 of a, b has 2 averages"
    assert faults([], {"a": [record()], "b": [record(contributors=["b"], digest="y")]}) == []


def test_gaps_lie_between_the_first_and_the_last_round() -> None:
    assert gaps([record(2), record(3), record(6)]) == [4, 5]
    assert gaps([]) == gaps([record(7)]) == []


def test_a_half_line_is_no_promise() -> None:
    line = '{"from": "a", "to": "b", "round": 3, "initiator": "a"}\n'
    assert read_ledger([line, line[:-8]]) == [UPDATE]
