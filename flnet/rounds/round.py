"""One round of a job on this node, from its start until it is closed.

The algorithm is that of García Pérez (2021), section 3.2.4.2: train on the own data, send the update to all, gather
theirs, average, measure the average, compare accuracies with the peers and adopt a better model. What it lacked is
added here: refusals, updates that are fetched by their digest, nodes that were away, and rounds in which not all
nodes train.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from types import MappingProxyType
from typing import Any, ClassVar, Self

from flnet.errors import (
    ContributionRefused,
    NotComparable,
    ParamsRefused,
    RoundAhead,
    RoundLost,
    StaleRound,
)
from flnet.params.params import Digest, Params, PeerId
from flnet.protocol.effects import (
    CancelTimer,
    CancelWork,
    Effect,
    KeptUpdate,
    Publish,
    Send,
    SetTimer,
    Train,
)
from flnet.protocol.events import (
    Averaged,
    AveragingFailed,
    ClaimAnswered,
    DeclineReceived,
    Evaluated,
    EvaluationFailed,
    Event,
    Fetched,
    FetchFailed,
    SendFailed,
    SendRefused,
    SumSpoilt,
    TimerFired,
    Trained,
    TrainingFailed,
    UpdateOffered,
    UpdateReceived,
)
from flnet.protocol.messages import LAST_ROUND, Accuracy, ChoiceMessage, ModelParams, StartTraining
from flnet.protocol.updates import RoundKey, Update
from flnet.rounds.adoption import Comparison
from flnet.rounds.base_round import GATHERING, OPEN, BaseRound, Parts
from flnet.rounds.catching_up import LEAST_PEERS, CatchingUp, CommonAverage
from flnet.rounds.evaluation import measured_in
from flnet.rounds.gathering import Closing, Gathering
from flnet.rounds.history import RoundRecord, closing_words, contributions_of, names
from flnet.rounds.model import Start
from flnet.rounds.numbering import Ahead
from flnet.rounds.participation import chosen, out_of_turn
from flnet.rounds.peers import RESTED
from flnet.rounds.series import ENDED, PAUSED, Opening, Word, key_of
from flnet.rounds.staleness import LATE, Late
from flnet.rounds.starting_model import AfterStart, StartDecision, StartingModel
from flnet.rounds.steps import Phase
from flnet.text import text


class Round(BaseRound):
    """One round that is common to all nodes.

    Attributes:
        choice: the nodes that train, as the start states them; None if all do.
        started_in: run of the initiator in which the round was started, if it is known.
        ahead: the peers that are past it, if this node started it.
        comparison: of accuracies with peers; None before the average is measured, and afterwards.
        starting_model: decides from which model this node trains.
        is_past: whether it was averaged before a restart of this node, which no longer knows its updates.
    """

    _states_average: Set[Phase] = frozenset({Phase.IDLE})  # phases in which a peer that returns is told of it

    _adopts: ClassVar[bool] = True  # whether a better model of a peer is adopted

    gathering: Gathering

    def __init__(
        self,
        parts: Parts,
        key: RoundKey,
        expected: Collection[PeerId],
        choice: ChoiceMessage | None = None,
        started_in: str | None = None,
        record: RoundRecord | None = None,
    ) -> None:
        """Args:
        expected: peers that take part in it.
        record: the record of an earlier run of this node.
        """
        super().__init__(parts, key, record or RoundRecord(key), Phase.GATHERING)
        self._staleness, self._inbox = parts.staleness, parts.inbox
        self.choice, self.started_in, self.is_past = choice, started_in, False
        self.gathering = self._new_gathering(expected, self.chosen)
        self.comparison: Comparison | None = None
        self.starting_model = StartingModel(
            key, parts.settings, parts.held, self._tell, self._model_came, parts.peers.here
        )
        self.takes_again: CommonAverage | None = None  # that this node was taking when it was restarted
        self._catching_up: CatchingUp | None = None
        self.ahead = Ahead(key, parts.settings, parts.peers, parts.held, parts.series)

    def release(self) -> None:
        """Let go of what the round holds, because another one is in its place; it is not asked for anything any more.

        These parts call back. So without this, all parameters in them would stay in memory until Python's collector of
        reference cycles comes, many rounds later.
        """
        del self.starting_model, self.comparison, self.gathering

    @classmethod
    def past(
        cls,
        parts: Parts,
        key: RoundKey,
        choice: ChoiceMessage | None,
        started_in: str | None,
        record: RoundRecord | None,
    ) -> Self:
        """The round that this node was in when it was restarted."""
        past = cls(parts, key, (), choice, started_in, record)
        past.phase, past.is_past, past.is_recorded = Phase.IDLE, True, record is None
        past.gathering = past._new_gathering(())
        past.gathering.close(Closing.COMPLETE)
        return past

    def _new_gathering(self, expected: Collection[PeerId], chosen: Collection[PeerId] | None = None) -> Gathering:
        return self._parts.gathering(self.key, expected, chosen)

    # --- what it is

    @property
    def chosen(self) -> frozenset[PeerId] | None:
        """The nodes that train; None for all."""
        return None if self.choice is None else chosen(self.choice, self._settings.trainer, self.key.number)

    @property
    def listening(self) -> bool:
        """Whether only an update of the round has arrived, so that its start may still come."""
        me, gathering = self._settings.my_id, self.gathering
        return (
            self.phase is Phase.GATHERING
            and me not in gathering.updates
            and me not in gathering.declined
            and not gathering.sits_out
            and self._staleness.behind is None
        )

    @property
    def start_timer(self) -> str:
        """The timer that bounds `listening`."""
        return f"start:{self.key.number}:{self.key.initiator}"

    @property
    def waiting_for(self) -> list[PeerId]:
        """The peers that the round waits for."""
        if self.phase is Phase.EXCHANGING and self.comparison:
            return self.comparison.waiting_for
        return self.gathering.missing if self.phase is Phase.GATHERING else []

    @property
    def listeners(self) -> set[PeerId]:
        """The peers that average updates, chosen to train or not, if the start names them."""
        members = self.choice.members if self.choice else ()
        return {PeerId(member) for member in members} - {self._settings.my_id}

    def needs_word(self, peer: PeerId) -> bool:
        """Whether a peer needs this node's message, because it is expected or averages without an update of its own."""
        if self.is_past:
            return False
        return peer in self.gathering.expected or peer in self.gathering.declined or peer in self.listeners

    # --- events

    def receive(self, event: Event) -> list[Effect]:
        """Handle the end of work, an answer of a peer, the loss of one, or a timer."""
        match event:
            case Trained():
                return self._trained(event)
            case TrainingFailed():
                return self._training_failed(event)
            case _ if self._catching_up is not None and self.phase is Phase.FETCHING:
                return self._downloaded(self._catching_up, self._catching_up.receive(event))
            case Averaged() | AveragingFailed():
                return self._averaged(event)
            case SumSpoilt():
                return self._sum_spoilt(event)
            case Evaluated() | EvaluationFailed():
                return self._measured(event)
            case Fetched() | FetchFailed():
                return self._fetched(event)
            case ClaimAnswered():
                return (
                    self.comparison.answered(event) if self.comparison and self.phase is Phase.EXCHANGING else []
                )
            case SendRefused() if self.phase is not Phase.EXCHANGING:
                return self._refused(event)
            case SendRefused() | SendFailed():
                if isinstance(event, SendRefused):
                    self.note_refusal(event)
                return self.compare(event) if event.key == self.key else []
            case TimerFired(name) if name == self.start_timer:
                return self._start_did_not_come() if self.listening else []
            case TimerFired(name) if name == self.starting_model.timer:
                return self._decided(self.starting_model.timer_fired()) if self.phase is Phase.FETCHING else []
            case TimerFired(name) if name == self.ahead.timer:
                return self.ahead.start_after() if self.phase in (*GATHERING, Phase.IDLE) else []
        return [*self.gathering.receive(event), *self.compare(event)]  # a peer was lost, or another timer fired

    # --- the start

    def enter(self, opening: Opening, awaited: Start | None, is_mine: bool) -> list[Effect]:
        """Begin the round, with the messages of peers that arrived too early.

        Args:
            awaited: the initiator's model, if this node has another one.
            is_mine: whether this node starts it now, and has not only lost its memory of the start.
        """
        held = self.starting_model.expect(awaited)
        effects = self._staleness.enter_round(self.key.number)
        effects += self._series.stopping.enter_round(self.key, opening.series, opening.hyper)
        if is_mine:
            effects.append(self._start(self._peers.here))
        early = self._inbox.take_all(self.key)
        for word in early:
            self._note_time(word)
        # Before the node takes part: sitting out may end the round.
        early_effects = [effect for word in early for effect in self.gathering.receive(word)]
        effects += [*self._take_part(opening), *early_effects]
        words = text(
            "round {number} of {trainer} was started by {initiator}",
            self.key.number,
            self._settings.trainer,
            self.key.initiator,
        )
        return [*effects, self._save(), self._tell("round_opened", words, initiator=self.key.initiator), *held]

    def join(self, opening: Opening, awaited: Start | None) -> list[Effect]:
        """Handle a start that arrived late: train, and keep the gathered updates.

        Args:
            awaited: the initiator's model, if this node has another one.
        """
        self.started_in = opening.run
        effects: list[Effect] = [*self.starting_model.expect(awaited), CancelTimer(self.start_timer)]
        effects += self._series.stopping.enter_round(self.key, opening.series, opening.hyper)
        if opening.choice is not None and self.choice is None:
            self.choice = opening.choice
            self.gathering.choose(self.chosen or ())
        if self.gathering.sits_out:
            return [*effects, *self.rest(), self._save()]
        why = opening.sits_out or self._why_not(opening) or self._budget.exhausted
        return [*effects, *(self._sit_out(why) if why else self._begin()), self._save()]

    def force(self) -> list[Effect]:
        """Average the updates that have arrived, if any, because the next round was requested."""
        if self.phase not in GATHERING or not self.gathering.updates or self.taken:
            return []
        left = self._staleness.leave(self.key) if self.phase is Phase.TRAINING else []
        return [*left, CancelTimer(self.start_timer), *self.gathering.close(Closing.NEXT_ROUND)]

    def was_started_again(self, run: str | None) -> bool:
        """Whether a start of this round is not a duplicate, because its initiator lost its memory of the first.

        The initiator would wait for messages that were sent long ago, and average alone. If it is refused, it
        continues with the next round.
        """
        return self.started_in is not None and run is not None and run != self.started_in

    def _take_part(self, opening: Opening) -> list[Effect]:
        if self.gathering.sits_out:
            return self.rest()
        if why := opening.sits_out or self._why_not(opening):
            return self._sit_out(why)
        if (lags := self._lag()) is not None:
            self.starting_model.drop()
            return lags
        if why := self._budget.exhausted:  # not before: a late update may have been counted already
            return self._sit_out(why)
        if not opening.heard_start:
            return [SetTimer(self.start_timer, self._settings.waits.start)]
        return self._begin()

    def _start_did_not_come(self) -> list[Effect]:
        """Train from the own model without the start of the round; one that was never averaged is of no use."""
        if self.takes_again is not None:
            return self.take(self.takes_again)
        if self._held.current.round >= 0:
            return [self.train(), self._save()]
        return self.decline(text("the start of this round did not reach it"))

    def _begin(self) -> list[Effect]:
        """Train, once it is decided which model training starts from."""
        return self._decided(self.starting_model.begin(self._series.preemption.has_contributed))

    def _model_came(self, digest: Digest, params: Params) -> None:
        """The initiator's model is here."""

    def _decided(self, decision: StartDecision) -> list[Effect]:
        """Go on once it is decided from which model this node trains, or that it does not."""
        match decision.next:
            case AfterStart.WAIT:
                self.phase = Phase.FETCHING
                return decision.effects
            case AfterStart.TRAIN:
                return [self.train(), *decision.effects]
            case AfterStart.TRAIN_FROM_START:
                return [self.train(), self._save(), *decision.effects]
            case AfterStart.FAIL:
                self._fail(decision.why)
        self.phase = Phase.GATHERING
        return [*self.decline(decision.why), *decision.effects]

    def train(self) -> Train:
        """Request the local training of the round."""
        hyper = self._settings.round_hyper
        assert hyper is not None
        self.phase = Phase.TRAINING
        self._arrivals.clear()
        return Train(self.key, self._held.current.full, hyper)

    def _why_not(self, opening: Opening) -> str:
        """The reason why this node does not train in the round, for its peers; empty if it does."""
        if self._series.paused:
            return PAUSED
        unwilling = "" if opening.started_by(self._settings.my_id) else self._series.unwilling
        turn = self._settings.declaration.turn if self._settings.declaration else None
        return out_of_turn(turn, self.key.number) or unwilling

    def _sit_out(self, why: str) -> list[Effect]:
        self.starting_model.drop()
        return self.decline(why)

    def decline(self, reason: str, late: bool = False) -> list[Effect]:
        """Tell every peer that this node takes no part in the round, so that nobody waits for it."""
        mine = self.gathering.receive(DeclineReceived(self._settings.my_id, self.key, reason, late))
        return [self._refusal(self._peers.here, reason, late), *mine]

    def end_training(self) -> list[Effect]:
        """A person paused the job: the training under way ends at once, and the round goes on without it."""
        me, gathering = self._settings.my_id, self.gathering
        ended = self._staleness.give_up()
        is_awaited = bool(ended) and gathering.closed is None and me in gathering.missing
        match self.phase:
            case Phase.TRAINING:
                ended.append(CancelWork(self.key, at_once=True))
            case Phase.MEASURING if self._personalises:
                ended.append(CancelWork(self.key, at_once=True))  # its private parameters learn
        if self.phase in (Phase.FETCHING, Phase.TRAINING) and not self.taken:
            self.starting_model.drop()
            self.phase, is_awaited = Phase.GATHERING, True
        told = [self._tell("training_ended", ENDED)] if ended else []
        return [*ended, *(self.decline(PAUSED) if is_awaited else []), *told]

    def rest(self) -> list[Effect]:
        """Do not train in this round, because others are chosen; this node averages the updates that arrive."""
        assert self.choice is not None
        self.starting_model.drop()
        if self.key.initiator == self._settings.my_id:
            self._arrivals.started_for_others()
        some = names(sorted(self.chosen or ()))
        words = text(
            "this node is not chosen for the round: {count} of {number} nodes train: {names}",
            self.choice.take,
            len(self.choice.members),
            some,
        )
        return [*self.gathering.rest(), self._tell("sits_out", words)]

    # --- what it says to peers

    @property
    def own(self) -> Update | None:
        """This node's update of the round, once it may be sent."""
        return self._held.own_of(self.key)

    @property
    def _seconds(self) -> float | None:
        """The duration of this node's training in the round; None if it is not known."""
        return None if self.is_recorded else self.record.seconds.get("train") or None

    def _start(self, to: Iterable[PeerId], is_again: bool = False) -> Send:
        """Tell peers that this node started the round."""
        model = self._held.current
        fields: dict[str, Any] = {
            "base_round": model.round,
            "contributors": model.contributors,
            "digest": model.shared.digest,
            "restored_at": model.restored_at,
            "series": self._series.stopping.message(),
            "choice": self.choice,
            "run": self.started_in,
            "again": is_again or None,
        }
        message = self._settings.message(StartTraining, self.key, **fields)
        return Send(tuple(sorted(to)), message, model.shared)

    def _update(self, to: Iterable[PeerId], own: Update) -> list[Effect]:
        """Send peers this node's update, or offer it."""
        if not (to := tuple(sorted(to))):
            return []
        fields = {
            **own.stated(),
            "staleness": own.staleness or None,
            "memory": own.memory,
            "choice": self.choice,
            "run": self.started_in,
            "group": own.group or None,
        }
        digest = own.params.digest
        message = self._settings.message(ModelParams, self.key, **fields, seconds=self._seconds, digest=digest)
        return [Send(to, message, own.params)]

    def _refusal(self, to: Iterable[PeerId], reason: str, late: bool) -> Send:
        """Tell peers that this node takes no part, or that its training goes on and counts in a later round."""
        fields: dict[str, Any] = {"declined": reason[:500], "choice": self.choice, "late": late or None}
        return Send(tuple(sorted(to)), self._settings.message(ModelParams, self.key, examples=0, **fields))

    def _spread(self, own: Update) -> list[Effect]:
        """Send this node's update to all reachable peers."""
        return self._update(self._peers.here, own)

    def say_again(self, peer: PeerId) -> list[Effect]:
        """Send a peer that was not reachable the messages of the round that it may have missed."""
        word = self._inbox.take(peer, self.key) if self.phase in OPEN else None
        effects = [] if word is None else self.gathering.receive(word)
        me, own = self._settings.my_id, self.own
        has_start = self._peers.has_start(peer, self.key)
        is_open = self.phase is Phase.TRAINING or (self.phase is Phase.GATHERING and not has_start)
        if self.key.initiator == me and is_open:
            effects.append(self._start((peer,), is_again=True))
        if self._is_without(peer) and (self.chosen is None or peer in self.chosen):
            return effects  # with the updates it would average once more, and otherwise; it is told of the average
        if own is not None:
            effects += self._update((peer,), own)
        elif me in self.gathering.declined:
            reason, late = self.gathering.declined[me], me in self.gathering.late
            effects.append(self._refusal((peer,), reason, late))
        return effects

    # --- the own training

    def _trained(self, event: Trained) -> list[Effect]:
        """Handle the end of local training: send the update to all peers, and wait for theirs."""
        if self._staleness.is_of(event.key):
            return self._late_training_ended(event)
        if self.phase is not Phase.TRAINING or event.key != self.key:
            return []  # of a round that this node has left
        try:
            shared, private = self._held.split(event)
        except ParamsRefused as exc:  # never send what peers must refuse
            return self._training_failed(
                TrainingFailed(event.key, text("training gave unusable parameters: {reason}", exc))
            )
        if why := self._budget.charge(shared.digest, event.release):
            return self._training_failed(TrainingFailed(event.key, why, is_choice=True))
        me, used = self._settings.my_id, event.hyper or self._settings.round_hyper
        figures = (event.examples, event.labels, event.accuracy, self._held.digest)
        memory = self._held.state_memory(self._settings.shared_memory)
        own = Update(me, event.key, shared, *figures, contribution=event.contribution, memory=memory)
        self._held.learn(private)
        self.phase = Phase.GATHERING
        self.record.note_training(event, self._budget.record(event.release))
        self.record.used_hyper = used.fields() if used else None
        self._note_time(UpdateReceived(own, seconds=event.seconds))
        words = text(
            "trained on {count} examples; accuracy here {accuracy}", event.examples, f"{event.accuracy:.4f}"
        )
        return self._offer(own, self._tell("trained", words))

    def _offer(self, own: Update, told: Publish) -> list[Effect]:
        """This node's update is there: it counts here, and all peers hear of it."""
        self._held.offer(own)
        return [self._save(), *self._spread(own), *self.gathering.receive(UpdateReceived(own)), told]

    def _training_failed(self, event: TrainingFailed) -> list[Effect]:
        """Handle a failed local training: tell all peers, and continue as a node that only receives."""
        if self._staleness.is_of(event.key):
            return self._late_training_ended(event)
        if self.phase is not Phase.TRAINING or event.key != self.key:
            return []
        self.phase = Phase.GATHERING
        if event.is_choice:
            told = self._tell("sits_out", text("this node sits the round out: {reason}", event.reason))
            return [*self.decline(event.reason), told]
        self._fail(text("training failed in round {number}: {reason}", self.key.number, event.reason))
        return [
            *self.decline(text("training failed: {reason}", event.reason)),
            self._tell("training_failed", self.error),
        ]

    def _note_time(self, word: Word) -> None:
        """Record the duration of a node's training in this round, as the node states it."""
        hyper = self._settings.round_hyper
        if isinstance(word, DeclineReceived) or hyper is None:
            return
        self._peers.paces.note(word.update.peer, word.seconds, hyper.e)
        self.gathering.took(word.update.peer, word.seconds)

    # --- a training that goes on over rounds

    def _lag(self) -> list[Effect] | None:
        """The step of a slow node in a round that opens while it is still training; None for all others."""
        staleness, number, me = self._staleness, self.key.number, self._settings.my_id
        others = set(self.gathering.missing) - {me}
        if others and (late := staleness.take_late(number)) is not None:
            return [*self._offer_late(late), *self.train_on()]
        if staleness.behind is not None:
            if not others or staleness.is_awaited(number):
                return []  # all wait for it
            return self.decline(LATE, late=True)
        is_slow = self._peers.paces.is_slow(me, self._peers.here)
        if staleness.bound and others and is_slow and self._can_train_on:
            return [*self.decline(LATE, late=True), *self.train_on()]
        return None

    def train_on(self) -> list[Effect]:
        """Train without being waited for; not while the model of the round is being downloaded."""
        return self._staleness.begin(self.key) if self._can_train_on else []

    @property
    def _can_train_on(self) -> bool:
        return not (self.starting_model.is_due or self._budget.exhausted)

    def _late_training_ended(self, event: Trained | TrainingFailed) -> list[Effect]:
        """Handle the end of a late training: its update counts in the next round, or in this one if all wait for it."""
        me, gathering = self._settings.my_id, self.gathering
        is_awaited = self.phase is Phase.GATHERING and gathering.closed is None and me in gathering.missing
        late = self._staleness.end(event)
        if isinstance(late, str):
            self.error = text("training failed in round {number}: {reason}", event.key.number, late)
            declined = self.decline(text("training failed: {reason}", late)) if is_awaited else []
            return [*declined, self._tell("training_failed", self.error)]
        trained = late.event
        if (hyper := self._settings.round_hyper) is not None:
            self._peers.paces.note(me, trained.seconds, hyper.e)
        words = text(
            "trained on {count} examples since round {number}; accuracy here {accuracy}",
            trained.examples,
            event.key.number,
            f"{trained.accuracy:.4f}",
        )
        told = self._tell("trained", words)
        if is_awaited:
            return [*self._offer_late(late), told]
        self._staleness.keep(late)
        return [told]

    def _offer_late(self, late: Late) -> list[Effect]:
        """Send an update of an earlier round in this one."""
        if why := self._budget.charge(late.update.params.digest, late.event.release):
            return self.decline(why)
        own = late.counted_in(self.key, self._held.state_memory(self._settings.shared_memory))
        self.record.note_training(late.event, self._budget.record(late.event.release))
        self.gathering.took(self._settings.my_id, late.event.seconds)
        words = (
            text("this node's update is a round late and counts for less")
            if own.staleness == 1
            else text("this node's update is {count} rounds late and counts for less", own.staleness)
        )
        return self._offer(own, self._tell("late_update", words, staleness=own.staleness))

    # --- the updates of peers

    @classmethod
    def must_take(cls, event: UpdateReceived | UpdateOffered, whole: Collection[PeerId]) -> None:
        """Refuse an update whose form is of no use in such rounds, also before its round is open.

        Args:
            whole: the peers that know whole updates only.

        Raises:
            ParamsRefused: it is.
        """

    def update_received(self, event: UpdateReceived | UpdateOffered) -> list[Effect]:
        """Handle a peer's update of this round, or the offer of one.

        Raises:
            StaleRound: it arrived too late.
        """
        update, gathering = event.update, self.gathering
        if update.peer in gathering.updates or self.taken:
            return []  # a duplicate; the first one counts, or none is needed any more
        if gathering.closed is not None or gathering.has_passed(update.peer):
            raise StaleRound(update.key.number, self.key.number)
        self._note_time(event)
        effects = [*gathering.receive(event), self._save(kept_update(event))]
        return effects if isinstance(event, UpdateOffered) else [*effects, gathering.counted(update)]

    def declined(self, event: DeclineReceived) -> list[Effect]:
        """Handle a peer's refusal to take part in this round."""
        if self.is_past:
            return []
        told = self._tell(
            "peer_declined", text("{peer} takes no part: {reason}", event.peer, event.reason), peer=event.peer
        )
        is_open = self.gathering.closed is None
        effects = self.gathering.receive(event)
        # After a restart this node would wait for a peer that need not repeat its refusal.
        return [*effects, *([self._save()] if is_open else []), told]

    def _refused(self, event: SendRefused) -> list[Effect]:
        """Handle an error with which a peer answered a message of this node."""
        if event.error == NotComparable.code:
            return []  # a peer that was told of the average again has not got so far, or is further
        number, me = self.key.number, self._settings.my_id
        # This node may have left its start since, for the same round of another one, of which only an update told.
        is_left = self.listening and event.key != self.key and event.key == RoundKey(number, me)
        if self.is_past or (event.key != self.key and not is_left):
            return []
        words = text("{peer} refused {path}: {reason}", event.peer, event.path, event.reason)
        told = self._tell("refused", words, peer=event.peer, status=event.status)
        if event.error == RoundLost.code:  # an update of the other start may have come before this node's
            for sign in self._inbox.signs:
                if key_of(sign).number == number and key_of(sign).beats(self.key):
                    self._series.propose(Opening.told_by(sign))
        self.note_refusal(event)
        if not is_left and _takes_no_part(event):
            return [*self.gathering.receive(DeclineReceived(event.peer, event.key, event.reason)), told]
        if (current := event.current) is None or not self._is_past_it(event, current):
            return [told]
        return [*self.ahead.refused(event.peer, current), told]

    def note_refusal(self, event: SendRefused) -> None:
        """Note that a peer does not use this node's update, also if it says so only after the average."""
        if event.key != self.key or not _leaves_out(event):
            return
        self.gathering.refused[event.peer] = event.reason
        if self.gathering.closed is not None and not self.is_recorded:
            self._note_left_out()

    def _is_past_it(self, event: SendRefused, current: int) -> bool:
        """Whether a peer answered this node's start of a round that it is past the round, or past its average.

        Its answers from before this node lost its memory may have ended the round here already.
        """
        is_start = event.key.initiator == self._settings.my_id and event.path == StartTraining.path
        is_ahead = event.error == StaleRound.code and self.key.number <= current < LAST_ROUND
        last = self._history.last
        had_no_average = last is not None and last.key == self.key and last.digest is None
        return is_start and is_ahead and (self.phase in GATHERING or (self.is_over and had_no_average))

    def _fetched(self, event: Fetched | FetchFailed) -> list[Effect]:
        """Handle the end of a download: the start of the round, an update, or a model of the exchange."""
        if event.key != self.key:
            return []
        start = self.starting_model.awaited
        if self.phase is Phase.FETCHING and start is not None and start.digest == event.digest:
            return self._decided(self.starting_model.fetched(event))
        if self.phase is Phase.EXCHANGING:
            return self.compare(event)
        return self.gathering.receive(event)

    # --- the average

    @property
    def is_gathered(self) -> bool:
        """Whether all awaited updates have arrived, so that the average is next."""
        return self.phase in GATHERING and self.gathering.closed is not None and not self.taken

    def _closing_words(self) -> str:
        return closing_words(self.gathering, len(self.choice.members) if self.choice else 0)

    @property
    def counted(self) -> Set[PeerId]:
        """Whose updates count, as far as this node knows."""
        return self.gathering.updates.keys()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to average."""
        return not self.gathering.updates

    def average(self) -> list[Effect]:
        """End gathering: the average is computed, or there is nothing to average."""
        gathering, record = self.gathering, self.record
        record.outcome = self._closing_words()
        record.chosen = None if self.chosen is None else tuple(sorted(self.chosen))
        record.missing = tuple(gathering.missing)
        self._note_left_out()
        for peer in gathering.missing:
            self._peers.paces.missed(peer)
        self._note_silence()
        # So that who is in a later round has a part in the next one.
        moved = self.ahead.start_after()
        if self.is_empty:
            return [*moved, *self.finish()]
        self.phase = Phase.AVERAGING
        return moved

    def _note_silence(self) -> None:
        """Note who let this node wait in vain, and who did not."""
        gathering = self.gathering
        for peer in (*gathering.updates, *gathering.declined):
            self._peers.updates.spoke(peer)
        if gathering.closed is Closing.TIMER:
            self._peers.updates.said_nothing(gathering.missing)
        elif gathering.closed is Closing.COMPLETE:
            self._peers.updates.all_spoke()

    def _averaged(self, event: Averaged | AveragingFailed) -> list[Effect]:
        """Handle the average: it becomes the model, and is measured unless the next round is waiting."""
        if self.phase is not Phase.AVERAGING or event.key != self.key:
            return []
        self._catch_up()
        gathering, record = self.gathering, self.record
        if isinstance(event, AveragingFailed):
            self._fail(text("averaging failed: {reason}", event.reason))
            record.outcome = text("{error}; the model stays as it was", self.error)
            return self.finish()
        contributors = tuple(sorted(gathering.updates.keys() - event.refused.keys()))
        record.contributions = contributions_of(gathering.updates[peer] for peer in contributors)
        self._note_left_out(event.refused)
        gathering.let_go()
        told = self._history.note_average(record, event, gathering)
        # An average that others need not have made counts for none: nobody adopts it.
        counts = len(contributors) if event.is_common else 0
        has_mine = self._settings.my_id in contributors
        left = self._held.average(event.params, self.key, counts, event.remembered, has_mine)
        record.contributors, record.digest = contributors, event.params.digest
        record.seconds["average"] = event.seconds
        told.append(self._tell("averaged", record.outcome, digest=record.digest, contributors=list(contributors)))
        if left is not None:
            words = text(
                "going back to the model {digest} ends here: others made an average without it", left[:10]
            )
            told.append(self._tell("roll_back_ended", words, digest=left))
        has_next = self._series.openable(self.key) is not None
        if self._staleness.behind is not None and not has_next:  # measuring would wait for the training
            return [self._save(), *told, *self.finish()]
        self.phase = Phase.MEASURING
        return [self._save(), *([] if has_next else [self.measure()]), *told]

    def _note_left_out(self, screened: Mapping[PeerId, str] = MappingProxyType({})) -> None:
        """Record whose updates are not in the average, and whether this node was alone.

        Args:
            screened: whose updates came and do not count, each with the reason.
        """
        declared = self._settings.declaration
        by_turns = declared is not None and declared.turn is not None
        self.record.note_left_out(self.gathering, screened, by_turns=by_turns)

    def _sum_spoilt(self, event: SumSpoilt) -> list[Effect]:
        """Compute the sum again without updates that do not count and were already folded into it."""
        if self.phase is not Phase.AVERAGING or event.key != self.key:
            return []
        assert self.gathering.again is None
        refused = names(sorted(event.refused))
        words = text(
            "the sum of this round holds what does not count, of {peers}; the other updates are fetched again",
            refused,
        )
        own = self._held.own_of(self.key)
        again = self.gathering.fold_again(event.refused.keys(), own.params if own else None)
        return [*again, self._tell("update_refused", words)]

    def _catch_up(self) -> None:
        """Catch up with the mesh if updates of a newer round arrived while averaging."""
        for sign in self._inbox.leading(self.key.number, self._peers.here):
            self._series.propose(Opening.told_by(sign))

    # --- the average of the others, without this node

    @property
    def taken(self) -> CommonAverage | None:
        """The average of most others, if this node takes that instead of averaging itself."""
        return self._catching_up.taken if self._catching_up else None

    def without_me(self, peers: Set[PeerId]) -> Set[PeerId]:
        """Those of these peers whose average of this round, if they have made it, is without this node's update."""
        gathering, me = self.gathering, self._settings.my_id
        if self.taken or not (self.is_open_to_others or self.ended_without_average):
            return frozenset()
        return peers & gathering.refused.keys() if me in gathering.updates else peers

    @property
    def is_open_to_others(self) -> bool:
        """Whether the average of the others, made without this node, may take the place of the own one."""
        return self.phase in GATHERING

    @property
    def is_taking(self) -> bool:
        """Whether the average of most others is on its way, or being measured."""
        return self.taken is not None and self.phase in (Phase.FETCHING, Phase.MEASURING)

    @property
    def ended_without_average(self) -> bool:
        """Whether the round is over here, and nothing was averaged, because no update came."""
        last = self._history.last
        return self.phase is Phase.IDLE and last is not None and last.key == self.key and last.digest is None

    def nobody_joined(self, common: CommonAverage) -> bool:
        """Whether a person asked for this round here, and nobody joined it, because the others have that average."""
        me = self._settings.my_id
        is_asked = self.key.initiator == me and self.phase in GATHERING and not self.record.why
        return is_asked and common.key != self.key and not self.gathering.updates.keys() - {me}

    def take(self, common: CommonAverage, is_new: bool = False) -> list[Effect]:
        """Take the average that most others have made without this node; a training under way ends.

        Args:
            is_new: whether the round opens here for this.
        """
        effects: list[Effect] = []
        if is_new:
            effects += self._staleness.enter_round(self.key.number)
            effects += self._series.stopping.enter_round(self.key, None, None)
        me, gathering = self._settings.my_id, self.gathering
        others = self._peers.here - common.peers
        if self.ended_without_average and self._history.last is not None:
            self.record, self.is_recorded, others = self._history.last, False, set()
        if self.phase is Phase.TRAINING or gathering.folded:
            effects.append(CancelWork(self.key))
        words = text("it takes the average that others have made of this round")
        if others and me not in (*gathering.updates, *gathering.declined):
            effects.append(self._refusal(others, words, late=False))
        effects += [*gathering.abandon(), CancelTimer(self.start_timer), *self.ahead.forget()]
        self.starting_model.drop()
        self.phase = Phase.FETCHING
        self._catching_up = CatchingUp(self._parts, self.key, common)
        return [*effects, *self._downloaded(self._catching_up, self._catching_up.start()), self._save()]

    def _downloaded(self, catching_up: CatchingUp, effects: list[Effect]) -> list[Effect]:
        """Go on after an event of the download: hold the average when it is here, or keep the own model."""
        if (reason := catching_up.failure) is not None:
            self._fail(text("the average that others have made could not be fetched: {reason}", reason))
            self.record.outcome = text("{error}; the model stays as it was", self.error)
            return [*effects, *self.finish()]
        if not (told := catching_up.hold(self.record)):
            return effects
        self.phase = Phase.MEASURING
        has_next = self._series.openable(self.key) is not None
        return [*effects, self._save(), *([] if has_next else [self.measure()]), *told]

    def met(self, peer: PeerId) -> list[Effect]:
        """Handle a reachable peer: tell it of the average of the round, if it has no part in it."""
        accuracy = self._held.accuracy
        again = self.takes_again
        if self._catching_up is not None and self.is_taking:
            return self._catching_up.met(peer)
        if again is not None and self.taken is None and self.listening:
            return self.take(again) if peer in again.peers else []
        return [] if accuracy is None or not self._is_without(peer) else [self._claim((peer,), accuracy)]

    @property
    def _has_common(self) -> bool:
        """Whether the round is over here with an average of several nodes."""
        held, is_over = self._held, self.phase in self._states_average
        is_common = held.current.contributors >= LEAST_PEERS and held.current.round == self.key.number
        return is_over and is_common and not held.rolled_back

    def _is_without(self, peer: PeerId) -> bool:
        """Whether the round is over here with an average of several nodes, in which a peer has no part."""
        record = self.open_record or self._history.last
        if not self._has_common or peer in self.gathering.declined:
            return False
        return record is None or record.key != self.key or peer not in (*record.contributors, record.taken_from)

    def _claim(self, to: Collection[PeerId], accuracy: float) -> Send:
        """State this node's model and its accuracy to peers."""
        model = self._held.current
        fields = {"accuracy": accuracy, "digest": model.shared.digest, "contributors": model.contributors}
        stopping = self._series.stopping
        fields |= {"report": stopping.report(), "measured": stopping.evaluation.own}
        message = self._settings.message(Accuracy, self.key, **fields)
        return Send(tuple(sorted(to)), message, model.shared)

    # --- the comparison

    def measure(self) -> Effect:
        """Measure the average.

        The wait for the peers' claims begins afterwards, and so does theirs, so there is no hurry.
        """
        learns = self._personalises and not self._series.paused
        hyper, validates = self._settings.round_hyper if learns else None, self._series.stopping.validates
        return self._held.measure(self.key, hyper, validates=validates)

    def _measured(self, event: Evaluated | EvaluationFailed) -> list[Effect]:
        """Handle a measurement: of the average, whose accuracy opens the exchange, or of a peer's model."""
        if event.key != self.key:
            return []
        if self.phase is Phase.EXCHANGING:
            return self.compare(event)
        if self.phase is Phase.FETCHING and self.starting_model.is_compared:
            return self._decided(self.starting_model.measured(event))
        if self.phase is not Phase.MEASURING or event.digest != self._held.digest:
            return []
        if isinstance(event, EvaluationFailed):
            self._fail(text("the average could not be measured: {reason}", event.reason))
            return [*self.finish(), self._tell("measuring_failed", self.error)]
        held, record, stopping = self._held, self.record, self._series.stopping
        record.post_accuracy, record.metrics["after"] = event.accuracy, event.metrics
        held.measured(event.accuracy, event.private)
        learnt = [] if event.private is None else [self._save()]
        measured, before = measured_in(event, self._settings.rules), record.metrics.get("before", {})
        stopping.measured(event.accuracy, event.metrics, before, measured, event.validation)
        self.phase = Phase.EXCHANGING
        expected = set() if self.taken else self._peers.here - self.gathering.late - self._absent
        self.comparison = Comparison(self._parts, self.key, self.gathering, record, expected, adopts=self._adopts)
        send: list[Effect] = [self._claim(self._peers.here, event.accuracy)] if self._peers.here else []
        told = self._tell(
            "measured",
            text("accuracy after averaging {accuracy}", f"{event.accuracy:.4f}"),
            accuracy=event.accuracy,
        )
        return [*learnt, *self.comparison.start(), *send, told]

    @property
    def _absent(self) -> set[PeerId]:
        """Who was waited for in vain, and never has sent an update: it has averaged nothing that it could claim."""
        if self.gathering.closed is not Closing.TIMER:
            return set()
        return {peer for peer in self.gathering.missing if not self._peers.updates.has_spoken(peer)}

    def compare(self, event: Event) -> list[Effect]:
        """Pass an event to the exchange of accuracies."""
        return self.comparison.receive(event) if self.comparison and self.phase is Phase.EXCHANGING else []

    @property
    def is_compared(self) -> bool:
        """Whether the exchange is over, and the round with it."""
        return self.phase is Phase.EXCHANGING and self.comparison is not None and self.comparison.is_over

    # --- the end

    def finish(self) -> list[Effect]:
        """Close the round."""
        record = self.record
        cancelled = self.leave()
        self.phase, self.comparison = Phase.IDLE, None
        result = record.words(self._held.accuracy)
        told = self._judge()
        long = ("contributions", "weighed", "left_out", "alone", "mesh")
        shown = {name: value for name, value in record.view().items() if name not in long}
        rest = self._settings.waits.rest
        timer = [SetTimer(RESTED, rest)] if rest is not None else []
        return [*cancelled, self._save(), self._tell("round_closed", result, **shown), *told, *timer]

    def leave(self, successor: RoundKey | None = None) -> list[Effect]:
        """Stop the work of the round.

        Args:
            successor: the round that opens instead; None if this one is closed. A round with the same number replaces
                this one: of a round that was started twice at once, only the start that counts is recorded.
        """
        is_replaced = successor is not None and successor.number == self.key.number
        effects: list[Effect] = []
        is_folded = bool(self.gathering.folded) and self.gathering.closed is None
        is_personalising = self.phase is Phase.MEASURING and self._personalises
        if self.phase is Phase.TRAINING and successor is not None and not is_replaced:
            effects += self._staleness.leave(self.key)
        elif self.phase is Phase.TRAINING or is_folded or is_personalising:
            effects.append(CancelWork(self.key))
        if not self.is_past:
            effects += [CancelTimer(self.gathering.timer), CancelTimer(self.start_timer)]
        effects += self.ahead.forget()
        effects += self._catching_up.cancel() if self._catching_up else []
        effects += self.comparison.cancel() if self.comparison else []
        if self.is_recorded:
            return effects
        if is_replaced:
            self._staleness.take_back(self.record, self.key.number)
            return effects
        why = "closed"
        if successor is not None:
            why = text("cut short: {peer} started round {number}", successor.initiator, successor.number)
        self._remember(why)
        return effects

    @property
    def _personalises(self) -> bool:
        """Whether private parameters are trained on each average, in the step that measures it."""
        return self._settings.declaration is not None and self._settings.declaration.personalises

    # --- restarts

    def kept(self) -> Mapping[str, Any]:
        """The state that is saved for a restart, as plain JSON data."""
        choice = self.choice.model_dump(mode="json") if self.choice else None
        kept = {**super().kept(), "started_in": self.started_in, "choice": choice}
        return {**kept, "taking": self.taken.kept()} if self.taken is not None and self.is_taking else kept

    def measure_again(self) -> list[Effect]:
        """Measure the average again that an earlier run of this node made."""
        self.phase, self.is_recorded = Phase.MEASURING, False
        return [self.measure()]

    def end_by_restart(self) -> None:
        """End a round that cannot go on after a restart."""
        if not self.is_recorded:
            self._remember(text("ended by a restart of this node"))


def kept_update(event: UpdateReceived | UpdateOffered) -> KeptUpdate:
    """The update in the form that is saved before it is confirmed to the peer."""
    return KeptUpdate(event.update, event.digest if isinstance(event, UpdateOffered) else None)


def _leaves_out(event: SendRefused) -> bool:
    """Whether the peer will not have this node's update in its average."""
    if event.path == ModelParams.path and event.error in (StaleRound.code, ContributionRefused.code):
        return True
    return event.path != Accuracy.path and _takes_no_part(event)


def _takes_no_part(event: SendRefused) -> bool:
    if event.error == RoundAhead.code:  # one of the two is in a round that the other one does not follow
        return True
    if event.path != StartTraining.path:
        # A node that cannot use our parameters trains something else: we could not use its own.
        return event.status == 404 or event.error == ParamsRefused.code
    return event.status in (404, 413, 422)
