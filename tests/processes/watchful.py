"""A hurried node that also looks five times as often whether its peers live: `python -m tests.processes.watchful run ...`.

For tests of what follows from a peer's silence, or from words that a silent peer is to hear. A peer may take as long to
answer as usual; it is suspected for five seconds before it counts as dead, however few suspect it.
That is for a node whose peers are the test's own: on a busy machine, real nodes would be suspected too soon.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from flnet.__main__ import main
from flnet.membership.probing import Pauses
from flnet.node import build
from flnet.node.core import NodeCore
from tests.processes.hurried import hurry


def watch() -> None:
    """Let every node of this process wait less between two steps of probing."""
    watching: Any = build
    watching.NodeCore = partial(NodeCore, pauses=Pauses(tick=0.2, suspicion=25, patience=1, longest=1.0))


if __name__ == "__main__":
    hurry()
    watch()
    main()
