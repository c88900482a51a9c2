"""What stands before the merging rule: how far each update moved from the base of its round, and what follows.

Three steps in this order: the distances of all updates are taken, as they came; who moved absurdly far is
refused; with a clip norm, all others are shortened to it. Each step is a function of the base and of the set of
updates, so nodes that hold the same ones decide alike and get averages of the same bits (`flnet.vectors`). What a
mesh may choose beside these is a filter before its merging rule, in `flnet.strategies`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from flnet.params import Digest, Params, PeerId, Schema, Update
from flnet.vectors import clipped, distance, usual_norm
from flnet.weighing import Weighed

FEWEST = 3  # updates that moved at all: of two, nobody can say which one is the absurd one
Measure = Callable[[Params, Params, Schema], float]  # how far parameters are from a base
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

    def __init__(
        self,
        bounds: Bounds,
        base: Params,
        schema: Schema,
        needs_base: bool = False,
        measure: Measure = distance,
    ) -> None:
        """Args:
        base: the shared parameters that this node's round began with.
        needs_base: whether the merging rule, too, looks at how updates differ from it.
        measure: takes the distances; one that remembers them where many nodes in one process screen the same.
        """
        self.distances: dict[PeerId, float] = {}
        self._bounds, self._base, self._schema = bounds, base, schema
        self._measure = measure
        self._needs_base = needs_base or bool(bounds.ratio or bounds.clip)
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
        usual, refused = usual_norm(self.distances.values()), self.refused()
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
        if not self._needs_base:
            return True
        common = common_base(self._bases.values())
        return common is None or common == self._base.digest

    def _taken(self, update: Update) -> Update:
        moved = self._measure(self._base, update.params, self._schema)
        self.distances[update.peer], self._bases[update.peer] = moved, update.base
        stated = update.contribution
        if stated is not None and stated.is_signed and stated.digest != update.params.digest:
            self._unlike[update.peer] = "its parameters are not those that it signed for"
        if not 0 < self._bounds.clip < moved:
            return update
        return replace(update, params=clipped(self._base, update.params, self._schema, self._bounds.clip, moved))


def too_far(distances: Mapping[PeerId, float], ratio: float) -> Mapping[PeerId, str]:
    """Whose update moved more than `ratio` times the median of those that moved, in words.

    Of an even number the lower of the two in the middle counts: so fewer than half can neither raise nor lower it
    beyond what the others did.
    """
    if ratio <= 0 or sum(one > 0 for one in distances.values()) < FEWEST:
        return {}
    usual = usual_norm(distances.values())
    return {
        peer: f"it moved {one:.3g} from the base of the round, more than {ratio:g} times the median of {usual:.3g}"
        for peer, one in sorted(distances.items())
        if one > usual * ratio
    }


def common_base(bases: Iterable[Digest | None]) -> Digest | None:
    """The base that most name, of equals the lower digest; None if nobody names one."""
    named = Counter(base for base in bases if base is not None)
    return min(named, key=lambda base: (-named[base], base)) if named else None
