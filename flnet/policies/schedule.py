"""Schedules: when a node starts rounds by itself, and when it stays out of those of others, as people write them.

Pure: what time it is, what came and how busy the machine is are told as numbers (`Moment`, `Facts`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from flnet.errors import InvalidMessage

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
        """Whether so many seconds after midnight lie in it."""
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
    """What a job knows that a schedule asks for.

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
    """The next start: in how many seconds (None: that cannot be told), and why, in words."""

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
            raise InvalidMessage(f"when: at most {MAX_WORDS} characters are read, {len(words)} came")
        if words.strip().lower() in ("", NEVER):
            return cls()
        found: dict[str, object] = {}
        for part in words.split(","):
            name, value = _part(" ".join(part.lower().split()))
            if name in found:
                raise InvalidMessage(f"when: each kind of part may stand there once, but {words!r} came")
            found[name] = value
        if found.get("declines") and not found.keys() & {"window", "battery", "load"}:
            raise InvalidMessage("when: decline needs a condition beside it: between, battery or load")
        return cls(**found)  # type: ignore[arg-type]

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
            return f"outside of the hours {self.window}"
        if self.battery is not None and moment.battery is not None and moment.battery < self.battery:
            return f"the battery is below {self.battery:g} %"
        if self.load is not None and moment.load is not None and moment.load > self.load:
            percent = 100 * self.load
            return f"other programs keep more than {percent:g} % of the processors busy"
        return ""

    def unwilling(self, moment: Moment) -> str:
        """Why this node takes no part in rounds of others now, as they read it; empty if it does."""
        return self.unmet(moment) if self.declines else ""

    def reason(self, facts: Facts, moment: Moment) -> str:
        """Why a round should start, whatever the conditions say; empty if it should not."""
        if self.new is not None and facts.new_examples >= self.new:
            return f"{facts.new_examples} new examples have come"
        if self.drift is not None and (drop := _drop(facts)) is not None and drop > self.drift:
            return (
                f"accuracy on {facts.fresh_rows} new test rows is {facts.fresh_accuracy:.4f}, "
                f"the last one was {facts.accuracy:.4f}"
            )
        if self.every is not None and self._elapsed(facts, moment) >= self.every:
            return f"{_duration(self.every)} have passed since the last round"
        return ""

    def due(self, facts: Facts, moment: Moment) -> str:
        """Why a round is to be started now; empty if none is."""
        return "" if self.unmet(moment) else self.reason(facts, moment)

    def next_start(self, facts: Facts, moment: Moment) -> Next | None:
        """When and why the next round starts by itself, as far as that can be told; None for never."""
        if not self.starts:
            return None
        opens = self.window.opens_in(moment.of_day) if self.window else 0.0
        if reason := self.reason(facts, moment):
            unmet = self.unmet(moment)
            known = not unmet or opens > 0
            return Next(opens if known else None, f"{reason}; it waits: {unmet}" if unmet else reason)
        said = []
        if self.every is not None:
            said.append(f"{_duration(self.every)} after the last round")
        if self.new is not None:
            said.append(f"when {self.new} new examples have come ({facts.new_examples} so far)")
        if self.drift is not None:
            said.append(f"when accuracy on new test rows falls by more than {self.drift:g}")
        return Next(self._regular(facts, moment), "; ".join(said))

    def _regular(self, facts: Facts, moment: Moment) -> float | None:
        if self.every is None:
            return None
        left = self.every - self._elapsed(facts, moment)
        then = (moment.of_day + left) % DAY
        return left + (self.window.opens_in(then) if self.window else 0.0)

    def _elapsed(self, facts: Facts, moment: Moment) -> float:
        """Since the newest round; a clock that was put back begins anew."""
        return max(moment.now - facts.since, 0.0)


def _part(text: str) -> tuple[str, object]:
    if found := _EVERY.fullmatch(text):
        return "every", _within(round(float(found[1]) * _UNITS[found[2]], 3), 1, 366 * DAY, text)
    if found := _NEW.fullmatch(text):
        return "new", int(_within(int(found[1]), 1, 1e9, text))
    if found := _DRIFT.fullmatch(text):
        return "drift", _within(float(found[1]), 0, 1, text)
    if found := _BETWEEN.fullmatch(text):
        start, end = 60 * int(found[1]) + int(found[2]), 60 * int(found[3]) + int(found[4])
        _within(start, 0, 24 * 60 - 1, text)
        _within(end, 0, 24 * 60, text)
        if start == end % (24 * 60):
            words = "is a whole day or nothing; leave it out, or write other hours"
            raise InvalidMessage(f"when: {text!r} {words}")
        return "window", Window(start, end)
    if found := _BATTERY.fullmatch(text):
        return "battery", _within(float(found[1]), 1, 100, text)
    if found := _LOAD.fullmatch(text):
        return "load", _within(float(found[1]), 0, 1, text)
    if text == "decline":
        return "declines", True
    raise InvalidMessage(f"when: expected parts such as {FORMS}, apart by commas, but {text!r} came")


def _within(value: float, low: float, high: float, text: str) -> float:
    if not low <= value <= high:
        raise InvalidMessage(f"when: in {text!r} a number is not from {low:g} to {high:g}")
    return value


def _drop(facts: Facts) -> float | None:
    """By how much the accuracy on new test rows is below the last one; None where that says too little."""
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
    """Without an exponent, so that it is read again."""
    return f"{number:.{digits}f}".rstrip("0").rstrip(".")
