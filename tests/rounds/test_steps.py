"""The table of legal steps is exact: what it lists happens, and nothing else does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache, partial
from random import Random

import pytest

from flnet.errors import IllegalStep, PeerError
from flnet.params.params import Params, PeerId, TrainerId
from flnet.protocol.effects import (
    Average,
    CancelTimer,
    Effect,
    Evaluate,
    Fetch,
    Publish,
    Send,
    SetTimer,
    Train,
)
from flnet.protocol.events import (
    Averaged,
    AveragingFailed,
    ClaimAnswered,
    ClaimReceived,
    DataChanged,
    DeclineReceived,
    Evaluated,
    EvaluationFailed,
    Event,
    Fetched,
    FetchFailed,
    HyperParamsEdited,
    MeshStarted,
    Paused,
    PeerLost,
    PeerSeen,
    Prepared,
    PrepareFailed,
    Resumed,
    RolledBack,
    RoundTriggered,
    SendFailed,
    SendRefused,
    SeriesStopped,
    SumSpoilt,
    TimerFired,
    Trained,
    TrainingAsked,
    TrainingFailed,
    UpdateOffered,
    UpdateReceived,
)
from flnet.protocol.messages import (
    Accuracy,
    ChoiceMessage,
    HyperParams,
    JobMessage,
    ModelParams,
    StartTraining,
)
from flnet.protocol.updates import Claim, RoundKey, Update
from flnet.rounds.job import Job
from flnet.rounds.numbering import ASKED
from flnet.rounds.preemption import STARTS
from flnet.rounds.settings import JobSettings, Rules
from flnet.rounds.steps import EVERYWHERE, LEGAL, VERTICAL, Phase, draw, is_legal
from tests.helpers import HYPER, frozen, key, params, peer
from tests.rounds.helpers import Bench, asked, came, claim, declaration, declined, listed, prepared
from tests.rounds.scenarios import AWAITED, CHOOSING, LATE, OTHERS, PAUSING, RESTARTS, SOME, WITH_GOAL

P = Phase
Step = tuple[Phase, type, Phase]
A = PeerId("a")
STEPS = 150  # of a walk
WATCHED = 20  # walks of which every refusal is looked at
LEAST = 40  # walks, in addition to the known ones
RULES: Mapping[str, Rules | None] = {"usual": None, "some train": SOME, "slow": LATE}
# Seeds of walks by these rules: all, and those known to take between them every listed step that no script takes.
# Where a change of the job leads these elsewhere, the search goes on through all the others.
WALKS = {"usual": range(600), "some train": range(400), "slow": range(150)}
KNOWN = {
    "usual": (15, 31, 68, 225, 226, 252, 344, 356, 390, 461),
    "some train": (14, 19, 130, 135, 163, 177, 240, 244, 285, 361),
    "slow": (5, 10, 44, 118),
}


def unchanged_if_refused(job: Job, event: Event) -> list[Effect]:
    before = frozen(job)
    effects, refusal = [], None
    try:
        effects = job.receive(event)
    except PeerError as exc:
        refusal = exc
    if refusal is None:
        return effects
    assert frozen(job) == before, f"{event} was refused ({refusal}), but changed the job"
    raise refusal


class Recorded(Bench):
    """A bench that notes the steps taken, and those that it would take if others were chosen for its rounds."""

    def __init__(self, peers: Sequence[str], prepare: bool = True) -> None:
        self.steps: set[Step] = set()
        super().__init__(peers=peers, prepare=prepare)

    def hear(self, event: Event) -> list[Effect]:
        before = self.job.phase
        twin = deepcopy(self.job)
        twin.settings.rules = OTHERS
        with suppress(PeerError):
            twin.receive(event)
            self.steps.add((before, type(event), twin.phase))
        effects = super().hear(event)
        self.steps.add((before, type(event), self.job.phase))
        return effects


def next_round_forces_before_the_own_training_is_done(bench: Recorded) -> None:
    bench.hear(RoundTriggered())
    bench.hear(came("a", 0, "b"))
    bench.hear(asked("a", 1))
    bench.average()


def old_work_ends_late(bench: Recorded) -> None:
    bench.through_average(by=["a"])
    old = bench.job.held.model
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
    bench.hear(trained)
    bench.hear(failed)
    bench.hear(FetchFailed(key(0, "b"), A, old.shared.digest, "late"))


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


def a_start_is_compared(word: str, is_measured: bool, bench: Recorded) -> None:
    """The node sits the round out, because a person went back to its own model, and it measures better.

    Args:
        word: of its peer, which has come already.
    """
    bench.start_accuracy = None
    bench.through_round(by=["a"])
    bench.hear(RolledBack(params(w=[8, 8]), Params(), 0, 1))
    bench.hear(asked("a", 1, w=[7, 1]))
    if word:
        bench.hear(declined("a", 1) if word == "declined" else came("a", 1))
    theirs, ours = params(w=[7, 1]).digest, params(w=[8, 8]).digest
    if is_measured:
        bench.hear(Evaluated(key(1), theirs, 0.1))
        bench.hear(Evaluated(key(1), ours, 0.2))
    else:
        bench.hear(EvaluationFailed(key(1), theirs, "killed", "validation"))


COMPARED = [
    partial(a_start_is_compared, word, is_measured)
    for word in ("", "came", "declined")
    for is_measured in (False, True)
]


def a_start_that_cannot_be_fetched_comes_after_all_updates(bench: Recorded) -> None:
    start = replace(asked("a"), params=None, digest=params(w=[9, 9]).digest)
    bench.hear(start)
    bench.hear(came("a"))
    bench.hear(FetchFailed(key(), A, params(w=[9, 9]).digest, "gone"))


def a_start_does_not_fit(bench: Recorded) -> None:
    bench.hear(replace(asked("a"), params=None, digest=params(w=[9, 9]).digest))
    bench.hear(Fetched(key(), A, params(w=[9, 9]).digest, params(w=[1])))


def a_start_that_was_doubted_is_followed(bench: Recorded) -> None:
    bench.hear(replace(asked("a", 5000), params=None, digest=params(w=[9, 9]).digest))
    bench.hear(TimerFired(ASKED))


def left_by_most(phase: Phase, is_offer: bool, is_here: bool, bench: Recorded) -> None:
    """A peer starts one round after the other; while one of them is completed here, it is in the newest one."""
    bench.through_round(by=["a"])
    bench.start_accuracy = None
    w = bench.w if phase is not P.FETCHING else [7, 8]
    for number in (1, 2, 3):
        bench.hear(asked("a", number, w=w if number < 3 else bench.w if is_here else [5, 6]))
    if phase is P.GATHERING:
        bench.train()
    assert (bench.phase, bench.job.number) == (phase, 2)
    bench.hear(offered("a", 3, "a") if is_offer else came("a", 3))


LEFT = [
    partial(left_by_most, phase, is_offer, is_here)
    for phase in (P.FETCHING, P.TRAINING, P.GATHERING)
    for is_offer in (False, True)
    for is_here in (False, True)
]


def starts_wait(phase: Phase, bench: Recorded) -> int:
    """A peer has started rounds before, so that its next start waits; the number of that round."""
    number = bench.through_round(by=["a"]).job.number + 1
    if phase is not P.IDLE:
        bench.hear(RoundTriggered())
        bench.train()
        bench.hear(came("a", number, "b"))
        bench.average()
        number += 1
    if phase is P.EXCHANGING:
        bench.measure()
    for _ in range(STARTS):
        bench.job.series.preemption.entered(key(number, "a"))
    assert bench.phase is phase
    return number


def most_are_in_it(phase: Phase, is_offer: bool, is_here: bool, bench: Recorded) -> None:
    """A start waits; then an update shows that most are in its round."""
    number = starts_wait(phase, bench)
    bench.start_accuracy = None
    bench.hear(asked("a", number, w=bench.w if is_here else [5, 6]))
    assert bench.phase is phase
    bench.hear(offered("a", number, "a") if is_offer else came("a", number))


def most_declined_it(phase: Phase, is_offer: bool, bench: Recorded) -> None:
    """A start waits for whose round only the initiator is chosen, which declines it; then others are further on."""
    number = starts_wait(phase, bench)
    bench.job.settings.rules = OTHERS
    bench.hear(asked("a", number, w=bench.w, choice=ChoiceMessage(members=("a",), take=1)))
    bench.hear(declined("a", number))
    assert bench.phase is phase
    bench.hear(offered("c", number + 1, "c") if is_offer else came("c", number + 1, "c"))
    assert bench.phase is P.IDLE


IN_IT = [
    partial(most_are_in_it, phase, is_offer, is_here)
    for phase in (P.IDLE, P.MEASURING, P.EXCHANGING)
    for is_offer in (False, True)
    for is_here in (False, True)
]
DECLINED = [
    partial(most_declined_it, phase, is_offer)
    for phase in (P.MEASURING, P.EXCHANGING)
    for is_offer in (False, True)
]


def the_mesh_is_ahead(is_fetching: bool, is_alone: bool, current: int, bench: Recorded) -> None:
    """A peer is ahead of this node, which starts the next round and declines it, perhaps as the only one there.

    Args:
        current: the round of the peer; if it is far ahead, the others confirm it.
    """
    number = bench.through_round(by=["a"]).job.number + 1
    if is_fetching:
        bench.hear(came("a", number, "b"))
        bench.start_accuracy = None
        bench.hear(asked("a", number, initiator="b", w=[7, 8]))
    else:
        bench.hear(RoundTriggered())
    if is_alone:
        bench.job.peers.here.clear()
    bench.hear(SendRefused(A, StartTraining.path, key(number, "b"), 409, "stale_round", "over", current))
    bench.job.numbering.confirmed = current
    bench.hear(TimerFired(ASKED))


AHEAD = [
    partial(the_mesh_is_ahead, is_fetching, is_alone, current)
    for is_fetching in (False, True)
    for is_alone in (False, True)
    for current in (7, 5000)
]


def the_next_start_comes_while_the_average_is_measured(bench: Recorded) -> None:
    bench.hear(asked("a"))
    bench.train()
    bench.hear(came("a"))
    bench.average()
    bench.hear(asked("a", 1, w=bench.w))


def the_others_go_on_when_most_updates_are_here(bench: Recorded) -> None:
    bench.hear(PeerSeen(PeerId("c")))
    bench.hear(RoundTriggered())
    bench.train()
    bench.hear(came("a", 0, "b"))
    bench.hear(offered("a", 1, "a"))
    bench.hear(offered("c", 1, "a"))
    assert [update.peer for update in bench.one(Average).updates] == ["a", "b"]


def an_average_was_made_without_it(phase: Phase, event: type, bench: Recorded) -> None:
    """Most peers state the average of the next round.

    Args:
        event: after which they are most.
    """
    others = "cde" if event is PeerLost else ""
    for name in others:
        bench.hear(PeerSeen(PeerId(name)))
    if phase is not P.IDLE:
        bench.hear(RoundTriggered())
    if phase in (P.GATHERING, P.MEASURING, P.EXCHANGING):
        bench.train()
    if phase in (P.MEASURING, P.EXCHANGING):
        for name in "a" + others:
            bench.hear(came(name, 0, "b"))
        bench.average()
    if phase is P.EXCHANGING:
        bench.measure()
    assert bench.phase is phase
    number = bench.job.number + 1
    statements = [ClaimReceived(claim(name, number, contributors=2)) for name in "ac"]
    if event is ClaimReceived:
        bench.hear(PeerSeen(PeerId("c")))
    for statement in statements:
        bench.hear(statement)
    if event is PeerSeen:
        bench.hear(PeerSeen(PeerId("c")))
    if event is PeerLost:
        assert bench.phase is phase
        bench.hear(PeerLost(PeerId("d"), "gone"))
    assert bench.phase is P.FETCHING
    bench.hear(Fetched(key(number, "a"), A, claim("a").digest or params().digest, params(w=[5, 5])))
    assert (bench.phase, bench.w) == (P.MEASURING, [5, 5])


WITHOUT_IT = [
    partial(an_average_was_made_without_it, phase, event)
    for phase in (P.IDLE, P.TRAINING, P.GATHERING, P.MEASURING, P.EXCHANGING)
    for event in (ClaimReceived, PeerSeen, PeerLost)
]


def a_paused_node_hears_the_start_after_all_updates(phase: Phase, bench: Recorded) -> None:
    bench.hear(PeerSeen(PeerId("c")))
    if phase is not P.IDLE:
        bench.through_average(by=["a", "c"])
    number = bench.job.number + 1
    bench.hear(Paused())
    bench.hear(came("a", number))  # one of two peers leads nobody into a round
    bench.hear(PeerLost(PeerId("c"), "gone"))
    assert bench.phase is phase
    bench.hear(asked("a", number, w=bench.w))
    assert bench.phase is P.AVERAGING


AFTER_ALL = [partial(a_paused_node_hears_the_start_after_all_updates, phase) for phase in (P.IDLE, P.EXCHANGING)]


def a_paused_node_hears_the_start_while_it_measures(bench: Recorded) -> None:
    bench.hear(PeerSeen(PeerId("c")))
    bench.hear(RoundTriggered())
    bench.train()
    for name in "ac":
        bench.hear(came(name, 0, "b"))
    bench.average()
    bench.hear(Paused())
    bench.hear(came("a", 1))
    bench.hear(PeerLost(PeerId("c"), "gone"))
    bench.hear(asked("a", 1, w=bench.w))


def rounds_are_requested_while_an_average_is_taken(phase: Phase, bench: Recorded) -> None:
    bench.hear(PeerSeen(PeerId("c")))
    for name in "ac":
        bench.hear(ClaimReceived(claim(name, 3, contributors=2)))
    if phase is P.FETCHING:
        bench.hear(RoundTriggered())
    bench.hear(Fetched(key(3, "a"), A, claim("a").digest or params().digest, params(w=[5, 5])))
    measure = bench.effects
    if phase is P.MEASURING:
        bench.hear(RoundTriggered())
    bench.effects = measure
    bench.measure()
    assert (bench.phase, bench.job.key) == (P.TRAINING, key(4, "b"))


REQUESTED = [partial(rounds_are_requested_while_an_average_is_taken, phase) for phase in (P.FETCHING, P.MEASURING)]


def its_update_was_refused(bench: Recorded) -> None:
    """Most others have averaged without this node, whose update comes too late."""
    for name in "cd":
        bench.hear(PeerSeen(PeerId(name)))
    bench.hear(RoundTriggered())
    bench.train()
    for name in "ac":
        bench.hear(ClaimReceived(claim(name, contributors=2)))
    for name in "ac":
        assert bench.phase is P.GATHERING
        bench.hear(SendRefused(PeerId(name), ModelParams.path, key(0, "b"), 409, "stale_round", "late", 0))
    assert bench.phase is P.FETCHING


def an_average_is_stated_while_others_are_made(bench: Recorded) -> None:
    """In phases in which it is only noted."""
    bench.hear(asked("a", w=[7, 8], digest=None))
    bench.hear(ClaimReceived(claim("a", 5, contributors=2)))
    bench.train()
    to_average = bench.hear(came("a"))
    bench.hear(ClaimReceived(claim("a", 6, contributors=2)))
    bench.effects = to_average
    bench.average()
    bench.hear(ClaimReceived(claim("a", 7, contributors=2)))


def an_average_is_stated_while_a_start_is_fetched(bench: Recorded) -> None:
    bench.hear(replace(asked("a"), params=None, digest=params(w=[9, 9]).digest))
    bench.hear(ClaimReceived(claim("a", 5, contributors=2)))


SCRIPTS: list[Callable[[Recorded], None]] = [
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
    a_start_that_cannot_be_fetched_comes_after_all_updates,
    a_start_does_not_fit,
    a_start_that_was_doubted_is_followed,
    the_next_start_comes_while_the_average_is_measured,
    *LEFT,
    *IN_IT,
    *DECLINED,
    the_others_go_on_when_most_updates_are_here,
    *AHEAD,
    *WITHOUT_IT,
    *AFTER_ALL,
    *REQUESTED,
    a_paused_node_hears_the_start_while_it_measures,
    its_update_was_refused,
    an_average_is_stated_while_others_are_made,
    an_average_is_stated_while_a_start_is_fetched,
    *COMPARED,
    *CHOOSING,
    *AWAITED,
    *PAUSING,
    *WITH_GOAL,
]


def scripted() -> set[Step]:
    """The steps of the scripts."""
    steps: set[Step] = set()
    for script in SCRIPTS:
        bench = Recorded(peers=["a"])
        script(bench)
        steps |= bench.steps
    for events in RESTARTS:
        bench = Recorded(peers=[], prepare=False)
        for event in events:
            bench.hear(event)
        steps |= bench.steps
    return steps


def walked(seed: int, rules: str) -> set[Step]:
    """The steps of one random walk."""
    around = unchanged_if_refused if rules == "usual" and seed < WATCHED else Job.receive
    return Walk(seed, RULES[rules], is_slow=rules == "slow").run(STEPS, around)


@cache
def seen(is_thorough: bool) -> frozenset[Step]:
    """Every step of the scripts and of seeded random walks: of all of these, or until each listed step was taken."""
    steps = scripted()
    for rules, seeds in KNOWN.items():
        for seed in seeds:
            steps |= walked(seed, rules)
    others = ((seed, rules) for rules, seeds in WALKS.items() for seed in seeds if seed not in KNOWN[rules])
    for number, (seed, rules) in enumerate(others):
        if number >= LEAST and not is_thorough and listed() <= steps:
            break
        steps |= walked(seed, rules)
    return frozenset(steps)


@pytest.fixture
def steps(pytestconfig: pytest.Config) -> frozenset[Step]:
    return seen(bool(pytestconfig.getoption("--long")))


def test_no_walk_takes_a_step_that_is_not_listed_and_no_refusal_changes_a_job(steps: frozenset[Step]) -> None:
    assert all(is_legal(*step) for step in steps)


def test_every_listed_step_happens(steps: frozenset[Step]) -> None:
    assert sorted(f"{a} {e.__name__} {b}" for a, e, b in listed() - steps) == []


def test_a_phase_that_nothing_leads_to_would_be_noticed() -> None:
    reached = {after for row in LEGAL.values() for ends in row.values() for after in ends}
    assert reached | {P.LOADING, P.ALIGNING} == set(Phase)  # ALIGNING: of vertical jobs


def test_what_means_the_same_everywhere_changes_no_phase_by_itself() -> None:
    assert all(is_legal(phase, event, phase) for phase in LEGAL for event in EVERYWHERE)
    assert all(is_legal(phase, event, phase, VERTICAL) for phase in VERTICAL for event in EVERYWHERE)
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


# --- What people see of a job: its view and its history.


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
    views, busy = [bench.job.view().as_json()], [bench.job.busy]
    updates = (came("a", 0, "b"), came("c", 0, "b"))
    for step in (prepared(), RoundTriggered(), bench.train, *updates, bench.average, bench.measure):
        step() if callable(step) else bench.hear(step)
        views.append(bench.job.view().as_json())
        busy.append(bench.job.busy)
    phases = ["LOADING", "IDLE", "TRAINING", "GATHERING", "GATHERING", "AVERAGING", "MEASURING", "EXCHANGING"]
    assert [view["phase"] for view in views] == phases
    assert busy == [False, False] + [True] * 6
    assert all(view.keys() >= JOB_VIEW for view in views)
    assert json.dumps(views)


def test_the_view_before_the_first_round() -> None:
    view = Bench(data={"source": "made up"}).job.view().as_json()
    assert (view["trainer_label"], view["current_round"], view["fed_learn_done"]) == ("T", -1, "No")
    assert (view["outcome"], view["waiting_for"], view["received"], view["error"]) == ("", [], [], None)
    assert (view["federated_learning_params"], view["hyper"]) == (HYPER.words(), {"e": 2, "u": 1e-05, "b": 64})
    assert view["data"] == {"source": "made up"}


def test_the_view_while_waiting_names_who_is_missing() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    bench.hear(came("c", 0, "b"))
    bench.train()
    view = bench.job.view().as_json()
    assert (view["waiting_for"], view["received"], view["initiator"]) == (["a"], ["b", "c"], "b")


def test_the_view_in_the_exchange_names_whose_claims_are_missing() -> None:
    bench = Bench().through_average()
    bench.hear(ClaimReceived(claim("c", accuracy=0.1)))
    assert bench.job.view().waiting_for == ["a"]


def test_the_view_after_a_round() -> None:
    bench = Bench().through_round()
    view = bench.job.view().as_json()
    assert (view["current_round"], view["fed_learn_done"], view["model_was_exchanged"]) == (0, "Yes", "No")
    assert (view["pre_fedavg_accuracy"], view["post_fedavg_accuracy"]) == (0.5, 0.8)
    assert view["outcome"] == "averaged 3 updates: all expected updates arrived"
    assert (view["contributors"], view["digest"]) == (3, bench.job.records()[-1]["digest"])


def test_the_end_of_a_round_is_told_with_its_accuracies() -> None:
    bench = Bench(peers=[])
    bench.hear(RoundTriggered())
    bench.train(accuracy=0.25)
    bench.average()
    bench.measure(0.75)
    closed = next(publish for publish in bench.all(Publish) if publish.kind == "round_closed")
    assert closed.text.endswith("accuracy here 0.2500 before, 0.7500 after")
    record, untold = bench.job.records()[0], ("contributions", "weighed", "left_out")
    told = {name: value for name, value in record.items() if name not in untold}
    assert closed.data == {**told, "round": 0}


def test_the_figures_of_the_last_round_stay_until_the_next_has_some() -> None:
    bench = Bench().through_round()
    bench.hear(RoundTriggered())
    view = bench.job.view().as_json()
    assert (view["phase"], view["pre_fedavg_accuracy"], view["fed_learn_done"]) == ("TRAINING", 0.5, "No")
    bench.train(accuracy=0.6)
    assert bench.job.view().pre_fedavg_accuracy == 0.6


def test_the_history_has_a_record_per_round_oldest_first() -> None:
    bench = Bench().through_round(0).through_round(1)
    history = bench.job.records()
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
    (record,) = bench.job.records()
    assert (record["round"], record["outcome"]) == (0, "cut short: a started round 4")


@pytest.mark.parametrize("own", [None, HyperParams(e=9, u=0.5, b=1)])
def test_the_record_says_what_this_node_really_trained_with(own: HyperParams | None) -> None:
    bench = Bench(peers=[])
    bench.hear(RoundTriggered())
    bench.hear(Trained(key(0, "b"), params(w=[1, 1]), 1, 0.5, hyper=own))
    used = (own or HYPER).fields()
    assert bench.job.view().as_json()["used_hyper"] == used
    bench.average()
    bench.measure()
    assert bench.job.records()[0]["used_hyper"] == used


# --- A random walk of one job through everything that a node, its peers and strangers can do to it.


ME, LOW, HIGH = PeerId("m"), PeerId("a"), PeerId("z")
PEERS = (LOW, HIGH)
NAN = float("nan")


@dataclass
class Outside:
    """What the job asked for and has not been told the end of."""

    work: list[Train | Average | Evaluate | Fetch] = field(default_factory=list)
    timers: set[str] = field(default_factory=set)
    sent: list[tuple[PeerId, JobMessage]] = field(default_factory=list)

    def note(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Train() | Average() | Evaluate() | Fetch():
                    self.work.append(effect)
                case SetTimer(name):
                    self.timers.add(name)
                case CancelTimer(name):
                    self.timers.discard(name)
                case Send(to, message):
                    assert isinstance(message, JobMessage)
                    self.sent += [(peer, message) for peer in to]


class Walk:
    """One job and what may happen to it next."""

    def __init__(self, seed: int, rules: Rules | None = None, is_slow: bool = False) -> None:
        self.rng = Random(seed)
        self.choices = Random(seed) if rules else None  # of who trains; apart, as the person is
        self.job = Job(JobSettings(peer("m"), TrainerId("T"), rules=rules or Rules()))
        for name in (ME, LOW, HIGH) if is_slow else ():
            self.job.peers.paces.note(name, 50.0 if name == ME else 1.0, 1)
        self.outside = Outside()
        self.steps: set[Step] = set()
        # Walks differ in what mostly happens in them: a mix of everything at once rarely gets anywhere.
        self.chatter = self.rng.choice([0.05, 0.15, 0.4])
        self.newest_first = self.rng.choice([0.0, 0.9])  # whether ends of old work come late, or in between
        self.failures = self.rng.choice([0.0, 0.2, 0.5])
        self.person = Random(~seed)  # apart, so that walks without a person are the same whatever a person may do
        self.steering = self.person.choice([0.0] * 5 + [0.2])
        self.talk = [self.rng.choice([0, 1, 4]) for _ in range(7)] + [1]

    def run(self, steps: int, around: Callable[[Job, Event], list[Effect]] = Job.receive) -> set[Step]:
        """Take steps; `around` passes the event to the job, and may look before and after."""
        for event in self._events(steps):
            before = self.job.phase
            try:
                effects = around(self.job, event)
            except PeerError:
                assert self.job.phase == before
                continue
            self.outside.note(effects)
            self.steps.add((before, type(event), self.job.phase))
        return self.steps

    def _events(self, steps: int) -> Iterator[Event]:
        for _ in range(self.rng.randrange(4)):
            yield self._from_peers()
        if self.rng.random() < 0.3:
            yield PrepareFailed("no data")
            if self.rng.random() < 0.3:
                yield PrepareFailed("still no data")
            for _ in range(self.rng.randrange(4)):
                yield self._from_peers()
        if self.steering and self.person.random() < 0.5:
            yield Paused()
        by_import = self.job.phase is Phase.NO_DATA and self.newest_first > 0
        yield (DataChanged if by_import else Prepared)(declaration(), self._params())
        for _ in range(steps):
            yield self._next()

    def _next(self) -> Event:
        if self.person.random() < self.steering:
            older = RolledBack(params(w=[self.person.randrange(50), 1.0]), Params(), 0, 1, 0.5)
            return self.person.choice([SeriesStopped(), Paused(), Resumed(), older])
        if self.rng.random() < self.chatter:
            return self._from_peers()
        roll = self.rng.random()
        if roll < 0.5 and self.outside.work:
            return self._end_of_work()
        if roll < 0.6 and self.outside.timers:
            name = self.rng.choice(sorted(self.outside.timers))
            self.outside.timers.discard(name)
            return TimerFired(name)
        if roll < 0.9 and self.outside.sent:
            return self._end_of_send()
        until = "accuracy>=0.9, no-gain 3, within 9" if self.person.random() < 0.3 else None
        return RoundTriggered(self.rng.choice([1, 9]), until=until)

    def _end_of_work(self) -> Event:
        last = len(self.outside.work) - 1
        work = self.outside.work.pop(last if self.rng.random() < self.newest_first else self.rng.randint(0, last))
        fails = self.rng.random() < self.failures
        match work:
            case Train(key):
                if fails:
                    return TrainingFailed(key, "out of memory")
                spoiled = self.rng.random() < 0.1
                return Trained(key, params(w=[NAN, 1]) if spoiled else self._params(), 5, self.rng.random())
            case Average(key):
                return AveragingFailed(key, "overflow") if fails else Averaged(key, self._params())
            case Fetch(key, peer, digest):
                if fails:
                    return FetchFailed(key, peer, digest, "gone")
                return Fetched(key, peer, digest, self._params(good=0.9))
            case Evaluate(key, _, shared):
                if fails:
                    return EvaluationFailed(key, shared.digest, "killed")
                return Evaluated(key, shared.digest, self.rng.random())

    def _end_of_send(self) -> Event:
        to, message = self.outside.sent.pop(self.rng.randrange(len(self.outside.sent)))
        key = RoundKey(message.round, PeerId(message.initiator or ""))
        roll = self.rng.random()
        if roll < 0.3:
            return SendFailed(to, message.path, key, "lost")
        if roll > 0.5 and isinstance(message, Accuracy):
            return ClaimAnswered(self._claim(to, message.round))
        status, code = self.rng.choice(
            [
                (404, "no_data"),
                (422, "params_refused"),
                (409, "stale_round"),
                (409, "round_lost"),
                (503, "not_ready"),
            ]
        )
        if isinstance(message, Accuracy):
            status, code = self.rng.choice([(400, "not_comparable"), (status, code)])
        ahead = message.round + self.rng.choice([0, 1, 3]) if isinstance(message, StartTraining) else None
        return SendRefused(to, message.path, key, status, code, "words", ahead)

    def _from_peers(self) -> Event:
        who = self.rng.choice(PEERS)
        key = self._key()
        match self.rng.choices(range(8), self.talk)[0]:
            case 0:
                if self.rng.random() < 0.4:
                    offer = Update(who, key, Params(), 3)
                    return UpdateOffered(offer, self._params().digest, choice=self._choice())
                return UpdateReceived(Update(who, key, self._params(good=0.9), 3), choice=self._choice())
            case 1:
                key = RoundKey(key.number, key.initiator or who)  # a start without an initiator is its sender's
                start = self._params(good=0.9)
                sent = None if self.rng.random() < 0.4 else start
                found, before = self._choice(), key.number - 1
                return TrainingAsked(who, key, sent, HYPER, before, 2, digest=start.digest, choice=found)
            case 2:
                return DeclineReceived(who, key, "no time")
            case 3:
                return ClaimReceived(self._claim(who, key.number))
            case 4:
                return PeerLost(who, "silent")
            case 5 | 6:
                return PeerSeen(who)
            case _:
                return HyperParamsEdited({"e": 3})

    def _key(self) -> RoundKey:
        job = self.job
        if job.key is not None and self.rng.random() < 0.5:
            return job.key
        number = max(0, job.number + self.rng.choice([-1, 0, 0, 1, 1, 2]))
        return RoundKey(number, self.rng.choice([LOW, LOW, ME, HIGH, PeerId("")]))

    def _choice(self) -> ChoiceMessage | None:
        if self.choices is None or self.choices.random() < 0.3:
            return None
        return ChoiceMessage(members=(LOW, ME, HIGH), take=self.choices.choice([1, 2]))

    def _claim(self, who: PeerId, round: int) -> Claim:
        model = self._params(good=0.9)
        sent = None if self.rng.random() < 0.4 else model
        return Claim(who, round, self.rng.random(), model.digest, self.rng.randrange(4), sent)

    def _params(self, good: float = 1.0) -> Params:
        if self.rng.random() > good:
            return self.rng.choice([params(w=[1.0]), params(w=[NAN, 1.0]), params(v=[1.0, 2.0])])
        return params(w=[self.rng.randrange(50), 1.0])
