"""Which nodes train in a round, of all or of those whose turn it is.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data" (2017), call the share
of the nodes that train in a round the fraction C; there a server draws them. Here each node sorts the members that
the start of the round names by a hash, and takes the first ones, so all nodes choose alike without a message. A node
that is not chosen averages the updates that it receives.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection
from dataclasses import dataclass

from flnet.algorithms.fed_mt.scheduling import phase, trains
from flnet.params.params import PeerId
from flnet.protocol.events import Turn
from flnet.protocol.messages import ChoiceMessage
from flnet.text import text

TOO_EARLY = text("the first rounds are for nodes labelled otherwise")
TOO_LATE = text("the last rounds are for nodes with labels of the desired space")
_DUST = 1e-9  # what rounding may add to a product that should be whole


@dataclass(frozen=True)
class Participation:
    """How many nodes train in a round; the same on all nodes of a job.

    Attributes:
        fraction: of the members, in (0, 1].
        least: nodes that train at least, if there are so many.
        names_all: whether a round states its members, too, where all of them train.
    """

    fraction: float = 1.0
    least: int = 2
    names_all: bool = False

    @property
    def words(self) -> str:
        """The text that nodes compare with each other; empty if all nodes train."""
        return f"{self.fraction!r} of the nodes, at least {self.least}" if self.fraction < 1 else ""

    def choice_of(self, members: Collection[PeerId], whole: Collection[PeerId] = ()) -> ChoiceMessage | None:
        """The choice that a round of these members starts with; None where all train and need not be named.

        Args:
            whole: those that know whole updates only, if updates are averaged in segments.
        """
        count = len(members)
        take = min(count, max(self.least, math.ceil(self.fraction * count - _DUST)))
        is_stated = take < count or self.names_all
        named = tuple(sorted({*whole} & {*members})) or None
        return ChoiceMessage(members=tuple(sorted(members)), take=take, whole=named) if is_stated else None

    def believed(
        self, choice: ChoiceMessage | None, nodes: Collection[PeerId], whole: Collection[PeerId] = ()
    ) -> ChoiceMessage | None:
        """The choice that a peer states; None if the rule does not lead to it, or it leaves out most of these nodes.

        Args:
            whole: those of these nodes that know whole updates only. Of another one, no peer can say that.
        """
        if choice is None:
            return None
        said = set(map(PeerId, choice.whole or ()))
        if choice != self.choice_of({PeerId(name) for name in choice.members}, said) or said & {*nodes} - {*whole}:
            return None
        return choice if 2 * len(set(choice.members) & set(nodes)) >= len(nodes) else None


def chosen(choice: ChoiceMessage, run: str, round: int) -> frozenset[PeerId]:
    """The members that train: the first ones in the order of the SHA-256 of run, round and id.

    Args:
        run: what all nodes of the job call it.
    """
    members = {PeerId(name) for name in choice.members}
    drawn_in = round if choice.failed is None else choice.failed
    ordered = sorted(members, key=lambda peer: (_place(run, drawn_in, peer), peer))
    if choice.group is not None and choice.groups is not None:
        return frozenset(ordered[choice.group :: choice.groups])
    return frozenset(ordered[: choice.take])


def out_of_turn(turn: Turn | None, number: int) -> str:
    """Why a round is not a node's turn, if nodes with desired labels and all others take turns; empty if it is."""
    if turn is None or trains(phase(turn.schedule, number, turning=turn.turning), turn.is_desired):
        return ""
    if turn.schedule == "coarse-first":
        return TOO_EARLY if turn.is_desired else TOO_LATE
    kind = text("labelled otherwise") if turn.is_desired else text("with labels of the desired space")
    return text("this round is for nodes {kind}; it trains in the next one", kind)


def _place(run: str, round: int, peer: PeerId) -> bytes:
    return hashlib.sha256(f"{len(run)}:{run}:{round}:{peer}".encode()).digest()
