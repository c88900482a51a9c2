"""The disk of a simulated node: it survives a crash, takes its time, and can break."""

from __future__ import annotations

from collections.abc import Callable, Generator

from flnet.errors import LocalError
from flnet.params import TrainerId
from flnet.store import MemoryStore, SavedJob


class Pause:
    """Something that takes so many seconds: whoever runs the coroutine waits for them by its own clock."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __await__(self) -> Generator[float, None, None]:
        if self._seconds > 0:
            yield self._seconds


class Disk(MemoryStore):
    """Keeps the state of one job; `saved` is what a restart finds.

    Attributes:
        fails: whether it refuses every save now.
        has_failed: whether it ever refused one since the node began.
    """

    def __init__(self, takes: Callable[[], tuple[float, float]]) -> None:
        """Args:
        takes: seconds until what is saved would survive a crash, and from then until the node knows.
        """
        super().__init__()
        self.saved = SavedJob()
        self.fails = self.has_failed = False
        self._takes = takes

    async def save(self, trainer: TrainerId, job: SavedJob) -> None:
        """Keep this state.

        Raises:
            LocalError: the disk is broken.
        """
        before, after = self._takes()
        await Pause(before)
        if self.fails:
            self.has_failed = True
            raise LocalError("no space is left on the disk")
        self.saved = self.saved.then(job)
        await Pause(after)
