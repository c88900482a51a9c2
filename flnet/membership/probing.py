"""Failure detection: who is probed next, what follows from silence, and how long everything takes.

A member that does not answer is probed by other members first, and accused after that (Das, Gupta, Motivala (2002), SWIM,
sections 3.1 and 4.3). Dadgar, Phillips, Currey (2018), Lifeguard, add local health awareness (section IV-A): a node that
is late itself doubts itself. A suspicion gets shorter with each independent accuser (section IV-B).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass, field

from flnet.params.params import PeerId, Rng
from flnet.text import text

MET_IN_PERSON = 20  # nodes of a mesh in which each announces itself to each other one, and asks each suspect
ASKING = 4  # nodes of a larger one that ask a suspect when they hear of it, on average
SUSPECTS_A_TICK = 4  # that a node of a larger one asks in a tick because it hears of them
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


def probe_seconds(pauses: Pauses, size: int) -> float:
    """Within which a probed member must answer: in a large mesh longer, for it has more to do and less is lost."""
    return pauses.probe * max(1.0, size / MET_IN_PERSON)


def _patience(pauses: Pauses, size: int) -> float:
    """Seconds for a probe and its answer by way of a third node, in a large mesh; 0 in others, where a tick is enough."""
    return 2 * probe_seconds(pauses, size) if size > MET_IN_PERSON else 0.0


def suspicion_ticks(pauses: Pauses, size: int, accusers: int) -> int:
    """How many ticks after the first accusation a suspect is declared dead.

    Args:
        size: nodes in the mesh, this one included.
        accusers: nodes that found by themselves that it does not answer, at least 1.
    """
    shortest = math.ceil(max(pauses.suspicion * max(1.0, math.log10(max(size, 1))), _patience(pauses, size)))
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
        """The factor by which this node slows its probing and extends the time for answers."""
        return self.level + 1

    def more(self, by: int = 1) -> None:
        """Something points at this node: its loop was late, its helpers were silent, it was itself accused."""
        self.level = min(self.level + by, MAX_DOUBT - 1)

    def less(self) -> None:
        """A probe was answered in time."""
        self.level = max(self.level - 1, 0)


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
        self._suspects = 0, 0  # a tick, and how many were asked in it

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
        """A member did not answer the probe: whom to ask for help; None if it was not being probed.

        Args:
            others: the members that can be asked.
        """
        check = self.checks.get(peer)
        if check is None or check.reason:
            return None
        helpers = self.some([other for other in others if other != peer], self._pauses.helpers)
        check.reason, check.helpers, check.until = (
            reason or text("it does not answer"),
            set(helpers),
            tick + max(HELP_TICKS, math.ceil(_patience(self._pauses, len(others) + 2))),
        )
        return helpers

    def may_ask_suspect(self, size: int, tick: int) -> bool:
        """Whether this node probes a suspect as soon as it hears of it: in a large mesh some do, drawn by chance.

        If all N asked at once, a node that is slow to answer would have N requests more, and each further accusation N
        more again. Where many are suspected in one tick, this node asks few of them.
        """
        if size <= MET_IN_PERSON:
            return True
        before = self._suspects[1] if self._suspects[0] == tick else 0
        if before >= SUSPECTS_A_TICK or self._rng.random() * size >= ASKING:
            return False
        self._suspects = tick, before + 1
        return True

    def is_silent(self, peer: PeerId) -> bool:
        """Whether a member did not answer the probe of this node, and others may still reach it."""
        check = self.checks.get(peer)
        return check is not None and check.reason != ""

    def is_helper(self, peer: PeerId, helper: PeerId) -> bool:
        """Whether this node asked the helper to probe a member, and waits for what it says."""
        check = self.checks.get(peer)
        return check is not None and helper in check.helpers

    def may_call(self, peer: PeerId, tick: int) -> bool:
        """Note that a member that is gone is announced to now; False if it was in this tick."""
        if self._begun.get(peer) == tick:
            return False
        self._begun[peer] = tick
        return True

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

    def keep_to(self, members: Container[PeerId]) -> None:
        """Forget when others than these were probed."""
        self._begun = {peer: tick for peer, tick in self._begun.items() if peer in members}

    def some(self, peers: Collection[PeerId], count: int) -> list[PeerId]:
        """So many of them, drawn at random."""
        rest = sorted(peers)
        drawn: list[PeerId] = []
        while rest and len(drawn) < count:
            drawn.append(rest.pop(min(int(self._rng.random() * len(rest)), len(rest) - 1)))
        return drawn
