"""What is done to nodes while they train: seeded, one at a time, each undone after a while."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from tests.hosts.mesh import HostMesh
from tests.processes.harness import Harness, RealNode

KINDS = ("kill", "stop", "cut", "part")
SPARED = 2  # of the nodes are never killed, so that their memory can be followed from beginning to end
SHORT, LONG = 5.0, 20.0  # seconds that a fault lasts


@dataclass(frozen=True)
class Fault:
    """One fault: its kind, the node that it befalls, another one, and how long it lasts in seconds."""

    kind: str
    node: int
    other: int
    seconds: float

    def __str__(self) -> str:
        beside = f" from n{self.other}" if self.kind == "cut" else ""
        return f"{self.kind} n{self.node}{beside} for {self.seconds:.0f} s"


def draw(
    chance: Random, nodes: int, kinds: Sequence[str], shortest: float = SHORT, longest: float = LONG
) -> Fault:
    """The next fault; it lasts between these times, in seconds."""
    kind = chance.choice(list(kinds))
    node = chance.randrange(SPARED, nodes) if kind == "kill" else chance.randrange(nodes)
    other = chance.choice([index for index in range(nodes) if index != node])
    return Fault(kind, node, other, chance.uniform(shortest, longest))


def possible(harness: Harness) -> Sequence[str]:
    """Networks can be cut only where nodes are hosts."""
    return KINDS if isinstance(harness, HostMesh) else KINDS[:2]


def befall(harness: Harness, fault: Fault, meanwhile: Callable[[float], None]) -> None:
    """Let it happen, let time pass, and undo it; whatever happens meanwhile, it is undone."""
    node = harness.nodes[fault.node]
    _begin(harness, fault, node)
    try:
        meanwhile(fault.seconds)
    finally:
        _undo(harness, fault, node)


def _begin(harness: Harness, fault: Fault, node: RealNode) -> None:
    if fault.kind == "kill":
        node.kill()
    elif fault.kind == "stop":
        node.process.send_signal(signal.SIGSTOP)
    else:
        assert isinstance(harness, HostMesh)
        if fault.kind == "cut":
            harness.rules.cut(fault.other, fault.node)
        else:
            harness.rules.part([fault.node])


def _undo(harness: Harness, fault: Fault, node: RealNode) -> None:
    if fault.kind == "kill":
        harness.again(node)
    elif fault.kind == "stop":
        node.process.send_signal(signal.SIGCONT)
    else:
        assert isinstance(harness, HostMesh)
        harness.rules.heal()


def passing(look: Callable[[], None], pause: float = 1.0) -> Callable[[float], None]:
    """What lets time pass, and looks again and again meanwhile."""

    def meanwhile(seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            look()
            time.sleep(min(pause, max(0.0, left)))

    return meanwhile
