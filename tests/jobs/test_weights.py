"""Who counts little in the averages: when that is said, and when it is taken back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from flnet.effects import Publish
from flnet.events import Averaged, RoundTriggered
from flnet.jobs.record import RoundRecord
from flnet.jobs.weights import FORGOTTEN, Weights, fair_shares, words_of
from flnet.params import PeerId, RoundKey
from flnet.weighing import Weighed
from tests.helpers import key, params
from tests.jobs.helpers import Bench, came

EQUAL = {"a": 0.25, "b": 0.25, "c": 0.25, "d": 0.25}


def record(number: int, weights: Mapping[str, float | None], reasons: dict[str, str] | None = None) -> RoundRecord:
    """An average of updates of 100 examples each."""
    reasons = reasons or {}
    stated = tuple({"peer": peer, "examples": 100} for peer in weights if peer not in reasons)
    weighed = {peer: Weighed(weight, reason=reasons.get(peer, "")).view() for peer, weight in weights.items()}
    return RoundRecord(RoundKey(number, PeerId("a")), contributions=stated, weighed=weighed)


def turns(*records: RoundRecord) -> list[list[str]]:
    """After each average the sentences on those whose standing changed."""
    weights = Weights()
    return [[words_of(peer, now) for peer, now in weights.take(one)] for one in records]


LOW = {"a": 0.33, "b": 0.33, "c": 0.33, "d": 0.01}


def test_a_collapse_is_said_once_and_the_return_once() -> None:
    said = turns(record(0, EQUAL), record(1, LOW), record(2, LOW), record(3, EQUAL), record(4, EQUAL))
    collapse = "the updates of d count little since round 1: 1 % of the average, 25 % was fair"
    assert said == [[], [collapse], [], ["the updates of d count again"], []]


def test_between_a_tenth_and_half_of_a_fair_share_nothing_is_decided() -> None:
    between = {"a": 0.3, "b": 0.3, "c": 0.3, "d": 0.1}
    assert turns(record(0, EQUAL), record(1, between), record(2, LOW), record(3, between), record(4, LOW)) == [
        *([], []),
        ["the updates of d count little since round 2: 1 % of the average, 25 % was fair"],
        *([], []),
    ]


def test_who_never_had_a_fair_share_is_named_in_the_third_round() -> None:
    said = turns(*(record(number, LOW) for number in range(4)))
    assert [len(one) for one in said] == [0, 0, 1, 0]
    assert said[2][0].startswith("the updates of d count little since round 0")


def test_who_is_left_out_is_named_in_the_third_round_running() -> None:
    out = [record(number, {**EQUAL, "d": 0.0}, {"d": "it moved 9"}) for number in range(6)]
    assert turns(*out[:2], record(2, EQUAL), *out[3:])[2:] == [
        *([], [], []),
        ["the updates of d have been left out since round 3: it moved 9"],
    ]


def test_a_rule_that_weighs_no_whole_update_says_nothing_against_anybody() -> None:
    said = turns(*(record(number, dict.fromkeys("abcd")) for number in range(5)))
    assert said == [[]] * 5


def test_a_rule_that_chooses_one_update_says_nothing_of_the_others() -> None:
    chosen = [{**dict.fromkeys("abcd", 0.0), "abcd"[number % 2]: 1.0} for number in range(6)]
    assert turns(*(record(number, one) for number, one in enumerate(chosen))) == [[]] * 6


def test_the_fair_share_of_few_examples_is_small() -> None:
    one = record(0, {"a": 0.5, "b": 0.49, "c": 0.01})
    one.contributions = (
        {"peer": "a", "examples": 500},
        {"peer": "b", "examples": 490},
        {"peer": "c", "examples": 10},
    )
    assert fair_shares(one.weighed, one.contributions) == pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 0.01})
    assert turns(one, one, one, one) == [[]] * 4


def test_who_took_no_part_for_long_is_forgotten() -> None:
    weights = Weights()
    weights.take(record(0, EQUAL))
    for number in range(1, FORGOTTEN + 1):
        weights.take(record(number, {"a": 0.5, "b": 0.5}))
    assert sorted(weights.of) == ["a", "b"]


levels = some.fixed_dictionaries(
    {}, optional=dict.fromkeys("abcd", some.sampled_from([None, 0.0, 0.01, 0.1, 0.25, 1.0]))
)


@given(some.lists(some.tuples(levels, some.sets(some.sampled_from("abcd"))), max_size=12))
def test_what_is_said_and_taken_back_take_turns(rounds: list[tuple[dict[str, float | None], set[str]]]) -> None:
    weights = Weights()
    little: set[str] = set()
    for number, (shares, out) in enumerate(rounds):
        for peer, now in weights.take(record(number, shares, dict.fromkeys(out & shares.keys(), "so"))):
            assert now.is_little != (peer in little)
            little ^= {peer}
        assert {one["peer"] for one in weights.view()} == little


# --- in the job


def average_of(bench: Bench, number: int, weights: dict[str, float]) -> list[Publish]:
    """A round of b with a and c in which updates get these weights."""
    bench.hear(RoundTriggered())
    bench.train()
    for name in ("a", "c"):
        bench.hear(came(name, number, "b"))
    weighed: dict[PeerId, Any] = {PeerId(peer): Weighed(weight) for peer, weight in weights.items()}
    bench.hear(Averaged(key(number, "b"), params(w=[3, number]), weighed=weighed))
    told = [one for one in bench.all(Publish) if one.kind in ("weight_collapsed", "weight_recovered")]
    bench.state.phase = type(bench.phase).IDLE
    return told


def test_the_job_tells_of_a_collapse_and_shows_it() -> None:
    bench, fair = Bench(), {"a": 0.3, "b": 0.3, "c": 0.4}
    assert average_of(bench, 0, fair) == []
    (told,) = average_of(bench, 1, {"a": 0.5, "b": 0.49, "c": 0.01})
    assert (told.kind, told.data["peer"], told.data["since"]) == ("weight_collapsed", "c", 1)
    (little,) = bench.job.view()["counts_little"]
    assert (little["peer"], little["since"], little["weight"]) == ("c", 1, 0.01)
    (told,) = average_of(bench, 2, fair)
    assert (told.kind, told.text) == ("weight_recovered", "the updates of c count again")
    assert bench.job.view()["counts_little"] == []
