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
        self._asked = self._done = 0  # saves, by their order: a later one holds all of an earlier one that failed

    async def save(self, trainer: TrainerId, job: SavedJob) -> None:
        """Keep this state.

        Raises:
            LocalError: the disk is broken.
        """
        before, after = self._takes()
        self._asked += 1
        number = self._asked
        await Pause(before)
        if self.fails:
            self.has_failed = True
            raise LocalError("no space is left on the disk")
        if number > self._done:  # a real store has one thread, in which none overtakes another
            self.saved, self._done = self.saved.then(job), number
        await Pause(after)
