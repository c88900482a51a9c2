"""Whatever is lost, doubled or late: when it is over, all agree on who is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from flnet.membership.members import Members
from flnet.membership.roster import State
from flnet.membership.state import MeshState
from flnet.params.params import PeerId
from flnet.protocol.effects import Answer, CancelTimer, Effect, SendAnnounce, SendProbe, SetTimer
from flnet.protocol.events import (
    AnnounceAnswered,
    AnnounceFailed,
    AnnounceReceived,
    ContactLost,
    ContactMade,
    Event,
    Leaving,
    MeshStarted,
    ProbeAnswered,
    ProbeFailed,
    ProbeReceived,
    TimerFired,
)
from flnet.protocol.messages import AnnounceReply, ProbeReply
from tests.helpers import peer
from tests.membership.meshes import miss

HOST = "127.0.0.1"  # where as many nodes as want to may be
CALM = 300  # ticks after which a mesh without faults must agree
Call = SendProbe | SendAnnounce


@dataclass
class Mesh:
    """Some nodes, what is under way between them, and the timers that they set."""

    size: int
    seed: int = 1
    accepts: tuple[str, ...] = ()
    nodes: dict[PeerId, Members] = field(default_factory=dict)
    calls: list[tuple[PeerId, Call]] = field(default_factory=list)
    replies: list[tuple[PeerId, Event]] = field(default_factory=list)
    timers: dict[tuple[PeerId, str], float] = field(default_factory=dict)
    silent: set[PeerId] = field(default_factory=set)
    kept: dict[PeerId, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for i in range(self.size):
            self.start(PeerId(f"n{i}"))
        self.settle()

    def start(self, node: PeerId) -> None:
        """Start a node, or restart it: it knows addresses only, and what it waited for does not reach it."""
        number = int(node[1:])
        known = self.nodes[node].known.values() if node in self.nodes else ()
        kept = tuple(member.peer.address for member in known if member.alive) or self.kept.get(node, ())
        self.kept[node] = kept
        here, rng = peer(node, 4000 + number, HOST), Random(self.seed + number)
        self.nodes[node] = Members(MeshState(here, rng, accepts=self.accepts))
        self.timers = {key: left for key, left in self.timers.items() if key[0] != node}
        self.replies = [(to, event) for to, event in self.replies if to != node]
        self.calls = [(sender, call) for sender, call in self.calls if sender != node]
        self.give(node, MeshStarted((f"{HOST}:4000",), kept))

    def give(self, node: PeerId, event: Event) -> None:
        """Let an event happen, and keep what is to be done about it."""
        self._perform(node, self.nodes[node].receive(event))

    def arrive(self, sender: PeerId, call: Call) -> Event:
        """A request arrives; how it ends for the sender."""
        target = self.at(call)
        if target is None or target in self.silent:
            return lost(call)
        here, incarnation = self.nodes[sender].me, call.message.incarnation if isinstance(call, SendProbe) else 0
        if isinstance(call, SendAnnounce):
            accepts = frozenset(self.accepts)
            event: Event = AnnounceReceived(here, call.known, accepts, call.incarnation, call.members)
        else:
            m = call.message
            about, reached, missed = (
                PeerId(n) if n else None for n in (m.target and m.target.id, m.reached, m.missed)
            )
            event = ProbeReceived(here, incarnation, tuple(m.news), about, reached, missed, None, m.members_digest)
        effects = self.nodes[target].receive(event)
        (answer,) = (effect.message for effect in effects if isinstance(effect, Answer))
        self._perform(target, effects)
        if isinstance(call, SendAnnounce):
            assert isinstance(answer, AnnounceReply)
            others, members = tuple(answer.announce_yourself_to_peers), tuple(answer.members or ())
            accepts = frozenset(answer.accepts or ())
            return AnnounceAnswered(call.address, answer.i_am, others, accepts, answer.incarnation, members)
        assert isinstance(answer, ProbeReply)
        return ProbeAnswered(call.to, about, answer.incarnation, tuple(answer.news), answer.members_digest)

    def at(self, call: Call) -> PeerId | None:
        """Who is at the address that is called."""
        address = call.address if isinstance(call, SendAnnounce) else f"{HOST}:{4000 + int(call.to[1:])}"
        return next((name for name, node in self.nodes.items() if node.me.address == address), None)

    def settle(self) -> None:
        """Deliver all that is under way, in order; nothing is lost."""
        while self.calls or self.replies:
            if self.calls:
                sender, call = self.calls.pop(0)
                if sender not in self.silent:
                    self.replies.append((sender, self.arrive(sender, call)))
            if self.replies:
                self.hand_over(0)

    def hand_over(self, index: int) -> None:
        """One request ends for its sender."""
        node, event = self.replies.pop(index % len(self.replies))
        if node not in self.silent:
            self.give(node, event)

    def second(self, nodes: Sequence[PeerId] = (), late: float = 0.0) -> None:
        """A second goes by on these nodes, or on all."""
        for node in nodes or [n for n in self.nodes if n not in self.silent]:
            due = []
            for key in [key for key in self.timers if key[0] == node]:
                self.timers[key] -= 1
                if self.timers[key] <= 0:
                    due.append(key)
            for key in due:
                if self.timers.pop(key, None) is not None:
                    self.give(node, TimerFired(key[1], late if key[1] == "tick" else 0))

    def held(self) -> dict[PeerId, dict[str, str]]:
        """What each node that speaks holds the others for."""
        return {
            name: {m: member.state.value for m, member in node.known.items()}
            for name, node in self.nodes.items()
            if name not in self.silent
        }

    def agreed(self) -> dict[PeerId, dict[str, str]]:
        """What they should."""
        states = {n: (State.DEAD if n in self.silent else State.ALIVE).value for n in self.nodes}
        return {n: {m: s for m, s in states.items() if m != n} for n in self.nodes if n not in self.silent}

    def _perform(self, node: PeerId, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case SendProbe() | SendAnnounce():
                    self.calls.append((node, effect))
                case SetTimer(name, seconds):
                    self.timers[node, name] = seconds
                case CancelTimer(name):
                    self.timers.pop((node, name), None)


def lost(call: Call) -> Event:
    """How a request ends that nobody answers."""
    if isinstance(call, SendAnnounce):
        return AnnounceFailed(call.address, "lost")
    return ProbeFailed(call.to, PeerId(call.message.target.id) if call.message.target else None, "lost")


indices = st.integers(0, 1000)


class Faults(RuleBasedStateMachine):
    """Faults in any order; then they end."""

    @initialize(size=st.integers(2, 5), seed=st.integers(0, 99))
    def begin(self, size: int, seed: int) -> None:
        self.mesh = Mesh(size, seed)

    def node(self, index: int) -> PeerId:
        return list(self.mesh.nodes)[index % self.mesh.size]

    @rule(index=indices, late=st.sampled_from([0.0, 0.0, 3.0]), times=st.integers(1, 6))
    def time_passes_on_one(self, index: int, late: float, times: int) -> None:
        for _ in range(times):
            self.mesh.second([self.node(index)], late)

    @rule(times=st.integers(1, 20))
    def time_passes_and_nothing_arrives(self, times: int) -> None:
        for _ in range(times):
            self.mesh.second()
            while self.mesh.calls:
                sender, call = self.mesh.calls.pop()
                self.mesh.replies.append((sender, lost(call)))
            while self.mesh.replies:
                self.mesh.hand_over(-1)

    @precondition(lambda self: self.mesh.calls)
    @rule(index=indices, doubled=st.booleans(), answered=st.booleans())
    def one_arrives(self, index: int, doubled: bool, answered: bool) -> None:
        sender, call = self.mesh.calls.pop(index % len(self.mesh.calls))
        reply = self.mesh.arrive(sender, call)
        if doubled:
            reply = self.mesh.arrive(sender, call)
        self.mesh.replies.append((sender, reply if answered else lost(call)))

    @precondition(lambda self: self.mesh.calls)
    @rule(index=indices)
    def one_is_lost(self, index: int) -> None:
        sender, call = self.mesh.calls.pop(index % len(self.mesh.calls))
        self.mesh.replies.append((sender, lost(call)))

    @precondition(lambda self: self.mesh.replies)
    @rule(index=indices)
    def one_ends(self, index: int) -> None:
        self.mesh.hand_over(index)

    @rule(index=indices, says=st.booleans())
    def one_is_restarted(self, index: int, says: bool) -> None:
        node = self.node(index)
        if says:
            self.mesh.give(node, Leaving())
            farewells = [call for sender, call in self.mesh.calls if sender == node]
            for call in farewells[::2]:  # the others are lost
                self.mesh.arrive(node, call)
        self.mesh.start(node)

    @rule(index=indices, other=indices, lost=st.booleans())
    def other_traffic(self, index: int, other: int, lost: bool) -> None:
        node, to = self.node(index), self.node(other)
        if node != to:
            self.mesh.give(node, ContactLost(to, "lost") if lost else ContactMade(to))

    def teardown(self) -> None:
        if not hasattr(self, "mesh"):
            return
        for silent in (set(), {self.node(self.mesh.seed)}):
            self.mesh.silent |= silent
            for _ in range(CALM):
                self.mesh.settle()
                self.mesh.second()
            self.mesh.settle()
            assert self.mesh.held() == self.mesh.agreed()


# A third of the usual examples, for each of them is a mesh that has to come to rest twice.
Faults.TestCase.settings = settings(max_examples=settings().max_examples // 3, stateful_step_count=30)
TestFaults = Faults.TestCase


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("size", "most"), [(2, 5), (3, 7), (5, 7), (10, 7), (20, 8)])
def test_a_killed_node_is_dead_for_all_after_some_seconds(size: int, most: int, seed: int) -> None:
    mesh = Mesh(size, seed)
    for _ in range(5):
        mesh.second()
        mesh.settle()
    mesh.silent.add(PeerId("n1"))
    for _ in range(most):
        mesh.second()
        mesh.settle()
    assert mesh.held() == mesh.agreed()


def test_two_halves_whose_accusers_are_gone_still_become_one() -> None:
    """Those who only heard that others are dead try them again, too."""
    mesh = Mesh(4)
    a, b, c, d = mesh.nodes
    apart = {a: (c, d), c: (a, b)}
    for accuser, others in apart.items():
        for other in others:
            mesh.nodes[accuser].state.roster.accuse(other, "lost")
            mesh.nodes[accuser].state.roster.bury(other)
    for accuser, friend in ((a, b), (c, d)):
        for member in list(mesh.nodes[accuser].known.values()):
            if member.state is State.DEAD:
                miss(mesh.nodes[friend], PeerId(member.peer.id))
                mesh.give(friend, ProbeReceived(mesh.nodes[accuser].me, 0, (member.news(),)))
    mesh.calls.clear()
    assert mesh.held()[b] == {a: "alive", c: "dead", d: "dead"}
    mesh.silent |= {a, c}
    for _ in range(CALM):
        mesh.settle()
        mesh.second()
    assert (mesh.nodes[b].alive, mesh.nodes[d].alive) == ([d], [b])
