"""What a schedule asks of the machine: the time of day, the battery, and how busy other programs keep it."""

from __future__ import annotations

import time

from flnet.policies.schedule import Moment
from flnet.postponing import postponed

with postponed("psutil"):  # until a schedule asks for the battery or the load
    import psutil

SMOOTHING_SECONDS = 30.0  # over which the load is averaged, so that a moment's work changes nobody's mind


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
