"""Nodes that meet compare what they state of their jobs, before any training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from flnet.node import meeting
from flnet.node.core import NodeCore
from flnet.node.interface import PeerInfo, View
from flnet.node.meeting import MeetingChecks
from flnet.node.runtime import NodeRuntime
from flnet.rounds.view import JobView
from tests.helpers import peer
from tests.node.mesh import MNIST_3_7, Linear, mesh_of, until


class Columns(Linear):
    """Of a table with these columns."""

    def __init__(self, *columns: str) -> None:
        super().__init__(1.0)
        self.agreement: Mapping[str, str] = {"columns": ", ".join(columns)}


def differs(node: NodeRuntime) -> dict[str, str]:
    return {row.peer: row.words for row in node.job(MNIST_3_7).differs}


def told(node: NodeRuntime) -> list[str]:
    return [item.text for item in node.feed.recent() if item.kind.startswith("differs")]


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TICK_SECONDS", "AGAIN_SECONDS", "KEPT_SECONDS"):
        monkeypatch.setattr(meeting, name, 0.01)


async def test_each_node_names_what_differs_from_its_own_side_once_and_no_more_when_the_peer_is_gone() -> None:
    async with mesh_of(Columns("x", "y"), Columns("x"), Columns("x", "y")) as mesh:
        a, b, c = mesh.nodes.values()
        await until(lambda: bool(differs(a)) and len(differs(b)) == 2 and bool(differs(c)))
        assert differs(a) == differs(c) == {"b": "columns missing there: y"}
        assert differs(b) == dict.fromkeys("ac", "columns missing here: y")
        assert "differs" not in b.job(MNIST_3_7).for_peers()
        await a._meeting.check()
        label = Linear.label
        assert told(a) == [f"b and this node cannot train {label} together: columns missing there: y"]
        await b.leave()
        await until(lambda: differs(a) == {})


async def test_nodes_that_agree_say_nothing() -> None:
    async with mesh_of(Columns("x", "y"), Columns("x", "y")) as mesh:
        for node in mesh.nodes.values():
            await node._meeting.check()
            assert list(node._meeting._stated) == [name for name in "ab" if name != node.me.id]
            assert (told(node), differs(node)) == ([], {})


def test_what_a_peer_claims_to_state_is_taken_whole_or_not_at_all() -> None:
    long = ", ".join(f"column{number}" for number in range(150))
    assert JobView.claimed({"agreement": {"columns": long}}).agreement == {"columns": long}
    too_many = {str(number): "" for number in range(17)}
    claims: list[object] = [{"columns": "x" * 2001}, too_many, {"columns": "a\nb"}, {"columns": 1}, [], "x"]
    for wrong in claims:
        assert JobView.claimed({"agreement": wrong}).agreement is None


async def test_relays_among_the_peers_are_known_as_long_as_they_are_there() -> None:
    infos = {"p0": PeerInfo("p0", "10.0.0.1:1", relay="10.0.0.1:9200"), "p1": PeerInfo("p1", "10.0.0.2:1")}
    alive = ["p0", "p1"]

    class Answering:
        async def ask(self, peers: Sequence[View]) -> Sequence[PeerInfo]:
            return [infos[str(each["id"])] for each in peers]

    def peers() -> Sequence[View]:
        return [{"id": name, "state": "alive"} for name in alive]

    core = NodeCore(peer("m", 4000), [MNIST_3_7])
    checks = MeetingChecks(core, Answering(), peers, lambda *_: None)  # type: ignore[arg-type]
    await checks.check()
    assert checks.relays == ["10.0.0.1:9200"]
    alive.remove("p0")
    await checks.check()
    assert checks.relays == []


async def test_a_peer_that_answers_nothing_or_lies_in_wait_keeps_no_other_from_being_asked() -> None:
    asked: list[str] = []

    class Silent:
        async def ask(self, peers: Sequence[View]) -> Sequence[PeerInfo]:
            asked.extend(peer["id"] for peer in peers)
            return [PeerInfo(peer["id"], "", error="no answer") for peer in peers]

    names = [f"p{number:02}" for number in range(20)]
    peers = [{"id": name, "state": "alive"} for name in names]
    checks = MeetingChecks(NodeCore(peer("a"), ["T"]), Silent(), lambda: peers, print)  # type: ignore[arg-type, list-item]
    while len(asked) < len(names):
        await checks.check()
    assert asked[: len(names)] == names
