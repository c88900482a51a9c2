"""The processors that a node may use: what the system schedules it on, bounded by its container."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flnet.algorithms.fed_mt.local_training import carried
from flnet.compute.assignment import labels_of, processors
from flnet.errors import SettingsError
from flnet.labels.spaces import Correspondence, Labelling
from flnet.node.build import build_node
from flnet.settings import Settings
from tests.labels.spaces import COARSE, FINE, NESTED


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


SPACES = 'id = "two"\nclasses = ["a", "b"]\n{}[desired]\nid = "three"\nclasses = ["x", "y", "z"]\n'
MAPPING = '[mapping]\na = ["x"]\nb = ["y", "z"]\n'
KNOWN = Labelling(COARSE, FINE, Correspondence(FINE, COARSE, NESTED))
TRUTH = np.repeat([0, 1, 2], [60, 30, 10])


def chance() -> np.random.Generator:
    return np.random.default_rng(0)


def test_without_the_setting_there_is_nothing_to_say() -> None:
    assert labels_of(None) is None


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "labels.toml"
    path.write_text(SPACES.format("steps = 5\n") + MAPPING)
    found = labels_of(path)
    assert found is not None
    assert (found.steps, found.is_desired) == (5, False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be read"),
        ("id = 3", "id"),
        (SPACES.format(""), "nobody says how the classes of 'two' correspond to those of 'three'"),
        (SPACES.format('schedule = "pipelined"\n') + MAPPING, "schedule"),
    ],
)
def test_a_node_does_not_start_with_labels_that_say_too_little(
    tmp_path: Path, text: str | None, words: str
) -> None:
    path = tmp_path / "labels.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SettingsError, match="FLNET_LABELS=") as caught:
        build_node(Settings(labels=path, state_path=tmp_path / "state"))
    assert words in caught.value.message


def test_coarse_rows_carry_the_class_in_which_theirs_lies() -> None:
    fine, coarse = carried(KNOWN, TRUTH, chance())
    assert set(fine.tolist()) == {-1}
    assert coarse.tolist() == np.where(TRUTH == 0, 0, 1).tolist()


def test_where_spaces_overlap_labels_are_drawn_by_the_weights() -> None:
    half = replace(KNOWN, correspondence=Correspondence(FINE, COARSE, [[1, 0, 0.25], [0, 1, 0.75]]))
    _, coarse = carried(half, np.repeat([0, 1, 2], 4000), chance())
    shares = [float((coarse[at : at + 4000] == 0).mean()) for at in (0, 4000, 8000)]
    assert shares[:2] == [1, 0]
    assert shares[2] == pytest.approx(0.25, abs=0.03)


def test_a_few_labels_are_spread_over_the_classes() -> None:
    fine, coarse = carried(Labelling(FINE, rows=40), TRUTH, chance())
    assert np.bincount(fine[fine >= 0], minlength=3).tolist() == [15, 15, 10]
    assert set(coarse.tolist()) == {-1}
    everything, _ = carried(Labelling(FINE, rows=1000), TRUTH, chance())
    assert everything.tolist() == TRUTH.tolist()


def test_a_node_may_have_labels_of_both_spaces() -> None:
    fine, coarse = carried(replace(KNOWN, rows=6), TRUTH, chance())
    assert (fine >= 0).sum() == 6
    assert (coarse >= 0).all()
