"""Rows: what is written is what is read, and which files they need."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from flnet.contributions import Contribution
from flnet.effects import KeptUpdate
from flnet.params import Digest, PeerId, TrainerId, Update
from flnet.store import KeptModel, SavedJob
from flnet.store.disk import tables
from flnet.store.disk.schema import open_database
from tests.helpers import key, params

T = TrainerId("T")


@pytest.fixture
def db(tmp_path: Path) -> sqlite3.Connection:
    return open_database(tmp_path / "db")


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


def test_models_go_by_number_and_by_size_but_not_the_newest_nor_the_pinned(db: sqlite3.Connection) -> None:
    for number in range(4):
        tables.put_model(db, T, KeptModel.of({"round": number}, params(w=[number]), params()))
    assert tables.pin(db, T, params(w=[0]).digest, True)
    tables.drop_models(db, T, most=2, most_bytes=1000)
    assert [model.figures["round"] for model in tables.get_models(db, T)] == [3, 2, 0]
    tables.drop_models(db, T, most=2, most_bytes=1)
    assert [model.figures["round"] for model in tables.get_models(db, T)] == [3, 0]
    assert tables.get_model(db, T, params(w=[3]).digest, lambda _: None) is None
