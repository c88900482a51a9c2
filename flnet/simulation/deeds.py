"""How each deed of a schedule is done to a simulated mesh."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flnet.errors import PeerError
from flnet.events import (
    DataChanged,
    Event,
    Leaving,
    Paused,
    Resumed,
    RoundTriggered,
    SeriesStopped,
    WillingnessChanged,
)
from flnet.params import PeerId
from flnet.simulation.cluster import Cluster
from flnet.simulation.node import TRAINER, SimulatedNode
from flnet.simulation.restarts import kill, start_again
from flnet.simulation.schedule import GOALS, Action
from flnet.simulation.work import declared, initial

LONGEST_STALL = 8.0  # seconds
SAID = 0.15  # seconds in which the start of a round is saved and on its way, where all is well
HARMLESS = (
    *("trigger", "series", "goal", "stop", "pause", "resume", "go back"),
    *("new data", "new examples", "schedule", "hours end", "hours begin"),
)
FAREWELL = 0.5  # seconds between the word that a node leaves and its end


class Deeds:
    """Does what schedules say, and remembers who is gone.

    Attributes:
        has_lost_disks: whether any node ever lost its disk.
        lost: nodes whose disk was lost when they were killed.
        disturbed: when a fault was last begun or ended, in seconds of the virtual clock.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.names = list(cluster.nodes)
        self.lost: set[PeerId] = set()
        self.left: set[PeerId] = set()
        self.disturbed = 0.0
        self.has_lost_disks = False
        self._how: Mapping[str, Callable[[SimulatedNode, Action], None]] = {
            "trigger": lambda node, a: self._asks(node, 1),
            "series": lambda node, a: self._asks(node, 2 + int(a.size * 3)),
            "goal": lambda node, a: self._asks(node, 2 + a.other % 6, GOALS[int(a.size * len(GOALS))]),
            "stop": lambda node, a: self._orders(node, SeriesStopped()),
            "pause": lambda node, a: self._orders(node, Paused()),
            "resume": lambda node, a: self._orders(node, Resumed()),
            "go back": self._go_back,
            "new data": self._new_data,
            "new examples": lambda node, a: self._orders(node, DataChanged(declared(), initial(0), 1 + a.other)),
            "schedule": lambda node, a: self._orders(node, RoundTriggered(why="it is time")),
            "hours end": lambda node, a: self._orders(node, WillingnessChanged("outside of its hours")),
            "hours begin": lambda node, a: self._orders(node, WillingnessChanged()),
            "kill": lambda node, a: self.kill(node, refuses=a.size < 0.5),
            "kill and lose the disk": self._lose,
            "forget": self._forget,
            "leave": self._leave,
            "start": self._start,
            "cut one way": self._cut_one_way,
            "isolate": lambda node, a: cluster.cut([node.id], [n for n in self.names if n != node.id]),
            "part": self._part,
            "heal": lambda node, a: cluster.heal(),
            "break the disk": self._break_disk,
            "mend the disk": self._mend_disk,
            "stall": lambda node, a: node.stall(a.size * LONGEST_STALL),
            "clock runs off": self._run_off,
            "clock jumps": lambda node, a: node.local.jump((a.size - 0.5) * 60),
            "slow down": self._slow_down,
        }

    def do(self, action: Action) -> None:
        """Let it happen, as far as it can."""
        node = self.cluster.nodes[self.names[action.node % len(self.names)]]
        if node.is_dead and action.deed not in ("start", "heal", "part"):
            return
        self._how[action.deed](node, action)
        if action.deed not in HARMLESS:
            self.disturbed = max(
                self.disturbed, self.cluster.clock.now + (LONGEST_STALL if action.deed == "stall" else 0)
            )

    def kill(self, node: SimulatedNode, *, refuses: bool) -> None:
        """Kill a node; its machine goes with it, or refuses connections from now on."""
        if refuses:
            self.cluster.network.refusing.add(node.address)
        kill(self.cluster, node.id)

    def revive(self, node: SimulatedNode) -> None:
        """Start a dead node again, on the disk that it left."""
        keeps = node.id not in self.lost
        self.lost.discard(node.id)
        self.left.discard(node.id)
        start_again(self.cluster, node, keeps=keeps)

    def end_faults(self) -> None:
        """All that is broken is whole from now on, but for the dead."""
        self.cluster.heal()
        for node in self.cluster.alive:
            node.disk.fails = False
            node.local.rate = node.slowness = 1.0
            self._orders(node, SeriesStopped())
            self._orders(node, Resumed())
            self._orders(node, WillingnessChanged())

    def _asks(self, node: SimulatedNode, rounds: int, until: str | None = None) -> None:
        self.cluster.trigger(node.id, rounds, until)

    def _orders(self, node: SimulatedNode, order: Event) -> None:
        try:
            node.hear(TRAINER, order)
        except PeerError as exc:
            self.cluster.says(node.id, f"refuses: {exc}")

    def _go_back(self, node: SimulatedNode, action: Action) -> None:
        if node.shelf:
            self._orders(node, node.shelf[sorted(node.shelf)[int(action.size * len(node.shelf))]])

    def _new_data(self, node: SimulatedNode, action: Action) -> None:
        self._orders(node, DataChanged(declared(), initial(action.other)))

    def _lose(self, node: SimulatedNode, action: Action) -> None:
        self.kill(node, refuses=action.size < 0.5)
        self.lost.add(node.id)
        self.has_lost_disks = True

    def _forget(self, node: SimulatedNode, action: Action) -> None:
        """Who started the newest round is killed, loses its disk, and is there again before anyone misses it."""
        newest = max((n.job.state.key for n in self.cluster.alive if n.job.state.key), default=None)
        node = self.cluster.nodes[newest.initiator] if newest else node
        if node.is_dead:
            return
        self._lose(node, action)

        def come_back() -> None:
            if node.id in self.lost:
                self.revive(self.cluster.nodes[node.id])

        self.cluster.clock.after(action.size, come_back)

    def _leave(self, node: SimulatedNode, action: Action) -> None:
        node.tell(None, Leaving())
        self.left.add(node.id)

        def go() -> None:
            if not node.is_dead:
                self.kill(node, refuses=True)

        self.cluster.clock.after(FAREWELL, go)

    def _start(self, node: SimulatedNode, action: Action) -> None:
        dead = node if node.is_dead else next((n for n in self.cluster.nodes.values() if n.is_dead), None)
        if dead is not None:
            self.revive(dead)

    def _cut_one_way(self, node: SimulatedNode, action: Action) -> None:
        other = self.names[action.other % len(self.names)]
        if other != node.id:
            self.cluster.network.cuts.add((node.id, other))

    def _part(self, node: SimulatedNode, action: Action) -> None:
        at = 1 + int(action.size * (len(self.names) - 1))
        turned = [*self.names[action.other % len(self.names) :], *self.names[: action.other % len(self.names)]]
        self.cluster.cut(turned[:at], turned[at:])

    def _break_disk(self, node: SimulatedNode, action: Action) -> None:
        node.disk.fails = True

    def _mend_disk(self, node: SimulatedNode, action: Action) -> None:
        for one in self.cluster.alive:
            one.disk.fails = False

    def _run_off(self, node: SimulatedNode, action: Action) -> None:
        node.local.rate = 0.5 + action.size * 1.5

    def _slow_down(self, node: SimulatedNode, action: Action) -> None:
        node.slowness = 10.0


def befall(deeds: Deeds, ending: str, node: SimulatedNode, size: float) -> None:
    """Let something happen to one node in the middle of a round, in one of the ways of ENDINGS.

    Args:
        size: in [0, 1]; when, or for how long.
    """
    cluster = deeds.cluster
    cluster.run_for(SAID)
    match ending:
        case "one dies":
            cluster.run_for(size)
            deeds.kill(node, refuses=False)
        case "one blinks":
            cluster.cut([node.id], [name for name in cluster.nodes if name != node.id])
            cluster.run_for(0.2 + size)
            cluster.heal()
        case "one reboots":
            _until_it_has_spoken(cluster, node)
            cluster.run_for(size * 0.05)
            deeds.kill(node, refuses=True)
            cluster.run_for(size)
            deeds.revive(node)
        case _:
            pass


def _until_it_has_spoken(cluster: Cluster, node: SimulatedNode) -> None:
    state, number = node.job.state, node.job.state.number
    for _ in range(100):
        if state.own is not None and state.own.key == state.key and state.number > number - 1 and node.is_busy:
            return
        cluster.run_for(0.02)
