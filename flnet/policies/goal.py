"""Goals for series of rounds: the conditions that end one, as people write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeVar

from flnet.errors import InvalidMessage

MAX_WORDS = 200  # characters of a goal
_NUMBER = r"[0-9]{0,9}\.?[0-9]{1,17}(?:e-?[0-9]{1,2})?"
_REACH = re.compile(rf"(?:(mean|every|own) )?accuracy ?>= ?({_NUMBER})")
_NO_GAIN = re.compile(rf"no-gain ([0-9]{{1,7}})(?: ({_NUMBER}))?")
_FALLING = re.compile(rf"mlfedavg(?: ({_NUMBER}))?( cumulative)?")
_WITHIN = re.compile(rf"within ({_NUMBER})")
FORMS = '"accuracy>=0.98", "every accuracy>=0.9", "own accuracy>=0.9", "no-gain 5 0.001", "mlfedavg", "within 600"'
C = TypeVar("C")

Whose = Literal["mean", "every", "own"]


@dataclass(frozen=True)
class Reach:
    """An accuracy in (0, 1] is reached: by the mean of the nodes, by every node, or by the one that was asked."""

    least: float
    whose: Whose = "mean"

    def __str__(self) -> str:
        return f"{'' if self.whose == 'mean' else self.whose + ' '}accuracy>={self.least!r}"


@dataclass(frozen=True)
class NoGain:
    """The mean accuracy has not grown by more than `delta` over its best for so many rounds."""

    rounds: int
    delta: float = 0.0

    def __str__(self) -> str:
        return f"no-gain {self.rounds} {self.delta!r}"


@dataclass(frozen=True)
class Falling:
    """The mean accuracy falls two rounds running and the mean loss rises two rounds running.

    D. Delgado Bejarano, "Aprendizaje multi-etiqueta en entornos federados" (2024), the rule that stops training.
    The printed one looks at each round, the `cumulative` one at the means over all rounds, from the eleventh on.

    Attributes:
        delta: a change counts only beyond it.
    """

    delta: float = 0.0
    cumulative: bool = False

    def __str__(self) -> str:
        return f"mlfedavg {self.delta!r}{' cumulative' if self.cumulative else ''}"


@dataclass(frozen=True)
class Within:
    """So many seconds have passed, which timers tell; the nodes tell each other."""

    seconds: float

    def __str__(self) -> str:
        return f"within {self.seconds!r}"


Condition = Reach | NoGain | Falling | Within


@dataclass(frozen=True)
class Goal:
    """One or several conditions, of which any ends a series.

    The goal is reached if one of the strongest kind among them holds: an accuracy, or else that there is no more
    gain, or else that the time is over. A weaker one that holds means that the goal is given up.
    """

    conditions: tuple[Condition, ...]

    @classmethod
    def parse(cls, words: str) -> Goal:
        """Read a goal as a person writes it: conditions, apart by commas.

        Raises:
            InvalidMessage: a part is none of the known forms, or a number is out of its range.
        """
        if len(words) > MAX_WORDS:
            raise InvalidMessage(f"until: at most {MAX_WORDS} characters are read, {len(words)} came")
        conditions = tuple(_condition(part) for part in words.split(","))
        kinds = [type(condition) for condition in conditions]
        if len(set(kinds)) < len(kinds):
            raise InvalidMessage(f"until: each kind of condition may stand there once, but {words!r} came")
        return cls(conditions)

    def __str__(self) -> str:
        return ", ".join(map(str, self.conditions))

    @property
    def seconds(self) -> float | None:
        """After how many seconds the series ends; None for never."""
        return within.seconds if (within := self.find(Within)) else None

    def find(self, kind: type[C]) -> C | None:
        """The condition of this kind."""
        return next((condition for condition in self.conditions if isinstance(condition, kind)), None)

    def is_aim(self, condition: Condition) -> bool:
        """Whether the goal is reached when this condition holds, rather than given up."""
        return strength(condition) == max(map(strength, self.conditions))


def _condition(words: str) -> Condition:
    text = " ".join(words.lower().split())
    if found := _REACH.fullmatch(text):
        whose: Whose = "every" if found[1] == "every" else "own" if found[1] == "own" else "mean"
        return Reach(_within(float(found[2]), 0, 1, text, above=True), whose)
    if found := _NO_GAIN.fullmatch(text):
        return NoGain(int(_within(int(found[1]), 1, 1_000_000, text)), _within(float(found[2] or 0), 0, 1, text))
    if found := _FALLING.fullmatch(text):
        return Falling(_within(float(found[1] or 0), 0, 1, text), bool(found[2]))
    if found := _WITHIN.fullmatch(text):
        return Within(_within(float(found[1]), 0, 1e8, text, above=True))
    raise InvalidMessage(f"until: expected conditions such as {FORMS}, apart by commas, but {text!r} came")


def _within(value: float, low: float, high: float, text: str, above: bool = False) -> float:
    if not low <= value <= high or (above and value == low):
        raise InvalidMessage(
            f"until: in {text!r} a number is not {'above' if above else 'from'} {low:g} to {high:g}"
        )
    return value


def strength(condition: Condition) -> int:
    """How strong a kind of condition is; reaching the strongest that was asked for reaches the goal."""
    return {Reach: 2, NoGain: 1, Falling: 1, Within: 0}[type(condition)]
