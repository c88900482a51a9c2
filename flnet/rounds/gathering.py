"""Gathers the updates of one round until all expected peers have answered, or a timer forces the average.

García Pérez, "Red de Federated Learning: de modelo cliente/servidor a P2P" (2021), section 3.2.4.2. The
thesis counts models against known nodes, which waits for ever on a dead one; here the peers expected are
those reachable when the round opened, one that is lost or declines leaves the set, and the timer always runs.

Large updates are offered by their digest and fetched when there is room; as soon as more of them are here than
there is room for, those that come first in the order of the peers are folded into a running sum and let go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto

from flnet.errors import LocalError
from flnet.params.params import Digest, Params, PeerId
from flnet.protocol.effects import Average, CancelTimer, Effect, Fetch, Fold, Publish, SetTimer
from flnet.protocol.events import (
    DeclineReceived,
    Event,
    Fetched,
    FetchFailed,
    PeerLost,
    TimerFired,
    UpdateOffered,
    UpdateReceived,
)
from flnet.protocol.updates import RoundKey, Update
from flnet.rounds.memory_agreement import MemoryAgreement
from flnet.rounds.peers import GRACE, wait_for
from flnet.rounds.settings import Tell, publish
from flnet.text import text


class Refolding:
    """Computes a sum again that holds updates which turned out not to count, then asks for the average, once.

    Updates that were folded are not kept, and sums in float64 cannot be undone to the last bit. So all other updates
    are fetched once more from their senders, one after another in the order of the peers, and folded as they
    arrive; those that had not been folded join them in the average. Only an attack or a broken node causes this.
    """

    def __init__(
        self, key: RoundKey, folded: Sequence[tuple[Update, Digest]], held: Sequence[Update], patience: float
    ) -> None:
        """Args:
        folded: what was in the sum and counts, sorted by peer, with the digests of the parameters; what is here
            with its parameters is not fetched.
        held: what counts and was never folded, sorted by peer.
        patience: seconds for all of it; what has not come by then is left out.
        """
        self.timer = f"sum-again:{key.number}:{key.initiator}"
        self.lost: dict[PeerId, str] = {}
        self.done = False
        self._key, self._patience = key, patience
        self._waiting, self._held = list(folded), tuple(held)
        self._folded: list[PeerId] = []

    def start(self) -> list[Effect]:
        """Begin."""
        return [SetTimer(self.timer, self._patience), *self._go_on()]

    def receive(self, event: Event) -> list[Effect]:
        """Handle the end of a download, or the timer."""
        match event:
            case _ if self.done:
                return []
            case Fetched(_, peer, digest, params) if self._awaits(peer, digest):
                update, _ = self._waiting[0]
                self._waiting[0] = replace(update, params=params), digest
                return self._go_on()
            case FetchFailed(_, peer, digest, reason) if self._awaits(peer, digest):
                self._leave(self._waiting[0][0], text("its update could not be fetched again: {reason}", reason))
                return self._go_on()
            case TimerFired(name) if name == self.timer:
                for update in [update for update, _ in self._waiting if not update.params]:
                    self._leave(update, text("there was no time to fetch its update again"))
                return self._go_on()
        return []

    def _awaits(self, peer: PeerId, digest: Digest) -> bool:
        update, wanted = self._waiting[0]
        return update.peer == peer and wanted == digest

    def _leave(self, update: Update, reason: str) -> None:
        self._waiting = [entry for entry in self._waiting if entry[0].peer != update.peer]
        self.lost[update.peer] = reason

    def _go_on(self) -> list[Effect]:
        """Fold the arrived updates, then download the next one; after the last one, average."""
        here: list[Update] = []
        while self._waiting and self._waiting[0][0].params:
            here.append(self._waiting.pop(0)[0])
        self._folded += [update.peer for update in here]
        folds: list[Effect] = [Fold(self._key, tuple(here))] if here else []
        if self._waiting:
            update, digest = self._waiting[0]
            return [*folds, Fetch(self._key, update.peer, digest)]
        self.done = True
        return [*folds, CancelTimer(self.timer), Average(self._key, self._held, tuple(self._folded))]


_SUM = 2  # in updates: it is in float64
RESTING = 4  # times the patience, in which who does not train itself waits for the first update


class Closing(Enum):
    """Why a round of averaging was closed."""

    COMPLETE = auto()  # all expected peers have answered
    TIMER = auto()  # the forced-averaging timer fired
    NEXT_ROUND = auto()  # the next round was asked for
    ABANDONED = auto()  # most others have averaged without this node, which takes their average


class Gathering:
    """Gathers the updates of one round, and closes once; the timer starts with this node's own update or refusal."""

    def __init__(
        self,
        key: RoundKey,
        me: PeerId,
        peers: Collection[PeerId],
        patience: float,
        margin: float = 0.0,
        room: int | None = None,
        chosen: Collection[PeerId] | None = None,
        seconds: Mapping[PeerId, float] | None = None,
        way: float = 0.0,
        tell: Tell = publish,
        silent: Collection[PeerId] = (),
        memory: MemoryAgreement | None = None,
    ) -> None:
        """Args:
        peers: the other nodes expected in this round.
        patience: seconds to wait for them after this node's own update or refusal.
        margin: random part added to that, so that not all nodes act at once.
        room: updates of peers that may be here, or on their way, before some are folded; None for all. The own
            one does not count: it stays here for peers that fetch it. A sum takes the room of two.
        chosen: who trains in this round; None for all. Nobody waits for others, but what they send counts.
        seconds: that nodes will train, as far as that is known; the patience may be shorter then, never longer.
        way: seconds in which an update is here when it is ready, also when it has to be sent again.
        tell: makes the news that an update was fetched, or could not be.
        silent: who said nothing in the rounds before, and has only GRACE seconds when all others have answered.
        memory: sees to it that nodes average with the same memory; None where the rule does not share its memory.
        """
        self.key = key
        self.me = me
        self.chosen = None if chosen is None else frozenset(chosen)
        self.expected: set[PeerId] = {me, *peers} & (self.chosen or {me, *peers})
        self.updates: dict[PeerId, Update] = {}  # of those that were folded, without parameters
        self.folded: list[PeerId] = []
        self.offers: dict[PeerId, tuple[Update, Digest]] = {}
        self.fetching: set[PeerId] = set()
        self.declined: dict[PeerId, str] = {}
        self.again: Refolding | None = None  # the sum is made again
        self.memory = memory
        self.refused: dict[PeerId, str] = {}  # who does not use what this node learns, and why
        self.invited = self.expected - {me}
        self.late: set[PeerId] = set()  # who train on over rounds, and have no time for an exchange
        self.closed: Closing | None = None
        self.timer = f"forced-averaging:{key.number}:{key.initiator}"
        self._patience, self._margin, self._room = patience, margin, room
        self._seconds, self._way, self._tell = dict(seconds or {}), way, tell
        self._digests: dict[PeerId, Digest] = {}  # of updates that are, or may be, folded
        self._silent, self._is_grace = frozenset(silent), False
        self._left = 0.0  # of the patience, when the timer fires
        self._rests = False  # not chosen, and no update has come yet

    @property
    def missing(self) -> list[PeerId]:
        """The expected peers that have not answered, sorted."""
        return sorted(self.expected - self.updates.keys())

    def unheard(self, peers: Collection[PeerId]) -> set[PeerId]:
        """Those of these peers that train in the round and have sent neither an update nor a refusal."""
        unheard = set(peers) - self.updates.keys() - self.declined.keys()
        return unheard if self.chosen is None else unheard & self.chosen

    def not_chosen(self, peers: Collection[PeerId]) -> set[PeerId]:
        """Those of these peers that do not train in the round, because others are chosen."""
        return set() if self.chosen is None else set(peers) - self.chosen

    def left_out(self) -> dict[PeerId, str]:
        """The nodes that were to train and whose updates have not come, each with the reason, sorted."""
        reasons = self._without_answer | self.refused | self.declined
        to_train = reasons.keys() if self.chosen is None else reasons.keys() & self.chosen
        return {peer: reasons[peer] for peer in sorted(to_train - self.updates.keys())}

    def alone(self, left_out: Mapping[PeerId, str], *, by_turns: bool = False) -> dict[PeerId, str]:
        """Why this node was alone in the round, by peer that was expected; empty if it was not.

        It was if its update is the only one in the average, or if nobody else has the average. One that refused this
        node's update does not have it, although its own update is in it.

        Args:
            left_out: the nodes whose updates are not in the average, each with the reason.
            by_turns: whether nodes sit rounds out by a schedule, so that one who declines has its turn later.
        """
        if self.me not in self.updates:
            return {}
        is_only_one = self.updates.keys() - left_out.keys() == {self.me}
        if is_only_one and not (by_turns and self.declined):
            return {peer: why for peer, why in sorted(left_out.items()) if peer not in self.late}
        others = {*self.updates, *self.declined} - {self.me} - self.refused.keys()
        if others or self.chosen is not None:  # who is not chosen averages what others send
            return {}
        return dict(sorted((self._without_answer | self.refused).items()))

    @property
    def _without_answer(self) -> dict[PeerId, str]:
        """The nodes that were invited and sent neither an update nor a refusal of their own, each with the reason."""
        silent: str = text("no answer in time")
        lost: str = text("not reachable any more")
        gone = self.invited - self.updates.keys() - self.declined.keys()
        return dict.fromkeys(gone, lost) | dict.fromkeys(self.missing, silent)

    @property
    def sits_out(self) -> bool:
        """Whether this node is not among those that train, so that nobody waits for it."""
        return self.chosen is not None and self.me not in self.chosen

    def choose(self, chosen: Collection[PeerId]) -> None:
        """Set the nodes that train, if they were not known when the round opened; then close, or continue with `rest`."""
        self.chosen = frozenset(chosen)
        self.expected &= self.chosen | self.updates.keys() | self.offers.keys()

    def expect(self, peer: PeerId) -> None:
        """Wait for this peer as well."""
        self.expected.add(peer)

    def took(self, peer: PeerId, seconds: float | None) -> None:
        """Note the duration of a node's training in this round."""
        if seconds:
            self._seconds[peer] = seconds

    def rest(self) -> list[Effect]:
        """Wait for the chosen nodes, if this one is not among them; longer as long as none of them has finished.

        If none of them is known here, updates may still arrive.
        """
        if self.closed is not None:
            return []
        if self.updates and not self.missing:
            return self.close(Closing.COMPLETE)
        self._rests = not self.updates
        patience = self._patience * (RESTING if self._rests and self.missing else 1)
        return [self._wait(0.0, patience), *(self._fold() if self.missing else []), *self._pull()]

    def has_passed(self, peer: PeerId) -> bool:
        """Whether a peer's turn in the order is over, because later updates are folded already."""
        return bool(self.folded) and peer < self.folded[-1] and peer not in self.updates

    def receive(self, event: Event) -> list[Effect]:
        """Handle an update or the offer of one, the end of a download, a refusal, the loss of a peer, or the timer."""
        match event:
            case _ if self.again is not None:
                return self._made_again(self.again, event)
            case _ if self.closed is not None and self.memory is not None:
                return self.memory.receive(event)
            case _ if self.closed is not None:
                return []  # late, not wrong: it crossed our average on the way
            case UpdateReceived(update) | UpdateOffered(update) if update.key != self.key:
                raise LocalError(f"{update.key} reached the averaging of {self.key}")
            case UpdateReceived(update) | UpdateOffered(update) if update.peer in self.updates:
                return []  # a duplicate; the first one counts
            case UpdateReceived(update) | UpdateOffered(update) if self.has_passed(update.peer):
                return []
            case UpdateReceived(update):
                return self._take(update)
            case UpdateOffered(update, digest):
                if self._digests.get(update.peer, digest) != digest:  # it was started again, and trained again
                    self.fetching.discard(update.peer)
                self.offers[update.peer] = (update, digest)
                self._digests[update.peer] = digest
                self.expected.add(update.peer)  # who has something to say is waited for
                return self._pull()
            case Fetched(_, peer, digest, params) if self._awaits(peer, digest):
                update = replace(self.offers[peer][0], params=params)
                return [*self._take(update), self.counted(update)]
            case FetchFailed(_, peer, digest, reason) if self._awaits(peer, digest):
                why = text("its update could not be fetched: {reason}", reason)
                return [*self._leave(peer, why), self._failed(event)]
            case DeclineReceived(peer, _, reason, late) if peer not in self.updates:
                self.late |= {peer} if late else set()
                return self._leave(peer, reason)
            case PeerLost(peer, _) if peer in self.fetching:
                return []  # the end of the fetch decides
            case PeerLost(peer, _) if peer != self.me and peer not in self.updates:
                self._forget(peer)
                self.expected.discard(peer)
                return self._spoken(peer)
            case TimerFired(name) if name == self.timer and self.offers and self._left > 0:
                wait, self._left = self._left, 0.0  # what is being fetched has the whole patience
                return [SetTimer(self.timer, wait, self._margin)]
            case TimerFired(name) if name == self.timer:
                return self.close(Closing.TIMER)
        return []

    def close(self, why: Closing) -> list[Effect]:
        """Close with the arrived updates; there is no Average if there are none."""
        self.closed = why
        self.offers.clear()
        self.fetching.clear()
        effects: list[Effect] = [CancelTimer(self.timer)]
        if not self.updates:
            return effects
        average = Average(self.key, self._held(), tuple(self.folded))
        return [*effects, *(self.memory.agree(average, self.updates.values()) if self.memory else [average])]

    def abandon(self) -> list[Effect]:
        """Close without an average; what still comes is not needed."""
        self.closed = Closing.ABANDONED
        self.offers.clear()
        self.fetching.clear()
        return [CancelTimer(self.timer)]

    def fold_again(self, refused: Collection[PeerId], own: Params | None) -> list[Effect]:
        """Compute another sum, because this one contains updates that do not count, and average then.

        Args:
            refused: peers whose updates do not count.
            own: parameters of this node's own update, which need not be fetched.
        """
        held_here = {self.me: own or Params()}
        folded = [
            (replace(self.updates[peer], params=held_here.get(peer, Params())), self._digests[peer])
            for peer in self.folded
            if peer not in refused
        ]
        held = [update for update in self._held() if update.peer not in refused]
        self.again = Refolding(self.key, folded, held, self._patience)
        return self.again.start()

    def counted(self, update: Update) -> Publish:
        """The event that an update has arrived."""
        have = len(self.updates)
        words = text("update from {peer}: {count} of {number}", update.peer, have, have + len(self.missing))
        return self._tell("update_received", words, peer=update.peer, bytes=update.params.nbytes)

    def _failed(self, event: FetchFailed) -> Publish:
        words = text("the update of {peer} could not be fetched: {reason}", event.peer, event.reason)
        return self._tell("fetch_failed", words, peer=event.peer)

    def _made_again(self, again: Refolding, event: Event) -> list[Effect]:
        before = set(again.lost)
        effects = again.receive(event)
        for peer in again.lost.keys() & self.updates.keys():
            del self.updates[peer]
            self.declined[peer] = again.lost[peer]
        if isinstance(event, FetchFailed) and event.peer in again.lost.keys() - before:
            return [*effects, self._failed(event)]
        return effects

    def let_go(self) -> None:
        """Drop the updates' parameters once they are averaged; the peers that have answered stay known."""
        self.updates = {peer: replace(update, params=Params()) for peer, update in self.updates.items()}

    def _take(self, update: Update) -> list[Effect]:
        self._forget(update.peer)
        self.updates[update.peer] = update
        self.late |= {update.peer} if update.staleness else set()
        self.declined.pop(update.peer, None)
        if not self._rests or not self.missing:
            return self._spoken(update.peer)
        self._rests = False
        return [self._wait_beside(update.peer), *self._spoken(update.peer)]

    def _wait_beside(self, peer: PeerId) -> Effect:
        """Wait for the others, as after this node's own training."""
        return self._wait(self._seconds.get(peer, 0.0) if peer in self.updates else 0.0, self._patience)

    def _wait(self, passed: float, patience: float) -> Effect:
        if self._is_for_silent:
            self._is_grace, patience = True, min(patience, GRACE)
        wait = wait_for(self.missing, self._seconds, passed, patience, self._way)
        self._left = patience - wait
        return SetTimer(self.timer, wait, self._margin)

    def _leave(self, peer: PeerId, reason: str) -> list[Effect]:
        self._forget(peer)
        self.declined[peer] = reason
        self.expected.discard(peer)
        return self._spoken(peer)

    def _spoken(self, peer: PeerId) -> list[Effect]:
        if not self.missing and not self.updates and self.late:
            return self._wait_for_late()
        if not self.missing:
            return self.close(Closing.COMPLETE)
        # Once: names that come and go would put it off for ever.
        is_next = self._is_for_silent and self.me not in self.missing and not self._is_grace
        timer: list[Effect] = [self._wait_beside(peer)] if peer == self.me or is_next else []
        return [*timer, *self._fold(), *self._pull()]

    def _wait_for_late(self) -> list[Effect]:
        """Wait for late updates if all nodes are late, because otherwise there would be nothing to average."""
        self.expected |= self.late
        self.declined = {peer: reason for peer, reason in self.declined.items() if peer not in self.late}
        self.late = set()
        return [SetTimer(self.timer, self._patience, self._margin)]

    @property
    def _is_for_silent(self) -> bool:
        """Whether only peers that said nothing in the rounds before are still awaited."""
        return bool(self.missing) and self._silent.issuperset(self.missing) and not self.offers

    def _awaits(self, peer: PeerId, digest: Digest) -> bool:
        return peer in self.fetching and self.offers[peer][1] == digest

    def _forget(self, peer: PeerId) -> None:
        self.offers.pop(peer, None)
        self.fetching.discard(peer)

    def _held(self) -> tuple[Update, ...]:
        return tuple(self.updates[peer] for peer in sorted(self.updates.keys() - set(self.folded)))

    def _is_full(self, coming: int = 0) -> bool:
        """Whether there is no room for another update in addition to the held ones and so many that are being fetched."""
        if self._room is None:
            return False
        held = sum(update.peer != self.me for update in self._held())
        return held + coming >= max(1, self._room - (_SUM if self.folded else 0))

    def _fold(self) -> list[Effect]:
        """Fold the updates whose turn has come, if there is no room for more."""
        if not self._is_full():
            return []
        held = self._held()
        first_gap = self.missing[0]
        batch = tuple(update for update in held if update.peer < first_gap)
        if not batch:
            return []
        for update in batch:
            self.folded.append(update.peer)
            if update.peer not in self._digests:  # it was small enough to be sent along, or is the own one
                self._digests[update.peer] = update.params.digest
            self.updates[update.peer] = replace(update, params=Params())
        return [Fold(self.key, batch)]

    def _pull(self) -> list[Effect]:
        """Fetch offered updates for which there is room; the next one in the order is always fetched."""
        effects: list[Effect] = []
        for peer in sorted(self.offers.keys() - self.fetching):
            if not self._is_full(len(self.fetching)) or peer <= self.missing[0]:
                self.fetching.add(peer)
                effects.append(Fetch(self.key, peer, self.offers[peer][1], proven=False))
        return effects
