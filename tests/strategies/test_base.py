"""Strategies hand their state on and keep nothing."""

from __future__ import annotations

from collections.abc import Sequence

from flnet.params import Params, Schema, Update
from flnet.strategies.base import LocalTerm, State, Strategy
from tests.helpers import update


def test_all_that_is_remembered_is_the_state_handed_on() -> None:
    def merge(state: State, schema: Schema, updates: Sequence[Update]) -> tuple[Params, State]:
        return updates[0].params, state + len(updates)

    counting = Strategy(
        "counting", init=lambda params: 0, local=lambda state: LocalTerm({"seen": state}), merge=merge
    )
    one = update("a", w=[1.0])
    schema = Schema.of(one.params)
    _, after_one = counting.merge(counting.init(one.params), schema, [one])
    _, after_three = counting.merge(after_one, schema, [one, one])
    assert (after_one, after_three) == (1, 3)
    assert counting.local(after_three).extras == {"seen": 3}
    assert LocalTerm().extras == {}
