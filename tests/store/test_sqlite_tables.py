"""The database: its versions, its steps, and what is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flnet.errors import LocalError, StartError
from flnet.params.params import Digest, PeerId, TrainerId
from flnet.protocol.effects import KeptUpdate
from flnet.protocol.updates import Contribution, Update
from flnet.store import sqlite_tables as tables
from flnet.store.base import KeptModel, SavedJob
from flnet.store.sqlite_store import DiskStore
from flnet.store.sqlite_tables import (
    CACHE_KILOBYTES,
    STEPS,
    VERSION,
    DamagedDatabase,
    migrate,
    open_database,
    version_of,
)
from tests.helpers import key, params

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
    names = [row[0] for row in old.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    assert len(names) == 7
    for table in names:
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


def test_what_a_commit_has_returned_from_is_forced_to_the_disk_and_memory_is_bounded(tmp_path: Path) -> None:
    db = open_database(tmp_path / "db")
    assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert db.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL
    assert db.execute("PRAGMA cache_size").fetchone()[0] == -CACHE_KILOBYTES  # negative: in kilobytes, not pages


def test_reading_only_changes_nothing(tmp_path: Path) -> None:
    open_database(tmp_path / "db").close()
    db = open_database(tmp_path / "db", read_only=True)
    with pytest.raises(sqlite3.OperationalError):
        db.execute("DELETE FROM jobs")
    with pytest.raises(OSError, match="unable to open"):
        open_database(tmp_path / "missing", read_only=True)


def test_files_are_needed_as_long_as_a_row_names_them(db: sqlite3.Connection) -> None:
    large = params(w=range(20_000))
    update = KeptUpdate(Update(PeerId("b"), key(3), large, None))
    tables.put_job(db, T, SavedJob({}, params(w=[1.0]), params(h=[1.0]), params(s=[1.0]), (update,)))
    tables.put_model(db, T, KeptModel.of({}, params(w=[2.0]), params(h=[2.0])))
    parts = (params(w=[1.0]), params(h=[1.0]), params(s=[1.0]), large, params(w=[2.0]), params(h=[2.0]))
    assert tables.referenced(db) == {part.digest for part in parts}
    tables.put_job(db, T, SavedJob({"updates_from": 4}, params(w=[2.0])))
    assert tables.referenced(db) == {part.digest for part in (*parts[1:3], *parts[4:])}


def test_what_was_stated_of_an_update_comes_back_with_it(db: sqlite3.Connection) -> None:
    stated = Contribution("b", "T", 0, "a", "1" * 64, "2" * 64, "3" * 64, 5, 1, "key", "signature")
    update = Update(
        PeerId("b"), key(), params(w=[1.0]), 5, base=Digest("2" * 64), staleness=3, contribution=stated
    )
    tables.put_job(db, T, SavedJob({}, updates=(KeptUpdate(update),)))
    saved = tables.get_job(db, T, lambda _: None)
    assert saved is not None
    (found,) = saved.updates
    assert found.update == update
    assert (found.update.base, found.update.staleness, found.update.contribution) == (update.base, 3, stated)


def test_an_update_of_an_older_version_states_nothing(db: sqlite3.Connection) -> None:
    late = Update(PeerId("b"), key(), params(w=[1.0]), staleness=3)
    tables.put_job(db, T, SavedJob({}, updates=(KeptUpdate(late),)))
    for older in (None, '{"base": null, "contribution": null}'):
        db.execute("UPDATE updates SET more = ?", (older,))
        saved = tables.get_job(db, T, lambda _: None)
        assert saved is not None
        assert (saved.updates[0].update.contribution, saved.updates[0].update.staleness) == (None, 0)


def test_an_update_whose_parameters_are_lost_is_left_out(db: sqlite3.Connection) -> None:
    files = {}
    large, small = params(w=range(20_000)), params(w=[1.0])
    updates = tuple(KeptUpdate(Update(PeerId(name), key(), one)) for name, one in (("b", large), ("c", small)))
    tables.put_job(db, T, SavedJob({}, updates=updates))
    files[large.digest] = large
    whole = tables.get_job(db, T, files.get)
    assert whole is not None
    assert whole.updates == updates
    lost = tables.get_job(db, T, lambda _: None)
    assert lost is not None
    assert lost.updates == updates[1:]
    db.execute("UPDATE updates SET body = x'00' WHERE peer = 'c'")
    broken = tables.get_job(db, T, lambda _: None)
    assert broken is not None
    assert broken.updates == ()


def test_what_is_no_plain_data_leaves_the_last_list(db: sqlite3.Connection) -> None:
    tables.put(db, "trust", [{"fingerprint": "a"}])
    with pytest.raises(LocalError):
        tables.put(db, "trust", [{"fingerprint": "b", "is": object()}])
    assert tables.get(db, "trust") == [{"fingerprint": "a"}]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = open_database(tmp_path / "state.sqlite3")
    yield connection
    connection.close()


def event(number: int) -> dict[str, Any]:
    return {"id": number, "at": 0.5, "kind": "k", "text": "t", "trainer": "", "data": {"n": number}}


def test_no_number_of_an_event_is_used_again(db: sqlite3.Connection) -> None:
    assert tables.begin(db) == 0
    tables.end(db, 7)
    assert tables.begin(db) == 7  # after an orderly end without a gap
    tables.add(db, [event(8), event(9)])  # and others that never came to the disk, for it was killed
    assert tables.begin(db) == 7 + tables.RANGE
    tables.add(db, [event(5_000_000_000_000)])  # without a range
    assert tables.begin(db) == 5_000_000_000_000


async def test_when_the_database_is_lost_numbers_go_on_behind_all_that_can_have_been_used(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    await store.begin_events()
    await store.close()
    (tmp_path / "state.sqlite3").write_bytes(b"no database at all, but long enough to be looked at" * 40)
    again = DiskStore(tmp_path)
    assert await again.begin_events() > 10**12
    await again.close()


async def test_forcing_to_the_disk_is_left_out_for_events_alone(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    await store.begin_events()
    await store.add_events([event(1)])
    assert await store._run(lambda: store._db.execute("PRAGMA synchronous").fetchone()[0]) == 2  # FULL
    assert await store.events(10) == [event(1)]
    await store.close()
