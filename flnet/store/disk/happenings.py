"""What happened, as rows: kept as long as there is room, and numbered so that no number comes twice.

Rows are written in batches and not forced to the disk one by one, so a loss of power may take the last ones. Their
numbers were seen by others all the same: each run sets a wide range of numbers aside when it begins, and gives
back what it did not use when it ends. A run that was killed gives nothing back, and leaves a gap.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from flnet.store.base import as_text

RANGE = 10**9  # numbers that a run sets aside: more than it can use
BOUND = "events_to"  # in the table "node": no number up to it is free


def begin(db: sqlite3.Connection) -> int:
    """Set a range aside; the number behind which it begins."""
    row = db.execute("SELECT value FROM node WHERE name = ?", (BOUND,)).fetchone()
    newest = int(db.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()[0])
    last = max(int(row[0]) if row else 0, newest)
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
        [(one["id"], one["at"], one["kind"], one["text"], one["trainer"], as_text(one["data"])) for one in events],
    )
    return db.total_changes - before


def drop(db: sqlite3.Connection, surplus: int) -> None:
    """Let so many of the oldest go."""
    db.execute("DELETE FROM events WHERE id IN (SELECT id FROM events ORDER BY id LIMIT ?)", (surplus,))


def newest(db: sqlite3.Connection, last: int) -> list[Mapping[str, Any]]:
    """The newest `last` events, oldest first."""
    rows = db.execute("SELECT * FROM events ORDER BY id DESC LIMIT ?", (last,)).fetchall()
    names = ("id", "at", "kind", "text", "trainer")
    return [{**dict(zip(names, row[:5], strict=True)), "data": json.loads(row[5])} for row in reversed(rows)]
