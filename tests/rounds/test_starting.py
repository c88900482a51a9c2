"""How rounds open: asked for here, by a peer, or known only from an update; and which of two counts."""

from __future__ import annotations

from typing import Any

import pytest

from flnet.errors import JobBusy, ParamsRefused, RoundLost, StaleRound
from flnet.protocol.effects import Answer, Average, CancelTimer, CancelWork, Save, Send, Train
from flnet.protocol.events import (
    ClaimReceived,
    HyperParamsEdited,
    Paused,
    RoundTriggered,
    Trained,
    TrainingFailed,
    Turn,
)
from flnet.protocol.messages import HyperParams, ModelParams, StartTraining, Triggered
from flnet.rounds.steps import Phase
from tests.helpers import HYPER, key, params
from tests.rounds.helpers import Bench, asked, came, claim, declined, prepared, refuses

# --- asked for here


def test_a_trigger_opens_the_next_round_and_tells_everyone() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    assert bench.one(Answer).message == Triggered(trainer_id="T", round=0)
    send, train = bench.one(Send), bench.one(Train)
    assert (send.to, train.key) == (("a", "c"), key(0, "b"))
    start = bench.said(StartTraining)
    assert (start.round, start.initiator, start.base_round, start.contributors) == (0, "b", -1, 0)
    assert send.params == train.params == params(w=[0, 0])


def test_a_trigger_may_bring_the_hyper_parameters_of_the_round() -> None:
    bench = Bench()
    mine = HyperParams(e=9, u=0.1, b=1)
    bench.hear(RoundTriggered(hyper=mine))
    assert (bench.one(Train).hyper, bench.said(StartTraining).federated_learning_params) == (mine, mine)


def test_the_start_says_how_old_the_model_is_and_how_many_made_it() -> None:
    bench = Bench().through_round()
    bench.hear(RoundTriggered())
    start = bench.said(StartTraining)
    assert (start.round, start.base_round, start.contributors) == (1, 0, 3)


def test_a_trigger_while_training_averaging_or_measuring_is_refused_with_the_reason() -> None:
    bench = Bench(peers=[])
    bench.hear(RoundTriggered())
    assert "round 0 is still training here" in str(refuses(bench, RoundTriggered(), JobBusy))
    bench.train()
    assert "still averaging" in str(refuses(bench, RoundTriggered(), JobBusy))
    bench.average()
    assert "still measuring" in str(refuses(bench, RoundTriggered(), JobBusy))


def test_a_trigger_while_others_are_awaited_forces_the_average_then_opens_the_next_round() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.train(w=(2, 4))
    bench.hear(RoundTriggered())
    assert bench.one(Answer).message == Triggered(trainer_id="T", round=1)
    assert [u.peer for u in bench.one(Average).updates] == ["b"]
    bench.average()
    assert (bench.phase, bench.job.number, bench.w) == (Phase.TRAINING, 1, [2, 4])
    assert "the next round began before the updates of a, c arrived" in bench.job.records()[0]["outcome"]


def test_a_trigger_during_the_exchange_ends_it() -> None:
    bench = Bench().through_average()
    bench.hear(RoundTriggered())
    assert (bench.phase, bench.job.number) == (Phase.TRAINING, 1)
    assert CancelTimer("exchange:0:b") in bench.effects


# --- asked for by a peer


THEIRS = [7, 8]


@pytest.mark.parametrize(
    ("rounds", "number", "more", "is_taken"),
    [
        (0, 0, {}, True),
        (0, 5, {}, True),  # nobody has averaged
        (0, 5, {"w": [-7, -8]}, True),  # whichever digest is lower
        (1, 2, {"base_round": 1, "contributors": 1}, False),  # it measures worse here
        (1, 1, {"base_round": -1}, False),
        (1, 1, {"base_round": 0, "contributors": 4}, False),
        (1, 1, {"base_round": 10**9, "contributors": 1}, False),
    ],
)
def test_which_model_a_round_of_a_peer_starts_from(
    rounds: int, number: int, more: dict[str, Any], is_taken: bool
) -> None:
    bench = Bench().through_round() if rounds else Bench()
    own, theirs = bench.w, more.get("w", THEIRS)
    bench.hear(asked("a", number, **{"w": THEIRS, **more}))
    assert bench.one(Train).params == params(w=theirs if is_taken else own)
    assert bench.all(Send) == []  # only the initiator tells of the start


def test_the_initiators_hyper_parameters_are_those_of_the_round() -> None:
    bench = Bench()
    bench.hear(HyperParamsEdited({"e": 77}))
    bench.hear(asked("a", hyper=HyperParams(e=3, u=0.5, b=2)))
    assert bench.one(Train).hyper == HyperParams(e=3, u=0.5, b=2)


def test_the_same_start_twice_starts_once() -> None:
    bench = Bench()
    bench.hear(asked("a"))
    assert bench.hear(asked("a")) == []
    bench.train()
    assert bench.hear(asked("a")) == []


@pytest.mark.parametrize("w", [[1.0], [float("nan"), 1.0]])
def test_a_start_whose_parameters_do_not_fit_is_refused(w: list[float]) -> None:
    refuses(Bench(), asked("a", w=w), ParamsRefused)


def test_a_start_of_an_old_round_is_told_the_current_one() -> None:
    bench = Bench().through_round(0).through_round(1)
    refusal = refuses(bench, asked("a", 0), StaleRound)
    assert (refusal.status, dict(refusal.details())) == (409, {"round": 1})


def test_the_next_rounds_start_forces_the_average_even_while_training() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.hear(came("c", 0, "b", w=[6, 6]))
    bench.hear(asked("a", 1))
    assert (bench.phase, [u.peer for u in bench.one(Average).updates]) == (Phase.AVERAGING, ["c"])
    assert bench.one(CancelWork).key == key(0, "b")
    bench.average()
    assert (bench.phase, bench.job.key) == (Phase.TRAINING, key(1, "a"))
    assert bench.job.records()[0]["contributors"] == ["c"]


def test_the_next_rounds_start_finds_nothing_to_average_and_opens_at_once() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.hear(asked("a", 1))
    assert (bench.phase, bench.job.key, bench.one(CancelWork).key) == (Phase.TRAINING, key(1, "a"), key(0, "b"))
    assert bench.hear(Trained(key(0, "b"), params(w=[1, 1]), 1, 0.5)) == []  # of the round that was left
    assert bench.phase is Phase.TRAINING


def test_a_start_far_ahead_is_joined_without_an_average_in_between_and_no_timer_stays() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.train()
    bench.hear(asked("a", 7))
    assert (bench.phase, bench.job.number, bench.all(Average)) == (Phase.TRAINING, 7, [])
    assert CancelTimer("forced-averaging:0:b") in bench.effects
    bench = Bench(peers=["a"])
    bench.hear(came("a"))  # its start is awaited
    bench.hear(asked("a", 7))
    assert CancelTimer("start:0:a") in bench.effects


def test_a_start_while_averaging_waits_for_the_average() -> None:
    bench = Bench(peers=["a"])
    bench.hear(RoundTriggered())
    bench.train()
    bench.hear(came("a", 0, "b"))
    average = bench.one(Average)
    bench.hear(asked("a", 1))
    assert bench.phase is Phase.AVERAGING
    bench.effects = [average]
    bench.average()
    assert (bench.phase, bench.job.key) == (Phase.TRAINING, key(1, "a"))
    assert bench.job.records()[0]["digest"] is not None


# --- two initiators at once


def test_of_two_starts_of_one_round_the_lower_id_wins() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.hear(asked("a", w=[7, 8]))
    assert (bench.job.key, bench.one(CancelWork).key, bench.one(Train).key) == (key(0, "a"), key(0, "b"), key(0))
    assert bench.one(Train).params == params(w=[7, 8])


def test_the_start_that_comes_second_is_refused_by_name() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    refusal = refuses(bench, asked("c"), RoundLost)
    assert (refusal.status, "'b' comes first and keeps it" in str(refusal)) == (409, True)


def test_a_start_that_counts_comes_too_late_once_the_round_is_averaged() -> None:
    bench = Bench(peers=["c"]).through_average(by=["c"])
    assert dict(refuses(bench, asked("a"), StaleRound).details()) == {"round": 0}
    bench.hear(ClaimReceived(claim("c", accuracy=0.1)))
    for name in "ac":
        refuses(bench, asked(name), StaleRound)


def test_opening_a_round_is_saved() -> None:
    bench = Bench()
    bench.hear(asked("a"))
    assert (bench.one(Save).snapshot["round"], bench.one(Save).snapshot["initiator"]) == (0, "a")
    assert bench.one(Save).snapshot["hyper"] == HYPER.fields()


# Nodes that label differently take turns, and a trainer with nothing to add sits a round out.


DESIRED, OTHER = Turn("two-phase", is_desired=True), Turn("two-phase", is_desired=False)


@pytest.mark.parametrize(
    ("turn", "number", "trains"),
    [
        (None, 0, True),
        (DESIRED, 0, True),
        (DESIRED, 1, False),
        (OTHER, 0, False),
        (OTHER, 1, True),
        (Turn("parallel", is_desired=True), 1, True),
        (Turn("parallel", is_desired=False), 0, True),
        (Turn("coarse-first", is_desired=False, turning=2), 1, True),
        (Turn("coarse-first", is_desired=False, turning=1), 1, False),
        (Turn("coarse-first", is_desired=True, turning=2), 1, False),
        (Turn("coarse-first", is_desired=True, turning=1), 1, True),
    ],
)
def test_who_trains_when(turn: Turn | None, number: int, trains: bool) -> None:
    bench = Bench(peers=["a"], prepare=False)
    bench.hear(prepared(turn=turn))
    bench.hear(asked("a", number))
    assert [type(train) for train in bench.all(Train)] == [Train] * trains


def test_who_is_not_at_turn_says_so_and_averages_what_the_others_learn() -> None:
    bench = Bench(peers=["a"], turn=OTHER)
    bench.hear(asked("a"))
    words = "this round is for nodes with labels of the desired space; it trains in the next one"
    assert bench.said(ModelParams).declined == words
    bench.hear(came("a", w=(4, 6)))
    bench.average()
    assert (bench.phase, bench.w) == (Phase.MEASURING, [4, 6])


def test_a_round_in_which_nobody_is_at_turn_leaves_the_model_as_it_was() -> None:
    bench = Bench(peers=["a"], turn=OTHER)
    before = bench.w
    bench.hear(RoundTriggered())
    bench.hear(declined("a", 0, "b"))
    assert (bench.phase, bench.w) == (Phase.IDLE, before)
    assert "no update came" in str(bench.job.records()[0]["outcome"])


def test_a_pause_is_told_before_a_turn() -> None:
    bench = Bench(peers=["a"], turn=OTHER)
    bench.hear(Paused())
    bench.hear(asked("a"))
    assert bench.said(ModelParams).declined == "paused by a person here"


def test_a_trainer_with_nothing_to_add_sits_out_without_an_error() -> None:
    bench = Bench(peers=["a"])
    bench.hear(asked("a"))
    bench.hear(TrainingFailed(key(0, "a"), "the correspondence is not known well enough", is_choice=True))
    assert bench.said(ModelParams).declined == "the correspondence is not known well enough"
    assert (bench.phase, bench.job.error) == (Phase.GATHERING, None)
    assert "sits_out" in bench.published
    bench.hear(came("a", w=(4, 6)))
    bench.average()
    assert bench.w == [4, 6]
