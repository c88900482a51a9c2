"""The doctor sees what is wrong, mends what can be mended, and leaves a running node alone."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from flnet.params import TrainerId
from flnet.store import Retention, SavedJob
from flnet.store.disk import DiskStore
from flnet.store.disk.check import Finding, examine
from tests.helpers import params

T = TrainerId("T")
MODEL = params(w=[1.0])


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A node's state with one model that is held and an older one."""
    store = DiskStore(tmp_path)
    for number in range(2):
        held = params(w=[number])
        await store.save(T, SavedJob({"model_round": number, "round": number, "contributors": 1}, held))
        await store.keep_model(T, {"round": number, "contributors": 1, "accuracy": None}, held, params())
    await store.close()
    return tmp_path


def wrong(found: list[Finding]) -> list[tuple[str, str, bool]]:
    return [(one.what, one.level, one.mended) for one in found if one.level != "ok" and one.what != "disk"]


def test_a_whole_folder_is_well(folder: Path) -> None:
    found = examine(folder)
    assert wrong(found) == []
    assert [one.what for one in found] == ["permissions", "lock", "database", "kept", "models", "disk"]
    assert found[4].text.startswith("3 files")  # two models, and their empty private part


def test_it_says_how_much_is_kept_and_how_much_may_be(folder: Path) -> None:
    (kept,) = [
        one.text for one in examine(folder, retention=Retention(1, 3 * 1024**2, 50, 9)) if one.what == "kept"
    ]
    models = "2 models (at most 2 of each trainer, 3 MiB)"
    assert kept == f"{models}, 0 rounds (at most 50 of each trainer), 0 events (at most 9)"


def test_an_empty_folder_is_well_and_none_is_not(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    assert wrong(examine(tmp_path)) == []
    assert wrong(examine(tmp_path / "missing")) == [("folder", "error", False)]


def test_what_costs_only_room_or_privacy_is_mended(folder: Path) -> None:
    folder.chmod(0o755)
    (folder / "models" / f"{'0' * 64}.safetensors").write_bytes(b"x" * 10)
    (folder / "models" / f"{'1' * 64}.unfinished").touch()
    seen = [("permissions", "warning"), ("models", "warning"), ("models", "warning")]
    assert wrong(examine(folder)) == [(*one, False) for one in seen]
    assert wrong(examine(folder, repair=True)) == [(*one, True) for one in seen]
    assert wrong(examine(folder)) == []


@pytest.mark.parametrize("gone", [True, False])
async def test_a_model_that_is_lost_or_damaged_gives_way_to_the_one_before(folder: Path, gone: bool) -> None:
    path = folder / "models" / f"{MODEL.digest}.safetensors"
    path.unlink() if gone else path.write_bytes(b"damaged")
    assert wrong(examine(folder)) == [("models", "error", False)]
    assert wrong(examine(folder, repair=True)) == [("models", "error", True)]
    store = DiskStore(folder)
    job = await store.load(T)
    assert job is not None
    assert job.params == params(w=[0.0])
    assert [model.figures["round"] for model in await store.models(T)] == [0]
    await store.close()


async def test_a_damaged_database_is_set_aside_and_begun_anew(folder: Path) -> None:
    (folder / "state.sqlite3").write_bytes(b"no database" * 1000)
    assert wrong(examine(folder)) == [("database", "error", False)]
    assert not list(folder.glob("*.damaged-*"))
    assert ("database", "error", True) in wrong(examine(folder, repair=True))
    assert wrong(examine(folder)) == []
    store = DiskStore(folder)
    job = await store.load(T)
    assert job is not None
    assert job.params == MODEL
    await store.close()


def test_a_newer_state_is_left_alone(folder: Path) -> None:
    db = sqlite3.connect(folder / "state.sqlite3")
    db.execute("PRAGMA user_version = 99")
    db.close()
    assert wrong(examine(folder, repair=True)) == [("database", "error", False)]


async def test_the_folder_of_a_running_node_is_only_read(folder: Path) -> None:
    store = DiskStore(folder)
    await store.save(T, SavedJob({"round": 7}))
    (folder / "models" / f"{'1' * 64}.unfinished").touch()
    found = examine(folder, repair=True)
    assert wrong(found) == [("lock", "warning", False), ("models", "warning", False)]
    assert (folder / "models" / f"{'1' * 64}.unfinished").exists()
    await store.close()
