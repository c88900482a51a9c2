"""The disk of a simulated node: what is on it when, and what a broken one says."""

from __future__ import annotations

import pytest

from flnet.errors import LocalError
from flnet.params import TrainerId
from flnet.simulation.disk import Disk
from flnet.store import SavedJob

T = TrainerId("T")


def saving(disk: Disk, number: int) -> list[tuple[float, object]]:
    """Save; the pauses that it takes, each with what is on the disk then."""
    step = disk.save(T, SavedJob({"round": number, "updates_from": 0}))
    seen: list[tuple[float, object]] = []
    try:
        while True:
            seen.append((step.send(None), disk.saved.snapshot.get("round")))
    except StopIteration:
        return seen


def test_a_quick_disk_saves_without_a_pause() -> None:
    disk = Disk(lambda: (0.0, 0.0))
    assert saving(disk, 3) == []
    assert disk.saved.snapshot["round"] == 3


def test_a_slow_disk_may_hold_a_state_before_its_node_knows() -> None:
    disk = Disk(lambda: (1.0, 2.0))
    assert saving(disk, 3) == [(1.0, None), (2.0, 3)]


def test_a_broken_disk_refuses_and_keeps_what_it_had() -> None:
    disk = Disk(lambda: (0.0, 0.0))
    saving(disk, 3)
    disk.fails = True
    with pytest.raises(LocalError, match="no space"):
        saving(disk, 4)
    assert (disk.saved.snapshot["round"], disk.has_failed) == (3, True)
