"""What a job does with parameters that are named by digest: start, update, rival, and what does not come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from flnet.effects import Average, CancelWork, Fetch, Fold, Publish, Send, SetTimer, Train
from flnet.errors import ParamsRefused, RoundLost, StaleRound
from flnet.events import (
    ClaimAnswered,
    ClaimReceived,
    Fetched,
    FetchFailed,
    RoundTriggered,
    TrainingAsked,
    UpdateOffered,
)
from flnet.jobs import Phase
from flnet.messages import Accuracy, ModelParams, StartTraining
from flnet.params import Digest, Params, PeerId, Update
from tests.helpers import key, params
from tests.jobs.helpers import Bench, asked, came, claim, refuses

A, C = PeerId("a"), PeerId("c")
NAN = float("nan")


def by_digest(by: str, number: int = 0, w: Sequence[float] = (9, 9), **more: int) -> TrainingAsked:
    start = asked(by, number, w, **more)
    assert start.params is not None
    return replace(start, params=None, digest=start.params.digest)


def offer(by: str, number: int = 0, initiator: str = "a", w: Sequence[float] = (1, 1)) -> UpdateOffered:
    return UpdateOffered(Update(PeerId(by), key(number, initiator), Params(), 1), params(w=w).digest)


def gives(peer: PeerId, number: int = 0, initiator: str = "a", w: Sequence[float] = (9, 9)) -> Fetched:
    return Fetched(key(number, initiator), peer, params(w=w).digest, params(w=w))


def fails(peer: PeerId, number: int = 0, initiator: str = "a", w: Sequence[float] = (9, 9)) -> FetchFailed:
    return FetchFailed(key(number, initiator), peer, params(w=w).digest, "gone")


# --- the start


def test_a_start_whose_model_is_here_already_moves_nothing() -> None:
    bench = Bench().through_round()
    assert bench.state.model is not None
    held = bench.state.model.shared.digest
    bench.hear(replace(by_digest("a", 1), digest=held, base_round=0, contributors=3))
    assert (bench.phase, bench.all(Fetch)) == (Phase.TRAINING, [])


def test_a_start_whose_model_is_not_here_is_fetched_before_training() -> None:
    bench = Bench()
    bench.hear(by_digest("a"))
    assert (bench.phase, bench.one(Fetch)) == (Phase.FETCHING, Fetch(key(), A, params(w=[9, 9]).digest))
    bench.hear(gives(A))
    assert (bench.phase, bench.one(Train).params) == (Phase.TRAINING, params(w=[9, 9]))


def test_a_start_from_an_older_average_than_ours_is_not_fetched() -> None:
    bench = Bench().through_round().through_round(1)
    bench.hear(by_digest("a", 2, base_round=0, contributors=9))
    assert (bench.phase, bench.all(Fetch)) == (Phase.TRAINING, [])


@pytest.mark.parametrize("end", [fails(A), replace(gives(A), params=params(w=[NAN, 1]))])
def test_without_its_start_a_node_takes_no_part_and_says_so(end: Fetched | FetchFailed) -> None:
    bench = Bench()
    bench.hear(by_digest("a"))
    bench.hear(end)
    declined = bench.said(ModelParams).declined
    assert declined is not None
    assert "could not be fetched from a" in declined
    assert (bench.phase, bench.state.error) == (Phase.GATHERING, declined)
    assert "fetch_failed" in [publish.kind for publish in bench.all(Publish)]


def test_what_peers_learnt_meanwhile_counts() -> None:
    bench = Bench(peers=["a"])
    bench.hear(by_digest("a"))
    bench.hear(came("a"))
    bench.hear(gives(A))
    bench.train()
    assert [u.peer for u in bench.one(Average).updates] == ["a", "b"]


def test_a_better_start_replaces_the_one_that_is_being_fetched() -> None:
    bench = Bench()
    bench.hear(by_digest("c"))
    bench.hear(by_digest("a", w=(8, 8)))
    assert bench.one(Fetch).peer == "a"
    assert bench.hear(gives(C)) == []  # of the start that was left
    bench.hear(gives(A, w=(8, 8)))
    assert bench.w == [8, 8]
    refuses(bench, by_digest("c"), RoundLost)


def test_a_start_without_model_and_digest_is_refused() -> None:
    refuses(Bench(), replace(asked("a"), params=None), ParamsRefused)


def test_starts_updates_and_claims_name_their_digest() -> None:
    bench = Bench(peers=["a"])
    bench.hear(RoundTriggered())
    assert bench.said(StartTraining).digest == params(w=[0, 0]).digest
    bench.train(w=(2, 4))
    assert bench.said(ModelParams).digest == params(w=[2, 4]).digest
    assert bench.state.holds(params(w=[2, 4]).digest) == params(w=[2, 4])
    bench.hear(came("a", 0, "b"))
    bench.average()
    bench.measure()
    assert bench.state.model is not None
    held = bench.state.model.shared
    assert bench.said(Accuracy).digest == held.digest
    assert bench.state.holds(held.digest) == held
    assert bench.state.holds(Digest("f" * 64)) is None
    assert bench.state.holds(params(w=[2, 4]).digest) is not None  # for those who fetch late


# --- updates


def test_an_offered_update_is_fetched_checked_and_averaged() -> None:
    bench = Bench(peers=["a"])
    bench.hear(asked("a"))
    bench.hear(offer("a"))
    assert bench.one(Fetch) == Fetch(key(), A, params(w=[1, 1]).digest, proven=False)
    bench.train()
    bench.hear(gives(A, w=(1, 1)))
    assert [u.peer for u in bench.one(Average).updates] == ["a", "b"]
    assert "update from a: 2 of 2" in [publish.text for publish in bench.all(Publish)]


def test_an_offered_update_that_does_not_fit_counts_as_not_coming() -> None:
    bench = Bench(peers=["a"])
    bench.hear(asked("a"))
    bench.hear(offer("a"))
    bench.train()
    bench.hear(replace(gives(A, w=(1, 1)), params=params(w=[NAN, 1])))
    assert [u.peer for u in bench.one(Average).updates] == ["b"]
    assert "fetch_failed" in [publish.kind for publish in bench.all(Publish)]


def test_an_offer_of_a_newer_round_opens_it_and_is_fetched_there() -> None:
    bench = Bench()
    bench.hear(offer("a", 3))
    assert bench.phase is Phase.GATHERING
    assert (bench.one(Fetch).key, bench.one(SetTimer).name) == (key(3), "start:3:a")


def test_an_offer_of_a_round_that_is_averaged_is_stale() -> None:
    bench = Bench().through_average(by=["a", "c"])
    assert bench.hear(offer("a", 0, "b")) == []  # it has spoken
    refuses(bench, offer("d", 0, "b"), StaleRound)


def folding(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr("flnet.jobs.state.HOLD_BYTES", 8)  # one update
    bench = Bench(peers=["a", "c"])
    bench.hear(asked("a"))
    bench.hear(came("a"))
    assert [u.peer for u in bench.one(Fold).updates] == ["a"]
    bench.train()
    assert bench.all(CancelWork) == []
    return bench


def test_what_was_folded_is_in_the_average_that_the_next_round_forces(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = folding(monkeypatch)
    bench.hear(by_digest("a", 1))
    average = bench.one(Average)
    assert (average.folded, [u.peer for u in average.updates]) == (("a",), ["b"])


def test_a_sum_is_dropped_with_the_round_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = folding(monkeypatch)
    bench.hear(by_digest("a", 5))
    assert (bench.one(CancelWork).key, bench.all(Average)) == (key(), [])


# --- rivals


def test_a_rival_that_comes_before_ours_is_fetched_for_the_next_start() -> None:
    bench = Bench(peers=["a"]).through_average(by=["a"], accuracy=0.8)
    split = replace(claim("a", 0, accuracy=0.1, w=(6, 6), contributors=9), params=None)
    bench.hear(ClaimReceived(split))
    assert bench.one(Fetch).digest == split.digest
    bench.hear(gives(A, 0, "b", w=(6, 6)))
    bench.hear(RoundTriggered())
    assert bench.one(Train).params == params(w=[6, 6])
    assert [e.params for e in bench.all(Send)] == [params(w=[6, 6])]


def test_a_rival_that_comes_after_ours_or_does_not_come_changes_nothing() -> None:
    bench = Bench(peers=["a"]).through_average(by=["a"])
    weaker = replace(claim("a", 0, accuracy=0.1, w=(6, 6), contributors=1), params=None)
    bench.hear(ClaimReceived(weaker))
    assert (bench.all(Fetch), bench.state.rival) == ([], None)
    bench = Bench(peers=["a"]).through_average(by=["a"])
    bench.hear(ClaimAnswered(replace(weaker, contributors=9)))
    bench.hear(fails(A, 0, "b", w=(6, 6)))
    assert bench.state.rival is None
