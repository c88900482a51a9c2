"""Schedules on the page: when and why the next round starts by itself, in words."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flnet.web.view import text
from flnet.web.words import Translate

NEVER = "never"
MOST_SECONDS = 10 * 366 * 86_400  # ahead; what a peer claims beyond that is not shown


@dataclass(frozen=True)
class ScheduleView:
    """A job's schedule as the page shows it.

    Attributes:
        when: as people write it; `starts` tells whether it is one at all.
        next_at: local time of this node; empty where it cannot be told, or is now.
        why: the reason of the next start, in English.
        unwilling: why the node takes no part in rounds of others now, in English.
    """

    when: str
    starts: bool
    whose: str
    next_at: str
    why: str
    unwilling: str


def schedule_view(schedule: Any, t: Translate, now: float | None = None) -> ScheduleView | None:
    """What a job tells of its schedule, which may be anything where a peer tells it; None if it has none.

    Args:
        now: seconds since the epoch; the time of this machine if absent.
    """
    if not isinstance(schedule, Mapping):
        return None
    when, seconds = text(schedule.get("when"), 200) or NEVER, schedule.get("next_seconds")
    whose = t("given by a person") if schedule.get("by_person") is True else t("from the node's settings")
    at = ""
    if type(seconds) is int and 0 < seconds <= MOST_SECONDS:
        there = time.localtime((time.time() if now is None else now) + seconds)
        at = time.strftime("%Y-%m-%d %H:%M", there)
    why, unwilling = text(schedule.get("next_words"), 300), text(schedule.get("unwilling"), 200)
    return ScheduleView(when, when != NEVER, whose, at, why, unwilling)
