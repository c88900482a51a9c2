"""The job as a whole: loading, no data, settings, series of rounds, and what people see of it."""

from __future__ import annotations

import json

import pytest

from flnet.effects import CancelWork, Publish, Save, Send, Train
from flnet.errors import JobBusy, NoData, NotComparable, NotReady, PeerError
from flnet.events import (
    ClaimReceived,
    Event,
    HyperParamsEdited,
    PeerLost,
    Prepared,
    PrepareFailed,
    RoundTriggered,
    TimerFired,
    Trained,
)
from flnet.jobs import Job, Phase
from flnet.messages import HyperParams, StartTraining
from flnet.params import PeerId, TrainerId
from tests.helpers import HYPER, frozen, key, params, peer
from tests.jobs.helpers import Bench, asked, came, claim, declaration, declined, prepared

# --- loading


def test_a_loaded_job_is_idle_and_saves_its_first_parameters() -> None:
    bench = Bench(shared=("w",))
    save = bench.one(Save)
    assert (bench.phase, bench.state.number, save.params) == (Phase.IDLE, -1, params(w=[0, 0]))


def test_private_parameters_are_kept_apart_from_the_first_moment() -> None:
    bench = Bench(prepare=False)
    bench.hear(Prepared(declaration(shared=("w",)), params(w=[0, 0], head=[7])))
    save, model = bench.one(Save), bench.state.model
    assert model is not None
    assert (list(model.shared), list(model.private)) == (["w"], ["head"])
    assert save.private == params(head=[7])


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (came("a"), NotReady),
        (ClaimReceived(claim("a")), NotComparable),
        (RoundTriggered(), JobBusy),
        (HyperParamsEdited({"e": 3}), NotReady),
    ],
)
def test_what_a_loading_job_cannot_take(event: Event, error: type[PeerError]) -> None:
    bench = Bench(prepare=False)
    before = frozen(bench.state)
    with pytest.raises(error, match=r"loading|node is in round -1"):
        bench.hear(event)
    assert frozen(bench.state) == before


def test_a_start_that_comes_while_loading_is_joined_when_ready() -> None:
    bench = Bench(prepare=False)
    assert bench.hear(asked("a", w=[4, 4])) == []
    bench.hear(prepared())
    assert (bench.phase, bench.state.key) == (Phase.TRAINING, key(0))
    assert bench.one(Train).params["w"].tolist() == [4, 4]


def test_of_several_starts_while_loading_the_one_that_counts_is_joined() -> None:
    bench = Bench(prepare=False)
    for event in (asked("c", 1), asked("a", 1), asked("c", 1), asked("a", 0)):
        bench.hear(event)
    bench.hear(prepared())
    assert bench.state.key == key(1, "a")


def test_a_start_while_loading_that_does_not_fit_is_shown_and_leaves_the_job_idle() -> None:
    bench = Bench(prepare=False)
    bench.hear(asked("a", w=[1, 2, 3]))
    bench.hear(prepared())
    assert bench.phase is Phase.IDLE
    assert "came while loading" in bench.all(Publish)[-1].text


def test_a_refusal_that_comes_while_loading_is_remembered() -> None:
    bench = Bench(peers=["a", "c"], prepare=False)
    bench.hear(asked("a"))
    bench.hear(declined("c"))
    bench.hear(prepared())
    bench.train()
    bench.hear(came("a"))
    assert bench.phase is Phase.AVERAGING


# --- no data


def no_data() -> Bench:
    bench = Bench(prepare=False)
    bench.hear(PrepareFailed("put the files into /data"))
    return bench


@pytest.mark.parametrize("event", [came("a"), asked("a"), ClaimReceived(claim("a"))])
def test_a_job_without_data_says_so_to_peers(event: Event) -> None:
    bench = no_data()
    with pytest.raises(NoData, match="put the files into /data") as refusal:
        bench.hear(event)
    assert refusal.value.status == 404


def test_a_job_without_data_says_so_to_people() -> None:
    bench = no_data()
    with pytest.raises(JobBusy, match="cannot train: put the files"):
        bench.hear(RoundTriggered())
    with pytest.raises(NotReady, match="put the files"):
        bench.hear(HyperParamsEdited({"e": 3}))
    assert (bench.job.view()["phase"], bench.job.view()["error"]) == ("NO_DATA", "put the files into /data")


def test_data_that_are_found_later_end_it() -> None:
    bench = no_data()
    bench.hear(prepared())
    assert (bench.phase, bench.state.error) == (Phase.IDLE, None)


def test_a_start_heard_before_the_data_proved_missing_is_forgotten() -> None:
    bench = Bench(prepare=False)
    bench.hear(asked("a"))
    bench.hear(PrepareFailed("no data"))
    bench.hear(prepared())
    assert bench.phase is Phase.IDLE


# --- hyper-parameters


def test_a_person_changes_some_hyper_parameters_for_the_rounds_that_start_here() -> None:
    bench = Bench()
    bench.hear(HyperParamsEdited({"e": 5, "u": 0.5}))
    assert bench.one(Save).snapshot["hyper"] == {"e": 5, "u": 0.5, "b": 64}
    bench.hear(RoundTriggered())
    assert bench.one(Train).hyper == HyperParams(e=5, u=0.5, b=64)
    assert bench.said(StartTraining).federated_learning_params == HyperParams(e=5, u=0.5, b=64)


def test_a_change_during_a_round_is_for_the_next_one() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.hear(HyperParamsEdited({"e": 5}))
    assert (bench.phase, bench.all(Train), bench.all(CancelWork)) == (Phase.TRAINING, [], [])


# --- series of rounds


def test_rounds_that_were_asked_for_follow_each_other() -> None:
    bench = Bench(peers=[])
    bench.hear(RoundTriggered(rounds=3))
    started = []
    while bench.phase is not Phase.IDLE:
        started.append(bench.one(Train).key.number)
        bench.train()
        bench.average()
        bench.measure()
    assert (started, bench.state.rounds_left) == ([0, 1, 2], 0)


def test_a_series_goes_on_when_a_round_of_it_was_lost_to_another_initiator() -> None:
    bench = Bench(peers=["a"])
    bench.hear(RoundTriggered(rounds=2))
    bench.hear(asked("a"))
    bench.train()
    bench.hear(came("a"))
    bench.average()
    bench.measure()
    bench.hear(ClaimReceived(claim("a", accuracy=0.1)))
    assert (bench.state.key, bench.phase) == (key(1, "b"), Phase.TRAINING)


def test_a_new_request_replaces_the_rest_of_a_series() -> None:
    bench = Bench(peers=[])
    bench.hear(RoundTriggered(rounds=9))
    bench.train()
    bench.average()
    bench.measure()
    assert bench.state.rounds_left == 7
    bench.hear(PeerLost(PeerId("x"), ""))
    bench.train()
    bench.average()
    with pytest.raises(JobBusy, match="round 1 is still measuring here"):
        bench.hear(RoundTriggered())
    assert bench.state.rounds_left == 7


def test_after_the_last_number_that_json_can_carry_no_round_is_started() -> None:
    bench = Bench(peers=["a"])
    bench.hear(asked("a", 2**53 - 1))
    bench.train()
    bench.hear(came("a", 2**53 - 1))
    bench.average()
    bench.measure()
    bench.hear(RoundTriggered(rounds=3))
    assert bench.state.number == 2**53
    bench.train()
    bench.hear(came("a", 2**53, "b"))
    bench.average()
    bench.measure()
    bench.hear(TimerFired(f"exchange:{2**53}:b"))
    assert (bench.phase, bench.state.rounds_left) == (Phase.IDLE, 0)
    with pytest.raises(JobBusy, match="the last one"):
        bench.hear(RoundTriggered())


# --- what people see

JOB_VIEW = {
    *("trainer_id", "trainer_label", "phase", "current_round", "fed_learn_done", "model_was_exchanged"),
    *("federated_learning_params", "hyper", "pre_fedavg_accuracy", "post_fedavg_accuracy", "digest"),
    *("contributors", "initiator", "rounds_left", "waiting_for", "received", "outcome", "error", "data"),
}
HISTORY_VIEW = {
    *("round", "initiator", "outcome", "contributors", "digest", "pre_fedavg_accuracy", "post_fedavg_accuracy"),
    *("exchanged_with", "examples", "seconds"),
}


def test_the_view_has_all_that_the_node_promises_in_every_phase() -> None:
    bench = Bench(prepare=False)
    views = [bench.job.view()]
    bench.hear(prepared())
    views.append(bench.job.view())
    bench.hear(RoundTriggered())
    views.append(bench.job.view())
    bench.train()
    views.append(bench.job.view())
    for name in ("a", "c"):
        bench.hear(came(name, 0, "b"))
    views.append(bench.job.view())
    bench.average()
    views.append(bench.job.view())
    bench.measure()
    views.append(bench.job.view())
    phases = ["LOADING", "IDLE", "TRAINING", "GATHERING", "AVERAGING", "MEASURING", "EXCHANGING"]
    assert [view["phase"] for view in views] == phases
    assert all(view.keys() >= JOB_VIEW for view in views)
    assert json.dumps(views)


def test_the_view_before_the_first_round() -> None:
    view = Bench(data={"source": "made up"}).job.view()
    assert (view["trainer_label"], view["current_round"], view["fed_learn_done"]) == ("T", -1, "No")
    assert (view["outcome"], view["waiting_for"], view["received"], view["error"]) == ("", [], [], None)
    assert (view["federated_learning_params"], view["hyper"]) == (HYPER.words(), {"e": 2, "u": 1e-05, "b": 64})
    assert view["data"] == {"source": "made up"}


def test_the_view_while_waiting_names_who_is_missing() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.hear(came("c", 0, "b"))
    bench.train()
    view = bench.job.view()
    assert (view["waiting_for"], view["received"], view["initiator"]) == (["a"], ["b", "c"], "b")


def test_the_view_in_the_exchange_names_whose_claims_are_missing() -> None:
    bench = Bench().through_average()
    bench.hear(ClaimReceived(claim("c", accuracy=0.1)))
    assert bench.job.view()["waiting_for"] == ["a"]


def test_the_view_after_a_round() -> None:
    bench = Bench().through_round()
    view = bench.job.view()
    assert (view["current_round"], view["fed_learn_done"], view["model_was_exchanged"]) == (0, "Yes", "No")
    assert (view["pre_fedavg_accuracy"], view["post_fedavg_accuracy"]) == (0.5, 0.8)
    assert view["outcome"] == "averaged 3 updates: everyone expected has spoken"
    assert (view["contributors"], view["digest"]) == (3, bench.job.history()[-1]["digest"])


def test_the_figures_of_the_last_round_stay_until_the_next_has_some() -> None:
    bench = Bench().through_round()
    bench.hear(RoundTriggered())
    view = bench.job.view()
    assert (view["phase"], view["pre_fedavg_accuracy"], view["fed_learn_done"]) == ("TRAINING", 0.5, "No")
    bench.train(accuracy=0.6)
    assert bench.job.view()["pre_fedavg_accuracy"] == 0.6


def test_the_history_has_a_record_per_round_oldest_first() -> None:
    bench = Bench().through_round(0).through_round(1)
    history = bench.job.history()
    assert [record["round"] for record in history] == [0, 1]
    assert all(record.keys() >= HISTORY_VIEW for record in history)
    last = history[-1]
    assert (last["contributors"], last["initiator"], last["examples"]) == (["a", "b", "c"], "b", 1)
    assert last["seconds"].keys() == {"train", "average"}
    assert json.dumps(history)


def test_a_round_that_was_cut_short_is_remembered_with_the_reason() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.hear(asked("a", 4))
    (record,) = bench.job.history()
    assert (record["round"], record["outcome"]) == (0, "cut short: a started round 4")


def test_of_one_round_started_twice_only_the_start_that_counts_is_remembered() -> None:
    bench = Bench(peers=["a"])
    bench.hear(RoundTriggered())
    bench.hear(asked("a"))
    bench.train()
    bench.hear(came("a"))
    bench.average()
    bench.measure()
    bench.hear(ClaimReceived(claim("a", accuracy=0.1)))
    assert [(record["round"], record["initiator"]) for record in bench.job.history()] == [(0, "a")]


def test_every_save_comes_before_what_others_may_see() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    kinds = [type(effect) for effect in bench.effects]
    assert kinds.index(Save) == 0
    assert kinds.index(Save) < kinds.index(Send)


def test_a_job_is_busy_while_a_round_is_open() -> None:
    job = Job(peer("b"), TrainerId("T"))
    assert not job.busy
    job.receive(prepared())
    assert not job.busy
    job.receive(RoundTriggered())
    assert job.busy
    job.receive(Trained(key(0, "b"), params(w=[1, 1]), 1, 0.5))
    assert job.busy
