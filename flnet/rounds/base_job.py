"""Base of all jobs, with common rounds or asynchronous.

A job is made of parts. Each owns its state, and only its own methods change it: the job routes an event to the
parts, and holds every step against the table of legal steps (`flnet.rounds.steps`). A refusal (PeerError) leaves
the job as it was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Generic, TypeVar

from flnet.aggregation.naming import rule_text
from flnet.algorithms.k_means import groups_rows
from flnet.algorithms.registry import check_rule, parse_rule
from flnet.errors import (
    IllegalStep,
    InvalidMessage,
    JobBusy,
    NoData,
    NotReady,
    ParamsRefused,
    PeerError,
)
from flnet.params.params import Digest, Params, PeerId, Schema
from flnet.protocol.effects import (
    Answer,
    Effect,
    KeptUpdate,
    Publish,
    Save,
    in_order,
)
from flnet.protocol.events import (
    DataChanged,
    Declaration,
    Evaluated,
    EvaluationFailed,
    Event,
    Fetched,
    FetchFailed,
    HyperParamsEdited,
    Paused,
    Planned,
    Prepared,
    PrepareFailed,
    Restored,
    Resumed,
    RolledBack,
    RoundTriggered,
    RuleAnswered,
    RuleProposed,
    RulesHeard,
    RuleWithdrawn,
    SeriesStopped,
    TimerFired,
    WillingnessChanged,
)
from flnet.protocol.messages import HyperParams, JobMessage, ModelParams, Triggered
from flnet.protocol.segments import SegmentsMessage
from flnet.protocol.updates import RoundKey
from flnet.rounds.base_round import BaseRound, Parts
from flnet.rounds.compatibility import obstacles
from flnet.rounds.group_search import GroupSearch
from flnet.rounds.history import History, RoundRecord, names
from flnet.rounds.model import MASKED, HeldModel, Model
from flnet.rounds.peers import Peers
from flnet.rounds.privacy_budget import PrivacyBudget, read_accounts
from flnet.rounds.rule_change import RuleChange, read_change
from flnet.rounds.schedule import Arrivals, Arrived
from flnet.rounds.series import Inbox, OwnSchedule, Series, read_request
from flnet.rounds.settings import JobSettings
from flnet.rounds.staleness import Staleness
from flnet.rounds.steps import Phase, is_legal
from flnet.rounds.stopping import TIMERS
from flnet.rounds.view import JobView
from flnet.text import joined, text


class Snapshot:
    """Remembers what is saved already, so that nothing is written twice.

    Attributes:
        before: state that an earlier run saved, until the trainer is loaded.
    """

    def __init__(self) -> None:
        self.before: Restored | None = None
        self._shared: Params | None = None
        self._private: Params | None = None
        self._sent: Params | None = None
        self._remembered: Params | None = None

    def save(
        self, figures: Mapping[str, Any], held: HeldModel, history: History, updates: tuple[KeptUpdate, ...]
    ) -> Save:
        """The effect that saves the job.

        Args:
            figures: its whole state without parameters, as plain JSON data.
            updates: updates that have arrived.
        """
        shared, private = (held.model.shared, held.model.private) if held.model else (None, None)
        save = Save(
            figures,
            None if shared is self._shared else shared,
            None if private is self._private else private,
            None if held.sent is self._sent else held.sent,
            updates,
            history.take_unsaved(),
            None if held.remembered is self._remembered else held.remembered,
        )
        self._shared, self._private, self._sent, self._remembered = shared, private, held.sent, held.remembered
        return save

    def restore(self, event: Restored) -> None:
        """Keep the state that an earlier run saved until the trainer is loaded."""
        self.before, self._remembered = event, event.remembered

    def put_off(self) -> None:
        """Do not resume the round that was open when the trainer is loaded."""
        if self.before is not None:
            self.before = replace(self.before, snapshot={**self.before.snapshot, "phase": Phase.IDLE.value})

    def take_before(self) -> Restored | None:
        """Take the state that an earlier run saved."""
        before, self.before = self.before, None
        return before


R_co = TypeVar("R_co", bound=BaseRound, covariant=True)
NEXT = text("the next round starts from it everywhere if it is started here, and from theirs if others start it")
NO_ROUND: Mapping[str, Any] = {  # in the view, before the first round
    "current_round": -1,
    "initiator": None,
    "chosen": None,
    "sits_out": "",
    "waiting_for": [],
    "received": [],
    "late": [],
}
_NO_ROUND: Mapping[str, Any] = {  # in what is kept
    "started_in": None,
    "record": None,
    "choice": None,
    "expected": [],
    "declined": {},
    "late": [],
    "updates_from": 0,
}


class BaseJob(ABC, Generic[R_co]):
    """A trainer's rounds on this node: `receive(event) -> effects`, and views for people.

    Attributes:
        promises_nothing: why FLNET_PRIVACY does not protect what such a job sends; empty if it does.
        round: the open round, or the last one; None before the first.
    """

    promises_nothing: str = ""

    def __init__(self, settings: JobSettings) -> None:
        self.settings = settings
        self.peers, self.held = Peers(), HeldModel()
        self.inbox = Inbox(self.peers)
        self.series = Series(self.settings, self.peers, self.tell)
        self.staleness = Staleness(self.settings, self.held)
        self.arrivals, self.history, self.snapshot = Arrivals(self.tell), History(self.tell), Snapshot()
        self.budget = PrivacyBudget(self.settings, self.tell)
        self.search = GroupSearch()
        self.rule_change = RuleChange(self.settings, self.tell)
        self.round: R_co | None = None
        self._parts = Parts(
            self.settings,
            self.peers,
            self.held,
            self.series,
            self.staleness,
            self.inbox,
            self.arrivals,
            self.history,
            self.budget,
            self.search,
            self.tell,
            self.save,
        )
        self._unready: Phase | None = Phase.LOADING  # None when the trainer is there
        self._trouble: str | None = None  # with the trainer, or with the model that was kept

    @property
    @abstractmethod
    def table(self) -> Mapping[Phase, Mapping[type, Set[Phase]]]:
        """Its legal steps."""

    # --- what it shows

    @property
    def phase(self) -> Phase:
        """The phase of the job."""
        return self._unready or (self.round.phase if self.round else Phase.IDLE)

    @property
    def busy(self) -> bool:
        """Whether a round is open."""
        return self.phase not in (Phase.LOADING, Phase.NO_DATA, Phase.IDLE)

    @property
    def key(self) -> RoundKey | None:
        """The newest round that this node has entered."""
        return self.round.key if self.round else None

    @property
    def number(self) -> int:
        """The number of that round; -1 before the first."""
        return self.round.key.number if self.round else -1

    @property
    def error(self) -> str | None:
        """The error; None if there is none."""
        return self._trouble or (self.round.error if self.round else None)

    @property
    def update_schema(self) -> Schema:
        """The form of every update of a peer."""
        secure = self.settings.secure
        return self.held.schema if secure is None else self.held.masked_form(secure.bits)

    def form_of(self, message: JobMessage) -> Schema:
        """The form of the parameters that a peer sends with this message.

        Raises:
            ParamsRefused: it is not known, because the message says too little.
        """
        match message:
            case ModelParams():
                return self.update_schema
            case SegmentsMessage():
                return message.form_of_segment(self.held.schema)
        return self.held.schema

    @property
    def screened_from(self) -> Params:
        """The parameters from which the distances of updates are measured before they are averaged."""
        return self.held.current.shared

    @property
    def training_from(self) -> Params:
        """The shared parameters that the training under way began with."""
        return self.held.current.shared

    def view(self) -> JobView:
        """The job as people and other programs see it."""
        round, phase, model, last = self.round, self.phase, self.held.model, self.history.last
        is_done = model is not None and model.round >= 0 and model.round == self.number
        figures = {
            "phase": phase,
            "fed_learn_done": "Yes" if is_done else "No",
            "outcome": last.outcome if last and phase is Phase.IDLE else "",
            "error": self.error,
            "versions": self._view_of_versions(),
            "vertical": self._view_of_holders(),
            "rule_needs": parse_rule(self.settings.rule).least,
            **self.settings.view(),
            **self.rule_change.view(),
            **self.held.view(),
            **self.series.view(self.number),
            **self.history.view(round.open_record if round else None),
            **(round.view() if round else NO_ROUND),
            **({"privacy": privacy} if (privacy := self.budget.view()) else {}),
            **({"secure": secure} if (secure := self._view_of_sums()) else {}),
        }
        return JobView.model_validate(figures)

    def _view_of_versions(self) -> Mapping[str, Any] | None:
        """The versions of this node and its peers; None with common rounds."""
        return None

    def _view_of_holders(self) -> Mapping[str, Any] | None:
        """Who holds which columns; None where all nodes hold the same ones."""
        return None

    def _view_of_sums(self) -> Mapping[str, Any] | None:
        """How updates are masked, and the newest secure sum; None where they are not."""
        return None

    def obstacles_with(self, theirs: Mapping[str, str], schema: Digest | None) -> str:
        """What differs so that this node cannot train with a peer; empty if it can.

        Args:
            theirs: the agreement that the peer states.
            schema: digest of the schema of its model; None if it states none.
        """
        model = self.held.model
        followed = self.rule_change.followed
        return obstacles(self.settings, theirs, model.schema.digest, schema, followed) if model else ""

    def find(self, digest: Digest) -> Params | None:
        """The parameters with this digest, if a peer may fetch them here."""
        found = self.held.find(digest)
        return self.round.find(digest) if found is None and self.round is not None else found

    def records(self) -> Sequence[Mapping[str, Any]]:
        """The records of the newest HELD_ROUNDS rounds that are over, oldest first."""
        return [record.view() for record in self.history.records]

    def record_of(self, number: int) -> RoundRecord | None:
        """The record of a round, open or over, if the job still has it."""
        current = self.round.open_record if self.round else None
        records = [*([current] if current else []), *reversed(self.history.records)]
        return next((record for record in records if record.key.number == number), None)

    def tell(self, kind: str, text: str, **data: Any) -> Publish:
        """An event for people, with the number of the round."""
        return Publish(kind, text, {"round": self.number, **data})

    def save(self, *updates: KeptUpdate) -> Save:
        """The effect that saves the job, with updates that have arrived."""
        figures, before = self._figures(), self.snapshot.before
        if before is not None and self.held.model is None:  # the rest of what was kept waits for the trainer
            said = {**self.settings.kept(), **self.rule_change.kept(), **self.series.kept()}
            peers = sorted({*before.snapshot.get("peers", ()), *said["peers"]})
            figures = {**before.snapshot, "asked": None, **said, "peers": peers}
        return self.snapshot.save(figures, self.held, self.history, updates)

    def _figures(self) -> Mapping[str, Any]:
        """The state of the job without parameters, as plain JSON data."""
        return {
            "me": self.settings.my_id,
            "round": self.number,
            "initiator": self.key.initiator if self.key else None,
            "phase": self.phase.value,
            "asynchronous": self.settings.rules.asynchronous,
            "arrived": self.arrivals.arrived.kept(),
            "trains_on": self.staleness.base,
            "versions": None,
            "privacy": self.budget.kept(),
            **self.settings.kept(),
            **self.rule_change.kept(),
            **self.held.kept(),
            **self.series.kept(),
            **(self.round.kept() if self.round else _NO_ROUND),
        }

    # --- events

    def receive(self, event: Event) -> list[Effect]:
        """Handle one event; return the effects in the order in which they are performed.

        Raises:
            PeerError: the event is refused and nothing has changed.
            IllegalStep: a bug: the step is not in the table.
        """
        if isinstance(event, Prepared) and (why := self._cannot_promise(event.declaration)):
            event = PrepareFailed(why)
        before = self.phase
        effects = self._react(event)
        effects += self._settle()
        if not is_legal(before, type(event), self.phase, self.table):
            raise IllegalStep(f"{type(event).__name__} led from {before} to {self.phase}, which the table forbids")
        return in_order(effects)

    @abstractmethod
    def _react(self, event: Event) -> list[Effect]:
        """Handle events of peers and of the round; `_about_the_node` handles all others."""

    @abstractmethod
    def _next_step(self) -> Callable[[], list[Effect]] | None:
        """The next step that needs no event, if there is one."""

    @abstractmethod
    def _past(self, key: RoundKey, record: RoundRecord | None, figures: Mapping[str, Any]) -> R_co:
        """The round that this node was in when it was restarted.

        Args:
            record: of it, if it was open.
            figures: all that was saved of the job.
        """

    @abstractmethod
    def _go_on(self) -> list[Effect]:
        """Restore, after the trainer was loaded, the state that an earlier run saved."""

    def _settle(self) -> list[Effect]:
        """Take the steps that need no event: gathering or exchange is over, or a round can open."""
        effects: list[Effect] = []
        while (step := self._next_step()) is not None:
            effects += step()
        return effects

    def _to_round(self, event: Event) -> list[Effect]:
        return self.round.receive(event) if self.round else []

    def _about_the_node(self, event: Event) -> list[Effect]:
        """Handle timers of a series, requests of people and schedules, and events of the trainer."""
        match event:
            case TimerFired(name) if name in TIMERS:
                return self._goal_timer_fired(name)
            case Restored():
                return self._restored(event)
            case Prepared():
                return self._prepared(event)
            case PrepareFailed(reason):
                return self._prepare_failed(reason)
            case DataChanged() if why := self._cannot_promise(event.declaration):
                words = text("{trainer} takes part in no round: {reason}", self.settings.trainer, why)
                return [Publish("no_data", words)]
            case DataChanged():
                self.arrivals.announce(event)
                return []
        return self._steered(event)

    def _prepare_failed(self, reason: str) -> list[Effect]:
        self._unready, self._trouble = Phase.NO_DATA, reason
        self.inbox.take_asked()
        self.snapshot.put_off()
        words = text("{trainer} takes part in no round: {reason}", self.settings.trainer, reason)
        dropped = self.series.drop_asked(reason)
        return [*dropped, *([self.save()] if dropped else []), Publish("no_data", words)]

    def _steered(self, event: Event) -> list[Effect]:
        """Handle what a person or a schedule requests between rounds."""
        match event:
            case HyperParamsEdited():
                return self._edited(event)
            case SeriesStopped():
                idle = self.phase is Phase.IDLE
                told = [*self.series.stop(), *self.series.stopping.stop(self.number, idle)]
                return [*told, self.save()] if told else []
            case Paused():
                told = self.series.pause()
                ended = self.round.end_training() if told and self.round else []
                return [*told, *ended, self.save()] if told else []
            case Resumed():
                told = self.series.resume()
                return [*told, self.save()] if told else []
            case Planned():
                told = self.series.schedule(event)
                return [*told, self.save()]
            case WillingnessChanged():
                return self.series.change_willingness(event)
            case RolledBack():
                return self._rolled_back(event)
            case RuleProposed() | RuleAnswered() | RuleWithdrawn():
                return [*self._rule_said(event), self.save()]
            case RulesHeard():
                news, is_new = self.rule_change.heard(event)
                return [*([self.save()] if is_new else []), *news]
        raise IllegalStep(f"a job cannot take {type(event).__name__}")

    def _cannot_promise(self, declared: Declaration) -> str:
        """Why the trainer cannot train under the promise of privacy of this node's settings; empty if it can."""
        plan = self.settings.rules.privacy
        return "" if plan is None else self.promises_nothing or plan.refusal(declared)

    def _goal_timer_fired(self, name: str) -> list[Effect]:
        effects, has_ended = self.series.stopping.timer_fired(name, self.number, self.phase is Phase.IDLE)
        return [*effects, self.save()] if has_ended else effects

    def _must_be_free(self, busy: str, free: Collection[Phase] = ()) -> None:
        """Refuse a request for rounds that cannot begin now.

        Args:
            busy: message of the refusal while a round is open.
            free: phases of an open round in which rounds may be requested.

        Raises:
            JobBusy: says why.
        """
        trainer = self.settings.trainer
        if self.phase is Phase.LOADING:
            raise JobBusy(text("{trainer} is still loading its data", trainer))
        if self.phase is Phase.NO_DATA:
            raise JobBusy(text("{trainer} cannot train: {error}", trainer, self.error))
        self._must_not_be_paused()
        if self.phase is not Phase.IDLE and self.phase not in free:
            raise JobBusy(busy)

    @abstractmethod
    def _triggered(self, event: RoundTriggered) -> list[Effect]:
        """Handle a request for rounds, of a person or a schedule."""

    def _put_off(self, event: RoundTriggered, first: int, words: str = "") -> list[Effect]:
        """Keep the rounds that a person requests until the data are loaded.

        Args:
            first: number of the first one, if no peer starts it before.
            words: for people, if the rounds wait for something else.

        Raises:
            InvalidMessage, JobBusy: the goal is none, this node is paused, or other rounds wait already.
        """
        self._must_not_be_paused()
        told = self.series.put_off(event, words)
        return [self.save(), Answer(Triggered(trainer_id=self.settings.trainer, round=first)), *told]

    def _begin_asked(self) -> list[Effect]:
        """Begin the rounds that a person requested while the data were being loaded."""
        event = self.series.asked
        assert event is not None
        try:
            effects = self._triggered(event)
        except PeerError as exc:  # whoever asked was answered long ago
            return [*self.series.drop_asked(str(exc)), self.save()]
        self.series.take_asked()
        return [effect for effect in effects if not isinstance(effect, Answer)]

    def _ask_for(self, event: RoundTriggered, first: int, scheduled: str) -> list[Effect]:
        """Note the rounds that a person or a schedule requests.

        Args:
            first: number of the first one.
            scheduled: reason for people, if a schedule requests them.

        Raises:
            InvalidMessage, JobBusy: the goal is none, or another series is under way.
        """
        goal = [] if event.until is None else self.series.stopping.begin(event.until, first, event.rounds)
        self.settings.choose(event.hyper)
        self.series.ask(0 if goal else event.rounds - 1)
        return [*goal, *([self.tell("round_scheduled", scheduled, reason=event.why)] if event.why else [])]

    def _must_not_be_paused(self) -> None:
        if self.series.paused:
            trainer = self.settings.trainer
            raise JobBusy(text("{trainer} is paused by a person here; resume it to start rounds", trainer))

    def _must_have_model(self) -> None:
        """Refuse a request that needs a model if there is none.

        Raises:
            NotReady, NoData: there is none.
        """
        if self.phase is Phase.LOADING:
            raise NotReady(text("{trainer} is still loading its data", self.settings.trainer))
        self._must_have_data()

    def _must_have_data(self) -> None:
        """Refuse a request that needs data if there are none.

        Raises:
            NoData: there are none.
        """
        if self.phase is Phase.NO_DATA:
            raise NoData(self.settings.trainer, self.error or text("no data"))

    def _fetched(self, event: Fetched | FetchFailed) -> list[Effect]:
        """Handle the end of a download; all parts of the round that wait for these parameters get them.

        What a rule remembers is checked by the part that asked for it.

        Parameters that do not fit count as a failed download: they are not used, and people see why.
        """
        memory = self.round.gathering.memory if self.round and self.round.gathering else None
        told: list[Effect] = []
        if event.wrong:
            words = text(
                "{peers} served other bytes than those of {digest}; they were not used",
                names(event.wrong),
                event.digest[:10],
            )
            told = [Publish("parts_wrong", words, {"peers": list(event.wrong), "digest": event.digest})]
        if memory is not None and memory.awaits(event.digest):
            return self._to_round(event)
        if isinstance(event, Fetched) and self.held.model is not None:
            is_masked = self.settings.secure is not None and event.params.keys() == {MASKED}
            form = self.round.form_of(event.digest) if self.round else None
            form = form or (self.update_schema if is_masked else self.held.schema)
            try:
                event = replace(event, params=form.conform(event.params))
            except ParamsRefused as exc:
                event = FetchFailed(event.key, event.peer, event.digest, str(exc))
        return [*told, *self._to_round(event)]

    # --- the trainer

    def _prepared(self, event: Prepared) -> list[Effect]:
        """Restore, after the trainer was loaded, the state that an earlier run saved."""
        self.settings.declare(event.declaration)
        if why := self.settings.rule_trouble:
            return self._prepare_failed(why)
        self._unready, self._trouble = None, self.held.begin(Model.initial(event), self.snapshot.before) or None
        label, source = event.declaration.label, event.declaration.data.get("source", "")
        begun = self.budget.begin()
        return [
            *self._go_on(),
            self.save(),
            *begun,
            Publish("ready", text("{label} is ready: {source}", label, source)),
        ]

    def _renew(self) -> list[Effect]:
        """Continue with the new data of the trainer.

        The model is kept if the trainer's parameters have the same names and shapes and the agreement is the same;
        otherwise the job begins with the trainer's initial parameters, as if there had been no data before.
        """
        event, held, before = self.arrivals.take_waiting(), self.held, self.settings.declaration
        assert event is not None
        declared, initial, is_first = event.declaration, Model.initial(event), held.model is None
        self.settings.declare(declared)
        self._unready, self._trouble = None, None
        if self.round is not None:
            self.round.forget_error()
        if is_first:
            held.forget()
            self._trouble = held.begin(initial, self.snapshot.take_before()) or None
        stays = not is_first and held.renew(initial)
        if not stays:
            self.inbox.clear()
        arrived: list[Effect] = []
        if stays and event.added:
            arrived = self._data_arrived(event, before)
        else:
            self.arrivals.clear()
        words = text(
            "{trainer} works on other data now: {source}", declared.label, declared.data.get("source", "")
        )
        if not is_first and not stays:
            words = joined([words, text("its model does not fit them; training starts from new parameters")])
        return [self.save(), *arrived, self.tell("data_changed", words)]

    def _data_arrived(self, event: DataChanged, before: Declaration | None) -> list[Effect]:
        """Measure the model on rows that were added."""
        held = self.held
        is_measurable = self.arrivals.add(event, before, held.current.shared.digest, held.accuracy)
        return [held.measure(self.key)] if is_measurable and self.key else []

    def _measured_between_rounds(self, event: Evaluated | EvaluationFailed) -> list[Effect]:
        """Handle a measurement between rounds: of a restored model, or of the current one on new test rows."""
        held, declaration = self.held, self.settings.declaration
        if event.key != self.key:
            return []
        if isinstance(event, EvaluationFailed):
            words = text("the model gone back to could not be measured: {reason}", event.reason)
            is_of_interest = held.rolled_back and event.digest == held.digest
            return [self.tell("measuring_failed", words)] if is_of_interest else []
        effects: list[Effect] = []
        if held.rolled_back and event.digest == held.digest:
            held.measured(event.accuracy)
            words = text("accuracy of the model gone back to {accuracy}", f"{event.accuracy:.4f}")
            effects = [self.save(), self.tell("measured", words, accuracy=event.accuracy)]
        arrived = self.arrivals.measured(event, declaration) if declaration else []
        return [*effects, *([self.save()] if arrived else []), *arrived]

    # --- what a person says between rounds

    def _edited(self, event: HyperParamsEdited) -> list[Effect]:
        """Change the hyper-parameters of rounds that start here, or the aggregation rule.

        Raises:
            NotReady: there are none to change.
            JobBusy: a round is open, whose updates are merged by the current rule.
            InvalidMessage: the aggregation rule cannot be changed to this one while the node runs.
        """
        settings = self.settings
        if settings.hyper is None:
            why = self.error or text("it is still loading")
            raise NotReady(text("{trainer} has no hyper-parameters to change yet: {error}", settings.trainer, why))
        told = [self._merge_by(event)] if event.merging else []
        if event.changes:
            hyper = settings.hyper.model_copy(update=dict(event.changes))
            settings.choose(hyper)
            words = text(
                "hyper-parameters are now Learning Rate: {rate}, Epochs: {epochs}, Batch size: {batch}",
                f"{hyper.u:g}",
                hyper.e,
                hyper.b,
            )
            told.append(self.tell("params_edited", words))
        return [self.save(), *told]

    def _rule_said(self, event: RuleProposed | RuleAnswered | RuleWithdrawn) -> Sequence[Effect]:
        """Handle what a person says of an aggregation rule for the whole mesh.

        Raises:
            NotReady: the trainer is not loaded.
            NoProposal, JobBusy, InvalidMessage: it is refused; says why.
        """
        if self.settings.hyper is None:
            raise NotReady(text("{trainer} is still loading its data", self.settings.trainer))
        if self.settings.rules.asynchronous:
            raise InvalidMessage(text("there are no common rounds here: choose the rule at each node by itself"))
        match event:
            case RuleProposed(rule, nonce):
                self._must_fit(rule)
                return self.rule_change.propose(rule, nonce)
            case RuleAnswered(mark, takes=True):
                proposal = self.rule_change.find(mark)
                self._must_fit(proposal.rule)
                return self.rule_change.take(proposal)
            case RuleAnswered(mark):
                return self.rule_change.decline(self.rule_change.find(mark))
        return self.rule_change.withdraw()

    def _must_fit(self, rule: str) -> None:
        """Refuse an aggregation rule that cannot follow the one in use while the node runs.

        Raises:
            InvalidMessage: says why.
        """
        settings, trainer, before = self.settings, self.settings.trainer, self.settings.rules.merging
        if settings.needed_rule:
            raise InvalidMessage(
                text(
                    "the trainer of {trainer} needs the aggregation rule {rule}",
                    trainer,
                    rule_text(settings.needed_rule),
                )
            )
        if parse_rule(rule).name.rpartition(",")[2].startswith("k-means") and not groups_rows(self.held.schema):
            raise InvalidMessage(
                text("{trainer} learns no centroids, which {rule} needs", trainer, rule_text(rule))
            )
        if any(parse_rule(one).changes_training for one in (before, rule)):
            raise InvalidMessage(
                text("scaffold changes local training too: set FLNET_AGGREGATION and start the node again")
            )
        if any(parse_rule(one).secure for one in (before, rule)):
            raise InvalidMessage(
                text(
                    "whether updates are masked is decided when a node starts: set FLNET_AGGREGATION and start it again"
                )
            )
        topology = settings.rules.topology
        if not topology.allows(parse_rule(rule)):
            if topology.is_sparse:
                raise InvalidMessage(
                    text(
                        "{rule} has no weights for pairs of nodes, which FLNET_TOPOLOGY={topology} needs",
                        rule_text(rule),
                        topology.words,
                    )
                )
            raise InvalidMessage(
                text("{rule} needs whole updates, and here they are averaged in segments", rule_text(rule))
            )

    def _merge_by(self, event: HyperParamsEdited) -> Publish:
        """Use another aggregation rule from the next round on, without the memory of the previous one."""
        settings, trainer, before = self.settings, self.settings.trainer, self.settings.rules.merging
        self._must_fit(event.merging)
        self.rule_change.must_be_free()
        if self.phase is not Phase.IDLE or self.series.pending is not None or self.series.is_under_way:
            raise JobBusy(
                text("{trainer} is in a round or a series; change the aggregation rule when it is over", trainer)
            )
        settings.merge_by(event.merging, event.folds)
        self.rule_change.set_alone()
        words = text(
            "the aggregation rule is {rule} from now on, before {before}; all nodes need the same rule",
            rule_text(event.merging),
            rule_text(before),
        )
        return self.tell("merging_rule_set", words, rule=event.merging, before=before)

    def _rolled_back(self, event: RolledBack) -> list[Effect]:
        """Restore a model of this node; the next round that starts here begins with it.

        Raises:
            JobBusy: a round is open, or the model is the current one.
            ParamsRefused: it is of another shape than the trainer's models are now.
        """
        held, trainer = self.held, self.settings.trainer
        if self.phase is Phase.LOADING:
            raise JobBusy(text("{trainer} is still loading its data", trainer))
        if self.phase is Phase.NO_DATA:
            raise JobBusy(text("{trainer} has no model to go on from: {error}", trainer, self.error))
        if self.phase is not Phase.IDLE:
            raise JobBusy(
                text(
                    "round {number} is still {state} here; go back to another model when it is over",
                    self.number,
                    self.phase.words,
                )
            )
        held.roll_back(event, self.number, trainer)
        digest = held.current.shared.digest
        words = text(
            "a person went back to the model {digest} of round {number}; {words}", digest[:10], event.round, NEXT
        )
        told = self.tell("rolled_back", words, digest=digest, model_round=event.round)
        return [self.save(), *([held.measure(self.key)] if self.key else []), told]

    # --- restarts

    def _restored(self, event: Restored) -> list[Effect]:
        """Keep the state that an earlier run saved until the trainer is loaded."""
        trainer = self.settings.trainer
        if self.phase is not Phase.LOADING:
            return []
        if event.is_lost:
            self.budget.state_lost()
            return []
        try:
            self._restore(event)
        except (AttributeError, KeyError, TypeError, ValueError, InvalidMessage) as exc:
            words = text(
                "the saved state of {trainer} cannot be used: {error}; it starts from new parameters",
                trainer,
                repr(exc),
            )
            self.budget.state_lost()
            return [self.tell("state_damaged", words)]
        if self.round is None:
            return []
        words = text(
            "{trainer} was last in round {round} ({phase}); it goes on there",
            trainer,
            self.number,
            Phase(event.snapshot["phase"]).words,
        )
        return [self.tell("restored", words)]

    def _restore(self, event: Restored) -> None:
        """Restore the state that an earlier run saved; all of it is read before anything changes.

        Raises:
            AttributeError, KeyError, TypeError, ValueError, InvalidMessage: it is damaged.
        """
        figures, settings = event.snapshot, self.settings
        Phase(figures["phase"])  # read again when the trainer is loaded
        rule, settled, folds = figures.get("merging") or ("", "", True)
        merging = (check_rule(rule) if rule else "", settled, bool(folds))
        hyper = _hyper(figures.get("hyper"))
        # An earlier version kept those of the newest round only.
        of_round = _hyper(figures.get("round_hyper", figures.get("hyper")))
        series = (int(figures.get("rounds_left", 0)), self.series.stopping.read(figures.get("pursuit")))
        plan, arrived = OwnSchedule(*figures.get("plan", ())), Arrived.read(figures.get("arrived"))
        asked = read_request(figures.get("asked"))
        records = [RoundRecord.read(record) for record in event.records]
        record = RoundRecord.read(figures["record"]) if figures.get("record") else None
        key = RoundKey(figures["round"], PeerId(figures.get("initiator") or "")) if figures["round"] >= 0 else None
        spent, rule_change = read_accounts(figures.get("privacy")), read_change(figures.get("rule_change"))
        past = None if key is None else self._past(key, record, figures)
        self.round = past
        self.snapshot.restore(event)
        settings.restore(hyper, of_round, merging)
        self.rule_change.restore(rule_change)
        self.held.restore(event)
        self.series.restore(*series, bool(figures.get("paused")), plan, asked)
        self.arrivals.restore(arrived)
        self.history.restore(records, record)
        self.budget.restore(spent)
        if figures.get("privacy") is None and key is not None:  # an earlier version, or what a repair could find
            self.budget.state_lost()
        # What was said in the open round was said under another name, or in rounds of another kind.
        is_other = bool(figures.get("asynchronous")) != settings.rules.asynchronous
        if figures.get("me", settings.my_id) != settings.my_id or is_other:
            self.snapshot.put_off()


def _hyper(kept: Any) -> HyperParams | None:
    return HyperParams.model_validate(kept) if kept else None


AnyJob = BaseJob[BaseRound]
