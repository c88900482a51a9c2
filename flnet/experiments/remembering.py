"""What all nodes of a round compute alike is computed once for them: they are in one process.

Nodes merge equal sets of updates, and screen each of them from the same base. What is remembered here is what they
would have got: a key holds all that the result depends on.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from flnet.params import Digest, Params, Schema, Update
from flnet.screening import Measure
from flnet.strategies import Merged, RoundStart, State, Strategy


def remembered(measure: Measure) -> Measure:
    """The same distances, each of which is taken once in a round: all its nodes screen the same updates."""
    known: dict[tuple[Digest, Digest, Digest], float] = {}
    last: list[Digest] = []  # the base of the round

    def taken(base: Params, params: Params, schema: Schema) -> float:
        if last != [base.digest]:
            known.clear()
            last[:] = [base.digest]
        key = (params.digest, schema.digest, base.digest)
        if key not in known:
            known[key] = measure(base, params, schema)
        return known[key]

    return taken


def remembering(strategy: Strategy) -> Strategy:
    """The same strategy, which merges equal updates once: all nodes of a round merge the same ones.

    Equal are they if all that a rule may look at is, but for which node it is that merges.
    """
    last: dict[Hashable, Merged] = {}

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        words = tuple((u.peer, u.params.digest, u.examples, u.labels, u.staleness) for u in updates)
        remembered = None if state is None else state.digest
        key = (start.schema.digest, start.base.digest, start.number, start.members, remembered, words)
        if key not in last:
            result = strategy.merge(state, start, updates)
            last.clear()
            last[key] = result
        return last[key]

    return strategy._replace(merge=merge, running=None)
