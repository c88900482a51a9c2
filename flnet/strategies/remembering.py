"""What a rule keeps from one merge to the next: words and vectors as named arrays, and whose memory is the same.

State is kept with the job, so it is arrays alone: words stand in them as UTF-8. A state that another rule made, or
the same one for other arrays, is none.

A node whose memory differs from that of the others makes another average of the same updates. That happens where
it joined them, missed a round or an update, or adopted a model. It shows at the base of the round: that is not the
model which the node itself made last. For as long as its memory reaches back, such a node says that its average is
not the common one (`Merged.is_common`), so that nobody adopts it and it adopts that of the others; after that it
remembers the same as they do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flnet.params import Array, Digest, Params, Schema
from flnet.strategies.base import RoundStart, State
from flnet.vectors import averaged

_NOTES, _RULE, _MADE = "notes", "rule", "made"


class Past(NamedTuple):
    """What every rule with a memory keeps.

    Attributes:
        merges: before this one, in this memory; 0: it begins.
        number: of the last one's round.
        apart: further merges, this one included, whose average may not be that of the others.
    """

    merges: int = 0
    number: int = -1
    apart: int = 0


def past_of(state: State, rule: str, start: RoundStart, reach: int) -> Past:
    """What came before this merge.

    It begins anew where rounds were missed: the base is not the model made last, and not that of the next round.

    Args:
        state: of any rule, or none.
        rule: the name of the one that asks.
        start: of the round.
        reach: merges after which nothing is left in the state of what came before them.
    """
    anew = Past(apart=0 if start.number <= 0 else reach)
    if not remembers(state, rule, start):
        return anew
    assert state is not None
    merges, number, apart = (int(one) for one in state[_NOTES])
    if made_it(state, start):
        return Past(merges, number, apart)
    return Past(merges, number, reach) if start.number == number + 1 else anew


def remembers(state: State, rule: str, start: RoundStart) -> bool:
    """Whether this rule made the state, for these arrays."""
    if state is None:
        return False
    notes = state.get(_NOTES)
    if notes is None or notes.shape != (3,) or notes.dtype.kind != "i":
        return False
    return {_RULE, _MADE} <= state.keys() and text_of(state[_RULE]) == f"{rule} {_shape(start.schema)}"


def made_it(state: Params, start: RoundStart) -> bool:
    """Whether the round begins with the model that this node made last."""
    return text_of(state[_MADE]) == start.base.digest


def noted(past: Past, rule: str, start: RoundStart, made: Digest) -> dict[str, Array]:
    """What `past_of` reads after this merge.

    Args:
        made: the model that this merge gave.
    """
    notes = [past.merges + 1, start.number, max(0, past.apart - 1)]
    return {
        _NOTES: np.array(notes, np.int64),
        _RULE: array_of(f"{rule} {_shape(start.schema)}"),
        _MADE: array_of(made),
    }


def array_of(text: str) -> Array:
    """Text as an array of bytes."""
    return np.frombuffer(text.encode(), np.uint8)


def text_of(array: Array) -> str:
    """The text of which `array_of` made this; what is no text is empty."""
    return array.tobytes().decode("utf-8", "replace") if array.dtype == np.uint8 else ""


def flat_type(schema: Schema) -> np.dtype[np.floating]:
    """float32, or what is wider among the averaged arrays."""
    return np.result_type(np.float32, *(np.dtype(schema.specs[name].dtype) for name in averaged(schema)))


def flat(params: Params, schema: Schema, names: Sequence[str] | None = None) -> NDArray[np.floating]:
    """These arrays, or all averaged ones, as one vector, a copy."""
    found = [np.ravel(params[name]) for name in (averaged(schema) if names is None else names)]
    return np.concatenate(found, dtype=flat_type(schema)) if found else np.zeros(0, flat_type(schema))


def _shape(schema: Schema) -> str:
    said = [f"{name}|{one.shape}|{one.dtype}|{one.merge}" for name, one in sorted(schema.specs.items())]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()
