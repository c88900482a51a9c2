"""The average of one round, segment by segment: a node needs two models' worth of traffic, however many nodes there are.

1. A node that has trained tells all of its update, with the digests of its segments. Each owner of a segment downloads
   that of every update, and nothing else of it.
2. The members settle whose updates are averaged: else two segments could be averages of different nodes, and the model
   would be that of no round. They do it with a vote of their own (`flnet.rounds.voted_segments`), or with that of a secure
   sum (`flnet.rounds.masked_segments`).
3. Each owner averages its segments of the updates that were settled, and tells all the digest of each, and how far that
   segment of each update moved: in one message, as far as it made them at the same time.
4. So all know how far the whole updates moved. If one moved too far, it is left out or shortened, as in a mesh, and each
   owner averages its segment once more. That is the exception; so nobody waits for it.
5. Every node downloads what the owners made, and joins it.

What an owner makes follows from what was settled alone. So any node can take the place of an owner that vanished, and with
several owners for a segment, what most of them made counts (`flnet.rounds.segment_results`).

With three owners or more, and enough members, some of them may lie (`SegmentedSum.liars`). An average counts only once so
many members have stated results of its contributors that no other set of them can reach as many: no liar can give two
nodes two averages.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from flnet.aggregation.screening import Bounds, common_base
from flnet.aggregation.segments import Verdict, judged
from flnet.errors import ParamsRefused
from flnet.params.arithmetic import Squares
from flnet.params.params import Digest, Params, PeerId, Schema
from flnet.params.segments import Segments
from flnet.protocol.effects import Average, CancelTimer, Effect, SetTimer
from flnet.protocol.events import Event, TimerFired
from flnet.protocol.secure_sum import SecurePart
from flnet.protocol.segments import Made, SegmentResult, SumPart
from flnet.protocol.updates import RoundKey, Update, root_of
from flnet.rounds.contributor_vote import Contributors
from flnet.rounds.segment_downloads import SegmentDownloads, together
from flnet.rounds.segment_results import MOST_SETS, SegmentResults
from flnet.rounds.segment_ring import SegmentRing
from flnet.rounds.settlement import digest_of
from flnet.text import text

TURNS = 4  # parts of the patience, after each of which a silent owner is replaced


class SegmentedSum(ABC):
    """This node's part in the average of one round; its kinds say how its contributors are settled.

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
        send: Callable[[PeerId | None, SecurePart, Params | None], list[Effect]],
    ) -> None:
        """Args:
        segments: how parameters are cut.
        patience: seconds for which sums are waited for, once it is settled what they are of.
        bounds: how far updates may move.
        held: the shared parameters that this node holds.
        send: makes the effects that send a part to a node, or to all, with the segment that it is about.
        """
        self.key, self.ring, self.failure = key, ring, ""
        self._me, self._segments, self._patience, self._send = me, segments, patience, send
        self._bounds, self._held_params = bounds, held
        self.timer = f"segments:{key.number}:{key.initiator}"
        self._said: dict[tuple[object, ...], tuple[PeerId | None, SecurePart]] = {}  # the newest about each thing
        self._updates: dict[PeerId, Update] = {}  # without parameters
        self._digests: dict[PeerId, Sequence[Digest]] = {}  # of the segments of each update
        self._roots: dict[PeerId, Digest] = {}  # of each update
        self._needs: dict[PeerId, Sequence[int]] = {}  # asked for at each event
        self._downloads = SegmentDownloads(key, me, patience)
        self._results = SegmentResults(ring, segments.count)
        self._of_settled = ""  # digest of the contributors, once they are settled
        self._averaging = ""  # of what a segment is being averaged here
        self._made: dict[int, Params] = {}  # what this node made, and what it downloaded of others
        self._announced: set[tuple[int, str]] = set()  # segments of which this node has told, and of what
        self._first: dict[int, Made] = {}  # by segment: what was made first, of all updates that were settled
        self._verdict: Verdict | None = None  # on these updates
        self._changed = ""  # digest of the contributors as that changes them; empty if it does not
        self._brought = Counter[PeerId]()  # segments that came with their result, by who sent them
        self._turns = 0

    @property
    @abstractmethod
    def settled(self) -> Contributors | None:
        """The contributors, once they are settled."""

    @property
    def timers(self) -> tuple[str, ...]:
        """The names of its timers."""
        return self.timer, *self._downloads.timers

    @property
    def updates(self) -> dict[PeerId, Update]:
        """The updates that were settled, without their parameters; of what did not reach this node, the name alone."""
        nothing = Params()
        return {peer: self._updates.get(peer) or Update(peer, self.key, nothing) for peer, _ in self.settled or ()}

    @property
    def average(self) -> Params | None:
        """The average, once all its segments are here, and enough members average the same."""
        if len(self._made) < self._segments.count or not self._is_common:
            return None
        return self._segments.joined([self._made[segment] for segment in range(self._segments.count)])

    # --- updates

    def learn(self, own: Update) -> Sequence[Digest]:
        """Take this node's own update; return the digests of its segments, for its offer to the others."""
        if self._me not in self._digests:
            cut = self._segments.cut(own.params)
            for segment in cut:
                self._downloads.keep(segment)
            self._note(replace(own, params=Params()), [segment.digest for segment in cut])
        return self._digests[self._me]

    def may_offer(self, update: Update) -> bool:
        """Whether an update can still be in the average: it is settled that it is, or nothing is settled yet."""
        if self.settled is None:
            return True
        digests = update.segments or [segment.digest for segment in self._segments.cut(update.params)]
        return (update.peer, root_of(update, digests)) in self.settled

    def take_whole(self, update: Update) -> list[Effect]:
        """The whole update of a peer is here: keep its segments."""
        if update.peer in self._updates:
            return []
        cut = self._segments.cut(update.params)
        for segment in cut:
            self._downloads.keep(segment)
        self._note(replace(update, params=Params()), [segment.digest for segment in cut])
        return self._go_on()

    def offer(self, update: Update, digests: Sequence[Digest]) -> list[Effect]:
        """A peer has an update with these segments: download those that this node is to hold."""
        if update.peer in self._updates or len(digests) != self._segments.count:
            return []
        self._note(update, digests)
        return together([*self._want(update.peer, self._needed(update.peer)), *self._go_on()])

    def has(self, peer: PeerId) -> bool:
        """Whether all is here that this node is to hold of a peer's update."""
        here = all(self._input(peer, segment) is not None for segment in self._needed(peer))
        return peer in self._updates and here

    def _note(self, update: Update, digests: Sequence[Digest]) -> None:
        self._updates[update.peer], self._digests[update.peer] = update, tuple(digests)
        self._roots[update.peer] = root_of(update, digests)

    def _input(self, peer: PeerId, segment: int) -> Params | None:
        """A segment of an update, if it is here."""
        digests = self._digests.get(peer)
        return None if digests is None else self._downloads.find(digests[segment])

    # --- downloads

    @property
    def lacks_something(self) -> bool:
        """Whether something could not be downloaded, and is to be tried again."""
        return self._downloads.is_any_resting

    def awaits(self, digest: Digest) -> bool:
        """Whether this is being downloaded."""
        return self._downloads.awaits(digest)

    def form_of(self, digest: Digest) -> Schema | None:
        """The form of a segment that is being downloaded; None for anything else."""
        return self._downloads.form_of(digest)

    def find(self, digest: Digest) -> Params | None:
        """A segment with this digest that is here: of an update, or of the average."""
        return self._downloads.find(digest)

    def retry(self) -> list[Effect]:
        """Try again what could not be downloaded."""
        self._downloads.wake()
        effects = [effect for peer in list(self._updates) for effect in self._want(peer, self._needed(peer))]
        return together([*effects, *self._go_on()])

    def forget(self) -> list[Effect]:
        """The round is over here: download nothing more. What was made can still be downloaded."""
        cancelled: list[Effect] = [CancelTimer(name) for name in self.timers]
        self._downloads.end()
        return cancelled

    # --- events

    def brought(self, part: SecurePart, params: Params) -> Params:
        """The segment that came with its result, in its form.

        Raises:
            ParamsRefused: it is another one, or has another form.
        """
        results = part.results if isinstance(part, SumPart) else ()
        if len(results) != 1 or results[0].segment >= self._segments.count:
            raise ParamsRefused(text("expected parameters beside the result of one segment only"))
        params = self._segments.schemas[results[0].segment].conform(params)
        if params.digest != results[0].digest:
            raise ParamsRefused(text("other parameters came than those that are stated"))
        return params

    def receive(self, sender: PeerId, part: SumPart, params: Params | None = None) -> list[Effect]:
        """A member states what it made of a segment.

        Args:
            params: the segment, as `brought` has it.
        """
        if params is not None and sender in self.ring.order and self._brought[sender] < MOST_SETS:
            self._brought[sender] += 1
            self._downloads.keep(params)
        self._results.gone.discard(sender)
        was_silent = not self._results.is_any_stated
        self._results.note(sender, part)
        # Who settled before the others, because it does not vote, or heard of it first, waits for them from now on.
        begins = was_silent and self._results.is_any_stated and self.settled is not None
        return [*(self._begin() if begins else []), *self._go_on()]

    def leave(self, peer: PeerId) -> list[Effect]:
        """A peer vanished, or takes no part any more. This node is there, also if it does not train."""
        if peer != self._me:
            self._results.gone.add(peer)
        return self._go_on()

    def handle(self, event: Event) -> list[Effect]:
        """Handle the end of a download, or a timer."""
        if isinstance(event, TimerFired) and event.name == self.timer:
            return self._wait_no_longer()
        return [*self._downloads.receive(event), *self._go_on()]

    def averaged(self, segment: int, params: Params, squares: tuple[Squares, ...]) -> list[Effect]:
        """This node has averaged a segment: tell all.

        Args:
            squares: how far the segment of each update moved, if it was not known before.
        """
        of, self._averaging = self._averaging, ""
        self._downloads.keep(params)
        if self._verdict is None:
            self._first[segment] = params.digest, squares
        if of == self._results.of:
            self._made[segment] = params
        return self._go_on()

    def say_again(self, peer: PeerId) -> list[Effect]:
        """Repeat to a peer what it may not have heard; all of it means the same when it comes twice."""
        parts = [part for to, part in self._said.values() if to in (None, peer)]
        return [effect for part in parts for effect in self._send(peer, part, None)]

    # --- steps

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
        agreed = {peer for segment in range(self._segments.count) for peer in self._results.stated(segment)}
        return len(owners & {*agreed, self._me}) >= self._quorum(len(owners))

    def _covers(self, contributor: PeerId, holders: Collection[PeerId]) -> bool:
        """Whether these nodes together hold all of an update, so that its sender need not serve it any more."""
        segments = range(self._segments.count)
        return all(set(self.ring.holders(segment, contributor)) & set(holders) for segment in segments)

    def _say(
        self, to: PeerId | None, part: SecurePart, *about: object, params: Params | None = None
    ) -> list[Effect]:
        """Send a part, in place of an older one about the same to who has not heard that yet.

        Args:
            params: the segment that it is about. Who is told again downloads it.
        """
        self._said[to, type(part), *about] = to, part
        return self._send(to, part, params)

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
        return [SetTimer(self.timer, self._patience / TURNS)]

    def _go_on(self) -> list[Effect]:
        """Take the steps that need no further event."""
        if self.settled is None:
            return []
        if not self._of_settled:
            self._of_settled = digest_of(self.settled)
            self._results.begin(self._of_settled, len(self.settled) if self._bounds.is_any else 0)
        if self.failure:
            return []
        effects = self._judge()
        for segment in range(self._segments.count):
            if segment not in self._made:
                effects += self._obtain(segment)
        return [*effects, *self._announce()]

    def _obtain(self, segment: int) -> list[Effect]:
        """Make a segment of the average if this node is to do so, or download what counts."""
        # As long as updates may have to be shortened, what was made first is hardly the average.
        is_average = self._verdict is not None or not self._bounds.clip
        made = self._results.decided(segment) if is_average else None
        if made is not None and (params := self.find(made[0])) is not None:
            self._made[segment] = params
            return []
        if self._me in self._results.owners(segment) and self._knows_all:
            return self._sum(segment)
        if made is None:
            return []
        makers = self._results.makers(segment, made)
        # Each of them serves as many nodes as any other.
        first = makers[(self.ring.place(self._me) + segment) % len(makers)] if makers else None
        return self._download(made[0], makers, self._segments.schemas[segment], first)

    def _judge(self) -> list[Effect]:
        """Once all know how far the updates moved: if that changes what counts, begin again with the averages."""
        if self._verdict is not None:
            return []
        for segment in range(self._segments.count):
            if segment not in self._first and (made := self._results.decided(segment)) is not None:
                self._first[segment] = made
        if len(self._first) < self._segments.count:
            return []
        peers = [peer for peer, _ in self.settled or ()]
        squares = [self._first[segment][1] for segment in range(self._segments.count)]
        verdict = self._verdict = judged(self._bounds, peers, squares)
        if not verdict.changes:
            return []
        facts = [f"{moved.hex()} {peer in verdict.refused}" for peer, moved in verdict.moved.items()]
        self._changed = hashlib.sha256("\n".join([self._of_settled, *facts]).encode()).hexdigest()
        self._results.begin(self._changed, 0)
        self._made, self._turns = {}, 0
        return self._wait()

    def _announce(self) -> list[Effect]:
        """Tell all of the segments that this node owns and has not told of, in one message.

        Also of one that an owner made which is gone: the others may lack it. What is averaged here now is waited for, as
        that always ends, but not once all segments are here: then the round may end, and the others need the results.
        """
        told: dict[str, list[SegmentResult]] = {}
        waits = self._averaging and len(self._made) < self._segments.count
        for segment in () if waits else range(self._segments.count):
            for of, (digest, squares) in self._known(segment).items():
                if (segment, of) not in self._announced:
                    self._announced.add((segment, of))
                    result = SegmentResult(segment=segment, digest=digest, squares=squares or None)
                    told.setdefault(of, []).append(result)
        effects: list[Effect] = []
        for of, results in told.items():
            part, first = SumPart(contributors=of, results=tuple(results)), results[0].segment
            # With several owners, nodes download what most of them made, and would get it twice.
            is_wanted = self.ring.copies == 1 and len(results) == 1
            params = self._downloads.find(Digest(results[0].digest)) if is_wanted else None
            effects += self._say(None, part, first, of, params=params)
        return effects

    def _known(self, segment: int) -> Mapping[str, Made]:
        """What this node can tell of a segment that it owns, by what it is of."""
        known: dict[str, Made] = {}
        if self._me not in self._results.owners(segment):
            return known
        if segment in self._first and (segment in self._made or self._changed):
            known[self._of_settled] = self._first[segment]
        if segment in self._made and self._changed:
            known[self._changed] = self._made[segment].digest, ()
        return known

    @property
    def _knows_all(self) -> bool:
        """Whether this node was told of all updates that were settled, and of no other ones."""
        return all(self._roots.get(peer) == root for peer, root in self.settled or ())

    def _sum(self, segment: int) -> list[Effect]:
        """Average a segment of which all inputs are here; else download what is lacking."""
        refused = self._verdict.refused if self._verdict is not None else {}
        peers = [peer for peer, _ in self.settled or () if peer not in refused]
        here = {peer: params for peer in peers if (params := self._input(peer, segment)) is not None}
        lacking = [peer for peer in peers if peer not in here]
        if lacking:
            return [effect for peer in lacking for effect in self._want(peer, [segment])]
        base = self._base_of_round() if self._bounds.is_any else self._held_params()
        if isinstance(base, str):
            sources = [update.peer for update in self._updates.values() if update.base == base]
            return self._download(Digest(base), sources, None)
        if self._averaging:
            return []
        self._averaging = self._results.of
        cut = tuple(replace(self._updates[peer], params=params) for peer, params in here.items())
        moved = None if self._verdict is None else self._verdict.moved
        return [Average(self.key, cut, segment=(segment, self._segments.count), base=base, moved=moved)]

    def _base_of_round(self) -> Params | Digest:
        """The base of most updates, from which all are measured, or its digest, if it is not here."""
        held = self._held_params()
        base = common_base(self._updates[peer].base for peer, _ in self.settled or ())
        if base is None or base == held.digest:
            return held
        return self.find(Digest(base)) or Digest(base)

    def _want(self, peer: PeerId, segments: Iterable[int]) -> list[Effect]:
        """Download segments of an update, from its sender or from who holds them, too."""
        effects: list[Effect] = []
        for segment in segments:
            if peer in self._digests and self._input(peer, segment) is None:
                sources = [peer, *self.ring.holders(segment, peer)]
                digest = self._digests[peer][segment]
                effects += self._download(digest, sources, self._segments.schemas[segment], peer)
        return effects

    def _download(
        self, digest: Digest, sources: Iterable[PeerId], form: Schema | None, first: PeerId | None = None
    ) -> list[Effect]:
        """Download what has this digest from members that are there; without a form, the base of the round."""
        here = [peer for peer in sources if peer not in self._results.gone]
        return self._downloads.start(digest, here, form, first)

    def _wait_no_longer(self) -> list[Effect]:
        """An owner that has said nothing is replaced by the next node in the ring; after TURNS of them it is enough."""
        self._turns += 1
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
            self._results.replace_silent(segment)
        return [*self._wait(), *self._go_on()]
