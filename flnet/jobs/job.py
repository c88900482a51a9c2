"""One trainer's state on one node: what it hears, what it asks for; pure, without clock, socket or chance.

The algorithm is that of García Pérez (2021), section 3.2.4.2; what it lacked is said where it stands: a total
order of initiators, refusals, catching up, and healing after a split. `flnet.jobs.steps` has the table of
legal steps, and `receive` holds every step against it. A refusal (PeerError) leaves the job as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from flnet.effects import Effect, Publish, in_order
from flnet.errors import IllegalStep, PeerError
from flnet.events import (
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
    HyperParamsEdited,
    Paused,
    PeerLost,
    PeerSeen,
    Planned,
    Prepared,
    PrepareFailed,
    Restored,
    Resumed,
    RolledBack,
    RoundTriggered,
    SendFailed,
    SendRefused,
    SeriesStopped,
    SumSpoilt,
    TimerFired,
    Trained,
    TrainingAsked,
    TrainingFailed,
    UpdateOffered,
    UpdateReceived,
    VersionReceived,
    WillingnessChanged,
)
from flnet.jobs.arriving import planned, willing
from flnet.jobs.chance import NoChance
from flnet.jobs.closing import (
    averaged,
    claim_answered,
    claim_received,
    closed,
    evaluated,
    exchanged,
    finish,
    next_of_series,
    spoilt,
)
from flnet.jobs.fetching import fetched
from flnet.jobs.gathering import decline_received, failed, refused, trained, update_received
from flnet.jobs.goal_steps import TIMERS, next_opening, peer_lost, stopped, timer_fired
from flnet.jobs.model import Model
from flnet.jobs.regrouping import REGROUP, waited
from flnet.jobs.renewing import renewed
from flnet.jobs.restoring import going_on, lost, met, missed, model_of, put_off, restored
from flnet.jobs.rules import Rules
from flnet.jobs.speaking import decline
from flnet.jobs.starting import asked, open_round, triggered
from flnet.jobs.state import JobState, Waits
from flnet.jobs.steering import edited, paused, resumed, rolled_back, series_stopped
from flnet.jobs.steps import LEGAL, Phase, is_legal
from flnet.jobs.telling import refuse_versions
from flnet.messages import Peer
from flnet.params import Rng, Schema, TrainerId
from flnet.topologies import Topology, full_mesh


class Job:
    """A trainer's rounds on this node: `receive(event) -> effects`, and views for people.

    Attributes:
        table: its legal steps.
    """

    table: Mapping[Phase, Mapping[type, Set[Phase]]] = LEGAL

    def __init__(
        self,
        me: Peer,
        trainer: TrainerId,
        waits: Waits | None = None,
        *,
        topology: Topology = full_mesh,
        rng: Rng | None = None,
        folds: bool = True,
        rules: Rules | None = None,
        run: str = "",
    ) -> None:
        """Args:
        topology: who gets the own update.
        rng: for a topology that draws lots.
        folds: whether the merging rule can add updates as they come, without keeping all of them.
        rules: what people set of its rounds.
        run: a word that no earlier run of this node had.
        """
        self.state = JobState(
            me, trainer, waits or Waits(), rules or Rules(), topology, rng or NoChance(), folds=folds, run=run
        )

    @property
    def phase(self) -> Phase:
        """Where the job stands."""
        return self.state.phase

    @property
    def busy(self) -> bool:
        """Whether a round is open."""
        return self.phase not in (Phase.LOADING, Phase.NO_DATA, Phase.IDLE)

    def view(self) -> Mapping[str, Any]:
        """The job as JSON-ready data."""
        return self.state.view()

    def history(self) -> Sequence[Mapping[str, Any]]:
        """The records of the newest HELD_ROUNDS rounds that are over, oldest first."""
        return [record.view() for record in self.state.history]

    def receive(self, event: Event) -> list[Effect]:
        """Take one event; what is to be done about it, in the order in which it is performed.

        Raises:
            PeerError: the event is refused and nothing has changed.
            IllegalStep: a bug: the step is not in the table.
        """
        before = self.phase
        effects = self._react(event)
        effects += self._settle()
        if not is_legal(before, type(event), self.phase, self.table):
            raise IllegalStep(f"{type(event).__name__} led from {before} to {self.phase}, which the table forbids")
        return in_order(effects)

    def _react(self, event: Event) -> list[Effect]:
        s = self.state
        match event:
            case RoundTriggered():
                return triggered(s, event)
            case TrainingAsked():
                return asked(s, event)
            case UpdateReceived() | UpdateOffered():
                return update_received(s, event)
            case DeclineReceived():
                return decline_received(s, event)
            case ClaimReceived():
                return claim_received(s, event)
            case ClaimAnswered():
                return claim_answered(s, event)
            case VersionReceived():
                raise refuse_versions(s, event)
            case Fetched() | FetchFailed():
                return fetched(s, event)
            case Trained():
                return trained(s, event)
            case TrainingFailed():
                return failed(s, event)
            case Averaged() | AveragingFailed():
                return averaged(s, event)
            case SumSpoilt():
                return spoilt(s, event)
            case Evaluated() | EvaluationFailed():
                return evaluated(s, event)
            case SendRefused() if s.phase is not Phase.EXCHANGING:
                return refused(s, event)
            case SendRefused() | SendFailed():
                if isinstance(event, SendFailed):
                    missed(s, event)
                return exchanged(s, event) if event.key == s.key else []
        return self._about_the_node(event)

    def _about_the_node(self, event: Event) -> list[Effect]:
        """Peers that come and go, timers, settings, and the trainer itself."""
        s = self.state
        match event:
            case PeerSeen(peer):
                return met(s, peer)
            case PeerLost(peer, _):
                lost(s, peer)
                heard = [*(s.averaging.receive(event) if s.averaging else []), *exchanged(s, event)]
                return [*heard, *peer_lost(s, event)]
            case TimerFired(name) if name in TIMERS:
                return timer_fired(s, event)
            case TimerFired(name) if name == REGROUP:
                return waited(s)
            case TimerFired(name) if s.key is not None and name == s.start_timer:
                return decline(s, "the start of this round did not reach it") if s.listening else []
            case TimerFired():
                return [*(s.averaging.receive(event) if s.averaging else []), *exchanged(s, event)]
            case HyperParamsEdited():
                return edited(s, event)
            case SeriesStopped():
                told = [*series_stopped(s), *stopped(s)]
                return [*told, s.save()] if told else []
            case Paused():
                return paused(s)
            case Resumed():
                return resumed(s)
            case Planned():
                return planned(s, event)
            case WillingnessChanged():
                return willing(s, event)
            case RolledBack():
                return rolled_back(s, event)
            case Restored():
                return restored(s, event)
            case Prepared():
                return self._prepared(event)
            case DataChanged():
                waits = s.fresh.added if s.fresh and event.added else 0
                s.fresh = replace(event, added=event.added + waits)
                return []
            case PrepareFailed(reason, _):
                s.phase, s.error, s.asked_while_loading = Phase.NO_DATA, reason, None
                put_off(s)
                return [Publish("no_data", f"{s.trainer} takes part in no round: {reason}")]
        raise IllegalStep(f"a job cannot take {type(event).__name__}")

    def _prepared(self, event: Prepared) -> list[Effect]:
        s = self.state
        shared = event.params.select(event.declaration.shared)
        private = event.params.select(event.params.keys() - set(event.declaration.shared))
        s.declaration, s.error, s.phase = event.declaration, None, Phase.IDLE
        schema = Schema.of(shared, event.declaration.merge, event.declaration.agreement)
        s.model = model_of(s, Model(schema, shared, private))
        s.folds = s.folds and not event.declaration.merging
        s.hyper = s.hyper or event.declaration.defaults
        waiting, s.asked_while_loading = s.asked_while_loading, None
        words = f"{event.declaration.label} is ready: {event.declaration.data.get('source', '')}"
        effects: list[Effect] = [*self._going_on(), s.save(), Publish("ready", words)]
        if waiting is not None:
            try:
                effects += asked(s, waiting)
            except PeerError as exc:  # its sender was answered long ago; people see it
                effects.append(s.tell("refused", f"the start by {waiting.peer} came while loading: {exc}"))
        return effects

    def _going_on(self) -> list[Effect]:
        return going_on(self.state)

    def _settle(self) -> list[Effect]:
        """Take the steps that follow by themselves: gathering or exchange is over, a round waits to open."""
        s = self.state
        effects: list[Effect] = []
        while True:
            gathering = s.phase in (Phase.FETCHING, Phase.TRAINING, Phase.GATHERING)
            if gathering and s.averaging is not None and s.averaging.closed is not None:
                effects += closed(s)
            elif s.phase is Phase.EXCHANGING and s.exchange is not None and s.exchange.done:
                effects += finish(s)
            elif s.fresh is not None and s.phase in (Phase.IDLE, Phase.NO_DATA):
                effects += renewed(s, s.fresh)
            elif s.pending is not None and s.phase not in (Phase.AVERAGING, Phase.LOADING):
                opening, s.pending = s.pending, None
                effects += open_round(s, opening)
            elif s.phase is Phase.IDLE and s.rounds_left > 0 and not s.is_held_up:
                next_of_series(s)
            elif s.phase is Phase.IDLE and s.pursuit.due and not (s.is_held_up or s.unwilling):
                s.propose(next_opening(s))
            else:
                return effects
