"""Steps that wait for the disk: saved together as they come, and performed one after another.

While the disk is at work the node takes further events. What others may see of them stands in line behind what
they may see of earlier ones, so nothing overtakes, and nothing is promised before it is saved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from flnet.effects import Save
from flnet.events import Event
from flnet.messages import Packet
from flnet.node.core import Owned
from flnet.node.shelf import Chosen
from flnet.params import TrainerId

MOST_WAITING = 64  # steps; a node that is faster than its disk waits for it
Answered = asyncio.Future[Packet | None]


@dataclass(frozen=True)
class Step:
    """What is still to be done about one event.

    Attributes:
        saves: what is to be kept before all else, by the job that wants it.
        models: that jobs held then, for the shelf.
        effects: that others may see.
        heard: the event, and whose it is.
    """

    saves: Sequence[tuple[TrainerId, Save]] = ()
    models: Sequence[Chosen] = ()
    effects: Sequence[Owned] = ()
    heard: tuple[TrainerId | None, Event] | None = None
    answered: Answered = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Line:
    """Takes steps; all that stand in line when the disk is free are saved at once."""

    def __init__(
        self,
        save: Callable[[Sequence[Step]], Awaitable[None]],
        finish: Callable[[Step], Awaitable[Packet | None]],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        """Args:
        save: keeps what steps want kept; what cannot be kept is for `finish` to see.
        finish: performs a step's effects, and gives the answer among them.
        spawn: runs a task.
        """
        self._save, self._finish, self._spawn = save, finish, spawn
        self._waiting: list[Step] = []
        self._under_way: list[Step] = []
        self._runs = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits, so that whoever comes now overtakes nobody."""
        return not self._runs

    @property
    def is_long(self) -> bool:
        """Whether the disk is so far behind that no further events should be taken for now."""
        return len(self._waiting) >= MOST_WAITING

    def add(self, step: Step) -> Answered:
        """Stand in line; the future has the answer when it may be given, or why there is none."""
        self._waiting.append(step)
        if not self._runs:
            self._runs = True
            self._spawn(self._run())
        return step.answered

    async def settle(self, seconds: float) -> None:
        """Wait until nothing stands in line, for so long at most."""
        last = [step.answered for step in (*self._under_way, *self._waiting)]
        if last:
            await asyncio.wait(last, timeout=seconds)

    def close(self) -> None:
        """Nobody who still stands in line gets an answer."""
        for step in (*self._under_way, *self._waiting):
            step.answered.cancel()
        self._under_way, self._waiting = [], []

    async def _run(self) -> None:
        while self._waiting:
            self._under_way, self._waiting = self._waiting, []
            try:
                await self._save(self._under_way)
            except Exception as exc:  # a bug: nothing of these steps is promised
                for step in self._under_way:
                    step.answered.set_exception(exc)
                continue
            for step in self._under_way:
                await self._end(step)
        self._runs = False

    async def _end(self, step: Step) -> None:
        try:
            answer = await self._finish(step)
        except Exception as exc:  # a refusal, or a bug: for whoever waits
            outcome: Exception | None = exc
        else:
            outcome = None
        if step.answered.done():
            return
        if outcome is None:
            step.answered.set_result(answer)
        else:
            step.answered.set_exception(outcome)
