"""A node that sends flipped updates: `python -m tests.processes.hostile run ...`, else the same as `flnet run`.

What its trainer learnt is turned around before the lane gets it, so all that follows (rounding, signing, sending)
is done as an honest node does it, and no other node can tell by anything but the numbers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flnet.__main__ import main
from flnet.node.lane import Lane
from flnet.training import Fit, Score

FACTOR = 5


class FlippingPool:
    """The pool of a node, whose trainings end on the other side of where they began."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    async def fit(self, trainer: Any, params: Any, hyper: Any, seed: int, number: int = 0) -> tuple[Fit, Score]:
        """w - FACTOR (w_i - w) in place of w_i."""
        fit, score = await self._pool.fit(trainer, params, hyper, seed, number)
        flipped = {name: params[name] - FACTOR * (learnt - params[name]) for name, learnt in fit.params.items()}
        return replace(fit, params=flipped), score


def flip() -> None:
    """Let every lane of this process have such a pool."""
    honest = Lane.__init__

    def hostile(self: Lane, pool: Any, *arguments: Any, **options: Any) -> None:
        honest(self, FlippingPool(pool), *arguments, **options)

    Lane.__init__ = hostile  # type: ignore[method-assign]


if __name__ == "__main__":
    flip()
    main()
