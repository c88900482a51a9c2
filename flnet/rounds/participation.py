"""Which nodes train in a round, of all or of those whose turn it is.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data" (2017), call the share
of the nodes that train in a round the fraction C; there a server draws them. Here each node sorts the members that
the start of the round names by a hash, and takes the first ones, so all nodes choose alike without a message. A node
that is not chosen averages the updates that it receives.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from flnet.algorithms.fed_mt.scheduling import phase, trains
from flnet.params.params import PeerId
from flnet.protocol.events import Turn
from flnet.protocol.messages import MAX_PEERS, ChoiceMessage
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

    def choice_of(
        self, members: Collection[PeerId], whole: Collection[PeerId] = (), owned: Mapping[str, int] | None = None
    ) -> ChoiceMessage | None:
        """The choice that a round of these members starts with; None where all train and need not be named.

        Args:
            whole: those that know whole updates only, if updates are averaged in segments.
            owned: how many segments nodes own that own more than one (`more_owned`).
        """
        count = len(members)
        take = min(count, max(self.least, math.ceil(self.fraction * count - _DUST)))
        is_stated = take < count or self.names_all
        named = tuple(sorted({*whole} & {*members})) or None
        if not is_stated:
            return None
        return ChoiceMessage(
            members=tuple(sorted(members)), take=take, whole=named, owned=dict(owned or {}) or None
        )

    def believed(
        self, choice: ChoiceMessage | None, nodes: Collection[PeerId], whole: Collection[PeerId] = ()
    ) -> ChoiceMessage | None:
        """The choice that a peer states; None if the rule does not lead to it, or it leaves out most of these nodes.

        Args:
            whole: those of these nodes that know whole updates only. Of another one, no peer can say that.
        """
        if choice is None:
            return None
        members, owned = {PeerId(name) for name in choice.members}, choice.owned or {}
        said = set(map(PeerId, choice.whole or ()))
        others = members - said
        are_owners = bool(others) and owned.keys() <= others and is_allowed(owned, len(others))
        if choice != self.choice_of(members, said, owned) or said & {*nodes} - {*whole} or not are_owners:
            return None
        return choice if 2 * len(set(choice.members) & set(nodes)) >= len(nodes) else None


def more_owned(owned: Mapping[PeerId, int]) -> dict[str, int]:
    """How many segments each node owns, as few as in this proportion; without those that own one.

    Args:
        owned: of each node, as compared with the others.
    """
    unit = math.gcd(*owned.values())
    more = {str(name): count // unit for name, count in sorted(owned.items()) if count > unit}
    return more if is_allowed(more, len(owned)) else {}


def is_allowed(more: Mapping[str, int], nodes: int) -> bool:
    """Whether an update is cut into no more segments than its offer may name, if these nodes own more than one."""
    return nodes + sum(more.values()) - len(more) <= MAX_PEERS + 1


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
