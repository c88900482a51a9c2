"""Recorded requests and answers are sent again: in the same round, later, to others, and after a restart."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from flnet.errors import TransportError
from flnet.wire.memory import MemoryNetwork
from flnet.wire.transport import Reply
from tests.node.mesh import MNIST_3_7, Linear, Mesh, mesh_of

KEY = "correct horse battery staple"
JSON = "application/json"
Sent = tuple[str, str, bytes, str, Mapping[str, str]]  # receiver, path, body, content type, headers


class Recorder(MemoryNetwork):
    """Keeps what goes over the network, and can say it again."""

    def __init__(self, network: MemoryNetwork) -> None:
        self.__dict__.update(network.__dict__)
        self.requests: list[Sent] = []
        self.replies: list[Reply] = []
        self.stale: Reply | None = None

    async def carry(
        self,
        sender: str,
        address: str,
        path: str,
        body: bytes,
        content_type: str,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        self.requests.append((address, path, body, content_type, headers or {}))
        reply = await super().carry(sender, address, path, body, content_type, headers)
        self.replies.append(reply)
        return self.stale or reply

    async def again(self, sent: Sent, to: str | None = None, path: str | None = None) -> Reply:
        address, said, body, content_type, headers = sent
        return await super().carry("10.6.6.6:1", to or address, path or said, body, content_type, headers)


async def recorded_round(mesh: Mesh) -> list[Sent]:
    """A mesh of two that has trained one round: what was signed for "b" meanwhile."""
    mesh.network = network = Recorder(mesh.network)
    await mesh.add("a", Linear(1.0), mesh_key=KEY)
    await mesh.add("b", Linear(2.0), ("a",), mesh_key=KEY)
    await mesh.full()
    trigger = json.dumps({"trainerId": MNIST_3_7}).encode()
    await mesh.nodes["a"].receive("/training/trigger", trigger, JSON, "127.0.0.1")
    await mesh.idle(0)
    to_b = mesh.nodes["b"].me.address
    return [one for one in network.requests if one[0] == to_b and "Signature" in one[4]]


async def test_no_request_of_a_round_is_taken_twice() -> None:
    mesh = Mesh()
    try:
        sent = await recorded_round(mesh)
        network = mesh.network
        assert isinstance(network, Recorder)
        before = mesh.nodes["b"].history(MNIST_3_7)
        replies = [await network.again(one) for one in sent]
        paths = {one[1] for one in sent}
        after = mesh.nodes["b"].history(MNIST_3_7)
    finally:
        await mesh.stop()

    assert {"/training", "/training/model_params"} <= paths
    assert {(reply.status, json.loads(reply.body)["error"]) for reply in replies} == {(403, "signature_refused")}
    assert after == before


async def test_a_request_for_one_node_or_path_is_none_for_another() -> None:
    mesh = Mesh()
    try:
        sent = await recorded_round(mesh)
        network = mesh.network
        assert isinstance(network, Recorder)
        to_a = [await network.again(one, to=mesh.nodes["a"].me.address) for one in sent]
        elsewhere = [await network.again(one, path="/training/model_params/accuracy") for one in sent[:1]]
    finally:
        await mesh.stop()

    assert {reply.status for reply in to_a} == {401}
    assert {reply.status for reply in elsewhere} == {403}


async def test_a_restart_lets_nothing_old_in() -> None:
    mesh = Mesh()
    try:
        sent = await recorded_round(mesh)
        network = mesh.network
        assert isinstance(network, Recorder)
        await mesh.nodes["b"].stop()
        await mesh.add("b", Linear(2.0), mesh_key=KEY)
        replies = [await network.again(one) for one in sent]
        history = mesh.nodes["b"].history(MNIST_3_7)
    finally:
        await mesh.stop()

    assert {reply.status for reply in replies} == {401}
    assert history == []


async def test_a_recorded_answer_is_none_to_a_new_request() -> None:
    mesh = Mesh()
    try:
        await recorded_round(mesh)
        network, a, b = mesh.network, mesh.nodes["a"], mesh.nodes["b"]
        assert isinstance(network, Recorder)
        network.stale = next(reply for reply in reversed(network.replies) if reply.status == 200)
        transport = a._transport
        with pytest.raises(TransportError, match="not its own"):
            await transport.fetch(b.me.address, "/info")
        network.stale = None
        assert (await transport.fetch(b.me.address, "/info")).status == 200
    finally:
        await mesh.stop()


async def test_a_duplicate_that_the_network_makes_by_itself_does_no_harm() -> None:
    async with mesh_of(1.0, 2.0, mesh_key=KEY) as mesh:
        mesh.network.faults.duplicate = 1.0
        trigger = json.dumps({"trainerId": MNIST_3_7, "rounds": 2}).encode()
        await mesh.nodes["a"].receive("/training/trigger", trigger, JSON, "127.0.0.1")
        await mesh.idle(1)

        for node in mesh.nodes.values():
            assert [record["contributors"] for record in node.history(MNIST_3_7)] == [["a", "b"]] * 2
