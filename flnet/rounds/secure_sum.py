"""The secure sum of one round: the members' updates are masked, and only their sum can be opened.

Bonawitz et al. (2017), without the server: every node hears all that hides nothing, and opens the sum itself.

1. The group forms while nodes train (`flnet.rounds.secure_group`).
2. A member that has trained sends its masked update to all.
3. The members agree on whose masked updates are summed (`flnet.rounds.contributor_vote`): at least as many as the
   threshold, which is more than half of the members.
4. Once that is settled, every member reveals its shares of what masks this sum, once and for this sum only: of the self
   masks of the contributors, and of the mask keys of the other members.
5. A node that has the masked updates and enough shares removes the masks.

With segments, a member accepts a masked update once the segments of it are here that it is to hold, and after the vote the
owners add them (`flnet.rounds.masked_segments`): then a node needs their sum, and no masked update.

Secrets live in memory only, so a node that was restarted has vanished for the sums of that round.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

from flnet.params.params import Digest, Params, PeerId
from flnet.protocol.effects import Average, CancelTimer, Effect, SecureStep, SetTimer
from flnet.protocol.events import Averaged, Event, TimerFired
from flnet.protocol.secure_sum import (
    AddedPart,
    ForgetSecrets,
    MaskUpdate,
    OpenedSum,
    RevealPart,
    RevealShares,
    SecurePart,
    SharesRevealed,
    StepFailed,
    UpdateMasked,
)
from flnet.protocol.updates import RoundKey, Update
from flnet.rounds.contributor_vote import Contributors
from flnet.rounds.masked_segments import MaskedSegments, SendPart
from flnet.rounds.secure_group import Group, GroupBuilding
from flnet.rounds.settlement import VOTES, Settlement, VotePart, digest_of
from flnet.text import text

InSegments = Callable[[Group, SendPart], MaskedSegments]


class SecureSum:
    """This node's part in the secure sum of a round.

    Attributes:
        building: forms the group.
        failure: why the sum cannot be opened; empty while it may be.
        is_asked: whether the average was asked for.
        segments: the sum of segments of masked updates, once the group is there; None where each node adds whole ones.
    """

    def __init__(
        self,
        key: RoundKey,
        me: PeerId,
        candidates: Collection[PeerId],
        part_away: float,
        patience: float,
        send: Callable[[Collection[PeerId] | None, int, SecurePart], list[Effect]],
        doubtful: Collection[PeerId] = (),
        in_segments: InSegments | None = None,
    ) -> None:
        """Args:
        candidates: the nodes that are expected to train.
        part_away: the part of the members that may vanish.
        patience: seconds for which others are waited for in each of the two stages.
        send: makes the effects that send a part of an attempt to these nodes, or to all.
        doubtful: further nodes that are expected to train, of which nothing came in rounds before.
        in_segments: makes the sum of segments of a group's masked updates; None where each node adds whole ones.
        """
        self.key, self.is_asked = key, False
        self.segments: MaskedSegments | None = None
        self._in_segments = in_segments
        self._me, self._patience, self._send = me, patience, send
        self.building = GroupBuilding(key, me, candidates, part_away, patience / 2, self._say, doubtful)
        self.open_timer = f"secure-sum:{key.number}:{key.initiator}"
        self._said: dict[tuple[PeerId | None, str], tuple[int, SecurePart]] = {}  # the newest of each kind
        self._failure = ""
        self._pending: MaskUpdate | None = None
        self._is_masking = self._has_revealed = self._is_closed = False
        self._vote: Settlement | None = None
        self._early: list[tuple[PeerId, RevealPart | AddedPart | VotePart]] = []
        self._vectors: dict[PeerId, tuple[str, Update | None]] = {}  # digest, and the masked update if it is here
        self._revealed: dict[PeerId, tuple[str, Mapping[PeerId, str]]] = {}  # by member, for which contributors
        self._here: set[PeerId] = set(candidates)
        self._gone: set[PeerId] = set()  # who sends no masked update any more
        self._references: dict[str, Params] = {}
        self._tried = 0  # shares of so many members were used
        self._misfit = ""  # why these did not open the sum

    def release(self) -> None:
        """Let go of what calls back; see `Round.release`."""
        del self.building, self._vote, self.segments

    @property
    def timers(self) -> tuple[str, ...]:
        """The names of its timers."""
        votes = (self._vote.timer,) if self._vote else ()
        of_segments = self.segments.timers if self.segments else ()
        return *self.building.timers, *votes, self.open_timer, *of_segments

    @property
    def group(self) -> Group | None:
        """The group, once its sum has begun."""
        return self.building.group if self.building.has_begun else None

    @property
    def settled(self) -> Contributors | None:
        """The contributors, once they are settled."""
        return self._vote.settled if self._vote else None

    @property
    def failure(self) -> str:
        """Why the sum cannot be opened; empty while it may be."""
        return self._failure or self.building.failure or (self.segments.failure if self.segments else "")

    # --- what happens

    def start(self, reference: Digest) -> list[Effect]:
        """This node begins to train, in a round that started from this model."""
        return self.building.start(reference)

    def trained(self, request: MaskUpdate) -> list[Effect]:
        """This node has trained; what it learnt is masked as soon as the group has formed."""
        self._pending = request
        return [*self.building.trained(), *self._go_on()]

    def choose(self, chosen: Collection[PeerId]) -> list[Effect]:
        """Only these nodes train in the round, which was not known when it opened."""
        return [*self.building.choose(chosen), *self._go_on()]

    def leave(self, peer: PeerId, is_refusal: bool = False) -> list[Effect]:
        """A peer vanished, or takes no part."""
        self._here.discard(peer)
        self._gone.add(peer)
        segments = self.segments.leave(peer) if self.segments else []
        return [*self.building.leave(peer, is_refusal), *segments, *self._go_on()]

    def receive(self, sender: PeerId, attempt: int, part: SecurePart) -> list[Effect]:
        """Take a part that a peer sent."""
        self._here.add(sender)
        self._gone.discard(sender)
        if isinstance(part, (RevealPart, AddedPart, *VOTES)):
            self.building.hear(sender)
            group = self.group
            if group is None or part.group != group.id:
                if len(self._early) < 4 * (len(self._here) + 1):
                    self._early.append((sender, part))
                return []
            return [*self._take(sender, part), *self._go_on()]
        return [*self.building.receive(sender, attempt, part), *self._go_on()]

    def done(self, attempt: int, result: object) -> list[Effect]:
        """A step with the own secrets has ended, except for the masking."""
        match result:
            case SharesRevealed(shares):
                return [*self._reveal(shares), *self._go_on()]
            case StepFailed(reason) if self.building.has_begun:
                self._failure = reason
                return []
            case UpdateMasked():
                return []
        return [*self.building.done(attempt, result), *self._go_on()]  # type: ignore[arg-type]

    def hold(self, update: Update | None, peer: PeerId, digest: str) -> list[Effect]:
        """A masked update is here, the own one or that of a peer; None: only its digest is known."""
        if self.group is not None and peer not in self.group.members:
            return []
        known = self._vectors.get(peer)
        if known is None or (known[1] is None and known[0] == digest):
            self._vectors[peer] = digest, update
        return self._go_on()

    def refer_to(self, digest: Digest, params: Params) -> list[Effect]:
        """This may be the model from which the members count their changes."""
        self._references.setdefault(digest, params)
        return self._go_on()

    def reference(self, digest: Digest | None) -> Params:
        """A model that was referred to."""
        return self._references[digest or ""]

    def find(self, digest: str) -> Params | None:
        """The parameters of the masked update with this digest, if it is here."""
        if self.segments is not None and (segment := self.segments.find(Digest(digest))) is not None:
            return segment
        held = (update for known, update in self._vectors.values() if known == digest and update is not None)
        return next((update.params for update in held), self._references.get(digest))

    @property
    def lacks_reference(self) -> bool:
        """Whether the model is not here from which the members count their changes."""
        return self.group is not None and self.group.base not in self._references

    def begin(self, group: str) -> list[Effect]:
        """A masked update of this group came: its sum has begun."""
        return [*self.building.begin(group), *self._go_on()]

    def close(self) -> list[Effect]:
        """Masked updates are no longer waited for."""
        self._is_closed = True
        wait: list[Effect] = [SetTimer(self.open_timer, self._patience)]
        effects = [*wait, *self._go_on()]
        if self._vote is not None and self.building.is_member:
            effects += self._vote.lead_in_turn(self._here, at_once=not self._has_all)
        return effects

    def timer_fired(self, name: str) -> list[Effect]:
        """One of the timers fired."""
        if name in self.building.timers:
            return [*self.building.timer_fired(name), *self._go_on()]
        if self._vote is not None and name == self._vote.timer:
            return [*self._vote.timer_fired(self._here), *self._go_on()]
        if self.segments is not None and name in self.segments.timers:
            return self.handle(TimerFired(name))
        if name == self.open_timer and not self.is_asked:
            self._failure = self._why_closed()
        return []

    def handle(self, event: Event) -> list[Effect]:
        """Handle what concerns the sum of segments: the end of a download or of adding a segment, or a timer."""
        assert self.segments is not None
        if isinstance(event, Averaged):
            assert event.segment is not None
            return [*self.segments.averaged(event.segment, event.params, ()), *self._go_on()]
        return [*self.segments.handle(event), *self._go_on()]

    def say_again(self, peer: PeerId) -> list[Effect]:
        """Repeat to a peer what it may not have heard; all of it means the same when it comes twice."""
        attempt = self.building.attempt
        said = [said for (to, _), said in self._said.items() if to in (None, peer) and said[0] == attempt]
        again = [effect for at, part in said for effect in self._send((peer,), at, part)]
        return [*again, *(self.segments.say_again(peer) if self.segments else [])]

    def forget(self) -> list[Effect]:
        """The round is over: forget the secrets, and wait for nothing."""
        cancelled: list[Effect] = [CancelTimer(name) for name in self.timers]
        if self.segments is not None:
            self.segments.forget()
        self._vectors, self._references, self._pending = {}, {}, None
        return [*cancelled, SecureStep(self.key, self.building.attempt, ForgetSecrets())]

    @property
    def may_open_later(self) -> bool:
        """Whether shares of further members are here, or may come, since it could not be opened."""
        assert self.group is not None and self.settled is not None
        return (
            len(self._revealed_for(self.settled)) > self._tried
            or self._revealed.keys() < self.group.members.keys()
        )

    def try_again(self, reason: str) -> list[Effect]:
        """Some of the shares were wrong: open it with more of them, if they come in time."""
        self.is_asked, self._misfit = False, reason
        return [SetTimer(self.open_timer, self._patience), *self._open()]

    @property
    def lacking(self) -> Contributors:
        """The contributors whose masked updates are not here, though this node adds them whole."""
        if self.segments is not None:
            return ()
        return tuple((peer, digest) for peer, digest in self.settled or () if not self._has(peer, digest))

    @property
    def updates(self) -> dict[PeerId, Update]:
        """The masked updates of the sum; without their parameters where others add them, too."""
        if self.segments is not None:
            return self.segments.updates
        held = {peer: self._vectors[peer][1] for peer, digest in self.settled or () if self._has(peer, digest)}
        return {peer: update for peer, update in held.items() if update is not None}

    def replace(self, update: Update, digest: str) -> list[Effect]:
        """The masked update that a peer's members agreed on came from another of them."""
        self._vectors[update.peer] = digest, update
        return self._go_on()

    # --- steps

    def _say(self, attempt: int, to: PeerId | None, part: SecurePart) -> list[Effect]:
        self._said[to, type(part).__name__] = attempt, part
        return self._send(None if to is None else (to,), attempt, part)

    def _go_on(self) -> list[Effect]:
        """Take the steps that need no further event."""
        if self.group is None or self.failure:
            return []
        effects = self._open_vote() if self._vote is None else []
        if self._pending is not None and self.building.is_ready and not self._is_masking:
            self._is_masking = True
            effects.append(SecureStep(self.key, self.group.attempt, self._pending))
        assert self._vote is not None
        if self.building.is_member and self._has_all and self.settled is None:
            effects += self._vote.accept_all()
        if self.segments is not None and self.settled is not None and self.segments.settled is None:
            effects += self.segments.settle(self.settled)
        if self._is_closed and self.settled is None and self._is_hopeless:
            self._failure = self._why_closed()
            return effects
        if self.settled is not None and self.building.is_member and not self._has_revealed:
            self._has_revealed = True
            contributing = frozenset(peer for peer, _ in self.settled)
            effects.append(SecureStep(self.key, self.group.attempt, RevealShares(contributing)))
        return [*effects, *self._open()]

    def _open_vote(self) -> list[Effect]:
        group = self.group
        assert group is not None
        building, say = self.building, partial(self._say, group.attempt)
        voters = (group.id, list(group.members), lambda: building.quorum, say)
        if self._in_segments is not None:
            attempt = group.attempt
            self.segments = self._in_segments(
                group, lambda to, part: self._send(None if to is None else (to,), attempt, part)
            )
        self._vote = Settlement(
            self.key,
            self._me,
            *voters,
            is_sound=self._is_sound,
            held=self._held,
            has_parts=self.segments is not None,
            covers=self.segments.covers if self.segments else None,
        )
        early, self._early = self._early, []
        return [effect for sender, part in early if part.group == group.id for effect in self._take(sender, part)]

    def _take(self, sender: PeerId, part: RevealPart | AddedPart | VotePart) -> list[Effect]:
        if isinstance(part, AddedPart):
            return self.segments.heard(sender, part) if self.segments else []
        if isinstance(part, VOTES):
            assert self._vote is not None
            return self._vote.receive(sender, part)
        group = self.group
        assert isinstance(part, RevealPart) and group is not None
        if sender in group.members and part.shares.keys() <= group.members.keys():
            shares = {PeerId(peer): share for peer, share in part.shares.items()}
            self._revealed.setdefault(sender, (part.contributors, shares))
        return []

    def _reveal(self, shares: Mapping[PeerId, str]) -> list[Effect]:
        group, settled = self.group, self.settled
        assert group is not None and settled is not None
        told = digest_of(settled)
        self._revealed[self._me] = told, shares
        given = {str(peer): share for peer, share in shares.items()}
        return self._say(group.attempt, None, RevealPart(group=group.id, contributors=told, shares=given))

    def _open(self) -> list[Effect]:
        """Ask for the average once the masked updates and enough shares are here."""
        group, settled = self.group, self.settled
        if group is None or settled is None or self.is_asked or self.lacking:
            return []
        total = self.segments.average if self.segments else None
        if self.segments is not None and total is None:
            return []
        revealed = self._revealed_for(settled)
        reference = self._references.get(group.base)
        if len(revealed) < max(group.threshold, self._tried + 1) or reference is None:
            return []
        self.is_asked, self._tried = True, len(revealed)
        contributors = tuple(peer for peer, _ in settled)
        shown = dict(sorted(revealed.items()))
        opened = OpenedSum(group.attempt, group.members, group.threshold, contributors, shown, reference, total)
        updates = self.updates
        assert self._vote is not None
        cancelled: list[Effect] = [CancelTimer(self._vote.timer), CancelTimer(self.open_timer)]
        return [*cancelled, Average(self.key, tuple(updates[peer] for peer in contributors), opened=opened)]

    def _revealed_for(self, contributors: Contributors) -> dict[PeerId, Mapping[PeerId, str]]:
        """The shares that open the sum of these contributors, by the member that revealed them."""
        told = digest_of(contributors)
        return {peer: shares for peer, (digest, shares) in self._revealed.items() if digest == told}

    def _held(self) -> Contributors:
        group = self.group
        assert group is not None
        held = {peer: self._vectors.get(peer, ("", None)) for peer in group.members}
        return tuple((peer, digest) for peer, (digest, update) in held.items() if update is not None)

    def _is_sound(self, contributors: Contributors) -> bool:
        """Whether this node may accept a set: of enough members, with what they sent to this node."""
        group = self.group
        assert group is not None
        peers = [peer for peer, _ in contributors]
        if len(peers) < group.threshold or not set(peers) <= group.members.keys():
            return False
        if self.segments is not None and self.segments.liars:
            return set(contributors) <= set(self._held())  # else a liar could name what nobody can add
        sent = dict(contributors)
        if self._me in sent and self._vectors.get(self._me, ("", None))[0] != sent[self._me]:
            return False
        return all(peer not in self._vectors or self._vectors[peer][0] == digest for peer, digest in contributors)

    @property
    def _is_hopeless(self) -> bool:
        """Whether too few masked updates have come, and nobody is left who could send one."""
        group = self.group
        assert group is not None
        return len(self._vectors) < group.threshold and group.members.keys() <= self._vectors.keys() | self._gone

    @property
    def _has_all(self) -> bool:
        return self.group is not None and all(self._vectors.get(p, ("", None))[1] for p in self.group.members)

    def _has(self, peer: PeerId, digest: str) -> bool:
        held = self._vectors.get(peer)
        return held is not None and held[0] == digest and held[1] is not None

    def _why_closed(self) -> str:
        group = self.group
        if group is None:
            return text("the group of the secure sum did not form in time")
        if self.settled is None:
            return text(
                "the masked updates of {count} nodes are here, and {least} are needed to open their sum",
                len(self._vectors),
                max(group.threshold, self.building.quorum),
            )
        if self.lacking:
            return text("the masked updates of {count} nodes did not come in time", len(self.lacking))
        if self._misfit:
            return self._misfit
        count = len(self._revealed_for(self.settled))
        return text(
            "{count} nodes revealed shares, and {least} are needed to open the sum", count, group.threshold
        )
