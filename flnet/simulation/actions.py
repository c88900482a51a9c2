"""Performs the actions of a schedule on a simulated mesh."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flnet.errors import PeerError
from flnet.params.params import PeerId
from flnet.protocol.events import (
    DataChanged,
    Event,
    Leaving,
    Paused,
    Resumed,
    RoundTriggered,
    SeriesStopped,
    WillingnessChanged,
)
from flnet.simulation.cluster import Cluster
from flnet.simulation.node import TRAINER, SimulatedNode, declared, initial
from flnet.simulation.schedule import GOALS, Action

LONGEST_STALL = 8.0  # seconds
STARTING = 0.15  # seconds in which the start of a round is saved and on its way, if nothing is wrong
LEAVING = 0.5  # seconds between a node's message that it leaves and its end
HARMLESS = (
    *("trigger", "series", "goal", "stop", "pause", "resume", "go back"),
    *("new data", "new examples", "schedule", "hours end", "hours begin"),
)


class Actions:
    """Performs actions, and remembers which nodes they ended.

    Attributes:
        lost: killed nodes whose disk was lost.
        left: nodes that left.
        disturbed: virtual time at which a fault last began or ended.
        has_lost_disks: whether any node ever lost its disk.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.names = list(cluster.nodes)
        self.lost: set[PeerId] = set()
        self.left: set[PeerId] = set()
        self.disturbed = 0.0
        self.has_lost_disks = False
        self._methods: Mapping[str, Callable[[SimulatedNode, Action], object]] = {
            "trigger": lambda node, a: cluster.trigger(node.id),
            "series": lambda node, a: cluster.trigger(node.id, 2 + int(a.size * 3)),
            "goal": lambda node, a: cluster.trigger(node.id, 2 + a.other % 6, GOALS[int(a.size * len(GOALS))]),
            "stop": lambda node, a: self.command(node, SeriesStopped()),
            "pause": lambda node, a: self.command(node, Paused()),
            "resume": lambda node, a: self.command(node, Resumed()),
            "go back": self._roll_back,
            "new data": lambda node, a: self.command(node, DataChanged(declared(), initial(a.other))),
            "new examples": lambda node, a: self.command(node, DataChanged(declared(), initial(0), 1 + a.other)),
            "schedule": lambda node, a: self.command(node, RoundTriggered(why="it is time")),
            "hours end": lambda node, a: self.command(node, WillingnessChanged("outside of its hours")),
            "hours begin": lambda node, a: self.command(node, WillingnessChanged()),
            "kill": lambda node, a: self.kill(node, refuses=a.size < 0.5),
            "kill and lose the disk": self._lose_disk,
            "forget": self._forget,
            "leave": self._leave,
            "start": self._start,
            "cut one way": self._cut_one_way,
            "isolate": lambda node, a: self._isolate(node),
            "part": self._split,
            "heal": lambda node, a: cluster.heal(),
            "break the disk": lambda node, a: self._break_disk(node),
            "mend the disk": lambda node, a: self._repair_disks(),
            "stall": lambda node, a: node.stall(a.size * LONGEST_STALL),
            "clock runs off": lambda node, a: self._change_clock_rate(node, 0.5 + a.size * 1.5),
            "clock jumps": lambda node, a: node.local.jump((a.size - 0.5) * 60),
            "slow down": lambda node, a: self._slow_down(node),
        }

    def perform(self, action: Action) -> None:
        """Perform an action, as far as it is possible."""
        node = self.cluster.nodes[self.names[action.node % len(self.names)]]
        if node.is_dead and action.kind not in ("start", "heal", "part"):
            return
        self._methods[action.kind](node, action)
        if action.kind not in HARMLESS:
            lasts = LONGEST_STALL if action.kind == "stall" else 0
            self.disturbed = max(self.disturbed, self.cluster.clock.now + lasts)

    def kill(self, node: SimulatedNode, *, refuses: bool) -> None:
        """Kill a node; connections to its machine fail at once from now on, or time out."""
        if refuses:
            self.cluster.network.refusing.add(node.address)
        self.cluster.kill(node.id)

    def revive(self, node: SimulatedNode) -> None:
        """Restart a dead node, with its disk unless that was lost."""
        keeps_disk = node.id not in self.lost
        self.lost.discard(node.id)
        self.left.discard(node.id)
        self.cluster.restart(node, keeps_disk=keeps_disk)

    def end_faults(self) -> None:
        """Repair everything except dead nodes, and end series, pauses and hours."""
        self.cluster.heal()
        for node in self.cluster.alive:
            node.disk.fails = False
            node.local.rate = node.slowness = 1.0
            for command in (SeriesStopped(), Resumed(), WillingnessChanged()):
                self.command(node, command)

    def disturb(self, ending: str, node: SimulatedNode, size: float) -> None:
        """Disturb one node in the middle of a round, in one of the ways of ENDINGS.

        Args:
            size: in [0, 1]; when, or for how long.
        """
        cluster = self.cluster
        cluster.run_for(STARTING)
        match ending:
            case "one dies":
                cluster.run_for(size)
                self.kill(node, refuses=False)
            case "one blinks":
                self._isolate(node)
                cluster.run_for(0.2 + size)
                cluster.heal()
            case "one reboots":
                _run_until_trained(cluster, node)
                cluster.run_for(size * 0.05)
                self.kill(node, refuses=True)
                cluster.run_for(size)
                self.revive(node)
            case _:
                pass

    def command(self, node: SimulatedNode, event: Event) -> None:
        """Let a person or a schedule say something to a node."""
        try:
            node.hear(TRAINER, event)
        except PeerError as exc:
            self.cluster.log(node.id, f"refuses: {exc}")

    def _roll_back(self, node: SimulatedNode, action: Action) -> None:
        if node.models:
            self.command(node, node.models[sorted(node.models)[int(action.size * len(node.models))]])

    def _lose_disk(self, node: SimulatedNode, action: Action) -> None:
        self.kill(node, refuses=action.size < 0.5)
        self.lost.add(node.id)
        self.has_lost_disks = True

    def _forget(self, node: SimulatedNode, action: Action) -> None:
        """Kill the node that started the newest round, and restart it without its disk before it is missed."""
        newest = max((n.job.key for n in self.cluster.alive if n.job.key), default=None)
        node = self.cluster.nodes.get(newest.initiator, node) if newest else node
        if node.is_dead:
            return
        self._lose_disk(node, action)

        def come_back() -> None:
            if node.id in self.lost:
                self.revive(self.cluster.nodes[node.id])

        self.cluster.clock.after(action.size, come_back)

    def _leave(self, node: SimulatedNode, action: Action) -> None:
        node.tell(None, Leaving())
        self.left.add(node.id)

        def end() -> None:
            if not node.is_dead:
                self.kill(node, refuses=True)

        self.cluster.clock.after(LEAVING, end)

    def _start(self, node: SimulatedNode, action: Action) -> None:
        dead = node if node.is_dead else next((n for n in self.cluster.nodes.values() if n.is_dead), None)
        if dead is not None:
            self.revive(dead)

    def _cut_one_way(self, node: SimulatedNode, action: Action) -> None:
        other = self.names[action.other % len(self.names)]
        if other != node.id:
            self.cluster.network.cuts.add((node.id, other))

    def _isolate(self, node: SimulatedNode) -> None:
        self.cluster.cut([node.id], [name for name in self.names if name != node.id])

    def _split(self, node: SimulatedNode, action: Action) -> None:
        """Split the mesh in two parts."""
        first, size = action.other % len(self.names), 1 + int(action.size * (len(self.names) - 1))
        turned = [*self.names[first:], *self.names[:first]]
        self.cluster.cut(turned[:size], turned[size:])

    def _break_disk(self, node: SimulatedNode) -> None:
        node.disk.fails = True

    def _repair_disks(self) -> None:
        for node in self.cluster.alive:
            node.disk.fails = False

    def _change_clock_rate(self, node: SimulatedNode, rate: float) -> None:
        node.local.rate = rate

    def _slow_down(self, node: SimulatedNode) -> None:
        node.slowness = 10.0


def _run_until_trained(cluster: Cluster, node: SimulatedNode) -> None:
    """Run until a node has trained for the round that it is in."""
    job, number = node.job, node.job.number
    for _ in range(100):
        if job.held.own_of(job.key) is not None and job.number > number - 1 and node.is_busy:
            return
        cluster.run_for(0.02)
