"""Leave-one-out: how accurate the average of a round is here, and how accurate it would be without each peer.

This only observes rounds. Nothing of it enters a job, a record or a message, so no peer learns its value here.
The updates of the newest round are held, if they are small enough, until the round is over. Then the average is
computed and evaluated again without each peer in turn. A new round has priority: as soon as one is open, the
measurement is abandoned.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flnet.aggregation.screening import Merge
from flnet.compute.queue import ComputeQueue
from flnet.compute.verbs import EvaluateRequest
from flnet.errors import FlnetError
from flnet.node.core import NodeCore
from flnet.params.params import TrainerId
from flnet.protocol.effects import Average
from flnet.protocol.updates import RoundKey, Update
from flnet.rounds.steps import Phase
from flnet.text import text
from flnet.trainer import Score

MOST_BYTES = 128 * 1024 * 1024  # of updates that are held on to
MOST_ROUNDS = 20  # that are remembered, the newest
TOO_LARGE = text("the updates of a round are too large to be held on to")
TOO_FEW = text("there were no updates of other nodes")
_FAILURES = (FlnetError, ArithmeticError, ValueError, MemoryError)
Tell = Callable[[str, str, str, Mapping[str, Any]], object]


@dataclass(frozen=True)
class _Kept:
    """The updates of a round, and the way that they are merged."""

    key: RoundKey
    updates: tuple[Update, ...]
    merge: Merge


class _BegunError(Exception):
    """Another round is open: what is under way is given up."""


class LeaveOneOut:
    """Measures what each peer contributed to the newest round of every job, if the settings ask for it."""

    def __init__(
        self, core: NodeCore, pool: ComputeQueue, tell: Tell, *, is_on: bool = False, most_bytes: int = MOST_BYTES
    ) -> None:
        """Args:
        tell: takes a kind, a sentence, a trainer and figures, for the feed.
        is_on: whether anything is measured at all.
        """
        self._core, self._pool, self._tell = core, pool, tell
        self.is_on, self._most_bytes = is_on, most_bytes
        self._kept: dict[TrainerId, _Kept] = {}
        self._found: dict[TrainerId, deque[Mapping[str, Any]]] = {}
        self._why_not: dict[TrainerId, str] = {}
        self._news = asyncio.Event()

    def keep(self, trainer: TrainerId, effect: Average, merge: Merge) -> None:
        """Hold the updates of a round that is being averaged."""
        self._kept.pop(trainer, None)
        nbytes = sum(update.params.nbytes for update in effect.updates)
        if effect.folded or nbytes > self._most_bytes:
            self._why_not[trainer] = TOO_LARGE
        elif len(effect.updates) < 2:
            self._why_not[trainer] = TOO_FEW
        else:
            self._kept[trainer] = _Kept(effect.key, effect.updates, merge)

    def note(self) -> None:
        """Drop updates of a round that was left, and start measuring when a round is over; called after every event."""
        for trainer, kept in list(self._kept.items()):
            if self._core.jobs[trainer].key != kept.key:
                del self._kept[trainer]
            elif self._is_over(trainer, kept):
                self._news.set()

    async def run(self) -> None:
        """Measure rounds that are over, until this is cancelled."""
        while self.is_on:
            await self._news.wait()
            self._news.clear()
            for trainer, kept in list(self._kept.items()):
                if self._is_over(trainer, kept):
                    await self._try(trainer, kept)

    def view(self, trainer: TrainerId) -> Mapping[str, Any]:
        """The results of the newest rounds."""
        self._core.job(trainer)
        rounds = list(self._found.get(trainer, ()))
        return {"on": self.is_on, "why_not": self._why_not.get(trainer, ""), "rounds": rounds}

    async def _try(self, trainer: TrainerId, kept: _Kept) -> None:
        try:
            measurement = await self._measured(trainer, kept)
        except _BegunError:
            return
        except _FAILURES as exc:
            self._why_not[trainer] = text("it could not be measured: {error}", exc)
        else:
            self._found.setdefault(trainer, deque(maxlen=MOST_ROUNDS)).append(measurement)
            self._why_not.pop(trainer, None)
            words = text("what each peer brought to round {number} is measured", kept.key.number)
            self._tell("gains_measured", words, trainer, {"round": kept.key.number})
        if self._kept.get(trainer) is kept:
            del self._kept[trainer]

    async def _measured(self, trainer: TrainerId, kept: _Kept) -> Mapping[str, Any]:
        started, me = time.monotonic(), self._core.me.id
        whole = await self._score(trainer, kept, kept.updates)
        without = {}
        for peer in (update.peer for update in kept.updates if update.peer != me):
            rest = [update for update in kept.updates if update.peer != peer]
            without[str(peer)] = (await self._score(trainer, kept, rest)).accuracy
        return {
            "round": kept.key.number,
            "accuracy": whole.accuracy,
            "examples": whole.examples,
            "seconds": time.monotonic() - started,
            "without": without,
        }

    async def _score(self, trainer: TrainerId, kept: _Kept, updates: Sequence[Update]) -> Score:
        """How good the average of these updates is here, with this node's private parameters.

        Raises:
            _BegunError: a round was opened meanwhile.
        """
        merged = await asyncio.to_thread(kept.merge, updates)
        model = self._core.jobs[trainer].held.model
        if model is None or not self._is_over(trainer, kept):
            raise _BegunError
        return await self._pool.call(trainer, EvaluateRequest(merged.merged_with(model.private)))

    def _is_over(self, trainer: TrainerId, kept: _Kept) -> bool:
        job = self._core.jobs[trainer]
        return job.phase is Phase.IDLE and job.key == kept.key
