"""Meshes of whole nodes with a key, over the in-memory network: who has it trains, who has not is told."""

from __future__ import annotations

import pytest

from flnet.node.runtime import NodeRuntime
from flnet.protocol.messages import Trigger
from tests.node.mesh import MNIST_3_7, Linear, mesh_of, until

KEY = "correct horse battery staple"


async def start_round(node: NodeRuntime, number: int = 1) -> None:
    body = Trigger.model_validate({"trainer_id": MNIST_3_7, "rounds": number}).model_dump_json(by_alias=True)
    await node.receive(Trigger.path, body.encode(), "application/json", "127.0.0.1")


def kinds(node: NodeRuntime, kind: str) -> list[str]:
    return [item.text for item in node.feed.recent() if item.kind == kind]


@pytest.mark.parametrize("numbers", [2, 400_000])  # sent at once, and fetched by their digest
async def test_a_mesh_with_a_key_trains(numbers: int) -> None:
    async with mesh_of(*(Linear(target, numbers=numbers) for target in (1, 2, 3)), mesh_key=KEY) as mesh:
        await mesh.train()
        assert len(mesh.digests()) == 1
        for node in mesh.nodes.values():
            assert node.info()["mode"] == "keyed" and node.signing is not None
            assert node.history(MNIST_3_7)[-1]["contributors"] == ["a", "b", "c"]


async def test_nodes_without_the_key_or_with_another_are_told_why_and_the_others_go_on() -> None:
    async with mesh_of(1.0, 2.0, mesh_key=KEY) as mesh:
        a, b = mesh.nodes["a"], mesh.nodes["b"]
        open_node = await mesh.add("c", Linear(3.0), ("a",))
        other_key = await mesh.add("d", Linear(4.0), ("a",), mesh_key=KEY + "!")
        await until(lambda: bool(kinds(open_node, "announce_failed") and kinds(other_key, "announce_failed")))
        await start_round(a)
        await until(lambda: all(n.job(MNIST_3_7).current_round == 0 and not n._is_busy() for n in (a, b)))
        contributors = a.history(MNIST_3_7)[-1]["contributors"]
        known = [peer["id"] for peer in a.peers()]

    assert contributors == ["a", "b"] and known == ["b"]
    assert "signature_needed" in kinds(open_node, "announce_failed")[0]
    assert "FLNET_MESH_KEY" in kinds(other_key, "announce_failed")[0]
    assert len(kinds(a, "refused_here")) == 2  # once for each


async def test_a_restarted_node_is_let_in_again() -> None:
    async with mesh_of(1.0, 2.0, mesh_key=KEY) as mesh:
        await mesh.nodes["b"].stop()
        await mesh.add("b", Linear(2.0), ("a",), mesh_key=KEY)
        await mesh.full()
        await mesh.train("b")

        assert mesh.nodes["a"].history(MNIST_3_7)[-1]["contributors"] == ["a", "b"]
        assert kinds(mesh.nodes["a"], "refused_here") == []
