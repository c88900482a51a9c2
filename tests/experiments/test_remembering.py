"""What all nodes of a round compute alike is computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from flnet.experiments.remembering import remembered, remembering
from flnet.params import Params, PeerId, RoundKey, Schema, Update
from flnet.strategies import Merged, RoundStart, State, fed_avg
from flnet.vectors import distance


def test_equal_updates_are_merged_once() -> None:
    calls = []

    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        calls.append(updates)
        return fed_avg().merge(state, start, updates)

    counted = remembering(fed_avg()._replace(merge=merge))
    base = Params({"w": np.zeros(1, np.float32)})
    start = RoundStart(Schema.of(base), base)
    key = RoundKey(0, PeerId("a"))
    some = [
        Update(PeerId(name), key, Params({"w": np.array([w], np.float32)}), 1)
        for name, w in zip("ab", [1.0, 2.0], strict=True)
    ]
    first, again = (counted.merge(None, one, some) for one in (start, replace(start, me=PeerId("b"))))
    assert first is again
    other = counted.merge(None, start, [some[0], replace(some[1], examples=3)])
    assert [first.params["w"], other.params["w"]] == [1.5, 1.75]
    assert len(calls) == 2
    for changed in ({"number": 1}, {"base": Params({"w": np.ones(1, np.float32)})}, {"members": frozenset("ab")}):
        counted.merge(None, replace(start, **changed), some)
    counted.merge(base, start, some)
    assert len(calls) == 6


def test_each_distance_is_taken_once_in_a_round() -> None:
    zero, one, two = (Params({"w": np.full(4, w, np.float32)}) for w in (0, 1, 2))
    schema, calls = Schema.of(zero), []

    def measure(base: Params, params: Params, schema: Schema) -> float:
        calls.append((base, params))
        return distance(base, params, schema)

    taken = remembered(measure)
    same = Params({"w": np.full(4, 1, np.float32)})
    assert [taken(zero, params, schema) for params in (one, two, same, two)] == [2.0, 4.0, 2.0, 4.0]
    assert calls == [(zero, one), (zero, two)]
    assert [taken(one, params, schema) for params in (one, two, two)] == [0.0, 2.0, 2.0]
    assert len(calls) == 4
