"""The average of one round, segment by segment: a node needs two models' worth of traffic, however many nodes there are.

1. A node that has trained tells all of its update, with the digests of its segments. Each owner of a segment downloads
   that of every update, and nothing else of it.
2. The members settle whose updates are averaged (`flnet.rounds.settlement`): else two segments could be averages of
   different nodes, and the model would be that of no round.
3. Each owner averages its segment of the updates that were settled, and tells all the digest of what it made.
4. Every node downloads what the owners made, and joins it.

What an owner makes follows from what was settled alone. So any node can take the place of an owner that vanished, and with
several owners for a segment, what most of them made counts.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from flnet.params.params import Digest, Params, PeerId, Schema
from flnet.params.segments import Segments
from flnet.protocol.effects import Average, CancelTimer, Effect, SetTimer
from flnet.protocol.events import Event, Fetched, TimerFired
from flnet.protocol.secure_sum import SecurePart
from flnet.protocol.segments import SumPart
from flnet.protocol.updates import RoundKey, Update
from flnet.rounds.contributor_vote import Contributors
from flnet.rounds.download import ParamsDownload
from flnet.rounds.segment_ring import SegmentRing
from flnet.rounds.settlement import VOTES, Settlement, digest_of
from flnet.text import text

TURNS = 4  # parts of the patience, after each of which a silent owner is replaced


def root_of(update: Update, digests: Iterable[str]) -> Digest:
    """The digest of an update that is known by the digests of its segments, and of what it counts by."""
    figures = f"{update.examples} {update.labels} {update.staleness}"
    return Digest(hashlib.sha256("\n".join([figures, *digests]).encode()).hexdigest())


class SegmentedSum:
    """This node's part in the average of one round.

    Attributes:
        ring: who owns which segment.
        failure: why there will be no average; empty while there may be one.
    """

    def __init__(
        self,
        key: RoundKey,
        me: PeerId,
        ring: SegmentRing,
        segments: Segments,
        patience: float,
        send: Callable[[PeerId | None, SecurePart], list[Effect]],
    ) -> None:
        """Args:
        segments: how parameters are cut.
        patience: seconds for which sums are waited for, once it is settled what they are of.
        send: makes the effects that send a part to a node, or to all.
        """
        self.key, self.ring, self.failure = key, ring, ""
        self._me, self._segments, self._patience, self._send = me, segments, patience, send
        self._settlement = self._new_settlement(is_voter=True)
        self.timer = f"segments:{key.number}:{key.initiator}"
        self._said: dict[tuple[PeerId | None, str], SecurePart] = {}  # the newest of each kind
        self._updates: dict[PeerId, Update] = {}  # without parameters
        self._digests: dict[PeerId, Sequence[Digest]] = {}  # of the segments of each update
        self._roots: dict[PeerId, Digest] = {}  # of each update
        self._announced: set[int] = set()  # segments of which this node has told what it has
        self._inputs: dict[tuple[PeerId, int], Params] = {}
        self._by_digest: dict[
            Digest, Params
        ] = {}  # all segments that are here, so that nothing is hashed to find one
        self._told: dict[int, dict[PeerId, tuple[str, Digest]]] = {}  # by segment: what nodes made, and of what
        self._made: dict[int, Params] = {}  # what this node made, and what it downloaded of others
        self._downloads: dict[Digest, ParamsDownload] = {}
        self._resting: set[Digest] = set()  # what could not be downloaded, until it is tried again
        self._gone: set[PeerId] = set()
        self._late: dict[int, set[PeerId]] = {}  # by segment: owners that were waited for in vain
        self._turns, self._waits = 0, False
        self._is_averaging = False

    @property
    def timers(self) -> tuple[str, ...]:
        """The names of its timers."""
        return self._settlement.timer, self.timer, *(each.timer for each in self._downloads.values())

    @property
    def settled(self) -> Contributors | None:
        """The contributors, once they are settled."""
        return self._settlement.settled

    @property
    def is_in_time(self) -> bool:
        """Whether no owner was waited for in vain yet."""
        return self._turns == 0

    @property
    def updates(self) -> dict[PeerId, Update]:
        """The updates that were settled, without their parameters; of what did not reach this node, the name alone."""
        nothing = Params()
        return {peer: self._updates.get(peer) or Update(peer, self.key, nothing) for peer, _ in self.settled or ()}

    def update_of(self, peer: PeerId) -> Update:
        """An update that was offered, without its parameters."""
        return self._updates[peer]

    @property
    def average(self) -> Params | None:
        """The average, once all its segments are here."""
        if len(self._made) < self._segments.count:
            return None
        return self._segments.joined([self._made[segment] for segment in range(self._segments.count)])

    def abstain(self) -> None:
        """Vote no more: this node does not know what it has agreed to."""
        self._settlement = self._new_settlement(is_voter=False)

    # --- updates

    def learn(self, own: Update) -> Sequence[Digest]:
        """Take this node's own update; return the digests of its segments, for its offer to the others."""
        if self._me in self._digests:
            return self._digests[self._me]
        cut = self._segments.cut(own.params)
        digests = [segment.digest for segment in cut]
        self._inputs |= {(self._me, place): segment for place, segment in enumerate(cut)}
        self._by_digest |= dict(zip(digests, cut, strict=True))
        self._note(replace(own, params=Params()), digests)
        return digests

    def may_offer(self, update: Update, digests: Sequence[Digest]) -> bool:
        """Whether an update can still be in the average: it is settled that it is, or nothing is settled yet."""
        return self.settled is None or (update.peer, root_of(update, digests)) in self.settled

    def offer(self, update: Update, digests: Sequence[Digest]) -> list[Effect]:
        """A peer has an update with these segments: download those that this node is to hold."""
        if update.peer in self._updates or len(digests) != self._segments.count:
            return []
        self._note(update, digests)
        return [*self._want(update.peer, self._needed(update.peer)), *self._go_on()]

    def has(self, peer: PeerId) -> bool:
        """Whether all is here that this node is to hold of a peer's update."""
        here = all((peer, segment) in self._inputs for segment in self._needed(peer))
        return peer in self._updates and here

    @property
    def lacks_something(self) -> bool:
        """Whether something could not be downloaded, and is to be tried again."""
        return bool(self._resting)

    def awaits(self, digest: Digest) -> bool:
        """Whether this is being downloaded."""
        return digest in self._downloads

    def form_of(self, digest: Digest) -> Schema | None:
        """The form of a segment that is being downloaded; None for anything else."""
        download = self._downloads.get(digest)
        return None if download is None else download.form

    def retry(self) -> list[Effect]:
        """Try again what could not be downloaded."""
        self._resting = set()
        effects = [effect for peer in list(self._updates) for effect in self._want(peer, self._needed(peer))]
        return [*effects, *self._go_on()]

    def find(self, digest: Digest) -> Params | None:
        """A segment with this digest that is here: of an update, or of the average."""
        return self._by_digest.get(digest)

    # --- events

    def complete(self, chosen: Collection[PeerId]) -> list[Effect]:
        """No further update is waited for.

        Args:
            chosen: who was to train. If all of their updates are here, nobody need lead the vote.
        """
        held, was_settled = {peer for peer, _ in self._held()}, self.settled is not None
        if not held and not was_settled:
            return []  # the round is over here: a vote would only draw others into it
        is_all = held == set(chosen)
        vote = self._settlement.accept_all() if is_all else []
        vote += self._settlement.lead_in_turn(self._here, at_once=not is_all)
        return [*vote, *([] if was_settled else self._wait()), *self._go_on()]

    def receive(self, sender: PeerId, part: SecurePart) -> list[Effect]:
        """Take a part that a peer sent."""
        self._gone.discard(sender)
        if isinstance(part, VOTES):
            was_settled = self.settled is not None
            effects = self._settlement.receive(sender, part)
            return [*effects, *([] if was_settled else self._begin()), *self._go_on()]
        if isinstance(part, SumPart) and part.segment < self._segments.count:
            told = self._told.setdefault(part.segment, {})
            told.setdefault(sender, (part.contributors, Digest(part.digest)))
        return self._go_on()

    def hurry(self) -> list[Effect]:
        """This node has come to a vote that is under way, and waits for nothing else: it is to end in time."""
        return [] if self._waits else self._wait()

    def leave(self, peer: PeerId) -> list[Effect]:
        """A peer vanished, or takes no part any more. This node is there, also if it does not train."""
        if peer != self._me:
            self._gone.add(peer)
        return self._go_on()

    def handle(self, event: Event) -> list[Effect]:
        """Handle the end of a download, or a timer."""
        if isinstance(event, TimerFired) and event.name == self._settlement.timer:
            was_settled = self.settled is not None
            effects = self._settlement.timer_fired(self._here)
            return [*effects, *([] if was_settled else self._begin()), *self._go_on()]
        if isinstance(event, TimerFired) and event.name == self.timer:
            return self._wait_no_longer()
        effects = [effect for each in list(self._downloads.values()) for effect in each.receive(event)]
        if isinstance(event, Fetched):
            self._take(event.digest, event.params)
        self._resting |= {digest for digest, each in self._downloads.items() if each.failure is not None}
        self._downloads = {digest: each for digest, each in self._downloads.items() if not each.is_over}
        return [*effects, *self._go_on()]

    def averaged(self, segment: int, params: Params) -> list[Effect]:
        """This node has averaged a segment: tell all."""
        self._is_averaging = False
        self._made[segment] = self._by_digest[params.digest] = params
        return self._go_on()

    def say_again(self, peer: PeerId) -> list[Effect]:
        """Repeat to a peer what it may not have heard; all of it means the same when it comes twice."""
        parts = [part for (to, _), part in self._said.items() if to in (None, peer)]
        return [effect for part in parts for effect in self._send(peer, part)]

    def forget(self) -> list[Effect]:
        """The round is over here: download nothing more. What was made can still be downloaded."""
        cancelled: list[Effect] = [CancelTimer(name) for name in self.timers]
        self._downloads = {}
        return cancelled

    # --- steps

    def _new_settlement(self, *, is_voter: bool) -> Settlement:
        members, key = sorted(self.ring.order), self.key
        facts = "\n".join([f"{key.number} {key.initiator} {self.ring.copies}", *members])
        group, least = hashlib.sha256(facts.encode()).hexdigest(), len(members) // 2 + 1
        voters = (group, members, lambda: least, self._say)
        sound, held = self._is_sound, self._held
        return Settlement(key, self._me, *voters, is_sound=sound, held=held, is_voter=is_voter, has_parts=True)

    @property
    def _here(self) -> set[PeerId]:
        return set(self.ring.order) - self._gone

    def _say(self, to: PeerId | None, part: SecurePart) -> list[Effect]:
        kind = f"sum {part.segment}" if isinstance(part, SumPart) else type(part).__name__
        self._said[to, kind] = part
        return self._send(to, part)

    def _note(self, update: Update, digests: Sequence[Digest]) -> None:
        self._updates[update.peer], self._digests[update.peer] = update, tuple(digests)
        self._roots[update.peer] = root_of(update, digests)

    def _held(self) -> Contributors:
        return tuple((peer, self._roots[peer]) for peer in sorted(self._updates) if self.has(peer))

    def _is_sound(self, contributors: Contributors) -> bool:
        """Whether this node may accept a set: of members, with what they told this node."""
        if not contributors or not {peer for peer, _ in contributors} <= set(self.ring.order):
            return False
        return all(self._roots.get(peer, root) == root for peer, root in contributors)

    def _needed(self, contributor: PeerId) -> list[int]:
        """The segments of an update that this node is to hold before the contributors are settled."""
        if contributor == self._me:
            return []
        return [s for s in range(self._segments.count) if self._me in self.ring.holders(s, contributor)]

    def _begin(self) -> list[Effect]:
        """If it is settled now, the sums have all the time from here on."""
        if self.settled is None:
            return []
        self._turns = 0
        return self._wait()

    def _wait(self) -> list[Effect]:
        self._waits = True
        return [SetTimer(self.timer, self._patience / TURNS)]

    def _go_on(self) -> list[Effect]:
        """Take the steps that need no further event."""
        if self.settled is None or self.failure:
            return []
        effects: list[Effect] = []
        for segment in range(self._segments.count):
            if segment in self._made:
                effects += self._announce(segment)
                continue
            if self._me in self._owners(segment):
                effects += self._sum(segment)
            elif (digest := self._decided(segment)) is not None:
                effects += self._download(digest, self._makers(segment, digest), segment)
        return effects

    def _announce(self, segment: int) -> list[Effect]:
        """Tell all of a segment that this node owns; also one that an owner made which is gone: the others may lack it."""
        if segment in self._announced or self._me not in self._owners(segment):
            return []
        self._announced.add(segment)
        assert self.settled is not None
        of, made = digest_of(self.settled), self._made[segment].digest
        return self._say(None, SumPart(segment=segment, contributors=of, digest=made))

    def _owners(self, segment: int) -> list[PeerId]:
        late = self._late.get(segment, set()) - self._told.get(segment, {}).keys()
        return self.ring.owners(segment, self._gone | late)

    def _sum(self, segment: int) -> list[Effect]:
        """Average a segment of which all inputs are here; else download what is lacking."""
        if any(self._roots.get(peer) != root for peer, root in self.settled or ()):
            return []  # it did not hear of an update, or of another one
        peers = [peer for peer, _ in self.settled or ()]
        lacking = [peer for peer in peers if (peer, segment) not in self._inputs]
        if lacking:
            return [effect for peer in lacking for effect in self._want(peer, [segment])]
        if self._is_averaging:
            return []
        self._is_averaging = True
        updates = (self._updates[peer] for peer in peers)
        cut = tuple(replace(update, params=self._inputs[update.peer, segment]) for update in updates)
        return [Average(self.key, cut, segment=(segment, self._segments.count))]

    def _decided(self, segment: int) -> Digest | None:
        """What most owners made of a segment; None as long as they have not said so."""
        assert self.settled is not None
        of, told = digest_of(self.settled), self._told.get(segment, {})
        made = Counter(told[peer][1] for peer in self._owners(segment) if peer in told and told[peer][0] == of)
        least = self.ring.copies // 2 + 1
        return next((digest for digest, count in made.most_common(1) if count >= least), None)

    def _makers(self, segment: int, digest: Digest) -> list[PeerId]:
        return [
            peer for peer, (_, made) in self._told[segment].items() if made == digest and peer not in self._gone
        ]

    def _want(self, peer: PeerId, segments: Iterable[int]) -> list[Effect]:
        """Download segments of an update, from its sender or from who holds them, too."""
        effects: list[Effect] = []
        for segment in segments:
            digests = self._digests.get(peer)
            if digests is None or (peer, segment) in self._inputs:
                continue
            sources = [peer, *self.ring.holders(segment, peer)]
            effects += self._download(digests[segment], sources, segment)
        return effects

    def _download(self, digest: Digest, sources: Collection[PeerId], segment: int) -> list[Effect]:
        if digest in self._downloads or digest in self._resting:
            return []
        here = [peer for peer in sources if peer != self._me and peer not in self._gone]
        form = self._segments.schemas[segment]
        download = ParamsDownload(
            self.key, digest, f"segment:{digest[:16]}", self._me, here, self._patience, None, form
        )
        self._downloads[digest] = download
        effects = download.start()
        if download.is_over:  # nobody has it now
            del self._downloads[digest]
            self._resting.add(digest)
        return effects

    def _take(self, digest: Digest, params: Params) -> None:
        """Put a segment that came in each place where it is wanted; equal digests are equal segments."""
        self._by_digest[digest] = params
        for peer, digests in self._digests.items():
            for segment, each in enumerate(digests):
                if each == digest:
                    self._inputs[peer, segment] = params
        if self.settled is not None:
            for segment in range(self._segments.count):
                if segment not in self._made and self._decided(segment) == digest:
                    self._made[segment] = params

    def _wait_no_longer(self) -> list[Effect]:
        """An owner that has said nothing is replaced by the next node in the ring; after TURNS of them it is enough."""
        self._turns += 1
        if self.settled is None:
            if self._turns >= TURNS:
                self.failure = text("the nodes did not agree in time on whose updates are averaged")
            return [] if self.failure else self._wait()
        lacking = [segment for segment in range(self._segments.count) if segment not in self._made]
        if not lacking:
            return []
        if self._turns >= TURNS:
            self.failure = text("the averages of {count} segments did not come in time", len(lacking))
            return []
        for segment in lacking:
            told = self._told.get(segment, {})
            # Also this node: it may lack an update that it did not hear of in time.
            silent = {peer for peer in self._owners(segment) if peer not in told}
            self._late.setdefault(segment, set()).update(silent)
        return [*self._wait(), *self._go_on()]
