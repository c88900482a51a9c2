"""A node that looks for news more often than others: `python -m tests.processes.hurried run ...`, else `flnet run`."""

from __future__ import annotations

from functools import partial
from typing import Any

from flnet.__main__ import main
from flnet.membership.probing import Pauses
from flnet.node import build, data_import, schedules, trust
from flnet.node.core import NodeCore


def hurry() -> None:
    """Let every node of this process wait less between two looks, and between two announcements."""
    hurried: Any = build
    hurried.NodeCore = partial(NodeCore, pauses=Pauses(longest=1.0))
    data_import.EVERY_SECONDS = data_import.STILL_SECONDS = schedules.EVERY_SECONDS = 0.5
    trust.PAUSE_SECONDS = trust.HURRY_SECONDS = 0.25


if __name__ == "__main__":
    hurry()
    main()
