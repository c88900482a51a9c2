"""The sentences that say how a round ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from flnet.aggregation.base import Secure
from flnet.params.params import PeerId
from flnet.protocol.effects import Evaluate, Publish
from flnet.protocol.events import (
    Averaged,
    DeclineReceived,
    Evaluated,
    EvaluationFailed,
    PeerLost,
    RoundTriggered,
    Trained,
    UpdateReceived,
    Weighed,
)
from flnet.protocol.updates import RoundKey
from flnet.rounds.gathering import Closing, Gathering
from flnet.rounds.history import (
    FORGOTTEN,
    RoundRecord,
    SumRecord,
    Weights,
    closing_words,
    fair_shares,
    names,
    view_of_sums,
    words_of,
)
from tests.helpers import key, params, update
from tests.rounds.helpers import Bench, came


def gathered(*names: str, peers: tuple[str, ...] = ("b", "c"), declined: str = "") -> Gathering:
    r = Gathering(key(), PeerId("a"), [PeerId(name) for name in peers], 30)
    for name in names:
        r.receive(UpdateReceived(update(name, w=[1.0])))
    for name in declined:
        r.receive(DeclineReceived(PeerId(name), key(), "on battery"))
    return r


def words(r: Gathering, why: Closing) -> str:
    r.closed = why
    return closing_words(r)


@pytest.mark.parametrize(
    ("averaging", "why", "sentence"),
    [
        (gathered("a", "b", "c"), Closing.COMPLETE, "averaged 3 updates: all expected updates arrived"),
        (
            gathered("a", "b", declined="c"),
            Closing.COMPLETE,
            "averaged 2 updates: all expected updates arrived (not taking part: c: on battery)",
        ),
        (
            gathered("a", peers=()),
            Closing.COMPLETE,
            "no other update came; averaged 1 update (this node averaged alone)",
        ),
        (
            gathered("a", declined="bc"),
            Closing.COMPLETE,
            "no other update came (not taking part: b: on battery; c: on battery); averaged 1 update (this node averaged "
            "alone)",
        ),
        (
            gathered("b", declined="ac"),
            Closing.COMPLETE,
            "no other update came (not taking part: a: on battery; c: on battery); averaged 1 update",
        ),
        (gathered("a", "b"), Closing.TIMER, "timed out waiting for 1 of 3 nodes (c); averaged 2 updates"),
        (
            gathered("a"),
            Closing.TIMER,
            "timed out waiting for 2 of 3 nodes (b, c); averaged 1 update (this node averaged alone)",
        ),
        (
            gathered("c"),
            Closing.NEXT_ROUND,
            "the next round began before the updates of a, b arrived; averaged 1 update",
        ),
        (gathered(), Closing.TIMER, "no update came; the model stays as it was"),
        (
            gathered(declined="b"),
            Closing.COMPLETE,
            "no update came (not taking part: b: on battery); the model stays as it was",
        ),
    ],
)
def test_the_sentence_says_why_with_how_many_and_without_whom(
    averaging: Gathering, why: Closing, sentence: str
) -> None:
    assert words(averaging, why) == sentence


def test_a_lost_peer_is_not_among_the_missing() -> None:
    r = gathered("a", "b")
    r.receive(PeerLost(PeerId("c"), "silent"))
    assert closing_words(r) == "averaged 2 updates: all expected updates arrived"


def test_at_most_five_peers_stand_in_a_sentence() -> None:
    assert names(list("abcdefg")) == "a, b, c, d, e and 2 more"
    assert names(list("abcde")) == "a, b, c, d, e"


def test_the_trainers_further_figures_are_kept_before_and_after() -> None:
    bench = Bench(peers=())
    bench.hear(RoundTriggered())
    bench.hear(Trained(key(0, "b"), params(w=[1, 1]), 5, 0.5, metrics={"auc": 0.6}))
    bench.average()
    measure = bench.one(Evaluate)
    bench.hear(Evaluated(measure.key, measure.shared.digest, 0.7, metrics={"auc": 0.8}))
    (record,) = bench.job.records()
    assert record["metrics"] == {"before": {"auc": 0.6}, "after": {"auc": 0.8}}
    assert bench.job.view().as_json()["metrics"] == record["metrics"]


def test_the_view_says_of_which_round_its_figures_are() -> None:
    bench = Bench(peers=())
    assert bench.job.view().figures_round is None
    bench.hear(RoundTriggered(rounds=2))
    bench.hear(Trained(key(0, "b"), params(w=[1, 1]), 5, 0.5))
    bench.average()
    measure = bench.one(Evaluate)
    bench.hear(Evaluated(measure.key, measure.shared.digest, 0.7))
    view = bench.job.view()
    assert (view.current_round, view.figures_round, view.older_round, view.post_fedavg_accuracy) == (1, 0, 0, 0.7)
    bench.hear(Trained(key(1, "b"), params(w=[2, 2]), 5, 0.6))
    view = bench.job.view()
    assert (view.current_round, view.figures_round, view.older_round) == (1, 1, None)


# --- Who counts little in the averages: when that is said, and when it is taken back.


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
    return [[words_of(peer, now) for peer, now in weights.take(record)] for record in records]


LOW = {"a": 0.33, "b": 0.33, "c": 0.33, "d": 0.01}


def test_a_collapse_is_said_once_and_the_return_once() -> None:
    texts = turns(record(0, EQUAL), record(1, LOW), record(2, LOW), record(3, EQUAL), record(4, EQUAL))
    collapse = "the updates of d count little since round 1: 1 % of the average, 25 % was fair"
    assert texts == [[], [collapse], [], ["the updates of d count again"], []]


def test_between_a_tenth_and_half_of_a_fair_share_nothing_is_decided() -> None:
    between = {"a": 0.3, "b": 0.3, "c": 0.3, "d": 0.1}
    assert turns(record(0, EQUAL), record(1, between), record(2, LOW), record(3, between), record(4, LOW)) == [
        *([], []),
        ["the updates of d count little since round 2: 1 % of the average, 25 % was fair"],
        *([], []),
    ]


def test_who_never_had_a_fair_share_is_named_in_the_third_round() -> None:
    texts = turns(*(record(number, LOW) for number in range(4)))
    assert [len(turned) for turned in texts] == [0, 0, 1, 0]
    assert texts[2][0].startswith("the updates of d count little since round 0")


def test_who_is_left_out_is_named_in_the_third_round_running() -> None:
    out = [record(number, {**EQUAL, "d": 0.0}, {"d": "it moved 9"}) for number in range(6)]
    assert turns(*out[:2], record(2, EQUAL), *out[3:])[2:] == [
        *([], [], []),
        ["the updates of d have been left out since round 3: it moved 9"],
    ]


def test_a_rule_that_weighs_no_whole_update_says_nothing_against_anybody() -> None:
    texts = turns(*(record(number, dict.fromkeys("abcd")) for number in range(5)))
    assert texts == [[]] * 5


def test_a_rule_that_chooses_one_update_says_nothing_of_the_others() -> None:
    chosen = [{**dict.fromkeys("abcd", 0.0), "abcd"[number % 2]: 1.0} for number in range(6)]
    assert turns(*(record(number, weighed) for number, weighed in enumerate(chosen))) == [[]] * 6


def test_the_fair_share_of_few_examples_is_small() -> None:
    average = record(0, {"a": 0.5, "b": 0.49, "c": 0.01})
    average.contributions = (
        {"peer": "a", "examples": 500},
        {"peer": "b", "examples": 490},
        {"peer": "c", "examples": 10},
    )
    assert fair_shares(average.weighed, average.contributions) == pytest.approx(
        {"a": 1 / 3, "b": 1 / 3, "c": 0.01}
    )
    assert turns(average, average, average, average) == [[]] * 4


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
        assert {row["peer"] for row in weights.view()} == little


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
    bench.hear(EvaluationFailed(key(number, "b"), params(w=[3, number]).digest, "no memory"))
    return told


def test_the_job_tells_of_a_collapse_and_shows_it() -> None:
    bench, fair = Bench(), {"a": 0.3, "b": 0.3, "c": 0.4}
    assert average_of(bench, 0, fair) == []
    (told,) = average_of(bench, 1, {"a": 0.5, "b": 0.49, "c": 0.01})
    assert (told.kind, told.data["peer"], told.data["since"]) == ("weight_collapsed", "c", 1)
    (little,) = bench.job.view().as_json()["counts_little"]
    assert (little["peer"], little["since"], little["weight"]) == ("c", 1, 0.01)
    (told,) = average_of(bench, 2, fair)
    assert (told.kind, told.text) == ("weight_recovered", "the updates of c count again")
    assert bench.job.view().as_json()["counts_little"] == []


def test_a_record_keeps_by_whom_its_sum_was_opened_and_one_of_before_has_none() -> None:
    members = tuple(PeerId(name) for name in "abcd")
    made = RoundRecord(key(), "averaged 3 updates", contributors=members[:3], secure=SumRecord(members, 3))
    view = dict(made.view())
    assert view["secure"]["words"] == "only the sum of 3 updates was opened; 3 of 4 nodes are needed to open one"
    assert RoundRecord.read(json.loads(json.dumps(view))) == made
    del view["secure"]
    assert RoundRecord.read(view).secure is None
    with pytest.raises((KeyError, TypeError, ValueError)):
        RoundRecord.read({**view, "secure": {"members": ["a"]}})


def test_the_newest_sum_is_shown_also_after_rounds_without_one() -> None:
    members = tuple(PeerId(name) for name in "abc")
    opened = RoundRecord(key(4), contributors=members, secure=SumRecord(members, 2))
    shown = view_of_sums(Secure(), [opened, RoundRecord(key(5))], 9)
    assert (shown["round"], shown["members"], shown["threshold"], shown["contributors"]) == (4, 3, 2, 3)


@pytest.mark.parametrize(
    ("here", "least", "words"),
    [
        (1, 1, "no sum was opened yet, and it takes two nodes"),
        (4, 3, "no sum was opened yet; 3 of the 4 nodes here are needed for that"),
    ],
)
def test_before_the_first_sum_the_nodes_that_are_here_count(here: int, least: int, words: str) -> None:
    shown = view_of_sums(Secure(), [], here)
    assert (shown["members"], shown["threshold"], shown["contributors"], shown["words"]) == (
        here,
        least,
        None,
        words,
    )
