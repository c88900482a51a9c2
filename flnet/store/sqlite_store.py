"""The store on disk: rows in SQLite, parameters in files, one thread of its own that does all of it in order."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from flnet.errors import LocalError, StartError
from flnet.params.params import Digest, Params, TrainerId
from flnet.store import repair
from flnet.store import sqlite_tables as tables
from flnet.store.base import USUAL, KeptModel, RecordKey, Retention, SavedJob, as_text
from flnet.store.event_retention import surplus
from flnet.store.partial_downloads import FolderDownloads, PartialDownloads
from flnet.store.sqlite_tables import DamagedDatabase, DamagedRow, open_database
from flnet.store.state_folder import PARTS, RECEIVED, DamagedFile, FolderLock, ModelFiles, files_of, labels
from flnet.text import joined, text

DATABASE, MODELS, DOWNLOADS = "state.sqlite3", "models", "downloads"
T = TypeVar("T")


class DiskStore:
    """Keeps jobs in a folder. A call that has returned is on the disk, and survives a loss of power."""

    def __init__(self, folder: Path, retention: Retention = USUAL) -> None:
        """Open the folder, or make it; whatever is damaged is set aside and told in `notices`.

        Args:
            retention: for how long what nobody needs for going on is kept.

        Raises:
            StartError: another process has the folder, a newer flnet wrote it, or it cannot be written.
        """
        self._folder, self._retention = folder, retention
        self._notices: list[str] = []
        self._skipped: set[str] = set()  # tables of which a damaged row was told
        self._counts: dict[TrainerId, int] = {}  # of records
        self._events: int | None = None  # how many are kept, once they are counted
        self._files = ModelFiles(folder / MODELS)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = FolderLock(folder)
        except OSError as exc:
            raise _no_start(folder, exc) from exc
        try:
            folder.chmod(0o700)
            self._files.folder.mkdir(mode=0o700, exist_ok=True)
            self._db = self._opened()
        except BaseException as exc:
            self._lock.close()
            if isinstance(exc, OSError | sqlite3.Error):
                raise _no_start(folder, exc) from exc
            raise
        self.downloads: PartialDownloads = FolderDownloads(folder / DOWNLOADS)
        self._thread = ThreadPoolExecutor(1, "store")
        self._closed = False

    def notices(self) -> Sequence[str]:
        """Notices for people about the folder, each returned once."""
        notices, self._notices = self._notices, []
        return notices

    async def save(self, trainer: TrainerId, job: SavedJob) -> None:
        """Keep this state in place of the last one, as `SavedJob.then` says.

        Raises:
            LocalError: it was not kept; the message says why. What was kept before is still there.
        """
        await self._run(lambda: self._save(trainer, job))
        if job.models or any(params is not None for params in job.parts):
            self._tidy_later()

    async def load(self, trainer: TrainerId, rounds: int | None = None) -> SavedJob | None:
        """The last saved state, or None if there is none; for a damaged model the newest one that is whole."""
        return await self._run(lambda: self._load(trainer, rounds))

    async def records(
        self, trainer: TrainerId, last: int | None = None, until: int | None = None
    ) -> Sequence[Mapping[str, Any]]:
        """The records of the newest `last` rounds, oldest first."""
        return await self._run(lambda: tables.get_records(self._db, trainer, last, until, self._skip))

    async def count_records(self, trainer: TrainerId) -> int:
        """The number of records that are kept."""
        return await self._run(lambda: tables.count_records(self._db, trainer))

    async def records_after(
        self, trainer: TrainerId, after: RecordKey, most: int, skip: int = 0
    ) -> Sequence[Mapping[str, Any]]:
        """The oldest `most` records behind this one, oldest first, without the first `skip`."""
        return await self._run(lambda: tables.get_records_after(self._db, trainer, after, most, skip, self._skip))

    async def every_record(
        self, trainer: TrainerId, every: int, last: int | None = None
    ) -> Sequence[Mapping[str, Any]]:
        """Every so many of the newest records, oldest first."""
        return await self._run(lambda: tables.get_every_record(self._db, trainer, every, last, self._skip))

    async def keep_model(
        self, trainer: TrainerId, figures: Mapping[str, Any], shared: Params, private: Params
    ) -> None:
        """Keep this model as the newest; of those before it, as many as count and size allow, and all pinned ones.

        Raises:
            LocalError: it was not kept, and why.
        """
        await self._run(lambda: self._keep_model(trainer, figures, shared, private))
        self._tidy_later()

    async def models(self, trainer: TrainerId) -> Sequence[KeptModel]:
        """All that are kept, newest first, without their parameters."""
        return await self._run(lambda: tables.get_models(self._db, trainer, self._skip))

    async def load_model(self, trainer: TrainerId, digest: Digest) -> KeptModel | None:
        """The model with its parameters, or None if it is not kept (any more), or damaged."""
        return await self._run(lambda: tables.get_model(self._db, trainer, digest, self._read, self._skip))

    async def pin(self, trainer: TrainerId, digest: Digest, pinned: bool) -> bool:
        """Keep a model whatever comes after it, or let it go when its turn comes; whether it is kept at all."""
        return await self._change(lambda: tables.pin(self._db, trainer, digest, pinned))

    async def save_peers(self, peers: Sequence[Mapping[str, Any]]) -> None:
        """Keep these peers, each with its "id", in place of the last ones."""
        await self._change(lambda: tables.put(self._db, "peers", peers))

    async def load_peers(self) -> Sequence[Mapping[str, Any]]:
        """The peers that were saved last, by id."""
        return await self._run(lambda: tables.get(self._db, "peers", self._skip))

    async def save_trust(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep these decisions, each with its "fingerprint", in place of the last ones."""
        await self._change(lambda: tables.put(self._db, "trust", rows))

    async def load_trust(self) -> Sequence[Mapping[str, Any]]:
        """The decisions that were saved last, by fingerprint.

        Raises:
            LocalError: one is damaged. None is left out: without it a key that people refused might be accepted.
        """
        return await self._run(self._decisions)

    async def begin_events(self) -> int:
        """The number behind which this run numbers its events."""
        return await self._change(lambda: tables.begin(self._db))

    async def add_events(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Keep events, each with its "id"; a loss of power may take the last ones."""
        await self._run(lambda: self._add_events(events))

    async def events(self, last: int) -> Sequence[Mapping[str, Any]]:
        """The newest `last` events that are kept, oldest first."""
        return await self._run(lambda: tables.newest(self._db, last, self._skip))

    async def end_events(self, last: int) -> None:
        """No event behind this number comes any more."""
        await self._change(lambda: tables.end(self._db, last))

    async def close(self) -> None:
        """Finish what was asked for, and let others have the folder; may be called again."""
        if self._closed:
            return
        self._closed = True
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    async def _run(self, work: Callable[[], T]) -> T:
        """Do it in the store's thread; also when the caller does not wait for it any more, it is done wholly."""
        if self._closed:
            raise LocalError(text("the store is closed"))

        def guarded() -> T:
            try:
                return work()
            except DamagedDatabase as exc:
                raise LocalError(str(exc)) from exc
            except OSError as exc:
                raise LocalError(text("state cannot be written: {error}", exc.strerror or exc)) from exc
            except sqlite3.Error as exc:
                raise LocalError(text("state cannot be written: {error}", exc)) from exc

        return await asyncio.get_running_loop().run_in_executor(self._thread, guarded)

    async def _change(self, work: Callable[[], T]) -> T:
        """Do it wholly or not at all."""

        def whole() -> T:
            with self._transaction():
                return work()

        return await self._run(whole)

    def _save(self, trainer: TrainerId, job: SavedJob) -> None:
        as_text(job.snapshot)  # refused before anything is written
        round, contributors = job.snapshot.get("model_round", -1), job.snapshot.get("contributors", 0)
        parts = zip(PARTS, job.parts, strict=True)
        held = [
            (params, labels(kind, trainer, round, contributors)) for kind, params in parts if params is not None
        ]
        came = [kept.update.params for kept in job.updates if kept.digest is None]
        received = labels(RECEIVED, trainer)
        held += [(params, received) for params in came if not tables.is_inline(params)]
        self._files.write_all(held + [file for model in job.models for file in files_of(trainer, model)])
        with self._transaction():
            tables.put_job(self._db, trainer, job)
            self._put_records(trainer, job)
            self._put_models(trainer, job.models)

    def _put_records(self, trainer: TrainerId, job: SavedJob) -> None:
        """Insert and delete records. The rows are counted only once, because there may be a hundred thousand."""
        if not job.records:
            return
        count = self._counts.pop(trainer, None)  # should this fail, they are counted again
        count = tables.count_records(self._db, trainer) if count is None else count
        count += tables.put_records(self._db, trainer, job.records)
        surplus = max(0, count - self._retention.rounds)
        tables.drop_records(self._db, trainer, surplus)
        self._counts[trainer] = count - surplus

    def _add_events(self, events: Sequence[Mapping[str, Any]]) -> None:
        self._db.execute("PRAGMA synchronous = NORMAL")  # nothing is promised, so nothing is forced to the disk
        try:
            with self._transaction():
                count = tables.count(self._db) if self._events is None else self._events
                count += tables.add(self._db, events)
                too_many = surplus(count, self._retention.events)
                tables.drop(self._db, too_many)
            self._events = count - too_many
        finally:
            self._db.execute("PRAGMA synchronous = FULL")

    def _decisions(self) -> Sequence[Mapping[str, Any]]:
        try:
            return tables.get(self._db, "trust")
        except DamagedRow as exc:
            remedy = text(
                "restore a backup of this folder, or move {name} away: the next start makes a new one from the model "
                "files, without history and without decisions on keys",
                DATABASE,
            )
            raise LocalError(joined([str(exc), remedy])) from exc

    def _load(self, trainer: TrainerId, rounds: int | None) -> SavedJob | None:
        try:
            job = tables.get_job(self._db, trainer, self._read, rounds, self._skip)
        except DamagedRow as exc:
            return self._load_without_snapshot(trainer, rounds, exc)
        if job is None or job.params is not None or job.snapshot.get("model_round", -1) < 0:
            return job
        whole = self._newest_whole(trainer)
        if whole is None:
            return job
        figures = {name: whole.figures.get(name) for name in ("contributors", "accuracy")}
        snapshot = {**job.snapshot, **figures, "model_round": whole.figures["round"]}
        return replace(job, snapshot=snapshot, params=whole.shared, private=whole.private)

    def _load_without_snapshot(self, trainer: TrainerId, rounds: int | None, damage: DamagedRow) -> SavedJob:
        """What the other tables hold of a job: as after a repair, and its records."""
        self._skip(damage)
        whole = self._newest_whole(trainer)
        if whole is None:
            raise damage
        snapshot = repair.snapshot_of(whole.figures["round"], whole.figures.get("contributors") or 0)
        records = tables.get_records(self._db, trainer, rounds, skip=self._skip)
        return SavedJob(snapshot, whole.shared, whole.private, records=tuple(records))

    def _newest_whole(self, trainer: TrainerId) -> KeptModel | None:
        """The newest model that can be read, which is told as the one that the job goes on from."""
        for listed in tables.get_models(self._db, trainer, self._skip):
            if not isinstance(round := listed.figures.get("round"), int):
                continue
            whole = tables.get_model(self._db, trainer, listed.digest, self._read, self._skip)
            if whole is not None:
                self._notices.append(text("{trainer} goes on from its model of round {number}", trainer, round))
                return whole
        return None

    def _keep_model(self, trainer: TrainerId, figures: Mapping[str, Any], shared: Params, private: Params) -> None:
        model = KeptModel.of(figures, shared, private)
        self._files.write_all(files_of(trainer, model))
        with self._transaction():
            self._put_models(trainer, [model])

    def _put_models(self, trainer: TrainerId, models: Sequence[KeptModel]) -> None:
        for model in models:
            tables.put_model(self._db, trainer, model)
            tables.drop_models(self._db, trainer, self._retention.averages + 1, self._retention.model_bytes)

    def _read(self, digest: Digest) -> Params | None:
        try:
            return self._files.read(digest)
        except DamagedFile as exc:
            notice = str(exc)
        except OSError as exc:  # it may be whole, so it keeps its name
            reason = exc.strerror or exc
            raise LocalError(text("the file of {digest} cannot be read: {reason}", digest[:10], reason)) from exc
        with contextlib.suppress(OSError, ValueError):  # a damaged row may name what no file can be called
            name = self._files.set_aside(digest).name
            notice = joined([notice, text("it was renamed to {name} and is not used", name)])
        self._notices.append(notice)
        return None

    def _skip(self, damage: DamagedRow) -> None:
        """Go on without a row; the first one of each table is told."""
        if damage.table not in self._skipped:
            self._skipped.add(damage.table)
            self._notices.append(joined([str(damage), text("it is left out")]))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            self._counts.clear()
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise

    def _tidy_later(self) -> None:
        if not self._closed:
            self._thread.submit(self._tidy)  # nobody waits for it

    def _tidy(self) -> None:
        with contextlib.suppress(OSError, sqlite3.Error):  # what stays now goes next time
            self._keep_referenced(self._db)

    def _keep_referenced(self, db: sqlite3.Connection) -> None:
        """Remove the files that nothing needs; none, while a damaged row hides which that are."""
        try:
            self._files.keep_only(tables.referenced(db))
        except DamagedRow as exc:
            self._skip(exc)

    def _opened(self) -> sqlite3.Connection:
        path = self._folder / DATABASE
        if left := self._files.remove_unfinished():
            self._notices.append(
                text("{count} half-written files of the last run removed", left)
                if left != 1
                else text("{count} half-written file of the last run removed", left)
            )
        damage = ""
        try:
            if not repair.is_lost(path, self._files):
                db = open_database(path)
                self._keep_referenced(db)  # and not what was written for a save that never was
                path.chmod(0o600)
                return db
        except DamagedDatabase as exc:
            damage = str(exc)
        aside, notices = repair.begin_again(path, self._files)
        if damage:
            words = text("the database was damaged ({reason}); it was renamed to {name}", damage, aside.name)
            self._notices.append(words)
        self._notices += notices
        path.chmod(0o600)
        return open_database(path)

    def _close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with contextlib.suppress(sqlite3.Error):
            self._db.close()
        self._lock.close()


def read_job(folder: Path, trainer: TrainerId) -> SavedJob | None:
    """The last saved state of a job, without a change to the folder: its node may be running.

    Returns:
        None if nothing is saved. Parameters that the node replaced meanwhile are None.

    Raises:
        StartError, DamagedDatabase, OSError: the database cannot be read.
    """
    files = ModelFiles(folder / MODELS)

    def read(digest: Digest) -> Params | None:
        with contextlib.suppress(DamagedFile):
            return files.read(digest)
        return None

    with contextlib.closing(open_database(folder / DATABASE, read_only=True)) as db:
        return tables.get_job(db, trainer, read, 0, lambda damage: None)


def _no_start(folder: Path, exc: Exception) -> StartError:
    words = exc.strerror if isinstance(exc, OSError) and exc.strerror else exc
    return StartError(
        text(
            "the state folder {folder} cannot be used ({reason}); set FLNET_STATE_PATH to one that can be written",
            folder,
            words,
        )
    )
