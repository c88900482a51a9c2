"""What people set of the rounds of a job, and how that is said to other nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from flnet.policies import Participation
from flnet.strategies.base import MERGING

# Among what all nodes must have alike, by these names:
PARTICIPATION, LATE_UPDATES, ROUNDS, TRAINING = "participation", "late updates", "rounds", "local training"
COMMON, ASYNCHRONOUS = "common to all nodes", "of each node by itself (asynchronous)"
USUAL = "agg1"  # the merging rule, where nothing else is said


@dataclass(frozen=True)
class Rules:
    """What people set of the rounds of a job, beside how long it waits.

    Attributes:
        participation: how many nodes train in a round.
        staleness: by how many rounds an update may be late and still counts, for less; 0: none may.
        averaging: how far updates may move, in words by name, where that is not as usual (`flnet.screening`).
        asynchronous: there are no common rounds: each node trains and merges when it has something.
        by_person: the merging rule that a person chose for this job while the node ran; empty: the settings' one.
    """

    participation: Participation = field(default_factory=Participation)
    staleness: int = 0
    averaging: Mapping[str, str] = field(default_factory=dict)
    asynchronous: bool = False
    by_person: str = ""

    @property
    def merging(self) -> str:
        """By which rule updates become one model, as nodes name it to each other."""
        return self.by_person or self.settled

    @property
    def settled(self) -> str:
        """The rule that the settings of the node name."""
        return self.averaging.get(MERGING, USUAL)

    def merged_by(self, rule: str) -> Rules:
        """The same, with a merging rule that a person chose."""
        return replace(self, by_person="" if rule == self.settled else rule)

    def said(self) -> Mapping[str, str]:
        """What all nodes must have alike beside what the trainer says; nothing where all is as usual."""
        averaging = {name: words for name, words in self.averaging.items() if name != MERGING}
        averaging |= {MERGING: self.merging} if self.merging != USUAL else {}
        if self.asynchronous:
            return {ROUNDS: ASYNCHRONOUS, **averaging}
        words, late = self.participation.words, self.staleness
        said = {PARTICIPATION: words} if words else {}
        return {**said, **({LATE_UPDATES: f"up to {late} rounds"} if late else {}), **averaging}
