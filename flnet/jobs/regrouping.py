"""A series of rounds after a restart: it goes on when the peers that were there are back, or after a while.

What a node would train alone before it has met its mesh again would outrun the mesh, or be refused by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flnet.effects import CancelTimer, Effect, SetTimer
from flnet.jobs.goal_steps import ALONE, DEADLINE, next_turn
from flnet.jobs.state import JobState
from flnet.jobs.steps import Phase
from flnet.params import PeerId

REGROUP = "regroup"  # timer


def regroup(s: JobState, said: Mapping[str, Any]) -> list[Effect]:
    """The trainer is loaded: wait for the peers that were there when this was saved, if a series is under way.

    The time that a goal gives a series begins anew here; jobs know no clock, and the first node whose time is over
    tells all others.
    """
    series = s.pursuit.series
    if not s.rounds_left and series is None:
        return []
    s.regroups = {PeerId(peer) for peer in said.get("peers", ())} - s.peers
    seconds = series.goal.seconds if series else None
    deadline: list[Effect] = [] if seconds is None else [SetTimer(DEADLINE, seconds)]
    if s.regroups:
        return [*deadline, SetTimer(REGROUP, ALONE * s.waits.start)]
    return [*deadline, *_go_on(s)]


def came_back(s: JobState, peer: PeerId) -> list[Effect]:
    """A peer is reachable: when it was the last one that was missing, the series goes on."""
    if peer not in s.regroups:
        return []
    s.regroups.discard(peer)
    return [] if s.regroups else [CancelTimer(REGROUP), *_go_on(s)]


def waited(s: JobState) -> list[Effect]:
    """Some peers did not come back in time: the series goes on without them."""
    if not s.regroups:
        return []
    s.regroups.clear()
    return _go_on(s)


def _go_on(s: JobState) -> list[Effect]:
    """A series with a goal looks whose turn it is; the others begin by themselves when nothing holds them."""
    return next_turn(s) if s.pursuit.series is not None and s.phase is Phase.IDLE else []
