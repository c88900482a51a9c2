"""Short lists that are kept as a whole, in a table each: the peers, and the keys that people decided on."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from flnet.store.base import as_text

Table = Literal["peers", "trust"]
_NAMES: Mapping[Table, str] = {"peers": "id", "trust": "fingerprint"}  # of the column that rows are found by


def put(db: sqlite3.Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Keep these rows in place of the last ones; in a transaction of the caller's.

    Raises:
        LocalError: a row holds something that is not plain JSON data.
    """
    texts = [(str(row[_NAMES[table]]), as_text(row)) for row in rows]
    db.execute(f"DELETE FROM {table}")  # noqa: S608 - one of two words
    db.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, ?)", texts)  # noqa: S608


def get(db: sqlite3.Connection, table: Table) -> Sequence[Mapping[str, Any]]:
    """The rows that were kept last, in the order of what they are found by."""
    rows = db.execute(f"SELECT fields FROM {table} ORDER BY {_NAMES[table]}").fetchall()  # noqa: S608
    return [json.loads(row[0]) for row in rows]
