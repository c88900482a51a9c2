"""What model files alone give when the database is lost."""

from __future__ import annotations

from pathlib import Path

from flnet.params import TrainerId
from flnet.store.disk import tables
from flnet.store.disk.files import ModelFiles
from flnet.store.disk.rescue import labels, rebuild, set_aside
from flnet.store.disk.schema import open_database
from tests.helpers import params

A, B = TrainerId("A"), TrainerId("B")


def test_each_trainer_goes_on_from_its_newest_average(tmp_path: Path) -> None:
    files, db = ModelFiles(tmp_path), open_database(tmp_path / "db")
    files.write(params(w=[1.0]), labels("shared", A, 3, 2))
    files.write(params(w=[2.0]), labels("shared", A, 4, 5))
    files.write(params(w=[3.0]), labels("sent", A, 9))
    files.write(params(h=[1.0]), labels("private", A, 4))
    files.write(params(w=[4.0]), labels("shared", B, -1))  # never averaged: nothing to go on from
    damaged = files.path(files.write(params(w=[5.0]), labels("shared", A, 8, 9)))
    damaged.write_bytes(b"x" + damaged.read_bytes()[1:])
    assert rebuild(db, files) == ["A goes on from the average of round 4, found among 2 model files"]
    job = tables.get_job(db, A, files.read)
    assert job is not None
    assert (job.params, job.private, job.sent) == (params(w=[2.0]), params(h=[1.0]), None)
    assert (job.snapshot["round"], job.snapshot["contributors"], job.snapshot["phase"]) == (4, 5, "IDLE")
    assert [model.figures["round"] for model in tables.get_models(db, A)] == [4, 3]
    assert tables.get_job(db, B, files.read) is None


def test_a_database_is_set_aside_with_what_belongs_to_it_and_never_over_another(tmp_path: Path) -> None:
    database = tmp_path / "db"
    for _ in range(2):
        database.write_text("x")
        (tmp_path / "db-wal").write_text("y")
        set_aside(database)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["db.damaged-1", "db.damaged-1-wal", "db.damaged-2", "db.damaged-2-wal"]
