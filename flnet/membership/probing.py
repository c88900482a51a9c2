"""Who is probed next, and what is made of silence: ask others first, accuse then (SWIM, sections 3.1 and 4.3)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from flnet.membership.pace import Doubt, Pauses
from flnet.params import PeerId, Rng

HELP_TICKS = 3  # for which the answers of helpers are waited for


@dataclass
class Check:
    """One member that is being probed.

    Attributes:
        reason: why it did not answer; empty while the probe is under way.
        helpers: who was asked to probe it and has said nothing of it yet.
        until: tick after which helpers are not waited for any more.
        heard: whether any helper answered at all: then this node's own network works.
    """

    reason: str = ""
    helpers: set[PeerId] = field(default_factory=set)
    until: int = 0
    heard: bool = False


class Prober:
    """Takes turns among the members, and keeps account of those that are being probed."""

    def __init__(self, pauses: Pauses, rng: Rng) -> None:
        self.checks: dict[PeerId, Check] = {}
        self.doubt = Doubt()
        self._pauses, self._rng = pauses, rng
        self._turn: list[PeerId] = []
        self._begun: dict[PeerId, int] = {}  # the tick in which each was last probed

    def next(self, members: Collection[PeerId]) -> PeerId | None:
        """Whose turn it is; every member once in a random order, then in a new one."""
        while members:
            if not self._turn:
                self._turn = self.some(members, len(members))
            peer = self._turn.pop()
            if peer in members:
                return peer if peer not in self.checks else None
        return None

    def begin(self, peer: PeerId, tick: int) -> bool:
        """Note that a member is probed now; False if it is already, or was in this tick: no storm of probes."""
        if peer in self.checks or self._begun.get(peer) == tick:
            return False
        self.checks[peer] = Check()
        self._begun[peer] = tick
        return True

    def answered(self, peer: PeerId) -> None:
        """A member answered the probe, or was reached by a helper."""
        if self.checks.pop(peer, None) is not None:
            self.doubt.less()

    def silent(self, peer: PeerId, reason: str, others: Collection[PeerId], tick: int) -> Sequence[PeerId] | None:
        """A member did not answer the probe: whom to ask for help; None if it was not being probed."""
        check = self.checks.get(peer)
        if check is None or check.reason:
            return None
        helpers = self.some([other for other in others if other != peer], self._pauses.helpers)
        check.reason, check.helpers, check.until = reason or "it does not answer", set(helpers), tick + HELP_TICKS
        return helpers

    def helper_heard(self, target: PeerId) -> None:
        """A helper took the request."""
        if check := self.checks.get(target):
            check.heard = True

    def helper_done(self, target: PeerId, helper: PeerId) -> None:
        """A helper did not reach the member, or cannot be reached itself."""
        if check := self.checks.get(target):
            check.helpers.discard(helper)

    def given_up(self, tick: int) -> list[tuple[PeerId, str]]:
        """Members that nobody reached, each with the reason; they are not being probed any more."""
        over = [i for i, c in self.checks.items() if c.reason and (not c.helpers or tick >= c.until)]
        found = [(peer, self.checks.pop(peer)) for peer in over]
        for _, check in found:
            if not check.heard:
                self.doubt.more()
        return [(peer, check.reason) for peer, check in found]

    def forget(self, peer: PeerId) -> None:
        """A member is gone."""
        self.checks.pop(peer, None)
        self._begun.pop(peer, None)

    def some(self, peers: Collection[PeerId], count: int) -> list[PeerId]:
        """So many of them, drawn at random."""
        rest = sorted(peers)
        drawn: list[PeerId] = []
        while rest and len(drawn) < count:
            drawn.append(rest.pop(min(int(self._rng.random() * len(rest)), len(rest) - 1)))
        return drawn
