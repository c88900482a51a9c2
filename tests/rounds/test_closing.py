"""After the updates are in: the average, its measure, the exchange, and the end of the round."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import pytest

from flnet.errors import NotComparable, ParamsRefused
from flnet.params.params import PeerId
from flnet.protocol.effects import Answer, Average, CancelTimer, Evaluate, Publish, Save, Send, SetTimer
from flnet.protocol.events import (
    Averaged,
    AveragingFailed,
    ClaimAnswered,
    ClaimReceived,
    Evaluated,
    EvaluationFailed,
    PeerLost,
    RoundTriggered,
    SendFailed,
    SendRefused,
    TimerFired,
)
from flnet.protocol.messages import Accuracy, AccuracyReply
from flnet.rounds.steps import Phase
from tests.helpers import key, params
from tests.rounds.helpers import Bench, asked, came, claim, refuses

NAN = float("nan")


def averaging(*names: str) -> Bench:
    """All updates are in: own (2, 4), theirs (1, 1)."""
    bench = Bench(peers=names)
    bench.hear(RoundTriggered())
    bench.train()
    for name in names:
        bench.hear(came(name, 0, "b"))
    return bench


# --- the average


def test_the_average_is_held_saved_and_measured() -> None:
    bench = averaging("a")
    bench.average()
    assert (bench.phase, bench.w) == (Phase.MEASURING, [1.5, 2.5])  # one example each
    assert (bench.one(Save).params, bench.one(Evaluate).shared) == (params(w=[1.5, 2.5]),) * 2
    assert bench.one(Save).snapshot["model_round"] == 0


def test_an_average_that_failed_leaves_the_model_as_it_was_and_there_is_nothing_to_compare() -> None:
    bench = averaging("a")
    bench.hear(AveragingFailed(key(0, "b"), "overflow"))
    (record,) = bench.job.records()
    assert (bench.phase, bench.w, record["digest"]) == (Phase.IDLE, [0, 0], None)
    assert record["outcome"] == "averaging failed: overflow; the model stays as it was"
    refuses(bench, ClaimReceived(claim("a")), NotComparable)


def test_an_average_that_failed_does_not_hide_that_the_mesh_is_ahead() -> None:
    bench = averaging("a")
    bench.hear(came("a", 1, "a"))
    bench.hear(AveragingFailed(key(0, "b"), "overflow"))
    assert (bench.phase, bench.job.key) == (Phase.GATHERING, key(1))


def test_the_updates_leave_the_memory_once_they_are_averaged() -> None:
    bench = averaging("a")
    held = weakref.ref(bench.round.gathering.updates[PeerId("a")].params)
    assert held() is not None
    bench.average()
    bench.effects.clear()
    gc.collect()
    assert held() is None
    assert bench.job.view().received == ["a", "b"]


def test_when_the_next_round_waits_the_average_is_not_measured() -> None:
    bench = averaging("a")
    average = bench.one(Average)
    bench.hear(asked("a", 1))
    bench.effects = [average]
    bench.average()
    assert bench.all(Evaluate) == []
    assert bench.job.held.accuracy is None


# --- its measure


def test_the_accuracy_opens_the_exchange() -> None:
    bench = averaging("a")
    bench.average()
    bench.measure(0.75)
    message = bench.said(Accuracy)
    assert (bench.phase, message.accuracy, message.contributors) == (Phase.EXCHANGING, 0.75, 2)
    assert (bench.one(Send).to, bench.one(Send).params) == (("a",), params(w=[1.5, 2.5]))
    assert message.digest == params(w=[1.5, 2.5]).digest
    assert bench.one(SetTimer) == SetTimer("exchange:0:b", 35)


def test_a_measure_that_failed_closes_the_round_with_the_average() -> None:
    bench = averaging("a")
    bench.average()
    bench.hear(EvaluationFailed(key(0, "b"), params(w=[1.5, 2.5]).digest, "killed"))
    (record,) = bench.job.records()
    assert (bench.phase, bench.w, record["post_fedavg_accuracy"]) == (Phase.IDLE, [1.5, 2.5], None)
    assert record["error"] == bench.job.view().error == "the average could not be measured: killed"


def test_the_measure_of_another_model_means_nothing() -> None:
    bench = averaging("a")
    bench.average()
    assert bench.hear(Evaluated(key(0, "b"), params(w=[9, 9]).digest, 0.9)) == []
    assert bench.hear(Evaluated(key(3, "b"), params(w=[1.5, 2.5]).digest, 0.9)) == []
    assert bench.phase is Phase.MEASURING


def test_a_node_alone_has_nobody_to_compare_with() -> None:
    bench = averaging()
    bench.average()
    bench.measure()
    assert (bench.phase, bench.all(Send)) == (Phase.IDLE, [])
    assert bench.job.records()[0]["outcome"].endswith("(this node averaged alone)")


# --- claims


@pytest.mark.parametrize("accuracy", [0.1, 0.99])
def test_a_claim_is_answered_with_our_average(accuracy: float) -> None:
    bench = Bench().through_average()
    bench.hear(ClaimReceived(claim("a", accuracy=accuracy)))
    answer = bench.one(Answer)
    assert isinstance(answer.message, AccuracyReply)
    assert (answer.message.accuracy, answer.message.contributors) == (0.8, 3)
    assert (answer.params, answer.message.digest) == (
        bench.job.held.current.shared,
        answer.params and answer.params.digest,
    )


def test_a_claim_after_the_round_is_closed_is_still_answered() -> None:
    bench = Bench().through_round()
    bench.hear(ClaimReceived(claim("a", accuracy=0.99)))
    assert (bench.one(Answer).params, bench.all(Evaluate), bench.phase) == (
        bench.job.held.current.shared,
        [],
        Phase.IDLE,
    )


def test_claims_are_refused_before_the_average_is_measured() -> None:
    bench = Bench(peers=["a"])
    states = []
    for step in (RoundTriggered(), bench.train, came("a", 0, "b"), bench.average):
        step() if callable(step) else bench.hear(step)
        refusal = refuses(bench, ClaimReceived(claim("a")), NotComparable)
        states.append((refusal.status, str(refusal).rpartition("(")[2].rstrip(")")))
    assert states == [(400, state) for state in ("training", "gathering", "averaging", "measuring")]


@pytest.mark.parametrize("number", [0, 2])
def test_claims_of_another_round_are_refused(number: int) -> None:
    bench = Bench().through_round(0).through_round(1)
    assert f"round {number} is compared, but this node is in round 1" in str(
        refuses(bench, ClaimReceived(claim("a", number)), NotComparable)
    )


@pytest.mark.parametrize("w", [[1.0], [NAN, 1.0]])
def test_a_claim_whose_model_does_not_fit_is_refused(w: list[float]) -> None:
    refuses(Bench().through_average(), ClaimReceived(claim("a", accuracy=0.99, w=w)), ParamsRefused)


def test_a_claim_without_a_model_or_its_digest_is_answered_and_not_waited_for_again() -> None:
    bench = Bench(peers=["a"]).through_average(by=["a"])
    bench.hear(ClaimReceived(replace(claim("a", accuracy=0.99), params=None, digest=None)))
    assert (bench.phase, len(bench.all(Answer))) == (Phase.IDLE, 1)


def test_only_a_caller_that_sent_its_model_is_answered_with_ours() -> None:
    bench = Bench().through_average()
    bench.hear(ClaimReceived(claim("a", accuracy=0.1)))
    assert bench.one(Answer).params == bench.job.held.current.shared
    bench.hear(ClaimReceived(replace(claim("c", accuracy=0.1), params=None)))
    assert bench.one(Answer).params is None


# --- adopting


def test_a_better_model_is_measured_here_adopted_and_saved() -> None:
    bench = Bench(peers=["a"]).through_average(by=["a"], accuracy=0.8)
    bench.hear(ClaimReceived(claim("a", accuracy=0.95, w=[7, 7], contributors=5)))
    assert bench.phase is Phase.EXCHANGING
    bench.measure(0.9)
    assert (bench.phase, bench.w) == (Phase.IDLE, [7, 7])
    assert [save.params for save in bench.all(Save)].count(params(w=[7, 7])) == 1
    (record,), view = bench.job.records(), bench.job.view().as_json()
    assert (record["exchanged_with"], record["post_fedavg_accuracy"]) == ("a", 0.8)
    # Of two nodes.
    assert (view["model_was_exchanged"], view["exchanged_with"], view["contributors"]) == ("Yes", "a", 2)
    assert record["digest"] != view["digest"]  # the record keeps that of the average
    bench.hear(ClaimReceived(claim("a", accuracy=0.1)))
    answer = bench.one(Answer)
    assert isinstance(answer.message, AccuracyReply)
    assert (answer.params, answer.message.accuracy) == (params(w=[7, 7]), 0.9)


def test_what_comes_after_a_model_was_adopted_does_not_adopt_it_again() -> None:
    bench = Bench().through_average(accuracy=0.8)
    bench.hear(ClaimReceived(claim("a", accuracy=0.95, w=[7, 7])))
    bench.measure(0.9)
    bench.hear(ClaimReceived(claim("c", accuracy=0.1)))
    assert [save.params for save in bench.all(Save)] == [None]
    assert "exchanged" not in bench.published


def test_a_claim_that_does_not_hold_here_is_not_adopted() -> None:
    bench = Bench(peers=["a"]).through_average(by=["a"], accuracy=0.8)
    own = bench.w
    bench.hear(ClaimReceived(claim("a", accuracy=0.95, w=[7, 7])))
    bench.measure(0.81)
    assert (bench.phase, bench.w, bench.job.view().model_was_exchanged) == (Phase.IDLE, own, "No")


def test_an_answer_with_a_better_model_is_measured_too() -> None:
    bench = Bench(peers=["a"]).through_average(by=["a"], accuracy=0.8)
    bench.hear(ClaimAnswered(claim("a", accuracy=0.95, w=[7, 7])))
    bench.measure(0.9)
    assert bench.w == [7, 7]


def test_an_answer_that_does_not_fit_is_left_out_and_shown() -> None:
    bench = Bench(peers=["a"]).through_average(by=["a"], accuracy=0.8)
    bench.hear(ClaimAnswered(claim("a", accuracy=0.95, w=[NAN, 7])))
    assert (bench.phase, bench.all(Evaluate)) == (Phase.IDLE, [])
    assert bench.all(Publish)[0].kind in {"refused", "round_closed"}
    assert "was not considered" in bench.published["refused"]


@pytest.mark.parametrize(
    "silence",
    [
        TimerFired("exchange:0:b"),
        PeerLost(PeerId("a"), "gone"),
        SendFailed(PeerId("a"), Accuracy.path, key(0, "b"), "lost"),
        SendRefused(PeerId("a"), Accuracy.path, key(0, "b"), 404, "no_data", ""),
    ],
)
def test_nobody_waits_for_ever_for_claims(silence: TimerFired) -> None:
    bench = Bench(peers=["a"]).through_average(by=["a"])
    for of_another_round in (
        ClaimAnswered(claim("a", 5, accuracy=0.99)),
        SendFailed(PeerId("a"), Accuracy.path, key(3, "b"), "lost"),
        SendRefused(PeerId("a"), Accuracy.path, key(3, "b"), 404, "no_data", ""),
    ):
        assert bench.hear(of_another_round) == []
    bench.hear(silence)
    assert bench.phase is Phase.IDLE
    assert CancelTimer("exchange:0:b") in bench.effects
    assert bench.hear(ClaimAnswered(claim("a", accuracy=0.99))) == []


# --- What a job averaged from another base than most of its peers: nobody takes it, and it gives way to theirs.


@pytest.mark.parametrize(("accuracy", "held"), [(0.8, [1, 1]), (0.7999, [3, 3])])
def test_who_averaged_from_another_base_takes_what_the_others_average_if_it_is_no_worse_here(
    accuracy: float, held: list[float]
) -> None:
    bench = averaging("a", "c")
    bench.hear(Averaged(key(0, "b"), params(w=[3, 3]), is_common=False))
    bench.measure(0.8)
    assert bench.said(Accuracy).contributors == 0
    bench.hear(ClaimReceived(claim("a", accuracy=0.5, w=(1, 1), contributors=3)))
    bench.measure(accuracy)
    assert bench.w == held
    if held == [3, 3]:
        return
    assert (bench.job.held.accuracy, bench.job.held.current.contributors) == (0.8, 3)
    assert (
        bench.published["exchanged"]
        == "adopted the model of a: most nodes began this round with another model than this one"
    )


def test_an_average_from_another_base_is_taken_by_nobody_however_good_it_is() -> None:
    bench = averaging("a", "c")
    bench.average()
    bench.measure(0.2)
    held = bench.w
    bench.hear(ClaimReceived(claim("a", accuracy=0.9, contributors=0)))
    assert bench.all(Evaluate) == []
    assert bench.w == held
