"""Nodes that run out of memory in training, or of room on the disk."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.processes.harness import at_rest, harness, kept, until

CGROUPS = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))
LIMITS = ("memory.limit_in_bytes", "memory.max")  # of the first and the second version of control groups
MEGA = 1024 * 1024
# Before what the slow trainer returns: memory that is really used, where there is a limit.
EATS = """        if pathlib.Path(__file__).with_name("hungry").exists() and self.part == 1:
            np.ones(32 * 1024 * 1024)  # 256 MiB
"""


def root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A control group that allows 64 MiB of memory."""
    name = f"flnet-test-{os.getpid()}"
    for place in CGROUPS:
        group = place / name
        try:
            group.mkdir()
        except OSError:
            continue
        limit = next((group / limit for limit in LIMITS if (group / limit).exists()), None)
        try:
            if limit is not None:
                limit.write_text(str(64 * MEGA))
                yield group
                return
        finally:
            group.rmdir()
    pytest.skip("no memory control group can be made here")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    if not root():
        pytest.skip("a small file system needs root")
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "flnet-test", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no small file system can be mounted here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=False)


@pytest.mark.slow
def test_a_training_that_the_system_kills_for_its_memory_costs_one_update(tmp_path: Path, cgroup: Path) -> None:
    with harness(tmp_path) as h:
        slow = (h.trainers / "SLOW.py").read_text()
        (h.trainers / "SLOW.py").write_text(slow.replace("        return Fit(", EATS + "        return Fit("))
        hungry, other = h.start(COMPUTE="process"), h.start(COMPUTE="process")
        h.ready()
        assert hungry.trigger().status_code == 202
        until(lambda: all(node.job()["progress"] is not None for node in h.nodes), "training at both")
        (child,) = hungry.children()
        (cgroup / "cgroup.procs").write_text(str(child.pid))
        (h.trainers / "hungry").touch()
        h.go()
        until(lambda: "killed" in (hungry.job()["error"] or ""), "the end of the child")
        until(lambda: at_rest(h.nodes, 0), "the end of the round")
        for node in h.nodes:
            assert node.history()[0]["contributors"] == ["n1"]
        assert not psutil.pid_exists(child.pid)
        (h.trainers / "hungry").unlink()
        assert other.trigger().status_code == 202  # the next child is not in the group
        until(lambda: at_rest(h.nodes, 1), "the end of the next round")
        assert {tuple(node.history()[1]["contributors"]) for node in h.nodes} == {("n0", "n1")}


def fill(disk: Path) -> Path:
    """A file that leaves no room."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return filler


@pytest.mark.slow
def test_a_node_on_a_full_disk_goes_on_says_so_and_recovers(tmp_path: Path, small_disk: Path) -> None:
    with harness(tmp_path) as h:
        h.go()
        full, other = h.start(STATE_PATH=str(small_disk / "state")), h.start()
        h.ready()
        assert full.trigger().status_code == 202
        until(lambda: at_rest(h.nodes, 0), "the end of round 0")
        filler = fill(small_disk)
        other.trigger()
        until(lambda: other.job()["phase"] == "IDLE" and other.job()["current_round"] == 1, "round 1 at the other")
        assert full.process.poll() is None
        assert full.get("/health") == {"status": "ok"}
        until(lambda: any("No space left" in words for words in full.told("state_not_written")), "a word on it")
        filler.unlink()
        until(lambda: full.job()["phase"] == "IDLE", "rest at the node")
        number = other.trigger().json()["round"]
        until(lambda: at_rest(h.nodes, number), "the next round of both")
        assert full.job()["digest"] == other.job()["digest"]
        assert full.history()[-1]["contributors"] == ["n0", "n1"]
        until(lambda: kept(h.nodes, number), "the round on both disks")
        full.kill()  # and what came after it is on the disk
        h.again(full)
        h.ready()
        assert full.job()["current_round"] == number
        assert full.job()["digest"] == other.job()["digest"]
