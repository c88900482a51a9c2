"""Finds the part of the nodes whose sum fails its check, where updates are masked and nobody can look at a single one.

A sum that no honest updates add up to is refused by all nodes alike. Its contributors then train in two groups, in a
round each: the group with the fault is refused again, and the rounds of the other one go through. A group has three nodes
at least, so that its sum still hides who sent what; so fewer than six nodes cannot be searched.

All nodes divide the contributors by the hash that also chooses participants, so nobody picks the groups, and a node
follows a start for a group only if it has seen the failed sum itself.
"""

from __future__ import annotations

from collections.abc import Collection

from flnet.params.params import PeerId
from flnet.protocol.messages import ChoiceMessage

GROUPS, LEAST = 2, 3


class GroupSearch:
    """The search after one failed sum, as one node sees it."""

    def __init__(self) -> None:
        self._failed: tuple[int, tuple[PeerId, ...]] | None = None  # round, and who was in its sum
        self._next = 0

    @property
    def is_under_way(self) -> bool:
        """Whether groups are still to train."""
        return self._failed is not None and self._next < GROUPS

    def begin(self, round: int, contributors: Collection[PeerId]) -> bool:
        """A sum of all failed its check; return whether it is searched."""
        if len(contributors) < GROUPS * LEAST:
            self._failed = None
            return False
        self._failed, self._next = (round, tuple(sorted(contributors))), 0
        return True

    def choice(self) -> ChoiceMessage | None:
        """Who trains in the next round that starts here; None where there is no search."""
        if self._failed is None or not self.is_under_way:
            return None
        round, members = self._failed
        take = len(members[self._next :: GROUPS])
        return ChoiceMessage(members=members, take=take, failed=round, group=self._next, groups=GROUPS)

    def believes(self, choice: ChoiceMessage) -> bool:
        """Whether a start for a group follows from the sum that this node saw fail."""
        if self._failed is None or choice.group is None:
            return False
        round, members = self._failed
        is_same = (choice.failed, choice.groups, tuple(map(PeerId, choice.members))) == (round, GROUPS, members)
        return is_same and self._next <= choice.group < GROUPS

    def ended(self, choice: ChoiceMessage) -> None:
        """The round of a group is over."""
        if choice.group is not None and choice.failed == (self._failed[0] if self._failed else None):
            self._next = choice.group + 1
