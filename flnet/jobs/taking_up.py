"""How a node without common rounds goes on after a restart, or after it was in common rounds before."""

from __future__ import annotations

from flnet.effects import Effect, SetTimer
from flnet.jobs.goal_steps import DEADLINE
from flnet.jobs.keeping import OPEN
from flnet.jobs.pursuit import Pursuit
from flnet.jobs.restoring import own_update
from flnet.jobs.state import JobState
from flnet.jobs.steps import Phase
from flnet.params import PeerId, RoundKey, Update
from flnet.rounds import Versions


def taken_up(s: JobState) -> tuple[bool, list[Effect]]:
    """Use what was kept, now that the trainer is loaded.

    Returns:
        Whether a version was under way, that is begun again; and what follows.
    """
    event, s.restored = s.restored, None
    s.record = None
    if event is None or s.model is None or s.key is None:
        return False, []
    if s.error is not None:  # another model than all that was about
        s.rounds_left, s.pursuit, s.versions = 0, Pursuit(), Versions()
        return False, []
    said = event.snapshot
    if not said.get("asynchronous"):
        _after_common_rounds(s)
    elif said.get("own") is not None and event.sent is not None:
        s.own = own_update(s, said["own"], event.sent)
        s.sent = s.own.params if s.own else None
    again = Phase(said["phase"]) in OPEN
    if s.paused:
        s.rounds_left, again = s.rounds_left + again, False
    if (series := s.pursuit.series) is None:
        return again, []
    s.pursuit.due = not again
    seconds = series.goal.seconds
    return again, [] if seconds is None else [SetTimer(DEADLINE, seconds)]


def _after_common_rounds(s: JobState) -> None:
    """The model of the last round is the first version, if this node has averaged one."""
    assert s.model is not None and s.key is not None and s.declaration is not None
    if s.model.round < 0:
        return
    rows = s.declaration.data.get("rows")
    trained_on = rows.get("train") if isinstance(rows, dict) else None
    key = RoundKey(s.number, PeerId(s.my_id))
    s.sent = s.model.shared
    s.own = Update(s.my_id, key, s.sent, trained_on if isinstance(trained_on, int) else 1, accuracy=s.accuracy)
