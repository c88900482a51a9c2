"""A job whose nodes hold different columns of the same rows: they train a split network together, epoch by epoch.

Who holds what follows from the data of each node. A round is one epoch; its initiator asks all peers, so a node that
comes later, or has other columns now, is seen. All models are private: no peer can download one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any

from flnet.algorithms.vertical.own_model import gain
from flnet.errors import (
    BatchRefused,
    InvalidMessage,
    JobBusy,
    NotComparable,
    OtherRounds,
    ParamsRefused,
    RoundAhead,
)
from flnet.params.params import Digest, PeerId
from flnet.protocol.effects import Answer, Effect
from flnet.protocol.events import (
    Averaged,
    AveragingFailed,
    ClaimAnswered,
    ClaimReceived,
    DeclineReceived,
    Evaluated,
    EvaluationFailed,
    Event,
    Fetched,
    FetchFailed,
    HyperParamsEdited,
    OutputsComputed,
    PeerLost,
    PeerSeen,
    PredictionAsked,
    PredictionComputed,
    PredictionNotComputed,
    Restored,
    RolledBack,
    RoundAnswered,
    RoundAsked,
    RoundTriggered,
    SendFailed,
    SendRefused,
    SumSpoilt,
    TimerFired,
    Trained,
    TrainingAsked,
    TrainingFailed,
    UpdateOffered,
    UpdateReceived,
    VersionAnswered,
    VersionReceived,
    VerticalDelivered,
    VerticalDone,
    VerticalFailed,
    VerticalReceived,
)
from flnet.protocol.messages import LAST_ROUND, Triggered
from flnet.protocol.updates import RoundKey
from flnet.protocol.vertical import SPLIT, AbandonPart, OfferPart, PositionPart, PredictPart, VerticalReply
from flnet.rounds.base_job import BaseJob
from flnet.rounds.history import RoundRecord, figures_of
from flnet.rounds.numbering import furthest
from flnet.rounds.settings import JobSettings
from flnet.rounds.steps import VERTICAL, Phase
from flnet.rounds.stopping import TIMERS
from flnet.rounds.vertical_models import VerticalModels, defences_of
from flnet.rounds.vertical_predictions import TIMER as PREDICTION
from flnet.rounds.vertical_predictions import VerticalPredictions, is_prediction
from flnet.rounds.vertical_round import UNTOLD, VerticalRound
from flnet.rounds.view import JobView, MetricsView
from flnet.text import text

HERE = text("nodes hold different columns of the same rows in this job; there are no updates to average")
MOST_TRIES = 3  # in a row, of an epoch that is given up because a holder does not answer


class VerticalJob(BaseJob[VerticalRound]):
    """A vertical job.

    Attributes:
        models: what this node keeps between epochs.
        predictions: of rows by id, between epochs.
    """

    table: Mapping[Phase, Mapping[type, Set[Phase]]] = VERTICAL
    promises_nothing = text("FLNET_PRIVACY does not protect what nodes with different columns send each other")

    def __init__(self, settings: JobSettings) -> None:
        super().__init__(settings)
        self.models = VerticalModels()
        run = _name(settings.run or settings.my_id)[-48:]
        self.predictions = VerticalPredictions(self._parts, lambda: self.models, run)
        self._sessions = self._tries = 0
        self._ended = ("", False)  # the last session, and whether its epoch has ended
        self._left_behind: Set[PeerId] = frozenset()  # who may not know it
        # The epoch whose end this node, its initiator, did not hear before a restart.
        self._trained: int | None = None
        self._next_offer: VerticalReceived | None = None  # of another holder, while the epoch is about to end here

    def _view_of_holders(self) -> Mapping[str, Any]:
        """What each holder has, and how far the open epoch is."""
        models, last = self.models, self.history.last_result
        holders = models.holders or self._own_position()
        rows = [
            {
                "peer": peer,
                "columns": position.columns,
                "names": list(position.names),
                "has_label": position.has_label,
                "holds_key": not position.has_data,
                "rows": position.rows,
                "defences": defences_of(position),
            }
            for peer, position in sorted(holders.items())
        ]
        stage = self.round.vertical_view() if self.round else {"stage": "", "step": 0, "steps": 0}
        figures = last.metrics["after"] if last else {}
        declared = self.settings.declaration
        compared = models.compared
        own = {} if compared is None else {"own": compared[1], "gain": gain(*compared)}
        return {
            "holders": rows,
            "method": declared.offers["vertical"].get("method", SPLIT) if declared else "",
            "hides_matches": bool(declared and declared.offers["vertical"].get("hidesMatches")),
            "warnings": list(models.warnings),
            "common": models.count,
            "epochs": models.closed + 1,
            "loss": figures.get("loss"),
            "accuracy": last.post_accuracy if last else None,
            "auc": figures.get("auc"),
            "keeps_score": not holders[me].tells_score if (me := self.settings.my_id) in holders else False,
            **stage,
            **own,
            "predicts": not (refused := self.predictions.refused),
            "predictions_refused": refused,
        }

    def _own_position(self) -> Mapping[str, PositionPart]:
        """What this node holds, before others have been asked; empty as long as it is not known."""
        declared = self.settings.declaration
        if declared is None:
            return {}
        stated = {name: value for name, value in declared.offers["vertical"].items() if name not in UNTOLD}
        return {self.settings.my_id: PositionPart(**stated, number=self.number)}

    def view(self) -> JobView:
        """The job as people see it, without what is compared or averaged elsewhere: here, each node has its part."""
        is_loaded = self.settings.declaration is not None
        shown: dict[str, Any] = {"merging_rule": "", "rule_needs": 1, "digest": None, "schema_digest": None}
        if (last := self.history.last_result) is not None:  # rather than an attempt that was given up after it
            figures = ("figures_round", "pre_fedavg_accuracy", "post_fedavg_accuracy")
            shown |= {name: value for name, value in figures_of(last).items() if name in figures}
            shown["metrics"] = MetricsView.model_validate(last.metrics)
        if self.phase is Phase.IDLE and self.series.left > 0:
            shown["waiting_for"] = sorted(self.models.holders.keys() - {*self.peers.here, self.settings.my_id})
        return super().view().model_copy(update={**shown, "agreement": {} if is_loaded else None})

    def obstacles_with(self, theirs: Mapping[str, str], schema: Digest | None) -> str:
        """Nothing needs to be equal: what holders need of each other is checked when an epoch begins."""
        return ""

    # --- events

    def _react(self, event: Event) -> list[Effect]:
        match event:
            case RoundTriggered():
                return self._triggered(event)
            case VerticalReceived():
                return [Answer(self._reply(event)), *self._received(event)]
            case PredictionAsked() | OutputsComputed() | PredictionComputed() | PredictionNotComputed():
                return self._about_predictions(event)
            case VerticalDelivered() if self.round is None or event.session != self.round.session:
                return self.predictions.delivered(event)
            case SendFailed() | SendRefused() if self.predictions.knows(event.key.initiator, event.session):
                return self.predictions.not_sent(event)
            case VerticalDelivered() | VerticalDone() | VerticalFailed() | SendFailed() | SendRefused():
                return self._to_round(event)
            case RolledBack():
                raise InvalidMessage(text("a node cannot go back to a model alone in this job"))
            case RoundAsked():
                raise OtherRounds(HERE)
            case TrainingAsked() | UpdateReceived() | UpdateOffered() | DeclineReceived() | VersionReceived():
                self._must_have_model()
                raise OtherRounds(HERE)
            case ClaimReceived():
                raise NotComparable(HERE)
            case PeerSeen(peer):
                self.peers.met(peer)
                return []
            case PeerLost(peer):
                self.peers.lost(peer)
                return [*self.predictions.lost(event), *self._to_round(event)]
            case TimerFired(name) if name.startswith(PREDICTION):
                return self.predictions.timer_fired(name)
            case TimerFired(name) if name not in TIMERS:
                return self._to_round(event)
        return [] if isinstance(event, _OTHERS) else self._about_the_node(event)

    def _about_predictions(
        self, event: PredictionAsked | OutputsComputed | PredictionComputed | PredictionNotComputed
    ) -> list[Effect]:
        match event:
            case PredictionAsked():
                self._must_be_idle()
                return self.predictions.ask(event)
            case OutputsComputed():
                return self.predictions.outputs_computed(event)
            case PredictionComputed():
                return self.predictions.computed(event)
            case PredictionNotComputed():
                return self.predictions.not_computed(event)

    def _must_be_idle(self) -> None:
        """Refuse a prediction while the models may change.

        Raises:
            JobBusy: an epoch is open here.
            NotReady, NoData: the trainer is not loaded.
        """
        self._must_have_model()
        if self.busy:
            me = self.settings.my_id
            raise JobBusy(
                text("epoch {number} is {state} at {peer}; ask when it is over", self.number, self.phase.words, me)
            )

    def _next_step(self) -> Callable[[], list[Effect]] | None:
        if self.round is not None and self.round.is_over and self._ended[0] != self.round.session:
            return self._note_end
        if self.arrivals.waiting is not None and self.phase in (Phase.IDLE, Phase.NO_DATA):
            return self._renew
        if self.phase is not Phase.IDLE:
            return None
        if self._next_offer is not None:
            return self._take_offer
        if self.series.can_begin:
            return self._begin_asked
        is_next = self.series.left > 0 and not self.series.is_held_up and self._all_here
        return self._begin_next if is_next else None

    @property
    def _all_here(self) -> bool:
        """Whether all holders of the last epoch are reachable."""
        return self.models.holders.keys() <= {*self.peers.here, self.settings.my_id}

    def _figures(self) -> Mapping[str, Any]:
        if self.held.model is not None and self.held.current.private is not self.models.params:
            self.held.learn(self.models.params)
        return {**super()._figures(), "vertical": self.models.kept()}

    def _edited(self, event: HyperParamsEdited) -> list[Effect]:
        """Change learning rate or batch size.

        Raises:
            InvalidMessage: several epochs in a round, or an aggregation rule, were asked for.
        """
        if event.merging:
            self._must_fit(event.merging)
        if event.changes.get("e", 1) != 1:
            raise InvalidMessage(
                text("a round of this job is one epoch; ask for {count} rounds instead", event.changes["e"])
            )
        return super()._edited(event)

    def _must_fit(self, rule: str) -> None:
        """Refuse any aggregation rule.

        Raises:
            InvalidMessage: always.
        """
        raise InvalidMessage(text("this job has no aggregation rule: each node trains its own part of the model"))

    # --- an epoch begins

    def _triggered(self, event: RoundTriggered) -> list[Effect]:
        """A person, or a schedule, asks for epochs.

        Raises:
            JobBusy: not now.
            InvalidMessage: a goal, or several epochs in a round, were asked for.
        """
        if event.until is not None:
            raise InvalidMessage(text("this job takes a number of rounds; a goal is not possible yet"))
        if event.hyper is not None and event.hyper.e != 1:
            raise InvalidMessage(
                text("a round of this job is one epoch; ask for {count} rounds instead", event.hyper.e)
            )
        if self.phase is Phase.LOADING and not event.why:
            return self._put_off(event, self.number + 1)
        self._must_be_free(
            text("epoch {number} is still {state} here; ask again when it is over", self.number, self.phase.words)
        )
        number = self.number + 1
        scheduled = text("the schedule starts epoch {number}: {reason}", number, event.why)
        told = self._ask_for(event, number, scheduled)
        self._tries = 0
        begins = self._begin(event.why, afresh=event.new_numbering)
        return [Answer(Triggered(trainer_id=self.settings.trainer, round=number)), *told, *begins]

    def _begin(self, why: str = "", *, afresh: bool = False) -> list[Effect]:
        self.settings.use(self.settings.hyper)
        self._trouble = None
        self._sessions += 1
        session = f"{self.settings.run or self.settings.my_id}.{self._sessions}"
        key = RoundKey(self.number + 1, self.settings.my_id)
        parts, models, trained = self._parts, self.models, self._trained
        self.round = VerticalRound(parts, models, key, _name(session), afresh=afresh, why=why, trained=trained)
        return self.round.start()

    def _begin_next(self) -> list[Effect]:
        """Begin the next of the epochs that this node was asked for."""
        if self.number >= LAST_ROUND:
            self.series.give_up()
            return []
        self.series.count_down()
        return self._begin()

    def _note_end(self) -> list[Effect]:
        """An epoch is over: decide what becomes of the rest of the series."""
        round = self.round
        assert round is not None
        self._ended, self._left_behind = (round.session, round.has_ended), frozenset(round.left_behind)
        if round.has_ended:
            self._tries, self._trained = 0, None
        if round.has_ended or not round.is_mine or not round.session:
            return []
        self._tries += 1
        if round.tries_again and self._tries < MOST_TRIES:
            self.series.restart_round()
            return [self.save()]
        self._tries = 0
        return self._give_up_series(self.series.left, round.error or round.record.outcome)

    # --- what peers say

    def _reply(self, event: VerticalReceived) -> VerticalReply:
        return VerticalReply(i_am=self.settings.me, session=event.session, round=event.key.number)

    def _received(self, event: VerticalReceived) -> list[Effect]:
        """Take a message of a holder.

        Raises:
            PeerError: it is refused and nothing has changed.
        """
        self._must_have_model()
        if is_prediction(event.parts):
            if isinstance(event.parts[0], PredictPart):
                self._must_be_idle()
            return self.predictions.receive(event)
        round = self.round
        if round is not None and not round.is_over and event.session == round.session:
            return round.receive(event)
        if isinstance(event.parts[0], OfferPart) and event.number == 0:
            return self._offered(event)
        is_over = (event.session, True) == self._ended and event.peer not in self._left_behind
        if isinstance(event.parts[0], AbandonPart) or is_over:
            return []  # it is over here already
        raise BatchRefused(text("{peer} is not in this epoch (any more)", self.settings.my_id))

    def _offered(self, event: VerticalReceived) -> list[Effect]:
        """A peer asks what this node holds.

        Raises:
            RoundAhead: the number of its epoch is one that nobody can have reached.
            ParamsRefused: its hyper-parameters ask for too much.
            JobBusy: it takes part in no other epoch now.
        """
        if event.key.number > furthest(self.number):
            raise RoundAhead(event.key.number, self.number)
        if why := self.settings.too_much(event.hyper):
            raise ParamsRefused(why)
        self._must_not_be_paused()
        if self.series.unwilling:
            raise JobBusy(self.series.unwilling)
        round = self.round
        if event.session == self._ended[0] and (round is None or round.session == event.session):
            return []  # repeated
        if round is None or round.is_over:
            return self._join(event)
        is_again = event.peer == round.key.initiator and _is_later(event.session, round.session)
        if round.begin is None and (event.peer < round.key.initiator or is_again):
            left = round.yields(event.peer)
            if round.is_mine:
                self.series.restart_round()
            self._ended = (round.session, False)
            return [*left, *self._join(event)]
        if round.begin is not None and event.peer in round.others:
            self._next_offer = event
            return round.ask(event.peer)
        raise JobBusy(text("{trainer} is in epoch {number} here", self.settings.trainer, self.number))

    def _take_offer(self) -> list[Effect]:
        event, self._next_offer = self._next_offer, None
        return self._join(event) if event is not None and event.peer in self.peers.here else []

    def _join(self, event: VerticalReceived) -> list[Effect]:
        offer = event.parts[0]
        assert isinstance(offer, OfferPart)
        key = RoundKey(max(event.key.number, self.number + 1), event.peer)
        self.settings.use(event.hyper)
        self._trouble = None
        self.round = VerticalRound(self._parts, self.models, key, event.session, afresh=offer.afresh)
        return self.round.answer(event.peer)

    # --- the trainer, and restarts

    def _ids(self) -> str:
        declared = self.settings.declaration
        return str(declared.offers["vertical"]["ids"]) if declared else ""

    def _renew(self) -> list[Effect]:
        effects = super()._renew()
        self.models.declare(self._ids())
        return effects

    def _restore(self, event: Restored) -> None:
        models = VerticalModels.read(event.snapshot.get("vertical"), event.private)
        super()._restore(event)
        self.models = models
        if self.round is not None:
            self.round = self._past(self.round.key, self.round.open_record, event.snapshot)

    def _past(self, key: RoundKey, record: RoundRecord | None, figures: Mapping[str, Any]) -> VerticalRound:
        return VerticalRound.past(self._parts, self.models, key, record)

    def _go_on(self) -> list[Effect]:
        """The trainer is loaded: an epoch that was open before a restart is over, and the series goes on."""
        before, past = self.snapshot.take_before(), self.round
        self.models.declare(self._ids())
        if before is None or past is None or past.open_record is None:
            return []
        phase = Phase(before.snapshot["phase"])
        has_ended = bool(past.record.contributors)  # whoever has not heard so can go on from its end
        if has_ended:
            past.record.outcome = text("epoch {epoch} of the models has ended", self.models.closed)
        else:
            past.record.outcome = text("abandoned: {reason}", text("{peer} was restarted", self.settings.my_id))
        past.record.error = None
        self.history.add(past.record)
        past.drop_record()
        if has_ended or not past.is_mine or phase not in (Phase.ALIGNING, Phase.TRAINING) or self.series.paused:
            return []
        newest = max(self.models.ended, default=-1)
        self._trained = newest if phase is Phase.TRAINING and newest > self.models.closed else None
        if self.models.holders:
            self.series.restart_round()
            return []
        # Nobody knows yet who the holders are: with those who happen to be reachable first, others would be left out.
        return self._give_up_series(self.series.left + 1, text("{peer} was restarted", self.settings.my_id))

    def _give_up_series(self, left: int, reason: str) -> list[Effect]:
        """Leave out the epochs that are left of a series, and say why."""
        self.series.give_up()
        self._trained = None
        words = text("{count} further epochs are left out: {reason}", left, reason)
        return [self.save(), *([self.tell("series_stopped", words, left_out=left)] if left else [])]


_OTHERS = (
    *(VersionAnswered, RoundAnswered, ClaimAnswered, Fetched, FetchFailed, Averaged, AveragingFailed, SumSpoilt),
    *(Trained, TrainingFailed, Evaluated, EvaluationFailed),
)


def _is_later(session: str, before: str) -> bool:
    """Whether an initiator has begun a session after another one; after a restart it counts from 1 again."""
    run, _, number = session.rpartition(".")
    run_before, _, number_before = before.rpartition(".")
    if run != run_before:
        return True
    return number.isdecimal() and number_before.isdecimal() and int(number) > int(number_before)


def _name(session: str) -> str:
    """A session's name from a node's run: what stands in no name is replaced."""
    return "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "_" for char in session)[-64:]
