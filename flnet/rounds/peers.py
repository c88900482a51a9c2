"""The peers of a job: which are reachable, which missed a message of the open round, and how fast they train."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from flnet.params.params import PeerId
from flnet.protocol.updates import RoundKey

SLACK = 2.0  # times the last training, which a node may take this time
MOST_DOUBT = 1024.0
RESTED = "paces:rested"  # a timer
# Rounds in a row without a word after which a peer is no longer waited for. Who has spoken before gets more of them;
# those that never have share theirs, because one machine can bring many names.
SILENT_ROUNDS, MORE_ROUNDS = 2, 6
MOST_KNOWN = 1024  # names that have spoken, of which those are forgotten first that spoke first
PATIENCE_EVERY = 10  # rounds, in one of which it is
GRACE = 4.0  # seconds that it still has when all others have come


@dataclass
class Paces:
    """How fast nodes train: the seconds that one epoch of their last training took.

    Attributes:
        rested: nodes that have not trained since the mesh rested. Starting a training process takes longer than
            many trainings, so nobody knows how long their next one will take.
        doubt: factor on the time that updates may spend on their way. It doubles whenever an update did not come
            within a time that was worked out from these seconds, for example on a slow line.
    """

    seconds: dict[PeerId, float] = field(default_factory=dict)
    rested: set[PeerId] = field(default_factory=set)
    doubt: float = 1.0

    def note(self, peer: PeerId, seconds: float | None, epochs: int) -> None:
        """Record the duration of a training; a node that does not state it is unknown again."""
        self.rested.discard(peer)
        if seconds:
            self.seconds[peer] = seconds / epochs
        else:
            self.seconds.pop(peer, None)

    def missed(self, peer: PeerId) -> None:
        """A node did not come in time: the next round waits its full time for it, later rounds wait longer."""
        if self.seconds.pop(peer, None) is not None:
            self.doubt = min(2 * self.doubt, MOST_DOUBT)

    def rest(self) -> None:
        """No node has trained for so long that its training process may have ended."""
        self.rested = set(self.seconds)

    def is_slow(self, me: PeerId, peers: Collection[PeerId]) -> bool:
        """Whether a node is known to take more than `SLACK` times as long as the median of these others."""
        others = sorted(self.seconds[peer] for peer in peers if peer in self.seconds)
        return bool(others) and self.seconds.get(me, 0.0) > SLACK * others[len(others) // 2]

    def expected(self, epochs: int) -> Mapping[PeerId, float]:
        """Seconds that the nodes whose pace is known will take for so many epochs."""
        return {peer: seconds * epochs for peer, seconds in self.seconds.items() if peer not in self.rested}


def wait_for(
    missing: Collection[PeerId], expected: Mapping[PeerId, float], passed: float, patience: float, way: float
) -> float:
    """Seconds worth waiting for nodes; never more than the patience, which holds where one of them is unknown.

    Args:
        missing: nodes whose update is awaited.
        expected: seconds that nodes will take.
        passed: seconds for which they have been training already, as far as this node knows.
        patience: what people set.
        way: seconds that an update may take when it is ready, also when it has to be sent again.
    """
    if not missing or any(peer not in expected for peer in missing):
        return patience
    rest = max(0.0, SLACK * max(expected[peer] for peer in missing) - passed)
    return min(patience, rest + way)


class Silence:
    """Which peers let this node wait in vain, round after round.

    When all others have come, they have GRACE seconds left, and their full time in every PATIENCE_EVERY-th round.
    """

    def __init__(self) -> None:
        self._rounds: dict[PeerId, int] = {}  # of peers that have spoken
        self._heard: dict[PeerId, None] = {}
        # Rounds in which peers that never spoke were waited for, less those in which all spoke.
        self._strangers = 0

    def silent(self, peers: Collection[PeerId]) -> set[PeerId]:
        """Those of these peers that are not waited for in this round as long as others are."""
        return {peer for peer in peers if self._is_over(peer)}

    def has_spoken(self, peer: PeerId) -> bool:
        """Whether this peer said at least once what was waited for."""
        return peer in self._heard

    def said_nothing(self, peers: Collection[PeerId]) -> None:
        """This node waited for these peers until their time was over."""
        known = [peer for peer in peers if peer in self._heard]
        for peer in known:
            self._rounds[peer] = self._rounds.get(peer, 0) + 1
        self._strangers += len(peers) > len(known)

    def all_spoke(self) -> None:
        """All that were waited for have said something in time."""
        self._strangers = max(0, self._strangers - 1)

    def spoke(self, peer: PeerId) -> None:
        """A peer said in time what was waited for."""
        self._rounds.pop(peer, None)
        self._heard[peer] = None
        if len(self._heard) > MOST_KNOWN:
            del self._heard[next(iter(self._heard))]

    def lost(self, peer: PeerId) -> None:
        """A peer is not reachable any more."""
        self._rounds.pop(peer, None)

    def _is_over(self, peer: PeerId) -> bool:
        rounds, most = self._strangers, SILENT_ROUNDS
        if peer in self._heard:
            rounds, most = self._rounds.get(peer, 0), MORE_ROUNDS
        return rounds >= most and rounds % PATIENCE_EVERY != 0


class Peers:
    """The other nodes, as one job knows them.

    Attributes:
        here: reachable now.
        unproven: those of them that never answered this node at their address, as a name that a member invents.
        whole: those of them that know whole updates only, and no segments.
        earliest: the smallest number of a round in which a peer has spoken since this node was started.
        away: the round in which a peer missed, or may have missed, a message of this node. When it is reachable
            again, it is sent the messages of that round once more.
        not_started: the round whose start did not reach a peer.
        owned: how many segments of a round they own that said so, as compared with others.
        updates: who lets rounds wait for its update.
        claims: who lets them wait for its accuracy.
    """

    def __init__(self) -> None:
        self.here: set[PeerId] = set()
        self.unproven: set[PeerId] = set()
        self.whole: set[PeerId] = set()
        self.owned: dict[PeerId, int] = {}
        self.earliest: dict[PeerId, int] = {}
        self.away: dict[PeerId, RoundKey] = {}
        self.not_started: dict[PeerId, RoundKey] = {}
        self.paces = Paces()
        self.updates, self.claims = Silence(), Silence()

    @property
    def proven(self) -> set[PeerId]:
        """Those that are reachable and answered at their address."""
        return self.here - self.unproven

    def met(self, peer: PeerId, *, is_proven: bool = True, is_whole: bool = False) -> None:
        """A peer is reachable."""
        self.here.add(peer)
        (self.unproven.discard if is_proven else self.unproven.add)(peer)
        (self.whole.add if is_whole else self.whole.discard)(peer)

    def owns(self, peer: PeerId, count: int | None) -> None:
        """A peer said how many segments of the next rounds it owns; None: as many as it may."""
        if count is None or peer not in self.here:
            self.owned.pop(peer, None)
        else:
            self.owned[peer] = count

    def spoke(self, peer: PeerId, number: int) -> None:
        """A peer said something in a round."""
        if peer in self.earliest or len(self.earliest) < MOST_KNOWN:
            self.earliest[peer] = min(number, self.earliest.get(peer, number))

    def saw_begin(self, key: RoundKey, members: Collection[str]) -> bool:
        """Whether a round began after this node was started, so that it cannot have forgotten what it said there.

        Its initiator and most of its other members have spoken in an earlier round since then, and nobody goes back.
        """
        earlier = {peer for peer, number in self.earliest.items() if number < key.number}
        return key.initiator in earlier and 2 * len(earlier & set(members)) > len(members) - 1

    def lost(self, peer: PeerId, key: RoundKey | None = None) -> None:
        """A peer is not reachable any more.

        Args:
            key: the open round, if the peer needs messages of it from this node.
        """
        self.here.discard(peer)
        self.unproven.discard(peer)
        self.whole.discard(peer)
        self.owned.pop(peer, None)
        for silence in (self.updates, self.claims):
            silence.lost(peer)
        if key is not None:
            self.away[peer] = key

    def missed(self, peer: PeerId, key: RoundKey, is_start: bool) -> None:
        """A message of a round did not reach a peer."""
        self.away[peer] = key
        if is_start:
            self.not_started[peer] = key

    def may_have_missed(self, peers: Iterable[PeerId], key: RoundKey) -> None:
        """Send these peers the messages of the round again, after a restart."""
        self.away |= dict.fromkeys(peers, key)

    def may_have_missed_start(self, peers: Iterable[PeerId], key: RoundKey) -> None:
        """Send these peers the start of the round again, too, even if this node has trained by then."""
        self.not_started |= dict.fromkeys(peers, key)

    def is_back(self, peer: PeerId, key: RoundKey) -> bool:
        """Whether a peer that is reachable missed messages of this round; asked once, for they are sent then."""
        return self.away.pop(peer, None) == key

    def has_start(self, peer: PeerId, key: RoundKey) -> bool:
        """Whether the start of this round reached a peer; asked once, likewise."""
        return self.not_started.pop(peer, None) != key
