"""A node that sends flipped updates: `python -m tests.processes.hostile run ...`, else the same as `flnet run`.

What its trainer learnt is turned around before the compute queue gets it, so all that follows (rounding, signing, sending)
is done as an honest node does it, and no other node can tell by anything but the numbers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flnet.__main__ import main
from flnet.compute.tasks import ComputeTasks
from flnet.compute.verbs import FitRequest

FACTOR = 5


class FlippingQueue:
    """The queue of a node, whose trainings end on the other side of where they began."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    async def call(self, trainer: Any, request: Any) -> Any:
        """w - FACTOR (w_i - w) in place of w_i."""
        result = await self._queue.call(trainer, request)
        if not isinstance(request, FitRequest):
            return result
        start, learned = request.params, result.fit.params
        flipped = {name: start[name] - FACTOR * (learned[name] - start[name]) for name in learned}
        return result._replace(fit=replace(result.fit, params=flipped))


def flip() -> None:
    """Let every node of this process have such a queue."""
    honest = ComputeTasks.__init__

    def hostile(self: ComputeTasks, queue: Any, *arguments: Any, **options: Any) -> None:
        honest(self, FlippingQueue(queue), *arguments, **options)

    ComputeTasks.__init__ = hostile  # type: ignore[method-assign]


if __name__ == "__main__":
    flip()
    main()
