"""The processors that a node may use: what the system schedules it on, bounded by its container."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flnet.training.processors import processors


@pytest.fixture(autouse=True)
def eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)


def counted(folder: Path, membership: str, **files: str) -> int:
    (folder / "member").write_text(membership)
    for name, text in files.items():
        path = folder / "groups" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(path.name.replace("-", ".")).write_text(text)
    return processors(folder / "groups", folder / "member")


def test_without_a_limit_all_that_the_process_is_scheduled_on(tmp_path: Path) -> None:
    assert counted(tmp_path, "0::/\n") == 8
    assert processors(tmp_path / "nothing", tmp_path / "nothing") == 8
    assert counted(tmp_path, "0::/\n", **{"cpu-max": "max 100000\n"}) == 8


@pytest.mark.parametrize(("quota", "count"), [(400_000, 4), (250_000, 2), (20_000, 1), (1_600_000, 8)])
def test_a_container_bounds_it(tmp_path: Path, quota: int, count: int) -> None:
    assert counted(tmp_path, "0::/\n", **{"cpu-max": f"{quota} 100000\n"}) == count


def test_the_narrowest_group_above_counts(tmp_path: Path) -> None:
    limits = {"cpu-max": "600000 100000", "a__cpu-max": "300000 100000", "a__b__cpu-max": "max 100000"}
    assert counted(tmp_path, "0::/a/b\n", **limits) == 3
    assert counted(tmp_path, "0::/c\n", **limits) == 6


def test_the_older_kind_of_groups_counts_too(tmp_path: Path) -> None:
    files = {"cpu,cpuacct__cpu-cfs_quota_us": "200000", "cpu,cpuacct__cpu-cfs_period_us": "100000"}
    member = "5:memory:/x\n3:cpu,cpuacct:/x\n"
    assert counted(tmp_path, member, **files) == 2
    files["cpu,cpuacct__cpu-cfs_quota_us"] = "-1"
    assert counted(tmp_path, member, **files) == 8


@pytest.mark.parametrize("text", ["", "x y z", "5 0", "\xff", "a 1"])
def test_what_cannot_be_read_is_no_limit(tmp_path: Path, text: str) -> None:
    assert counted(tmp_path, f"{text}\n0::/\n", **{"cpu-max": text}) == 8
