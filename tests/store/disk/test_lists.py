"""Tests of lists that are kept as a whole."""

from __future__ import annotations

import sqlite3

import pytest

from flnet.errors import LocalError
from flnet.store.disk import lists
from flnet.store.disk.schema import migrate


@pytest.fixture
def db() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection)
    return connection


@pytest.mark.parametrize(("table", "name"), [("peers", "id"), ("trust", "fingerprint")])
def test_the_last_list_is_there_in_order(db: sqlite3.Connection, table: lists.Table, name: str) -> None:
    assert lists.get(db, table) == []
    lists.put(db, table, [{name: "b", "more": [1, None]}, {name: "a"}])
    assert lists.get(db, table) == [{name: "a"}, {name: "b", "more": [1, None]}]
    lists.put(db, table, [{name: "c"}])
    assert lists.get(db, table) == [{name: "c"}]


def test_what_is_no_plain_data_leaves_the_last_list(db: sqlite3.Connection) -> None:
    lists.put(db, "trust", [{"fingerprint": "a"}])
    with pytest.raises(LocalError):
        lists.put(db, "trust", [{"fingerprint": "b", "is": object()}])
    assert lists.get(db, "trust") == [{"fingerprint": "a"}]
