"""Data that a person brings to a trainer of a running node: moved into their place, and proved by loading them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from flnet.errors import FlnetError, JobBusy, NotReady
from flnet.events import DataChanged, Declaration
from flnet.jobs import Phase
from flnet.node.base import View
from flnet.node.core import NodeCore
from flnet.node.feed import RingFeed
from flnet.node.timers import Deliver
from flnet.params import Params, TrainerId
from flnet.training import Pool, TrainerFile
from flnet.training.adding import Added
from flnet.training.importing import Moved, Upload
from flnet.training.places import ImportRefused, place_of

log = logging.getLogger(__name__)


class Imports:
    """Takes data in, one import at a time; a trainer that cannot read them gets its old ones back."""

    def __init__(
        self,
        core: NodeCore,
        pool: Pool,
        feed: RingFeed,
        deliver: Deliver,
        files: Iterable[TrainerFile] = (),
        datasets: Path | None = None,
        gigabytes: float = 8.0,
    ) -> None:
        """Args:
        files: what is known of the trainers, their places among it.
        datasets: the folder of data sets.
        gigabytes: of one import, also when it is unpacked.
        """
        self._core, self._pool, self._feed, self._deliver = core, pool, feed, deliver
        self._files = {file.id: file for file in files}
        self._datasets, self._gigabytes = datasets, gigabytes
        self._turn = asyncio.Lock()
        self._running: set[asyncio.Task[View]] = set()

    @property
    def limit_bytes(self) -> int:
        """How many bytes may come."""
        return int(self._gigabytes * 1e9)

    def begin(self, trainer: TrainerId, *, replace: bool = False, add: bool = False) -> Upload:
        """Where the files of an import go as they come; hand it to `take`, or discard it.

        Args:
            trainer: that is to read them.
            replace: whether they may take the place of data that are there.
            add: whether they are further examples beside those.

        Raises:
            UnknownTrainer: no such job.
            JobBusy: a series of rounds runs.
            ImportRefused, DataThere, NoRoom: it would come to nothing; says why.
        """
        if self._core.job(trainer).state.rounds_left and not self._core.job(trainer).state.paused:
            raise JobBusy(f"{trainer} is in a series of rounds; stop the series, and bring the data then")
        file = self._files.get(trainer, TrainerFile(trainer, ""))
        return Upload(place_of(file, self._datasets), self._gigabytes, replace=replace, add=add)

    async def take(self, upload: Upload) -> View:
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

    async def _take(self, upload: Upload) -> View:
        trainer = TrainerId(upload.place.trainer)
        try:
            async with self._turn:
                await self._between_rounds(trainer)
                before = self._core.job(trainer).state.declaration
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

    async def _between_rounds(self, trainer: TrainerId) -> None:
        """Wait until no round of this job is open."""
        job = self._core.job(trainer)
        if not job.busy and job.phase is not Phase.LOADING:
            return
        async for _ in self._feed.watch():
            if not job.busy and job.phase is not Phase.LOADING:
                return
        raise NotReady("the node is stopping")

    async def _proved(
        self, trainer: TrainerId, upload: Upload, moved: Moved | Added
    ) -> tuple[Declaration, Params]:
        """The trainer with these data; without them again, if it does not read them."""
        before = self._core.job(trainer).state.declaration
        try:
            declaration, params = await self._pool.prepare(trainer, anew=True)
            _must_read(declaration, before, upload)
        except FlnetError as exc:
            await asyncio.to_thread(moved.undo)
            with suppress(FlnetError):
                await self._pool.prepare(trainer, anew=True)  # with what was there before
            raise ImportRefused(f"{trainer} cannot use what came, and nothing was changed: {exc}") from exc
        return declaration, params

    async def _others(self, trainer: TrainerId, place: Path) -> None:
        """Load the other trainers again that read the same place."""
        for other in self._core.jobs:
            with suppress(ImportRefused):
                if other == trainer or other not in self._files:
                    continue
                if place_of(self._files[other], self._datasets).path == place:
                    await self._renew(other)

    async def _renew(self, trainer: TrainerId) -> None:
        try:
            declaration, params = await self._pool.prepare(trainer, anew=True)
        except FlnetError as exc:
            log.warning("%s cannot use the data that came: %s", trainer, exc)
            self._feed.publish("no_data", f"{trainer} cannot use the data that came: {exc}", trainer)
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
        raise ImportRefused(f"it goes on with {source}{'; ' + note if note else ''}")


def _rows(declaration: Declaration | None) -> int:
    rows = declaration.data.get("rows") if declaration else None
    return sum(rows.values()) if isinstance(rows, Mapping) else 0


def _told(trainer: TrainerId, moved: Moved | Added, declaration: Declaration, added: int) -> View:
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
