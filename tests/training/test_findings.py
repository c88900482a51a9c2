"""Findings as JSON-ready data, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flnet.errors import TrainerError
from flnet.training.findings import GroupFindings, Grouping, LabelFindings, Waiting, fields_of

KNOWN = LabelFindings("two", ("a", "b"), "three", ("x", "y", "z"), np.array([[1, 0.25, 0], [0, 0.75, 1]]), 0.9)
GROUPS = GroupFindings(9, 9, 9, Grouping(2, 0.5, 0.25), (Grouping(1, 2.0, None),), 1)


def test_a_correspondence_that_is_known() -> None:
    fields = fields_of(KNOWN, "X")
    assert fields is not None
    assert fields["space"] == {"id": "two", "classes": ["a", "b"]}
    assert (fields["estimated"], fields["matrix"][1]) == (False, [0, 0.75, 1])
    assert (fields["deviation"], fields["counts"], fields["waiting"], fields["pooled"]) == (
        None,
        None,
        None,
        False,
    )


def test_an_estimate_that_nothing_was_counted_for_yet() -> None:
    waiting = Waiting(11, 0.1, 0.5, 300)
    found = replace(KNOWN, matrix=None, counts=np.zeros((2, 3), np.int64), waiting=waiting)
    fields = fields_of(found, "X")
    assert fields is not None
    assert (fields["estimated"], fields["matrix"], fields["counts"][0]) == (True, None, [0, 0, 0])
    assert fields["waiting"] == {"from_round": 11, "share": 0.1, "needed": 0.5, "judged": 300}


@pytest.mark.parametrize(
    "found",
    [
        {"matrix": 1},
        replace(KNOWN, matrix=np.eye(2)),
        replace(KNOWN, deviation=np.full((2, 3), np.nan)),
        replace(KNOWN, counts=np.full((2, 3), -1)),
        replace(GROUPS, common=Grouping(2, float("inf"), None)),
    ],
)
def test_what_makes_no_sense_is_refused(found: Any) -> None:
    with pytest.raises(TrainerError, match="findings of trainer X gave"):
        fields_of(found, "X")


def test_nothing_stays_nothing() -> None:
    assert fields_of(None, "X") is None
