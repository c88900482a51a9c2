"""The exchange when claims name their model by digest only: what is fetched, and what becomes of it."""

from __future__ import annotations

from flnet.effects import CancelTimer, Evaluate, Fetch
from flnet.events import ClaimReceived, Evaluated, Fetched, FetchFailed, TimerFired
from flnet.params import Digest, PeerId
from flnet.rounds import Exchange
from tests.helpers import key, params
from tests.rounds.test_exchange import OWN, TIMER, claim, exchange, measured

MODEL = params(w=[7.0])
B = PeerId("b")


def named(peer: str, accuracy: float, digest: Digest = MODEL.digest) -> ClaimReceived:
    return ClaimReceived(claim(peer, accuracy, digest=digest))


def fetching() -> Exchange:
    r = exchange(["b"])
    assert r.receive(named("b", 0.90)) == [Fetch(key(), B, MODEL.digest)]
    assert not r.done
    return r


def test_equal_digests_are_one_model_and_move_nothing() -> None:
    r = exchange(["b"])
    assert r.receive(named("b", 0.99, OWN.digest)) == [CancelTimer(TIMER)]
    assert r.done


def test_a_claim_that_does_not_win_is_not_fetched() -> None:
    r = exchange(["b"])
    assert r.receive(named("b", 0.81)) == [CancelTimer(TIMER)]


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
