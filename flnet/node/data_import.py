"""Data that a person brings to a trainer of a running node: uploads, and files in watched folders.

An import is moved into its place between two rounds and proved by loading the trainer with it; a trainer that
cannot read the new data gets its old data back. Files in watched folders are added when they are complete.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flnet.compute.queue import ComputeQueue
from flnet.compute.verbs import PrepareRequest
from flnet.datasets.dataset_import import AddedExamples, ImportedFolder, Place, Upload, place_of
from flnet.errors import FlnetError, ImportRefused, JobBusy, LocalError, NoRoom, NotReady, PeerError
from flnet.node.core import NodeCore
from flnet.node.event_log import EventLog
from flnet.node.event_queue import Deliver
from flnet.params.params import Params, TrainerId
from flnet.protocol.events import DataChanged, Declaration, Event, TrainingAsked, UpdateOffered, UpdateReceived
from flnet.rounds.steps import Phase
from flnet.text import joined, text
from flnet.trainer import TrainerFile

log = logging.getLogger(__name__)
EVERY_SECONDS = 5.0  # between two looks
STILL_SECONDS = 5.0  # for which a file must not change before it is taken
SECOND_SECONDS = 60.0  # for which one that could not be used must not change before it is tried a second time
MOST_FILES = 100_000  # of one trainer; more are not looked at
ASIDE = "set-aside"  # folder for those that cannot be used
_UNFINISHED = (".part", ".partial", ".tmp", ".crdownload", ".download", ".filepart")
Mark = tuple[int, int]  # when a file was changed last, in nanoseconds, and its bytes


class DataImports:
    """Takes data in, one import of a place at a time; a trainer that cannot read them gets its old ones back."""

    def __init__(
        self,
        core: NodeCore,
        pool: ComputeQueue,
        feed: EventLog,
        deliver: Deliver,
        files: Mapping[TrainerId, TrainerFile],
        datasets: tuple[Path | None, Path],
        gigabytes: float,
        seconds: float | None = None,
    ) -> None:
        """Args:
        files: what is known of the trainers, their places among it, by id.
        datasets: the folder of data sets, and the one that is used for trainers made here if there is none.
        gigabytes: of one import, also when it is unpacked.
        seconds: that a trainer may take to load it; None for any time.
        """
        self._core, self._pool, self._feed, self._deliver = core, pool, feed, deliver
        self._files, self._folders, self._gigabytes = files, datasets, gigabytes
        self._reload = PrepareRequest(reload=True, seconds=seconds)
        self._unpacking, self._turns = asyncio.Lock(), defaultdict[Path, asyncio.Lock](asyncio.Lock)
        self._awaited: set[TrainerId] = set()  # whose round has to end before data are moved
        self._running: set[asyncio.Task[Mapping[str, Any]]] = set()

    @property
    def limit_bytes(self) -> int:
        """How many bytes may come."""
        return int(self._gigabytes * 1e9)

    def check_round(self, trainer: TrainerId | None, event: Event) -> None:
        """Let peers begin no further round while data wait for the end of one: rounds may follow each other without end.

        Raises:
            NotReady: the message would begin one; its sender may send it again.
        """
        if trainer not in self._awaited or trainer is None:
            return
        match event:
            case TrainingAsked(key=key):
                round = key
            case UpdateReceived(update) | UpdateOffered(update):
                round = update.key
            case _:
                return
        open_round = self._core.job(trainer).key
        if open_round is None or round.number > open_round.number:
            raise NotReady(text("data are being imported for {trainer}; send this one again", trainer))

    def begin(self, trainer: TrainerId, *, replace: bool = False, add: bool = False) -> Upload:
        """Open an upload for the files of an import; pass it to `take`, or discard it.

        Args:
            trainer: that is to read them.
            replace: whether they may take the place of data that are there.
            add: whether the examples are added to the existing ones.

        Raises:
            UnknownTrainer: no such job.
            JobBusy: a series of rounds runs.
            ImportRefused, DataThere, NoRoom: it would come to nothing; says why.
        """
        if self._core.job(trainer).series.left and not self._core.job(trainer).series.paused:
            raise JobBusy(
                text("{trainer} is in a series of rounds; stop the series, then import the data", trainer)
            )
        file = self._files.get(trainer, TrainerFile(trainer, ""))
        return Upload(self._place(file), self._gigabytes, replace=replace, add=add)

    def _place(self, file: TrainerFile) -> Place:
        datasets, own = self._folders
        return place_of(file, own if datasets is None and Path(file.place).is_absolute() else datasets)

    async def take(self, upload: Upload) -> Mapping[str, Any]:
        """Move what came into its place as soon as no round is open, and load the trainer again.

        It goes on when the caller is gone: what is whole is taken in, and the page shows it.

        Returns:
            What the trainer says of its data now: place, files, bytes, aside (or None), source, rows, classes,
            counts, checksum, added (rows that came to the old ones).

        Raises:
            ImportRefused, DataThere, NoRoom: nothing has changed; says why.
            NotReady: the node stops.
        """
        task = asyncio.get_running_loop().create_task(self._take(upload))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def _take(self, upload: Upload) -> Mapping[str, Any]:
        trainer = TrainerId(upload.place.trainer)
        try:
            async with self._unpacking:  # before the wait, so that what is refused keeps nobody waiting
                await asyncio.to_thread(upload.unpack)
            async with self._turns[upload.place.path]:
                async with self._between_rounds(trainer):
                    before = self._core.job(trainer).settings.declaration
                    moved = await asyncio.to_thread(upload.settle)
                if not moved.files and before is not None:  # all of it is there already
                    return _told(trainer, moved, before, 0)
                declaration, params = await self._proved(trainer, upload, moved)
                added = max(_rows(declaration) - _rows(before), 0) if upload.adds else 0
                self._deliver(trainer, DataChanged(declaration, params, added))
                await self._others(trainer, moved.place)
        finally:
            await asyncio.to_thread(upload.discard)
        return _told(trainer, moved, declaration, added)

    @asynccontextmanager
    async def _between_rounds(self, trainer: TrainerId) -> AsyncIterator[None]:
        """Wait until no round of this job is open, and let peers begin none meanwhile."""
        self._awaited.add(trainer)
        try:
            await self._end_of_round(trainer)
            yield
        finally:
            self._awaited.discard(trainer)

    async def _end_of_round(self, trainer: TrainerId) -> None:
        job = self._core.job(trainer)
        if not job.busy and job.phase is not Phase.LOADING:
            return
        async for _ in self._feed.watch():
            if not job.busy and job.phase is not Phase.LOADING:
                return
        raise NotReady(text("the node is stopping"))

    async def _proved(
        self, trainer: TrainerId, upload: Upload, moved: ImportedFolder | AddedExamples
    ) -> tuple[Declaration, Params]:
        """The trainer with these data; without them again, if it does not read them."""
        before = self._core.job(trainer).settings.declaration
        try:
            declaration, params = await self._pool.call(trainer, self._reload)
            _must_read(declaration, before, upload)
        except FlnetError as exc:
            await asyncio.to_thread(moved.undo)
            with suppress(FlnetError):
                await self._pool.call(trainer, self._reload)  # with what was there before
            raise ImportRefused(
                text(
                    "{trainer} cannot use what came, and nothing was changed: {reason}",
                    trainer,
                    moved.as_it_came(str(exc)),
                )
            ) from exc
        return declaration, params

    async def _others(self, trainer: TrainerId, place: Path) -> None:
        """Load the other trainers again that read the same place."""
        for other in tuple(self._core.jobs):
            with suppress(ImportRefused):
                if other == trainer or other not in self._files:
                    continue
                if self._place(self._files[other]).path == place:
                    await self._renew(other)

    async def _renew(self, trainer: TrainerId) -> None:
        try:
            declaration, params = await self._pool.call(trainer, self._reload)
        except FlnetError as exc:
            log.warning("%s cannot use the data that came: %s", trainer, exc)
            self._feed.publish(
                "no_data", text("{trainer} cannot use the data that came: {reason}", trainer, exc), trainer
            )
        else:
            self._deliver(trainer, DataChanged(declaration, params))


def _must_read(now: Declaration, before: Declaration | None, upload: Upload) -> None:
    """Refuse data that the trainer passes over because it has others to fall back to.

    Raises:
        ImportRefused: its words on its data do not name the place, and did so before or are the same as before.
    """
    source = str(now.data.get("source", ""))
    named = str(upload.place.path)
    if named in source or before is None:
        return
    was = str(before.data.get("source", ""))
    if named in was or (source, now.offers.get("checksum")) == (was, before.offers.get("checksum")):
        note = str(now.data.get("note", ""))
        words = text("it goes on with {source}", source)
        raise ImportRefused(joined([words, note]) if note else words)


def _rows(declaration: Declaration | None) -> int:
    rows = declaration.data.get("rows") if declaration else None
    return sum(rows.values()) if isinstance(rows, Mapping) else 0


def _told(
    trainer: TrainerId, moved: ImportedFolder | AddedExamples, declaration: Declaration, added: int
) -> Mapping[str, Any]:
    data, offers = declaration.data, declaration.offers
    return {
        "trainer_id": trainer,
        "place": str(moved.place),
        "files": moved.files,
        "bytes": moved.size,
        "added": added,
        "aside": None if moved.aside is None else str(moved.aside),
        "source": str(data.get("source", "")),
        "rows": dict(data.get("rows") or {}),
        "classes": list(data.get("classes") or ()),
        "counts": dict(offers.get("counts") or {}),
        "checksum": str(offers.get("checksum") or ""),
    }


@dataclass
class _Seen:
    mark: Mark
    since: float
    is_done: bool = False
    failures: int = 0


class FileArrivals:
    """Which files of a folder are whole: those that have not changed for a while. Pure; time is told."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def whole(self, marks: Mapping[str, Mark], now: float) -> list[str]:
        """The files that are to be taken now, sorted; an empty file is never whole."""
        self._seen = {name: seen for name, seen in self._seen.items() if name in marks}
        for name, mark in marks.items():
            if name not in self._seen or self._seen[name].mark != mark:
                self._seen[name] = _Seen(mark, now)
        return sorted(name for name, seen in self._seen.items() if self._is_whole(seen, now))

    def done(self, names: Sequence[str]) -> None:
        """These need no second look, as long as they do not change."""
        for name in names:
            self._seen[name].is_done = True

    def failed(self, name: str) -> bool:
        """It could not be used; whether that was the second time, so that it is given up."""
        seen = self._seen[name]
        seen.failures += 1
        return seen.failures > 1

    @staticmethod
    def _is_whole(seen: _Seen, now: float) -> bool:
        still = SECOND_SECONDS if seen.failures else STILL_SECONDS
        return not seen.is_done and seen.mark[1] > 0 and now - seen.since >= still


class FolderWatcher:
    """Looks into `folder`/<trainer id> from time to time."""

    def __init__(self, core: NodeCore, imports: DataImports, feed: EventLog, folder: Path) -> None:
        self._core, self._imports, self._feed, self._folder = core, imports, feed, folder
        self._told: dict[TrainerId, str] = {}
        self._arrivals = defaultdict[TrainerId, FileArrivals](FileArrivals)

    async def keep(self) -> None:
        """Look from time to time, until cancelled."""
        while True:
            for trainer in tuple(self._core.jobs):
                try:
                    await self.look(trainer, time.monotonic())
                except (OSError, FlnetError) as exc:
                    log.warning("%s cannot be looked through: %s", self._folder / trainer, exc)
                except Exception as exc:  # a mistake of ours must not end the watch over all other files
                    log.exception("%s cannot be looked through", self._folder / trainer)
                    self._waits(trainer, f"{type(exc).__name__}: {exc}")
            await asyncio.sleep(EVERY_SECONDS)

    async def look(self, trainer: TrainerId, now: float) -> None:
        """Take in what is whole, if the job has time for it."""
        job, arrivals = self._core.job(trainer), self._arrivals[trainer]
        marks = await asyncio.to_thread(files_in, self._folder / trainer)
        names = arrivals.whole(marks, now)
        if names and not job.busy and job.phase is not Phase.LOADING:
            await self._take(trainer, names)

    async def _take(self, trainer: TrainerId, names: Sequence[str]) -> None:
        """Add these files; where some cannot be used, find out which by halves."""
        arrivals = self._arrivals[trainer]
        try:
            told = await self._add(trainer, names)
        except (JobBusy, NotReady, NoRoom, LocalError, OSError) as exc:
            self._waits(trainer, str(exc))
        except PeerError as exc:
            await self._refused(trainer, names, exc.message)
        except Exception as exc:  # a mistake of ours that one of the files brings about; the others need not wait
            log.exception("files in %s cannot be added", self._folder / trainer)
            await self._refused(trainer, names, f"{type(exc).__name__}: {exc}")
        else:
            arrivals.done(names)
            if told["files"]:
                words = _added_words(told["files"], self._folder / trainer, told["added"])
                self._feed.publish("files_added", words, trainer, {"files": told["files"], "rows": told["added"]})

    async def _refused(self, trainer: TrainerId, names: Sequence[str], reason: str) -> None:
        """Find by halves which of these files cannot be used; one that fails twice is put aside."""
        arrivals = self._arrivals[trainer]
        if len(names) > 1:
            half = len(names) // 2
            await self._take(trainer, names[:half])
            await self._take(trainer, names[half:])
        elif arrivals.failed(names[0]):
            arrivals.done(names)
            await self._set_aside(trainer, names[0], reason)

    async def _add(self, trainer: TrainerId, names: Sequence[str]) -> Mapping[str, object]:
        try:
            upload = self._imports.begin(trainer, add=True)
        except PeerError as exc:  # it is not about these files
            raise NotReady(exc.message) from exc
        try:
            for name in names:
                upload.begin(name)
                try:
                    await asyncio.to_thread(_copy, self._folder / trainer / name, upload.write)
                except OSError as exc:  # this file alone; the others need not wait for it
                    raise ImportRefused(
                        text("{name} cannot be read: {reason}", name, exc.strerror or exc)
                    ) from exc
        except BaseException:
            await asyncio.to_thread(upload.discard)
            raise
        return await self._imports.take(upload)

    def _waits(self, trainer: TrainerId, reason: str) -> None:
        """Tell, once, that there is no time or room now."""
        if self._told.get(trainer) != reason:
            self._told[trainer] = reason
            self._feed.publish(
                "files_wait", text("files in {folder} wait: {reason}", self._folder / trainer, reason), trainer
            )

    async def _set_aside(self, trainer: TrainerId, name: str, reason: str) -> None:
        source, target = self._folder / trainer / name, self._folder / trainer / ASIDE / name
        words = text("{name} cannot be used and is in {folder} now: {reason}", name, target.parent, reason)
        try:
            await asyncio.to_thread(_move, source, target)
        except OSError as exc:
            words = text(
                "{name} cannot be used and is left where it is ({cause}): {reason}",
                name,
                exc.strerror or exc,
                reason,
            )
        self._feed.publish("file_set_aside", words, trainer, {"file": name})


def _added_words(files: object, folder: Path, rows: object) -> str:
    if files == 1:
        return text("1 new file in {folder} was added; new rows: {number}", folder, rows)
    return text("{count} new files in {folder} were added; new rows: {number}", files, folder, rows)


def files_in(folder: Path) -> Mapping[str, Mark]:
    """The files below a folder, with their marks: none that are hidden, unfinished by their names, or links."""
    marks: dict[str, Mark] = {}
    for top, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name != ASIDE]
        for name in files:
            path = Path(top) / name
            if name.startswith(".") or name.lower().endswith(_UNFINISHED) or path.is_symlink():
                continue
            try:
                stat = path.stat()
            except OSError:
                continue  # it went while we looked
            marks[path.relative_to(folder).as_posix()] = (stat.st_mtime_ns, stat.st_size)
            if len(marks) >= MOST_FILES:
                return marks
    return marks


def _copy(path: Path, write: Callable[[bytes], None]) -> None:
    with path.open("rb") as file:
        while piece := file.read(1024 * 1024):
            write(piece)


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source.replace(target)
