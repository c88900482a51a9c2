"""Krum and Multi-Krum: the updates that lie nearest to most others.

Blanchard, El Mhamdi, Guerraoui, Stainer, "Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent"
(2017), section 4 and, for several, section 6. The paper's promise needs n >= 2 f + 3 updates of which at most f
are hostile; with fewer the rule is the same and the promise is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from flnet.params import PeerId, Update
from flnet.strategies.base import Merged, RoundStart, State, Strategy
from flnet.strategies.counting import counting, plain_mean
from flnet.strategies.nearest import best_first, squared_distances
from flnet.weighing import Weighed

FEWEST = 3  # updates: of two, neither is nearer to the other one


def krum(hostile: int = 1) -> Strategy:
    """The one update that is nearest to the others, and nothing of them.

    Args:
        hostile: f, how many updates of a round may be hostile; at least 0.
    """
    return _nearest(f"krum:{hostile}", hostile, lambda count: 1)


def multi_krum(hostile: int = 1, kept: int | None = None) -> Strategy:
    """The mean of the updates that are nearest to the others; each counts alike.

    Args:
        hostile: f, how many updates of a round may be hostile; at least 0.
        kept: how many updates are averaged, at least 1; all but f if absent.
    """
    name = f"multi-krum:{hostile}" + ("" if kept is None else f":{kept}")
    return _nearest(name, hostile, lambda count: max(1, min(count, count - hostile if kept is None else kept)))


def _nearest(name: str, hostile: int, how_many: Callable[[int], int]) -> Strategy:
    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        there = counting(updates)
        if len(there) >= FEWEST:
            order = best_first(squared_distances(there, start.schema), hostile, range(len(there)))
            there = [there[row] for row in sorted(order[: how_many(len(there))])]
        return Merged(plain_mean(there, start.schema), state, _weighed(updates, there))

    return Strategy(name, merge)


def _weighed(updates: Sequence[Update], chosen: Sequence[Update]) -> Mapping[PeerId, Weighed]:
    weights = dict.fromkeys((one.peer for one in chosen), 1 / len(chosen))
    return {one.peer: Weighed(weights.get(one.peer, 0.0)) for one in updates}
