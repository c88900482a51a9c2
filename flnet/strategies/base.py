"""What a strategy is: three pure functions; all that is remembered between rounds is the state they hand on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flnet.params import Params, Schema, Update

State = Any


@dataclass(frozen=True)
class LocalTerm:
    """What a strategy adds to local training, by name: nothing for FedAvg."""

    extras: dict[str, float] = field(default_factory=dict)


class Strategy(NamedTuple):
    """How updates become one model.

    Attributes:
        init: the state before the first round.
        local: what it adds to local training.
        merge: (state, schema, updates sorted by peer, never empty) -> (average, next state).
    """

    name: str
    init: Callable[[Params], State]
    local: Callable[[State], LocalTerm]
    merge: Callable[[State, Schema, Sequence[Update]], tuple[Params, State]]
