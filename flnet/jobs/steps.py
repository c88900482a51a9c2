"""The one table of a job's legal steps: phase -> event -> phases it may lead to.

Two rules for whoever edits it: an event that a phase may meet stands in that phase's row, even if it changes
nothing (late messages are normal, silence about them is not); and docs/rounds.md holds the picture that
`draw` makes of this table, so change both together (a test compares them).

Events that mean the same in every phase stand in `EVERYWHERE` and never change the phase by themselves. A
refusal (PeerError) leaves the phase as it was and is not in the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from flnet.events import (
    Averaged,
    AveragingFailed,
    ClaimAnswered,
    ClaimReceived,
    DeclineReceived,
    Evaluated,
    EvaluationFailed,
    HyperParamsEdited,
    PeerLost,
    PeerSeen,
    Prepared,
    PrepareFailed,
    RoundTriggered,
    SendFailed,
    SendRefused,
    TimerFired,
    Trained,
    TrainingAsked,
    TrainingFailed,
    UpdateReceived,
)


class Phase(StrEnum):
    """Where a job stands."""

    LOADING = "LOADING"  # the trainer is being loaded
    NO_DATA = "NO_DATA"  # it cannot work: nothing to train on, or broken
    IDLE = "IDLE"  # between rounds
    TRAINING = "TRAINING"  # local training runs; updates of faster peers are gathered already
    GATHERING = "GATHERING"  # own word is out; waiting for the peers' updates
    AVERAGING = "AVERAGING"  # the average is being computed
    MEASURING = "MEASURING"  # the average is being measured on the own test split
    EXCHANGING = "EXCHANGING"  # accuracies are compared; better models are tried


P = Phase
_ANY_OPEN = frozenset({P.TRAINING, P.GATHERING, P.AVERAGING})
_STAY: Mapping[Phase, frozenset[Phase]] = {phase: frozenset({phase}) for phase in Phase}


def _row(phase: Phase, steps: Mapping[type, frozenset[Phase]]) -> Mapping[type, frozenset[Phase]]:
    """A phase's row: what it may meet; leaving the phase is always said explicitly."""
    return {event: targets | _STAY[phase] for event, targets in steps.items()}


# A refusal of our start by peers that are ahead, a start or an update of a newer round: all open a round.
_OPENS = _ANY_OPEN | {P.IDLE}  # IDLE: a round in which there was nothing to average closes at once

LEGAL: Mapping[Phase, Mapping[type, frozenset[Phase]]] = {
    P.LOADING: _row(
        P.LOADING,
        {
            Prepared: frozenset({P.IDLE, P.TRAINING}),
            PrepareFailed: frozenset({P.NO_DATA}),
            TrainingAsked: frozenset(),
            DeclineReceived: frozenset(),
            ClaimAnswered: frozenset(),
        },
    ),
    P.NO_DATA: _row(
        P.NO_DATA,
        {
            Prepared: frozenset({P.IDLE}),
            PrepareFailed: frozenset(),
            DeclineReceived: frozenset(),
            ClaimAnswered: frozenset(),
        },
    ),
    P.IDLE: _row(
        P.IDLE,
        {
            RoundTriggered: frozenset({P.TRAINING}),
            TrainingAsked: _OPENS,
            UpdateReceived: _OPENS,
            DeclineReceived: frozenset(),
            ClaimReceived: frozenset(),
            ClaimAnswered: frozenset(),
            SendRefused: frozenset(),
            # ends of work that a newer step made pointless
            Trained: frozenset(),
            TrainingFailed: frozenset(),
            Averaged: frozenset(),
            AveragingFailed: frozenset(),
            Evaluated: frozenset(),
            EvaluationFailed: frozenset(),
        },
    ),
    P.TRAINING: _row(
        P.TRAINING,
        {
            Trained: _OPENS,
            TrainingFailed: _OPENS,
            TrainingAsked: _ANY_OPEN,
            UpdateReceived: _ANY_OPEN,
            DeclineReceived: frozenset(),
            ClaimAnswered: frozenset(),
            SendRefused: _OPENS,
            Averaged: frozenset(),
            AveragingFailed: frozenset(),
            Evaluated: frozenset(),
            EvaluationFailed: frozenset(),
        },
    ),
    P.GATHERING: _row(
        P.GATHERING,
        {
            UpdateReceived: _ANY_OPEN,
            DeclineReceived: _OPENS,
            PeerLost: _OPENS,
            SendRefused: _OPENS,
            TimerFired: _OPENS,
            RoundTriggered: _ANY_OPEN,
            TrainingAsked: _ANY_OPEN,
            ClaimAnswered: frozenset(),
            Trained: frozenset(),
            TrainingFailed: frozenset(),
            Averaged: frozenset(),
            AveragingFailed: frozenset(),
            Evaluated: frozenset(),
            EvaluationFailed: frozenset(),
        },
    ),
    P.AVERAGING: _row(
        P.AVERAGING,
        {
            Averaged: _OPENS | {P.MEASURING},
            AveragingFailed: _OPENS,
            TrainingAsked: frozenset(),
            UpdateReceived: frozenset(),
            DeclineReceived: frozenset(),
            ClaimAnswered: frozenset(),
            SendRefused: frozenset(),
            Trained: frozenset(),
            TrainingFailed: frozenset(),
            Evaluated: frozenset(),
            EvaluationFailed: frozenset(),
        },
    ),
    P.MEASURING: _row(
        P.MEASURING,
        {
            Evaluated: frozenset({P.EXCHANGING, P.IDLE, P.TRAINING}),
            EvaluationFailed: frozenset({P.IDLE, P.TRAINING}),
            TrainingAsked: _OPENS,
            UpdateReceived: _OPENS,
            DeclineReceived: frozenset(),
            ClaimAnswered: frozenset(),
            SendRefused: frozenset(),
            Trained: frozenset(),
            TrainingFailed: frozenset(),
            Averaged: frozenset(),
            AveragingFailed: frozenset(),
        },
    ),
    P.EXCHANGING: _row(
        P.EXCHANGING,
        {
            ClaimReceived: frozenset({P.IDLE, P.TRAINING}),
            ClaimAnswered: frozenset({P.IDLE, P.TRAINING}),
            Evaluated: frozenset({P.IDLE, P.TRAINING}),
            EvaluationFailed: frozenset({P.IDLE, P.TRAINING}),
            PeerLost: frozenset({P.IDLE, P.TRAINING}),
            SendFailed: frozenset({P.IDLE, P.TRAINING}),
            SendRefused: frozenset({P.IDLE, P.TRAINING}),
            TimerFired: frozenset({P.IDLE, P.TRAINING}),
            RoundTriggered: frozenset({P.TRAINING}),
            TrainingAsked: _OPENS,
            UpdateReceived: _OPENS,
            DeclineReceived: frozenset(),
            Trained: frozenset(),
            TrainingFailed: frozenset(),
            Averaged: frozenset(),
            AveragingFailed: frozenset(),
        },
    ),
}

EVERYWHERE: frozenset[type] = frozenset(
    {PeerSeen, PeerLost, HyperParamsEdited, TimerFired, SendFailed, SendRefused}
)


def is_legal(before: Phase, event: type, after: Phase) -> bool:
    """Whether this event may lead from this phase to that one."""
    if event in LEGAL[before]:
        return after in LEGAL[before][event]
    return event in EVERYWHERE and before == after


def draw() -> str:
    """The table as a Mermaid state diagram; steps that stay in their phase are left out."""
    arrows: dict[tuple[Phase, Phase], list[str]] = {}
    for before, row in LEGAL.items():
        for event, targets in row.items():
            for after in targets - {before}:
                arrows.setdefault((before, after), []).append(event.__name__)
    lines = [f"    {a} --> {b}: {', '.join(sorted(names))}" for (a, b), names in sorted(arrows.items())]
    return "\n".join(["stateDiagram-v2", "    [*] --> LOADING", *lines])
