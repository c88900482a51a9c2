"""What rules remember, and how long a node knows that it remembers other things than the others do."""

from __future__ import annotations

import numpy as np
import pytest

from flnet.params import Digest, Params, Schema
from flnet.strategies.base import RoundStart, State
from flnet.strategies.remembering import (
    Past,
    array_of,
    flat,
    flat_type,
    made_it,
    noted,
    past_of,
    remembers,
    text_of,
)
from tests.helpers import params

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
    found = []
    for number in range(5):
        past, state = after(state, start(7 + number, MODELS[number]), MODELS[number + 1])
        found.append(past.apart)
    assert found == [3, 2, 1, 0, 0]


def test_who_adopts_the_average_of_others_goes_on_and_knows_that_it_is_apart() -> None:
    _, state = after(None, start(0), MODELS[1])
    past, state = after(state, start(1, MODELS[5]), MODELS[2])
    assert past == Past(1, 0, REACH)
    past, state = after(state, start(2, MODELS[2]), MODELS[3])
    assert past == Past(2, 1, REACH - 1)


def test_who_missed_a_round_begins_anew() -> None:
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
