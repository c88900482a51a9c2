"""Private set intersection: holders find the people that all of them have, and agree on their order.

This module is the front door. `leader` and `follower` give the machine for any number of holders; `holder` has the
messages and effects, `two_holders` and `many_holders` the two protocols, docs/vertical.md what each holder learns.

    machine = leader(terms, ids, group, Randomness.draw(group, len(ids), secrets.token_bytes(32)))
    effects = machine.start()          # of a follower: machine.receive(message) of the first message
    # perform the effects: send messages; for AlignmentWork: effects = machine.finished(work, work.run())
    # until one of them is Aligned or Failed

The ids come from `normalised_column`. Both protocols are secure against holders that are curious but follow them;
against others, a session, a sender, an element and the form of each list are checked, but not that a holder tells the
truth about its ids.
"""

from __future__ import annotations

from collections.abc import Sequence

from flnet.algorithms.vertical.groups import Group
from flnet.algorithms.vertical.holder import Randomness, Terms
from flnet.algorithms.vertical.many_holders import ManyFollower, ManyLeader
from flnet.algorithms.vertical.two_holders import PairFollower, PairLeader

Leader = PairLeader | ManyLeader
Follower = PairFollower | ManyFollower


def leader(terms: Terms, ids: Sequence[str], group: Group, randomness: Randomness) -> Leader:
    """The machine of the first holder of the terms."""
    kind = PairLeader if len(terms.holders) == 2 else ManyLeader
    return kind(terms, ids, group, randomness)


def follower(terms: Terms, me: str, ids: Sequence[str], group: Group, randomness: Randomness) -> Follower:
    """The machine of any other holder.

    Args:
        me: its id, as in the terms.
    """
    kind = PairFollower if len(terms.holders) == 2 else ManyFollower
    return kind(terms, me, ids, group, randomness)
