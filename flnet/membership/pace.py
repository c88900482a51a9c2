"""How fast the membership works, how long a suspect has to answer, and when this node doubts itself instead.

Dadgar, Phillips, Currey (2018), Lifeguard: local health awareness (section IV-A), and suspicion that gets shorter
with each independent accuser (section IV-B).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MAX_DOUBT = 8  # a node that doubts itself most probes this many times slower, less one


@dataclass(frozen=True)
class Pauses:
    """How long the membership waits; what is counted in ticks slows down with a node whose own loop is late.

    Attributes:
        tick: seconds between two steps of probing.
        probe: seconds in which a probed peer must answer.
        helpers: peers that are asked to probe one that does not answer.
        suspicion: ticks that a suspect has at least, in meshes of up to ten nodes; more in larger ones.
        patience: by how many times longer it has if nobody else suspects it.
        fanout: peers that are told of news in one tick.
        first, longest: seconds, the first pause after a failed announcement; it doubles up to the longest.
        refresh: ticks between two exchanges of everything with one of the peers.
        hearsay_attempts: after so many failures an address that only others named is given up.
        tombstone: ticks for which a peer that died or left is remembered.
    """

    tick: float = 1.0
    probe: float = 1.0
    helpers: int = 3
    suspicion: int = 3
    patience: int = 6
    fanout: int = 3
    first: float = 0.5
    longest: float = 30.0
    refresh: int = 15
    hearsay_attempts: int = 6
    tombstone: int = 86_400


def suspicion_ticks(pauses: Pauses, size: int, accusers: int) -> int:
    """How many ticks after the first accusation a suspect is declared dead.

    Args:
        size: nodes in the mesh, this one included.
        accusers: nodes that found by themselves that it does not answer, at least 1.
    """
    shortest = math.ceil(pauses.suspicion * max(1.0, math.log10(max(size, 1))))
    wanted = min(3, size - 1)  # accusers after whom nobody else is waited for
    if accusers >= wanted or wanted <= 1:
        return shortest
    longest = shortest * pauses.patience
    confirmed = math.log(accusers) / math.log(wanted)
    return max(shortest, math.floor(longest - confirmed * (longest - shortest)))


def repeats(size: int) -> int:
    """How often a piece of news is passed on, so that it very likely reaches everyone (SWIM, section 4.1)."""
    return 4 * math.ceil(math.log10(size + 1))


class Doubt:
    """How far this node doubts that it is itself well; from 0 to MAX_DOUBT - 1."""

    def __init__(self) -> None:
        self.level = 0

    @property
    def factor(self) -> int:
        """By how much it slows its probing, and lengthens what a probed peer has to answer."""
        return self.level + 1

    def more(self, by: int = 1) -> None:
        """Something points at this node: its loop was late, its helpers were silent, it was itself accused."""
        self.level = min(self.level + by, MAX_DOUBT - 1)

    def less(self) -> None:
        """A probe was answered in time."""
        self.level = max(self.level - 1, 0)
