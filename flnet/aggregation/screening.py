"""What happens to updates before they are averaged: screening, and the filters that a rule may name.

Every update is screened, in three steps: measure its distance from the base of the round, refuse it if it moved absurdly
far, and shorten the others to the clip norm if there is one. Filters are chosen per mesh: "clip,cosine,median" shortens
updates, drops some, and takes the median of the others. Each step is a function of the base and of the set of updates,
so nodes that hold the same updates decide alike and get averages with the same bits (`flnet.params.arithmetic`).

`clip` is norm clipping: Sun, Kairouz, Suresh, McMahan, "Can You Really Backdoor Federated Learning?" (2019), section 4,
with a given norm. Without one it uses the median norm of the round, which fewer than half of the updates can move only
within the range of the others.

`cosine` drops updates that point away from the coordinate-wise median of the other changes. An update with a flipped sign
is as long as an honest one and as steady, so neither clipping nor a forecast detects it; its direction does. A median
that holds the update itself points towards it: of five updates a flipped one would pass while honest ones agree by a
cosine below 0.2. Honest nodes with very different data still point into the same half-space as the median of the others.
Fung, Yoon, Beschastnikh, "The Limitations of Federated Learning in Sybil Settings" (2020) compare directions of updates
with each other; Yin et al. (2018) have the median.

Distances and directions are those of weights. Buffers, such as the running means of a batch normalisation, are most of
what changes in the first rounds, and say nothing of what was learnt: they have the same bound by themselves, and what
passes a filter has its buffers moved to the usual range (`flnet.aggregation.base.with_bounded_buffers`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from flnet.aggregation.base import (
    AggregationRule,
    Filter,
    Filtered,
    Merged,
    RoundStart,
    State,
    counting,
    with_bounded_buffers,
)
from flnet.params.arithmetic import (
    Block,
    Rows,
    Total,
    blocks,
    buffer_names,
    clipped,
    distance,
    distances,
    longest,
    sort_columns,
    usual_norm,
)
from flnet.params.params import Digest, Params, PeerId, Schema
from flnet.protocol.events import Weighed
from flnet.protocol.updates import Update
from flnet.text import text


def composed(filters: Sequence[Filter], rule: AggregationRule) -> AggregationRule:
    """The rule applied after these filters, which are applied in order.

    Filters measure from the base of the round, and compare updates with each other: a rule that could take them
    one after another no longer can.
    """
    if not filters:
        return rule

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        left, weighed = updates, dict[PeerId, Weighed]()
        for each in filters:
            left, measured = each.apply(start, left)
            weighed |= measured
        merged = rule.merge(state, start, with_bounded_buffers(left, start.schema))
        return merged._replace(weighed=_together(weighed, merged.weighed, {update.peer for update in left}))

    name = ",".join([*(each.name for each in filters), rule.name])
    changes, memory = rule.changes_training, rule.shared_memory
    return AggregationRule(name, merge, needs_base=True, changes_training=changes, shared_memory=memory)


def _together(
    by_filters: Mapping[PeerId, Weighed], by_rule: Mapping[PeerId, Weighed], left: set[PeerId]
) -> Mapping[PeerId, Weighed]:
    """The rule's view of each update, with the cosine and the reason from the filters."""
    whole = dict(by_rule)
    for peer, measured in by_filters.items():
        weighed = by_rule.get(peer, Weighed() if peer in left else Weighed(0.0))
        whole[peer] = replace(
            weighed,
            cosine=measured.cosine if weighed.cosine is None else weighed.cosine,
            reason=weighed.reason or measured.reason,
        )
    return whole


FEWEST = 3  # updates for a median norm: of two, nobody can say which one moved too far


def clip(most: float | None = None) -> Filter:
    """A filter that shortens long updates.

    Args:
        most: the L2 norm to which, above 0; None: the median norm of the round's updates that moved, of an even
            number the lower one.

    Raises:
        ValueError: `most` is not in that range.
    """
    if most is not None and not 0 < most < math.inf:
        raise ValueError(f"expected a norm above 0, got {most:g}")

    def apply(start: RoundStart, updates: Sequence[Update]) -> Filtered:
        return Filtered(shortened(start, updates, most))

    return Filter("clip" if most is None else f"clip:{most:g}", apply)


def shortened(start: RoundStart, updates: Sequence[Update], most: float | None = None) -> Sequence[Update]:
    """These updates, shortened to the norm `most`, or to the median norm if it is None."""
    counted = counting(updates)
    if most is None and len(counted) < FEWEST:
        return updates
    moved = distances(start.base, {update.peer: update.params for update in updates}, start.schema)
    norm = usual_norm(moved[update.peer] for update in counted) if most is None else most
    if not 0 < norm < math.inf:
        return updates
    return [
        replace(update, params=clipped(start.base, update.params, start.schema, norm, moved[update.peer]))
        if moved[update.peer] > norm
        else update
        for update in updates
    ]


# Changes for a median of the others: of two it is the mean, which one flipped change turns away from honest ones.
_FEWEST_OTHERS = 3


def cosine() -> Filter:
    """A filter that drops updates whose cosine to the coordinate-wise median of the other changes is not above 0.

    Of three updates, the median of all three takes the place of that of the other two. Of fewer nothing is left out;
    nor is it where that would leave none.
    """

    def apply(start: RoundStart, updates: Sequence[Update]) -> Filtered:
        counted = counting(updates)
        angles = cosines(start, counted)
        away = {peer for peer, angle in angles.items() if angle is not None and angle <= 0}
        if len(counted) < FEWEST or len(away) == len(counted):
            away = set()
        weighed = {
            peer: Weighed(cosine=angle, reason=_reason(angle) if peer in away else "")
            for peer, angle in angles.items()
        }
        return Filtered([update for update in updates if update.peer not in away], weighed)

    return Filter("cosine", apply)


def cosines(start: RoundStart, updates: Sequence[Update]) -> Mapping[PeerId, float | None]:
    """The cosine of each update's change and the coordinate-wise median of the other changes.

    Of fewer than four updates, the median of all changes takes its place. In [-1, 1], 0 of changes too large to be
    computed with; None of one that changed nothing, and where the median changed nothing.
    """
    most = longest(start.schema)
    squares, products, others = ([Total(most) for _ in updates] for _ in range(3))
    with np.errstate(over="ignore", invalid="ignore"):
        for base, *heres in blocks(start.schema, (start.base, *(update.params for update in updates))):
            rows = np.stack([np.subtract(here, base, dtype=np.float64) for here in heres])
            for row, median, square, product, other in zip(
                rows, _medians(rows), squares, products, others, strict=True
            ):
                square.add(row * row)
                product.add(row * median)
                other.add(median * median)
    return {
        update.peer: _cosine(product.value, square.value, other.value)
        for update, product, square, other in zip(updates, products, squares, others, strict=True)
    }


def _medians(rows: Rows) -> Iterator[Block]:
    """For each row the coordinate-wise median of the other rows; of fewer than four rows, that of all.

    One sorting serves all: where the row's own number is taken out of a sorted column, the middle moves by one place.
    """
    count, ordered = len(rows), rows.copy()
    sort_columns(ordered)
    low, high = ordered[(count - 1) // 2], ordered[count // 2]
    if count <= _FEWEST_OTHERS:
        median = low if count % 2 else low * 0.5 + high * 0.5
        yield from (median for _ in rows)
        return
    if count % 2 == 0:
        yield from (np.where(row <= low, high, low) for row in rows)
        return
    below, above = ordered[count // 2 - 1] * 0.5, ordered[count // 2 + 1] * 0.5
    for row in rows:
        lower = np.where(row < low, low * 0.5, below)
        yield lower + np.where(row > low, low * 0.5, above)


def _cosine(product: float, square: float, other: float) -> float | None:
    if not square or not other or math.isinf(other):
        return None
    if math.isinf(product) or math.isinf(square):
        return 0.0
    cosine = product / (math.sqrt(square) * math.sqrt(other))
    return max(-1.0, min(1.0, cosine))


def _reason(angle: float | None) -> str:
    return text(
        "its change points away from the median of the other changes, with a cosine of {cosine}", f"{angle:.2f}"
    )


Merge = Callable[[Sequence[Update]], Params]  # how updates of one round become one model
Measure = Callable[[Params, Params, Schema], float]  # how far parameters are from a base
LARGEST_UPDATE: str = text("largest update")  # what nodes agree on, by these names
CLIP: str = text("clipping of updates")


@dataclass(frozen=True)
class Bounds:
    """Bounds on how far updates may move; the same on all nodes of a mesh.

    Attributes:
        ratio: to the median of the round's distances, above which an update is refused; 0: none is.
        clip: L2 norm to which updates are shortened; 0: they are not.
    """

    ratio: float = 100.0
    clip: float = 0.0

    @property
    def is_any(self) -> bool:
        """Whether there is one, so that updates are measured."""
        return bool(self.ratio or self.clip)

    def stated(self) -> dict[str, str]:
        """The bounds that differ from the defaults, in words by name; peers must state the same."""
        statements = {}
        if self.ratio != Bounds.ratio:
            statements[LARGEST_UPDATE] = text("{ratio} x the median", f"{self.ratio:g}") if self.ratio else "any"
        if self.clip != Bounds.clip:
            statements[CLIP] = text("to the norm {norm}", f"{self.clip:g}")
        return statements


USUAL = Bounds()


class Screening:
    """Screens the updates of one round, which may arrive in several parts."""

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
        needs_base: whether the aggregation rule, too, looks at how updates differ from it.
        measure: takes the distances; one that remembers them where many nodes in one process screen the same.
        """
        self.distances: dict[PeerId, float] = {}
        self._buffers, self._of_buffers = buffer_names(schema), dict[PeerId, float]()
        self._bounds, self._base, self._schema = bounds, base, schema
        self._measure = measure
        self._needs_base = needs_base or bounds.is_any
        self._bases: dict[PeerId, Digest | None] = {}
        self._unlike: dict[PeerId, str] = {}

    def take(self, updates: Sequence[Update]) -> tuple[Update, ...]:
        """Measure these updates, and shorten those beyond the clip norm."""
        return tuple(self._taken(update) for update in updates)

    def refused(self) -> Mapping[PeerId, str]:
        """The peers whose updates do not count, with the reason."""
        return {**screened(self.distances, self._of_buffers, self._bounds.ratio), **self._unlike}

    def weighed(self, by_rule: Mapping[PeerId, Weighed]) -> Mapping[PeerId, Weighed]:
        """The rule's view of each update, with its distance and the reason if it does not count."""
        return with_norms(by_rule, self.distances, self.refused())

    @property
    def is_common(self) -> bool:
        """Whether this node's base is the base of most updates, as far as they state one (rule R7).

        If not, other nodes may have decided otherwise, and their average counts for more than the one made here.
        """
        if not self._needs_base:
            return True
        common = common_base(self._bases.values())
        return common is None or common == self._base.digest

    def _taken(self, update: Update) -> Update:
        moved = self._measure(self._base, update.params, self._schema)
        self.distances[update.peer], self._bases[update.peer] = moved, update.base
        if self._buffers:
            self._of_buffers[update.peer] = distance(self._base, update.params, self._schema, self._buffers)
        stated = update.contribution
        if stated is not None and stated.is_signed and stated.digest != update.params.digest:
            self._unlike[update.peer] = text("its parameters are not those that it signed for")
        if not 0 < self._bounds.clip < moved:
            return update
        return replace(update, params=clipped(self._base, update.params, self._schema, self._bounds.clip, moved))


def screened(
    distances: Mapping[PeerId, float], of_buffers: Mapping[PeerId, float], ratio: float
) -> Mapping[PeerId, str]:
    """The peers whose updates moved too far, with the reason.

    Args:
        distances, of_buffers: how far the weights and the buffers of each update moved.
    """
    return {**too_far(of_buffers, ratio, of_buffers=True), **too_far(distances, ratio)}


def with_norms(
    by_rule: Mapping[PeerId, Weighed], distances: Mapping[PeerId, float], refused: Mapping[PeerId, str]
) -> Mapping[PeerId, Weighed]:
    """The rule's view of each update, with its distance and the reason if it does not count."""
    usual = usual_norm(distances.values())
    weighed = {}
    for peer, moved in distances.items():
        entry = by_rule.get(peer, Weighed(0.0) if peer in refused else Weighed())
        norm = moved / usual if usual and math.isfinite(moved) else None
        weighed[peer] = replace(
            entry,
            norm=norm if entry.norm is None else entry.norm,
            reason=entry.reason or refused.get(peer, ""),
        )
    return weighed


def too_far(distances: Mapping[PeerId, float], ratio: float, of_buffers: bool = False) -> Mapping[PeerId, str]:
    """The peers whose update moved more than `ratio` times the median of those that moved, with the reason.

    Of an even number the lower of the two in the middle counts: so fewer than half can neither raise nor lower it
    beyond what the others did.
    """
    if ratio <= 0 or sum(moved > 0 for moved in distances.values()) < FEWEST:
        return {}
    usual = usual_norm(distances.values())
    far = {peer: moved for peer, moved in sorted(distances.items()) if moved > usual * ratio}
    return {peer: _far_words(moved, ratio, usual, of_buffers=of_buffers) for peer, moved in far.items()}


def _far_words(*figures: float, of_buffers: bool) -> str:
    numbers = [f"{figure:.3g}" for figure in figures]
    if of_buffers:
        return text(
            "its running statistics moved {moved} from the base of the round, more than {ratio} times the median of "
            "{usual}",
            *numbers,
        )
    return text(
        "it moved {moved} from the base of the round, more than {ratio} times the median of {usual}", *numbers
    )


def common_base(bases: Iterable[Digest | None]) -> Digest | None:
    """The base that most updates name; with equal counts, the lower digest; None if no update names one."""
    named = Counter(base for base in bases if base is not None)
    return min(named, key=lambda base: (-named[base], base)) if named else None


def remerge(bounds: Bounds, rule: AggregationRule, start: RoundStart, remembered: State) -> Merge:
    """A function that aggregates updates of this round, always from the same base and memory."""

    def merge(updates: Sequence[Update]) -> Params:
        screening = Screening(bounds, start.base, start.schema)
        taken, refused = screening.take(updates), screening.refused()
        counting = [update for update in taken if update.peer not in refused]
        return start.schema.conform(rule.merge(remembered, start, counting).params)

    return merge
