"""Bugs that somebody might write: schedules drawn at random find each of them, and soon."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flnet.effects import Average, CancelTimer, Effect, Publish, Save, SetTimer
from flnet.events import UpdateReceived
from flnet.jobs import gathering, starting
from flnet.jobs import job as job_steps
from flnet.jobs.state import JobState
from flnet.membership import knowing
from flnet.membership.announcing import Announcer
from flnet.membership.roster import Roster
from flnet.node.keeper import Keeper
from flnet.node.line import Line, Step
from flnet.params import PeerId, RoundKey, TrainerId
from flnet.rounds import Averaging, Closing
from flnet.simulation.playing import broken_by

Plant = Callable[[pytest.MonkeyPatch], None]
WITHIN = 60  # schedules


def forgets_to_save_what_it_acknowledges(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gathering, "_kept", lambda s, event: Publish("forgotten", "not saved"))


def acknowledges_with_a_broken_disk(patch: pytest.MonkeyPatch) -> None:
    async def fine(self: Keeper, *heard: object) -> None:
        pass

    patch.setattr(Keeper, "must_be_kept", fine)


def shows_what_is_not_saved_yet(patch: pytest.MonkeyPatch) -> None:
    run = Line._run

    async def hasty(self: Line) -> None:
        for step in self._waiting:
            await self._end(step)
        await run(self)

    async def end(self: Line, step: Step) -> None:
        if not step.answered.done():
            await ended(self, step)

    ended = Line._end
    patch.setattr(Line, "_run", hasty)
    patch.setattr(Line, "_end", end)


def keeps_the_last_of_merged_saves(patch: pytest.MonkeyPatch) -> None:
    save = Keeper.save

    async def last(self: Keeper, trainer: TrainerId, *effects: Save) -> bool:
        return await save(self, trainer, *effects[-1:])

    patch.setattr(Keeper, "save", last)


def never_refutes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(knowing, "accused", lambda s, claim, by: [])


def says_nothing_again(patch: pytest.MonkeyPatch) -> None:
    def met(s: JobState, peer: PeerId) -> list[Effect]:
        s.peers.add(peer)
        return []

    patch.setattr(job_steps, "met", met)


def accepts_rounds_that_are_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(starting, "must_beat", lambda s, key: None)


def averages_in_the_order_of_arrival(patch: pytest.MonkeyPatch) -> None:
    def close(self: Averaging, why: Closing) -> list[Effect]:
        self.closed = why
        average = [Average(self.key, tuple(self.updates.values()))] if self.updates else []
        return [CancelTimer(self.timer), *average]

    patch.setattr(Averaging, "close", close)


def takes_late_updates_into_another_average(patch: pytest.MonkeyPatch) -> None:
    of_this_round = gathering._of_this_round

    def reopened(s: JobState, event: UpdateReceived) -> list[Effect]:
        if s.averaging is not None:
            s.averaging.closed = None
        return of_this_round(s, event)

    patch.setattr(gathering, "_of_this_round", reopened)


def waits_for_ever(patch: pytest.MonkeyPatch) -> None:
    def spoken(self: Averaging, peer: PeerId) -> list[Effect]:
        return [] if self.missing else self.close(Closing.COMPLETE)

    patch.setattr(Averaging, "_spoken", spoken)


def keeps_its_own_of_two_rounds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RoundKey, "beats", lambda self, other: self.number > other.number)


def forgets_the_open_round_in_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(job_steps, "going_on", lambda s: [])


def takes_a_start_that_was_forgotten_for_a_duplicate(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(starting, "_repeated", lambda s, event: [])


def never_buries_anyone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Roster, "bury", lambda self, peer: [])


def never_tries_the_dead_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Announcer, "retry", lambda self, address: SetTimer("nothing", 1.0))


PLANTS: tuple[tuple[Plant, str], ...] = (
    (forgets_to_save_what_it_acknowledges, "not on its disk"),
    (acknowledges_with_a_broken_disk, "not on its disk"),
    (shows_what_is_not_saved_yet, "not on its disk"),
    (keeps_the_last_of_merged_saves, "not on its disk"),
    (never_refutes, "no agreement"),
    (says_nothing_again, "closed the last round without"),
    (accepts_rounds_that_are_over, "round"),
    (averages_in_the_order_of_arrival, "out of order"),
    (takes_late_updates_into_another_average, "averaged twice"),
    (waits_for_ever, "rounds do not close"),
    (keeps_its_own_of_two_rounds, "last round"),
    (forgets_the_open_round_in_a_restart, "last round"),
    (takes_a_start_that_was_forgotten_for_a_duplicate, "hold models"),
    (never_buries_anyone, "no agreement"),
    (never_tries_the_dead_again, "no agreement"),
)


@pytest.mark.parametrize(("plant", "words"), PLANTS, ids=[plant.__name__ for plant, _ in PLANTS])
def test_a_bug_is_found(plant: Plant, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    (failure,) = broken_by(range(WITHIN))
    assert words in failure.words
