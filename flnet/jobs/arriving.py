"""What arrived for a job since it trained last, how its model does on it, and the schedule that a person gave it.

The accuracy on new test rows needs no measurement of its own: rows stay on their side of the split, so what the
model gets right on all test rows, less what it got right on the old ones, is what it gets right on the new ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flnet.effects import Effect, Evaluate
from flnet.events import DataChanged, Declaration, Evaluated, EvaluationFailed, Planned, WillingnessChanged
from flnet.params import Digest

if TYPE_CHECKING:
    from flnet.jobs.state import JobState


@dataclass(frozen=True)
class Measured:
    """An accuracy in [0, 1] on so many test rows."""

    accuracy: float
    rows: int


@dataclass(frozen=True)
class Plan:
    """What a person said of a job's schedule here, and from when it counts.

    Attributes:
        when: as `flnet.policies.schedule` reads it; None while nobody said anything: the node's own counts.
        since: seconds of the node's own clock, when the newest round was noticed; None if it never was needed.
    """

    when: str | None = None
    since: float | None = None


@dataclass(frozen=True)
class Arrived:
    """Examples that came since this node trained last.

    Attributes:
        rows: how many.
        base: the last accuracy, on the test rows that there were before.
        fresh: of the same model on the test rows that came.
        model: whose accuracy it is; another one makes the figures void.
        started_for: how many of them were there when a round was started here for which other nodes were chosen.
    """

    rows: int = 0
    base: Measured | None = None
    fresh: Measured | None = None
    model: Digest | None = None
    started_for: int = 0

    @property
    def rows_to_start_for(self) -> int:
        """Those that came since a round was started here."""
        return max(0, self.rows - self.started_for)

    def kept(self) -> Mapping[str, Any]:
        """What outlives a restart, as plain JSON data."""
        return {
            "rows": self.rows,
            "base": _pair(self.base),
            "fresh": _pair(self.fresh),
            "model": self.model,
            "started_for": self.started_for,
        }

    @classmethod
    def read(cls, kept: Mapping[str, Any] | None) -> Arrived:
        """What `kept` said before a restart.

        Raises:
            KeyError, TypeError, ValueError: it is damaged.
        """
        if kept is None:
            return cls()
        figures = _measured(kept["base"]), _measured(kept["fresh"])
        return cls(int(kept["rows"]), *figures, kept["model"], int(kept.get("started_for", 0)))


def arrived(s: JobState, event: DataChanged, before: Declaration | None) -> list[Effect]:
    """Other data are there: count what was added, and see how the model does on it."""
    if not event.added:
        s.arrived = Arrived()  # others in place of the old ones are no arrivals
        return []
    held = s.model.shared.digest if s.model else None
    known = s.arrived if s.arrived.model == held else replace(s.arrived, base=None, fresh=None)
    base = known.base
    if base is None and before is not None and s.accuracy is not None:
        base = Measured(s.accuracy, _test_rows(before))
    s.arrived = replace(known, rows=known.rows + event.added, base=base, model=held)
    if base is None or s.key is None or s.model is None or _test_rows(event.declaration) <= base.rows:
        return []
    return [Evaluate(s.key, s.model.full, s.model.shared)]


def arrivals_measured(s: JobState, event: Evaluated | EvaluationFailed) -> list[Effect]:
    """The model held was measured on the test rows that there are now."""
    a = s.arrived
    if a.base is None or s.declaration is None or isinstance(event, EvaluationFailed) or event.digest != a.model:
        return []
    rows = _test_rows(s.declaration) - a.base.rows
    if rows <= 0:
        return []
    right = event.accuracy * (rows + a.base.rows) - a.base.accuracy * a.base.rows
    fresh = Measured(min(max(right / rows, 0.0), 1.0), rows)
    s.arrived = replace(a, fresh=fresh)
    words = f"accuracy on {rows} new test rows {fresh.accuracy:.4f}; the last one was {a.base.accuracy:.4f}"
    return [s.save(), s.tell("fresh_measured", words, accuracy=fresh.accuracy, rows=rows)]


def planned(s: JobState, event: Planned) -> list[Effect]:
    """A person set a schedule, or a round began from which the next one is counted."""
    told = []
    if event.when != s.plan.when:
        words = "the schedule of this node counts again" if event.when is None else f"the schedule is {event.when}"
        told = [s.tell("scheduled", words)]
    s.plan = Plan(event.when, event.since)
    return [s.save(), *told]


def willing(s: JobState, event: WillingnessChanged) -> list[Effect]:
    """A condition of the schedule holds no more, or does again."""
    if event.reason == s.unwilling:
        return []
    s.unwilling = event.reason
    if event.reason:
        return [s.tell("unwilling", f"takes no part in rounds that others start: {event.reason}")]
    return [s.tell("willing", "takes part in rounds of others again")]


def _test_rows(declared: Declaration) -> int:
    rows = declared.data.get("rows")
    count = rows.get("test", 0) if isinstance(rows, Mapping) else 0
    return int(count) if isinstance(count, int) else 0


def _pair(measured: Measured | None) -> list[float] | None:
    return None if measured is None else [measured.accuracy, measured.rows]


def _measured(pair: Any) -> Measured | None:
    return None if pair is None else Measured(float(pair[0]), int(pair[1]))
