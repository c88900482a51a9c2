"""Reads and writes the rows of jobs, updates, rounds and models; every function runs inside a transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flnet.contributions import Contribution
from flnet.effects import KeptUpdate
from flnet.params import Digest, Params, PeerId, RoundKey, TrainerId, Update
from flnet.store.base import KeptModel, SavedJob, as_text
from flnet.store.disk.files import DamagedFile, from_bytes, to_bytes

INLINE_BYTES = 64 * 1024  # smaller updates stand in the database: one write instead of a file of their own

Read = Callable[[Digest], Params | None]


def put_job(db: sqlite3.Connection, trainer: TrainerId, job: SavedJob) -> None:
    """Put a job's new state over the last one, but for its records; its parameters' files are there already."""
    digests = [None if params is None else params.digest for params in job.parts]
    db.execute(
        "INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (trainer) DO UPDATE SET "
        "snapshot = excluded.snapshot, params = coalesce(excluded.params, params), "
        "private = coalesce(excluded.private, private), sent = coalesce(excluded.sent, sent), "
        "remembered = coalesce(excluded.remembered, remembered)",
        (trainer, as_text(job.snapshot), *digests),
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
    more = as_text({"base": update.base, "contribution": stated, "staleness": update.staleness})
    said = (update.examples, update.labels, update.accuracy, kept.digest, file, body, more)
    db.execute(
        "INSERT OR REPLACE INTO updates VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (trainer, update.key.number, update.key.initiator, update.peer, *said),
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
        db.execute("INSERT OR REPLACE INTO rounds VALUES (?, ?, ?, ?)", (*key, as_text(record)))
    return new


def drop_records(db: sqlite3.Connection, trainer: TrainerId, count: int) -> None:
    """Let the records of so many of the oldest rounds go."""
    db.execute(
        "DELETE FROM rounds WHERE trainer = ?1 AND (round, initiator) IN "
        "(SELECT round, initiator FROM rounds WHERE trainer = ?1 ORDER BY round, initiator LIMIT ?2)",
        (trainer, count),
    )


def get_records(
    db: sqlite3.Connection, trainer: TrainerId, last: int | None = None, until: int | None = None
) -> list[Mapping[str, Any]]:
    """The records of the newest `last` rounds up to `until`, oldest first."""
    rows = db.execute(
        "SELECT record FROM rounds WHERE trainer = ? AND round <= ? ORDER BY round DESC, initiator DESC LIMIT ?",
        (trainer, 2**62 if until is None else until, -1 if last is None else last),
    ).fetchall()
    return [json.loads(row[0]) for row in reversed(rows)]


def get_job(db: sqlite3.Connection, trainer: TrainerId, read: Read, rounds: int | None = None) -> SavedJob | None:
    """A job's last state; `read` gives parameters by digest, None where they are lost.

    Args:
        rounds: how many records belong to it, the newest; None for all.
    """
    row = db.execute(
        "SELECT snapshot, params, private, sent, remembered FROM jobs WHERE trainer = ?", (trainer,)
    ).fetchone()
    if row is None:
        return None
    params, private, sent, remembered = (None if digest is None else read(Digest(digest)) for digest in row[1:])
    updates = db.execute(
        "SELECT peer, round, initiator, examples, labels, accuracy, digest, file, body, more FROM updates "
        "WHERE trainer = ? ORDER BY round, initiator, peer",
        (trainer,),
    ).fetchall()
    records = tuple(get_records(db, trainer, rounds))
    kept = tuple(found for found in (_update(trainer, one, read) for one in updates) if found is not None)
    return SavedJob(json.loads(row[0]), params, private, sent, kept, records, remembered)


def _update(trainer: TrainerId, row: tuple[Any, ...], read: Read) -> KeptUpdate | None:
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
    said = json.loads(more or "{}")
    view = said.get("contribution")
    stated = Contribution.read(view, trainer, round, initiator) if view else None
    more_said = (said.get("base"), said.get("staleness", 0))
    update = Update(PeerId(peer), key, params, examples, labels, accuracy, *more_said, contribution=stated)
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


def get_models(db: sqlite3.Connection, trainer: TrainerId) -> list[KeptModel]:
    """All that are kept, newest first, without parameters."""
    rows = db.execute(
        "SELECT digest, figures, nbytes, pinned FROM models WHERE trainer = ? ORDER BY place DESC", (trainer,)
    )
    return [KeptModel(Digest(d), json.loads(figures), n, pinned=bool(pinned)) for d, figures, n, pinned in rows]


def get_model(db: sqlite3.Connection, trainer: TrainerId, digest: Digest, read: Read) -> KeptModel | None:
    """One model with its parameters; None if it, or its file, is not there."""
    row = db.execute(
        "SELECT figures, nbytes, private, pinned FROM models WHERE trainer = ? AND digest = ?", (trainer, digest)
    ).fetchone()
    if row is None:
        return None
    shared, private = read(digest), read(Digest(row[2]))
    if shared is None or private is None:
        return None
    return KeptModel(digest, json.loads(row[0]), row[1], shared, private, bool(row[3]))


def pin(db: sqlite3.Connection, trainer: TrainerId, digest: Digest, pinned: bool) -> bool:
    """Pin a model or let it go; whether it is kept."""
    done = db.execute(
        "UPDATE models SET pinned = ? WHERE trainer = ? AND digest = ?", (int(pinned), trainer, digest)
    )
    return done.rowcount > 0


def referenced(db: sqlite3.Connection) -> set[Digest]:
    """The digests of all files that something still needs."""
    rows = db.execute(
        "SELECT params FROM jobs UNION SELECT private FROM jobs UNION SELECT sent FROM jobs UNION "
        "SELECT remembered FROM jobs "
        "UNION SELECT file FROM updates UNION SELECT digest FROM models UNION SELECT private FROM models"
    )
    return {Digest(row[0]) for row in rows if row[0] is not None}
