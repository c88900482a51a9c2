"""Strategies hand their state on and keep nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flnet.params import Params, Schema, Update
from flnet.strategies.base import Merged, RoundStart, State, Strategy
from tests.helpers import update


def test_all_that_is_remembered_is_the_state_handed_on() -> None:
    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        before = 0 if state is None else int(state["seen"])
        return Merged(updates[0].params, Params({"seen": np.array(before + len(updates))}))

    counting = Strategy("counting", merge)
    one = update("a", w=[1.0])
    start = RoundStart(Schema.of(one.params), one.params)
    after_one = counting.merge(None, start, [one]).state
    after_three = counting.merge(after_one, start, [one, one]).state
    assert after_one is not None and after_three is not None
    assert (int(after_one["seen"]), int(after_three["seen"])) == (1, 3)
    assert counting.merge(None, start, [one]).weighed == {}
