"""The tables of the state database: their schema and its migrations, and reading and writing their rows.

`PRAGMA user_version` holds the number of migration steps that a database has taken. A step is never changed once it
was released; a new form is a new step at the end. Functions that write run inside a transaction of the caller's.

Events are written in batches and not forced to the disk one by one, so a loss of power may take the last ones. Others
have seen their numbers all the same. So each run reserves a wide range of numbers when it begins, and gives back what
it did not use when it ends. A run that was killed gives nothing back, and leaves a gap.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from flnet.errors import StartError
from flnet.params.params import Digest, Params, PeerId, TrainerId
from flnet.protocol.effects import KeptUpdate
from flnet.protocol.updates import Contribution, RoundKey, Update
from flnet.store.base import KeptModel, RecordKey, SavedJob, as_text
from flnet.store.event_retention import KeptEvent, about, dropped
from flnet.store.state_folder import DamagedFile, from_bytes, to_bytes
from flnet.text import coded, decoded, text

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
_REMEMBERED = "ALTER TABLE jobs ADD COLUMN remembered TEXT"  # the file of what an aggregation rule remembers
STEPS: Sequence[str] = (_FIRST, _TRUST, _STATED, _REMEMBERED)
VERSION = len(STEPS)
CACHE_KILOBYTES = 512  # of pages that SQLite keeps in memory, which fill as the database grows; it would take 2 MB
INLINE_BYTES = 64 * 1024  # smaller updates stand in the database: one write instead of a file of their own
Read = Callable[[Digest], Params | None]
Table = Literal["peers", "trust"]
_NAMES: Mapping[Table, str] = {"peers": "id", "trust": "fingerprint"}  # of the column that rows are found by
RANGE = 10**9  # numbers that a run sets aside: more than it can use
_DIGEST = re.compile("[0-9a-f]{64}")
BOUND = "events_to"  # in the table "node": no number up to it is free


class DamagedDatabase(Exception):
    """The file is no database of ours, or parts of it cannot be read; the message says what was found."""


class DamagedRow(DamagedDatabase):
    """One row cannot be read. SQLite's own check does not look into texts, so a damaged sector can be in one."""

    def __init__(self, table: str, reason: object) -> None:
        super().__init__(text("a row of the table {name} in the database is damaged: {reason}", table, reason))
        self.table = table


Skip = Callable[[DamagedRow], object]  # is told of each damaged row that is left out


def refuse(damage: DamagedRow) -> None:
    """Leave out no damaged row: raise."""
    raise damage


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
        connection.text_factory = _lenient  # SQLite would refuse the whole answer for one damaged row in it
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
    report = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(5)")]
    if report != ["ok"]:
        raise DamagedDatabase("; ".join(report))
    version = version_of(connection)
    if version > VERSION:
        raise StartError(
            text(
                "the state was written by a newer flnet: its version is {version}, this one reads up "
                "to {known_version}. Start the newer flnet, or give FLNET_STATE_PATH another folder; "
                "nothing was changed",
                version,
                VERSION,
            )
        )


def _lenient(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _fields(table: str, said: object) -> dict[str, Any]:
    """What the text of a row says.

    Raises:
        DamagedRow: it is no JSON object.
    """
    try:
        if not isinstance(said, str) or "\ufffd" in said:  # `as_text` writes ASCII, so `_lenient` put it there
            raise ValueError("expected text in UTF-8")
        fields = json.loads(said)
        if not isinstance(fields, dict):
            raise ValueError(f"expected a JSON object, got {type(fields).__name__}")
    except (ValueError, RecursionError) as exc:
        raise DamagedRow(table, exc) from exc
    return fields


def _whole(
    table: str, rows: Iterable[Sequence[Any]], skip: Skip
) -> Iterator[tuple[dict[str, Any], Sequence[Any]]]:
    """What the first column of each whole row says, and the other columns."""
    for said, *others in rows:
        try:
            fields = _fields(table, said)
        except DamagedRow as exc:
            skip(exc)
            continue
        yield fields, others


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


def put_job(db: sqlite3.Connection, trainer: TrainerId, job: SavedJob) -> None:
    """Put a job's new state over the last one, but for its records; its parameters' files are there already."""
    digests = [None if params is None else params.digest for params in job.parts]
    db.execute(
        "INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (trainer) DO UPDATE SET "
        "snapshot = excluded.snapshot, params = coalesce(excluded.params, params), "
        "private = coalesce(excluded.private, private), sent = coalesce(excluded.sent, sent), "
        "remembered = coalesce(excluded.remembered, remembered)",
        (trainer, as_text(coded(job.snapshot)), *digests),
    )
    for kept in job.updates:
        put_update(db, trainer, kept)
    first = job.snapshot.get("updates_from", 0)
    db.execute("DELETE FROM updates WHERE trainer = ? AND round < ?", (trainer, first))


def is_inline(params: Params) -> bool:
    """Whether an update stands in the database rather than in a file."""
    return params.nbytes < INLINE_BYTES


def put_update(db: sqlite3.Connection, trainer: TrainerId, kept: KeptUpdate) -> None:
    """Put one update of a peer."""
    update, body, file = kept.update, None, None
    if kept.digest is None:
        body, file = (to_bytes(update.params), None) if is_inline(update.params) else (None, update.params.digest)
    stated = update.contribution.view() if update.contribution else None
    rest = {name: said for name, said in (("memory", update.memory), ("rule", update.rule)) if said}
    more = as_text({"base": update.base, "contribution": stated, "staleness": update.staleness, **rest})
    columns = (update.examples, update.labels, update.accuracy, kept.digest, file, body, more)
    db.execute(
        "INSERT OR REPLACE INTO updates VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (trainer, update.key.number, update.key.initiator, update.peer, *columns),
    )


def count_records(db: sqlite3.Connection, trainer: TrainerId) -> int:
    """How many rounds of a job are kept."""
    return int(db.execute("SELECT count(*) FROM rounds WHERE trainer = ?", (trainer,)).fetchone()[0])


def put_records(db: sqlite3.Connection, trainer: TrainerId, records: Sequence[Mapping[str, Any]]) -> int:
    """Put records of rounds; how many of them are new."""
    new = 0
    for record in records:
        key = (trainer, record["round"], record["initiator"])
        known = db.execute("SELECT 1 FROM rounds WHERE (trainer, round, initiator) = (?, ?, ?)", key).fetchone()
        new += known is None
        db.execute("INSERT OR REPLACE INTO rounds VALUES (?, ?, ?, ?)", (*key, as_text(coded(record))))
    return new


def drop_records(db: sqlite3.Connection, trainer: TrainerId, count: int) -> None:
    """Let the records of so many of the oldest rounds go."""
    db.execute(
        "DELETE FROM rounds WHERE trainer = ?1 AND (round, initiator) IN "
        "(SELECT round, initiator FROM rounds WHERE trainer = ?1 ORDER BY round, initiator LIMIT ?2)",
        (trainer, count),
    )


def get_records(
    db: sqlite3.Connection,
    trainer: TrainerId,
    last: int | None = None,
    until: int | None = None,
    skip: Skip = refuse,
) -> list[Mapping[str, Any]]:
    """The records of the newest `last` rounds up to `until`, oldest first."""
    rows = db.execute(
        "SELECT record FROM rounds WHERE trainer = ? AND round <= ? ORDER BY round DESC, initiator DESC LIMIT ?",
        (trainer, 2**62 if until is None else until, -1 if last is None else last),
    ).fetchall()
    return [decoded(record) for record, _ in _whole("rounds", reversed(rows), skip)]


def get_records_after(
    db: sqlite3.Connection,
    trainer: TrainerId,
    after: RecordKey,
    most: int,
    without: int = 0,
    skip: Skip = refuse,
) -> list[Mapping[str, Any]]:
    """The oldest `most` records behind this one, oldest first, without the first so many of them."""
    rows = db.execute(
        "SELECT record FROM rounds WHERE trainer = ? AND (round, initiator) > (?, ?) "
        "ORDER BY round, initiator LIMIT ? OFFSET ?",
        (trainer, *after, most, without),
    ).fetchall()
    return [decoded(record) for record, _ in _whole("rounds", rows, skip)]


def get_every_record(
    db: sqlite3.Connection, trainer: TrainerId, every: int, last: int | None = None, skip: Skip = refuse
) -> list[Mapping[str, Any]]:
    """Every so many of the records of the newest `last` rounds, the newest among them, oldest first."""
    rows = db.execute(
        "WITH placed AS (SELECT round, initiator, row_number() OVER (ORDER BY round DESC, initiator DESC) - 1 AS place "
        "FROM rounds WHERE trainer = ?1 ORDER BY round DESC, initiator DESC LIMIT ?2) "
        "SELECT record FROM placed JOIN rounds USING (round, initiator) WHERE trainer = ?1 AND place % ?3 = 0 "
        "ORDER BY place DESC",
        (trainer, -1 if last is None else last, every),
    ).fetchall()
    return [decoded(record) for record, _ in _whole("rounds", rows, skip)]


def get_job(
    db: sqlite3.Connection, trainer: TrainerId, read: Read, rounds: int | None = None, skip: Skip = refuse
) -> SavedJob | None:
    """A job's last state; `read` gives parameters by digest, None where they are lost.

    Args:
        rounds: how many records belong to it, the newest; None for all.
        skip: for its records and updates.

    Raises:
        DamagedRow: its snapshot is damaged.
    """
    row = db.execute(
        "SELECT snapshot, params, private, sent, remembered FROM jobs WHERE trainer = ?", (trainer,)
    ).fetchone()
    if row is None:
        return None
    snapshot = decoded(_fields("jobs", row[0]))
    params, private, sent, remembered = (None if digest is None else read(Digest(digest)) for digest in row[1:])
    updates = db.execute(
        "SELECT peer, round, initiator, examples, labels, accuracy, digest, file, body, more FROM updates "
        "WHERE trainer = ? ORDER BY round, initiator, peer",
        (trainer,),
    ).fetchall()
    records = tuple(get_records(db, trainer, rounds, skip=skip))
    kept = tuple(
        update
        for update in (_update(trainer, row_of_update, read, skip) for row_of_update in updates)
        if update is not None
    )
    return SavedJob(snapshot, params, private, sent, kept, records, remembered)


def _update(trainer: TrainerId, row: tuple[Any, ...], read: Read, skip: Skip) -> KeptUpdate | None:
    peer, round, initiator, examples, labels, accuracy, digest, file, body, more = row
    params: Params | None = Params()
    if body is not None:
        try:
            params = from_bytes(body)
        except DamagedFile:
            return None
    elif file is not None:
        params = read(Digest(file))
    if params is None:
        return None
    key = RoundKey(round, PeerId(initiator))
    try:
        fields = _fields("updates", more or "{}")
        view = fields.get("contribution")
        stated = Contribution.read(view, trainer, round, initiator) if view else None
    except DamagedRow as exc:
        skip(exc)
        return None
    except (KeyError, TypeError, ValueError) as exc:
        skip(DamagedRow("updates", repr(exc)))
        return None
    rest = (fields.get("base"), fields.get("staleness", 0), stated, fields.get("memory"))
    update = Update(PeerId(peer), key, params, examples, labels, accuracy, *rest, rule=fields.get("rule", ""))
    return KeptUpdate(update, None if digest is None else Digest(digest))


def put_model(db: sqlite3.Connection, trainer: TrainerId, model: KeptModel) -> None:
    """Put a model as the newest; a pinned one stays pinned."""
    assert model.private is not None
    db.execute(
        "INSERT INTO models (trainer, digest, place, figures, nbytes, private) "
        "SELECT ?, ?, 1 + coalesce(max(place), 0), ?, ?, ? FROM models WHERE trainer = ? "
        "ON CONFLICT (trainer, digest) DO UPDATE SET place = excluded.place, figures = excluded.figures, "
        "nbytes = excluded.nbytes, private = excluded.private",
        (trainer, model.digest, as_text(model.figures), model.nbytes, model.private.digest, trainer),
    )


def drop_models(db: sqlite3.Connection, trainer: TrainerId, most: int, most_bytes: int) -> None:
    """Let the oldest go that are not pinned, until at most `most` are left and they fit; the newest stays."""
    passing = db.execute(
        "SELECT digest, nbytes FROM models WHERE trainer = ? AND pinned = 0 ORDER BY place", (trainer,)
    ).fetchall()
    while len(passing) > 1 and (len(passing) > most or sum(nbytes for _, nbytes in passing) > most_bytes):
        digest, _ = passing.pop(0)
        db.execute("DELETE FROM models WHERE trainer = ? AND digest = ?", (trainer, digest))


def get_models(db: sqlite3.Connection, trainer: TrainerId, skip: Skip = refuse) -> list[KeptModel]:
    """All that are kept, newest first, without parameters."""
    rows = db.execute(
        "SELECT figures, digest, nbytes, pinned FROM models WHERE trainer = ? ORDER BY place DESC", (trainer,)
    ).fetchall()
    whole = _whole("models", rows, skip)
    return [KeptModel(Digest(d), figures, n, pinned=bool(pinned)) for figures, (d, n, pinned) in whole]


def get_model(
    db: sqlite3.Connection, trainer: TrainerId, digest: Digest, read: Read, skip: Skip = refuse
) -> KeptModel | None:
    """One model with its parameters; None if it, or its file, is not there or damaged."""
    row = db.execute(
        "SELECT figures, nbytes, private, pinned FROM models WHERE trainer = ? AND digest = ?", (trainer, digest)
    ).fetchone()
    for figures, (nbytes, private_digest, pinned) in _whole("models", [] if row is None else [row], skip):
        shared, private = read(digest), read(Digest(private_digest))
        if shared is not None and private is not None:
            return KeptModel(digest, figures, nbytes, shared, private, bool(pinned))
    return None


def pin(db: sqlite3.Connection, trainer: TrainerId, digest: Digest, pinned: bool) -> bool:
    """Pin a model or let it go; whether it is kept."""
    done = db.execute(
        "UPDATE models SET pinned = ? WHERE trainer = ? AND digest = ?", (int(pinned), trainer, digest)
    )
    return done.rowcount > 0


def referenced(db: sqlite3.Connection) -> set[Digest]:
    """The digests of all files that something still needs.

    Raises:
        DamagedRow: one is no digest, so a file that is needed might seem not to be.
    """
    rows = db.execute(
        "SELECT params, 'jobs' FROM jobs UNION SELECT private, 'jobs' FROM jobs UNION SELECT sent, 'jobs' FROM jobs "
        "UNION SELECT remembered, 'jobs' FROM jobs UNION SELECT file, 'updates' FROM updates "
        "UNION SELECT digest, 'models' FROM models UNION SELECT private, 'models' FROM models"
    )
    digests = {digest: table for digest, table in rows if digest is not None}
    for digest, table in digests.items():
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise DamagedRow(table, f"expected the name of a model file, got {digest!r:.100}")
    return {Digest(digest) for digest in digests}


def put(db: sqlite3.Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Keep these rows in place of the last ones; in a transaction of the caller's.

    Raises:
        LocalError: a row holds something that is not plain JSON data.
    """
    texts = [(str(row[_NAMES[table]]), as_text(row)) for row in rows]
    db.execute(f"DELETE FROM {table}")  # noqa: S608 - one of two words
    db.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, ?)", texts)  # noqa: S608


def get(db: sqlite3.Connection, table: Table, skip: Skip = refuse) -> Sequence[Mapping[str, Any]]:
    """The rows that were kept last, in the order of what they are found by."""
    rows = db.execute(f"SELECT fields FROM {table} ORDER BY {_NAMES[table]}").fetchall()  # noqa: S608
    return [fields for fields, _ in _whole(table, rows, skip)]


def begin(db: sqlite3.Connection) -> int:
    """Set a range aside; the number behind which it begins.

    Raises:
        DamagedRow: the number that is kept is none.
    """
    row = db.execute("SELECT value FROM node WHERE name = ?", (BOUND,)).fetchone()
    newest = int(db.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()[0])
    try:
        last = max(int(row[0]) if row else 0, newest)
    except ValueError as exc:
        raise DamagedRow("node", exc) from exc
    end(db, last + RANGE)
    return last


def end(db: sqlite3.Connection, last: int) -> None:
    """Numbers behind `last` are free."""
    db.execute("INSERT OR REPLACE INTO node VALUES (?, ?)", (BOUND, str(last)))


def count(db: sqlite3.Connection) -> int:
    """How many rows there are."""
    return int(db.execute("SELECT count(*) FROM events").fetchone()[0])


def add(db: sqlite3.Connection, events: Sequence[Mapping[str, Any]]) -> int:
    """Put events, each with its "id"; how many of them are new."""
    before = db.total_changes
    db.executemany(
        "INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?, ?, ?)",
        [
            (event["id"], event["at"], event["kind"], event["text"], event["trainer"], as_text(event["data"]))
            for event in events
        ],
    )
    return db.total_changes - before


def drop(db: sqlite3.Connection, surplus: int) -> None:
    """Let so many go; see `flnet.store.event_retention`."""
    if surplus:
        rows = db.execute("SELECT id, kind, data FROM events ORDER BY id")
        kept = [KeptEvent(number, kind, _about(data)) for number, kind, data in rows]
        db.executemany("DELETE FROM events WHERE id = ?", [(number,) for number in dropped(kept, surplus)])


def _about(data: object) -> str:
    try:
        return about(_fields("events", data))
    except DamagedRow:
        return ""  # it goes like those of this node


def newest(db: sqlite3.Connection, last: int, skip: Skip = refuse) -> list[Mapping[str, Any]]:
    """The newest `last` events, oldest first."""
    rows = db.execute(
        "SELECT data, id, at, kind, text, trainer FROM events ORDER BY id DESC LIMIT ?", (last,)
    ).fetchall()
    names = ("id", "at", "kind", "text", "trainer")
    whole = _whole("events", reversed(rows), skip)
    return [{**dict(zip(names, others, strict=True)), "data": data} for data, others in whole]
