"""The database: its versions, its steps, and what is refused."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from flnet.errors import StartError
from flnet.params import TrainerId
from flnet.store import SavedJob
from flnet.store.disk import DiskStore
from flnet.store.disk.schema import (
    CACHE_KILOBYTES,
    STEPS,
    VERSION,
    DamagedDatabase,
    migrate,
    open_database,
    version_of,
)
from tests.helpers import params

T = TrainerId("T")


def golden(path: Path) -> None:
    """A database as version 1 left it, written by hand: what is released must be read for ever."""
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(
        """
        CREATE TABLE node (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE peers (id TEXT PRIMARY KEY, fields TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE jobs (trainer TEXT PRIMARY KEY, snapshot TEXT NOT NULL, params TEXT, private TEXT, sent TEXT)
            WITHOUT ROWID;
        CREATE TABLE updates (trainer TEXT NOT NULL, round INTEGER NOT NULL, initiator TEXT NOT NULL,
            peer TEXT NOT NULL, examples INTEGER, labels INTEGER NOT NULL, accuracy REAL, digest TEXT, file TEXT,
            body BLOB, PRIMARY KEY (trainer, round, initiator, peer));
        CREATE TABLE rounds (trainer TEXT NOT NULL, round INTEGER NOT NULL, initiator TEXT NOT NULL,
            record TEXT NOT NULL, PRIMARY KEY (trainer, round, initiator)) WITHOUT ROWID;
        CREATE TABLE models (trainer TEXT NOT NULL, digest TEXT NOT NULL, place INTEGER NOT NULL,
            figures TEXT NOT NULL, nbytes INTEGER NOT NULL, private TEXT NOT NULL,
            pinned INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (trainer, digest)) WITHOUT ROWID;
        CREATE TABLE events (id INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL,
            trainer TEXT NOT NULL, data TEXT NOT NULL);
        INSERT INTO jobs VALUES ('T', '{"round": 4, "phase": "IDLE"}', NULL, NULL, NULL);
        INSERT INTO rounds VALUES ('T', 4, 'a', '{"round": 4, "initiator": "a"}');
        INSERT INTO peers VALUES ('b', '{"id": "b", "address": "10.0.0.2:4000"}');
        PRAGMA user_version = 1;
        """
    )
    db.close()


async def test_a_database_of_version_1_is_read_by_this_one(tmp_path: Path) -> None:
    golden(tmp_path / "state.sqlite3")
    store = DiskStore(tmp_path)
    assert await store.load(T) == SavedJob(
        {"round": 4, "phase": "IDLE"}, records=({"round": 4, "initiator": "a"},)
    )
    assert await store.load_peers() == [{"id": "b", "address": "10.0.0.2:4000"}]
    await store.save(T, SavedJob({"round": 5}, params(w=[1.0])))
    await store.close()


def test_the_first_step_makes_what_version_1_had(tmp_path: Path) -> None:
    golden(tmp_path / "golden")
    made, old = sqlite3.connect(":memory:", isolation_level=None), sqlite3.connect(tmp_path / "golden")
    assert migrate(made, STEPS[:1]) == 1
    tables = [row[0] for row in old.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    assert len(tables) == 7
    for table in tables:
        columns = f"PRAGMA table_info({table})"
        assert made.execute(columns).fetchall() == old.execute(columns).fetchall()


def test_each_step_is_taken_once_and_wholly_or_not_at_all(tmp_path: Path) -> None:
    db = open_database(tmp_path / "db")
    assert version_of(db) == VERSION
    assert migrate(db) == 0
    good, bad = "CREATE TABLE more (a)", "CREATE TABLE worse (a); INSERT INTO nowhere VALUES (1)"
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        migrate(db, [*STEPS, good, bad])
    assert version_of(db) == VERSION + 1  # the good step stays, of the bad one nothing
    names = {row[0] for row in db.execute("SELECT name FROM sqlite_master")}
    assert "more" in names
    assert "worse" not in names


def test_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    db = open_database(tmp_path / "state.sqlite3")
    db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    with pytest.raises(
        StartError, match=f"newer flnet: its version is {VERSION + 1}, this one reads up to {VERSION}"
    ):
        DiskStore(tmp_path)
    assert [path.name for path in tmp_path.glob("*damaged*")] == []
    assert version_of(sqlite3.connect(tmp_path / "state.sqlite3")) == VERSION + 1


def test_what_is_no_database_is_called_damaged(tmp_path: Path) -> None:
    (tmp_path / "db").write_bytes(b"this is not a database" * 100)
    with pytest.raises(DamagedDatabase):
        open_database(tmp_path / "db")


def test_what_a_commit_has_returned_from_is_forced_to_the_disk(tmp_path: Path) -> None:
    db = open_database(tmp_path / "db")
    assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert db.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL


def test_a_growing_database_takes_bounded_memory(tmp_path: Path) -> None:
    db = open_database(tmp_path / "db")
    assert db.execute("PRAGMA cache_size").fetchone()[0] == -CACHE_KILOBYTES  # negative: in kilobytes, not pages


def test_reading_only_changes_nothing(tmp_path: Path) -> None:
    open_database(tmp_path / "db").close()
    db = open_database(tmp_path / "db", read_only=True)
    with pytest.raises(sqlite3.OperationalError):
        db.execute("DELETE FROM jobs")
    with pytest.raises(OSError, match="unable to open"):
        open_database(tmp_path / "missing", read_only=True)
