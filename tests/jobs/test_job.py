"""The job as a whole: loading, no data, settings, series of rounds, and what people see of it."""

from __future__ import annotations

import pytest

from flnet.effects import CancelWork, Publish, Save, Train
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
)
from flnet.jobs import Phase
from flnet.messages import HyperParams, StartTraining
from flnet.params import PeerId
from tests.helpers import frozen, key, params
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
