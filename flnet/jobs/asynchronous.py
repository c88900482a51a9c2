"""One trainer's state on a node without common rounds: it trains and merges when it has something.

Pure, as `flnet.jobs.job`, of which it shares all that has to do with people, data and the trainer itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from flnet.effects import Effect
from flnet.events import (
    Averaged,
    AveragingFailed,
    ClaimAnswered,
    ClaimReceived,
    DeclineReceived,
    Event,
    Fetched,
    FetchFailed,
    PeerLost,
    PeerSeen,
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
)
from flnet.jobs.fetching import fetched
from flnet.jobs.goal_steps import TIMERS
from flnet.jobs.goal_steps import timer_fired as goal_timer_fired
from flnet.jobs.job import Job
from flnet.jobs.renewing import renewed
from flnet.jobs.steps import ASYNCHRONOUS, Phase
from flnet.jobs.taking_up import taken_up
from flnet.jobs.telling import must_have_model, refuse, tell, version_received
from flnet.jobs.waking import (
    answered,
    averaged,
    failed,
    next_of_series,
    settled,
    spoilt,
    timer_fired,
    trained,
    triggered,
    unanswered,
    wake,
)
from flnet.messages import AskVersion


class AsynchronousJob(Job):
    """A job in which each node makes versions of its own, and merges those of others."""

    table: Mapping[Phase, Mapping[type, Set[Phase]]] = ASYNCHRONOUS

    def _react(self, event: Event) -> list[Effect]:
        s = self.state
        match event:
            case RoundTriggered():
                return triggered(s, event)
            case VersionReceived():
                return version_received(s, event)
            case VersionAnswered(version):
                is_last = s.versions.ended(version.peer)
                return answered(s, version.peer, version, is_last=is_last) if s.model is not None else []
            case TrainingAsked() | UpdateReceived() | UpdateOffered() | DeclineReceived() | ClaimReceived():
                must_have_model(s)
                raise refuse(s, event)
            case Fetched() | FetchFailed():
                return fetched(s, event)
            case Averaged() | AveragingFailed():
                return averaged(s, event)
            case SumSpoilt():
                return spoilt(s, event)
            case Trained():
                return trained(s, event)
            case TrainingFailed():
                return failed(s, event)
            case SendRefused(peer, AskVersion.path):
                words = f"{peer} says no version of {s.trainer}: {event.reason}"
                told = s.tell("refused", words, peer=peer, status=event.status)
                return [*unanswered(s, peer), told]
            case SendFailed(peer, AskVersion.path):
                return unanswered(s, peer)
            case SendRefused() | SendFailed() | ClaimAnswered():
                return []  # nothing here waits for their answers
        return self._of_peers(event)

    def _of_peers(self, event: Event) -> list[Effect]:
        s = self.state
        match event:
            case PeerSeen(peer):
                s.peers.add(peer)
                return tell(s, (peer,))
            case PeerLost(peer, _):
                s.peers.discard(peer)
                s.versions.under_way.pop(peer, None)
                fetching = s.averaging.receive(event) if s.averaging and s.phase is Phase.FETCHING else []
                return [*answered(s, peer, None), *fetching]
            case TimerFired(name) if name in TIMERS:
                return goal_timer_fired(s, event)
            case TimerFired():
                return timer_fired(s, event)
        return super()._react(event)

    def _going_on(self) -> list[Effect]:
        """The trainer is loaded: take up the version that was under way, and tell all which one is the newest."""
        s = self.state
        again, effects = taken_up(s)
        return [*tell(s, s.peers), *effects, *(wake(s, again=True) if again else [])]

    def _settle(self) -> list[Effect]:
        s = self.state
        effects: list[Effect] = []
        while True:
            if s.phase is Phase.FETCHING and s.averaging is not None and s.averaging.closed is not None:
                effects += settled(s)
            elif s.fresh is not None and s.phase in (Phase.IDLE, Phase.NO_DATA):
                effects += renewed(s, s.fresh)
            elif s.phase is Phase.IDLE and (s.rounds_left > 0 or s.pursuit.due) and not s.is_held_up:
                effects += next_of_series(s)
            else:
                return effects
