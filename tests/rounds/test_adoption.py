"""The exchange by accuracy: what is believed, what is measured, what is adopted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from flnet.params.params import Digest, Params, PeerId
from flnet.protocol.effects import CancelTimer, Effect, Evaluate, Fetch, SetTimer
from flnet.protocol.events import (
    ClaimAnswered,
    ClaimReceived,
    Evaluated,
    EvaluationFailed,
    Fetched,
    FetchFailed,
    PeerLost,
    SendFailed,
    SendRefused,
    TimerFired,
)
from flnet.protocol.messages import Accuracy, ModelParams
from flnet.protocol.updates import Claim
from flnet.rounds.adoption import Exchange
from tests.helpers import key, params

OWN = params(w=[0.0])
TIMER = "exchange:0:a"


def exchange(
    peers: Sequence[str] = ("b", "c"), accuracy: float = 0.80, threshold: float = 0.02, is_apart: bool = False
) -> Exchange:
    return Exchange(
        key(),
        [PeerId(name) for name in peers],
        digest=OWN.digest,
        accuracy=accuracy,
        private=params(head=[5.0]),
        threshold=threshold,
        patience=35,
        is_apart=is_apart,
    )


def claim(peer: str, accuracy: float, model: Params | None = None, **more: Digest) -> Claim:
    digest = model.digest if model else more.get("digest")
    return Claim(PeerId(peer), 0, accuracy, digest, 3, model)


def claims(peer: str, accuracy: float, w: float) -> ClaimReceived:
    return ClaimReceived(claim(peer, accuracy, params(w=[w])))


def measured(effects: Sequence[Effect], accuracy: float) -> Evaluated:
    effect = next(e for e in effects if isinstance(e, Evaluate))
    return Evaluated(effect.key, effect.shared.digest, accuracy)


def tried(effects: Sequence[Effect]) -> list[float]:
    """The models (their one number) that are to be measured."""
    return [float(effect.shared["w"][0]) for effect in effects if isinstance(effect, Evaluate)]


# Oracle O3 of the safeguard: threshold .02, own accuracy .80.


@pytest.mark.parametrize(
    ("accuracy", "threshold", "claimed", "found", "is_adopted"),
    [
        (0.80, 0.02, 0.815, None, False),  # within the threshold: not even measured
        (0.80, 0.02, 0.90, 0.83, True),
        (0.80, 0.02, 0.90, 0.81, False),  # it does not keep its word
        (0.50, 0.25, 0.75, None, False),  # exactly the threshold does not win
        (0.50, 0.25, 0.76, 0.75, False),
    ],
)
def test_a_claim_that_keeps_its_word_is_adopted(
    accuracy: float, threshold: float, claimed: float, found: float | None, is_adopted: bool
) -> None:
    r = exchange(["b"], accuracy, threshold)
    effects = r.receive(claims("b", claimed, w=1))
    assert tried(effects) == ([] if found is None else [1])
    if found is not None:
        r.receive(measured(effects, found))
    assert (r.adopted is not None, r.accuracy, r.done) == (is_adopted, found if is_adopted else accuracy, True)


@pytest.mark.parametrize(
    "said",
    [
        claim("b", 0.99, OWN),  # our own average is never measured again
        claim("b", 0.99, digest=OWN.digest),
        claim("b", 0.99),  # neither a model nor its digest
        claim("b", 0.81, digest=params(w=[7.0]).digest),  # it does not win
        replace(claim("b", 0.99, params(w=[1.0])), contributors=0),  # made apart: nobody takes it
    ],
)
def test_what_cannot_be_adopted_is_neither_fetched_nor_measured(said: Claim) -> None:
    r = exchange(["b"])
    assert r.receive(ClaimReceived(said)) == [CancelTimer(TIMER)]
    assert (r.done, r.adopted) == (True, None)


def test_equal_models_are_measured_once() -> None:
    r = exchange(["b", "c", "d"])
    effects = r.receive(claims("b", 0.90, w=1))
    assert tried(r.receive(claims("c", 0.95, w=1))) == []
    assert tried(r.receive(measured(effects, 0.81))) == []
    assert tried(r.receive(claims("d", 0.99, w=1))) == []


def test_models_are_measured_one_at_a_time_the_best_claim_first() -> None:
    r = exchange(["b", "c", "d"])
    first = r.receive(claims("b", 0.85, w=1))
    assert tried(first) == [1]
    assert tried(r.receive(claims("c", 0.86, w=2))) == []  # waits for its turn
    assert tried(r.receive(claims("d", 0.95, w=3))) == []
    second = r.receive(measured(first, 0.80))
    assert tried(second) == [3]
    assert tried(r.receive(measured(second, 0.80))) == [2]


def test_candidates_that_an_adopted_model_outdoes_are_dropped() -> None:
    r = exchange(["b", "c", "d"])
    effects = r.receive(claims("b", 0.95, w=1))
    r.receive(claims("c", 0.85, w=2))
    r.receive(claims("d", 0.99, w=3))
    effects = r.receive(measured(effects, 0.94))
    assert tried(effects) == [3]  # .99 beats .94 by more than .02; .85 does not
    effects = r.receive(measured(effects, 0.90))
    assert tried(effects) == []
    assert r.adopted is not None
    assert (r.adopted.peer, r.done) == ("b", True)


def test_who_averaged_apart_takes_what_others_average_if_it_is_no_worse_here() -> None:
    r = exchange(["b", "c", "d"], is_apart=True)
    assert tried(r.receive(ClaimReceived(replace(claims("b", 0.99, w=1).claim, contributors=0)))) == []
    effects = r.receive(claims("c", 0.40, w=2))
    assert tried(effects) == [2]
    own = r.accuracy
    r.receive(measured(effects, own))
    assert r.adopted is not None
    assert (r.adopted.peer, r.accuracy) == ("c", own)
    effects = r.receive(claims("d", own + 0.01, w=3))  # from now on it is as for all others
    assert (tried(effects), r.done) == ([], True)


def test_who_averaged_apart_takes_nothing_that_is_worse_here() -> None:
    r = exchange(["b"], is_apart=True)
    effects = r.receive(claims("b", 0.99, w=1))
    r.receive(measured(effects, r.accuracy - 0.01))
    assert (r.adopted, r.done) == (None, True)


def test_who_averaged_apart_tries_the_next_model_where_one_cannot_be_measured() -> None:
    r = exchange(["b", "c"], is_apart=True)
    r.receive(claims("b", 0.90, w=1))
    r.receive(claims("c", 0.10, w=2))
    assert tried(r.receive(EvaluationFailed(key(), params(w=[1]).digest, "killed"))) == [2]


def test_a_model_that_cannot_be_measured_is_not_adopted() -> None:
    r = exchange(["b"])
    r.receive(claims("b", 0.9, w=1))
    r.receive(EvaluationFailed(key(), params(w=[1]).digest, "killed"))
    assert (r.adopted, r.done) == (None, True)


def test_a_peer_whose_model_did_not_win_gets_no_second_try() -> None:
    r = exchange(["b", "c"])
    r.receive(measured(r.receive(claims("b", 0.99, w=1)), 0.1))
    assert all(tried(r.receive(claims("b", 0.99, w=w))) == [] for w in range(2, 9))
    assert tried(r.receive(claims("c", 0.9, w=20))) == [20]


def test_of_a_peer_that_waits_for_its_turn_only_the_newest_claim_is_kept() -> None:
    r = exchange(["b", "c"])
    effects = r.receive(claims("b", 0.9, w=1))
    for w in (2, 3, 4):
        r.receive(claims("c", 0.85, w=w))
    assert tried(r.receive(measured(effects, 0.1))) == [4]


def test_an_answer_counts_like_a_claim() -> None:
    assert tried(exchange(["b"]).receive(ClaimAnswered(claim("b", 0.9, params(w=[1]))))) == [1]


def test_the_end_of_another_measurement_means_nothing() -> None:
    r = exchange(["b"])
    r.receive(claims("b", 0.9, w=1))
    r.receive(Evaluated(key(), OWN.digest, 0.99))
    assert (r.adopted, r.done) == (None, False)


# Who is waited for.


def test_it_waits_for_the_claims_of_all_peers_but_not_for_ever() -> None:
    r = exchange()
    assert r.start() == [SetTimer(TIMER, 35)]
    r.receive(claims("b", 0.1, w=1))
    assert not r.done
    assert r.receive(claims("c", 0.1, w=2)) == [CancelTimer(TIMER)]
    assert r.done


def test_without_peers_there_is_nothing_to_wait_for() -> None:
    r = exchange([])
    assert (r.start(), r.done) == ([], True)


@pytest.mark.parametrize(
    "silence",
    [
        PeerLost(PeerId("b"), "gone"),
        SendFailed(PeerId("b"), Accuracy.path, key(), "lost"),
        SendRefused(PeerId("b"), Accuracy.path, key(), 404, "unknown_trainer", ""),
        SendRefused(PeerId("b"), Accuracy.path, key(), 422, "params_refused", ""),
    ],
)
def test_a_peer_from_which_no_claim_will_come_is_not_waited_for(silence: PeerLost) -> None:
    r = exchange(["b"])
    assert r.receive(silence) == [CancelTimer(TIMER)]
    assert r.done


@pytest.mark.parametrize(
    "news",
    [
        SendRefused(PeerId("b"), Accuracy.path, key(), 400, "not_comparable", ""),  # not averaged there yet
        SendRefused(PeerId("b"), ModelParams.path, key(), 409, "stale_round", ""),  # says nothing on its claim
        SendFailed(PeerId("b"), ModelParams.path, key(), "lost"),
        TimerFired("exchange:1:a"),
    ],
)
def test_a_peer_whose_claim_may_still_follow_is_waited_for(news: SendRefused) -> None:
    r = exchange(["b"])
    assert r.receive(news) == []
    assert not r.done


def test_the_timer_ends_the_waiting() -> None:
    r = exchange()
    assert r.receive(TimerFired(TIMER)) == [CancelTimer(TIMER)]
    assert r.done


def test_after_the_timer_only_the_measurement_under_way_is_awaited() -> None:
    r = exchange(["b", "c", "d"])
    effects = r.receive(claims("b", 0.9, w=1))
    r.receive(claims("c", 0.9, w=2))
    r.receive(TimerFired(TIMER))
    assert not r.done
    r.receive(claims("d", 0.99, w=3))
    assert tried(r.receive(measured(effects, 0.85))) == []
    assert r.adopted is not None
    assert (r.adopted.peer, r.done) == ("b", True)


# --- The exchange when claims name their model by digest only: what is fetched, and what becomes of it.


MODEL = params(w=[7.0])
B = PeerId("b")


def named(peer: str, accuracy: float, digest: Digest = MODEL.digest) -> ClaimReceived:
    return ClaimReceived(claim(peer, accuracy, digest=digest))


def fetching() -> Exchange:
    r = exchange(["b"])
    assert r.receive(named("b", 0.90)) == [Fetch(key(), B, MODEL.digest)]
    assert not r.done
    return r


def test_a_claim_that_wins_is_fetched_measured_with_our_private_parameters_and_adopted() -> None:
    r = fetching()
    (effect,) = r.receive(Fetched(key(), B, MODEL.digest, MODEL))
    assert isinstance(effect, Evaluate)
    assert {name: value.tolist() for name, value in effect.params.items()} == {"w": [7.0], "head": [5.0]}
    r.receive(measured([effect], 0.85))
    assert r.adopted is not None
    assert (r.adopted.peer, r.adopted.params, r.accuracy, r.done) == ("b", MODEL, 0.85, True)


def test_a_model_that_does_not_come_is_not_asked_for_again() -> None:
    r = fetching()
    assert r.receive(FetchFailed(key(), B, MODEL.digest, "gone")) == [CancelTimer(TIMER)]
    assert (r.done, r.adopted) == (True, None)
    assert r.receive(named("b", 0.99, Digest("e" * 64)))[0] != Fetch(key(), B, Digest("e" * 64))


def test_the_next_best_claim_is_fetched_when_the_best_does_not_come() -> None:
    r = exchange(["b", "c"])
    r.receive(named("b", 0.95))
    other = Digest("c" * 64)
    assert r.receive(named("c", 0.90, other)) == []  # one at a time
    assert Fetch(key(), PeerId("c"), other) in r.receive(FetchFailed(key(), B, MODEL.digest, "gone"))


def test_what_nobody_waits_for_means_nothing() -> None:
    r = fetching()
    assert r.receive(Fetched(key(), B, Digest("d" * 64), MODEL)) == []
    assert r.receive(Evaluated(key(), Digest("d" * 64), 0.99)) == []
    assert r.fetching is not None


def test_the_timer_ends_a_fetch_that_takes_too_long() -> None:
    r = fetching()
    r.receive(TimerFired(TIMER))
    assert r.done
    assert r.receive(Fetched(key(), B, MODEL.digest, MODEL)) == [CancelTimer(TIMER)]
    assert r.adopted is None
