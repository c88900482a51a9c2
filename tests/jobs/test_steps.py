"""The table of legal steps is exact: what it lists happens, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from functools import cache

import pytest

from flnet.effects import Effect, Evaluate
from flnet.errors import IllegalStep, PeerError
from flnet.events import (
    Averaged,
    ClaimReceived,
    DeclineReceived,
    EvaluationFailed,
    Event,
    Fetched,
    FetchFailed,
    MeshStarted,
    PeerLost,
    RoundTriggered,
    SendRefused,
    SumSpoilt,
    Trained,
    TrainingFailed,
    UpdateOffered,
)
from flnet.jobs import Job, Phase
from flnet.jobs.steps import EVERYWHERE, LEGAL, draw, is_legal
from flnet.messages import StartTraining
from flnet.params import Params, PeerId, Update
from tests.helpers import frozen, key, params
from tests.jobs.choosing import CHOOSING, OTHERS, SOME
from tests.jobs.helpers import Bench, asked, came, claim, listed
from tests.jobs.lagging import LAGGING, LATE
from tests.jobs.pausing import PAUSING
from tests.jobs.pursuing import PURSUING
from tests.jobs.restarting import RESTARTS
from tests.jobs.walk import Step, Walk

P = Phase
A = PeerId("a")
WALKS, WATCHED, STEPS = 600, 20, 150


def unchanged_if_refused(job: Job, event: Event) -> list[Effect]:
    before = frozen(job.state)
    effects, refusal = [], None
    try:
        effects = job.receive(event)
    except PeerError as exc:
        refusal = exc
    if refusal is None:
        return effects
    assert frozen(job.state) == before, f"{event} was refused ({refusal}), but changed the job"
    raise refusal


class Recorded(Bench):
    """A bench that notes the steps taken, and those that it would take if others were chosen for its rounds."""

    def __init__(self, peers: Sequence[str], prepare: bool = True) -> None:
        self.steps: set[Step] = set()
        super().__init__(peers=peers, prepare=prepare)

    def hear(self, event: Event) -> list[Effect]:
        before = self.job.phase
        twin = deepcopy(self.job)
        twin.state.rules = OTHERS
        with suppress(PeerError):
            twin.receive(event)
            self.steps.add((before, type(event), twin.phase))
        effects = super().hear(event)
        self.steps.add((before, type(event), self.job.phase))
        return effects


def behind_and_alone(bench: Recorded) -> None:
    bench.hear(RoundTriggered())
    bench.hear(PeerLost(PeerId("a"), "silent"))
    bench.hear(SendRefused(PeerId("a"), StartTraining.path, key(0, "b"), 409, "stale_round", "", 7))


def next_round_forces_before_the_own_training_is_done(bench: Recorded) -> None:
    bench.hear(RoundTriggered())
    bench.hear(came("a", 0, "b"))
    bench.hear(asked("a", 1))
    bench.average()


def old_work_ends_late(bench: Recorded) -> None:
    bench.through_average(by=["a"])
    old = bench.state.model
    assert old is not None
    trained, failed = Trained(key(0, "b"), params(w=[1, 1]), 1, 0.5), TrainingFailed(key(0, "b"), "late")
    measured = EvaluationFailed(key(0, "b"), old.shared.digest, "late")
    for event in (trained, failed, measured):
        bench.hear(event)
    bench.hear(asked("a", 1))
    bench.train()
    bench.hear(came("a", 1))
    bench.hear(measured)
    bench.hear(Averaged(key(1), params(w=[3, 3])))
    measure = bench.one(Evaluate)
    for event in (trained, failed, measured):
        bench.hear(event)
    bench.hear(FetchFailed(key(0, "b"), A, old.shared.digest, "late"))
    bench.effects = [measure]
    bench.measure()
    for event in (trained, failed):
        bench.hear(event)


def the_only_peer_claims(bench: Recorded) -> None:
    bench.through_average(by=["a"])
    bench.hear(ClaimReceived(claim("a", accuracy=0.1)))
    bench.hear(RoundTriggered(rounds=2))
    bench.train()
    bench.hear(came("a", 1, "b"))
    bench.average()
    bench.measure()
    bench.hear(ClaimReceived(claim("a", 1, accuracy=0.1)))


def offered(by: str, number: int, initiator: str) -> UpdateOffered:
    return UpdateOffered(Update(PeerId(by), key(number, initiator), Params(), 1), params(w=[1, 1]).digest)


def what_is_fetched_fails(bench: Recorded) -> None:
    """In a round of which only an offer told, and in the exchange."""
    bench.hear(offered("a", 0, "a"))
    bench.hear(DeclineReceived(PeerId("b"), key(), "as if"))
    digest = params(w=[1, 1]).digest
    bench.hear(FetchFailed(key(), A, digest, "gone"))
    bench.through_average(1, by=["a"])
    bench.hear(offered("a", 1, "b"))
    bench.hear(ClaimReceived(replace(claim("a", 1, accuracy=0.99), params=None)))
    bench.hear(FetchFailed(key(1, "b"), A, claim("a").digest or digest, "gone"))
    bench.hear(offered("a", 1, "b"))
    bench.through_average(2, by=["a"])
    bench.hear(came("a", 2, "b"))


def old_work_ends_while_a_start_is_fetched(bench: Recorded) -> None:
    bench.through_average(by=["a"])
    bench.hear(ClaimReceived(claim("a", accuracy=0.99)))
    measure = bench.one(Evaluate)
    late = EvaluationFailed(key(0, "b"), measure.shared.digest, "late")
    bench.hear(late)
    start = asked("a", 1, base_round=0, contributors=9)
    assert start.params is not None
    bench.hear(replace(start, params=None, digest=start.params.digest))
    bench.hear(late)


def what_is_fetched_ends_a_round_of_a_series(bench: Recorded) -> None:
    bench.hear(RoundTriggered(rounds=3))
    digest, spoilt = params(w=[1, 1]).digest, params(w=[1])
    for end in (FetchFailed(key(0, "b"), A, digest, "gone"), Fetched(key(1, "b"), A, digest, spoilt)):
        bench.hear(TrainingFailed(end.key, "no memory"))
        bench.hear(offered("a", end.key.number, "b"))
        bench.hear(end)


def a_better_model_of_the_exchange_is_gone(bench: Recorded) -> None:
    bench.hear(RoundTriggered(rounds=2))
    bench.train()
    bench.hear(came("a", 0, "b"))
    bench.average()
    bench.measure()
    better = claim("a", accuracy=0.99)
    bench.hear(ClaimReceived(replace(better, params=None)))
    bench.hear(FetchFailed(key(0, "b"), A, better.digest or params().digest, "gone"))


def a_better_model_of_the_exchange_does_not_fit(bench: Recorded) -> None:
    bench.through_average(by="a")
    better = claim("a", accuracy=0.99)
    bench.hear(ClaimReceived(replace(better, params=None)))
    bench.hear(Fetched(key(0, "b"), A, better.digest or params().digest, params(w=[1, 2, 3])))


def what_is_fetched_does_not_fit_and_everyone_else_has_spoken(bench: Recorded) -> None:
    digest = params(w=[1, 1]).digest
    bench.hear(replace(asked("a"), params=None, digest=digest))
    bench.hear(came("a"))
    bench.hear(Fetched(key(0, "a"), A, digest, params(w=[1])))


def a_start_that_this_node_forgot_is_stale(bench: Recorded) -> None:
    """It was started again under its old id, and fetches the start of a round that is its own."""
    bench.hear(came("a", 0, "b"))
    bench.hear(replace(asked("a", 0, initiator="b"), params=None, digest=params(w=[1, 1]).digest))
    bench.hear(SendRefused(A, StartTraining.path, key(0, "b"), 409, "stale_round", "", 7))


def a_sum_is_made_again(bench: Recorded) -> None:
    bench.hear(RoundTriggered())
    bench.train()
    bench.hear(came("a", 0, "b"))
    bench.hear(SumSpoilt(key(0, "b"), {A: "it moved 9"}))


SCRIPTS: list[Callable[[Recorded], None]] = [
    behind_and_alone,
    next_round_forces_before_the_own_training_is_done,
    old_work_ends_late,
    the_only_peer_claims,
    what_is_fetched_fails,
    old_work_ends_while_a_start_is_fetched,
    what_is_fetched_ends_a_round_of_a_series,
    a_better_model_of_the_exchange_is_gone,
    a_better_model_of_the_exchange_does_not_fit,
    what_is_fetched_does_not_fit_and_everyone_else_has_spoken,
    a_start_that_this_node_forgot_is_stale,
    a_sum_is_made_again,
    *CHOOSING,
    *LAGGING,
    *PAUSING,
    *PURSUING,
]


@cache
def seen() -> frozenset[Step]:
    """Every step of seeded random walks, and of scripts for steps that chance seldom takes."""
    steps = {step for seed in range(WATCHED, WALKS) for step in Walk(seed).run(STEPS)}
    steps |= {step for seed in range(WATCHED) for step in Walk(seed).run(STEPS, unchanged_if_refused)}
    steps |= {step for seed in range(WALKS // 2) for step in Walk(seed, SOME).run(STEPS)}
    steps |= {step for seed in range(WALKS // 4) for step in Walk(seed, LATE, is_slow=True).run(STEPS)}
    for script in SCRIPTS:
        bench = Recorded(peers=["a"])
        script(bench)
        steps |= bench.steps
    for events in RESTARTS:
        bench = Recorded(peers=[], prepare=False)
        for event in events:
            bench.hear(event)
        steps |= bench.steps
    return frozenset(steps)


def test_no_walk_takes_a_step_that_is_not_listed_and_no_refusal_changes_a_job() -> None:
    assert all(is_legal(*step) for step in seen())


def test_every_listed_step_happens() -> None:
    assert sorted(f"{a} {e.__name__} {b}" for a, e, b in listed() - seen()) == []


def test_a_phase_that_nothing_leads_to_would_be_noticed() -> None:
    reached = {after for row in LEGAL.values() for ends in row.values() for after in ends}
    assert reached | {P.LOADING} == set(Phase)


def test_what_means_the_same_everywhere_changes_no_phase_by_itself() -> None:
    assert all(is_legal(phase, event, phase) for phase in Phase for event in EVERYWHERE)
    assert not is_legal(P.LOADING, PeerLost, P.IDLE)
    assert is_legal(P.EXCHANGING, PeerLost, P.IDLE)  # listed there


def test_a_step_outside_the_table_is_a_bug_and_reported_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LEGAL[P.IDLE], RoundTriggered, frozenset())
    with pytest.raises(IllegalStep, match="RoundTriggered led from IDLE to TRAINING"):
        Bench().hear(RoundTriggered())


def test_an_event_of_the_mesh_is_no_event_of_a_job() -> None:
    with pytest.raises(IllegalStep, match="cannot take MeshStarted"):
        Bench().hear(MeshStarted())


def test_the_picture_has_every_arrow_of_the_table_once() -> None:
    arrows = [line for line in draw().splitlines() if "-->" in line]
    assert "    [*] --> LOADING" in arrows
    assert "    LOADING --> NO_DATA: PrepareFailed" in arrows
    moves = {(before, after) for before, _, after in listed() if before != after}
    assert len(arrows) == len(moves) + 1
