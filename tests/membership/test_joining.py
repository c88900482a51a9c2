"""From any connected graph of bootstrap addresses everyone comes to know everyone; and a mesh has bounds."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from flnet.effects import Answer, Effect, Publish, SendAnnounce, SetTimer, TellJobs
from flnet.events import (
    AnnounceAnswered,
    AnnounceFailed,
    AnnounceReceived,
    MeshStarted,
    TimerFired,
)
from flnet.membership import Members, MeshState
from flnet.messages import AnnounceReply
from tests.helpers import peer
from tests.membership.meshes import announced, at, members, of

# --- bounds


def test_at_most_256_peers_are_known() -> None:
    m = members()
    for i in range(300):
        m.receive(AnnounceReceived(peer(f"p{i}", 1000 + i)))
    assert len(m.known) == 256
    effects = m.receive(AnnounceReceived(peer("late", 9)))
    assert (of(Publish, effects)[0].kind, of(TellJobs, effects)) == ("mesh_full", [])
    assert len(of(Answer, effects)) == 1  # it is answered all the same
    assert of(TellJobs, m.receive(AnnounceReceived(peer("p0", 5000)))) == []  # a known peer may still move


def test_a_stranger_cannot_make_a_node_knock_at_more_addresses_than_it_has_room_for() -> None:
    m = members()
    knocked = set()
    for i in range(4):
        named = tuple(peer(f"x{i}-{j}", 1 + 300 * i + j) for j in range(256))
        knocked.update(announced(m.receive(AnnounceReceived(at("a"), named))))
        for knocked_at in list(m.state.announcer.asking):
            m.receive(AnnounceFailed(knocked_at, "nobody there"))
    assert len(knocked) <= 256


def test_the_peers_that_are_named_are_at_most_256() -> None:
    m = members()
    for i in range(256):
        m.receive(AnnounceReceived(peer(f"p{i}", 1000 + i)))
    (answer,) = of(Answer, m.receive(AnnounceReceived(at("z"))))
    assert isinstance(answer.message, AnnounceReply)
    assert len(answer.message.announce_yourself_to_peers) == 256


# --- the whole mesh


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    """For each node the nodes that it is told of; connected when the direction of telling is ignored."""
    size = draw(st.integers(2, 7))
    told: list[list[int]] = [[] for _ in range(size)]
    for node in range(1, size):
        other = draw(st.integers(0, node - 1))
        a, b = draw(st.permutations([node, other]))
        told[a].append(b)
    for node in range(size):
        told[node] += draw(st.lists(st.integers(0, size - 1), max_size=2))  # more of them, itself included
    return told


def join(told: Sequence[Sequence[int]], order: Sequence[int], picks: Sequence[int]) -> list[Members]:
    """Start the nodes in this order and deliver announcements until it is quiet; no refresh is needed."""
    mesh = [Members(MeshState(peer(f"n{i}", 4000 + i, "10.0.0.1"), Random(i))) for i in range(len(told))]
    starts, due, chosen = deque(order), deque[tuple[int, SendAnnounce]](), iter(picks)
    up: set[int] = set()

    def perform(node: int, effects: Sequence[Effect]) -> None:
        due.extend((node, effect) for effect in of(SendAnnounce, effects))
        for timer in of(SetTimer, effects):
            if timer.name != "tick":
                late.append((node, timer.name))

    late: deque[tuple[int, str]] = deque()
    while starts or due or late:
        if starts and (next(chosen, 1) % 2 or not due):
            node = starts.popleft()
            up.add(node)
            perform(node, mesh[node].receive(MeshStarted(tuple(f"10.0.0.1:{4000 + i}" for i in told[node]))))
        elif due:
            due.rotate(-next(chosen, 0))
            node, call = due.popleft()
            target = int(call.address.rpartition(":")[2]) - 4000
            if target not in up:
                perform(node, mesh[node].receive(AnnounceFailed(call.address, "not up yet")))
                continue
            effects = mesh[target].receive(AnnounceReceived(mesh[node].me, call.known))
            perform(target, effects)
            (answer,) = of(Answer, effects)
            assert isinstance(answer.message, AnnounceReply)
            others = tuple(answer.message.announce_yourself_to_peers)
            perform(node, mesh[node].receive(AnnounceAnswered(call.address, answer.message.i_am, others)))
        else:
            node, timer = late.popleft()
            perform(node, mesh[node].receive(TimerFired(timer)))
    return mesh


@given(st.data(), graphs())
@settings(max_examples=150, deadline=None)
def test_from_any_connected_graph_and_in_any_order_everyone_comes_to_know_everyone(
    data: st.DataObject, told: list[list[int]]
) -> None:
    order = data.draw(st.permutations(range(len(told))))
    mesh = join(told, order, data.draw(st.lists(st.integers(0, 30), max_size=40)))
    assert [len(m.alive) for m in mesh] == [len(mesh) - 1] * len(mesh)


def test_two_joined_pairs_become_one_mesh_when_one_of_each_meets() -> None:
    mesh = join([[], [0], [], [2, 0]], [0, 1, 2, 3], [])
    assert [len(m.alive) for m in mesh] == [3, 3, 3, 3]
