"""What stands before the merging rule: how far each update moved from the base of its round, and what follows.

Three steps in this order: the distances of all updates are taken, as they came; who moved absurdly far is
refused; with a clip norm, all others are shortened to it. Each step is a function of the base and of the set of
updates, so nodes that hold the same ones decide alike and get averages of the same bits: distances are sums in a
fixed order of steps that IEEE 754 fixes, as in `flnet.merging`. Further rules that look at updates belong here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flnet.merging import is_mean
from flnet.params import Array, Digest, Params, PeerId, Schema, Update
from flnet.weighing import Weighed

_BLOCK = 131_072  # numbers that one step looks at, so that what it writes stays in a core's cache
_LANES = 4_096  # sums that are kept beside each other, so that their order is fixed and they are still quick
FEWEST = 3  # updates that moved at all: of two, nobody can say which one is the absurd one
GATE, CLIP = "largest update", "clipping of updates"  # what nodes agree on, by these names


@dataclass(frozen=True)
class Bounds:
    """How far updates may move; the same on all nodes of a mesh.

    Attributes:
        ratio: to the median of the round's distances, above which an update is refused; 0: none is.
        clip: L2 norm to which updates are shortened; 0: they are not.
    """

    ratio: float = 100.0
    clip: float = 0.0

    def stated(self) -> dict[str, str]:
        """In words by name, what differs from the usual; peers have to state the same."""
        said = {}
        if self.ratio != Bounds.ratio:
            said[GATE] = f"{self.ratio:g} x the median" if self.ratio else "any"
        if self.clip != Bounds.clip:
            said[CLIP] = f"to the norm {self.clip:g}"
        return said


USUAL = Bounds()


class Screening:
    """The updates of one round on their way into the average; they may come in several parts."""

    def __init__(self, bounds: Bounds, base: Params, schema: Schema) -> None:
        """Args:
        base: the shared parameters that this node's round began with.
        """
        self.distances: dict[PeerId, float] = {}
        self._bounds, self._base, self._schema = bounds, base, schema
        self._bases: dict[PeerId, Digest | None] = {}
        self._unlike: dict[PeerId, str] = {}

    def take(self, updates: Sequence[Update]) -> tuple[Update, ...]:
        """Note how far these moved, and shorten those that went beyond the clip norm."""
        return tuple(self._taken(update) for update in updates)

    def refused(self) -> Mapping[PeerId, str]:
        """Whose updates do not count, and why."""
        return {**too_far(self.distances, self._bounds.ratio), **self._unlike}

    def weighed(self, by_rule: Mapping[PeerId, Weighed]) -> Mapping[PeerId, Weighed]:
        """What the merging rule says of each update, with how far it moved and why it does not count."""
        usual, refused = _usual(self.distances), self.refused()
        found = {}
        for peer, moved in self.distances.items():
            one = by_rule.get(peer, Weighed(0.0) if peer in refused else Weighed())
            norm = moved / usual if usual and math.isfinite(moved) else None
            found[peer] = replace(
                one, norm=norm if one.norm is None else one.norm, reason=one.reason or refused.get(peer, "")
            )
        return found

    @property
    def is_common(self) -> bool:
        """Whether this node's base is the one that most updates began with, as far as they say (rule R7).

        If not, other nodes may have decided otherwise, and their average counts for more than the one made here.
        """
        if not self._bounds.ratio and not self._bounds.clip:
            return True
        common = common_base(self._bases.values())
        return common is None or common == self._base.digest

    def _taken(self, update: Update) -> Update:
        moved = distance(self._base, update.params, self._schema)
        self.distances[update.peer], self._bases[update.peer] = moved, update.base
        stated = update.contribution
        if stated is not None and stated.is_signed and stated.digest != update.params.digest:
            self._unlike[update.peer] = "its parameters are not those that it signed for"
        if not 0 < self._bounds.clip < moved:
            return update
        return replace(update, params=clipped(self._base, update.params, self._schema, self._bounds.clip, moved))


def distance(base: Mapping[str, Array], params: Mapping[str, Array], schema: Schema) -> float:
    """The L2 norm of params - base over all arrays that are averaged; infinite if it is too large to be computed.

    Squares of float32 arrays are taken in float32 and summed in float64: six digits, which is far more than a
    comparison with a median needs.
    """
    names = _averaged(schema)
    largest = max((params[name].size for name in names), default=0)
    lanes, room = np.zeros(max(1, min(_LANES, largest))), np.empty(min(_BLOCK, largest))
    with np.errstate(over="ignore", invalid="ignore"):
        for name in names:
            for there, here in _blocks(base[name], params[name]):
                exact = np.result_type(here, np.float32)
                moved = room.view(exact)[: here.size]
                np.subtract(here, there, out=moved, dtype=exact)
                np.multiply(moved, moved, out=moved)
                _add_to(lanes, moved)
    return math.sqrt(math.fsum(lanes)) if np.isfinite(lanes).all() else math.inf


def clipped(
    base: Mapping[str, Array], params: Params, schema: Schema, most: float, moved: float | None = None
) -> Params:
    """Parameters no farther than about `most` from the base, in the same direction.

    What is not averaged stays as it is. Rounding to the dtype of an array may leave them a little beyond; who
    clips them again shortens them again, everywhere alike.

    Args:
        most: an L2 norm, above 0.
        moved: how far they are, where that is known.
    """
    moved = distance(base, params, schema) if moved is None else moved
    if not moved > most:
        return params
    factor = most / moved if math.isfinite(moved) else 0.0
    shorter = {name: _shortened(base[name], params[name], factor) for name in _averaged(schema)}
    return schema.conform(params.merged_with(shorter))


def too_far(distances: Mapping[PeerId, float], ratio: float) -> Mapping[PeerId, str]:
    """Whose update moved more than `ratio` times the median of those that moved, in words.

    Of an even number the lower of the two in the middle counts: so fewer than half can neither raise nor lower it
    beyond what the others did.
    """
    if ratio <= 0 or sum(one > 0 for one in distances.values()) < FEWEST:
        return {}
    usual = _usual(distances)
    return {
        peer: f"it moved {one:.3g} from the base of the round, more than {ratio:g} times the median of {usual:.3g}"
        for peer, one in sorted(distances.items())
        if one > usual * ratio
    }


def _usual(distances: Mapping[PeerId, float]) -> float:
    """The median of those that moved, of an even number the lower one; 0 if nobody did."""
    moved = sorted(one for one in distances.values() if one > 0)
    return moved[(len(moved) - 1) // 2] if moved else 0.0


def common_base(bases: Iterable[Digest | None]) -> Digest | None:
    """The base that most name, of equals the lower digest; None if nobody names one."""
    named = Counter(base for base in bases if base is not None)
    return min(named, key=lambda base: (-named[base], base)) if named else None


def _add_to(lanes: NDArray[np.float64], squares: Array) -> None:
    whole = squares.size - squares.size % lanes.size
    lanes += np.add.reduce(squares[:whole].reshape(-1, lanes.size), axis=0)  # row after row
    lanes[: squares.size - whole] += squares[whole:]


def _averaged(schema: Schema) -> list[str]:
    return sorted(name for name, spec in schema.specs.items() if is_mean(spec))


def _blocks(base: Array, params: Array) -> Iterator[tuple[Array, Array]]:
    there, here = np.ravel(base), np.ravel(params)
    for start in range(0, here.size, _BLOCK):
        yield there[start : start + _BLOCK], here[start : start + _BLOCK]


def _shortened(base: Array, params: Array, factor: float) -> Array:
    result = np.empty(params.shape, params.dtype)
    flat = result.reshape(-1)
    start = 0
    for there, here in _blocks(base, params):
        moved: NDArray[np.float64] = np.subtract(here, there, dtype=np.float64)
        np.multiply(moved, factor, out=moved)
        np.add(moved, there, out=moved)
        flat[start : start + moved.size] = moved
        start += moved.size
    return result
