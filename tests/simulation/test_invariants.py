"""The ledger reports every violation, and random schedules find bugs that somebody might write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from flnet.membership import members
from flnet.membership.announcing import Announcer
from flnet.membership.roster import Roster
from flnet.node.performer import CommitQueue, StateSaver, Step
from flnet.params.params import PeerId, TrainerId
from flnet.protocol.effects import Average, CancelTimer, Effect, KeptUpdate, Save, SetTimer
from flnet.protocol.events import Mark, UpdateReceived
from flnet.protocol.updates import RoundKey, Update
from flnet.rounds.gathering import Closing, Gathering
from flnet.rounds.job import Job
from flnet.rounds.model import HeldModel
from flnet.rounds.round import Round
from flnet.simulation.invariants import Accepted, InvariantBroken, Ledger, VersionLedger
from flnet.simulation.schedule import Reduction, draw
from flnet.simulation.search import broken_by, play
from flnet.store.base import SavedJob
from tests.helpers import key, params, update
from tests.simulation.helpers import forget_updates

A, B, C = PeerId("a"), PeerId("b"), PeerId("c")
RESULT = params(w=[2.0])
OWN, OF_B, OF_C = update("a", w=[1.0]), update("b", w=[3.0]), update("c", w=[4.0])


def ledger(*sent: Update) -> Ledger:
    book = Ledger()
    for one in sent:
        book.sent_update(one.peer, one.key, one.params)
    return book


def average(*updates: Update, number: int = 0) -> Average:
    return Average(key(number), updates)


# The ledger.


def test_a_correct_round_is_recorded() -> None:
    book = ledger(OF_B)
    book.averaged(A, average(OWN, OF_B), RESULT)
    assert book.averages == {(A, 0): RESULT.digest}


@pytest.mark.parametrize(
    ("sent", "effect", "reason"),
    [
        ([OF_B], average(OF_B, OF_B), "twice, or out of order"),
        ([OF_B, OF_C], average(OF_C, OF_B), "out of order"),
        ([], average(OF_B), "a averages b"),
        ([OF_B], average(update("b", w=[3.5])), "a averages b"),
        ([OF_B], average(OF_B, number=1), "a averages b"),
    ],
    ids=["counted twice", "out of order", "never sent", "changed in transit", "of another round"],
)
def test_a_wrong_average_is_found(sent: list[Update], effect: Average, reason: str) -> None:
    with pytest.raises(InvariantBroken, match=reason):
        ledger(*sent).averaged(A, effect, RESULT)


@pytest.mark.parametrize("initiator", ["n1", "z"])
def test_two_averages_of_one_round_are_found_for_every_initiator(initiator: str) -> None:
    book = ledger()
    book.averaged(A, average(OWN), RESULT)
    with pytest.raises(InvariantBroken, match="a averaged twice in round 0"):
        book.averaged(A, Average(key(0, initiator), (update("a", initiator=initiator, w=[1.0]),)), RESULT)


def test_equal_sets_of_updates_give_equal_averages() -> None:
    book = ledger(OF_B, OWN)
    book.averaged(A, average(OWN, OF_B), RESULT)
    with pytest.raises(InvariantBroken, match="c averaged an equal set to another digest"):
        book.averaged(C, average(OWN, OF_B), params(w=[2.5]))
    other = ledger(OWN)
    other.averaged(A, average(update("a", examples=1, w=[1.0])), RESULT)
    other.averaged(B, average(update("a", examples=2, w=[1.0])), params(w=[2.5]))  # other examples: another set
    late = replace(update("a", examples=1, w=[1.0]), staleness=1)
    other.averaged(C, average(late), params(w=[2.5]))  # so is one that says of itself that it is late


def test_an_update_that_changes_is_found() -> None:
    for changed in (update("b", w=[3.5]).params, OF_B.params):
        with pytest.raises(InvariantBroken, match="b sends another update of"):
            ledger(OF_B).sent_update(B, OF_B.key, changed, staleness=int(changed is OF_B.params))


def test_a_round_that_goes_back_is_found() -> None:
    book = ledger()
    book.entered_round(B, 4)
    book.entered_round(A, 0)
    with pytest.raises(InvariantBroken, match="b went back to round 0"):
        book.entered_round(B, 0)


def test_an_acknowledged_update_must_be_on_the_disk() -> None:
    book = ledger()
    disk = SavedJob({"updates_from": 0}, updates=(KeptUpdate(OF_B),))
    book.acknowledged_update(A, Accepted(B, OF_B.key, counts=True), disk)
    # Its round is over.
    book.acknowledged_update(A, Accepted(C, key(0), counts=True), SavedJob({"updates_from": 1}))
    with pytest.raises(InvariantBroken, match=r"a acknowledged c's .*, which is not on its disk"):
        book.acknowledged_update(A, Accepted(C, key(0), counts=False), disk)


def test_an_acknowledged_update_must_be_in_the_average_whichever_came_first() -> None:
    disk, accepted = SavedJob({"updates_from": 0}, updates=(KeptUpdate(OF_B),)), Accepted(B, OF_B.key, counts=True)
    book = ledger()
    book.averaged(A, average(OWN), RESULT)
    with pytest.raises(InvariantBroken, match=r"averaged .* without b, which it acknowledges now"):
        book.acknowledged_update(A, accepted, disk)
    book = ledger()
    book.acknowledged_update(A, accepted, disk)
    with pytest.raises(InvariantBroken, match=r"without \['b'\], which it acknowledged"):
        book.averaged(A, average(OWN), RESULT)


def test_a_model_that_is_no_better_is_adopted_only_instead_of_an_average_that_differs_from_others() -> None:
    book = ledger()
    book.averaged(A, average(OWN), RESULT, apart=params(w=[0.0]).digest)
    book.adopted(A, RESULT.digest, 0.9, 0.9, 0.02)
    for node, after in ((A, 0.2), (B, 0.9), (B, 0.2)):
        with pytest.raises(
            InvariantBroken, match=rf"{node} adopted a model of accuracy {after}00, its own had 0\.900"
        ):
            book.adopted(node, RESULT.digest, 0.9, after, 0.02)


def test_a_version_that_nobody_told_is_not_merged() -> None:
    with pytest.raises(InvariantBroken, match="a merges what b never told"):
        VersionLedger().averaged(A, average(OF_B), RESULT)


# Planted bugs: the first sixty schedules find each of them.

Plant = Callable[[pytest.MonkeyPatch], None]
WITHIN = 60  # schedules


def forgets_to_save_what_it_acknowledges(patch: pytest.MonkeyPatch) -> None:
    forget_updates(patch)


def acknowledges_with_a_broken_disk(patch: pytest.MonkeyPatch) -> None:
    async def fine(self: StateSaver, *heard: object) -> None:
        pass

    patch.setattr(StateSaver, "ensure_saved", fine)


def shows_what_is_not_saved_yet(patch: pytest.MonkeyPatch) -> None:
    run, ended = CommitQueue._run, CommitQueue._end

    async def hasty(self: CommitQueue) -> None:
        for step in self._waiting:
            await self._end(step)
        await run(self)

    async def end(self: CommitQueue, step: Step) -> None:
        if not step.answered.done():
            await ended(self, step)

    patch.setattr(CommitQueue, "_run", hasty)
    patch.setattr(CommitQueue, "_end", end)


def keeps_the_last_of_merged_saves(patch: pytest.MonkeyPatch) -> None:
    save = StateSaver.save

    async def last(self: StateSaver, trainer: TrainerId, *effects: Save) -> bool:
        return await save(self, trainer, *effects[-1:])

    patch.setattr(StateSaver, "save", last)


def never_refutes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(members, "accused", lambda s, claim, by: [])


def repeats_nothing(patch: pytest.MonkeyPatch) -> None:
    def met(self: Job, peer: PeerId) -> list[Effect]:
        self.peers.met(peer)
        return []

    patch.setattr(Job, "_met", met)


def accepts_rounds_that_are_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Job, "_must_beat", lambda self, key: None)


def counts_updates_twice(patch: pytest.MonkeyPatch) -> None:
    close = Gathering.close

    def twice(self: Gathering, why: Closing) -> list[Effect]:
        return [Average(e.key, e.updates * 2) if isinstance(e, Average) else e for e in close(self, why)]

    patch.setattr(Gathering, "close", twice)


def averages_in_the_order_of_arrival(patch: pytest.MonkeyPatch) -> None:
    def close(self: Gathering, why: Closing) -> list[Effect]:
        self.closed = why
        average = [Average(self.key, tuple(self.updates.values()))] if self.updates else []
        return [CancelTimer(self.timer), *average]

    patch.setattr(Gathering, "close", close)


def takes_late_updates_into_another_average(patch: pytest.MonkeyPatch) -> None:
    update_received = Round.update_received

    def reopened(self: Round, event: UpdateReceived) -> list[Effect]:
        self.gathering.closed = None
        return update_received(self, event)

    patch.setattr(Round, "update_received", reopened)


def waits_for_ever(patch: pytest.MonkeyPatch) -> None:
    def spoken(self: Gathering, peer: PeerId) -> list[Effect]:
        return [] if self.missing else self.close(Closing.COMPLETE)

    patch.setattr(Gathering, "_spoken", spoken)


def keeps_its_own_of_two_rounds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RoundKey, "beats", lambda self, other: self.number > other.number)


def forgets_the_open_round_in_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Job, "_go_on", lambda self: [])


def takes_a_forgotten_start_for_a_duplicate(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Round, "was_started_again", lambda self, run: False)


def never_declares_a_node_dead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Roster, "bury", lambda self, peer: [])


def never_tries_the_dead_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Announcer, "retry", lambda self, address: SetTimer("nothing", 1.0))


PLANTS: tuple[tuple[Plant, str], ...] = (
    (forgets_to_save_what_it_acknowledges, "not on its disk"),
    (acknowledges_with_a_broken_disk, "not on its disk"),
    (shows_what_is_not_saved_yet, "not on its disk"),
    (keeps_the_last_of_merged_saves, "not on its disk"),
    (never_refutes, "no agreement"),
    (repeats_nothing, "closed the last round without"),
    (accepts_rounds_that_are_over, "round"),
    (counts_updates_twice, "twice"),
    (averages_in_the_order_of_arrival, "out of order"),
    (takes_late_updates_into_another_average, "averaged twice"),
    (waits_for_ever, "rounds do not close"),
    (keeps_its_own_of_two_rounds, "last round"),
    (forgets_the_open_round_in_a_restart, "last round"),
    (takes_a_forgotten_start_for_a_duplicate, "hold models"),
    (never_declares_a_node_dead, "no agreement"),
    (never_tries_the_dead_again, "no agreement"),
)


SLOW = (never_declares_a_node_dead, never_tries_the_dead_again, acknowledges_with_a_broken_disk)


@pytest.mark.parametrize(
    ("plant", "reason"),
    [
        pytest.param(plant, reason, marks=[pytest.mark.long] if plant in SLOW else [], id=plant.__name__)
        for plant, reason in PLANTS
    ],
)
def test_a_bug_is_found(plant: Plant, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    (failure,) = broken_by(range(WITHIN))
    assert reason in failure.reason


def forgets_its_versions_in_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HeldModel, "restore_own", lambda *given: None)


def takes_later_versions_for_known(patch: pytest.MonkeyPatch) -> None:
    newer = Mark.is_newer_than
    patch.setattr(Mark, "is_newer_than", lambda self, other: self.number < 3 and newer(self, other))


@pytest.mark.parametrize(
    ("plant", "reason"),
    [(forgets_its_versions_in_a_restart, ""), (takes_later_versions_for_known, "has not merged")],
)
def test_a_bug_of_asynchronous_meshes_is_found(plant: Plant, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    failures = (play(Reduction(asynchronous=True).of(draw(seed))) for seed in range(40))
    assert any(failure is not None and reason in failure.reason for failure in failures)
