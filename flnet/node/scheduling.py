"""Asks each job's schedule from time to time whether this node should start a round, or stay out of others'."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from flnet.errors import JobBusy
from flnet.events import Planned, RoundTriggered, WillingnessChanged
from flnet.jobs import Job, Phase
from flnet.node.base import View
from flnet.node.core import NodeCore
from flnet.node.timers import Deliver
from flnet.params import TrainerId
from flnet.policies.schedule import Facts, Moment, Schedule

EVERY_SECONDS = 5.0  # between two questions
AGAIN_SECONDS = 30.0  # between two starts of one job, whatever its schedule says


class Schedules:
    """The schedules of a node's jobs: of each the one that a person gave it, or else the node's own."""

    def __init__(
        self,
        core: NodeCore,
        deliver: Deliver,
        usual: Schedule | None = None,
        clock: Callable[[bool], Moment] = lambda machine: Moment(0.0, 0.0),
    ) -> None:
        """Args:
        deliver: takes the events that come of it.
        usual: for jobs to which nobody gave one.
        clock: tells what a schedule may ask; battery and load only if told that one asks for them.
        """
        self._core, self._deliver, self._clock = core, deliver, clock
        self.usual = usual or Schedule()
        self._seen: dict[TrainerId, int] = {}  # the newest round that was noticed
        self._started: dict[TrainerId, float] = {}  # when a round was asked for last

    async def keep(self) -> None:
        """Ask from time to time, until cancelled."""
        while True:
            self.tick()
            await asyncio.sleep(EVERY_SECONDS)

    def tick(self) -> None:
        """Ask for every job."""
        moment = self._moment()
        for trainer, job in self._core.jobs.items():
            if job.phase is not Phase.LOADING:
                self._ask(trainer, job, moment)

    def of(self, trainer: TrainerId) -> Schedule:
        """The schedule that counts for a job.

        Raises:
            UnknownTrainer: no such job.
        """
        when = self._core.job(trainer).state.plan.when
        return self.usual if when is None else Schedule.parse(when)

    def plan(self, trainer: TrainerId, when: str | None) -> Planned:
        """What a job hears when a person gives it a schedule, or (None) takes it back.

        Raises:
            UnknownTrainer: no such job.
            InvalidMessage: it is no schedule.
            JobBusy: the trainer is still loading.
        """
        if self._core.job(trainer).phase is Phase.LOADING:
            raise JobBusy(f"{trainer} is still loading its data")
        return Planned(None if when is None else str(Schedule.parse(when)), self._clock(False).now)

    def view(self, trainer: TrainerId) -> View:
        """When and why the next round starts by itself, as JSON-ready data.

        Raises:
            UnknownTrainer: no such job.
        """
        job, moment, schedule = self._core.job(trainer), self._moment(), self.of(trainer)
        waits = job.phase in (Phase.LOADING, Phase.NO_DATA) or _is_engaged(job)
        found = None if waits else schedule.next_start(_facts(job, moment), moment)
        return {
            "when": str(schedule),
            "by_person": job.state.plan.when is not None,
            "next_seconds": None if found is None or found.seconds is None else round(found.seconds),
            "next_words": "" if found is None else found.words,
            "new_examples": job.state.arrived.rows,
            "unwilling": job.state.unwilling,
        }

    def _moment(self) -> Moment:
        of = [self.of(trainer) for trainer in self._core.jobs]
        return self._clock(any(one.battery is not None or one.load is not None for one in of))

    def _ask(self, trainer: TrainerId, job: Job, moment: Moment) -> None:
        schedule, state = self.of(trainer), job.state
        since, seen = state.plan.since, self._seen.get(trainer, state.number)
        is_known = seen == state.number and since is not None and since <= moment.now  # the clock may be put back
        self._seen[trainer] = state.number
        if schedule.every is not None and not is_known:
            self._deliver(trainer, Planned(state.plan.when, moment.now))
            return
        if (reason := schedule.unwilling(moment)) != state.unwilling:
            self._deliver(trainer, WillingnessChanged(reason))
        if job.phase is not Phase.IDLE or _is_engaged(job):
            return
        if 0 <= moment.now - self._started.get(trainer, float("-inf")) < AGAIN_SECONDS:
            return
        if why := schedule.due(_facts(job, moment), moment):
            self._started[trainer] = moment.now
            self._deliver(trainer, RoundTriggered(why=why))


def _is_engaged(job: Job) -> bool:
    """Whether a person paused the job, or asked for rounds that are under way."""
    state = job.state
    return state.paused or state.rounds_left > 0 or state.pursuit.series is not None


def _facts(job: Job, moment: Moment) -> Facts:
    state = job.state
    a, since = state.arrived, state.plan.since
    held = state.model.shared.digest if state.model else None
    now = moment.now if since is None else since
    rows = a.rows_to_start_for
    if not rows or a.fresh is None or a.base is None or a.model != held:
        return Facts(now, rows)
    return Facts(now, rows, a.fresh.rows, a.fresh.accuracy, a.base.accuracy)
