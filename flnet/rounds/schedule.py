"""Schedules: when a node starts rounds automatically, and when it stays out of rounds that others start.

`Schedule` is what a person writes, such as "every 6h, between 22:00-06:00". It is pure: the time, the examples that
came and the load of the machine are passed in as numbers (`Moment`, `Facts`). `Arrivals` counts the examples that came
since a node trained last, and holds new data back until no round is open.

The accuracy on new test rows needs no measurement of its own. Rows stay on their side of the split, so what the
model gets right on all test rows, less what it got right on the old ones, is what it gets right on the new ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from flnet.errors import InvalidMessage
from flnet.params.params import Digest
from flnet.protocol.effects import Publish
from flnet.protocol.events import DataChanged, Declaration, Evaluated
from flnet.rounds.settings import Tell
from flnet.text import joined, text

MAX_WORDS = 200  # characters of a schedule
DAY = 86_400.0  # seconds
LEAST_FRESH = 10  # new test rows; an accuracy on fewer says too little
FORMS = '"every 6h", "new 100", "drift 0.05", "between 22:00-06:00", "battery>=30", "load<=0.8", "decline"'
NEVER = "never"
_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": DAY}
_EVERY = re.compile(r"every ([0-9]{1,8}(?:\.[0-9]{1,3})?) ?(s|m|min|h|d)")
_NEW = re.compile(r"new ([0-9]{1,9})")
_DRIFT = re.compile(r"drift (0?\.[0-9]{1,9}|[01])")
_TIME = r"([01]?[0-9]|2[0-4]):([0-5][0-9])"
_BETWEEN = re.compile(rf"between {_TIME} ?- ?{_TIME}")
_BATTERY = re.compile(r"battery ?>= ?([0-9]{1,3}) ?%?")
_LOAD = re.compile(r"load ?<= ?([0-9]{0,3}\.?[0-9]{1,6})")


@dataclass(frozen=True)
class Window:
    """Hours of the local day, from `start` until before `end`, over midnight if `end` comes first.

    Attributes:
        start, end: minutes since midnight.
    """

    start: int
    end: int

    def __str__(self) -> str:
        return f"{_clock(self.start)}-{_clock(self.end)}"

    def holds(self, of_day: float) -> bool:
        """Whether this time, in seconds after midnight, is within the window."""
        minute = of_day / 60
        if self.start < self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end

    def opens_in(self, of_day: float) -> float:
        """Seconds until it opens; 0 if it is open. On a day when clocks are changed, that hour more or less."""
        return 0.0 if self.holds(of_day) else (60 * self.start - of_day) % DAY


@dataclass(frozen=True)
class Moment:
    """What a node knows of now.

    Attributes:
        now: seconds of the node's own clock; only differences count.
        of_day: seconds since midnight, local time.
        battery: percent left; None on mains, or where there is none.
        load: part of the machine's processors that other programs keep busy, in [0, 1]; None if unknown.
    """

    now: float
    of_day: float
    battery: float | None = None
    load: float | None = None


@dataclass(frozen=True)
class Facts:
    """The facts about a job that a schedule needs.

    Attributes:
        since: when the newest round was noticed here, or else the schedule began, by the clock of `Moment.now`.
        new_examples: rows that have come since this node trained last.
        fresh_rows: those of them that are test rows.
        fresh_accuracy: of the model held, on these; None if it was not measured.
        accuracy: the last one before they came.
    """

    since: float
    new_examples: int = 0
    fresh_rows: int = 0
    fresh_accuracy: float | None = None
    accuracy: float | None = None


@dataclass(frozen=True)
class Next:
    """The next start: seconds until then (None if unknown), and the reason in words."""

    seconds: float | None
    words: str


@dataclass(frozen=True)
class Schedule:
    """Triggers, of which any starts a round, and conditions, all of which must hold for that.

    Attributes:
        every: seconds since the newest round.
        new: examples that have come.
        drift: by how much the accuracy on new test rows must be below the last one.
        window: hours of the day.
        battery: percent that must be left.
        load: part of the processors that other programs may keep busy.
        declines: whether rounds of others are declined while a condition does not hold.
    """

    every: float | None = None
    new: int | None = None
    drift: float | None = None
    window: Window | None = None
    battery: float | None = None
    load: float | None = None
    declines: bool = False

    @classmethod
    def parse(cls, words: str) -> Schedule:
        """Read a schedule as a person writes it: parts, apart by commas; "never" for none.

        Raises:
            InvalidMessage: a part is none of the known forms, or stands there twice, or a number is out of range.
        """
        if len(words) > MAX_WORDS:
            raise InvalidMessage(
                text("when: at most {limit} characters are read, {count} came", MAX_WORDS, len(words))
            )
        if words.strip().lower() in ("", NEVER):
            return cls()
        values: dict[str, object] = {}
        for part in words.split(","):
            name, value = _part(" ".join(part.lower().split()))
            if name in values:
                raise InvalidMessage(
                    text("when: each kind of part may stand there once, but {words} came", repr(words))
                )
            values[name] = value
        if values.get("declines") and not values.keys() & {"window", "battery", "load"}:
            raise InvalidMessage(text("when: decline needs a condition: between, battery or load"))
        return cls(**values)  # type: ignore[arg-type]

    @classmethod
    def asked(cls, words: str) -> Schedule:
        """Read a schedule that a person gives, and refuse one that would do nothing.

        Schedules of earlier runs are read with `parse`, which accepts them.

        Raises:
            InvalidMessage: as `parse`; or there are conditions, but nothing that starts a round or declines one.
        """
        schedule = cls.parse(words)
        if schedule != cls() and not schedule.starts and not schedule.declines:
            raise InvalidMessage(
                text(
                    "when: {words} only says when rounds may start, and nothing starts one; "
                    "add every, new or drift, such as {example}",
                    repr(words),
                    f'"every 6h, {schedule}"',
                )
            )
        return schedule

    def __str__(self) -> str:
        parts = [
            "" if self.every is None else f"every {_duration(self.every)}",
            "" if self.new is None else f"new {self.new}",
            "" if self.drift is None else f"drift {_plain(self.drift)}",
            "" if self.window is None else f"between {self.window}",
            "" if self.battery is None else f"battery>={self.battery:g}",
            "" if self.load is None else f"load<={_plain(self.load)}",
            "decline" if self.declines else "",
        ]
        return ", ".join(filter(None, parts)) or NEVER

    @property
    def starts(self) -> bool:
        """Whether it ever starts a round."""
        return self.every is not None or self.new is not None or self.drift is not None

    def unmet(self, moment: Moment) -> str:
        """Which condition does not hold now, in words; empty if all do."""
        if self.window is not None and not self.window.holds(moment.of_day):
            return text("outside of the hours {hours}", self.window)
        if self.battery is not None and moment.battery is not None and moment.battery < self.battery:
            return text("the battery is below {limit} %", f"{self.battery:g}")
        if self.load is not None and moment.load is not None and moment.load > self.load:
            return text("other programs keep more than {limit} of the processors busy", f"{100 * self.load:g} %")
        return ""

    def unwilling(self, moment: Moment) -> str:
        """Why this node takes no part in rounds of others now, as they read it; empty if it does."""
        return self.unmet(moment) if self.declines else ""

    def reason(self, facts: Facts, moment: Moment) -> str:
        """Why a round should start, whatever the conditions say; empty if it should not."""
        if self.new is not None and facts.new_examples >= self.new:
            if facts.new_examples == 1:
                return text("1 new example has come")
            return text("{count} new examples have come", facts.new_examples)
        if self.drift is not None and (drop := _drop(facts)) is not None and drop > self.drift:
            return text(
                "accuracy on {count} new test rows is {accuracy}, the last one was {later}",
                facts.fresh_rows,
                f"{facts.fresh_accuracy:.4f}",
                f"{facts.accuracy:.4f}",
            )
        if self.every is not None and self._elapsed(facts, moment) >= self.every:
            return text("{time} have passed since the last round", _duration(self.every))
        return ""

    def due(self, facts: Facts, moment: Moment) -> str:
        """Why a round is to be started now; empty if none is."""
        return "" if self.unmet(moment) else self.reason(facts, moment)

    def next_start(self, facts: Facts, moment: Moment) -> Next | None:
        """When and why the next scheduled round starts, if it is known; None for never."""
        if not self.starts:
            return None
        opens = self.window.opens_in(moment.of_day) if self.window else 0.0
        if reason := self.reason(facts, moment):
            unmet = self.unmet(moment)
            known = not unmet or opens > 0
            return Next(
                opens if known else None,
                joined([reason, text("it waits: {words}", unmet)]) if unmet else reason,
            )
        reasons = []
        if self.every is not None:
            reasons.append(text("{time} after the last round", _duration(self.every)))
        if self.new is not None:
            reasons.append(
                text("when new examples have come: {count} of {number} so far", facts.new_examples, self.new)
            )
        if self.drift is not None:
            reasons.append(text("when accuracy on new test rows falls by more than {limit}", f"{self.drift:g}"))
        return Next(self._regular(facts, moment), joined(reasons))

    def _regular(self, facts: Facts, moment: Moment) -> float | None:
        if self.every is None:
            return None
        left = self.every - self._elapsed(facts, moment)
        then = (moment.of_day + left) % DAY
        return left + (self.window.opens_in(then) if self.window else 0.0)

    def _elapsed(self, facts: Facts, moment: Moment) -> float:
        """Seconds since the newest round; 0 if the clock was put back."""
        return max(moment.now - facts.since, 0.0)


def _part(written: str) -> tuple[str, object]:
    if match := _EVERY.fullmatch(written):
        return "every", _within(round(float(match[1]) * _UNITS[match[2]], 3), 1, 366 * DAY, written)
    if match := _NEW.fullmatch(written):
        return "new", int(_within(int(match[1]), 1, 1e9, written))
    if match := _DRIFT.fullmatch(written):
        return "drift", _within(float(match[1]), 0, 1, written)
    if match := _BETWEEN.fullmatch(written):
        start, end = 60 * int(match[1]) + int(match[2]), 60 * int(match[3]) + int(match[4])
        _within(start, 0, 24 * 60 - 1, written)
        _within(end, 0, 24 * 60, written)
        if start == end % (24 * 60):
            words = text("is a whole day or nothing; leave it out, or write other hours")
            raise InvalidMessage(text("when: {text} {words}", repr(written), words))
        return "window", Window(start, end)
    if match := _BATTERY.fullmatch(written):
        return "battery", _within(float(match[1]), 1, 100, written)
    if match := _LOAD.fullmatch(written):
        return "load", _within(float(match[1]), 0, 1, written)
    if written == "decline":
        return "declines", True
    raise InvalidMessage(
        text("when: expected parts such as {forms}, apart by commas, but {text} came", FORMS, repr(written))
    )


def _within(value: float, low: float, high: float, written: str) -> float:
    if not low <= value <= high:
        raise InvalidMessage(
            text("when: in {text} a number is not from {low} to {high}", repr(written), f"{low:g}", f"{high:g}")
        )
    return value


def _drop(facts: Facts) -> float | None:
    """The drop of the accuracy on new test rows, compared with the last one; None if there are too few rows."""
    if facts.fresh_accuracy is None or facts.accuracy is None or facts.fresh_rows < LEAST_FRESH:
        return None
    return facts.accuracy - facts.fresh_accuracy


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _duration(seconds: float) -> str:
    for name, unit in (("d", DAY), ("h", 3600.0), ("m", 60.0)):
        if seconds >= unit and seconds % unit == 0:
            return f"{_plain(seconds / unit)}{name}"
    return f"{_plain(seconds, 3)}s"


def _plain(number: float, digits: int = 9) -> str:
    """Format a number without an exponent, so that it can be parsed again."""
    return f"{number:.{digits}f}".rstrip("0").rstrip(".")


@dataclass(frozen=True)
class Measured:
    """An accuracy in [0, 1] on so many test rows."""

    accuracy: float
    rows: int


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
        """The state that is saved for a restart, as plain JSON data."""
        return {
            "rows": self.rows,
            "base": _pair(self.base),
            "fresh": _pair(self.fresh),
            "model": self.model,
            "started_for": self.started_for,
        }

    @classmethod
    def read(cls, kept: Mapping[str, Any] | None) -> Arrived:
        """Read the result of `kept` after a restart.

        Raises:
            KeyError, TypeError, ValueError: it is damaged.
        """
        if kept is None:
            return cls()
        figures = _measured(kept["base"]), _measured(kept["fresh"])
        return cls(int(kept["rows"]), *figures, kept["model"], int(kept.get("started_for", 0)))


class Arrivals:
    """Counts examples that arrive between two trainings.

    Attributes:
        arrived: since the last own training.
        waiting: other data, which are taken in when no round is open.
    """

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self.arrived = Arrived()
        self.waiting: DataChanged | None = None

    def announce(self, event: DataChanged) -> None:
        """The trainer was loaded with other data; of several such events the newest counts, with all that came."""
        waits = self.waiting.added if self.waiting and event.added else 0
        self.waiting = replace(event, added=event.added + waits)

    def take_waiting(self) -> DataChanged | None:
        """The data that are taken in now."""
        event, self.waiting = self.waiting, None
        return event

    def restore(self, arrived: Arrived) -> None:
        """Restore the state that an earlier run saved."""
        self.arrived = arrived

    def clear(self) -> None:
        """A training begins, which takes all that came; or other data took the place of the old."""
        self.arrived = Arrived()

    def started_for_others(self) -> None:
        """A round was started here for which other nodes are chosen; it is not started again for the same rows."""
        self.arrived = replace(self.arrived, started_for=self.arrived.rows)

    def add(self, event: DataChanged, before: Declaration | None, model: Digest, accuracy: float | None) -> bool:
        """Rows came to those that there were.

        Args:
            before: what was declared of the data until now.
            model: that is held.
            accuracy: of it, on the test rows of before; None if it was not measured.

        Returns:
            Whether the model is to be measured on them.
        """
        known = self.arrived if self.arrived.model == model else replace(self.arrived, base=None, fresh=None)
        base = known.base
        if base is None and before is not None and accuracy is not None:
            base = Measured(accuracy, _test_rows(before))
        self.arrived = replace(known, rows=known.rows + event.added, base=base, model=model)
        return base is not None and _test_rows(event.declaration) > base.rows

    def measured(self, event: Evaluated, declaration: Declaration) -> list[Publish]:
        """The model held was measured on the test rows that there are now."""
        base = self.arrived.base
        if base is None or event.digest != self.arrived.model:
            return []
        rows = _test_rows(declaration) - base.rows
        if rows <= 0:
            return []
        right = event.accuracy * (rows + base.rows) - base.accuracy * base.rows
        fresh = Measured(min(max(right / rows, 0.0), 1.0), rows)
        self.arrived = replace(self.arrived, fresh=fresh)
        words = text(
            "accuracy on {count} new test rows {accuracy}; the last one was {later}",
            rows,
            f"{fresh.accuracy:.4f}",
            f"{base.accuracy:.4f}",
        )
        return [self._tell("fresh_measured", words, accuracy=fresh.accuracy, rows=rows)]


def _test_rows(declared: Declaration) -> int:
    rows = declared.data.get("rows")
    count = rows.get("test", 0) if isinstance(rows, Mapping) else 0
    return int(count) if isinstance(count, int) else 0


def _pair(measured: Measured | None) -> list[float] | None:
    return None if measured is None else [measured.accuracy, measured.rows]


def _measured(pair: Any) -> Measured | None:
    return None if pair is None else Measured(float(pair[0]), int(pair[1]))
