"""What travels beside the messages of a series: bounded, and nothing that is no number."""

from __future__ import annotations

from typing import Any

import pytest

from flnet.errors import InvalidMessage
from flnet.messages import ReportMessage, SeriesMessage, Trigger
from flnet.messages.people import MOST_ROUNDS

SERIES = {"by": "a", "first": 0, "until": "accuracy>=0.9", "rounds": 3}


@pytest.mark.parametrize(
    "wrong",
    [
        {"until": "x" * 201},
        {"until": "a\nb"},
        {"rounds": 0},
        {"first": -1},
        {"best": 1.5},
        {"means": [[0.5, None]] * 4},
        {"means": [[0.5]]},
        {"totalLoss": float("nan")},
        {"totalAccuracy": float("inf")},
    ],
)
def test_what_is_no_series_is_refused(wrong: dict[str, Any]) -> None:
    assert SeriesMessage.read(SERIES).until == "accuracy>=0.9"
    with pytest.raises(InvalidMessage):
        SeriesMessage.read(SERIES | wrong)


@pytest.mark.parametrize("wrong", [{"accuracy": 2}, {"loss": float("nan")}, {"over": "tired"}])
def test_what_is_no_report_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidMessage):
        ReportMessage.read({"accuracy": 0.5} | wrong)


@pytest.mark.parametrize(
    ("asked", "most"), [({}, 1), ({"rounds": 3}, 3), ({"until": "no-gain 2"}, MOST_ROUNDS),
                        ({"until": "no-gain 2", "rounds": 1}, 1)],
)  # fmt: skip
def test_how_many_rounds_are_asked_for(asked: dict[str, Any], most: int) -> None:
    assert Trigger.read({"trainerId": "T", **asked}).most == most
