"""How a round may open on a node: asked for by a person here, by a peer, or noticed from an update."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from flnet.messages import LAST_ROUND, ChoiceMessage, HyperParams, SeriesMessage
from flnet.params import Digest, Params, PeerId, RoundKey


def standing(round: int, restored_at: int | None) -> int:
    """The round as whose model one counts: a person who goes back makes an old model count as a new one."""
    return round if restored_at is None else max(round, restored_at)


def next_key(number: int, me: PeerId, spoken: Collection[RoundKey]) -> RoundKey:
    """The round that a node starts next: none of which peers have spoken already, for it began that and forgot it.

    Args:
        number: of the newest round that it entered, below LAST_ROUND.
        spoken: rounds that words came of which are not open here yet.
    """
    following = number + 1
    while following < LAST_ROUND and RoundKey(following, me) in spoken:
        following += 1
    return RoundKey(following, me)


@dataclass(frozen=True)
class Start:
    """The initiator's model.

    Attributes:
        peer: who holds it, if `params` are to be fetched.
        round: the round whose average it is; -1 if it never was averaged.
        contributors: how many updates went into that average.
        restored_at: the round that the initiator had reached when a person there went back to it; None if nobody
            did.
    """

    digest: Digest
    params: Params | None
    peer: PeerId
    round: int = -1
    contributors: int = 0
    restored_at: int | None = None

    @property
    def standing(self) -> int:
        """The round as whose model it counts."""
        return standing(self.round, self.restored_at)


@dataclass(frozen=True)
class Opening:
    """A round about to open.

    Attributes:
        hyper: what it is trained with; None when only an update told of it.
        start: the initiator's model; None when only an update told of it, or this node is the initiator.
        sits_out: why this node does not train in it; empty if it does.
        heard_start: False when only an update told of it: the start may still be on its way.
        series: with a goal, that the start says the round belongs to.
        choice: of who trains, as the start, or an update, says it.
        run: of the initiator's node, in which it started the round, as the start says it.
        why: a schedule starts it here, in words.
    """

    key: RoundKey
    hyper: HyperParams | None = None
    start: Start | None = None
    sits_out: str = ""
    heard_start: bool = True
    series: SeriesMessage | None = None
    choice: ChoiceMessage | None = None
    run: str | None = None
    why: str = ""

    def started_by(self, me: PeerId) -> bool:
        """Whether this node is the initiator."""
        return self.key.initiator == me
