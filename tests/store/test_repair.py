"""The doctor sees what is wrong, mends what can be mended, and leaves a running node alone."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

import pytest

from flnet.params.params import TrainerId
from flnet.store import repair
from flnet.store import sqlite_tables as tables
from flnet.store.base import Retention, SavedJob
from flnet.store.repair import Finding, examine, rebuild, set_aside
from flnet.store.sqlite_store import DiskStore
from flnet.store.sqlite_tables import open_database
from flnet.store.state_folder import ModelFiles, labels
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


async def test_a_damaged_database_is_set_aside_and_begun_again(folder: Path) -> None:
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


async def test_a_database_that_is_missing_is_made_again_and_no_model_is_removed(folder: Path) -> None:
    before = sorted((folder / "models").iterdir())
    (folder / "state.sqlite3").unlink()
    assert wrong(examine(folder)) == [("database", "error", False)]
    assert not (folder / "state.sqlite3").exists()
    assert wrong(examine(folder, repair=True)) == [("database", "error", True)]
    assert sorted((folder / "models").iterdir()) == before
    store = DiskStore(folder)
    job = await store.load(T)
    assert job is not None
    assert job.params == MODEL
    assert await store.begin_events() > 10**12  # behind all that can have been used
    await store.close()


def test_a_repair_that_fails_leaves_the_damaged_database_for_the_next_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "state.sqlite3").write_bytes(b"no database" * 1000)
    before = sorted((folder / "models").iterdir())

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(repair, "put_job", full)
    found = examine(folder, repair=True)
    assert wrong(found) == [("database", "error", False)]
    assert any("disk is full" in one.text for one in found)
    assert (folder / "state.sqlite3").read_bytes().startswith(b"no database")
    monkeypatch.undo()
    assert ("database", "error", True) in wrong(examine(folder, repair=True))
    assert sorted((folder / "models").iterdir()) == before


def test_a_file_that_cannot_be_read_now_costs_no_row_and_keeps_its_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted((folder / "models").iterdir())

    def no_handle(path: Path) -> bytes:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(Path, "read_bytes", no_handle)
    found = wrong(examine(folder, repair=True))
    assert found == [("models", "error", False)] * 3
    monkeypatch.undo()
    assert wrong(examine(folder)) == []
    assert sorted((folder / "models").iterdir()) == before


def test_no_file_is_removed_while_a_row_names_none(folder: Path) -> None:
    before = sorted((folder / "models").iterdir())
    db = sqlite3.connect(folder / "state.sqlite3")
    db.execute("DELETE FROM models")
    db.execute("UPDATE jobs SET params = CAST(zeroblob(64) AS TEXT)")
    db.commit()
    db.close()
    assert wrong(examine(folder, repair=True)) == [("models", "error", False)]
    assert sorted((folder / "models").iterdir()) == before


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


# What model files alone give when the database is lost.


A, B = TrainerId("A"), TrainerId("B")


def test_each_trainer_goes_on_from_its_newest_average(tmp_path: Path) -> None:
    files, db = ModelFiles(tmp_path), open_database(tmp_path / "db")
    files.write(params(w=[1.0]), labels("shared", A, 3, 2))
    files.write(params(w=[2.0]), labels("shared", A, 4, 5))
    files.write(params(w=[3.0]), labels("sent", A, 9))
    files.write(params(h=[1.0]), labels("private", A, 4))
    files.write(params(w=[4.0]), labels("shared", B, -1))  # never averaged: nothing to go on from
    damaged = files.path(files.write(params(w=[5.0]), labels("shared", A, 8, 9)))
    damaged.write_bytes(b"x" + damaged.read_bytes()[1:])
    assert rebuild(db, files) == ["A goes on from the average of round 4, found among 2 model files"]
    job = tables.get_job(db, A, files.read)
    assert job is not None
    assert (job.params, job.private, job.sent) == (params(w=[2.0]), params(h=[1.0]), None)
    assert (job.snapshot["round"], job.snapshot["contributors"], job.snapshot["phase"]) == (4, 5, "IDLE")
    assert [model.figures["round"] for model in tables.get_models(db, A)] == [4, 3]
    assert damaged.with_name(f"{damaged.name}.damaged-1").read_bytes().startswith(b"x")
    assert tables.get_job(db, B, files.read) is None


def test_a_database_is_set_aside_with_what_belongs_to_it_and_never_over_another(tmp_path: Path) -> None:
    database = tmp_path / "db"
    for _ in range(2):
        database.write_text("x")
        (tmp_path / "db-wal").write_text("y")
        set_aside(database)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["db.damaged-1", "db.damaged-1-wal", "db.damaged-2", "db.damaged-2-wal"]
