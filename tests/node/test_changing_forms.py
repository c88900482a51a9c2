"""A node that comes back at its address with another form, before all its peers hear of it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from flnet.node.runtime import NodeRuntime
from flnet.params.params import PeerId
from flnet.protocol.events import AnnounceReceived
from flnet.protocol.messages import FLOAT16, INT8, SAFETENSORS, ModelParams
from flnet.wire.binary_codec import BINARY_TYPE
from flnet.wire.memory import MemoryNetwork
from flnet.wire.transport import Reply
from tests.node.mesh import MNIST_3_7, Linear, Mesh, mesh_of, until
from tests.node.test_mesh_forms import LARGE, digests, mixed, outcome, rounds
from tests.node.test_runtime import trigger

JSON = "application/json"
ALL = frozenset({SAFETENSORS, FLOAT16, INT8})
C = PeerId("c")

Fields = Mapping[str, str] | None


class Bodies:
    """Notes what goes over the network: path, content type, status of the answer."""

    def __init__(self, network: MemoryNetwork) -> None:
        self.seen: list[tuple[str, str, int]] = []
        self._carry = network.carry
        network.carry = self._note  # type: ignore[method-assign]

    async def _note(
        self, sender: str, address: str, path: str, body: bytes, content_type: str, headers: Fields = None
    ) -> Reply:
        reply = await self._carry(sender, address, path, body, content_type, headers)
        self.seen.append((path, content_type, reply.status))
        return reply

    def updates(self, content_type: str) -> list[int]:
        """The answers to updates of this type."""
        return [status for path, kind, status in self.seen if (path, kind) == (ModelParams.path, content_type)]


async def back_as(wire: str, mesh: Mesh, numbers: int) -> None:
    """Node c is ended and comes back with another setting and nothing remembered; the mesh is whole again."""
    await mesh.nodes["c"].stop()
    node = await mesh.add("c", Linear(5.0, numbers=numbers), ("a",), wire=wire)
    await until(lambda: node.core.members.alive == ["a", "b"])
    await mesh.full()


async def overtaken(node: NodeRuntime, late: NodeRuntime) -> None:
    """What the other node said before it changed arrives after what it said since."""
    node.deliver(None, AnnounceReceived(late.me, (), ALL))
    await until(lambda: node.core.members.accepts_of(PeerId(late.me.id)) == ALL)


async def test_the_form_of_a_mesh_is_the_one_that_a_test_asks_for(default_wire: str) -> None:
    async with mesh_of(1.0, 2.0) as mesh:
        bodies = Bodies(mesh.network)
        await trigger(mesh.nodes["a"])
        await mesh.idle(0)
        form, other = (BINARY_TYPE, JSON) if default_wire == "safetensors" else (JSON, BINARY_TYPE)
        assert bodies.updates(form) == [200, 200]
        assert bodies.updates(other) == []


@pytest.mark.parametrize(("before", "after"), [("safetensors", "json"), ("json", "int8")])
async def test_a_node_that_comes_back_with_another_form_is_sent_that_one(before: str, after: str) -> None:
    mesh = await mixed("safetensors", "safetensors", before)
    await rounds(mesh, 1)
    await back_as(after, mesh, 2)
    bodies = Bodies(mesh.network)
    await trigger(mesh.nodes["a"])
    await mesh.idle(1)
    to_or_from_c = 4
    assert len(bodies.updates(JSON)) == (to_or_from_c if after == "json" else 0)
    assert set(bodies.updates(JSON) + bodies.updates(BINARY_TYPE)) == {200}
    assert all("averaged 3 updates" in outcome(node) for node in mesh.nodes.values())
    assert len(digests(mesh)) == 1
    await mesh.stop()


@pytest.mark.parametrize(("numbers", "refused"), [(2000, [415, 415]), (LARGE, [])])  # large ones are fetched
async def test_peers_that_do_not_know_it_yet_send_json_as_soon_as_it_says_415(
    numbers: int, refused: list[int]
) -> None:
    mesh = await mixed("safetensors", "safetensors", "safetensors", numbers=numbers)
    await rounds(mesh, 1)
    await back_as("json", mesh, numbers)
    for name in ("a", "b"):
        await overtaken(mesh.nodes[name], mesh.nodes["c"])
    bodies = Bodies(mesh.network)
    for number in (1, 2) if refused else (1,):  # the second time they know
        await until(lambda: not any(job.busy for n in mesh.nodes.values() for job in n.core.jobs.values()))
        await trigger(mesh.nodes["a"])
        await mesh.idle(number)
        assert all("averaged 3 updates" in outcome(node) for node in mesh.nodes.values())
        assert all(len(node.history(MNIST_3_7)[-1]["contributors"]) == 3 for node in mesh.nodes.values())
        assert len(digests(mesh)) == 1
        assert [status for status in bodies.updates(BINARY_TYPE) if status != 200] == refused
    for name in ("a", "b"):
        assert mesh.nodes[name].core.members.accepts_of(C) == (frozenset() if refused else ALL)
    await mesh.stop()
