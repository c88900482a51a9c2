"""Checks each job's schedule regularly: whether this node starts a round, or declines the rounds of others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import psutil

from flnet.errors import JobBusy
from flnet.node.core import NodeCore
from flnet.node.event_queue import Deliver
from flnet.node.interface import View
from flnet.params.params import TrainerId
from flnet.protocol.events import Planned, RoundTriggered, WillingnessChanged
from flnet.rounds.base_job import AnyJob
from flnet.rounds.schedule import Facts, Moment, Schedule
from flnet.rounds.steps import Phase
from flnet.text import text

EVERY_SECONDS = 5.0  # between two questions
AGAIN_SECONDS = 30.0  # between two starts of one job, whatever its schedule says
SMOOTHING_SECONDS = 30.0  # over which the load is averaged, so that a moment's work changes nobody's mind


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
        when = self._core.job(trainer).series.plan.when
        return self.usual if when is None else Schedule.parse(when)

    def plan(self, trainer: TrainerId, when: str | None) -> Planned:
        """The event for a job when a person sets its schedule, or (None) removes it.

        Raises:
            UnknownTrainer: no such job.
            InvalidMessage: it is no schedule, or one that would do nothing.
            JobBusy: the trainer is still loading.
        """
        if self._core.job(trainer).phase is Phase.LOADING:
            raise JobBusy(text("{trainer} is still loading its data", trainer))
        return Planned(None if when is None else str(Schedule.asked(when)), self._clock(False).now)

    def view(self, trainer: TrainerId) -> View:
        """When and why the next scheduled round starts, as JSON-ready data.

        Raises:
            UnknownTrainer: no such job.
        """
        job, moment, schedule = self._core.job(trainer), self._moment(), self.of(trainer)
        waits = job.phase in (Phase.LOADING, Phase.NO_DATA) or _is_engaged(job)
        start = None if waits else schedule.next_start(_facts(job, moment), moment)
        return {
            "when": str(schedule),
            "by_person": job.series.plan.when is not None,
            "next_seconds": None if start is None or start.seconds is None else round(start.seconds),
            "next_words": "" if start is None else start.words,
            "new_examples": job.arrivals.arrived.rows,
            "unwilling": job.series.unwilling,
        }

    def _moment(self) -> Moment:
        schedules = [self.of(trainer) for trainer in self._core.jobs]
        return self._clock(
            any(schedule.battery is not None or schedule.load is not None for schedule in schedules)
        )

    def _ask(self, trainer: TrainerId, job: AnyJob, moment: Moment) -> None:
        schedule, series = self.of(trainer), job.series
        since, seen = series.plan.since, self._seen.get(trainer, job.number)
        is_known = seen == job.number and since is not None and since <= moment.now  # the clock may be put back
        self._seen[trainer] = job.number
        if schedule.every is not None and not is_known:
            self._deliver(trainer, Planned(series.plan.when, moment.now))
            return
        if (reason := schedule.unwilling(moment)) != series.unwilling:
            self._deliver(trainer, WillingnessChanged(reason))
        if job.phase is not Phase.IDLE or _is_engaged(job):
            return
        if 0 <= moment.now - self._started.get(trainer, float("-inf")) < AGAIN_SECONDS:
            return
        if why := schedule.due(_facts(job, moment), moment):
            self._started[trainer] = moment.now
            self._deliver(trainer, RoundTriggered(why=why))


def _is_engaged(job: AnyJob) -> bool:
    """Whether a person paused the job, or asked for rounds that are under way."""
    return job.series.paused or job.series.is_under_way


def _facts(job: AnyJob, moment: Moment) -> Facts:
    a, since, held = job.arrivals.arrived, job.series.plan.since, job.held.digest
    now = moment.now if since is None else since
    rows = a.rows_to_start_for
    if not rows or a.fresh is None or a.base is None or a.model != held:
        return Facts(now, rows)
    return Facts(now, rows, a.fresh.rows, a.fresh.accuracy, a.base.accuracy)


class Conditions:
    """Reads the machine; call it about every five seconds."""

    def __init__(self) -> None:
        self._at, self._busy, self._mine = 0.0, 0.0, 0.0  # when the processors were looked at, and their seconds
        self._load: float | None = None
        self._is_read = False

    def __call__(self, machine: bool = True) -> Moment:
        """Now; the load is that of other programs, as this node's own training must not keep it from training.

        Args:
            machine: whether battery and load are asked for.
        """
        local = time.localtime()
        of_day = 3600.0 * local.tm_hour + 60 * local.tm_min + local.tm_sec
        if not machine:
            return Moment(time.time(), of_day)
        return Moment(time.time(), of_day, _battery(), self._measured())

    def _measured(self) -> float | None:
        at, busy, mine = time.monotonic(), _busy_seconds(), self._own_seconds()
        passed = at - self._at
        if self._is_read and passed < 1:
            return self._load
        if not self._is_read:
            self._is_read, self._at, self._busy, self._mine = True, at, busy, mine
            return None
        others = max(busy - self._busy - max(mine - self._mine, 0.0), 0.0)
        load = min(others / passed / (psutil.cpu_count() or 1), 1.0)
        weight = min(passed / SMOOTHING_SECONDS, 1.0)
        self._load = load if self._load is None else self._load + weight * (load - self._load)
        self._at, self._busy, self._mine = at, busy, mine
        return self._load

    def _own_seconds(self) -> float:
        """Processor time of this node and its training child, so far."""
        total = 0.0
        try:
            own = psutil.Process()
            for process in (own, *own.children(recursive=True)):
                times = process.cpu_times()
                total += times.user + times.system
            ended = own.cpu_times()
            total += getattr(ended, "children_user", 0.0) + getattr(ended, "children_system", 0.0)
        except psutil.Error:
            return self._mine
        return total


def _busy_seconds() -> float:
    """Processor time of the whole machine that was not idle, so far."""
    times = psutil.cpu_times()
    waiting = getattr(times, "iowait", 0.0)
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # in user and nice already
    return float(sum(times) - times.idle - waiting - guests)


def _battery() -> float | None:
    """Percent left; None on mains, or where there is no battery."""
    try:
        battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    except (OSError, psutil.Error):
        return None
    if battery is None or battery.power_plugged is not False:
        return None
    return float(battery.percent)
