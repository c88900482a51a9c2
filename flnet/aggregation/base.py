"""The interface of aggregation rules, and what they share: means by examples, and memory between rounds.

A rule is a pure function. All that it remembers between rounds is the state that it returns, as named arrays (text as
UTF-8), which is kept with the job. A state that another rule made, or the same rule for other arrays, is ignored.

A node whose memory differs from that of its peers computes another average from the same updates. That happens after
the node joined late, missed a round or an update, or adopted a model. The sign is that the base of the round is not the
model that the node made last. As long as its memory reaches back to that point, the node reports that its average is
not the common one (`Merged.is_common`): nobody adopts it, and it adopts that of the others. After that it remembers
the same as they do.

A memory that never fades would stay different. A rule with such a memory shares it (`SharedMemory`): updates state its
digest, and a node whose memory differs from that of most updates fetches theirs before it averages
(`flnet.rounds.memory_agreement`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from flnet.errors import ParamsRefused
from flnet.params.arithmetic import Rows, buffer_names, middle, weight_names, weighted_mean
from flnet.params.params import Array, Digest, Params, PeerId, Schema
from flnet.protocol.events import Weighed
from flnet.protocol.updates import Update
from flnet.text import text

NORMAL = 1.4826  # times the median absolute deviation is the standard deviation of a normal distribution
State = Params | None  # named arrays, kept with the job over restarts; None before the first round
MERGING = "merging rule"  # what nodes agree on, by this name; its bytes are on the wire


@dataclass(frozen=True)
class RoundStart:
    """The context of a round, as this node knows it.

    Attributes:
        schema: what every update holds.
        base: the shared parameters that the round began with here; rules that look at changes measure from them.
        number: of the round.
        me: this node.
        members: the nodes that are known now, this one among them, whether they train in the round or not.
    """

    schema: Schema
    base: Params
    number: int = 0
    me: PeerId | None = None
    members: frozenset[PeerId] = frozenset()


class Merged(NamedTuple):
    """The result of an aggregation.

    Attributes:
        params: the model.
        state: what the rule remembers for the next round.
        weighed: how each update counted, of those that the rule can say something of.
        is_common: whether other nodes that hold the same updates make the same of them; not where this node
            remembers other things than they do, as one that joined them lately.
        note: what people should know of it, where the rule could not do what its name says; else empty.
    """

    params: Params
    state: State = None
    weighed: Mapping[PeerId, Weighed] = {}
    is_common: bool = True
    note: str = ""


class Filtered(NamedTuple):
    """The result of a filter.

    Attributes:
        updates: those that still count, in their order, changed or not; never none.
        weighed: what the filter found of each update, of those too that it took out.
    """

    updates: Sequence[Update]
    weighed: Mapping[PeerId, Weighed] = {}


class Filter(NamedTuple):
    """A step that changes or drops updates before an aggregation rule gets them.

    Attributes:
        name: by which nodes agree on it, with its numbers.
        apply: (start of the round, updates sorted by peer, never empty) -> those that are left. A function of
            these alone, as aggregation rules are.
    """

    name: str
    apply: Callable[[RoundStart, Sequence[Update]], Filtered]


class Running(Protocol):
    """An aggregation that takes updates one after another, for models so large that not all updates fit in memory.

    However the updates are grouped into calls of `add`, the result has the bits of `AggregationRule.merge` over all of
    them in the same order.
    """

    def add(self, updates: Sequence[Update]) -> None:
        """Add the next updates, in the order of peers, without keeping their arrays."""
        ...

    def result(self) -> Merged:
        """Return the average and the next state. This ends the aggregation.

        Raises:
            ValueError: nothing was added, or the result was handed out before.
        """
        ...


class SharedMemory(NamedTuple):
    """What there is to know of a memory that must be equal on all nodes, so that a node can take that of others.

    Attributes:
        form: schema of the model -> the arrays that the memory holds.
        is_sound: whether arrays of that form are a memory of this rule for a model of this schema.
    """

    form: Callable[[Schema], Schema]
    is_sound: Callable[[Params, Schema], bool]

    def checked(self, memory: Params, schema: Schema) -> Params:
        """A memory that came from elsewhere, in the form in which this rule makes it.

        Args:
            schema: of the model.

        Raises:
            ParamsRefused: it is no memory of this rule.
        """
        conformed = self.form(schema).conform(memory)
        if not self.is_sound(conformed, schema):
            raise ParamsRefused(text("it is no memory of this aggregation rule"))
        return conformed

    def of(self, state: State, schema: Schema) -> Params | None:
        """The memory in a state of any rule; None if there is none of this rule for a model of this schema."""
        if state is None:
            return None
        try:
            return self.checked(state, schema)
        except ParamsRefused:
            return None


class Secure(NamedTuple):
    """That only the sum of the updates can be opened (`flnet.algorithms.secure_sum`).

    Attributes:
        part_away: the part of the nodes that may vanish in a round.
        bits: of each number of a masked update.
    """

    part_away: float = 1 / 3
    bits: Literal[32, 64] = 32


class AggregationRule(NamedTuple):
    """A rule that computes one model from the updates of a round.

    Attributes:
        name: by which nodes agree on it, with its numbers.
        merge: (state, start of the round, updates sorted by peer, never empty) -> result. A function of these
            alone: nodes that hold the same get the same bits.
        running: begins the same merge for updates that come one after another; None where the rule needs all
            updates at once, as rules do that compare them with each other.
        needs_base: whether the result depends on the base of the round, too; then a node whose base is not the
            one of most updates knows that others make something else of them.
        changes_training: whether nodes also train differently under this rule, so that no person can choose or
            leave it while nodes run.
        least: updates below which it takes their coordinate-wise median, because it would bear no hostile one.
        ignores_lateness: whether a late update counts as much as the others, because the rule has no weights.
        shared_memory: of a rule whose memory must be equal on all nodes; None for all others.
        secure: how updates are masked, so that only their sum can be opened; None where they are not.
        by_number: whether each number of the result follows from that number of the updates, and the figures that they
            state, alone; then segments of updates can be merged apart from each other.
    """

    name: str
    merge: Callable[[State, RoundStart, Sequence[Update]], Merged]
    running: Callable[[State, RoundStart], Running] | None = None
    needs_base: bool = False
    changes_training: bool = False
    least: int = 1
    ignores_lateness: bool = False
    shared_memory: SharedMemory | None = None
    secure: Secure | None = None
    by_number: bool = False

    @property
    def adds_as_they_come(self) -> bool:
        """Whether updates can be added one after another, so that not all of them have to be kept."""
        return self.running is not None


def note_of_lateness(rule: AggregationRule, updates: Iterable[Update]) -> str:
    """The words for people where late updates counted in full; empty if there were none."""
    late = [update.peer for update in updates if update.staleness]
    if not late or not rule.ignores_lateness:
        return ""
    return text("late updates count in full under {rule}: {names}", rule.name, ", ".join(sorted(late)[:5]))


def counting(updates: Sequence[Update]) -> list[Update]:
    """The updates that were trained on at least one example (rule R4), or all if there are none (rule R5)."""
    return [update for update in updates if update.examples is None or update.examples > 0] or list(updates)


_DEVIATIONS = 5.0  # robust ones from the median: how far a buffer may be from those of the others
_FEWEST = 3
_PART_OF_MEDIAN = 0.1  # below which no variance counts: near 0 it would blow up what is divided by it


def with_bounded_buffers(updates: Sequence[Update], schema: Schema) -> list[Update]:
    """These updates, each number of a buffer moved to at most five robust deviations from the median of all.

    For rules that choose or weigh updates by their weights: an update that passes may hold anything in its buffers. An
    array that most updates hold without a negative number is one of variances: they are at least a tenth of the
    median. Of fewer than three updates nobody can say which one is odd.
    """
    names, counted = buffer_names(schema), counting(updates)
    if len(counted) < _FEWEST or not names:
        return list(updates)
    bounded: list[dict[str, Array]] = [{} for _ in updates]
    for name in names:
        rows = np.stack([np.ravel(update.params[name]) for update in counted], dtype=np.float64)
        lowest, highest = _usual_range(rows)
        for params, update in zip(bounded, updates, strict=True):
            array = update.params[name]
            within: NDArray[np.float64] = np.clip(np.ravel(array), lowest, highest, dtype=np.float64)
            params[name] = within.astype(array.dtype).reshape(array.shape)
    return [
        replace(update, params=schema.conform(update.params.merged_with(params)))
        for update, params in zip(updates, bounded, strict=True)
    ]


def _usual_range(rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The lowest and highest number of each column (updates, numbers) that counts as usual."""
    with np.errstate(over="ignore"):
        median = middle(rows.copy()).copy()
        own = middle(np.abs(rows - median))
        # Of a few updates, three may agree in one number by chance: what is usual for the array is granted to each.
        reach = _DEVIATIONS * NORMAL * np.maximum(own, middle(own[:, None].copy()))
        lowest, highest = median - reach, median + reach
    if 2 * (rows >= 0).all(axis=1).sum() > len(rows):  # variances
        lowest = np.maximum(lowest, _PART_OF_MEDIAN * median)
    return lowest, highest


def plain_mean(updates: Sequence[Update], schema: Schema) -> Params:
    """The unweighted mean.

    Rules against liars take no weights by examples: each peer states the number of its examples itself.
    """
    return weighted_mean([(update.params, 1.0) for update in updates], schema.merge)


def usual_mean(updates: Sequence[Update], schema: Schema) -> Params:
    """The mean weighted by examples, or the unweighted one if an update states no number of examples."""
    unsaid = any(update.examples is None for update in updates)
    return weighted_mean(
        [(update.params, 1.0 if unsaid else float(update.examples or 0)) for update in updates], schema.merge
    )


def mean_of_sorted(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of every column, summed row by row so that all machines get the same bits.

    Args:
        rows: (updates, numbers), every column in rising order.
    """
    total = np.zeros(rows.shape[1])
    with np.errstate(over="ignore"):  # rounding may pass the largest number; the mean cannot
        for row in rows:
            total += row / len(rows)
    return np.clip(total, rows[0], rows[-1], out=total)


def by_examples(updates: Sequence[Update]) -> dict[PeerId, float]:
    """The weight of each update in a mean by examples, reduced for late updates; the weights add up to 1.

    Who stated none counts as the mean of those who did.
    """
    stated = [update.examples for update in updates if update.examples is not None]
    assumed = math.fsum(stated) / len(stated) if stated else 1.0
    counted = {
        update.peer: (assumed if update.examples is None else update.examples) * lateness(update.staleness)
        for update in updates
    }
    total = math.fsum(counted.values())
    return {peer: weight / total if total > 0 else 1 / len(counted) for peer, weight in counted.items()}


def lateness(rounds: int) -> float:
    """The weight of an update whose training started this many rounds ago: (1 + rounds) ** -0.5.

    Xie, Koyejo, Gupta, "Asynchronous Federated Optimization" (2019), the polynomial form with a = 0.5.
    """
    return 1 / math.sqrt(1 + rounds)


_NOTES, _RULE, _MADE = "notes", "rule", "made"


class Past(NamedTuple):
    """The part of the memory that all rules with a memory share.

    Attributes:
        merges: before this one, in this memory; 0: it begins.
        number: of the last one's round.
        apart: further merges, this one included, whose average may not be that of the others.
    """

    merges: int = 0
    number: int = -1
    apart: int = 0


def past_of(state: State, rule: str, start: RoundStart, reach: int) -> Past:
    """The shared part of the memory before this aggregation.

    It starts empty if rounds were missed: the base is neither the last model nor that of the next round.

    Args:
        state: of any rule, or none.
        rule: the name of the one that asks.
        start: of the round.
        reach: merges after which nothing is left in the state of what came before them.
    """
    empty = Past(apart=0 if start.number <= 0 else reach)
    if not remembers(state, rule, start):
        return empty
    assert state is not None
    merges, number, apart = (int(number) for number in state[_NOTES])
    if made_it(state, start):
        return Past(merges, number, apart)
    return Past(merges, number, reach) if start.number == number + 1 else empty


def remembers(state: State, rule: str, start: RoundStart) -> bool:
    """Whether the state was made by this rule for these arrays."""
    if state is None:
        return False
    notes = state.get(_NOTES)
    if notes is None or notes.shape != (3,) or notes.dtype.kind != "i":
        return False
    return {_RULE, _MADE} <= state.keys() and text_of(state[_RULE]) == f"{rule} {shape_of(start.schema)}"


def made_it(state: Params, start: RoundStart) -> bool:
    """Whether the base of the round is the model that this node computed last."""
    return text_of(state[_MADE]) == start.base.digest


def noted(past: Past, rule: str, start: RoundStart, made: Digest) -> dict[str, Array]:
    """The arrays from which `past_of` reads the shared part of the memory after this aggregation.

    Args:
        made: the model that this merge gave.
    """
    notes = [past.merges + 1, start.number, max(0, past.apart - 1)]
    return {
        _NOTES: np.array(notes, np.int64),
        _RULE: array_of(f"{rule} {shape_of(start.schema)}"),
        _MADE: array_of(made),
    }


def array_of(text: str) -> Array:
    """Text as an array of bytes."""
    return np.frombuffer(text.encode(), np.uint8)


def text_of(array: Array) -> str:
    """The text in an array of `array_of`; empty for any other array."""
    return array.tobytes().decode("utf-8", "replace") if array.dtype == np.uint8 else ""


def flat_type(schema: Schema) -> np.dtype[np.floating]:
    """float32, or the widest dtype of the weights."""
    return np.result_type(np.float32, *(np.dtype(schema.specs[name].dtype) for name in weight_names(schema)))


def flat(params: Params, schema: Schema, names: Sequence[str] | None = None) -> NDArray[np.floating]:
    """A copy of these arrays, or of all weights, as one vector."""
    vectors = [np.ravel(params[name]) for name in (weight_names(schema) if names is None else names)]
    return np.concatenate(vectors, dtype=flat_type(schema)) if vectors else np.zeros(0, flat_type(schema))


def shape_of(schema: Schema) -> str:
    """A digest of the arrays of a model, and of what they are to a rule."""
    fields = [
        f"{name}|{spec.shape}|{spec.dtype}|{spec.merge}{'|buffer' * spec.is_buffer}"
        for name, spec in sorted(schema.specs.items())
    ]
    return hashlib.sha256("\n".join(fields).encode()).hexdigest()
