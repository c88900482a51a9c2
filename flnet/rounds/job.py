"""The rounds of one trainer on one node. A job takes events and returns effects; it has no clock, disk, network or chance.

The algorithm is that of García Pérez (2021), section 3.2.4.2. This implementation adds a total order of
initiators, refusals, catching up, and healing after a split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from typing import Any

from flnet.algorithms.registry import parse_rule
from flnet.errors import (
    JobBusy,
    NotComparable,
    OtherRounds,
    ParamsRefused,
    PeerError,
    RoundAhead,
    RoundLost,
    StaleRound,
)
from flnet.params.params import PeerId
from flnet.protocol.effects import Answer, Effect, Refuse, Send, SetTimer
from flnet.protocol.events import (
    Averaged,
    AveragingFailed,
    ClaimAnswered,
    ClaimReceived,
    DataChanged,
    DeclineReceived,
    Evaluated,
    EvaluationFailed,
    Event,
    Fetched,
    FetchFailed,
    PartReceived,
    PeerLost,
    PeerSeen,
    Prepared,
    RoundAnswered,
    RoundAsked,
    RoundTriggered,
    SecureStepDone,
    SendFailed,
    SendRefused,
    SumSpoilt,
    TimerFired,
    Trained,
    TrainingAsked,
    TrainingFailed,
    UpdateOffered,
    UpdateReceived,
    VersionReceived,
)
from flnet.protocol.messages import (
    LAST_ROUND,
    MOST_OWNED,
    Accuracy,
    AccuracyReply,
    AskRound,
    ChoiceMessage,
    HyperParams,
    ModelParams,
    RoundReply,
    StartTraining,
    Triggered,
)
from flnet.protocol.secure_sum import KeysPart
from flnet.protocol.updates import Claim, RoundKey
from flnet.rounds import numbering, preemption
from flnet.rounds.base_job import BaseJob
from flnet.rounds.base_round import GATHERING
from flnet.rounds.catching_up import CommonAverage, StatedAverages
from flnet.rounds.compatibility import must_agree
from flnet.rounds.gathering import Closing
from flnet.rounds.history import RoundRecord, view_of_sums
from flnet.rounds.model import HeldModel, Start
from flnet.rounds.numbering import Numbering
from flnet.rounds.participation import more_owned
from flnet.rounds.peers import RESTED as PACES_RESTED
from flnet.rounds.restart_recovery import resume
from flnet.rounds.round import Round, kept_update
from flnet.rounds.secure_round import NOT_NAMED, SecureRound
from flnet.rounds.segmented_round import UNKNOWN, SegmentedRound
from flnet.rounds.series import REGROUP, Opening, Sign, key_of, next_key
from flnet.rounds.settings import JobSettings, rule_in
from flnet.rounds.sparse_round import SparseRound
from flnet.rounds.steps import LEGAL, SECURE, SEGMENTED, SPARSE, Phase
from flnet.rounds.stopping import TIMERS
from flnet.rounds.voted_round import VotedRound
from flnet.text import text

PUT_OFF = "round:put-off"  # a timer
# Events after which most peers may state an average that this node has no part in.
SHOW_AVERAGES = (ClaimReceived, PeerSeen, PeerLost, Prepared, Averaged, AveragingFailed)
HERE = text("this node trains in rounds that are common to all nodes (FLNET_ROUNDS=common), and has no versions")


class Job(BaseJob[Round]):
    """A job whose rounds are common to all nodes."""

    def __init__(self, settings: JobSettings) -> None:
        super().__init__(settings)
        self.numbering = Numbering(self.settings, self.peers, self.tell)
        self.stated = StatedAverages()
        self._may_have_missed = False  # an average, as the event that is being handled may show
        self._is_put_off = False  # the pending round opens when a timer fires
        self._is_resting = False  # likewise, unless another one may open before

    @property
    def next_key(self) -> RoundKey:
        """The round that this node starts next."""
        return next_key(self.number, self.settings.my_id, self.inbox.keys)

    @property
    def table(self) -> Mapping[Phase, Mapping[type, Set[Phase]]]:
        """Its legal steps."""
        if self.settings.rules.topology.kind == "segments":
            return SEGMENTED
        return {Round: LEGAL, SecureRound: SECURE, SparseRound: SPARSE}[self._kind]

    @property
    def _kind(self) -> type[Round]:
        if self.settings.secure:
            return SecureRound
        kinds = {"mesh": Round, "segments": SegmentedRound, "random": SparseRound, "ring": SparseRound}
        return kinds[self.settings.rules.topology.kind]

    def _view_of_sums(self) -> Mapping[str, Any] | None:
        secure = self.settings.secure
        return None if secure is None else view_of_sums(secure, self.history.records, 1 + len(self.peers.here))

    # --- events

    def receive(self, event: Event) -> list[Effect]:
        """Handle one event; see `BaseJob.receive`."""
        self._may_have_missed = self._may_show_average(event)
        try:
            effects = super().receive(event)
        finally:
            self._may_have_missed = False
        if isinstance(event, UpdateReceived | UpdateOffered):
            self.peers.spoke(event.update.peer, event.update.key.number)
        elif isinstance(event, TrainingAsked | DeclineReceived | PartReceived):
            self.peers.spoke(event.peer, event.key.number)
        elif isinstance(event, ClaimReceived):
            self.peers.spoke(event.claim.peer, event.claim.round)
        return effects

    def _react(self, event: Event) -> list[Effect]:
        """Handle events of peers and of the round; `_about_the_node` handles all others."""
        match event:
            case RoundTriggered():
                return self._triggered(event)
            case TrainingAsked():
                return self._asked(event)
            case UpdateReceived() | UpdateOffered():
                return self._update_received(event)
            case DeclineReceived():
                return self._declined(event)
            case ClaimReceived():
                return self._claim_received(event)
            case RoundAsked():
                return [Answer(RoundReply(i_am=self.settings.me, round=self.number))]
            case RoundAnswered(peer, number):
                return self.numbering.answered(peer, number)
            case SendRefused(peer, AskRound.path) | SendFailed(peer, AskRound.path):
                return self.numbering.answered(peer, -1) if isinstance(event, SendRefused) else []
            case VersionReceived():
                must_agree(self.settings, event.version.update.peer, event.agreement)
                raise OtherRounds(HERE)
            case Fetched() | FetchFailed():
                return self._fetched(event)
            case Evaluated() | EvaluationFailed() if self.phase is Phase.IDLE:
                return self._measured_between_rounds(event)
            case SendRefused(current=int()) if not self._could_be_at(event.current):
                asked = [] if self.numbering.question else self.numbering.ask(event.key, event.peer, event)
                return [*self._to_round(replace(event, error=RoundAhead.code, current=None)), *asked]
            case SendRefused(peer, ModelParams.path, error=StaleRound.code) if self._has_left(event):
                return self._left_by(peer, event.reason, event)
            case SendFailed(peer, path, key) if key == self.key and path != Accuracy.path:
                self.peers.missed(peer, key, path == StartTraining.path)
                return self._to_round(event)
            case PartReceived():
                return self._part_received(event)
            case Trained() | TrainingFailed() | Averaged() | AveragingFailed() | SumSpoilt() | SecureStepDone():
                return self._to_round(event)
            case Evaluated() | EvaluationFailed() | ClaimAnswered() | SendRefused() | SendFailed():
                return self._to_round(event)
        return self._about_the_node(event)

    def _about_the_node(self, event: Event) -> list[Effect]:
        """Handle changes of peers and timers; all else as in every job."""
        match event:
            case PeerSeen(peer, is_proven, is_whole):
                self.peers.met(peer, is_proven=is_proven, is_whole=is_whole)
                return self._met(peer)
            case PeerLost(peer):
                self.series.lost(peer)
                self.peers.lost(peer, self.key if self.round and self.round.needs_word(peer) else None)
                return [*self._to_round(event), *self._next_turn()]
            case TimerFired(name) if name == numbering.ASKED:
                return self._answered()
            case TimerFired(name) if name == PUT_OFF:
                self._is_put_off = False
                return []
            case TimerFired(name) if name == PACES_RESTED:
                if self.phase is Phase.IDLE:  # else a round follows, after which the timer starts again
                    self.peers.paces.rest()
                return []
            case TimerFired(name) if name == numbering.RESTED:
                return self.numbering.rest()
            case TimerFired(name) if name == preemption.RESTED:
                return self._rested()
            case TimerFired(name) if name == REGROUP:
                return self.series.waited(self.key, self.phase is Phase.IDLE)
            case TimerFired(name) if name not in TIMERS:
                return self._to_round(event)
        return super()._about_the_node(event)

    def _next_step(self) -> Callable[[], list[Effect]] | None:
        phase, round, series = self.phase, self.round, self.series
        while series.pending is not None and self._is_over(series.pending.key):
            series.drop(series.pending)
        if self._missed is not None:
            return self._take_average
        if round is not None and phase in GATHERING and round.is_gathered:
            return self._average
        if round is not None and phase is Phase.EXCHANGING and round.is_compared:
            return round.finish
        if self.arrivals.waiting is not None and phase in (Phase.IDLE, Phase.NO_DATA):
            return self._renew
        if series.pending is not None and phase not in (Phase.AVERAGING, Phase.LOADING):
            if self._is_put_off:
                return None
            if series.openable(self.key):
                return self._open
            if phase is not Phase.IDLE:
                return None
            if not self._is_resting:
                return self._rest
        if phase is Phase.IDLE and series.can_begin:
            return self._begin_asked
        if phase is Phase.IDLE and series.is_next:
            return self._open_next
        if phase is Phase.IDLE and series.is_due:
            return self._open_due
        return None

    # --- a round opens

    def _triggered(self, event: RoundTriggered) -> list[Effect]:
        """Handle a person's request for rounds; if this node is waiting for others, it forces the average."""
        series, trainer, key = self.series, self.settings.trainer, self._first_of(event)
        if self.phase is Phase.LOADING and not event.why:
            return self._put_off(event, key.number)
        if self.round is not None and self.round.is_taking and not event.why:
            words = text(
                "the requested rounds of {trainer} begin when this node has the average of the others", trainer
            )
            return self._put_off(event, key.number, words)
        busy = text(
            "round {number} is still {state} here; ask again when it is done", self.number, self.phase.words
        )
        self._must_be_free(busy, (Phase.GATHERING, Phase.EXCHANGING))
        if why := self.budget.exhausted:
            raise JobBusy(text("{trainer} starts no rounds here: {reason}", trainer, why))
        if event.why and self.phase is not Phase.IDLE:
            raise JobBusy(text("round {number} is under way; a schedule forces no average", self.number))
        if key.number > LAST_ROUND:
            raise JobBusy(text("round {number} is the last one that can be numbered", LAST_ROUND))
        scheduled = text("the schedule starts round {number}: {reason}", key.number, event.why)
        told = self._ask_for(event, key.number, scheduled)
        series.drop_all()
        series.propose(Opening(key, self.settings.hyper, why=event.why))
        self._is_put_off = False
        # What is promised here is saved: at once where an average comes first, else when the round opens.
        saved = [self.save()] if self.phase is Phase.GATHERING else []
        answer = Answer(Triggered(trainer_id=trainer, round=key.number))
        return [*saved, answer, *told, *self._force()]

    def _first_of(self, event: RoundTriggered) -> RoundKey:
        """The first of the rounds that are requested."""
        if event.new_numbering:
            return RoundKey(self.numbering.next_era(self.number), self.settings.my_id)
        return self.next_key

    def _asked(self, event: TrainingAsked) -> list[Effect]:
        """Handle the start of a round by a peer.

        Raises:
            StaleRound, RoundLost: it is over, or another initiator's start comes first.
            RoundAhead: it is too far ahead, and the other members cannot be asked now.
            ParamsRefused: its parameters do not fit, or it trains something else.
        """
        self._must_have_data()
        if not self.numbering.is_plausible(event.key.number, self.number):
            return self._doubt(event)
        if self.phase is Phase.LOADING:
            self.inbox.ask_later(event)
            return []
        self._must_agree(event.peer, event.agreement, event.key)
        start, why = _start_of(event, self.held, len(self.peers.here) + 1), self.settings.too_much(event.hyper)
        words = (event.series, self._believed(event.choice), event.run)
        if words[1] is None and self.settings.rules.participation.names_all:
            if event.choice is None and event.peer in self.peers.whole:
                return self._start_for(event, why)
            raise ParamsRefused(UNKNOWN)  # a start without members could end each round of this node
        rule = rule_in(event.agreement)
        opening = Opening(event.key, event.hyper, start, why, True, *words, is_again=event.is_again, rule=rule)
        if self.round is not None and self.key == event.key:
            if self.round.listening:
                return self._join(self.round, opening)
            if self.round.was_started_again(event.run):
                raise StaleRound(event.key.number, self.number)
            return []
        self._must_beat(event.key)
        if why and self.phase in GATHERING:  # nothing is left for a round that this node does not train in
            raise ParamsRefused(why)
        self.series.propose(opening)
        is_next = event.key.number == self.number + 1 and self.series.openable(self.key) is not None
        return self._force() if is_next else []

    def _start_for(self, event: TrainingAsked, why: str) -> list[Effect]:
        """A peer that cannot say who takes part starts a round: the first of the others by name does so in its place.

        Raises:
            StaleRound, RoundLost: it is over, or has begun.
            ParamsRefused: this node does not train by its hyper-parameters.
        """
        self._must_beat(event.key)
        if why:
            raise ParamsRefused(why)
        me, others = self.settings.my_id, self.peers.proven - self.peers.whole
        if me != min({me, *others}):
            return []
        self.series.propose(Opening(RoundKey(event.key.number, me), event.hyper))
        return self._force() if event.key.number == self.number + 1 else []

    def _must_agree(self, peer: PeerId, stated: Mapping[str, str] | None, key: RoundKey) -> None:
        """Refuse a peer that trains something else, or averages the open round by another aggregation rule.

        Raises:
            ParamsRefused: says what differs.
        """
        # A late message is refused as that, if at all.
        change, is_over = self.rule_change, key.number < self.number
        followed = () if key == self.key else change.known if is_over else change.followed
        must_agree(self.settings, peer, stated, followed)

    def _doubt(self, event: TrainingAsked) -> list[Effect]:
        """Ask the other members before this node follows the start of a round that is far ahead.

        Raises:
            RoundAhead: they are being asked, or a round is open here.
        """
        self._must_agree(event.peer, event.agreement, event.key)
        if self.phase is not Phase.IDLE or self.numbering.question is not None:
            raise RoundAhead(event.key.number, self.number)
        return self.numbering.ask(event.key, event.peer, event)

    def _answered(self) -> list[Effect]:
        """The other members have said in which round they are: follow the start that was doubted, or decline it."""
        question = self.numbering.decide(self.number)
        if question is None or self.settings.hyper is None:
            return []
        event = question.event
        if isinstance(event, SendRefused):
            if self.round is None or event.current is None or not self._could_be_at(event.current):
                return []
            self.round.ahead.confirmed(question.answers, event.current)
            return self._to_round(event)
        try:
            if self.phase is not Phase.IDLE or not self.numbering.is_plausible(event.key.number, self.number):
                raise RoundAhead(event.key.number, self.number)
            return self._asked(event)
        except PeerError as exc:
            message = self.settings.message(ModelParams, event.key, examples=0, declined=str(exc)[:500])
            words = text("{peer} started round {number}: {reason}", event.peer, event.key.number, exc)
            return [Send((event.peer,), message), self.tell("refused", words, peer=event.peer)]

    def _believed(self, choice: ChoiceMessage | None) -> ChoiceMessage | None:
        """The choice of who trains that a peer states; None if this node's own settings do not lead to it."""
        if choice is not None and choice.group is not None:
            return choice  # it is checked when the round opens: the sum may fail here a moment later
        known = self.series.preemption.known(self._counted)  # a member can invent names that no start has
        return self.settings.rules.participation.believed(choice, {self.settings.my_id, *known}, self._whole)

    @property
    def _counted(self) -> set[PeerId]:
        """The peers on which rounds count: where all follow from who takes part, only who answered at its address."""
        return self.peers.proven if self.settings.rules.participation.names_all else self.peers.here

    @property
    def _whole(self) -> Set[PeerId]:
        """The peers that know whole updates only, where others exchange segments."""
        return self.peers.whole if issubclass(self._kind, SegmentedRound) else frozenset()

    def _more_owned(self, members: Set[PeerId]) -> Mapping[str, int]:
        """How many segments these nodes own that own more than one."""
        if not issubclass(self._kind, SegmentedRound):
            return {}
        stated = {**self.peers.owned, self.settings.my_id: self.settings.rules.owned}
        return more_owned({peer: stated.get(peer, MOST_OWNED) for peer in members - self._whole})

    def _followed(self, choice: ChoiceMessage | None) -> ChoiceMessage | None:
        """The choice of a round that opens; None if it is of a group, and no sum failed here that is searched."""
        if choice is None or choice.group is None or self.search.believes(choice):
            return choice
        return None

    def _could_be_at(self, current: int | None) -> bool:
        """Whether a peer that refused a message can be in this round; this node would start the next one."""
        return current is not None and self.numbering.is_plausible(current + 1, self.number)

    def _must_be_near(self, key: RoundKey) -> None:
        """Refuse a message of a round that is too far ahead.

        Raises:
            RoundAhead: it is.
        """
        if not self.numbering.is_plausible(key.number, self.number):
            raise RoundAhead(key.number, self.number)

    def _is_over(self, key: RoundKey) -> bool:
        """Whether a round that was put off is no longer one that this node can enter."""
        if self.key is None or self.phase is Phase.LOADING or key.number > self.number:
            return False
        return key.number < self.number or self.phase not in GATHERING or not key.beats(self.key)

    def _must_beat(self, key: RoundKey) -> None:
        """Refuse a round for which this node does not leave its current one.

        Raises:
            StaleRound: it is over, or averaged here already: one average per round, never two.
            RoundLost: another initiator's start of that round comes first.
        """
        if self.key is None or key.number > self.number:
            return
        if key.number < self.number or self.phase not in GATHERING:
            raise StaleRound(key.number, self.number)
        if not key.beats(self.key):
            raise RoundLost(self.number, key.initiator, self.key.initiator)

    def _has_left(self, event: SendRefused) -> bool:
        """Whether a peer that refused an update as late sends nothing more of the open round.

        What it sent before it went on may still be on its way, unless the start of a later round has come before it, or
        the peer is past that one, too.
        """
        if event.key != self.key or self.phase is not Phase.GATHERING:
            return False
        return self.series.pending is not None or (event.current or 0) > event.key.number + 1

    def _follow(self, peer: PeerId, sign: Sign) -> list[Effect]:
        """A peer takes part in a round that comes before the own one: follow it, if the others are there, too."""
        known = self.series.preemption.known(self.peers.here)
        self.series.preemption.heard(self.inbox.numbers(known), len(known))
        leading = self._led_by(peer, sign)
        for one in leading:
            self.series.propose(Opening.told_by(one))
        return self._catch_up(key_of(sign)) if leading else []

    def _led_by(self, peer: PeerId, sign: Sign) -> list[Sign]:
        """The signs that this node follows into their rounds, of which it has heard no start, now that this one came.

        An average in progress is finished first.
        """
        if self.phase is Phase.AVERAGING:
            return []
        if self.phase in GATHERING and not self.inbox.is_newest(peer, sign):
            return []  # its sender has said more since
        if key_of(sign).number == self.number:
            return [sign]
        return self.inbox.leading(self.number, self.peers.here)

    def _catch_up(self, key: RoundKey) -> list[Effect]:
        """Average the open round before this node follows the others into a newer one, if it has most of their updates."""
        if self.round is None or key.number == self.number:
            return []
        updates = self.round.gathering.updates
        has_most = 2 * len(updates) > len(self.peers.here) + 1
        return self._force() if has_most and self.settings.my_id in updates else []

    def _left_by(self, peer: PeerId, reason: str, refusal: SendRefused | None = None) -> list[Effect]:
        """A peer has left the round that is completed here: nothing more of it will come from there.

        Args:
            refusal: with which it answered this node's update, if it did.
        """
        assert self.round is not None
        if refusal is not None:
            self.round.note_refusal(refusal)
        return self.round.declined(DeclineReceived(peer, self.round.key, reason))

    def _average(self) -> list[Effect]:
        """End gathering."""
        assert self.round is not None
        gathering, here = self.round.gathering, self.peers.here
        if gathering.closed is not Closing.NEXT_ROUND:
            heard = self.round.counted
            unheard, not_chosen = gathering.unheard(here) - heard, gathering.not_chosen(here)
            self.series.preemption.completed(self.round.key, heard, unheard, here, not_chosen)
        effects = self.round.average()
        self._is_put_off = self.phase is Phase.IDLE and self.series.pending is not None
        return [*effects, *([SetTimer(PUT_OFF, 0.0)] if self._is_put_off else [])]

    def _may_show_average(self, event: Event) -> bool:
        """Whether it may show after this event that this node has missed an average."""
        match event:
            case SendRefused():
                return self.phase is Phase.GATHERING  # its update is too late
            case DataChanged():
                return self.phase is Phase.NO_DATA
        may_give_up = (
            (PartReceived, SecureStepDone, TimerFired, FetchFailed) if issubclass(self._kind, VotedRound) else ()
        )
        return isinstance(event, SHOW_AVERAGES + may_give_up)

    @property
    def _missed(self) -> CommonAverage | None:
        """The average of a round that most others have made without this node, if this node takes it now."""
        is_averaging = self.phase is Phase.AVERAGING and not (self.round and self.round.is_open_to_others)
        cannot = is_averaging or self.phase in (Phase.LOADING, Phase.NO_DATA) or self.held.rolled_back
        if self.round is not None and self.round.is_gathered:
            return None  # averaging was asked for a moment ago
        if not self._may_have_missed or self.stated.is_empty or cannot:
            return None
        here, known = self.peers.here, self.history.contributors() - {self.settings.my_id}
        common = self.stated.common(self.number + 1, known, here)
        if common is None and self.round is not None:
            common = self.stated.common(self.number, known, here, among=self.round.without_me(here))
        if common is None:
            return None
        following = self.series.openable(self.key)
        return None if following is not None and following.key.number > common.key.number else common

    def _take_average(self) -> list[Effect]:
        """Take the average of a round that this node has no part in."""
        common = self._missed
        assert common is not None
        key = common.key
        if self.round is not None and self.round.nobody_joined(common):
            self.series.restart_round()
            self.series.stopping.begin_later(key.number + 1)
        if self.round is not None and key.number == self.number:
            return self.round.take(common)
        left = self.round.leave(key) if self.round else []
        moved = self.numbering.entered(key, self.number)
        self.held.enter_round()
        self._average_by(self.rule_change.rule, key)
        self.inbox.take_all(key)
        self._trouble = None
        taken = self._follow_with(self._kind(self._parts, key, self.peers.here))
        return [*left, *moved, *taken.take(common, is_new=True)]

    def _force(self) -> list[Effect]:
        return self.round.force() if self.round else []

    def _join(self, round: Round, opening: Opening) -> list[Effect]:
        awaited, told = self._start_from(opening), self._use(opening)
        return [*round.join(replace(opening, choice=self._followed(opening.choice)), awaited), *told]

    def _use(self, opening: Opening) -> list[Effect]:
        """Train by the hyper-parameters of the round that opens, unless they ask for too much."""
        if not (opening.sits_out and opening.start):
            self.settings.use(opening.hyper)
            return []
        self.settings.use_own()
        self.peers.paces.seconds.clear()  # it says nothing of how long the others train by these
        words = text("this node sits the round out: {reason}", opening.sits_out)
        return [self.tell("sits_out", words, peer=opening.start.peer)]

    def _open(self) -> list[Effect]:
        """Leave the open round, if any, and enter the pending one."""
        opening = self.series.openable(self.key)
        assert opening is not None
        self.series.drop(opening)
        if self.number < opening.key.number:
            self.series.preemption.entered(opening.key)
        left = self.round.leave(opening.key) if self.round else []
        awaited, told = self._start_from(opening), self._use(opening)
        self.held.enter_round()
        me, here = self.settings.my_id, self.peers.here
        choice, run = self._followed(opening.choice), opening.run
        if not opening.heard_start and not self._may_believe(choice):
            choice = None
        is_mine = opening.started_by(me) and opening.heard_start  # else a peer tells of one that this node forgot
        self._average_by(self.rule_change.rule if is_mine else opening.rule, opening.key)
        if is_mine:
            named, participation = {me, *self._counted}, self.settings.rules.participation
            choice = self.search.choice() or participation.choice_of(named, self._whole, self._more_owned(named))
            run = self.settings.run or None
        self._trouble = None
        moved = self.numbering.entered(opening.key, self.number)
        record = RoundRecord(opening.key, why=opening.why)
        opened = self._follow_with(self._kind(self._parts, opening.key, here, choice, run, record))
        return [*left, *opened.enter(opening, awaited, is_mine), *told, *moved]

    def _may_believe(self, choice: ChoiceMessage | None) -> bool:
        """Whether others may say who takes part before the initiator does: they cannot keep this node out."""
        names_all = self.settings.rules.participation.names_all
        return choice is None or not names_all or self.settings.my_id in choice.members

    def _follow_with(self, following: Round) -> Round:
        """Put this round in the place of the one before, which has been left."""
        if self.round is not None:
            self.round.release()
        self.round = following
        return following

    def _average_by(self, rule: str, key: RoundKey) -> None:
        """Average the round that opens by this aggregation rule, if this node followed it when the start came."""
        if rule in self.rule_change.known:
            self.settings.merge_by(rule, parse_rule(rule).adds_as_they_come)
        self.inbox.drop_unlike(key, self.settings.rule)

    def _rest(self) -> list[Effect]:
        """Follow the peers that start one round after the other no further for a while.

        Others wait for this node as long as for a forced average. After half of that it still has a part in the round.
        """
        self._is_resting = True
        return [SetTimer(preemption.RESTED, self.settings.waits.average / 2)]

    def _rested(self) -> list[Effect]:
        """Follow them again, if no round that others are in opened meanwhile."""
        self._is_resting = False
        if self.phase is Phase.IDLE:
            self.series.preemption.rest()
        return []

    def _start_from(self, opening: Opening) -> Start | None:
        """The initiator's model, if this node has another one."""
        start = opening.start
        return self.held.start_from(start, start is not None and self.history.held(start.digest))

    def _open_next(self) -> list[Effect]:
        """Open the next of the rounds that this node was asked for."""
        if self.number >= LAST_ROUND:
            self.series.ask(0)
            return []
        self.series.count_down()
        return self._start_next(self.settings.hyper)

    def _open_due(self) -> list[Effect]:
        """Open the next round of the series with a goal."""
        self.series.stopping.set_turn(is_mine=False)
        return self._start_next(self.series.stopping.hyper)

    def _start_next(self, hyper: HyperParams | None) -> list[Effect]:
        """Open a round of this node rather than those of peers that it does not follow now."""
        self.series.drop_all()
        self.series.propose(Opening(self.next_key, hyper))
        return []

    # --- what peers say

    def _update_received(self, event: UpdateReceived | UpdateOffered) -> list[Effect]:
        """Handle an update of a peer, or the offer of one; an update of a newer round means that the mesh is ahead.

        Raises:
            NotReady, NoData, StaleRound, RoundAhead, RoundLost, ParamsRefused: it does not count, and why.
        """
        self._must_have_model()
        self._must_agree(event.update.peer, event.agreement, event.update.key)
        self._kind.must_take(event, self.peers.whole)
        update, choice = event.update, self._believed(event.choice)
        event = event if choice == event.choice else replace(event, choice=choice)
        key = self._placed(update.key, update.peer)
        self._must_be_near(key)
        params = self.update_schema.conform(update.params) if isinstance(event, UpdateReceived) else update.params
        if key is not update.key or params is not update.params:
            event = replace(event, update=replace(update, key=key, params=params))
        if self.round is not None and key == self.round.key:
            return self.round.update_received(event)
        self._must_beat(key)
        self.inbox.put(event.update.peer, event)
        followed = self._follow(event.update.peer, event)
        return [self.save(kept_update(event)), *followed]

    def _part_received(self, event: PartReceived) -> list[Effect]:
        """Handle a part of the conversation about a secure sum; of a round that is not open yet, it is kept.

        It shows that its sender is in that round, long before there is an update. Without that, nodes that were led into
        different rounds would wait for each other in all of them.

        Raises:
            NoData, RoundAhead, ParamsRefused: it is of no use here, and why.
            StaleRound, RoundLost: its sender asks this node to join a sum of a round that is over here.
        """
        self._must_have_data()
        if self.phase is not Phase.LOADING:
            self._must_agree(event.peer, event.agreement, event.key)
        if not issubclass(self._kind, VotedRound):
            raise OtherRounds(text("updates are neither masked nor averaged in segments here"))
        self._must_be_near(event.key)
        event = replace(event, choice=self._believed(event.choice))
        if isinstance(self.round, VotedRound) and event.key == self.key and self.phase is not Phase.LOADING:
            return self.round.part_received(event)
        is_loading = self.phase is Phase.LOADING
        if isinstance(event.part, KeysPart) and not is_loading:
            self._must_beat(event.key)
        if self.key is not None and not event.key.beats(self.key):
            return []
        self.inbox.put_part(event)
        if is_loading:
            return []
        why = text("it is in round {number}", event.key.number)
        left = self.round.left_by(event.peer, why) if isinstance(self.round, VotedRound) else []
        return [*left, *self._say_unnamed(event), *self._follow(event.peer, event)]

    def _say_unnamed(self, event: PartReceived) -> list[Effect]:
        """Tell a peer that this node has no part in a sum whose choice does not name it: its vote counts until then."""
        choice = event.choice
        if choice is None or self.settings.my_id in choice.members or not isinstance(event.part, KeysPart):
            return []
        message = self.settings.message(ModelParams, event.key, examples=0, declined=NOT_NAMED, choice=choice)
        return [Send((event.peer,), message)]

    def _declined(self, event: DeclineReceived) -> list[Effect]:
        """Handle a peer's refusal to take part; for a newer round it is kept until that round opens here."""
        event = replace(event, key=self._placed(event.key, event.peer))
        if not self.numbering.is_plausible(event.key.number, self.number):
            return []
        if self.round is not None and event.key == self.key and not self.round.is_past:
            return self.round.declined(event)
        is_newer = self.key is None or event.key.beats(self.key)
        if is_newer or (self.snapshot.before is not None and event.key == self.key):
            self.inbox.put(event.peer, event)
        return []

    def _placed(self, key: RoundKey, sender: PeerId) -> RoundKey:
        """Add the initiator, which the thesis' format does not have: that of the open round, or else the caller."""
        if key.initiator:
            return key
        is_open = self.key is not None and self.key.number == key.number
        return RoundKey(key.number, self.key.initiator if self.key and is_open else sender)

    def _claim_received(self, event: ClaimReceived) -> list[Effect]:
        """Handle a peer's claim: answer with this node's model, or refuse.

        Raises:
            NotComparable: busy, in another round, or not averaged yet.
            ParamsRefused: its parameters do not fit, or it trains something else.
            JobBusy: a person restored another model here.
        """
        held, phase = self.held, self.phase
        self._must_have_data()
        # It states an average, and brings none: also one that was made by the previous rule, or by the one to come.
        must_agree(self.settings, event.claim.peer, event.agreement, self.rule_change.known)
        if held.rolled_back and phase is Phase.IDLE:
            raise JobBusy(
                text("a person here went back to another model; there is nothing to compare until the next round")
            )
        claim = held.conformed(event.claim)
        if (refusal := self._not_comparable(claim)) is not None:
            if not self._may_take(claim) or not self.stated.note(claim, self.peers.here):
                raise refusal
            return [Refuse(refusal)]
        assert held.accuracy is not None
        self.series.stopping.heard(claim, self.number)
        model = held.current
        reply = AccuracyReply(
            i_am=self.settings.me,
            accuracy=held.accuracy,
            digest=model.shared.digest,
            contributors=model.contributors,
            report=self.series.stopping.report(asked=claim.report is not None),
            measured=self.series.stopping.evaluation.own,
        )
        # A caller that sent its model speaks the thesis' form and wants ours; others fetch it by the digest.
        answer = Answer(reply, model.shared if event.claim.params is not None else None)
        compared = self.round.compare(ClaimReceived(claim)) if self.round else []
        return [answer, *compared]

    def _not_comparable(self, claim: Claim) -> NotComparable | None:
        """Why this node has no model to compare with a peer's now."""
        if claim.round != self.number:
            return NotComparable(
                text("round {number} is compared, but this node is in round {current}", claim.round, self.number)
            )
        if self.phase not in (Phase.EXCHANGING, Phase.IDLE) or self.held.accuracy is None:
            return NotComparable(
                text(
                    "round {number} is not averaged and measured here yet ({state})", self.number, self.phase.words
                )
            )
        return None

    def _may_take(self, claim: Claim) -> bool:
        """Whether this node may come to take the average that a peer states."""
        ended = self.round is not None and self.round.ended_without_average
        is_open = self.phase is Phase.LOADING or (self.round is not None and self.round.is_open_to_others)
        is_missed = claim.round == self.number and (ended or is_open)
        is_newer = claim.round > self.number
        return (is_missed or is_newer) and self.numbering.is_plausible(claim.round, self.number)

    # --- peers that come and go

    def _met(self, peer: PeerId) -> list[Effect]:
        """Handle a reachable peer: if it or this node was away in this round, send it the messages again."""
        effects = self.series.met(peer, self.key, self.phase is Phase.IDLE)
        if self.round is None or self.held.model is None:
            return effects
        effects += self.round.met(peer)
        return [*effects, *self.round.say_again(peer)] if self.peers.is_back(peer, self.round.key) else effects

    def _next_turn(self) -> list[Effect]:
        """Start the next round of a series if the node whose turn it was is gone and this node is next."""
        stopping = self.series.stopping
        return stopping.take_turn(self.key) if stopping.waits and self.phase is Phase.IDLE else []

    # --- the trainer, and restarts

    def _prepared(self, event: Prepared) -> list[Effect]:
        """Handle the loaded trainer; the start of a round may have arrived meanwhile."""
        waiting = self.inbox.take_asked()
        effects = super()._prepared(event)
        if waiting is not None:
            try:
                effects += self._asked(waiting)
            except PeerError as exc:  # its sender was answered long ago; people see it
                effects.append(
                    self.tell(
                        "refused", text("the start by {peer} came while loading: {reason}", waiting.peer, exc)
                    )
                )
        return effects

    def _past(self, key: RoundKey, record: RoundRecord | None, figures: Mapping[str, Any]) -> Round:
        choice = ChoiceMessage.read(figures["choice"]) if figures.get("choice") else None
        started_in = str(figures["started_in"]) if figures.get("started_in") else None
        return self._kind.past(self._parts, key, choice, started_in, record)

    def _go_on(self) -> list[Effect]:
        """Resume the round that was open before a restart, and the series."""
        before = self.snapshot.take_before()
        if before is None:
            return []
        peers = before.snapshot.get("peers", ())
        if self.round is None:
            return self.series.regroup(peers, self.key, is_idle=True)
        if self._trouble is not None:  # another model than the series was about
            self.series.give_up()
        self.round, effects = resume(self._parts, self.round, before, is_usable=self._trouble is None)
        for peer in sorted(self.peers.away.keys() & self.peers.here):  # came while the trainer was being loaded
            effects += self._met(peer)
        return [*effects, *self.series.regroup(peers, self.key, self.phase is Phase.IDLE)]


def _start_of(event: TrainingAsked, held: HeldModel, most: int) -> Start:
    """The model that a start contains or names by its digest.

    Args:
        most: how many nodes can have contributed to it.

    Raises:
        ParamsRefused: it does neither, or the parameters do not fit.
    """
    last = event.key.number - 1  # no average is from a round to come
    params = None if event.params is None else held.schema.conform(event.params)
    digest = event.digest if params is None else params.digest
    if digest is None:
        raise ParamsRefused(text("a start must bring parameters, or name their digest"))
    restored_at = None if event.restored_at is None else min(event.restored_at, last)
    base_round, contributors = max(min(event.base_round, last), -1), min(event.contributors, most)
    return Start(digest, params, event.peer, base_round, contributors, restored_at)
