"""Measure how soon a dead node is declared dead by all, and how often a live one is, in simulated meshes.

`python -m tests.simulation.deaths` prints the figures of docs/testing-faults.md.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from random import Random

from flnet.membership.roster import State
from flnet.params.params import PeerId
from flnet.simulation.cluster import Cluster
from flnet.simulation.schedule import Faults

BAD_LINES = Faults(delay=(0.1, 0.1), lose_request=0.05, lose_reply=0.05, training=(0.2, 1.0))
GOOD_LINES = Faults(delay=(0.01, 0.05))
VICTIM = PeerId("n07")
STALL = 0.8  # longest stall of a busy node's event loop, in seconds
JOINING = 20.0


def joined(seed: int, faults: Faults, size: int = 20) -> Cluster:
    """A mesh with the default timing whose nodes have found each other."""
    cluster = Cluster(size, seed, faults)
    cluster.start()
    cluster.run_for(JOINING)
    return cluster


def seconds_until_dead_for_all(seed: int, *, refuses: bool, faults: Faults, size: int = 20) -> float:
    """How long after a kill the last of the other nodes declares that node dead, to a tenth of a second.

    Args:
        refuses: whether its machine refuses connections from then on, or does not answer.
    """
    cluster = joined(seed, faults, size)
    cluster.run_for(Random(seed).random())
    dead = cluster.kill(VICTIM)
    if refuses:
        cluster.network.refusing.add(dead.address)
    at = cluster.clock.now
    while any(node.core.members.known[VICTIM].alive for node in cluster.alive):
        cluster.run_for(0.1)
        if cluster.clock.now > at + 300:
            raise AssertionError(f"seed {seed}: some nodes still hold {VICTIM} for alive")
    return cluster.clock.now - at


class Deaths:
    """Records which nodes hold a live node for dead."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.false: set[tuple[PeerId, PeerId]] = set()

    def watch(self, seconds: float) -> None:
        """Let time pass, and look every second."""
        end = self.cluster.clock.now + seconds
        while self.cluster.clock.now < end:
            self.cluster.run_for(1.0)
            self.false |= set(self._held_for_dead())

    def _held_for_dead(self) -> Iterator[tuple[PeerId, PeerId]]:
        alive = {node.id for node in self.cluster.alive}
        for node in self.cluster.alive:
            for name, member in node.core.members.known.items():
                if member.state is State.DEAD and name in alive:
                    yield node.id, name


def keep_busy(cluster: Cluster, name: PeerId, rng: Random) -> None:
    """Stall a node's event loop again and again, each time for up to STALL."""
    node = cluster.nodes[name]

    def again() -> None:
        if not node.is_dead:
            node.stall(rng.uniform(0, STALL))
            cluster.clock.after(rng.uniform(0, 3 * STALL), again, background=True)

    cluster.clock.after(rng.uniform(0, STALL), again, background=True)


def false_deaths(seed: int, seconds: float, size: int = 20) -> int:
    """How often a node was declared dead in a mesh in which all nodes are alive and busy."""
    cluster, rng = joined(seed, GOOD_LINES, size), Random(seed)
    for name in cluster.nodes:
        keep_busy(cluster, name, rng)
    deaths = Deaths(cluster)
    deaths.watch(seconds)
    return len(deaths.false)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.deaths", description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--nodes", type=int, default=20)
    given = parser.parse_args()
    for what, refuses, faults in (
        ("killed, its machine refuses connections", True, GOOD_LINES),
        ("killed with its machine", False, GOOD_LINES),
        ("killed with its machine, lines of 100 ms that lose 5 % each way", False, BAD_LINES),
    ):
        took = [
            seconds_until_dead_for_all(seed, refuses=refuses, faults=faults, size=given.nodes)
            for seed in range(given.seeds)
        ]
        print(f"{what}: median {statistics.median(took):.1f} s, worst {max(took):.1f} s", flush=True)
    print(f"an hour of busy loops: {false_deaths(1, 3600.0, given.nodes)} false deaths", flush=True)


if __name__ == "__main__":
    main()
