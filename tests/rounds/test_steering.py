"""A person ends a series, pauses a job and resumes it: what the job does then, and what peers hear."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flnet.errors import JobBusy
from flnet.params.params import PeerId
from flnet.protocol.effects import Answer, Average, CancelWork, Evaluate, Save, Send, Train
from flnet.protocol.events import (
    ClaimReceived,
    Event,
    Fetched,
    Paused,
    Prepared,
    PrepareFailed,
    Resumed,
    RoundTriggered,
    SendRefused,
    SeriesStopped,
    TimerFired,
)
from flnet.protocol.messages import ModelParams, StartTraining
from flnet.rounds.steps import Phase
from tests.helpers import key, params
from tests.rounds.helpers import Bench, asked, came, claim, declined, prepared, refuses
from tests.rounds.scenarios import Lasting
from tests.rounds.stage import Stage


def end_round(bench: Bench, number: int = 0) -> None:
    """From GATHERING to the end, with the updates of both peers."""
    for name in "ac":
        bench.hear(came(name, number, "b"))
    bench.average()
    bench.measure()
    for name in "ac":
        bench.hear(ClaimReceived(claim(name, number, accuracy=0.1)))


# --- the end of a series


def test_a_series_ends_after_the_round_that_is_open() -> None:
    bench = Bench()
    bench.hear(RoundTriggered(rounds=5))
    bench.hear(SeriesStopped())
    assert (bench.phase, bench.job.series.left) == (Phase.TRAINING, 0)
    assert bench.published == {"series_stopped": "the series is stopped: 4 rounds of it are left out"}
    bench.train()
    end_round(bench)
    assert (bench.phase, bench.job.number) == (Phase.IDLE, 0)
    assert bench.job.records()[0]["contributors"] == ["a", "b", "c"]


def test_where_there_is_nothing_to_stop_nothing_happens() -> None:
    bench = Bench()
    assert bench.hear(SeriesStopped()) == []
    bench.hear(RoundTriggered())
    assert bench.hear(SeriesStopped()) == []
    assert bench.phase is Phase.TRAINING
    loading = Bench(prepare=False)
    assert loading.hear(SeriesStopped()) == []
    loading.hear(PrepareFailed("no data"))
    assert loading.hear(SeriesStopped()) == []


def test_a_round_that_waits_for_the_average_in_progress_is_left_out_too() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.train()
    bench.hear(RoundTriggered(rounds=2))
    average = bench.one(Average)
    bench.hear(SeriesStopped())
    assert "2 rounds of it are left out" in bench.published["series_stopped"]
    bench.effects = [average]
    bench.average()
    assert (bench.phase, len(bench.all(Evaluate))) == (Phase.MEASURING, 1)


def test_a_peers_round_that_waits_for_the_average_opens_whatever_is_stopped_here() -> None:
    bench = Bench(peers=["a"])
    bench.hear(RoundTriggered())
    bench.train()
    bench.hear(came("a", 0, "b"))
    average = bench.one(Average)
    bench.hear(asked("a", 1))
    bench.hear(SeriesStopped())
    bench.effects = [average]
    bench.average()
    assert (bench.phase, bench.job.key) == (Phase.TRAINING, key(1))


# --- a pause


def paused() -> Bench:
    bench = Bench()
    bench.hear(Paused())
    return bench


def test_people_see_a_pause_and_its_end() -> None:
    bench = paused()
    assert (bench.job.view().paused, bench.one(Save).snapshot["paused"]) == (True, True)
    assert bench.published == {"paused": "T takes no part in rounds here until a person resumes it"}
    assert bench.hear(Paused()) == []
    bench.hear(Resumed())
    assert (bench.job.view().paused, bench.one(Save).snapshot["paused"]) == (False, False)
    assert bench.published == {"resumed": "T takes part in rounds again"}
    assert bench.hear(Resumed()) == []


def test_a_paused_job_starts_nothing_and_says_what_to_do() -> None:
    refusal = refuses(paused(), RoundTriggered(), JobBusy)
    assert (refusal.status, str(refusal)) == (409, "T is paused by a person here; resume it to start rounds")


def test_a_paused_job_sits_rounds_out_and_averages_what_it_receives() -> None:
    bench = paused()
    bench.hear(asked("a", w=[9, 9]))
    message = bench.said(ModelParams)
    assert (bench.phase, bench.all(Train)) == (Phase.GATHERING, [])
    assert (bench.one(Send).to, message.declined, message.examples) == (("a", "c"), "paused by a person here", 0)
    bench.hear(came("a", w=[2, 2]))
    bench.hear(came("c", w=[4, 4]))
    bench.average()
    bench.measure()
    assert bench.w == [3, 3]
    assert bench.phase is Phase.EXCHANGING
    record = bench.round.record
    assert "not taking part: b: paused by a person here" in record.outcome


@pytest.mark.parametrize(
    "events",
    [
        [Paused(), came("a")],
        [came("a"), Paused(), asked("a")],
        [Paused(), replace(asked("a"), params=None, digest=params(w=[9, 9]).digest)],  # it is not fetched
        [asked("a"), Paused(), prepared()],  # it came while loading
    ],
    ids=["told by an update", "after its update", "by digest", "while loading"],
)
def test_a_round_is_sat_out_however_it_became_known(events: list[Event]) -> None:
    bench = Bench(
        peers=["a"] if events[-1] == came("a") else ("a", "c"), prepare=not isinstance(events[-1], Prepared)
    )
    for event in events:
        bench.hear(event)
    after = Phase.AVERAGING if events[-1] == came("a") else Phase.GATHERING
    assert (bench.said(ModelParams).declined, bench.phase) == ("paused by a person here", after)
    assert (bench.all(Train), bench.round.starting_model.awaited) == ([], None)


def test_the_round_that_is_open_goes_on_and_a_series_waits_for_the_end_of_the_pause() -> None:
    bench = Bench()
    bench.hear(RoundTriggered(rounds=3))
    bench.train()
    bench.hear(Paused())
    end_round(bench)
    assert (bench.phase, bench.job.number, bench.job.series.left) == (Phase.IDLE, 0, 2)
    bench.hear(asked("a", 1))
    for name in "ac":
        bench.hear(declined(name, 1))
    assert (bench.phase, bench.job.number) == (Phase.IDLE, 1)
    bench.hear(Resumed())
    assert (bench.phase, bench.job.key, bench.job.series.left) == (Phase.TRAINING, key(2, "b"), 1)
    assert bench.said(StartTraining).round == 2


def ending() -> CancelWork:
    return CancelWork(key(0, "b"), at_once=True)


def test_a_pause_ends_the_training_under_way_and_the_round_goes_on_without_it() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.hear(Paused())
    assert (bench.one(CancelWork), bench.phase) == (ending(), Phase.GATHERING)
    assert bench.said(ModelParams).declined == "paused by a person here"
    assert bench.published["training_ended"] == "a person ended the training that was under way"
    assert bench.train() == []  # it came too late
    for name in "ac":
        bench.hear(came(name, 0, "b", w=[3, 3]))
    bench.average()
    assert bench.w == [3, 3]


def test_what_a_person_ended_stays_ended() -> None:
    bench = Lasting()
    bench.hear(asked("a"))
    bench.hear(Paused())
    bench.hear(Resumed())
    bench.hear(asked("a"))  # the same start, once more
    assert bench.all(Train) == []
    bench.restart()
    assert (bench.all(Train), bench.phase) == ([], Phase.GATHERING)
    bench.meet("a")
    assert bench.said(ModelParams).declined == "paused by a person here"


def test_a_pause_while_the_data_of_a_restarted_node_are_loaded_lets_no_training_begin_again() -> None:
    bench = Lasting()
    bench.hear(asked("a"))
    bench.restart(prepare=False)
    bench.hear(Paused())
    bench.hear(prepared())
    assert (bench.all(Train), bench.phase) == ([], Phase.GATHERING)
    bench.meet("a")
    assert bench.said(ModelParams).declined == "paused by a person here"


def test_a_pause_ends_the_wait_for_the_model_to_train_from() -> None:
    bench = Bench()
    digest = params(w=[9, 9]).digest
    bench.hear(replace(asked("a"), params=None, digest=digest))
    bench.hear(Paused())
    assert (bench.all(CancelWork), bench.phase) == ([], Phase.GATHERING)
    bench.hear(Fetched(key(), PeerId("a"), digest, params(w=[9, 9])))
    assert (bench.all(Train), bench.phase) == ([], Phase.GATHERING)


def test_a_pause_of_a_lone_node_ends_its_round() -> None:
    bench = Bench(peers=())
    bench.hear(RoundTriggered(rounds=2))
    bench.hear(Paused())
    assert (bench.one(CancelWork), bench.phase) == (ending(), Phase.IDLE)
    bench.hear(Resumed())
    assert (bench.phase, bench.job.number) == (Phase.TRAINING, 1)


def test_a_pause_ends_the_training_of_private_parameters_on_an_average() -> None:
    bench = Bench(personalises=True)
    bench.hear(RoundTriggered())
    bench.train()
    for name in "ac":
        bench.hear(came(name, 0, "b"))
    bench.average()
    bench.hear(Paused())
    assert (bench.one(CancelWork), bench.phase) == (ending(), Phase.MEASURING)


def test_private_parameters_of_a_paused_job_learn_nothing_from_an_average() -> None:
    bench = Bench(personalises=True)
    bench.hear(RoundTriggered())
    bench.train()
    bench.hear(Paused())
    for name in "ac":
        bench.hear(came(name, 0, "b"))
    bench.average()
    assert bench.one(Evaluate).hyper is None


def test_a_pause_after_the_training_ends_nothing() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.train()
    bench.hear(Paused())
    assert (bench.all(CancelWork), bench.all(Send)) == ([], [])
    assert bench.published.keys() == {"paused"}


def test_a_series_can_be_stopped_in_a_pause() -> None:
    bench = Bench()
    bench.hear(RoundTriggered(rounds=3))
    bench.train()
    bench.hear(Paused())
    end_round(bench)
    bench.hear(SeriesStopped())
    bench.hear(Resumed())
    assert (bench.phase, bench.job.series.left, bench.all(Answer)) == (Phase.IDLE, 0, [])


def test_a_round_asked_for_here_that_waits_for_an_average_waits_for_the_end_of_the_pause() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.train()
    bench.hear(RoundTriggered())
    average = bench.one(Average)
    bench.hear(Paused())
    assert (bench.job.series.pending, bench.job.series.left) == (None, 1)
    bench.effects = [average]
    bench.average()
    bench.measure()
    bench.hear(TimerFired("exchange:0:b"))
    assert (bench.phase, bench.job.number) == (Phase.IDLE, 0)
    bench.hear(Resumed())
    assert (bench.phase, bench.job.number) == (Phase.TRAINING, 1)


def test_a_paused_node_that_fell_behind_starts_no_round_to_catch_up() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.hear(Paused())
    bench.hear(SendRefused(PeerId("a"), StartTraining.path, key(0, "b"), 409, "stale_round", "", 7))
    assert (bench.phase, bench.job.number) == (Phase.GATHERING, 0)


@pytest.mark.parametrize("initiator", ["a", "c"])
def test_the_others_do_not_wait_for_a_paused_node_and_it_ends_with_their_model(initiator: str) -> None:
    stage = Stage()
    stage.tell("b", Paused())
    stage.trigger(initiator, rounds=2)
    stage.run()
    assert stage.now == 0  # no timer had to fire
    views = [job.view().as_json() for job in stage.jobs.values()]
    assert len({view["digest"] for view in views}) == 1
    assert [record["contributors"] for record in stage.jobs["b"].records()] == [["a", "c"]] * 2
    stage.tell("b", Resumed())
    stage.trigger(initiator)
    stage.run()
    assert stage.jobs["a"].records()[2]["contributors"] == ["a", "b", "c"]
