"""Whether this machine has room for many nodes, and in which of their processes they train, before any is started.

A node and its training child take memory that was measured after two rounds of 12 nodes: a node 40 MB, its child 15 MB
with a trainer in numpy and about 170 MB with a framework. Where children would not fit, nodes with a trainer without a
framework train in their own process (`FLNET_COMPUTE=thread`): each is a whole node still, but answers late while it
trains.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from flnet.cli.options import variable_name
from flnet.compute.loader import find_trainers
from flnet.errors import StartError
from flnet.settings import load_settings

NODE_MB, CHILD_MB, FRAMEWORK_MB = 45, 15, 170
FILES = 160  # open files of a node for its state, its child and its server
FILES_A_PEER = 2  # a connection each way, in the middle of a round
MB = 1_000_000


@dataclass(frozen=True)
class Machine:
    """What this machine can give.

    Attributes:
        free_mb: memory that is not in use, or that the system can take back.
        files: that one process may have open; None where there is no limit.
    """

    free_mb: float
    files: int | None = None


def this_machine() -> Machine:
    """This machine, as it is now."""
    free_mb = psutil.virtual_memory().available / MB
    try:
        import resource  # noqa: PLC0415  not on every system
    except ImportError:
        return Machine(free_mb)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return Machine(free_mb, None if hard == resource.RLIM_INFINITY else hard)


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
    (file,) = find_trainers(load_settings({"trainers": trainer}, environ, {}))
    in_own_process = environ.get(variable_name("compute")) == "thread"
    child = 0 if in_own_process else FRAMEWORK_MB if file.frameworks else CHILD_MB
    if count * (NODE_MB + child) <= machine.free_mb:
        return {}
    if child == CHILD_MB and count * NODE_MB <= machine.free_mb:
        return {"compute": "thread"}
    fitting = int(machine.free_mb // (NODE_MB + (child if file.frameworks else 0)))
    raise StartError(
        f"{count} nodes with {trainer} need about {count * (NODE_MB + child) / 1000:.1f} GB of memory, and "
        f"{machine.free_mb / 1000:.1f} GB are free: start {fitting} at most (--nodes), or a trainer without a framework"
    )
