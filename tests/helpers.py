"""Small builders for tests: what a test does not name gets an unremarkable value."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import Enum
from typing import Any

import numpy as np
from pydantic import BaseModel

from flnet.params.params import Params, PeerId
from flnet.protocol.messages import HyperParams, Peer
from flnet.protocol.updates import RoundKey, Update

HYPER = HyperParams(e=2, u=1e-05, b=64)


def params(dtype: str = "float32", **arrays: Any) -> Params:
    """Params from nested lists; arrays and numpy numbers keep their own dtype."""
    return Params({name: a if hasattr(a, "dtype") else np.asarray(a, dtype) for name, a in arrays.items()})


def peer(name: str = "a", port: int = 4000, ip: str | None = "127.0.0.1") -> Peer:
    """A peer on loopback."""
    return Peer(id=name, ip=ip, port=port)


def key(number: int = 0, initiator: str = "a") -> RoundKey:
    """A round."""
    return RoundKey(number, PeerId(initiator))


def update(
    peer: str, round: int = 0, initiator: str = "a", examples: int | None = 1, labels: int = 1, **arrays: Any
) -> Update:
    """What a peer learnt: `update("b", examples=3, w=[4.0])`; float64 so that sums can be worked by hand."""
    return Update(PeerId(peer), key(round, initiator), params("float64", **arrays), examples, labels)


def frozen(value: Any, seen: set[int] | None = None) -> Any:
    """All that an object holds, as plain comparable data: what a refused step must leave exactly as it was.

    What several objects share is there once.
    """
    seen = set() if seen is None else seen
    match value:
        case Params():
            return value.digest
        case Mapping():
            return {name: frozen(inner, seen) for name, inner in value.items()}
        case list() | tuple() | deque():
            return [frozen(inner, seen) for inner in value]
        case set() | frozenset():
            return sorted(map(str, value))
        case Enum():
            return value
        case BaseModel() | str() | int() | float() | None | type():
            return value
    if id(value) in seen:
        return None
    seen.add(id(value))
    return {name: frozen(inner, seen) for name, inner in vars(value).items()}
