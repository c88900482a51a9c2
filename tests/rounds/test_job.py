"""The job as a whole: loading, no data, settings, series of rounds, and what people see of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.aggregation.base import MERGING
from flnet.errors import (
    InvalidMessage,
    JobBusy,
    NoData,
    NotComparable,
    NotReady,
    ParamsRefused,
    PeerError,
)
from flnet.params.params import PeerId
from flnet.protocol.effects import Average, CancelWork, Publish, Save, Train
from flnet.protocol.events import (
    ClaimReceived,
    Event,
    HyperParamsEdited,
    PrepareFailed,
    Restored,
    RoundTriggered,
    SendRefused,
    TimerFired,
)
from flnet.protocol.messages import HyperParams, ModelParams, StartTraining
from flnet.rounds.participation import Participation
from flnet.rounds.settings import Rules
from flnet.rounds.steps import Phase
from flnet.rounds.view import MAX_ENTRIES, MAX_WORDS, JobView
from tests.helpers import frozen, key
from tests.rounds.helpers import Bench, asked, came, claim, declined, prepared, refuses

# --- loading


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (came("a"), NotReady),
        (ClaimReceived(claim("a")), NotComparable),
        (HyperParamsEdited({"e": 3}), NotReady),
    ],
)
def test_what_a_loading_job_cannot_take(event: Event, error: type[PeerError]) -> None:
    bench = Bench(prepare=False)
    before = frozen(bench.job)
    with pytest.raises(error, match=r"loading|node is in round -1"):
        bench.hear(event)
    assert frozen(bench.job) == before


def test_of_the_starts_that_come_while_loading_the_one_that_counts_is_joined_when_ready() -> None:
    bench = Bench(prepare=False)
    for event in (asked("c", 1), asked("a", 1, w=[4, 4]), asked("c", 1), asked("a", 0)):
        assert bench.hear(event) == []
    bench.hear(prepared())
    assert (bench.phase, bench.job.key) == (Phase.TRAINING, key(1, "a"))
    assert bench.one(Train).params["w"].tolist() == [4, 4]


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
    assert (bench.job.view().phase, bench.job.view().error) == (
        "NO_DATA",
        "put the files into /data",
    )


def test_a_start_heard_before_the_data_proved_missing_is_forgotten() -> None:
    bench = Bench(prepare=False)
    bench.hear(asked("a"))
    bench.hear(PrepareFailed("no data"))
    bench.hear(prepared())
    assert (bench.phase, bench.job.error) == (Phase.IDLE, None)


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
    assert (started, bench.job.series.left) == ([0, 1, 2], 0)


def test_a_series_goes_on_when_a_round_of_it_was_lost_to_another_initiator() -> None:
    bench = Bench(peers=["a"])
    bench.hear(RoundTriggered(rounds=2))
    bench.hear(asked("a"))
    bench.train()
    bench.hear(came("a"))
    bench.average()
    bench.measure()
    bench.hear(ClaimReceived(claim("a", accuracy=0.1)))
    assert (bench.job.key, bench.phase) == (key(1, "b"), Phase.TRAINING)
    (record,) = bench.job.records()  # of one round that was started twice, the start that counts
    assert (record["round"], record["initiator"]) == (0, "a")


def test_after_the_last_number_that_json_can_carry_no_round_is_started() -> None:
    bench = Bench(peers=["a"])
    bench.job.numbering.confirmed = 2**53 - 2
    bench.hear(asked("a", 2**53 - 1))
    bench.train()
    bench.hear(came("a", 2**53 - 1))
    bench.average()
    bench.measure()
    bench.hear(RoundTriggered(rounds=3))
    assert bench.job.number == 2**53
    bench.train()
    bench.hear(came("a", 2**53, "b"))
    bench.average()
    bench.measure()
    bench.hear(TimerFired(f"exchange:{2**53}:b"))
    assert (bench.phase, bench.job.series.left) == (Phase.IDLE, 0)
    for new_numbering in (False, True):
        with pytest.raises(JobBusy, match="the last one"):
            bench.hear(RoundTriggered(new_numbering=new_numbering))


# --- What a peer says of its jobs becomes a view like any other, whatever it says.


THESIS = {
    "current_round": 0,
    "fed_learn_done": "Yes",
    "federated_learning_params": "Learning Rate: 1e-05, Epochs: 2, Batch size: 64",
    "model_was_exchanged": "No",
    "post_fedavg_accuracy": 0.4545,
    "pre_fedavg_accuracy": 0.4,
    "trainer_label": "MNIST Dataset",
}
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def test_a_node_of_the_thesis_tells_seven_values() -> None:
    job = JobView.claimed(THESIS)
    assert job.as_json() == THESIS
    assert (job.label, job.trainer_id, job.is_busy, job.hyper) == ("MNIST Dataset", "", False, None)


def test_a_field_that_breaks_its_rule_is_as_if_it_had_not_been_told() -> None:
    sound = {**THESIS, "hyper": {"e": 2, "u": 1, "b": 64}, "phase": "TRAINING", "waiting_for": ["b"]}
    broken = {
        **{"digest": "<b>", "paused": "yes", "goal": {"until": "x"}, "received": "abc", "rounds_left": 10**400},
        **{"error": 7, "metrics": {"after": {"f1": float("nan")}}, "counts": {"train": ["many"]}, "new": 1},
    }
    job = JobView.claimed({**sound, **broken})
    assert job.model_fields_set == sound.keys()
    assert (job.phase, job.hyper, job.paused, job.rounds_left) == (
        "TRAINING",
        HyperParams(e=2, u=1, b=64),
        False,
        0,
    )


@pytest.mark.parametrize("claim", [True, "3", 3.5, None, [3], float("inf"), 10**15])
def test_what_is_no_round_is_no_round(claim: Any) -> None:
    assert JobView.claimed({"current_round": claim}).current_round == -1


def test_texts_and_lists_are_cut() -> None:
    job = JobView.claimed({"error": "a\nb\u202e" + "x" * 9999, "waiting_for": ["b"] * 9999})
    assert job.error is not None and job.error.startswith("a b\ufffdx")
    assert (len(job.error), len(job.waiting_for)) == (MAX_WORDS, MAX_ENTRIES)


@given(st.dictionaries(st.sampled_from(sorted(JobView.model_fields)), ANY_JSON) | ANY_JSON)
def test_a_peer_may_claim_anything(claim: Any) -> None:
    job = JobView.claimed(claim)
    assert JobView.claimed(job.as_json()) == job
    assert not job.model_fields_set - (claim.keys() if isinstance(claim, dict) else set())


# --- What nodes say of the rules of their rounds.


def test_nothing_is_said_where_all_is_as_usual() -> None:
    assert Rules().stated() == {}


def test_rules_of_common_rounds() -> None:
    rules = Rules(Participation(0.5, 2), 3, {"largest update": "any"})
    words = {"participation": "0.5 of the nodes, at least 2", "late updates": "up to 3 rounds"}
    assert rules.stated() == {**words, "largest update": "any"}


def test_without_common_rounds_only_what_concerns_merging_has_to_be_alike() -> None:
    rules = Rules(Participation(0.5, 2), 3, {"largest update": "any"}, asynchronous=True)
    assert rules.stated() == {"rounds": "of each node by itself (asynchronous)", "largest update": "any"}


# --- What peers answer to our messages: who is waited for after a refusal, and who is not.


def waiting() -> Bench:
    """The own update is out, that of the only peer is not here."""
    bench = Bench(peers=["a"])
    bench.hear(RoundTriggered())
    bench.train()
    return bench


def refusal(status: int, error: str, path: str = StartTraining.path, by: str = "a") -> SendRefused:
    return SendRefused(PeerId(by), path, key(0, "b"), status, error, "words", 0)


@pytest.mark.parametrize(
    "answer",
    [
        refusal(404, "unknown_trainer"),
        refusal(404, "no_data"),
        refusal(404, "no_data", ModelParams.path),
        refusal(422, "params_refused"),
        refusal(422, "params_refused", ModelParams.path),
        refusal(413, "body_too_large"),
    ],
)
def test_a_peer_whose_answer_says_that_it_takes_no_part_is_not_waited_for(answer: SendRefused) -> None:
    bench = waiting()
    bench.hear(answer)
    assert [update.peer for update in bench.one(Average).updates] == ["b"]


@pytest.mark.parametrize(
    "answer",
    [
        refusal(503, "not_ready"),
        refusal(500, "internal_error"),
        refusal(409, "round_lost"),
        refusal(409, "stale_round", ModelParams.path),
        refusal(413, "body_too_large", ModelParams.path),
    ],
)
def test_a_peer_that_refused_something_else_may_still_send_its_update(answer: SendRefused) -> None:
    bench = waiting()
    bench.hear(answer)
    assert bench.job.view().waiting_for == ["a"]
    assert bench.one(Publish).kind == "refused"


def test_a_refusal_of_another_round_means_nothing() -> None:
    bench = waiting()
    assert bench.hear(SendRefused(PeerId("a"), StartTraining.path, key(0, "z"), 404, "no_data", "")) == []
    assert bench.phase is Phase.GATHERING


# --- Another aggregation rule for one job, chosen by a person while the node runs.


MEDIAN = HyperParamsEdited({}, "median", folds=False)


def test_the_rule_holds_from_now_on_and_peers_have_to_state_it() -> None:
    bench = Bench()
    bench.hear(MEDIAN)
    (told,) = bench.all(Publish)
    assert told.kind == "merging_rule_set"
    assert told.text.startswith("the aggregation rule is median from now on, before weighted average (agg1); ")
    assert (bench.job.view().merging_rule, bench.job.settings.folds) == ("median", False)
    assert bench.job.settings.hyper == prepared().declaration.defaults  # nothing else has changed
    words = "the nodes do not agree on aggregation rule: median at b; weighted average (agg1) at a"
    assert str(refuses(bench, asked("a", agreement={}), ParamsRefused)) == words
    bench.hear(asked("a", agreement={MERGING: "median"}))
    assert bench.job.busy


def test_hyper_parameters_may_be_changed_with_it() -> None:
    bench = Bench()
    bench.hear(replace(MEDIAN, changes={"e": 7}))
    assert list(bench.published) == ["merging_rule_set", "params_edited"]
    assert bench.job.settings.hyper is not None
    assert bench.job.settings.hyper.e == 7


def test_a_round_keeps_the_rule_that_it_began_with() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    refuses(bench, replace(MEDIAN, changes={"e": 7}), JobBusy)


def test_training_and_merging_that_belong_together_stay_together() -> None:
    refuses(Bench(), HyperParamsEdited({}, "clip,scaffold:1"), InvalidMessage)
    refuses(Bench(rules=Rules(averaging={MERGING: "scaffold:1"})), MEDIAN, InvalidMessage)
    refuses(Bench(merging="k-means:1"), MEDIAN, InvalidMessage)


def test_the_rule_of_the_settings_can_be_chosen_again() -> None:
    bench = Bench(rules=Rules(averaging={MERGING: "median"}))
    bench.hear(HyperParamsEdited({}, "agg1"))
    assert bench.job.settings.stated == {}
    bench.hear(MEDIAN)
    assert (bench.job.settings.rules.by_person, bench.job.settings.stated) == ("", {MERGING: "median"})


@pytest.mark.parametrize(("settings", "rule"), [({}, "median"), ({MERGING: "krum:1"}, "krum:1")])
def test_a_restart_keeps_it_until_the_setting_is_another_one(settings: dict[str, str], rule: str) -> None:
    bench = Bench()
    bench.hear(MEDIAN)
    again = Bench(prepare=False, rules=Rules(averaging=settings))
    again.hear(Restored(bench.one(Save).snapshot, None, None, None, (), ()))
    again.hear(prepared())
    assert again.job.view().merging_rule == rule
    assert again.job.settings.folds is bool(settings)


@pytest.mark.parametrize("damaged", [["no rule", "agg1", True], [7, 7], "median", ["median"]])
def test_what_is_damaged_is_said(damaged: object) -> None:
    bench = Bench()
    bench.hear(MEDIAN)
    again = Bench(prepare=False)
    again.hear(Restored({**bench.one(Save).snapshot, "merging": damaged}, None, None, None, (), ()))
    assert again.one(Publish).kind == "state_damaged"
