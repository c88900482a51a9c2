"""Weights by consistency: an update counts the less, the farther it lies from what was predicted of its peer.

Martínez Enríquez et al., FLProtector, equations 2 and 3: every node predicts each peer's change from its last one
(`flnet.strategies.forecast`) and weighs by exp(-distance). That is "raw" here. It depends on the size of the model
and on the rate: where distances are large, one node gets all the weight. The usual form compares the mean share of
the distance over ten rounds with the median of all peers, in units of their median absolute deviation. The scores
see how erratic a peer is, not how different, and not a sign that is turned in every round: `cosine` before this
rule does. Nor do they see a backdoor before it is learnt, whose update is like any other but in a few numbers. The
form "bounded" moves each number of an update that lies outside those of the others to the next one, after weights
were found from the updates as they came (`flnet.strategies.winsorised_mean`).

The first score comes in the third round. Until then, and of two updates, weights are those by examples. An update
of which nothing can be predicted (a new peer, one that is late or began with another base) has the median of the
scores, or its own of earlier rounds where that is higher. It is shortened to the median norm of the round, as are
all before there are scores: one unbounded update would do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from statistics import median

import numpy as np

from flnet.coarse import Kept
from flnet.merging import weighted_mean
from flnet.params import Array, Params, PeerId, Schema, Update
from flnet.strategies.base import Merged, RoundStart, State, Strategy
from flnet.strategies.bounding import bounded_mean
from flnet.strategies.clipping import shortened
from flnet.strategies.counting import by_examples, counting, lateness
from flnet.strategies.forecast import Known, Moves, moved, pairs_kept, seen
from flnet.strategies.remembering import Past, array_of, flat, noted, past_of, text_of
from flnet.strategies.scores import Kind, Scores, mean_scores, shares_of_distance, weights
from flnet.weighing import Weighed, shares

WINDOWS: Mapping[Kind, int] = {"mad": 10, "rows": 10, "bounded": 10, "raw": 1, "shares": 1, "ratio": 1}
_WARM_UP = 2  # rounds: before them there is no pair of bases and changes
_LAYOUT = "moves"  # of what is remembered; what an earlier version remembered is none
_FEWEST = 3  # updates: of two, nobody can say which one is wrong
_REASON = "it changed otherwise than its earlier updates let expect"


@dataclass
class _Memory:
    """What is remembered: the last base and how it came there, the last change of each peer, and distances."""

    past: Past
    base: Array | None = None
    moves: Moves = field(default_factory=Moves)
    known: dict[PeerId, Known] = field(default_factory=dict)
    rows: list[dict[PeerId, float]] = field(default_factory=list)


def consistency(kind: Kind = "mad", window: int | None = None, mix: float = 0.0) -> Strategy:
    """The mean with weights by how well each update was predicted.

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
        there = counting(updates)
        after, row = _observed(memory, start, there, rounds)
        is_scored = len(there) >= _FEWEST and memory.past.merges >= _WARM_UP and bool(row)
        found, by_share = (
            _scored(after.rows, there, kind, mix) if is_scored else (by_examples(there), dict[PeerId, float]())
        )
        sets = _bounded(start, there, row if is_scored else {})
        params = _mean(
            [(one, found[peer]) for peer, one in sets.items()], start.schema, is_bounded=kind == "bounded"
        )
        said = {one.peer: Weighed(0.0) for one in updates} | {
            peer: Weighed(weight, consistency=by_share.get(peer), reason="" if weight else _REASON)
            for peer, weight in shares(found).items()
        }
        return Merged(params, _written(after, name, start, params), said, not memory.past.apart)

    return Strategy(name, merge, needs_base=True)


def _name(kind: Kind, window: int, mix: float) -> str:
    said = ["consistency", *([kind] if kind != "mad" else [])]
    if window != WINDOWS[kind] or mix:
        said += [str(window), *([f"{mix:g}"] if mix else [])]
    return ":".join(said)


def _observed(
    memory: _Memory, start: RoundStart, updates: Sequence[Update], rounds: int
) -> tuple[_Memory, dict[PeerId, float]]:
    """The memory with this round in it, and the distances of this round."""
    pairs, here = pairs_kept(start.schema), flat(start.base, start.schema)
    known = {peer: Known(one.change, one.ago + 1) for peer, one in memory.known.items()}
    moves = memory.moves if memory.base is None else moved(memory.moves, memory.base, here, start.schema)
    comparable = [one for one in updates if not one.staleness and one.base in (None, start.base.digest)]
    found = seen(moves, here, known, comparable, start.schema)
    known |= {peer: Known(change, 0) for peer, change in found.changes.items()}
    known = {peer: one for peer, one in known.items() if one.ago <= pairs}
    row = found.distances if memory.past.merges >= _WARM_UP else {}
    rows = [*memory.rows, *([row] if row else [])][-rounds:]
    return _Memory(memory.past, here, moves.last(pairs), known, rows), row


def _scored(
    rows: Sequence[Scores], updates: Sequence[Update], kind: Kind, mix: float
) -> tuple[dict[PeerId, float], dict[PeerId, float]]:
    """The weight of each update, and its score as a share of the distances."""
    peers, predicted = [one.peer for one in updates], rows[-1]
    by_share = _completed(mean_scores([shares_of_distance(row) for row in rows], peers), predicted, peers)
    scores = _completed(mean_scores(rows, peers), predicted, peers) if kind == "raw" else by_share
    trusted, examples = weights(scores, kind), by_examples(updates)
    if kind in {"rows", "bounded"}:
        trusted = _times(trusted, examples)
    late = {one.peer: lateness(one.staleness) for one in updates}
    return {peer: mix * examples[peer] + (1 - mix) * trusted[peer] * late[peer] for peer in peers}, by_share


def _mean(weighted: Sequence[tuple[Params, float]], schema: Schema, *, is_bounded: bool) -> Params:
    if is_bounded:
        return bounded_mean(weighted, schema.specs)
    return weighted_mean(weighted, {name: spec.merge for name, spec in schema.specs.items()})


def _times(trusted: Scores, examples: Scores) -> dict[PeerId, float]:
    """Both multiplied, of sum 1; trust alone where nobody trusted has an example."""
    both = {peer: one * examples[peer] for peer, one in trusted.items()}
    total = fsum(both.values())
    return {peer: one / total for peer, one in both.items()} if total > 0 else dict(trusted)


def _completed(scores: Scores, predicted: Scores, peers: Sequence[PeerId]) -> dict[PeerId, float]:
    """Scores of all peers: of those of which nothing could be predicted, at least the median of the others."""
    middle = median(one for peer, one in scores.items() if peer in predicted)
    return {peer: scores[peer] if peer in predicted else max(middle, scores.get(peer, middle)) for peer in peers}


def _bounded(start: RoundStart, updates: Sequence[Update], predicted: Scores) -> Mapping[PeerId, Params]:
    """The parameters of each, where nothing was predicted of it shortened to the median norm."""
    if all(one.peer in predicted for one in updates):
        return {one.peer: one.params for one in updates}
    shorter = {one.peer: one.params for one in shortened(start, updates)}
    return {one.peer: one.params if one.peer in predicted else shorter[one.peer] for one in updates}


def _read(state: State, past: Past) -> _Memory:
    """What `_written` made."""
    if state is None or not past.merges:
        return _Memory(past)
    peers = [PeerId(one) for one in json.loads(text_of(state["peers"]))]
    known = {
        peer: Known(_kept(state, f"change {at}"), int(ago))
        for at, (peer, ago) in enumerate(zip(peers, state["ago"], strict=True))
        if ago >= 0
    }
    rows = [
        {peer: float(one) for peer, one in zip(peers, row, strict=True) if one >= 0} for row in state["distances"]
    ]
    products = state["products"].tolist()
    moves = Moves([_kept(state, f"move {at}") for at in range(len(products))], products)
    return _Memory(past, state["base"], moves, known, rows)


def _written(memory: _Memory, rule: str, start: RoundStart, params: Params) -> Params:
    """The memory as named arrays; -1 for what is not there."""
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


def _named(name: str, kept: Kept) -> dict[str, Array]:
    return {name: kept.numbers} | ({} if kept.scales is None else {f"{name} scales": kept.scales})


def _kept(state: Params, name: str) -> Kept:
    return Kept(state[name], state.get(f"{name} scales"))
