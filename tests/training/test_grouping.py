"""What own rows say of numbers of groups: bounded, the same each time, and honest where there is little to say."""

from __future__ import annotations

import numpy as np

from flnet.training.findings import fields_of
from flnet.training.grouping import MOST_GROUPS, group_findings
from tests.clusters.rows import heaps


def test_three_heaps_are_found() -> None:
    rows, _ = heaps(2, rows=300, spread=0.5)
    found = group_findings(rows, rows[:2])
    assert found is not None
    assert (found.rows, found.judged, found.compared, found.bend) == (300, 300, 300, 3)
    assert [one.k for one in found.tried] == list(range(1, MOST_GROUPS + 1))
    assert found.tried[0].silhouette is None
    assert found.common.k == 2
    assert found.common.inertia > found.tried[2].inertia
    assert found == group_findings(rows, rows[:2])
    fields = fields_of(found, "X")
    assert fields is not None
    assert fields["tried"][0] == {"k": 1, "inertia": float(f"{found.tried[0].inertia:.6g}"), "silhouette": None}


def test_of_many_or_wide_rows_only_some_are_looked_at() -> None:
    chance = np.random.default_rng(0)
    long, wide = chance.normal(size=(2100, 1)), chance.normal(size=(260, 1000))
    judged = [group_findings(rows, rows[:1]) for rows in (long, wide)]
    assert [(one.rows, one.judged, one.compared) for one in judged if one] == [(2100, 2000, 500), (260, 200, 200)]


def test_fewer_rows_than_groups() -> None:
    rows = np.array([[0.0], [1.0], [5.0]])
    found = group_findings(rows, np.array([[0.0], [9.0]]))
    assert found is not None
    assert [one.k for one in found.tried] == [1, 2, 3]
    assert group_findings(rows[:1], rows[:1]) is None
