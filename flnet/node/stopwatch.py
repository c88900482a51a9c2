"""How long each phase of a round took here. Jobs know no clock: their phases are watched from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flnet.jobs import Phase
from flnet.node.per_round import MOST_ROUNDS, PerRound
from flnet.params import RoundKey, TrainerId

# Training and averaging are measured where they are done; the time that a job spends in these phases it waits.
PARTS = {
    Phase.FETCHING: "fetch",
    Phase.GATHERING: "wait",
    Phase.MEASURING: "measure",
    Phase.EXCHANGING: "exchange",
}

ROUND_PARTS = ("fetch", "train", "wait", "average", "measure", "exchange")  # in the order of a round


@dataclass
class _Spell:
    """The phase that a job is in, and since when."""

    key: RoundKey | None
    phase: Phase
    since: float


class Stopwatch:
    """Adds up the seconds that jobs spend in their phases, round by round."""

    def __init__(self, now: Callable[[], float], most: int = MOST_ROUNDS) -> None:
        """Args:
        now: seconds on a clock that never goes back.
        most: rounds of each job that are kept; the oldest is forgotten first.
        """
        self._now = now
        self._spells: dict[TrainerId, _Spell] = {}
        self._seconds = PerRound[dict[str, float]](dict, most)

    def note(self, trainer: TrainerId, key: RoundKey | None, phase: Phase) -> None:
        """Tell where a job stands, after all that it heard; asking twice changes nothing."""
        spell = self._spells.get(trainer)
        if spell is not None and (spell.key, spell.phase) == (key, phase):
            return
        now = self._now()
        self._spells[trainer] = _Spell(key, phase, now)
        if spell is None or spell.key is None or spell.phase not in PARTS:
            return
        seconds, part = self._seconds.of(trainer, spell.key), PARTS[spell.phase]
        seconds[part] = seconds.get(part, 0.0) + now - spell.since

    def seconds(self, trainer: TrainerId, key: RoundKey) -> Mapping[str, float]:
        """What a round's parts took: fetch, wait, measure, exchange, those that there were."""
        return self._seconds.find(trainer, key) or {}
