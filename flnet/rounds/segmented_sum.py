"""The average of one round, segment by segment: a node needs two models' worth of traffic, however many nodes there are.

1. A node that has trained tells all of its update, with the digests of its segments. Each owner of a segment downloads
   that of every update, and nothing else of it.
2. The members settle whose updates are averaged (`flnet.rounds.settlement`): else two segments could be averages of
   different nodes, and the model would be that of no round.
3. Each owner averages its segment of the updates that were settled, and tells all the digest of what it made, and how far
   the segment of each update moved.
4. So all know how far the whole updates moved. If one moved too far, it is left out or shortened, as in a mesh, and each
   owner averages its segment once more. That is the exception; so nobody waits for it.
5. Every node downloads what the owners made, and joins it.

What an owner makes follows from what was settled alone. So any node can take the place of an owner that vanished, and with
several owners for a segment, what most of them made counts. Where owners differ so that no result has a majority, one more
node makes the segment.

With three owners or more, and enough members, some of them may lie (`SegmentedSum.liars`). Then a vote needs more members,
and each of them has to hold its part of all that it accepts. An average counts only once so many members have stated
results of its contributors that no other set of them can reach as many: no liar can give two nodes two averages.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from flnet.aggregation.screening import Bounds, common_base
from flnet.aggregation.segments import Verdict, judged
from flnet.params.arithmetic import Squares
from flnet.params.params import Digest, Params, PeerId, Schema
from flnet.params.segments import Segments
from flnet.protocol.effects import Average, CancelTimer, Effect, SetTimer
from flnet.protocol.events import Event, Fetched, TimerFired
from flnet.protocol.secure_sum import SecurePart
from flnet.protocol.segments import Made, SignedOfferPart, SumPart
from flnet.protocol.updates import RoundKey, Update, root_of
from flnet.rounds.contributor_vote import Contributors
from flnet.rounds.download import ParamsDownload
from flnet.rounds.segment_disputes import Dispute, ToldUpdates, roots_in, wrong_results
from flnet.rounds.segment_ring import SegmentRing
from flnet.rounds.settlement import VOTES, Settlement, digest_of
from flnet.text import text

TURNS = 4  # parts of the patience, after each of which a silent owner is replaced


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
        bounds: Bounds,
        held: Callable[[], Params],
        send: Callable[[PeerId | None, SecurePart], list[Effect]],
    ) -> None:
        """Args:
        segments: how parameters are cut.
        patience: seconds for which sums are waited for, once it is settled what they are of.
        bounds: how far updates may move.
        held: the shared parameters that this node holds.
        send: makes the effects that send a part to a node, or to all.
        """
        self.key, self.ring, self.failure = key, ring, ""
        self._me, self._segments, self._patience, self._send = me, segments, patience, send
        self._bounds, self._held_params = bounds, held
        self._settlement = self._new_settlement(is_voter=True)
        self.timer = f"segments:{key.number}:{key.initiator}"
        self._said: dict[tuple[PeerId | None, str], SecurePart] = {}  # the newest of each kind
        self._updates: dict[PeerId, Update] = {}  # without parameters
        self._digests: dict[PeerId, Sequence[Digest]] = {}  # of the segments of each update
        self._roots: dict[PeerId, Digest] = {}  # of each update
        self._announced: set[tuple[int, str]] = set()  # segments of which this node has told, and of what
        self._needs: dict[PeerId, Sequence[int]] = {}  # asked for at each event
        self._inputs: dict[tuple[PeerId, int], Params] = {}
        self._by_digest: dict[
            Digest, Params
        ] = {}  # all segments that are here, so that nothing is hashed to find one
        self._told: dict[
            int, dict[PeerId, dict[str, SumPart]]
        ] = {}  # by segment: what nodes made, by what it is of
        self._passed_on: dict[PeerId, SumPart] = {}  # what others were told by a node
        self._told_updates = ToldUpdates(me)
        self._first: dict[int, Made] = {}  # by segment: what was made first, of all updates that were settled
        self._verdict: Verdict | None = None  # on these updates
        self._changed = ""  # digest of the contributors as that changes them; empty if it does not
        self._base: Params | None = None  # of the round, if it had to be downloaded
        self._made: dict[int, Params] = {}  # what this node made, and what it downloaded of others
        self._downloads: dict[Digest, ParamsDownload] = {}
        self._resting: set[Digest] = set()  # what could not be downloaded, until it is tried again
        self._gone: set[PeerId] = set()
        self._late: dict[int, set[PeerId]] = {}  # by segment: owners that were waited for in vain
        self._more: Counter[int] = Counter()  # by segment: owners that were added because the others differ
        self._turns, self._waits = 0, False
        self._averaging = ""  # of what a segment is being averaged here

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

    @property
    def verdict(self) -> Verdict:
        """What follows from how far the updates moved, once the average is here."""
        assert self._verdict is not None
        return self._verdict

    def update_of(self, peer: PeerId) -> Update:
        """An update that was offered, without its parameters."""
        return self._updates[peer]

    @property
    def average(self) -> Params | None:
        """The average, once all its segments are here, and enough members average the same."""
        if len(self._made) < self._segments.count or not self._is_common:
            return None
        return self._segments.joined([self._made[segment] for segment in range(self._segments.count)])

    def abstain(self) -> None:
        """Vote no more: this node does not know what it has agreed to."""
        self._settlement = self._new_settlement(is_voter=False)

    def disputes(self) -> Mapping[PeerId, Dispute]:
        """Who told nodes different things in this round, or stated wrong results, as far as this node knows."""
        told, settled = self._told_updates, self.settled or ()
        otherwise = {peer for peer, root in settled if self._roots.get(peer, root) != root} | self._suspects
        found = {peer: Dispute(text("it told others of another update than this node")) for peer in otherwise}
        found |= {peer: told.proof(peer) for peer in told.two_faced}
        for peer, wrong in self._wrong_results().items():
            found.setdefault(peer, wrong)
        return found

    def pass_on(self) -> list[Effect]:
        """Tell all of wrong results that nodes signed, of each node once: it may have told others the right one."""
        effects: list[Effect] = []
        for peer, wrong in self._wrong_results().items():
            if wrong.statements and peer not in self._passed_on:
                self._passed_on[peer] = SumPart(**wrong.statements[0], maker=peer)
                effects += self._say(None, self._passed_on[peer])
        return effects

    def _wrong_results(self) -> dict[PeerId, Dispute]:
        if self.settled is None or not self._is_common:
            return {}
        found, counts = dict[PeerId, Dispute](), self._counts
        for peer in self.ring.order:
            parts = [part for told in self._told.values() for part in told.get(peer, {}).values()]
            parts += [self._passed_on[peer]] if peer in self._passed_on else []
            wrong = wrong_results(parts, counts)
            found |= {} if wrong is None else {peer: wrong}
        return found

    @property
    def _counts(self) -> Mapping[str, Mapping[int, Made]]:
        """The results that count, by what they are of, and by segment."""
        segments = range(self._segments.count)
        decided = {segment: made for segment in segments if (made := self._decided(segment)) is not None}
        if not self._changed:
            return {self._of_settled: self._first | decided}
        own = {segment: (params.digest, ()) for segment, params in self._made.items()}
        return {self._of_settled: self._first, self._changed: own | decided}

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
        vote = self._settlement.accept_all() if held == set(chosen) else []
        is_here = set(chosen) - self._distrusted <= held
        vote += self._settlement.lead_in_turn(self._here, at_once=not is_here)
        return [*vote, *([] if was_settled else self._wait()), *self._go_on()]

    def receive(self, sender: PeerId, part: SecurePart) -> list[Effect]:
        """Take a part that a peer sent."""
        self._gone.discard(sender)
        if isinstance(part, VOTES):
            was_settled, compared = self.settled is not None, self._compare(sender, part)
            effects = [*compared, *self._settlement.receive(sender, part)]
            return [*effects, *([] if was_settled else self._begin()), *self._go_on()]
        match part:
            case SignedOfferPart() if part.peer in self.ring.order:
                self._told_updates.note(part.contribution("", self.key))
                return [*self._compare(sender, part), *self._go_on()]
            case SumPart(maker=str() as maker) if maker in self.ring.order and maker != self._me:
                self._passed_on.setdefault(PeerId(maker), part)
            case SumPart(maker=None) if part.segment < self._segments.count and sender in self.ring.order:
                told = self._told.setdefault(part.segment, {}).setdefault(sender, {})
                if len(told) < 2:  # of the contributors, and of these as the verdict changes them
                    told.setdefault(part.contributors, part)
        return self._go_on()

    def hurry(self) -> list[Effect]:
        """This node has come to a vote that is under way, and waits for nothing else: it is to end in time."""
        return [] if self._waits else self._wait()

    def _compare(self, sender: PeerId, part: SecurePart) -> list[Effect]:
        """If a member was told of another update of a peer than this node, tell all what the peer signed for this one."""
        effects: list[Effect] = []
        for peer, root in roots_in(part):
            if self._roots.get(peer, root) != root and sender in self.ring.order:
                shown = self._told_updates.differs(peer, sender)
                effects += [] if shown is None else self._say(None, shown)
        return effects

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

    def averaged(self, segment: int, params: Params, squares: tuple[Squares, ...]) -> list[Effect]:
        """This node has averaged a segment: tell all.

        Args:
            squares: how far the segment of each update moved, if it was not known before.
        """
        of, self._averaging = self._averaging, ""
        self._by_digest[params.digest] = params
        if self._verdict is None:
            self._first[segment] = params.digest, squares
        if of == self._of:
            self._made[segment] = params
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
        group, least = hashlib.sha256(facts.encode()).hexdigest(), self._quorum(len(members))
        return Settlement(
            key,
            self._me,
            *(group, members, lambda: least, self._say),
            is_sound=self._is_sound,
            held=self._held,
            is_voter=is_voter,
            has_parts=True,
            covers=self._covers if self.liars else None,
        )

    @property
    def liars(self) -> int:
        """How many members may lie without harm: fewer than half of the owners of a segment, and than a third of all."""
        return min((self.ring.copies - 1) // 2, (len(self.ring.order) - 1) // 3)

    def _quorum(self, voters: int) -> int:
        """How many of so many voters two sets cannot both have, as each honest one is for one set only."""
        return (voters + self.liars) // 2 + 1

    @property
    def _is_common(self) -> bool:
        """Whether no other contributors can be averaged by as many members, whatever liars said in the vote."""
        if not self.liars or self.settled is None:
            return self.settled is not None
        owners = {peer for segment in range(self._segments.count) for peer in self.ring.owners(segment)}
        agreed = {peer for segment in range(self._segments.count) for peer in self._stated(segment)}
        return len(owners & {*agreed, self._me}) >= self._quorum(len(owners))

    def _covers(self, contributor: PeerId, holders: Collection[PeerId]) -> bool:
        """Whether these nodes together hold all of an update, so that its sender need not serve it any more."""
        segments = range(self._segments.count)
        return all(set(self.ring.holders(segment, contributor)) & set(holders) for segment in segments)

    @property
    def _here(self) -> set[PeerId]:
        return set(self.ring.order) - self._gone

    def _say(self, to: PeerId | None, part: SecurePart) -> list[Effect]:
        kind = type(part).__name__
        if isinstance(part, SumPart):
            kind += f" {part.segment} {part.contributors} {part.maker}"
        elif isinstance(part, SignedOfferPart):
            kind += f" {part.peer}"
        self._said[to, kind] = part
        return self._send(to, part)

    def _note(self, update: Update, digests: Sequence[Digest]) -> None:
        self._updates[update.peer], self._digests[update.peer] = update, tuple(digests)
        self._roots[update.peer] = root_of(update, digests)
        if update.peer != self._me:
            self._told_updates.note(update.contribution)

    def _held(self) -> Contributors:
        peers = self._updates.keys() - self._distrusted
        return tuple((peer, self._roots[peer]) for peer in sorted(peers) if self.has(peer))

    @property
    def _distrusted(self) -> set[PeerId]:
        """Whose updates this node does not propose."""
        return self._told_updates.two_faced | self._suspects

    @property
    def _suspects(self) -> set[PeerId]:
        """Who told more members of another update than may lie about that; nobody where any member may."""
        otherwise = self._told_updates.otherwise
        return {peer for peer, tellers in otherwise.items() if len(tellers) > self.liars} if self.liars else set()

    def _is_sound(self, contributors: Contributors) -> bool:
        """Whether this node may accept a set: of members, with what they told this node.

        Where a member may lie, it could name an update that nobody was told of, or can download: then this node must have
        what it is to hold of each.
        """
        if not contributors or not {peer for peer, _ in contributors} <= set(self.ring.order):
            return False
        if self.liars:
            return set(contributors) <= set(self._held())
        return all(self._roots.get(peer, root) == root for peer, root in contributors)

    def _needed(self, contributor: PeerId) -> Sequence[int]:
        """The segments of an update that this node is to hold before the contributors are settled."""
        if contributor not in self._needs:
            every = range(self._segments.count) if contributor != self._me else ()
            mine = tuple(segment for segment in every if self._me in self.ring.holders(segment, contributor))
            self._needs[contributor] = mine
        return self._needs[contributor]

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
        effects = self._judge()
        # As long as updates may have to be shortened, what was made first is hardly the average.
        is_average = self._verdict is not None or not self._bounds.clip
        for segment in range(self._segments.count):
            effects += self._announce(segment)
            if segment in self._made:
                continue
            if self._me in self._owners(segment) and self._knows_all:
                effects += self._sum(segment)
            elif is_average and (made := self._decided(segment)) is not None:
                effects += self._download(made[0], self._makers(segment, made), self._segments.schemas[segment])
        return effects

    def _judge(self) -> list[Effect]:
        """Once all know how far the updates moved: if that changes what counts, begin again with the averages."""
        if self._verdict is not None:
            return []
        for segment in range(self._segments.count):
            if segment not in self._first and (made := self._decided(segment)) is not None:
                self._first[segment] = made
        if len(self._first) < self._segments.count:
            return []
        peers = [peer for peer, _ in self.settled or ()]
        squares = [self._first[segment][1] for segment in range(self._segments.count)]
        verdict = self._verdict = judged(self._bounds, peers, squares)
        if not verdict.changes:
            return []
        facts = [f"{moved.hex()} {peer in verdict.refused}" for peer, moved in verdict.moved.items()]
        self._changed = hashlib.sha256("\n".join([self._of, *facts]).encode()).hexdigest()
        self._made, self._late, self._more, self._turns = {}, {}, Counter(), 0
        return self._wait()

    def _announce(self, segment: int) -> list[Effect]:
        """Tell all of a segment that this node owns; also one that an owner made which is gone: the others may lack it."""
        if self._me not in self._owners(segment):
            return []
        known: dict[str, Made] = {}
        if segment in self._first and (segment in self._made or self._changed):
            known[self._of_settled] = self._first[segment]
        if segment in self._made and self._changed:
            known[self._changed] = self._made[segment].digest, ()
        effects: list[Effect] = []
        for of in [of for of in known if (segment, of) not in self._announced]:
            self._announced.add((segment, of))
            made, squares = known[of]
            part = SumPart(segment=segment, contributors=of, digest=made, squares=squares or None)
            effects += self._say(None, part)
        return effects

    def _owners(self, segment: int) -> list[PeerId]:
        late = self._late.get(segment, set()) - self._stated(segment).keys()
        return self.ring.owners(segment, self._gone | late, self._more[segment])

    def _stated(self, segment: int) -> dict[PeerId, Made]:
        """What nodes made of the contributors that were settled, as they count."""
        is_measured = self._bounds.is_any and not self._changed
        count = len(self.settled or ()) if is_measured else 0
        told = {peer: parts.get(self._of) for peer, parts in self._told.get(segment, {}).items()}
        return {peer: part.result for peer, part in told.items() if part and len(part.result[1]) == count}

    @property
    def _of(self) -> str:
        """The digest of what segments are averages of: the contributors, as they count."""
        return self._changed or self._of_settled

    @cached_property
    def _of_settled(self) -> str:
        """The digest of the contributors that were settled."""
        assert self.settled is not None
        return digest_of(self.settled)

    @property
    def _knows_all(self) -> bool:
        """Whether this node was told of all updates that were settled, and of no other ones."""
        return all(self._roots.get(peer) == root for peer, root in self.settled or ())

    def _sum(self, segment: int) -> list[Effect]:
        """Average a segment of which all inputs are here; else download what is lacking."""
        refused = self._verdict.refused if self._verdict is not None else {}
        peers = [peer for peer, _ in self.settled or () if peer not in refused]
        lacking = [peer for peer in peers if (peer, segment) not in self._inputs]
        if lacking:
            return [effect for peer in lacking for effect in self._want(peer, [segment])]
        base = self._base_of_round() if self._bounds.is_any else self._held_params()
        if isinstance(base, str):
            sources = [update.peer for update in self._updates.values() if update.base == base]
            return self._download(Digest(base), sources, None)
        if self._averaging:
            return []
        self._averaging = self._of
        updates = (self._updates[peer] for peer in peers)
        cut = tuple(replace(update, params=self._inputs[update.peer, segment]) for update in updates)
        moved = None if self._verdict is None else self._verdict.moved
        return [Average(self.key, cut, segment=(segment, self._segments.count), base=base, moved=moved)]

    def _base_of_round(self) -> Params | Digest:
        """The base of most updates, from which all are measured, or its digest, if it is not here."""
        held = self._held_params()
        base = common_base(self._updates[peer].base for peer, _ in self.settled or ())
        here = next(
            (params for params in (held, self._base) if params is not None and params.digest == base), None
        )
        return held if base is None else here or base

    def _decided(self, segment: int) -> Made | None:
        """What most owners made of a segment; None as long as they have not said so."""
        stated = self._stated(segment)
        made = Counter(stated[peer] for peer in self._owners(segment) if peer in stated)
        least = self.ring.copies // 2 + 1
        return next((each for each, count in made.most_common(1) if count >= least), None)

    def _makers(self, segment: int, made: Made) -> list[PeerId]:
        return [
            peer for peer, result in self._stated(segment).items() if result == made and peer not in self._gone
        ]

    def _want(self, peer: PeerId, segments: Iterable[int]) -> list[Effect]:
        """Download segments of an update, from its sender or from who holds them, too."""
        effects: list[Effect] = []
        for segment in segments:
            digests = self._digests.get(peer)
            if digests is None or (peer, segment) in self._inputs:
                continue
            sources = [peer, *self.ring.holders(segment, peer)]
            effects += self._download(digests[segment], sources, self._segments.schemas[segment])
        return effects

    def _download(self, digest: Digest, sources: Collection[PeerId], form: Schema | None) -> list[Effect]:
        """Download what has this digest.

        Args:
            form: of a segment; None for the base of the round.
        """
        if digest in self._downloads or digest in self._resting:
            return []
        here = [peer for peer in sources if peer != self._me and peer not in self._gone]
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
        if any(update.base == digest for update in self._updates.values()):
            self._base = params
        for peer, digests in self._digests.items():
            for segment, each in enumerate(digests):
                if each == digest:
                    self._inputs[peer, segment] = params
        if self.settled is not None:
            for segment in range(self._segments.count):
                made = None if segment in self._made else self._decided(segment)
                if made is not None and made[0] == digest:
                    self._made[segment] = params

    def _wait_no_longer(self) -> list[Effect]:
        """An owner that has said nothing is replaced by the next node in the ring; after TURNS of them it is enough.

        Where all owners have stated results, and none of these has a majority, the next node makes the segment, too.
        """
        self._turns += 1
        if self.settled is None:
            if self._turns >= TURNS:
                self.failure = text("the nodes did not agree in time on whose updates are averaged")
            return [] if self.failure else self._wait()
        lacking = [segment for segment in range(self._segments.count) if segment not in self._made]
        if not lacking and self._is_common:
            return []
        if self._turns >= TURNS:
            self.failure = (
                text("the averages of {count} segments did not come in time", len(lacking))
                if lacking
                else text("too few nodes average the updates that were settled")
            )
            return []
        for segment in lacking:
            # Also this node: it may lack an update that it did not hear of in time.
            silent = set(self._owners(segment)) - self._stated(segment).keys()
            self._late.setdefault(segment, set()).update(silent)
            self._more[segment] += not silent and self._decided(segment) is None
        return [*self._wait(), *self._go_on()]
