"""An open round until it is averaged: the own update, the peers' updates, and every refusal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from flnet.errors import ParamsRefused, RoundLost, StaleRound
from flnet.params.params import Digest, Params, PeerId
from flnet.protocol.effects import Average, CancelWork, Fetch, Fold, Publish, Save, Send, SetTimer, Train
from flnet.protocol.events import (
    Averaged,
    Fetched,
    FetchFailed,
    PartReceived,
    PeerLost,
    PeerSeen,
    Prepared,
    RoundTriggered,
    SumSpoilt,
    TimerFired,
    Trained,
    TrainingAsked,
    TrainingFailed,
    UpdateOffered,
    UpdateReceived,
)
from flnet.protocol.messages import MAX_PEERS, Accuracy, ModelParams, StartTraining
from flnet.protocol.secure_sum import BeginPart
from flnet.protocol.updates import Update
from flnet.rounds.steps import Phase
from tests.helpers import frozen, key, params
from tests.rounds.helpers import Bench, asked, came, declaration, declined, refuses
from tests.rounds.test_closing import averaging

NAN = float("nan")
FORCED = "forced-averaging:0:b"


def training(peers: Sequence[str] = ("a", "c")) -> Bench:
    bench = Bench(peers=peers)
    bench.hear(RoundTriggered())
    return bench


def waiting(peers: Sequence[str] = ("a", "c")) -> Bench:
    bench = training(peers)
    bench.train()
    return bench


def contributors(bench: Bench) -> list[str]:
    return [update.peer for update in bench.one(Average).updates]


# --- the own update


def test_the_update_goes_to_every_peer_and_the_timer_starts() -> None:
    bench = training()
    bench.train(w=(2, 4), examples=7, accuracy=0.25)
    send, message = bench.one(Send), bench.said(ModelParams)
    assert (send.to, send.params) == (("a", "c"), params(w=[2, 4]))
    assert (message.examples, message.accuracy, message.round, message.initiator, message.declined) == (
        7,
        0.25,
        0,
        "b",
        None,
    )
    assert bench.one(SetTimer) == SetTimer(FORCED, 30, 4)


def test_private_parameters_are_kept_and_never_sent() -> None:
    bench = Bench(peers=["a"], prepare=False)
    bench.hear(Prepared(declaration(shared=("w",)), params(w=[0, 0], head=[7])))
    assert (bench.one(Save).params, bench.one(Save).private) == (params(w=[0, 0]), params(head=[7]))
    bench.hear(RoundTriggered())
    assert bench.one(Send).params == params(w=[0, 0])
    bench.hear(Trained(key(0, "b"), params(w=[1, 1], head=[8]), 1, 0.5))
    assert bench.one(Send).params == params(w=[1, 1])
    assert bench.one(Save).private == params(head=[8])
    assert bench.job.held.current.full == params(w=[0, 0], head=[8])  # the shared part waits for the average


@pytest.mark.parametrize("spoiled", [params(w=[NAN, 1]), params(w=[1]), params(v=[1, 1])])
def test_an_own_update_that_peers_would_refuse_is_never_sent(spoiled: Params) -> None:
    bench = training()
    bench.hear(Trained(key(0, "b"), spoiled, 1, 0.5))
    message = bench.said(ModelParams)
    assert message.declined is not None
    assert "unusable parameters" in message.declined
    assert (bench.one(Send).params, bench.phase) == (None, Phase.GATHERING)


def test_a_training_that_failed_is_told_and_the_node_averages_what_the_others_learnt() -> None:
    bench = training()
    bench.hear(TrainingFailed(key(0, "b"), "out of memory" + "x" * 9999))
    words = bench.said(ModelParams).declined or ""
    assert (words[:30], len(words)) == ("training failed: out of memory", 500)  # which a message may hold
    assert (bench.job.view().error or "").startswith("training failed in round 0: out of memory")
    bench.hear(came("a", 0, "b"))
    bench.hear(came("c", 0, "b"))
    assert contributors(bench) == ["a", "c"]


def test_a_training_that_failed_alone_closes_the_round_and_keeps_the_model() -> None:
    bench = training(peers=[])
    bench.hear(TrainingFailed(key(0, "b"), "out of memory"))
    (record,) = bench.job.records()
    assert (bench.phase, bench.w) == (Phase.IDLE, [0, 0])
    assert record["outcome"] == (
        "no update came (not taking part: b: training failed: out of memory); the model stays as it was"
    )
    assert record["error"] == "training failed in round 0: out of memory"
    bench.hear(RoundTriggered())
    assert bench.job.view().error is None  # it was of the round before


@pytest.mark.parametrize("end", [Trained(key(9), params(w=[1, 1]), 1, 0.5), TrainingFailed(key(9), "late")])
def test_the_end_of_another_training_means_nothing(end: Trained | TrainingFailed) -> None:
    bench = training()
    assert bench.hear(end) == []
    assert bench.phase is Phase.TRAINING


# --- the peers' updates


def test_updates_that_come_while_training_are_kept() -> None:
    bench = training()
    bench.hear(came("c", 0, "b"))
    bench.hear(came("a", 0, "b"))
    assert bench.phase is Phase.TRAINING
    bench.train()
    assert contributors(bench) == ["a", "b", "c"]


def test_the_timer_forces_the_average_without_the_missing() -> None:
    bench = waiting()
    bench.hear(came("c", 0, "b"))
    bench.hear(TimerFired(FORCED))
    assert contributors(bench) == ["b", "c"]
    bench.average()
    bench.measure()
    bench.hear(TimerFired("exchange:0:b"))
    (record,) = bench.job.records()
    assert record["outcome"] == "timed out waiting for 1 of 3 nodes (a); averaged 2 updates"
    assert (record["contributors"], record["missing"]) == (["b", "c"], ["a"])


def test_a_lost_peer_is_told_nothing_until_it_is_back() -> None:
    bench = Bench()
    bench.hear(PeerLost(PeerId("a"), "silent"))
    bench.hear(RoundTriggered())
    assert bench.one(Send).to == ("c",)
    bench.hear(PeerSeen(PeerId("a")))
    bench.train()
    assert bench.one(Send).to == ("a", "c")


def test_a_peer_that_comes_during_the_round_is_not_waited_for_and_takes_part_in_the_next() -> None:
    bench = waiting(peers=["a"])
    bench.hear(PeerSeen(PeerId("d")))
    bench.hear(came("a", 0, "b"))
    assert contributors(bench) == ["a", "b"]
    bench.average()
    bench.measure()
    bench.hear(RoundTriggered())
    assert bench.one(Send).to == ("a", "d")


def test_a_peer_that_declines_is_not_waited_for_and_the_reason_is_kept() -> None:
    bench = waiting(peers=["a"])
    bench.hear(declined("a", 0, "b", reason="on battery"))
    assert contributors(bench) == ["b"]
    bench.average()
    bench.measure()
    assert "not taking part: a: on battery" in str(bench.round.record.outcome)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (came("a", 0, "b", w=[1, 2, 3]), r"'w' has shape \[3\]; expected \[2\]"),
        (came("a", 0, "b", w=[NAN, 1]), "not finite"),
        (UpdateReceived(Update(PeerId("a"), key(0, "b"), params(v=[1, 1]), 1)), "wrong parameter names"),
        (UpdateReceived(Update(PeerId("a"), key(0, "b"), params("bool", w=[1, 1]), 1)), "dtype"),
    ],
)
def test_an_update_that_does_not_fit_is_refused_and_not_counted(event: UpdateReceived, words: str) -> None:
    bench = waiting()
    with pytest.raises(ParamsRefused, match=words):
        bench.hear(event)
    assert refuses(bench, event, ParamsRefused).status == 422
    assert bench.job.view().waiting_for == ["a", "c"]
    bench.hear(came("a", 0, "b"))  # a good one still counts
    assert bench.job.view().waiting_for == ["c"]


def test_of_two_updates_of_one_peer_the_first_counts() -> None:
    bench = waiting()
    bench.hear(came("a", 0, "b", w=[1, 1]))
    assert bench.hear(came("a", 0, "b", w=[9, 9])) == []
    bench.hear(came("c", 0, "b"))
    assert bench.one(Average).updates[0].params == params(w=[1, 1])


def test_an_update_for_a_round_that_is_averaged_or_over_is_told_the_current_one() -> None:
    bench = waiting()
    bench.hear(came("c", 0, "b"))
    bench.hear(TimerFired(FORCED))
    assert dict(refuses(bench, came("a", 0, "b"), StaleRound).details()) == {"round": 0}
    bench.average()
    refuses(bench, came("a", 0, "b"), StaleRound)
    refuses(bench, came("a", 0, "a"), StaleRound)  # its initiator would come first
    assert bench.hear(came("c", 0, "b")) == []  # the duplicate of one that counted is no mistake
    bench = Bench().through_round(0).through_round(1)
    refusal = refuses(bench, came("a", 0, "b"), StaleRound)
    assert (refusal.status, dict(refusal.details())) == (409, {"round": 1})


def test_an_update_for_a_round_that_another_initiator_keeps_is_refused_by_name() -> None:
    assert "'b' comes first" in str(refuses(waiting(), came("c", 0, "c"), RoundLost))


def test_an_update_for_the_round_that_comes_first_moves_the_node_there() -> None:
    bench = waiting()
    bench.hear(came("a", 0, "a"))
    assert (bench.phase, bench.job.key) == (Phase.GATHERING, key(0, "a"))


def test_an_update_of_a_newer_round_means_that_the_mesh_is_ahead() -> None:
    bench = waiting()
    bench.hear(came("c", 5, "a"))
    assert bench.job.key == key(0, "b")  # one peer takes nobody out of an open round
    bench.hear(came("a", 5, "a"))
    assert (bench.phase, bench.job.key, bench.job.view().received) == (Phase.GATHERING, key(5), ["a", "c"])
    assert bench.job.records()[0]["outcome"] == "cut short: a started round 5"


def test_a_caller_of_the_thesis_form_means_the_open_round_or_else_its_own() -> None:
    bench = waiting(peers=["a"])
    bench.hear(came("a", 0, initiator=""))
    assert contributors(bench) == ["a", "b"]
    bench = waiting(peers=["c"])
    bench.hear(came("c", 3, initiator=""))
    assert bench.job.key == key(3, "c")
    bench = waiting(peers=["a"])
    bench.hear(declined("a", 0, initiator=""))
    assert bench.phase is Phase.AVERAGING


def test_a_refusal_of_a_newer_round_waits_for_that_round() -> None:
    bench = Bench()
    assert bench.hear(declined("c", 1)) == []
    bench.hear(asked("a", 1))
    bench.train()
    bench.hear(came("a", 1))
    assert contributors(bench) == ["a", "b"]


def test_a_refusal_of_an_old_round_means_nothing() -> None:
    bench = Bench().through_round(0).through_round(1)
    before = frozen(bench.job)
    assert bench.hear(declined("a", 0)) == []
    assert frozen(bench.job) == before


# --- What a job does with parameters that are named by digest: start, update, and what does not come.


A, C = PeerId("a"), PeerId("c")


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


def test_a_peer_that_offers_another_update_was_started_again_and_its_new_one_is_fetched() -> None:
    bench = Bench()
    bench.hear(asked("a"))
    bench.train()
    bench.hear(offer("c"))
    assert bench.one(Fetch).digest == params(w=[1, 1]).digest
    bench.hear(offer("c", w=(2, 2)))
    assert bench.one(Fetch).digest == params(w=[2, 2]).digest
    bench.hear(FetchFailed(key(), C, params(w=[1, 1]).digest, "it is not there any more"))
    bench.hear(offer("c", w=(2, 2)))
    assert bench.all(Fetch) == []  # it is under way
    bench.hear(came("a"))
    bench.hear(Fetched(key(), C, params(w=[2, 2]).digest, params(w=[2, 2])))
    assert bench.phase is Phase.AVERAGING


def test_words_of_far_rounds_under_invented_names_keep_no_word_of_a_peer_out() -> None:
    bench = Bench().through_average(0)
    for number in range(MAX_PEERS):
        name = PeerId(f"x{number}")
        bench.hear(PeerSeen(name, is_proven=False))
        bench.job.inbox.put_part(PartReceived(name, key(900, name), 0, BeginPart(group="f" * 64)))
        bench.hear(declined(name, 900, name))
        if number % 2:  # it never answered, and its place is needed
            bench.hear(PeerLost(name, ""))
    bench.hear(declined("y", 900, "y"))
    assert "y" not in bench.job.inbox.early  # who is not here takes no place of who is, or was before
    part = PartReceived(C, key(1, "a"), 0, BeginPart(group="e" * 64))
    bench.job.inbox.put_part(part)
    assert bench.job.inbox.take_parts(key(1, "a")) == [part]
    bench.hear(came("c", 1, "a"))  # it has trained in round 1 before the start of that reached this node
    assert bench.job.number == 1 and "c" in bench.round.gathering.updates


def test_a_start_whose_model_is_here_already_moves_nothing() -> None:
    bench = Bench().through_round()
    held = bench.job.held.current.shared.digest
    bench.hear(replace(by_digest("a", 1), digest=held, base_round=0, contributors=3))
    assert (bench.phase, bench.all(Fetch)) == (Phase.TRAINING, [])


def test_a_start_whose_model_is_not_here_is_fetched_before_training() -> None:
    bench = Bench()
    bench.hear(by_digest("a"))
    assert (bench.phase, bench.one(Fetch)) == (Phase.FETCHING, Fetch(key(), A, params(w=[9, 9]).digest))
    bench.hear(gives(A))
    assert (bench.phase, bench.one(Train).params) == (Phase.TRAINING, params(w=[9, 9]))


@pytest.mark.parametrize("end", [fails(A), replace(gives(A), params=params(w=[NAN, 1]))])
def test_without_its_start_a_node_takes_no_part_and_says_so(end: Fetched | FetchFailed) -> None:
    bench = Bench()
    bench.hear(by_digest("a"))
    bench.hear(end)
    declined = bench.said(ModelParams).declined
    assert declined is not None
    assert "could not be fetched from a" in declined
    assert (bench.phase, bench.job.error) == (Phase.GATHERING, declined)
    assert "fetch_failed" in bench.published


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
    assert bench.job.held.find(params(w=[2, 4]).digest) == params(w=[2, 4])
    bench.hear(came("a", 0, "b"))
    bench.average()
    bench.measure()
    held = bench.job.held.current.shared
    assert bench.said(Accuracy).digest == held.digest
    assert bench.job.held.find(held.digest) == held
    assert bench.job.held.find(Digest("f" * 64)) is None
    assert bench.job.held.find(params(w=[2, 4]).digest) is not None  # for those who fetch late


# --- updates


def test_an_offered_update_is_fetched_checked_and_averaged() -> None:
    bench = Bench(peers=["a"])
    bench.hear(asked("a"))
    bench.hear(offer("a"))
    assert bench.one(Fetch) == Fetch(key(), A, params(w=[1, 1]).digest, proven=False)
    bench.train()
    bench.hear(gives(A, w=(1, 1)))
    assert [u.peer for u in bench.one(Average).updates] == ["a", "b"]
    assert "update from a: 2 of 2" in bench.published.values()


def test_an_offered_update_that_does_not_fit_counts_as_not_coming() -> None:
    bench = Bench(peers=["a"])
    bench.hear(asked("a"))
    bench.hear(offer("a"))
    bench.train()
    bench.hear(replace(gives(A, w=(1, 1)), params=params(w=[NAN, 1])))
    assert [u.peer for u in bench.one(Average).updates] == ["b"]
    assert "fetch_failed" in bench.published


def test_an_offer_of_a_newer_round_opens_it_and_is_fetched_there() -> None:
    bench = Bench(peers=["a"])
    bench.hear(offer("a", 3))
    assert bench.phase is Phase.GATHERING
    assert bench.one(Fetch).key == key(3)
    assert [timer.name for timer in bench.all(SetTimer)] == ["start:3:a", "numbering:rested"]


def test_an_offer_of_a_round_that_is_averaged_is_stale() -> None:
    bench = Bench().through_average(by=["a", "c"])
    assert bench.hear(offer("a", 0, "b")) == []  # it has spoken
    refuses(bench, offer("d", 0, "b"), StaleRound)


def folding(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr("flnet.rounds.base_round.HOLD_BYTES", 8)  # one update
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


# --- Updates that came and do not count: the job names them and goes on.


A, C = PeerId("a"), PeerId("c")


def test_an_update_that_does_not_count_is_named_and_the_round_goes_on() -> None:
    bench = averaging("a", "c")
    bench.hear(Averaged(key(0, "b"), params(w=[3, 3]), 0.1, {PeerId("c"): "it moved 9"}))
    assert bench.phase is Phase.MEASURING
    record, model = bench.round.record, bench.job.held.model
    assert record is not None
    assert model is not None
    assert record.contributors == ("a", "b")
    assert record.outcome == "averaged 3 updates: all expected updates arrived; left out: c"
    assert model.contributors == 2
    told = next(publish for publish in bench.all(Publish) if publish.kind == "update_refused")
    assert (told.text, told.data["peer"]) == ("the update of c does not count: it moved 9", "c")


def test_an_average_from_another_base_counts_for_none() -> None:
    bench = averaging("a", "c")
    bench.hear(Averaged(key(0, "b"), params(w=[3, 3]), is_common=False))
    assert bench.job.held.current.contributors == 0


@pytest.fixture
def spoilt(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A round of b with a, c and d, whose sum holds the updates of a, b and c; that of c does not count."""
    monkeypatch.setattr("flnet.rounds.base_round.HOLD_BYTES", 8)  # one update
    bench = Bench(peers=["a", "c", "d"])
    bench.hear(asked("a"))
    for name in ("a", "c"):
        bench.hear(came(name))
    bench.train()
    bench.hear(came("d"))
    assert bench.one(Average).folded == ("a", "b", "c")
    bench.hear(SumSpoilt(key(), {C: "it moved 9"}))
    return bench


def test_a_sum_that_holds_what_does_not_count_is_made_again(spoilt: Bench) -> None:
    bench = spoilt
    assert (bench.phase, bench.one(Fetch).peer) == (Phase.AVERAGING, "a")
    told = bench.one(Publish)
    assert told.kind == "update_refused"
    assert told.text.startswith("the sum of this round holds what does not count, of c; ")
    bench.hear(Fetched(key(), A, bench.one(Fetch).digest, params(w=[1, 1])))
    assert [u.peer for fold in bench.all(Fold) for u in fold.updates] == ["a", "b"]
    assert (bench.one(Average).folded, [u.peer for u in bench.one(Average).updates]) == (("a", "b"), ["d"])
    bench.hear(Averaged(key(), params(w=[3, 3]), 0.1, {C: "it moved 9"}))
    record = bench.round.record
    assert record.contributors == ("a", "b", "d")
    assert record.outcome == "averaged 4 updates: all expected updates arrived; left out: c"


def test_who_does_not_give_its_update_again_is_named(spoilt: Bench) -> None:
    bench = spoilt
    bench.hear(FetchFailed(key(), A, bench.one(Fetch).digest, "gone"))
    assert bench.one(Publish).text == "the update of a could not be fetched: gone"
    bench.hear(Averaged(key(), params(w=[3, 3]), 0.1, {C: "it moved 9"}))
    record = bench.round.record
    assert record.contributors == ("b", "d")
    assert record.outcome.endswith("; not fetched again: a; left out: c")


def test_a_sum_of_another_round_is_nothing_to_this_one(spoilt: Bench) -> None:
    assert spoilt.hear(SumSpoilt(key(7), {A: "it moved 9"})) == []
