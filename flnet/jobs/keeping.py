"""What of a job is new since it was saved last, and the figures from which it goes on after a restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flnet.effects import KeptUpdate, Save
from flnet.jobs.record import RoundRecord
from flnet.jobs.steps import Phase
from flnet.params import Params

if TYPE_CHECKING:
    from flnet.jobs.state import JobState

OPEN = (Phase.FETCHING, Phase.TRAINING, Phase.GATHERING, Phase.AVERAGING)  # updates still count


@dataclass
class Kept:
    """What the last Save held, so that nothing is written twice."""

    shared: Params | None = None
    private: Params | None = None
    sent: Params | None = None
    remembered: Params | None = None
    over: list[RoundRecord] = field(default_factory=list)  # of rounds that ended since

    def save(self, s: JobState, updates: tuple[KeptUpdate, ...] = ()) -> Save:
        """The effect that keeps the job as it is now; `updates` are those that have come."""
        shared, private = (s.model.shared, s.model.private) if s.model else (None, None)
        records = tuple(record.view() for record in self.over)
        save = Save(
            figures(s),
            None if shared is self.shared else shared,
            None if private is self.private else private,
            None if s.sent is self.sent else s.sent,
            updates,
            records,
            None if s.remembered is self.remembered else s.remembered,
        )
        self.shared, self.private, self.sent, self.over = shared, private, s.sent, []
        self.remembered = s.remembered
        return save


def figures(s: JobState) -> Mapping[str, Any]:
    """All that is kept of a job beside its parameters, as plain JSON data."""
    gathering = s.averaging if s.phase in OPEN else None
    spoken = s.averaging if s.phase in (*OPEN, Phase.MEASURING) else None  # who may still wait for this node
    own, rounds_left = s.own, _rounds_left(s)
    return {
        "me": s.my_id,
        "round": s.number,
        "initiator": s.key.initiator if s.key else None,
        "started_in": s.started_in,
        "phase": s.phase.value,
        "hyper": s.hyper.fields() if s.hyper else None,
        "model_round": s.model.round if s.model else -1,
        "contributors": s.model.contributors if s.model else 0,
        "restored_at": s.model.restored_at if s.model else None,
        "accuracy": s.accuracy,
        "paused": s.paused,
        "rolled_back": s.rolled_back,
        "merging": [s.rules.by_person, s.rules.settled, s.folds] if s.rules.by_person else None,
        "plan": [s.plan.when, s.plan.since],
        "arrived": s.arrived.kept(),
        "record": s.record.view() if s.record else None,
        "choice": s.choice.model_dump(mode="json") if s.choice else None,
        "expected": sorted(gathering.expected) if gathering else [],
        "declined": dict(spoken.declined) if spoken else {},
        "late": sorted(spoken.late) if spoken else [],
        "trains_on": s.behind.base if s.behind else None,
        "own": None
        if own is None
        else {
            "round": own.key.number,
            "initiator": own.key.initiator,
            "examples": own.examples,
            "labels": own.labels,
            "accuracy": own.accuracy,
            "base": own.base,
            "staleness": own.staleness,
            "contribution": own.contribution.view() if own.contribution else None,
        },
        "rounds_left": rounds_left,
        "peers": sorted(s.peers | s.regroups) if rounds_left or s.pursuit.series else [],
        "pursuit": s.pursuit.kept(),
        "asynchronous": s.rules.asynchronous,
        "versions": s.versions.kept() if s.rules.asynchronous else None,
        "updates_from": s.number if gathering else s.number + 1,
    }


def _rounds_left(s: JobState) -> int:
    """Rounds that this node was asked for and has not started, with the one that waits for an average."""
    waits = s.pending is not None and s.pending.started_by(s.my_id) and s.pursuit.series is None
    return s.rounds_left + waits
