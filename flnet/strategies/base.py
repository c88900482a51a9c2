"""What a strategy is: pure functions; all that is remembered between rounds is the state they hand on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from flnet.params import Params, PeerId, Schema, Update
from flnet.weighing import Weighed

State = Params | None  # named arrays, kept with the job over restarts; None before the first round
MERGING = "merging rule"  # what nodes agree on, by this name


@dataclass(frozen=True)
class RoundStart:
    """What the updates of a round have in common, as this node knows it.

    Attributes:
        schema: what every update holds.
        base: the shared parameters that the round began with here; rules that look at changes measure from them.
        number: of the round.
        me: this node.
        members: the nodes that are known now, this one among them, whether they train in the round or not.
    """

    schema: Schema
    base: Params
    number: int = 0
    me: PeerId | None = None
    members: frozenset[PeerId] = frozenset()


class Merged(NamedTuple):
    """What became of the updates of a round.

    Attributes:
        params: the model.
        state: what the rule remembers for the next round.
        weighed: how each update counted, of those that the rule can say something of.
        is_common: whether other nodes that hold the same updates make the same of them; not where this node
            remembers other things than they do, as one that joined them lately.
    """

    params: Params
    state: State = None
    weighed: Mapping[PeerId, Weighed] = {}
    is_common: bool = True


class Filtered(NamedTuple):
    """What a filter left of the updates of a round.

    Attributes:
        updates: those that still count, in their order, changed or not; never none.
        weighed: what the filter found of each update, of those too that it took out.
    """

    updates: Sequence[Update]
    weighed: Mapping[PeerId, Weighed] = {}


class Filter(NamedTuple):
    """What updates go through before a merging rule sees them.

    Attributes:
        name: by which nodes agree on it, with its numbers.
        apply: (start of the round, updates sorted by peer, never empty) -> those that are left. A function of
            these alone, as merging rules are.
    """

    name: str
    apply: Callable[[RoundStart, Sequence[Update]], Filtered]


class Running(Protocol):
    """A merge under way, for models so large that not all updates fit in memory beside each other.

    However the updates are grouped into calls of `add`, the result has the bits of `Strategy.merge` over all of
    them in the same order.
    """

    def add(self, updates: Sequence[Update]) -> None:
        """Take in the next updates in the order of peers; their arrays are not held on to."""
        ...

    def result(self) -> Merged:
        """The average and the next state. It ends the merge: nothing can be added, nor asked again.

        Raises:
            ValueError: nothing was added, or the result was handed out before.
        """
        ...


class Strategy(NamedTuple):
    """How updates become one model.

    Attributes:
        name: by which nodes agree on it, with its numbers.
        merge: (state, start of the round, updates sorted by peer, never empty) -> result. A function of these
            alone: nodes that hold the same get the same bits.
        running: begins the same merge for updates that come one after another; None where the rule needs all
            updates at once, as rules do that compare them with each other.
        needs_base: whether the result depends on the base of the round, too; then a node whose base is not the
            one of most updates knows that others make something else of them.
    """

    name: str
    merge: Callable[[State, RoundStart, Sequence[Update]], Merged]
    running: Callable[[State, RoundStart], Running] | None = None
    needs_base: bool = False
