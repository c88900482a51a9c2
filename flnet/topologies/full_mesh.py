"""Full mesh: every node sends all of its shared parameters to every other member (the thesis' only topology)."""

from __future__ import annotations

from collections.abc import Callable, Collection

from flnet.params import PeerId, Rng

# plan(me, members, round, rng) -> [(peer, names of the parameters it gets; None for all)]
Plan = list[tuple[PeerId, tuple[str, ...] | None]]
Topology = Callable[[PeerId, Collection[PeerId], int, Rng], Plan]


def full_mesh(me: PeerId, members: Collection[PeerId], round: int, rng: Rng) -> Plan:
    """Everyone but me, sorted by id, gets everything."""
    return [(peer, None) for peer in sorted(members) if peer != me]
