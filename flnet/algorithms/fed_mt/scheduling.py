"""Schedules of meshes whose nodes label differently: which nodes train in a round, and with how many steps.

Q. Zhang et al., "FedMT: Federated Learning with Mixed-type Labels", arXiv 2210.02042, Algorithm 1, without its
server: what the server does there, every node with labels of the desired space does here, and everybody averages.

- "two-phase", as printed: nodes of the desired space train, all average; the others train from that, all average.
- "parallel": all train from one model, one average.
- "pipelined": all train at once, each kind from the average of the other kind's last models. These are two runs of
  the first schedule side by side, of which neither ever learns from the other: a fine node's model of one exchange
  comes from the others' of the last, that from fine nodes' of the one before, and so on.
- "coarse-first", as people do without FedMT: the others train, and from some round on nodes of the desired space.

The algorithm has one number of steps for all. A pass over the data is no measure for it: a node of 50 rows would
make 4 steps where one of 350 makes 22, and the many would settle what the few had no time to say.
"""

from __future__ import annotations

from typing import Literal

from flnet.protocol.events import Schedule

Phase = Literal["desired", "others", "all"]  # whose nodes train


def phase(schedule: Schedule, number: int, warming: bool = False, turning: int = 0) -> Phase:
    """Whose nodes train in exchange `number`, from 0; while it is warming up, those of the desired space.

    Args:
        turning: of "coarse-first" the first exchange for nodes of the desired space.
    """
    if warming:
        return "desired"
    if schedule == "two-phase":
        return "others" if number % 2 else "desired"
    if schedule == "coarse-first":
        return "others" if number < turning else "desired"
    return "all"


def trains(now: Phase, desired: bool) -> bool:
    """Whether a node trains in this phase; `desired`: it has labels of the desired space."""
    return now == "all" or (now == "desired") == desired
