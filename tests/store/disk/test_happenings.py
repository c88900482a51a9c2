"""What happened, as rows: numbers that no run uses twice, and only the newest are kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flnet.store.disk import DiskStore, happenings
from flnet.store.disk.schema import open_database


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = open_database(tmp_path / "state.sqlite3")
    yield connection
    connection.close()


def event(number: int) -> dict[str, Any]:
    return {"id": number, "at": 0.5, "kind": "k", "text": "t", "trainer": "", "data": {"n": number}}


def test_after_an_orderly_end_numbers_go_on_without_a_gap(db: sqlite3.Connection) -> None:
    assert happenings.begin(db) == 0
    happenings.end(db, 7)
    assert happenings.begin(db) == 7


def test_after_a_kill_no_number_of_the_range_is_used_again(db: sqlite3.Connection) -> None:
    happenings.end(db, 7)
    happenings.begin(db)
    happenings.add(db, [event(8), event(9)])  # and others that never came to the disk
    assert happenings.begin(db) == 7 + happenings.RANGE


def test_numbers_that_were_used_without_a_range_are_not_used_again(db: sqlite3.Connection) -> None:
    happenings.add(db, [event(5_000_000_000_000)])
    assert happenings.begin(db) == 5_000_000_000_000


def test_the_newest_are_kept_and_each_of_them_once(db: sqlite3.Connection) -> None:
    assert happenings.add(db, [event(1), event(2), event(3)]) == 3
    assert happenings.add(db, [event(3), event(4)]) == 1
    assert happenings.count(db) == 4
    happenings.drop(db, 1)
    assert happenings.newest(db, 10) == [event(2), event(3), event(4)]
    assert happenings.newest(db, 2) == [event(3), event(4)]


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
