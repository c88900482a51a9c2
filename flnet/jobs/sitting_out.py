"""Why a node does not train in a round that it hears of, in the words that its peers read."""

from __future__ import annotations

from flnet.jobs.opening import Opening
from flnet.jobs.state import PAUSED, JobState
from flnet.labels import phase, trains

TOO_EARLY = "the first rounds are for nodes labelled otherwise"
TOO_LATE = "the last rounds are for nodes with labels of the desired space"
APART = "a person here went back to another model than the one that this round starts from"


def why_not(s: JobState, opening: Opening) -> str:
    """Why this node does not train in a round; empty if it does."""
    assert s.model is not None
    start = opening.start
    if s.rolled_back and start is not None and s.base is None and start.digest != s.model.shared.digest:
        return APART
    if s.paused:
        return PAUSED
    return _out_of_turn(s) or ("" if opening.started_by(s.my_id) else s.unwilling)


def _out_of_turn(s: JobState) -> str:
    """Where nodes with labels of the desired space and all others take turns: that it is not this node's."""
    turn = s.declaration.turn if s.declaration else None
    if turn is None or trains(phase(turn.schedule, s.number, turning=turn.turning), turn.is_desired):
        return ""
    if turn.schedule == "coarse-first":
        return TOO_EARLY if turn.is_desired else TOO_LATE
    kind = "labelled otherwise" if turn.is_desired else "with labels of the desired space"
    return f"this round is for nodes {kind}; it trains in the next one"
