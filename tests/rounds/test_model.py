"""Which of two models a round starts from: a peer's word about its model gives it no precedence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flnet.params.params import Params, PeerId
from flnet.protocol.effects import CancelWork, Evaluate, Fetch, Save, Send, SetTimer, Train
from flnet.protocol.events import (
    ClaimReceived,
    Evaluated,
    EvaluationFailed,
    Fetched,
    FetchFailed,
    PeerSeen,
    RoundTriggered,
    TimerFired,
    Trained,
)
from flnet.protocol.messages import StartTraining
from flnet.rounds.steps import Phase
from tests.helpers import HYPER, key, params
from tests.rounds.helpers import Bench, asked, came, claim, prepared
from tests.rounds.scenarios import Lasting

A = PeerId("a")
THEIRS = params(w=[7, 8])
BOASTS = {"base_round": 10**6, "contributors": 10**9}


def offered(**more: int) -> Bench:
    """A node that has averaged a round is asked to start the next one from another model; it measures that one."""
    bench = Bench().through_round()
    bench.start_accuracy = None
    bench.hear(asked("a", 1, w=[7, 8], **more))
    return bench


def measured(bench: Bench, accuracy: float, split: str = "validation") -> None:
    """Carry out the measurement that the last event asked for."""
    effect = bench.one(Evaluate)
    assert effect.split == "validation"
    bench.hear(Evaluated(effect.key, effect.shared.digest, accuracy, split=split))  # type: ignore[arg-type]


@pytest.mark.parametrize("more", [{}, BOASTS, {"base_round": 0, "contributors": 9, "restored_at": 0}])
def test_a_model_that_is_worse_here_is_not_taken_whatever_is_said_of_it(more: dict[str, int]) -> None:
    bench = offered(**more)
    own = bench.w
    assert (bench.phase, bench.one(Evaluate).shared) == (Phase.FETCHING, THEIRS)
    measured(bench, 0.5)
    assert bench.one(Evaluate).shared == params(w=own)
    measured(bench, 0.6)
    assert (bench.phase, bench.one(Train).params) == (Phase.TRAINING, params(w=own))
    assert "accuracy 0.5000 against 0.6000 on validation rows" in bench.published["start_refused"]


@pytest.mark.parametrize(("split", "rows"), [("validation", "validation rows"), ("test", "test rows")])
@pytest.mark.parametrize("ours", [0.5, 0.4])
def test_a_model_that_measures_no_worse_is_taken_and_the_rows_are_named(
    ours: float, split: str, rows: str
) -> None:
    bench = offered(base_round=0, contributors=2)
    measured(bench, 0.5, split)
    measured(bench, ours, split)
    assert (bench.phase, bench.one(Train).params) == (Phase.TRAINING, THEIRS)
    assert f"on {rows} of this node" in bench.published["start_taken"]
    assert len(bench.all(Save)) == 1


def test_what_is_said_of_a_model_that_is_taken_is_bounded() -> None:
    bench = offered(**BOASTS)
    measured(bench, 0.5)
    measured(bench, 0.5)
    assert (bench.job.held.current.round, bench.job.held.current.contributors) == (0, 3)


def test_a_model_that_cannot_be_measured_is_not_taken() -> None:
    bench = offered()
    own = bench.w
    bench.hear(EvaluationFailed(key(1), THEIRS.digest, "killed", "validation"))
    assert (bench.phase, bench.w) == (Phase.TRAINING, own)
    assert "killed" in bench.published["start_refused"]


def test_a_measurement_of_another_model_decides_nothing() -> None:
    bench = offered()
    bench.hear(Evaluated(key(1), params(w=[1, 1]).digest, 0.9))
    assert (bench.phase, bench.effects) == (Phase.FETCHING, [])


def test_a_model_that_has_to_be_fetched_is_measured_when_it_is_here_and_left_if_it_does_not_come() -> None:
    start = replace(asked("a", 1, w=[7, 8]), params=None, digest=THEIRS.digest)
    bench = Bench().through_round()
    own = bench.w
    bench.hear(start)
    assert bench.one(Fetch).digest == THEIRS.digest
    bench.hear(FetchFailed(key(1), A, THEIRS.digest, "gone"))
    assert (bench.phase, bench.w) == (Phase.TRAINING, own)
    bench = Bench().through_round()
    bench.start_accuracy = 0.9
    bench.hear(start)
    bench.hear(Fetched(key(1), A, THEIRS.digest, THEIRS))
    assert (bench.phase, bench.one(Train).params) == (Phase.TRAINING, THEIRS)


def test_the_model_of_a_peer_that_has_sent_no_update_is_waited_for_a_few_seconds_only() -> None:
    start = replace(asked("a", 1, w=[7, 8]), params=None, digest=THEIRS.digest)
    bench = Bench(peers=["c"]).through_round(by=["c"])
    own = bench.w
    bench.hear(PeerSeen(A))
    bench.hear(start)
    assert bench.one(SetTimer).name == "fetch:1:a"
    bench.hear(TimerFired("fetch:1:a"))
    assert (bench.phase, bench.w) == (Phase.TRAINING, own)
    assert "it did not come in time" in bench.published["start_refused"]
    assert bench.hear(Fetched(key(1), A, THEIRS.digest, THEIRS)) == []
    bench = Bench().through_round()
    bench.hear(start)
    assert not bench.all(SetTimer)


def test_before_the_first_average_the_initiators_model_is_taken_unmeasured() -> None:
    for more in ({}, BOASTS):
        bench = Bench()
        bench.hear(asked("a", 0, w=[7, 8], **more))
        assert (bench.phase, bench.one(Train).params, bench.all(Evaluate)) == (Phase.TRAINING, THEIRS, [])


def test_a_model_that_this_node_has_held_is_taken_where_a_person_went_back_to_it() -> None:
    bench = Bench().through_round().through_round(1)
    bench.job.history.records[0].digest = THEIRS.digest
    bench.hear(asked("a", 2, w=[7, 8], base_round=0, restored_at=1))
    assert (bench.phase, bench.one(Train).params, bench.all(Evaluate)) == (Phase.TRAINING, THEIRS, [])


@pytest.mark.parametrize("accuracy", [0.1, 0.99])
def test_a_claim_after_the_round_replaces_nothing(accuracy: float) -> None:
    bench = Bench().through_round()
    own = bench.w
    bench.hear(ClaimReceived(claim("a", accuracy=accuracy, w=[7, 7], contributors=10**9)))
    bench.hear(RoundTriggered())
    assert (bench.w, bench.said(StartTraining).digest) == (own, params(w=own).digest)


def test_the_private_part_stays_at_home_and_is_measured_along() -> None:
    bench = Bench(prepare=False)
    bench.hear(prepared(w=(0, 0)))
    bench.through_round()
    bench.job.held.learn(params(head=[1.0]))
    bench.start_accuracy = None
    bench.hear(asked("a", 1, w=[7, 8]))
    assert bench.one(Evaluate).params == params(w=[7, 8], head=[1.0])
    measured(bench, 0.5)
    measured(bench, 0.5)
    assert bench.job.held.current.full == params(w=[7, 8], head=[1.0])


# --- Private parameters learn on from each average, in the step that measures it.


def averaged(bench: Bench) -> Evaluate:
    bench.hear(RoundTriggered())
    bench.train()
    for name in sorted(bench.job.peers.here):
        bench.hear(came(name, 0, "b"))
    bench.average()
    return bench.one(Evaluate)


def personal(bench: Bench, own: float) -> Params | None:
    """Carry out the measurement that the last event asked for, in which the private part becomes this."""
    effect = bench.one(Evaluate)
    bench.hear(Evaluated(effect.key, effect.shared.digest, 0.8, private=params(own=[own])))
    return bench.job.held.current.private


def test_a_measurement_asks_for_it_only_where_the_trainer_personalises() -> None:
    assert averaged(Bench(peers=["a"])).hyper is None
    assert averaged(Bench(peers=["a"], personalises=True)).hyper == HYPER


def test_what_was_learnt_is_saved_before_the_accuracy_is_told() -> None:
    bench = Bench(peers=["a"], personalises=True)
    averaged(bench)
    assert personal(bench, 5) == params(own=[5])
    assert bench.job.held.current.is_personal
    kinds = [type(effect) for effect in bench.effects]
    assert kinds.index(Save) < kinds.index(Send)
    assert bench.all(Save)[0].private == params(own=[5])


def test_the_next_training_begins_with_it_and_the_next_average_is_not_personal_yet() -> None:
    bench = Bench(peers=[], personalises=True)
    averaged(bench)
    personal(bench, 5)
    bench.hear(RoundTriggered())
    assert bench.job.key is not None
    bench.hear(Trained(bench.job.key, params(w=[2, 4], own=[6]), 1, 0.5))
    bench.average()
    assert (bench.job.held.current.private, bench.job.held.current.is_personal) == (params(own=[6]), False)


def test_a_start_that_comes_meanwhile_ends_it_and_the_private_part_stays() -> None:
    bench = Bench(peers=["a"], personalises=True)
    averaged(bench)
    left = bench.job.held.current.private
    bench.hear(asked("a", 1))
    assert bench.one(CancelWork).key == key(0, "b")
    assert bench.phase is Phase.TRAINING
    bench.hear(Evaluated(key(0, "b"), params(w=[0, 0]).digest, 0.8, private=params(own=[5])))
    assert bench.job.held.current.private == left


def test_after_a_restart_it_is_done_again() -> None:
    bench = Lasting(peers=[])
    bench.restart(prepare=False)
    bench.hear(prepared(personalises=True))
    before = averaged(bench)
    bench.restart(prepare=False)
    bench.hear(prepared(personalises=True))
    assert bench.one(Evaluate) == before
    assert before.hyper == HYPER
