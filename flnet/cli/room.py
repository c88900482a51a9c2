"""Whether this machine has room for many nodes, and in which processes they train, before any is started.

Memory was measured with MNIST (`Pss` of /proc). Of 12 nodes each takes 48 MB after two rounds, and its training child 124
to 193 MB; with a trainer in numpy 15 MB. A node also holds the updates of all others until they are averaged, 0.44 MB each:
of 100 nodes, each takes up to 86 MB then.

Where children do not fit, nodes with a trainer without a framework train in their own process (`FLNET_COMPUTE=thread`):
each is a whole node still, but answers late while it trains. Nodes with a framework share one child
(`FLNET_COMPUTE=shared`), which trains them one after the other. It took 357 MB for 12 nodes with all of MNIST between them,
and the three processes from which nodes and children are forked took 161 MB. Each of 40 nodes added 0.5 MB and its data: 8
MB where nodes have unlike parts of MNIST, since each then has all published test digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import psutil

from flnet.cli.options import variable_name
from flnet.compute.loader import find_trainers
from flnet.compute.training_child import can_fork_children
from flnet.errors import StartError
from flnet.settings import load_settings

NODE_MB, CHILD_MB, FRAMEWORK_MB = 45, 15, 170
UPDATE_MB = 0.4  # of a model in a framework; those of trainers without one are small
SHARED_MB, PLACE_MB = (
    520,
    5,
)  # of the child that nodes share with what it is forked from, and of what each has in it
FILES = 160  # open files of a node for its state, its child and its server
FILES_A_PEER = 2  # a connection each way, in the middle of a round
MB = 1_000_000


@dataclass(frozen=True)
class Machine:
    """What this machine can give.

    Attributes:
        free_mb: memory that is not in use, or that the system can take back.
        files: that one process may have open; None where there is no limit.
        can_share: whether its nodes can share a training child.
    """

    free_mb: float
    files: int | None = None
    can_share: bool = True


def this_machine() -> Machine:
    """This machine, as it is now."""
    free_mb = psutil.virtual_memory().available / MB
    try:
        import resource  # noqa: PLC0415  not on every system
    except ImportError:
        return Machine(free_mb, can_share=can_fork_children())
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return Machine(free_mb, None if hard == resource.RLIM_INFINITY else hard, can_fork_children())


def settings_for_room(
    trainer: str, count: int, machine: Machine, environ: Mapping[str, str]
) -> Mapping[str, object]:
    """Settings of all nodes by which they fit this machine; none if they fit anyway.

    Args:
        trainer: what all of them train.
        count: nodes.
        environ: of the nodes.

    Raises:
        StartError: there is not enough memory, or a process may not open enough files.
        SettingsError: there is no such trainer.
    """
    files = FILES + FILES_A_PEER * count
    if machine.files is not None and files > machine.files:
        raise StartError(
            f"each of {count} nodes opens up to {files} files, and this system allows {machine.files}: "
            f"raise that (ulimit -n {files}), or start fewer with --nodes"
        )
    # Where it is to train is decided here, and not by what the settings of a single node could be.
    (file,) = find_trainers(load_settings({"trainers": trainer, "compute": "process"}, environ, {}))
    usual, needed = environ.get(variable_name("compute")) or "process", partial(_needed_mb, bool(file.frameworks))
    ways = [usual]
    if usual == "process" and not file.frameworks:
        ways.append("thread")
    if usual == "process" and file.frameworks and machine.can_share:
        ways.append("shared")
    for way in ways:
        if needed(way, count) <= machine.free_mb:
            return {} if way == usual else {"compute": way}
    fitting = next(less for less in range(count, -1, -1) if not less or needed(ways[-1], less) <= machine.free_mb)
    raise StartError(
        f"{count} nodes with {trainer} need about {needed(ways[-1], count) / 1000:.1f} GB of memory, and "
        f"{machine.free_mb / 1000:.1f} GB are free: start {fitting} at most (--nodes), or a trainer without a framework"
    )


def _needed_mb(has_framework: bool, way: str, count: int) -> float:
    """Memory of so many nodes that train in this way (FLNET_COMPUTE)."""
    node = NODE_MB + (UPDATE_MB * count if has_framework else 0)
    if way == "shared":
        return count * (node + PLACE_MB) + SHARED_MB
    child = 0 if way == "thread" else FRAMEWORK_MB if has_framework else CHILD_MB
    return count * (node + child)
