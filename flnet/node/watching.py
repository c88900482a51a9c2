"""Watched folders: files that people or machines drop there are added to a trainer's data when they are whole."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flnet.errors import FlnetError, JobBusy, LocalError, NotReady, PeerError
from flnet.jobs import Phase
from flnet.node.core import NodeCore
from flnet.node.feed import RingFeed
from flnet.node.import_base import Imports
from flnet.params import TrainerId
from flnet.training.places import NoRoom

EVERY_SECONDS = 5.0  # between two looks
STILL_SECONDS = 5.0  # for which a file must not change before it is taken
SECOND_SECONDS = 60.0  # for which one that could not be used must not change before it is tried a second time
MOST_FILES = 100_000  # of one trainer; more are not looked at
ASIDE = "set-aside"  # folder for those that cannot be used
_UNFINISHED = (".part", ".partial", ".tmp", ".crdownload", ".download", ".filepart")
log = logging.getLogger(__name__)

Mark = tuple[int, int]  # when a file was changed last, in nanoseconds, and its bytes


@dataclass
class _Seen:
    mark: Mark
    since: float
    is_done: bool = False
    failures: int = 0


class Arrivals:
    """Which files of a folder are whole: those that have not changed for a while. Pure; time is told."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def whole(self, found: Mapping[str, Mark], now: float) -> list[str]:
        """The files that are to be taken now, sorted; an empty file is never whole."""
        self._seen = {name: seen for name, seen in self._seen.items() if name in found}
        for name, mark in found.items():
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


class Watch:
    """Looks into `folder`/<trainer id> from time to time."""

    def __init__(self, core: NodeCore, imports: Imports, feed: RingFeed, folder: Path) -> None:
        self._core, self._imports, self._feed, self._folder = core, imports, feed, folder
        self._told: dict[TrainerId, str] = {}
        self._arrivals = {trainer: Arrivals() for trainer in core.jobs}

    async def keep(self) -> None:
        """Look from time to time, until cancelled."""
        while True:
            for trainer in self._core.jobs:
                try:
                    await self.look(trainer, time.monotonic())
                except (OSError, FlnetError) as exc:
                    log.warning("%s cannot be looked through: %s", self._folder / trainer, exc)
            await asyncio.sleep(EVERY_SECONDS)

    async def look(self, trainer: TrainerId, now: float) -> None:
        """Take in what is whole, if the job has time for it."""
        job, arrivals = self._core.job(trainer), self._arrivals[trainer]
        found = await asyncio.to_thread(files_in, self._folder / trainer)
        names = arrivals.whole(found, now)
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
            if len(names) > 1:
                half = len(names) // 2
                await self._take(trainer, names[:half])
                await self._take(trainer, names[half:])
            elif arrivals.failed(names[0]):
                arrivals.done(names)
                await self._set_aside(trainer, names[0], exc.message)
        else:
            arrivals.done(names)
            if told["files"]:
                words = f"{told['files']} new files in {self._folder / trainer} were added: {told['added']} rows"
                self._feed.publish("files_added", words, trainer, {"files": told["files"], "rows": told["added"]})

    async def _add(self, trainer: TrainerId, names: Sequence[str]) -> Mapping[str, object]:
        try:
            upload = self._imports.begin(trainer, add=True)
        except PeerError as exc:  # it is not about these files
            raise NotReady(exc.message) from exc
        try:
            for name in names:
                upload.begin(name)
                await asyncio.to_thread(_copy, self._folder / trainer / name, upload.write)
        except BaseException:
            await asyncio.to_thread(upload.discard)
            raise
        return await self._imports.take(upload)

    def _waits(self, trainer: TrainerId, reason: str) -> None:
        """Tell, once, that there is no time or room now."""
        if self._told.get(trainer) != reason:
            self._told[trainer] = reason
            self._feed.publish("files_wait", f"files in {self._folder / trainer} wait: {reason}", trainer)

    async def _set_aside(self, trainer: TrainerId, name: str, reason: str) -> None:
        source, target = self._folder / trainer / name, self._folder / trainer / ASIDE / name
        words = f"{name} cannot be used and is in {target.parent} now: {reason}"
        try:
            await asyncio.to_thread(_move, source, target)
        except OSError as exc:
            words = f"{name} cannot be used and is left where it is ({exc.strerror or exc}): {reason}"
        self._feed.publish("file_set_aside", words, trainer, {"file": name})


def files_in(folder: Path) -> Mapping[str, Mark]:
    """The files below a folder, with their marks: none that are hidden, unfinished by their names, or links."""
    found: dict[str, Mark] = {}
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
            found[path.relative_to(folder).as_posix()] = (stat.st_mtime_ns, stat.st_size)
            if len(found) >= MOST_FILES:
                return found
    return found


def _copy(path: Path, write: Callable[[bytes], None]) -> None:
    with path.open("rb") as file:
        while piece := file.read(1024 * 1024):
            write(piece)


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source.replace(target)
