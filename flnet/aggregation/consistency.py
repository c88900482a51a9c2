"""Weights by consistency: the farther an update is from its prediction, the less it counts.

Martínez Enríquez et al., FLProtector, equations 2 and 3: every node predicts each peer's change from its last one
(`flnet.aggregation.forecast`) and weights by exp(-distance), here the form "raw". It depends on model size and learning
rate: with large distances, one node gets all the weight. The default form compares the mean share of the distance over
ten rounds with the median of all peers, in units of their median absolute deviation. The scores detect erratic peers,
not different ones, and not a sign that flips in every round: put `cosine` before this rule for that. Nor do they detect
a backdoor before it is learnt, whose update differs in a few numbers only. The form "bounded" also moves each number of
an update that lies outside those of the others to the next one, after the weights were computed from the original
updates (`flnet.aggregation.trimmed_mean`).

Scores exist from the third round on. Before that, and with two updates, weights follow the examples. An update without a
prediction (a new peer, a late update, another base) has the median score, or its own earlier score if that is higher. It
is shortened to the median norm of the round, as all updates are before there are scores: one unbounded update would be
enough to spoil the average.

Exponentials differ in their last digit between mathematical libraries, and nodes need the same bits, so they are rounded
to nine decimals. Sums are rounded once, for the same reason.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from statistics import median
from typing import Literal, get_args

import numpy as np

from flnet.aggregation.base import (
    NORMAL,
    AggregationRule,
    Merged,
    Past,
    RoundStart,
    State,
    array_of,
    by_examples,
    counting,
    flat,
    lateness,
    noted,
    past_of,
    text_of,
    with_bounded_buffers,
)
from flnet.aggregation.forecast import Known, Moves, moved, pairs_kept, seen
from flnet.aggregation.screening import shortened
from flnet.aggregation.trimmed_mean import bounded_mean
from flnet.params.arithmetic import weighted_mean
from flnet.params.params import Array, Params, PeerId, Schema
from flnet.params.quantization import StoredVector
from flnet.protocol.events import Weighed, shares
from flnet.protocol.updates import Update
from flnet.text import text

Kind = Literal["mad", "rows", "bounded", "raw", "shares", "ratio"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Scores = Mapping[PeerId, float]
_DECIMALS = 9
_LEAST_SPREAD = 0.05  # of the median: honest updates may lie that close together
_USUAL = 2.0  # deviations that cost nothing
_STEEPNESS = 5.0  # of the ratio to the median


def shares_of_distance(row: Scores) -> Scores:
    """Each distance divided by their sum; equal shares if all are 0."""
    total = math.fsum(row.values())
    return {peer: distance / total if total > 0 else 1 / len(row) for peer, distance in row.items()}


def mean_scores(rows: Sequence[Scores], peers: Sequence[PeerId]) -> dict[PeerId, float]:
    """The mean score of each of these peers over the rounds that have one; peers without any are left out."""
    known = {peer: [row[peer] for row in rows if peer in row] for peer in peers}
    return {peer: math.fsum(scores) / len(scores) for peer, scores in known.items() if scores}


def weights(scores: Scores, kind: Kind) -> dict[PeerId, float]:
    """Weights that fall with the score and add up to 1, except for rounding.

    Args:
        scores: at least one; of "raw" the distances themselves, of all others shares.
        kind: "raw" and "shares" are exp(-score), as printed in FLProtector, equation 3, and with what its text
            defines; "ratio" compares with the median, "mad", "rows" and "bounded" with the median absolute
            deviation from it.
    """
    excess = _EXCESS[kind](scores)
    least = min(excess.values())
    factors = {peer: _exponential(cost - least) if cost < math.inf else 0.0 for peer, cost in excess.items()}
    total = math.fsum(factors.values())
    return {peer: factor / total if total > 0 else 1 / len(factors) for peer, factor in factors.items()}


def _mad(scores: Scores) -> Scores:
    middle = median(scores.values())
    spread = NORMAL * median(abs(score - middle) for score in scores.values())
    spread = max(spread, _LEAST_SPREAD * middle)
    return {peer: max(0.0, _divided(score - middle, spread) - _USUAL) for peer, score in scores.items()}


def _ratio(scores: Scores) -> Scores:
    middle = median(scores.values())
    return {peer: _STEEPNESS * _divided(score, middle) for peer, score in scores.items()}


def _divided(value: float, divisor: float) -> float:
    """The quotient; for a divisor of 0, infinite or 0."""
    return value / divisor if divisor > 0 else (math.inf if value > 0 else 0.0)


def _exponential(excess: float) -> float:
    return round(math.exp(-excess), _DECIMALS)


_EXCESS: Mapping[Kind, Callable[[Scores], Scores]] = {
    "mad": _mad,
    "rows": _mad,
    "bounded": _mad,
    "ratio": _ratio,
    "raw": lambda scores: scores,
    "shares": lambda scores: scores,
}


WINDOWS: Mapping[Kind, int] = {"mad": 10, "rows": 10, "bounded": 10, "raw": 1, "shares": 1, "ratio": 1}
_WARM_UP = 2  # rounds: before them there is no pair of bases and changes
_LAYOUT = "moves"  # of what is remembered; what an earlier version remembered is none
_FEWEST = 3  # updates: of two, nobody can say which one is wrong
_REASON = text("it changed otherwise than its earlier updates let expect")


@dataclass
class _Memory:
    """The memory of the rule: the last base and its moves, the last change of each peer, and distances."""

    past: Past
    base: Array | None = None
    moves: Moves = field(default_factory=Moves)
    known: dict[PeerId, Known] = field(default_factory=dict)
    rows: list[dict[PeerId, float]] = field(default_factory=list)


def consistency(kind: Kind = "mad", window: int | None = None, mix: float = 0.0) -> AggregationRule:
    """The mean weighted by how well each update was predicted.

    Args:
        kind: how weights follow from scores.
        window: rounds over which a score is the mean, at least 1; if absent, what is usual for the kind.
        mix: X, the part of the weights that goes by examples, in [0, 1].

    Raises:
        ValueError: a number is not in its range.
    """
    rounds = WINDOWS[kind] if window is None else window
    if rounds < 1 or not 0 <= mix <= 1:
        raise ValueError(f"expected at least 1 round and a part in [0, 1], got {rounds} and {mix:g}")
    name = _name(kind, rounds, mix)

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        reach = max(rounds, pairs_kept(start.schema) + 2)
        memory = _read(state, past_of(state, f"{name} {_LAYOUT}", start, reach))
        counted = with_bounded_buffers(counting(updates), start.schema)
        after, row = _observed(memory, start, counted, rounds)
        is_scored = len(counted) >= _FEWEST and memory.past.merges >= _WARM_UP and bool(row)
        trust, by_share = (
            _scored(after.rows, counted, kind, mix) if is_scored else (by_examples(counted), dict[PeerId, float]())
        )
        sets = _bounded(start, counted, row if is_scored else {})
        params = _mean(
            [(params, trust[peer]) for peer, params in sets.items()], start.schema, is_bounded=kind == "bounded"
        )
        weighed = {update.peer: Weighed(0.0) for update in updates} | {
            peer: Weighed(weight, consistency=by_share.get(peer), reason="" if weight else _REASON)
            for peer, weight in shares(trust).items()
        }
        return Merged(params, _written(after, name, start, params), weighed, not memory.past.apart)

    return AggregationRule(name, merge, needs_base=True)


def _name(kind: Kind, window: int, mix: float) -> str:
    parts = ["consistency", *([kind] if kind != "mad" else [])]
    if window != WINDOWS[kind] or mix:
        parts += [str(window), *([f"{mix:g}"] if mix else [])]
    return ":".join(parts)


def _observed(
    memory: _Memory, start: RoundStart, updates: Sequence[Update], rounds: int
) -> tuple[_Memory, dict[PeerId, float]]:
    """The memory with this round in it, and the distances of this round."""
    pairs, here = pairs_kept(start.schema), flat(start.base, start.schema)
    known = {peer: Known(change.change, change.ago + 1) for peer, change in memory.known.items()}
    moves = memory.moves if memory.base is None else moved(memory.moves, memory.base, here, start.schema)
    comparable = [
        update for update in updates if not update.staleness and update.base in (None, start.base.digest)
    ]
    measured = seen(moves, here, known, comparable, start.schema)
    known |= {peer: Known(change, 0) for peer, change in measured.changes.items()}
    known = {peer: change for peer, change in known.items() if change.ago <= pairs}
    row = measured.distances if memory.past.merges >= _WARM_UP else {}
    rows = [*memory.rows, *([row] if row else [])][-rounds:]
    return _Memory(memory.past, here, moves.last(pairs), known, rows), row


def _scored(
    rows: Sequence[Scores], updates: Sequence[Update], kind: Kind, mix: float
) -> tuple[dict[PeerId, float], dict[PeerId, float]]:
    """The weight of each update, and its score as a share of the distances."""
    peers, predicted = [update.peer for update in updates], rows[-1]
    by_share = _completed(mean_scores([shares_of_distance(row) for row in rows], peers), predicted, peers)
    scores = _completed(mean_scores(rows, peers), predicted, peers) if kind == "raw" else by_share
    trusted, examples = weights(scores, kind), by_examples(updates)
    if kind in {"rows", "bounded"}:
        trusted = _times(trusted, examples)
    late = {update.peer: lateness(update.staleness) for update in updates}
    return {peer: mix * examples[peer] + (1 - mix) * trusted[peer] * late[peer] for peer in peers}, by_share


def _mean(weighted: Sequence[tuple[Params, float]], schema: Schema, *, is_bounded: bool) -> Params:
    if is_bounded:
        return bounded_mean(weighted, schema.specs)
    return weighted_mean(weighted, schema.merge)


def _times(trusted: Scores, examples: Scores) -> dict[PeerId, float]:
    """The products of trust and examples, normalised to 1; trust alone if no trusted update has examples."""
    both = {peer: weight * examples[peer] for peer, weight in trusted.items()}
    total = fsum(both.values())
    return {peer: weight / total for peer, weight in both.items()} if total > 0 else dict(trusted)


def _completed(scores: Scores, predicted: Scores, peers: Sequence[PeerId]) -> dict[PeerId, float]:
    """Scores of all peers; a peer without a prediction gets at least the median of the others."""
    middle = median(score for peer, score in scores.items() if peer in predicted)
    return {peer: scores[peer] if peer in predicted else max(middle, scores.get(peer, middle)) for peer in peers}


def _bounded(start: RoundStart, updates: Sequence[Update], predicted: Scores) -> Mapping[PeerId, Params]:
    """The parameters of each update; an update without a prediction is shortened to the median norm."""
    if all(update.peer in predicted for update in updates):
        return {update.peer: update.params for update in updates}
    shorter = {update.peer: update.params for update in shortened(start, updates)}
    return {update.peer: update.params if update.peer in predicted else shorter[update.peer] for update in updates}


def _read(state: State, past: Past) -> _Memory:
    """Read the memory that `_written` made."""
    if state is None or not past.merges:
        return _Memory(past)
    peers = [PeerId(peer) for peer in json.loads(text_of(state["peers"]))]
    known = {
        peer: Known(_kept(state, f"change {at}"), int(ago))
        for at, (peer, ago) in enumerate(zip(peers, state["ago"], strict=True))
        if ago >= 0
    }
    rows = [
        {peer: float(distance) for peer, distance in zip(peers, row, strict=True) if distance >= 0}
        for row in state["distances"]
    ]
    products = state["products"].tolist()
    moves = Moves([_kept(state, f"move {at}") for at in range(len(products))], products)
    return _Memory(past, state["base"], moves, known, rows)


def _written(memory: _Memory, rule: str, start: RoundStart, params: Params) -> Params:
    """The memory as named arrays, with -1 for missing distances."""
    peers = sorted({*memory.known, *(peer for row in memory.rows for peer in row)})
    ago = [memory.known[peer].ago if peer in memory.known else -1 for peer in peers]
    table = [[row.get(peer, -1.0) for peer in peers] for row in memory.rows]
    count = len(memory.moves.kept)
    assert memory.base is not None
    arrays = {
        "peers": array_of(json.dumps(peers)),
        "ago": np.array(ago, np.int64),
        "distances": np.array(table, np.float64).reshape(len(table), len(peers)),
        "products": np.array(memory.moves.products, np.float64).reshape(count, count),
        "base": memory.base,
    }
    for at, move in enumerate(memory.moves.kept):
        arrays |= _named(f"move {at}", move)
    for at, peer in enumerate(peers):
        if peer in memory.known:
            arrays |= _named(f"change {at}", memory.known[peer].change)
    return Params(noted(memory.past, f"{rule} {_LAYOUT}", start, params.digest) | arrays)


def _named(name: str, kept: StoredVector) -> dict[str, Array]:
    return {name: kept.numbers} | ({} if kept.scales is None else {f"{name} scales": kept.scales})


def _kept(state: Params, name: str) -> StoredVector:
    return StoredVector(state[name], state.get(f"{name} scales"))
