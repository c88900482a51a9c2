"""What is done about a damaged database: it is set aside, and a new one begins with what the model files say."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

from flnet.params import Params, TrainerId
from flnet.store.base import KeptModel, SavedJob
from flnet.store.disk.files import DamagedFile, ModelFiles, free_name
from flnet.store.disk.tables import put_job, put_model

KIND, TRAINER, ROUND, CONTRIBUTORS = "kind", "trainer", "round", "contributors"
SHARED, PRIVATE, SENT, REMEMBERED, RECEIVED = "shared", "private", "sent", "remembered", "received"
PARTS = (SHARED, PRIVATE, SENT, REMEMBERED)  # of a job, in the order of `SavedJob.parts`


def set_aside(database: Path) -> Path:
    """Rename a database that cannot be read, and what SQLite keeps beside it; its new name."""
    aside = free_name(database)
    for ending in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            database.with_name(database.name + ending).rename(aside.with_name(aside.name + ending))
    return aside


def labels(kind: str, trainer: TrainerId, round: int = -1, contributors: int = 0) -> dict[str, str]:
    """What a file says of itself."""
    return {KIND: kind, TRAINER: trainer, ROUND: str(round), CONTRIBUTORS: str(contributors)}


def files_of(trainer: TrainerId, model: KeptModel) -> list[tuple[Params, dict[str, str]]]:
    """The parameters of a model, and what the file of each says of itself."""
    where = (model.figures.get("round", -1), model.figures.get("contributors", 0))
    parts = ((SHARED, model.shared), (PRIVATE, model.private))
    return [(one, labels(kind, trainer, *where)) for kind, one in parts if one is not None]


def rebuild(db: sqlite3.Connection, files: ModelFiles) -> list[str]:
    """Fill an empty database from the files; a sentence for each trainer on what was found.

    A job goes on from the newest average that it had. What was only in the database is gone: the records of
    rounds, measured figures, hyper-parameters, and the updates of a round that was open.
    """
    found: dict[TrainerId, list[tuple[int, int, Params]]] = {}
    private: dict[TrainerId, tuple[float, Params]] = {}
    for digest in files.names():
        said = files.said(digest)
        trainer, kind = TrainerId(said.get(TRAINER, "")), said.get(KIND)
        try:
            params = files.read(digest)
            round, contributors = int(said.get(ROUND, "-1")), int(said.get(CONTRIBUTORS, "0"))
        except (DamagedFile, ValueError):
            continue
        if trainer and kind == SHARED and round >= 0:
            found.setdefault(trainer, []).append((round, contributors, params))
        elif trainer and kind == PRIVATE:
            written = files.path(digest).stat().st_mtime
            if trainer not in private or written > private[trainer][0]:
                private[trainer] = (written, params)
    told = []
    for trainer, models in sorted(found.items()):
        models.sort(key=lambda model: model[:2])
        _, beside = private.get(trainer, (0.0, Params()))
        for model in models:
            put_model(db, trainer, KeptModel.of(_figures(*model[:2], beside), model[2], beside))
        round, contributors, params = models[-1]
        put_job(db, trainer, SavedJob(_snapshot(round, contributors), params, beside))
        told.append(f"{trainer} goes on from the average of round {round}, found among {len(models)} model files")
    return told


def _figures(round: int, contributors: int, private: Params) -> dict[str, Any]:
    return {
        "round": round,
        "contributors": contributors,
        "accuracy": None,
        "schema_digest": "",
        "private": sorted(private),
        "hyper": {},
        "rows": {},
        "classes": [],
        "record": None,
    }


def _snapshot(round: int, contributors: int) -> dict[str, Any]:
    return {
        "round": round,
        "initiator": "",
        "phase": "IDLE",
        "model_round": round,
        "contributors": contributors,
        "updates_from": round + 1,
    }
