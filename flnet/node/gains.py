"""Whom this node gains from: how accurate the average of a round is here, and what it would be without each peer.

An observation beside the rounds, and no part of them: nothing of it enters a job, a record or a message, so that
no peer hears what it is worth here. The updates of the newest round are held on to, if they are small enough,
until the round is over; then the average is made and measured again without each peer in turn. The next round
comes first: as soon as one is open, what is under way is given up.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flnet.effects import Average
from flnet.errors import FlnetError
from flnet.jobs import Phase
from flnet.node.core import NodeCore
from flnet.params import Params, RoundKey, TrainerId, Update
from flnet.screening import Bounds, Screening
from flnet.strategies import RoundStart, Strategy
from flnet.strategies.base import State
from flnet.training import Pool, Score

MOST_BYTES = 128 * 1024 * 1024  # of updates that are held on to
MOST_ROUNDS = 20  # that are remembered, the newest
TOO_LARGE = "the updates of a round are too large to be held on to"
TOO_FEW = "there were no updates of other nodes"
_FAILURES = (FlnetError, ArithmeticError, ValueError, MemoryError)
Merge = Callable[[Sequence[Update]], Params]
Tell = Callable[[str, str, str, Mapping[str, Any]], object]


@dataclass(frozen=True)
class _Kept:
    """The updates of a round, and the way that they are merged."""

    key: RoundKey
    updates: tuple[Update, ...]
    merge: Merge


class _BegunError(Exception):
    """Another round is open: what is under way is given up."""


def remerge(bounds: Bounds, strategy: Strategy, start: RoundStart, remembered: State) -> Merge:
    """How updates of this round become one model, from the same base and memory every time."""

    def merge(updates: Sequence[Update]) -> Params:
        screening = Screening(bounds, start.base, start.schema)
        taken, refused = screening.take(updates), screening.refused()
        counting = [update for update in taken if update.peer not in refused]
        return start.schema.conform(strategy.merge(remembered, start, counting).params)

    return merge


class Gains:
    """Measures what each peer brought to the newest round of every job, where that is wanted."""

    def __init__(
        self, core: NodeCore, pool: Pool, tell: Tell, *, is_on: bool = False, most_bytes: int = MOST_BYTES
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
        """Hold on to the updates of a round that is averaged now."""
        self._kept.pop(trainer, None)
        nbytes = sum(update.params.nbytes for update in effect.updates)
        if effect.folded or nbytes > self._most_bytes:
            self._why_not[trainer] = TOO_LARGE
        elif len(effect.updates) < 2:
            self._why_not[trainer] = TOO_FEW
        else:
            self._kept[trainer] = _Kept(effect.key, effect.updates, merge)

    def note(self) -> None:
        """Something happened: let go what belongs to a round that was left, and begin when one is over."""
        for trainer, kept in list(self._kept.items()):
            if self._core.jobs[trainer].state.key != kept.key:
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
        """What was found of the newest rounds."""
        self._core.job(trainer)
        found = list(self._found.get(trainer, ()))
        return {"on": self.is_on, "why_not": self._why_not.get(trainer, ""), "rounds": found}

    async def _try(self, trainer: TrainerId, kept: _Kept) -> None:
        try:
            found = await self._measured(trainer, kept)
        except _BegunError:
            return
        except _FAILURES as exc:
            self._why_not[trainer] = f"it could not be measured: {exc}"
        else:
            self._found.setdefault(trainer, deque(maxlen=MOST_ROUNDS)).append(found)
            self._why_not.pop(trainer, None)
            words = f"what each peer brought to round {kept.key.number} is measured"
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
        model = self._core.jobs[trainer].state.model
        if model is None or not self._is_over(trainer, kept):
            raise _BegunError
        return await self._pool.evaluate(trainer, merged.merged_with(model.private))

    def _is_over(self, trainer: TrainerId, kept: _Kept) -> bool:
        job = self._core.jobs[trainer]
        return job.phase is Phase.IDLE and job.state.key == kept.key
