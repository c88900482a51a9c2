"""Examines a state folder, and repairs what can be repaired.

A damaged database is renamed, and a new one is filled with what the model files say of themselves. The new one takes
its place when it is complete: on an empty one a node would start, and remove all model files as no longer needed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from flnet.errors import StartError
from flnet.params.params import Digest, Params, TrainerId
from flnet.store.base import USUAL, KeptModel, Retention, SavedJob
from flnet.store.sqlite_tables import (
    VERSION,
    DamagedDatabase,
    DamagedRow,
    end,
    open_database,
    put_job,
    put_model,
    referenced,
    version_of,
)
from flnet.store.state_folder import (
    CONTRIBUTORS,
    KIND,
    PRIVATE,
    ROUND,
    SHARED,
    TRAINER,
    UNFINISHED,
    DamagedFile,
    FolderLock,
    ModelFiles,
    free_name,
    holder,
    sync_folder,
)
from flnet.text import text

DATABASE, MODELS = "state.sqlite3", "models"
LOW_BYTES = 256 * 1024 * 1024  # less free space than that is worth a word
Level = Literal["ok", "warning", "error"]
_PARTS = ("", "-wal", "-shm")  # of a database: SQLite's files next to it


def is_lost(database: Path, files: ModelFiles) -> bool:
    """Whether there are models and no database."""
    return (not database.exists() or not database.stat().st_size) and bool(files.names())


def begin_again(database: Path, files: ModelFiles) -> tuple[Path, list[str]]:
    """Put a new database, filled from the model files, in the place of one that is damaged or lost.

    It gets its name when it is complete. Whenever this stops, the next start finds the old one or none, and begins again.

    Returns:
        the name that the old one got, and what was found.

    Raises:
        OSError, sqlite3.Error: it cannot be written, or a file cannot be read now; the old one is still there.
    """
    draft = database.with_name(database.name + UNFINISHED)
    _remove(draft)  # of an attempt that was killed
    try:
        with contextlib.closing(open_database(draft)) as db:
            db.execute("BEGIN IMMEDIATE")
            notices = rebuild(db, files) or [text("no model file could be used")]
            end(db, int(time.time() * 1000))  # behind all numbers of events that can have been used
            db.execute("COMMIT")
            db.execute("PRAGMA journal_mode = DELETE")  # one file, whole without a -wal beside it
        aside = set_aside(database)
        draft.rename(database)
    finally:
        _remove(draft)
    sync_folder(database.parent)
    return aside, notices


def _remove(database: Path) -> None:
    for part in _PARTS:
        database.with_name(database.name + part).unlink(missing_ok=True)


def set_aside(database: Path) -> Path:
    """Rename a database that cannot be read, with SQLite's files next to it; return its new name."""
    aside = free_name(database)
    for part in _PARTS:
        with contextlib.suppress(FileNotFoundError):
            database.with_name(database.name + part).rename(aside.with_name(aside.name + part))
    return aside


def rebuild(db: sqlite3.Connection, files: ModelFiles) -> list[str]:
    """Fill an empty database from the files; a sentence for each trainer on what was found.

    A job goes on from the newest average that it had. What was only in the database is gone: the records of
    rounds, measured figures, hyper-parameters, and the updates of a round that was open. Damaged files are set aside.

    Raises:
        OSError: a file cannot be read now, and may be whole.
    """
    shared: dict[TrainerId, list[tuple[int, int, Params]]] = {}
    private: dict[TrainerId, tuple[float, Params]] = {}
    for digest in files.names():
        labels = files.metadata(digest)
        trainer, kind = TrainerId(labels.get(TRAINER, "")), labels.get(KIND)
        try:
            params = files.read(digest)
            round, contributors = int(labels.get(ROUND, "-1")), int(labels.get(CONTRIBUTORS, "0"))
        except DamagedFile:
            with contextlib.suppress(OSError):
                files.set_aside(digest)  # no row names it, so the next start would remove it
            continue
        except ValueError:
            continue
        if trainer and kind == SHARED and round >= 0:
            shared.setdefault(trainer, []).append((round, contributors, params))
        elif trainer and kind == PRIVATE:
            written = files.path(digest).stat().st_mtime
            if trainer not in private or written > private[trainer][0]:
                private[trainer] = (written, params)
    notices: list[str] = []
    for trainer, models in sorted(shared.items()):
        models.sort(key=lambda model: model[:2])
        _, beside = private.get(trainer, (0.0, Params()))
        for model in models:
            put_model(db, trainer, KeptModel.of(_figures(*model[:2], beside), model[2], beside))
        round, contributors, params = models[-1]
        put_job(db, trainer, SavedJob(snapshot_of(round, contributors), params, beside))
        notices.append(
            text(
                "{trainer} goes on from the average of round {number}, found among {count} model files",
                trainer,
                round,
                len(models),
            )
        )
    return notices


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


def snapshot_of(round: int, contributors: int) -> dict[str, Any]:
    """The snapshot of a job of which only a model is left: it waits for the next round."""
    return {
        "round": round,
        "initiator": "",
        "phase": "IDLE",
        "model_round": round,
        "contributors": contributors,
        "updates_from": round + 1,
    }


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        level: "ok"; "warning" for what costs only room or privacy; "error" for what is lost or in the way.
        mended: whether it was an error or a warning that is put right now.
    """

    what: str
    level: Level
    text: str
    mended: bool = False


def examine(folder: Path, repair: bool = False, retention: Retention = USUAL) -> list[Finding]:
    """All findings about a state folder; the folder of a running node is only read.

    Args:
        retention: what is to be kept there at most.
    """
    if not folder.is_dir():
        return [Finding("folder", "error", f"there is no folder {folder}")]
    findings: list[Finding] = []
    with _held(folder) as lock:
        free = lock.level == "ok" and repair
        findings += [_permissions(folder, free), lock, *_database(folder, free, retention), *_room(folder)]
    return findings


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[Finding]:
    try:
        lock = FolderLock(folder)
    except StartError:
        who = holder(folder)
        words = f"a node{f' (process {who})' if who else ''} runs on it: it is only read, and nothing is mended"
        yield Finding("lock", "warning", words)
        return
    except OSError as exc:
        yield Finding("lock", "error", f"the folder cannot be written: {exc.strerror or exc}")
        return
    try:
        yield Finding("lock", "ok", "no node runs on it")
    finally:
        lock.close()


def _permissions(folder: Path, mend: bool) -> Finding:
    mode = stat.S_IMODE(folder.stat().st_mode)
    if not mode & 0o077:
        return Finding("permissions", "ok", "only its owner may read it")
    if mend:
        folder.chmod(0o700)
    return Finding("permissions", "warning", f"others may enter it (mode {mode:o}; it should be 700)", mend)


def _database(folder: Path, mend: bool, retention: Retention) -> list[Finding]:
    path, files = folder / DATABASE, ModelFiles(folder / MODELS)
    findings: list[Finding] = []
    if not path.exists() and not files.names():
        return [Finding("database", "ok", "no node has kept anything here yet")]
    damage = "it is missing, and there are model files" if is_lost(path, files) else ""
    try:
        db = None if damage else open_database(path, read_only=not mend)
    except StartError as exc:
        return [Finding("database", "error", exc.message)]
    except OSError as exc:
        return [Finding("database", "error", f"it cannot be opened: {exc.strerror or exc}")]
    except DamagedDatabase as exc:
        db, damage = None, f"it is damaged: {exc}"
    if db is None:
        if not mend:
            words = f"{damage}; the next start, or --repair, makes a new one from the model files"
            return [Finding("database", "error", words)]
        try:
            aside, notices = begin_again(path, files)
            db = open_database(path)
        except (OSError, sqlite3.Error) as exc:
            return [Finding("database", "error", f"{damage}; no new one could be made, the old one stays: {exc}")]
        renamed = f"; renamed to {aside.name}" if aside.exists() else ""
        findings.append(Finding("database", "error", f"{damage}{renamed}. {'; '.join(notices)}", True))
    else:
        words = f"whole; version {version_of(db)} of {VERSION}, {_size(path)}"
        findings.append(Finding("database", "ok", words))
    with contextlib.closing(db):
        return [*findings, _kept(db, retention), *_files(db, files, mend)]


def _kept(db: sqlite3.Connection, retention: Retention) -> Finding:
    """The amounts of data with a retention limit, and the limits."""
    models, rounds, events = (
        db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - the names stand here
        for table in ("models WHERE NOT pinned", "rounds", "events")
    )
    most = f"{retention.averages + 1} of each trainer, {retention.model_bytes // 1024**2} MiB"
    words = f"{models} models (at most {most}), {rounds} rounds (at most {retention.rounds} of each trainer)"
    return Finding("kept", "ok", f"{words}, {events} events (at most {retention.events})")


def _files(db: sqlite3.Connection, files: ModelFiles, mend: bool) -> list[Finding]:
    sizes = files.names()
    try:
        wanted = referenced(db)
    except DamagedRow as exc:
        return [Finding("models", "error", f"{exc}; so no file is looked at, and none is removed")]
    findings = [found for digest in sorted(wanted) if (found := _damaged(db, files, digest, mend))]
    if orphans := sorted(sizes.keys() - wanted):
        if mend:
            files.keep_only(wanted)
        words = f"{len(orphans)} that nothing needs, {_bytes(sum(sizes[digest] for digest in orphans))}"
        findings.append(Finding("models", "warning", words, mend))
    if left := files.unfinished():
        if mend:
            files.remove_unfinished()
        findings.append(Finding("models", "warning", f"{len(left)} half-written", mend))
    if aside := sorted(files.folder.glob("*.damaged-*")):
        words = f"{len(aside)} damaged ones were set aside earlier; remove them when nobody needs them"
        findings.append(Finding("models", "ok", words))
    whole = Finding("models", "ok", f"{len(sizes)} files, {_bytes(sum(sizes.values()))}")
    return [whole, *findings]


def _damaged(db: sqlite3.Connection, files: ModelFiles, digest: Digest, mend: bool) -> Finding | None:
    """A file that is needed and not whole: the job will use the newest model that is."""
    try:
        files.read(digest)
        return None
    except OSError as exc:
        words = f"{digest[:10]} cannot be read now ({exc.strerror or exc}); it may be whole, and stays as it is"
        return Finding("models", "error", words)
    except DamagedFile:
        pass
    missing = not files.path(digest).exists()
    if mend:
        db.execute("DELETE FROM models WHERE digest = ?1 OR private = ?1", (digest,))
        db.execute("DELETE FROM updates WHERE file = ?", (digest,))
        if not missing:
            files.set_aside(digest)
    words = f"{digest[:10]} is {'missing' if missing else 'damaged'}; the newest whole model is used instead"
    return Finding("models", "error", words, mend)


def _room(folder: Path) -> list[Finding]:
    free = shutil.disk_usage(folder).free
    level: Level = "ok" if free >= LOW_BYTES and os.access(folder, os.W_OK) else "warning"
    return [Finding("disk", level, f"{_bytes(free)} free")]


def _size(path: Path) -> str:
    return _bytes(path.stat().st_size)


def _bytes(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
