"""What people see of a job: its view and its history."""

from __future__ import annotations

import json

import pytest

from flnet.effects import Publish, Save, Send
from flnet.events import (
    ClaimReceived,
    RoundTriggered,
    Trained,
)
from flnet.jobs import Job
from flnet.messages import HyperParams
from flnet.params import TrainerId
from tests.helpers import HYPER, key, params, peer
from tests.jobs.helpers import Bench, asked, came, claim, prepared

# --- loading


JOB_VIEW = {
    *("trainer_id", "trainer_label", "phase", "current_round", "fed_learn_done", "model_was_exchanged"),
    *("federated_learning_params", "hyper", "pre_fedavg_accuracy", "post_fedavg_accuracy", "digest"),
    *("contributors", "initiator", "rounds_left", "goal", "waiting_for", "received", "outcome", "error", "data"),
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


def test_the_end_of_a_round_is_told_with_its_accuracies() -> None:
    bench = Bench(peers=[])
    bench.hear(RoundTriggered())
    bench.train(accuracy=0.25)
    bench.average()
    bench.measure(0.75)
    closed = next(publish for publish in bench.all(Publish) if publish.kind == "round_closed")
    assert closed.text.endswith("accuracy here 0.2500 before, 0.7500 after")
    record, untold = bench.job.history()[0], ("contributions", "weighed")
    told = {name: value for name, value in record.items() if name not in untold}
    assert closed.data == {**told, "round": 0}


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


@pytest.mark.parametrize("own", [None, HyperParams(e=9, u=0.5, b=1)])
def test_the_record_says_what_this_node_really_trained_with(own: HyperParams | None) -> None:
    bench = Bench(peers=[])
    bench.hear(RoundTriggered())
    bench.hear(Trained(key(0, "b"), params(w=[1, 1]), 1, 0.5, hyper=own))
    used = (own or HYPER).fields()
    assert bench.job.view()["used_hyper"] == used
    bench.average()
    bench.measure()
    assert bench.job.history()[0]["used_hyper"] == used
