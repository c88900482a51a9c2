"""Strategies hand their state on and keep nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from flnet.aggregation.base import (
    AggregationRule,
    Merged,
    Past,
    RoundStart,
    State,
    array_of,
    counting,
    flat,
    flat_type,
    made_it,
    mean_of_sorted,
    noted,
    past_of,
    plain_mean,
    remembers,
    text_of,
    usual_mean,
)
from flnet.params.params import Digest, Params, Schema
from flnet.protocol.updates import Update
from tests.helpers import params, update


def test_all_that_is_remembered_is_the_state_handed_on() -> None:
    def merge(state: State, start: RoundStart, updates: Sequence[Update]) -> Merged:
        before = 0 if state is None else int(state["seen"])
        return Merged(updates[0].params, Params({"seen": np.array(before + len(updates))}))

    counting = AggregationRule("counting", merge)
    one = update("a", w=[1.0])
    start = RoundStart(Schema.of(one.params), one.params)
    after_one = counting.merge(None, start, [one]).state
    after_three = counting.merge(after_one, start, [one, one]).state
    assert after_one is not None and after_three is not None
    assert (int(after_one["seen"]), int(after_three["seen"])) == (1, 3)
    assert counting.merge(None, start, [one]).weighed == {}


def test_who_learnt_from_nothing_is_left_out_unless_all_did() -> None:
    some, none, unsaid = update("a", examples=4), update("b", examples=0), update("c", examples=None)
    assert counting([some, none, unsaid]) == [some, unsaid]
    assert counting([none, none]) == [none, none]


def test_the_plain_mean_counts_every_update_alike() -> None:
    updates = [update("a", examples=1, w=[1.0]), update("b", examples=99, w=[3.0])]
    assert plain_mean(updates, Schema.of(updates[0].params))["w"].tolist() == [2.0]


def test_the_mean_of_equal_numbers_is_that_number() -> None:
    third = np.full((3, 2), [0.1, np.finfo(np.float64).max])
    assert mean_of_sorted(third).tolist() == third[0].tolist()


def test_the_usual_mean_is_by_examples_where_all_say_them() -> None:
    updates = [update("a", examples=1, w=[1.0]), update("b", examples=3, w=[5.0])]
    assert usual_mean(updates, Schema.of(updates[0].params))["w"].tolist() == [4.0]
    updates = [updates[0], update("b", examples=None, w=[5.0])]
    assert usual_mean(updates, Schema.of(updates[0].params))["w"].tolist() == [3.0]


REACH = 3
MODELS = [params(w=[number, 0]) for number in range(9)]


def start(number: int, base: Params = MODELS[0]) -> RoundStart:
    return RoundStart(Schema.of(base), base, number)


def after(state: State, round: RoundStart, made: Params) -> tuple[Past, State]:
    past = past_of(state, "rule", round, REACH)
    return past, Params(noted(past, "rule", round, made.digest))


def test_who_was_there_from_the_first_round_on_remembers_what_all_do() -> None:
    past, state = after(None, start(0), MODELS[1])
    assert past == Past(0, -1, 0)
    past, state = after(state, start(1, MODELS[1]), MODELS[2])
    assert past == Past(1, 0, 0)


def test_a_newcomer_is_apart_until_nothing_is_left_of_what_it_missed() -> None:
    state: State = None
    result = []
    for number in range(5):
        past, state = after(state, start(7 + number, MODELS[number]), MODELS[number + 1])
        result.append(past.apart)
    assert result == [3, 2, 1, 0, 0]


def test_who_adopts_the_average_of_others_goes_on_and_knows_that_it_is_apart() -> None:
    _, state = after(None, start(0), MODELS[1])
    past, state = after(state, start(1, MODELS[5]), MODELS[2])
    assert past == Past(1, 0, REACH)
    past, state = after(state, start(2, MODELS[2]), MODELS[3])
    assert past == Past(2, 1, REACH - 1)


def test_who_missed_a_round_starts_again() -> None:
    _, state = after(None, start(0), MODELS[1])
    assert past_of(state, "rule", start(2, MODELS[5]), REACH) == Past(0, -1, REACH)
    # A number that nobody played is nothing that one can miss.
    assert past_of(state, "rule", start(2, MODELS[1]), REACH) == Past(1, 0, 0)


def test_what_another_rule_remembers_is_nothing() -> None:
    _, state = after(None, start(0), MODELS[1])
    assert past_of(state, "rule", start(1, MODELS[1]), REACH).merges == 1
    assert past_of(state, "rule:2", start(1, MODELS[1]), REACH).merges == 0
    assert remembers(state, "rule", start(5)) and not remembers(state, "rule:2", start(5))
    assert not remembers(None, "rule", start(5))
    assert state is not None and made_it(state, start(5, MODELS[1])) and not made_it(state, start(5, MODELS[2]))
    wider = params(w=[1, 2, 3])
    assert past_of(state, "rule", start(1, wider), REACH).merges == 0
    assert past_of(Params({"w": np.zeros(3)}), "rule", start(1), REACH).merges == 0
    assert past_of(Params({"notes": np.zeros(3)}), "rule", start(1), REACH).merges == 0


@pytest.mark.parametrize("text", ["", "a", "node-ä", '["a, b"]'])
def test_words_come_back(text: str) -> None:
    assert text_of(array_of(text)) == text
    assert text_of(np.zeros(2)) == ""
    assert Digest(text_of(np.array([255], np.uint8))) == "\ufffd"


def test_one_vector_holds_what_is_averaged_in_the_order_of_names() -> None:
    both = Params({"b": np.ones((1, 2), "float16"), "a": np.zeros(1, "float16"), "n": np.arange(3)})
    schema = Schema.of(both)
    assert flat(both, schema).tolist() == [0, 1, 1]
    assert flat_type(schema) == "float32"
    assert flat_type(Schema.of(params("float64", w=[1]))) == "float64"
    assert flat(both, schema, ["b"]).tolist() == [1, 1]
    assert flat(Params(), Schema({})).size == 0
