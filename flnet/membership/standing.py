"""What the mesh holds a member for, and which of two claims about it counts.

Das, Gupta, Motivala (2002), SWIM, section 4.2: a claim carries the member's incarnation, a number that rises when
somebody shows an accusation to be wrong. Claims are ordered by incarnation, then by state in the order below, and
of two claims the greater one counts. So it does not matter in which order, how often and by whom they were passed
on: nodes that heard the same claims hold the same. What must change together: `State`, the words in
messages/mesh.py, and the table in docs/membership.md, which is made from `Standing.beats`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from flnet.messages import MAX_INCARNATION


class State(Enum):
    """What a member is held for; the values stand in messages and in views.

    Attributes:
        rank: which of two claims with equal incarnations counts: the higher one.
        takes_part: whether rounds count on such a member.
    """

    ALIVE = "alive"  # it answers
    SUSPECT = "suspect"  # it did not answer, and can still show that it is there
    DEAD = "dead"  # it did not show it in time
    LEFT = "left"  # it said that it goes

    def __init__(self, word: str) -> None:
        self.rank = ("alive", "suspect", "dead", "left").index(word)
        self.takes_part = word in ("alive", "suspect")


STATES = {state.value: state for state in State}  # by the word for them, which comes with every piece of news


@dataclass(frozen=True)
class Standing:
    """A state, and the incarnation for which it was said."""

    state: State = State.ALIVE
    incarnation: int = 0

    def beats(self, other: Standing) -> bool:
        """Whether this claim counts and the other one does not."""
        if self.incarnation != other.incarnation:
            return self.incarnation > other.incarnation
        return self.state.rank > other.state.rank

    def refuted(self) -> Standing:
        """The claim that the member is there all the same; beyond the highest incarnation there is none."""
        return Standing(State.ALIVE, min(self.incarnation + 1, MAX_INCARNATION))
