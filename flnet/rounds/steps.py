"""The one table of a job's legal steps: phase -> event -> phases it may lead to.

Two rules for changes of the table: an event that a phase may meet stands in that phase's row, even if it changes
nothing (late messages are normal, silence about them is not), and what cannot happen does not; and
docs/rounds.md holds the picture that `draw` makes of this table, so change both together. Tests hold both.

Events that mean the same in every phase stand in `EVERYWHERE`; rows name them only where they lead elsewhere. A
refusal (PeerError) leaves the phase as it was and is not in the table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from enum import StrEnum

from flnet.protocol.events import (
    Averaged,
    AveragingFailed,
    ClaimAnswered,
    ClaimReceived,
    DataChanged,
    DeclineReceived,
    Evaluated,
    EvaluationFailed,
    Fetched,
    FetchFailed,
    HyperParamsEdited,
    OutputsComputed,
    PartReceived,
    Paused,
    PeerLost,
    PeerSeen,
    Planned,
    PredictionAsked,
    PredictionComputed,
    PredictionNotComputed,
    Prepared,
    PrepareFailed,
    Restored,
    Resumed,
    RolledBack,
    RoundAnswered,
    RoundAsked,
    RoundTriggered,
    RuleAnswered,
    RuleProposed,
    RulesHeard,
    RuleWithdrawn,
    SecureStepDone,
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
    VersionAnswered,
    VersionReceived,
    VerticalDelivered,
    VerticalDone,
    VerticalFailed,
    VerticalReceived,
    WillingnessChanged,
)
from flnet.text import Text, text


class Phase(StrEnum):
    """Where a job stands."""

    LOADING = "LOADING"  # the trainer is being loaded
    NO_DATA = "NO_DATA"  # it cannot work: nothing to train on, or broken
    IDLE = "IDLE"  # between rounds
    ALIGNING = "ALIGNING"  # a vertical job: holders of columns are asked, and find the rows that all of them have
    FETCHING = "FETCHING"  # the model to go on with is on its way, or is being compared with the own one
    TRAINING = "TRAINING"  # local training runs; updates of faster peers are gathered already
    GATHERING = "GATHERING"  # own word is out; waiting for the peers' updates
    AVERAGING = "AVERAGING"  # the average is being computed
    MEASURING = "MEASURING"  # the average is being measured on the own test split
    EXCHANGING = "EXCHANGING"  # accuracies are compared; better models are tried

    @property
    def words(self) -> Text:
        """The phase as it stands within a sentence."""
        return _WORDS[self]


_WORDS = {
    Phase.LOADING: text("loading"),
    Phase.NO_DATA: text("no_data"),
    Phase.IDLE: text("idle"),
    Phase.ALIGNING: text("aligning"),
    Phase.FETCHING: text("fetching"),
    Phase.TRAINING: text("training"),
    Phase.GATHERING: text("gathering"),
    Phase.AVERAGING: text("averaging"),
    Phase.MEASURING: text("measuring"),
    Phase.EXCHANGING: text("exchanging"),
}


P = Phase
# Ends of work that a newer step made pointless: they may come at any time later.
_LATE = (Trained, TrainingFailed, Evaluated, EvaluationFailed, Fetched, FetchFailed)
# The round is over, and the next of a series may open at once; a node that is not chosen for it only gathers.
_OVER = frozenset({P.IDLE, P.TRAINING, P.GATHERING})
_STARTS = frozenset({P.TRAINING, P.GATHERING})  # this node starts a round, for which it may not be chosen
_BEGINS = frozenset({P.FETCHING, P.TRAINING})  # a round opens, from a model that is here, or not here yet
_JOINS = _BEGINS | {P.GATHERING, P.IDLE}  # a round opens; while it is paused, this node sits it out
# Only an update told of the round, and its start may still come; a paused node sits it out, and may be the last.
_TOLD = frozenset({P.GATHERING, P.AVERAGING, P.IDLE})
_SAID = (UpdateReceived, UpdateOffered, DeclineReceived)
# Most peers state the average of a round that this node has no part in: it is fetched.
_MISSED = {
    ClaimReceived: frozenset({P.FETCHING}),
    PeerSeen: frozenset({P.FETCHING}),
    PeerLost: frozenset({P.FETCHING}),
}
_GATHERED = _OVER | {P.AVERAGING}  # IDLE: there was nothing to average
_ENDED = frozenset({P.GATHERING, P.AVERAGING, P.IDLE})  # a person ended the training


def _row(phase: Phase, stays: Collection[type], leads: Mapping[type, Set[Phase]]) -> Mapping[type, Set[Phase]]:
    """A phase's row: events after which it may stay as it is, and those that may lead elsewhere."""
    return {event: leads.get(event, set()) | ({phase} if event in stays else set()) for event in (*stays, *leads)}


LEGAL: Mapping[Phase, Mapping[type, Set[Phase]]] = {
    P.LOADING: _row(
        P.LOADING,
        (TrainingAsked, DeclineReceived, ClaimReceived, Restored, RoundTriggered),
        {
            Prepared: _JOINS | {P.AVERAGING, P.MEASURING},  # the last two: where an earlier run stopped
            PrepareFailed: {P.NO_DATA},
        },
    ),
    P.NO_DATA: _row(
        P.NO_DATA,
        (PrepareFailed, DeclineReceived),
        {Prepared: {P.IDLE, P.FETCHING}, DataChanged: {P.IDLE, P.FETCHING}},  # the second: as in `_MISSED`
    ),
    P.IDLE: _row(
        P.IDLE,
        (TrainingAsked, *_SAID, ClaimReceived, ClaimAnswered, RolledBack, *_LATE),
        {
            RoundTriggered: _STARTS,
            Resumed: _STARTS,  # a series goes on
            WillingnessChanged: _STARTS,  # likewise
            TimerFired: _STARTS | _JOINS,  # likewise, as nobody else has; or a start that was doubted is followed
            **_MISSED,
            PeerLost: _STARTS | _MISSED[PeerLost],
            PeerSeen: _STARTS | _MISSED[PeerSeen],  # the last one that a series waited for after a restart
            TrainingAsked: {P.AVERAGING} | _JOINS,  # the first: this node sits it out, and all updates have come
            UpdateReceived: _TOLD | _BEGINS,  # the last two: most peers are in a round whose start waited here
            UpdateOffered: {P.GATHERING} | _BEGINS,
            SendRefused: {P.GATHERING},  # of a start that this node had forgotten, whose round had no average
        },
    ),
    P.FETCHING: _row(
        P.FETCHING,
        (RoundTriggered, TrainingAsked, *_SAID, ClaimReceived, ClaimAnswered, *_LATE),
        {
            # GATHERING and IDLE: what came could not be used; MEASURING: it is the average of the others.
            Fetched: {P.MEASURING} | _GATHERED,
            FetchFailed: {P.GATHERING, P.TRAINING} | _GATHERED,
            Evaluated: {P.TRAINING} | _GATHERED,
            EvaluationFailed: {P.TRAINING} | _GATHERED,
            Paused: _ENDED,
            TrainingAsked: {P.AVERAGING} | _JOINS,
            UpdateReceived: {P.GATHERING, P.AVERAGING} | _BEGINS,  # the last two: most peers have left the round
            UpdateOffered: {P.GATHERING} | _BEGINS,
            SendRefused: {P.GATHERING, P.IDLE},  # as below, of a start that this node has forgotten
            TimerFired: {P.GATHERING, P.TRAINING, P.IDLE},  # likewise, when its time to hear them is over
        },
    ),
    P.TRAINING: _row(
        P.TRAINING,
        (TrainingAsked, *_SAID, ClaimReceived, ClaimAnswered, *_LATE),
        {
            **_MISSED,
            Trained: {P.GATHERING, P.AVERAGING, P.IDLE},  # IDLE: it gave nothing usable, and nobody else is there
            TrainingFailed: {P.GATHERING, P.AVERAGING, P.IDLE},
            Paused: _ENDED,
            TrainingAsked: {P.AVERAGING} | _JOINS,
            UpdateReceived: {P.GATHERING, P.AVERAGING} | _BEGINS,  # the last two: most peers have left the round
            UpdateOffered: {P.GATHERING} | _BEGINS,
            SendRefused: {P.GATHERING, P.IDLE},  # the mesh is ahead: start the next round and sit it out
            TimerFired: {P.GATHERING, P.IDLE},  # likewise, when its time to hear them is over
        },
    ),
    P.GATHERING: _row(
        P.GATHERING,
        (TrainingAsked, *_SAID, ClaimReceived, ClaimAnswered, *_LATE),
        {
            **_MISSED,
            UpdateReceived: {P.AVERAGING} | _BEGINS,  # the last two: as above
            UpdateOffered: {P.AVERAGING} | _BEGINS,
            Trained: _GATHERED,  # of a training that went on over rounds, for which all waited
            TrainingFailed: _GATHERED,
            DeclineReceived: _GATHERED,
            Fetched: _GATHERED,
            FetchFailed: _GATHERED,
            PeerLost: _GATHERED | _MISSED[PeerLost],
            SendRefused: _GATHERED | {P.FETCHING},  # the last: most others have averaged without this node
            TimerFired: _GATHERED | {P.TRAINING, P.FETCHING},  # the last: an average that it took before a restart
            Paused: {P.AVERAGING, P.IDLE},  # all waited for a training that went on over rounds
            RoundTriggered: {P.AVERAGING} | _STARTS,
            TrainingAsked: {P.AVERAGING} | _JOINS,
        },
    ),
    P.AVERAGING: _row(
        P.AVERAGING,
        (TrainingAsked, *_SAID, ClaimReceived, ClaimAnswered, SumSpoilt, *_LATE),
        {
            Averaged: {P.MEASURING, P.AVERAGING} | _JOINS,  # but for the first: a newer round waited
            AveragingFailed: {P.AVERAGING} | _JOINS,
        },
    ),
    P.MEASURING: _row(
        P.MEASURING,
        (RoundTriggered, TrainingAsked, *_SAID, ClaimReceived, ClaimAnswered, *_LATE),
        {
            **_MISSED,
            Evaluated: {P.EXCHANGING} | _OVER,
            EvaluationFailed: _OVER,
            TrainingAsked: {P.AVERAGING} | _JOINS,
            UpdateReceived: _TOLD | _BEGINS,
            UpdateOffered: {P.GATHERING, P.IDLE} | _BEGINS,
        },
    ),
    P.EXCHANGING: _row(
        P.EXCHANGING,
        (TrainingAsked, *_SAID, ClaimReceived, ClaimAnswered, *_LATE),
        {
            PeerSeen: _MISSED[PeerSeen],
            ClaimReceived: _OVER | _MISSED[ClaimReceived],
            ClaimAnswered: _OVER,
            Evaluated: _OVER,
            EvaluationFailed: _OVER,
            Fetched: _OVER,
            FetchFailed: _OVER,
            PeerLost: _OVER | _MISSED[PeerLost],
            SendFailed: _OVER,
            SendRefused: _OVER,
            TimerFired: _OVER,
            RoundTriggered: _STARTS,
            TrainingAsked: {P.AVERAGING} | _JOINS,
            UpdateReceived: _TOLD | _BEGINS,
            UpdateOffered: {P.GATHERING, P.IDLE} | _BEGINS,
        },
    ),
}

# What may settle the contributors of a secure sum, or show that it cannot be opened; then the next round may follow.
_SETTLES_SUM = (
    *(PartReceived, SecureStepDone, TimerFired, PeerLost, PeerSeen, ClaimReceived, *_SAID),
    *(Fetched, FetchFailed, SendRefused, Trained, TrainingFailed),
)


def _with_sums(phase: Phase, row: Mapping[type, Set[Phase]]) -> Mapping[type, Set[Phase]]:
    """The row of a job whose updates are masked (`flnet.rounds.secure_round`)."""
    if phase in (P.FETCHING, P.TRAINING, P.GATHERING, P.AVERAGING):
        return {
            **row,
            **{event: row.get(event, frozenset()) | {phase, P.AVERAGING} | _JOINS for event in _SETTLES_SUM},
        }
    # A round that opens may be settled already by what others said of it before.
    opened = {event: targets | {P.AVERAGING} if targets & _STARTS else targets for event, targets in row.items()}
    if UpdateReceived in opened:  # a part of the conversation tells of its round, too
        opened[PartReceived] = opened[UpdateReceived]
    # A trainer that is loaded may need updates one by one.
    return {**opened, Prepared: opened[Prepared] | {P.NO_DATA}} if Prepared in opened else opened


SECURE: Mapping[Phase, Mapping[type, Set[Phase]]] = {phase: _with_sums(phase, row) for phase, row in LEGAL.items()}


def _with_segments(phase: Phase, row: Mapping[type, Set[Phase]]) -> Mapping[type, Set[Phase]]:
    """The row of a job whose updates are averaged in segments (`flnet.rounds.segmented_round`).

    What brings the last segment makes the average, as the end of an averaging does for others.
    """
    made = LEGAL[P.AVERAGING][Averaged] | {P.AVERAGING}
    if phase is P.AVERAGING:
        return {**row, **{event: row[event] | made for event in (*_SETTLES_SUM, Averaged)}}
    if phase in (P.FETCHING, P.TRAINING, P.GATHERING):
        row = {**row, **{event: row[event] | made for event in _SETTLES_SUM}}
    if phase is P.GATHERING:  # a person asks for the next round, and there is nothing to average in this one
        row = {**row, RoundTriggered: row[RoundTriggered] | {P.IDLE}}
    late = (Averaged, AveragingFailed)  # a segment, which this node needs no more
    return {**row, **{event: row.get(event, frozenset()) | {phase} for event in late}}


SEGMENTED: Mapping[Phase, Mapping[type, Set[Phase]]] = {p: _with_segments(p, row) for p, row in SECURE.items()}

# The same of jobs that average with their neighbours alone (`flnet.rounds.sparse_round`): a round that opens may be over
# at once, because a node has no neighbour that trains, or has heard of all of them before.
SPARSE: Mapping[Phase, Mapping[type, Set[Phase]]] = {
    phase: {event: ends | {P.AVERAGING, P.IDLE} if ends & _STARTS else ends for event, ends in row.items()}
    for phase, row in LEGAL.items()
}

_WAKES = frozenset({P.FETCHING, P.TRAINING})  # a version is begun; without any peer, nobody is asked
_FOUND = frozenset({P.AVERAGING, P.TRAINING})  # all that could be fetched is here; the second: there was nothing

# The same of jobs without common rounds (`flnet.rounds.asynchronous_job`).
ASYNCHRONOUS: Mapping[Phase, Mapping[type, Set[Phase]]] = {
    P.LOADING: _row(
        P.LOADING, (Restored, RoundTriggered), {Prepared: _WAKES | {P.IDLE}, PrepareFailed: {P.NO_DATA}}
    ),
    P.NO_DATA: _row(
        P.NO_DATA,
        (PrepareFailed,),
        {Prepared: _WAKES | {P.IDLE}, DataChanged: _WAKES | {P.IDLE}},
    ),
    P.IDLE: _row(P.IDLE, (*_LATE, RolledBack), {RoundTriggered: _WAKES, Resumed: _WAKES}),
    P.FETCHING: _row(
        P.FETCHING,
        _LATE,
        {
            VersionAnswered: _FOUND,
            SendFailed: _FOUND,
            SendRefused: _FOUND,
            TimerFired: _FOUND,
            PeerLost: _FOUND,
            Fetched: _FOUND,
            FetchFailed: _FOUND,
            Paused: {P.IDLE},
        },
    ),
    P.AVERAGING: _row(
        P.AVERAGING,
        (SumSpoilt, *_LATE),
        {Averaged: {P.TRAINING, P.IDLE}, AveragingFailed: {P.TRAINING, P.IDLE}},  # IDLE: it was paused meanwhile
    ),
    P.TRAINING: _row(
        P.TRAINING,
        _LATE,
        {Trained: _WAKES | {P.IDLE}, TrainingFailed: _WAKES | {P.IDLE}, Paused: {P.IDLE}},
    ),
}

_TALK = (VerticalReceived, VerticalDelivered, VerticalDone, VerticalFailed)
# No phase changes by them.
_PREDICT = (PredictionAsked, OutputsComputed, PredictionComputed, PredictionNotComputed)
_ENDS = frozenset({P.IDLE, P.ALIGNING})  # the epoch is over, or given up, and the next one may begin at once
_SPLIT = _ENDS | {P.TRAINING}

# The same of jobs whose nodes hold different columns of the same rows (`flnet.rounds.vertical_job`).
VERTICAL: Mapping[Phase, Mapping[type, Set[Phase]]] = {
    P.LOADING: _row(
        P.LOADING,
        (Restored, RoundTriggered),
        {Prepared: {P.IDLE, P.ALIGNING}, PrepareFailed: {P.NO_DATA}},
    ),
    P.NO_DATA: _row(P.NO_DATA, (PrepareFailed, *_PREDICT), {Prepared: {P.IDLE}, DataChanged: _ENDS}),
    P.IDLE: _row(
        P.IDLE,
        (*_LATE, *_TALK, *_PREDICT),
        {
            RoundTriggered: _ENDS,
            Resumed: _ENDS,
            WillingnessChanged: _ENDS,
            VerticalReceived: {P.ALIGNING},
            PeerSeen: {P.ALIGNING},  # the last holder that a series waited for
            TimerFired: {P.ALIGNING},
        },
    ),
    P.ALIGNING: _row(
        P.ALIGNING,
        (*_LATE, *_TALK, *_PREDICT),
        {
            **dict.fromkeys((*_TALK, SendFailed, SendRefused, TimerFired, PeerLost), _SPLIT),
            Paused: {P.IDLE},
        },
    ),
    P.TRAINING: _row(
        P.TRAINING,
        (*_LATE, *_TALK, *_PREDICT),
        {
            **dict.fromkeys((*_TALK, SendFailed, SendRefused, TimerFired, PeerLost), _ENDS),
            Paused: {P.IDLE},
        },
    ),
}

EVERYWHERE: frozenset[type] = frozenset(
    {
        *(VersionReceived, VersionAnswered, RoundAsked, RoundAnswered),
        *(PeerSeen, PeerLost, TimerFired, SendFailed, SendRefused),
        *(PartReceived, SecureStepDone),
        *(RuleProposed, RuleAnswered, RuleWithdrawn, RulesHeard),
        *(HyperParamsEdited, SeriesStopped, Paused, Resumed, DataChanged, Planned, WillingnessChanged),
    }
)


def is_legal(
    before: Phase, event: type, after: Phase, table: Mapping[Phase, Mapping[type, Set[Phase]]] = LEGAL
) -> bool:
    """Whether this event may lead from this phase to that one."""
    return after in table[before].get(event, ()) or (event in EVERYWHERE and before == after)


def draw(table: Mapping[Phase, Mapping[type, Set[Phase]]] = LEGAL) -> str:
    """A table as a Mermaid state diagram; steps that stay in their phase are left out."""
    arrows: dict[tuple[Phase, Phase], list[str]] = {}
    for before, row in table.items():
        for event, targets in row.items():
            for after in targets - {before}:
                arrows.setdefault((before, after), []).append(event.__name__)
    lines = [f"    {a} --> {b}: {', '.join(sorted(names))}" for (a, b), names in sorted(arrows.items())]
    return "\n".join(["stateDiagram-v2", "    [*] --> LOADING", *lines])
