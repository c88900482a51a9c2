"""An open round until it is averaged: the own update, the peers' updates, and every refusal."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from flnet.effects import Average, Save, Send, SetTimer
from flnet.errors import ParamsRefused, RoundLost, StaleRound
from flnet.events import (
    PeerLost,
    PeerSeen,
    Prepared,
    RoundTriggered,
    TimerFired,
    Trained,
    TrainingFailed,
    UpdateReceived,
)
from flnet.jobs import Phase
from flnet.messages import ModelParams
from flnet.params import Params, PeerId, Update
from tests.helpers import frozen, key, params
from tests.jobs.helpers import Bench, asked, came, declaration, declined, refuses

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
    send, said = bench.one(Send), bench.said(ModelParams)
    assert (send.to, send.params) == (("a", "c"), params(w=[2, 4]))
    assert (said.examples, said.accuracy, said.round, said.initiator, said.declined) == (7, 0.25, 0, "b", None)
    assert bench.one(SetTimer) == SetTimer(FORCED, 30, 4)


def test_private_parameters_are_kept_and_never_sent() -> None:
    bench = Bench(peers=["a"], prepare=False)
    bench.hear(Prepared(declaration(shared=("w",)), params(w=[0, 0], head=[7])))
    bench.hear(RoundTriggered())
    assert bench.one(Send).params == params(w=[0, 0])
    bench.hear(Trained(key(0, "b"), params(w=[1, 1], head=[8]), 1, 0.5))
    assert bench.one(Send).params == params(w=[1, 1])
    assert bench.one(Save).private == params(head=[8])
    assert bench.state.model is not None
    assert bench.state.model.full == params(w=[0, 0], head=[8])  # the shared part waits for the average


@pytest.mark.parametrize("spoiled", [params(w=[NAN, 1]), params(w=[1]), params(v=[1, 1])])
def test_an_own_update_that_peers_would_refuse_is_never_sent(spoiled: Params) -> None:
    bench = training()
    bench.hear(Trained(key(0, "b"), spoiled, 1, 0.5))
    said = bench.said(ModelParams)
    assert said.declined is not None
    assert "unusable parameters" in said.declined
    assert (bench.one(Send).params, bench.phase) == (None, Phase.GATHERING)


def test_a_training_that_failed_is_told_and_the_node_averages_what_the_others_learnt() -> None:
    bench = training()
    bench.hear(TrainingFailed(key(0, "b"), "out of memory"))
    assert bench.said(ModelParams).declined == "training failed: out of memory"
    assert bench.job.view()["error"] == "training failed in round 0: out of memory"
    bench.hear(came("a", 0, "b"))
    bench.hear(came("c", 0, "b"))
    assert contributors(bench) == ["a", "c"]


def test_the_reason_is_cut_to_what_a_message_may_hold() -> None:
    bench = training()
    bench.hear(TrainingFailed(key(0, "b"), "x" * 10_000))
    assert len(bench.said(ModelParams).declined or "") == 500


def test_a_training_that_failed_alone_closes_the_round_and_keeps_the_model() -> None:
    bench = training(peers=[])
    bench.hear(TrainingFailed(key(0, "b"), "out of memory"))
    (record,) = bench.job.history()
    assert (bench.phase, bench.w) == (Phase.IDLE, [0, 0])
    assert record["outcome"] == (
        "no update came (not taking part: b: training failed: out of memory); the model stays as it was"
    )
    assert record["error"] == "training failed in round 0: out of memory"


def test_the_next_round_forgets_the_error_of_the_last() -> None:
    bench = training(peers=[])
    bench.hear(TrainingFailed(key(0, "b"), "out of memory"))
    bench.hear(RoundTriggered())
    assert bench.job.view()["error"] is None


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
    (record,) = bench.job.history()
    assert record["outcome"] == "averaging was forced by the timer with 2 updates, without a"
    assert (record["contributors"], record["missing"]) == (["b", "c"], ["a"])


def test_a_peer_that_is_lost_is_not_waited_for() -> None:
    bench = waiting()
    bench.hear(came("c", 0, "b"))
    bench.hear(PeerLost(PeerId("a"), "silent"))
    assert contributors(bench) == ["b", "c"]


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
    assert "not taking part: a: on battery" in str(bench.state.record and bench.state.record.outcome)


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
    assert bench.job.view()["waiting_for"] == ["a", "c"]
    bench.hear(came("a", 0, "b"))  # a good one still counts
    assert bench.job.view()["waiting_for"] == ["c"]


def test_of_two_updates_of_one_peer_the_first_counts() -> None:
    bench = waiting()
    bench.hear(came("a", 0, "b", w=[1, 1]))
    assert bench.hear(came("a", 0, "b", w=[9, 9])) == []
    bench.hear(came("c", 0, "b"))
    assert bench.one(Average).updates[0].params == params(w=[1, 1])


def test_an_update_of_an_old_round_is_told_the_current_one() -> None:
    bench = Bench().through_round(0).through_round(1)
    refusal = refuses(bench, came("a", 0, "b"), StaleRound)
    assert (refusal.status, dict(refusal.details())) == (409, {"round": 1})


def test_an_update_for_a_round_that_is_averaged_already_is_told_so() -> None:
    bench = waiting()
    bench.hear(came("c", 0, "b"))
    bench.hear(TimerFired(FORCED))
    assert dict(refuses(bench, came("a", 0, "b"), StaleRound).details()) == {"round": 0}
    bench.average()
    refuses(bench, came("a", 0, "b"), StaleRound)
    assert bench.hear(came("c", 0, "b")) == []  # the duplicate of one that counted is no mistake


def test_an_update_for_a_round_that_another_initiator_keeps_is_refused_by_name() -> None:
    assert "'b' comes first" in str(refuses(waiting(), came("c", 0, "c"), RoundLost))


def test_an_update_for_the_round_that_comes_first_moves_the_node_there() -> None:
    bench = waiting()
    bench.hear(came("a", 0, "a"))
    assert (bench.phase, bench.state.key) == (Phase.GATHERING, key(0, "a"))


def test_an_update_for_the_round_that_comes_first_is_too_late_after_the_average() -> None:
    bench = Bench(peers=["c"]).through_average(by=["c"])
    refuses(bench, came("a", 0, "a"), StaleRound)


def test_an_update_of_a_newer_round_means_that_the_mesh_is_ahead() -> None:
    bench = waiting()
    bench.hear(came("c", 5, "a"))
    assert (bench.phase, bench.state.key, bench.job.view()["received"]) == (Phase.GATHERING, key(5), ["c"])
    assert bench.job.history()[0]["outcome"] == "cut short: a started round 5"


def test_a_caller_of_the_thesis_form_means_the_open_round_or_else_its_own() -> None:
    bench = waiting(peers=["a"])
    bench.hear(came("a", 0, initiator=""))
    assert contributors(bench) == ["a", "b"]
    bench = waiting()
    bench.hear(came("c", 3, initiator=""))
    assert bench.state.key == key(3, "c")
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
    before = frozen(bench.state)
    assert bench.hear(declined("a", 0)) == []
    assert frozen(bench.state) == before
