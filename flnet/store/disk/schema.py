"""The tables of a state folder, and the steps that bring an older database to the newest form.

`PRAGMA user_version` holds the number of steps that a database has taken. A step is never changed once it was
released; a new form is a new step at the end.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from flnet.errors import StartError

_FIRST = """
CREATE TABLE node (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE peers (id TEXT PRIMARY KEY, fields TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE jobs (
    trainer TEXT PRIMARY KEY, snapshot TEXT NOT NULL, params TEXT, private TEXT, sent TEXT
) WITHOUT ROWID;
CREATE TABLE updates (
    trainer TEXT NOT NULL, round INTEGER NOT NULL, initiator TEXT NOT NULL, peer TEXT NOT NULL,
    examples INTEGER, labels INTEGER NOT NULL, accuracy REAL, digest TEXT, file TEXT, body BLOB,
    PRIMARY KEY (trainer, round, initiator, peer)
);
CREATE TABLE rounds (
    trainer TEXT NOT NULL, round INTEGER NOT NULL, initiator TEXT NOT NULL, record TEXT NOT NULL,
    PRIMARY KEY (trainer, round, initiator)
) WITHOUT ROWID;
CREATE TABLE models (
    trainer TEXT NOT NULL, digest TEXT NOT NULL, place INTEGER NOT NULL, figures TEXT NOT NULL,
    nbytes INTEGER NOT NULL, private TEXT NOT NULL, pinned INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (trainer, digest)
) WITHOUT ROWID;
CREATE TABLE events (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL, trainer TEXT NOT NULL,
    data TEXT NOT NULL
);
"""
_TRUST = "CREATE TABLE trust (fingerprint TEXT PRIMARY KEY, fields TEXT NOT NULL) WITHOUT ROWID"
_STATED = "ALTER TABLE updates ADD COLUMN more TEXT"  # JSON: with what an update began, and what is stated of it
_REMEMBERED = "ALTER TABLE jobs ADD COLUMN remembered TEXT"  # the file of what a merging rule remembers
STEPS: Sequence[str] = (_FIRST, _TRUST, _STATED, _REMEMBERED)
VERSION = len(STEPS)
CACHE_KILOBYTES = 512  # of pages that SQLite keeps in memory, which fill as the database grows; it would take 2 MB


class DamagedDatabase(Exception):
    """The file is no database of ours, or parts of it cannot be read; the message says what was found."""


def open_database(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open, check and bring up to date; what a commit has returned from is on the disk.

    Raises:
        StartError: it was written by a newer flnet.
        DamagedDatabase: SQLite finds it damaged.
        OSError: it cannot be opened or written.
    """
    way = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}"
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(way, uri=True, isolation_level=None, check_same_thread=False)
        if not read_only:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA cache_size = -{CACHE_KILOBYTES}")
        check(connection)
        if not read_only:
            migrate(connection)
    except BaseException as exc:
        if connection is not None:
            connection.close()
        if isinstance(exc, sqlite3.OperationalError):
            raise OSError(f"{path.name}: {exc}") from exc
        if isinstance(exc, sqlite3.DatabaseError):
            raise DamagedDatabase(f"{path.name}: {exc}") from exc
        raise
    return connection


def check(connection: sqlite3.Connection) -> None:
    """Whether this program can go on with the database.

    Raises:
        DamagedDatabase: SQLite's own check found something.
        StartError: it was written by a newer flnet.
    """
    found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(5)")]
    if found != ["ok"]:
        raise DamagedDatabase("; ".join(found))
    version = version_of(connection)
    if version > VERSION:
        raise StartError(
            f"the state was written by a newer flnet: its version is {version}, this one reads up to {VERSION}. "
            "Start the newer flnet, or give FLNET_STATE_PATH another folder; nothing was changed"
        )


def version_of(connection: sqlite3.Connection) -> int:
    """How many steps the database has taken."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection, steps: Sequence[str] = STEPS) -> int:
    """Take the steps that are left, each of them wholly or not at all; how many that were."""
    before = version_of(connection)
    for number, step in enumerate(steps[before:], before + 1):
        try:
            connection.executescript(f"BEGIN IMMEDIATE;\n{step};\nPRAGMA user_version = {number};\nCOMMIT;")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    return max(0, len(steps) - before)
