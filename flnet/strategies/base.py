"""What a strategy is: pure functions; all that is remembered between rounds is the state they hand on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from flnet.params import Params, Schema, Update

State = Any
MERGING = "merging rule"  # what nodes agree on, by this name


@dataclass(frozen=True)
class LocalTerm:
    """What a strategy adds to local training, by name: nothing for FedAvg."""

    extras: dict[str, float] = field(default_factory=dict)


class Running(Protocol):
    """A merge under way, for models so large that not all updates fit in memory beside each other.

    However the updates are grouped into calls of `add`, the result has the bits of `Strategy.merge` over all of
    them in the same order.
    """

    def add(self, updates: Sequence[Update]) -> None:
        """Take in the next updates in the order of peers; their arrays are not held on to."""
        ...

    def result(self) -> tuple[Params, State]:
        """The average and the next state. It ends the merge: nothing can be added, nor asked again.

        Raises:
            ValueError: nothing was added, or the result was handed out before.
        """
        ...


class Strategy(NamedTuple):
    """How updates become one model.

    Attributes:
        init: the state before the first round.
        local: what it adds to local training.
        merge: (state, schema, updates sorted by peer, never empty) -> (average, next state).
        running: begins the same merge for updates that come one after another; None where the rule needs all
            updates at once, as rules do that compare them with each other.
    """

    name: str
    init: Callable[[Params], State]
    local: Callable[[State], LocalTerm]
    merge: Callable[[State, Schema, Sequence[Update]], tuple[Params, State]]
    running: Callable[[State, Schema], Running] | None = None
