"""Meshes of nodes that speak different forms, small and large models, and transfers that break."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from flnet.node.runtime import NodeRuntime
from flnet.protocol.messages import Accuracy, ModelParams, StartTraining
from flnet.wire.memory import MemoryNetwork
from flnet.wire.transport import Reply
from tests.node.mesh import MNIST_3_7, PARAMS, Linear, Mesh, until
from tests.node.test_runtime import trigger

LARGE = 300_000  # numbers: more than a megabyte, so updates are offered and fetched

Fields = Mapping[str, str] | None


class Meter:
    """Counts requests and bytes of bodies by path."""

    def __init__(self, network: MemoryNetwork) -> None:
        self.requests: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self._carry = network.carry
        network.carry = self._count  # type: ignore[method-assign]

    async def _count(
        self, sender: str, address: str, path: str, body: bytes, content_type: str, headers: Fields = None
    ) -> Reply:
        reply = await self._carry(sender, address, path, body, content_type, headers)
        kind = "fetch" if path.startswith(PARAMS) and path != Accuracy.path else path
        self.requests[kind] += 1
        self.bytes[kind] += len(body) + len(reply.body)
        return reply


def digests(mesh: Mesh) -> set[str]:
    return {node.job(MNIST_3_7).as_json()["digest"] for node in mesh.nodes.values()}


def outcome(node: NodeRuntime, number: int = -1) -> str:
    words: str = node.history(MNIST_3_7)[number]["outcome"]
    return words


async def rounds(mesh: Mesh, count: int) -> None:
    for number in range(count):
        first = next(iter(mesh.nodes.values()))
        await until(lambda: not any(job.busy for n in mesh.nodes.values() for job in n.core.jobs.values()))
        await trigger(first)
        await mesh.idle(number)


async def mixed(*wires: str, numbers: int = 2, **settings: Any) -> Mesh:
    mesh = Mesh()
    for i, wire in enumerate(wires):
        trainer = Linear(1.0 + i, examples=10 * (i + 1), numbers=numbers)
        await mesh.add("abcdefgh"[i], trainer, ("a",) if i else (), wire=wire, **settings)
    await mesh.full()
    return mesh


@pytest.mark.parametrize("wire", ["safetensors", "float16", "int8", "json"])
@pytest.mark.parametrize("numbers", [2, 2000])
async def test_nodes_of_one_form_train_together(wire: str, numbers: int) -> None:
    mesh = await mixed(wire, wire, wire, numbers=numbers)
    await rounds(mesh, 3)
    assert len(digests(mesh)) == 1
    assert all("averaged 3 updates" in outcome(node) for node in mesh.nodes.values())
    await mesh.stop()


@pytest.mark.parametrize("wires", [("json", "safetensors", "json"), ("int8", "json", "float16", "safetensors")])
@pytest.mark.parametrize("numbers", [2, 2000])
async def test_nodes_of_different_forms_share_a_mesh_and_hold_one_model(
    wires: tuple[str, ...], numbers: int
) -> None:
    mesh = await mixed(*wires, numbers=numbers)
    await rounds(mesh, 3)
    assert len(digests(mesh)) == 1
    assert all(f"averaged {len(wires)} updates" in outcome(node) for node in mesh.nodes.values())
    await mesh.stop()


async def test_in_a_healthy_round_each_update_moves_once_to_each_peer_and_nothing_else() -> None:
    mesh = await mixed("safetensors", "safetensors", "safetensors", numbers=20_000)
    await rounds(mesh, 1)
    meter = Meter(mesh.network)
    await trigger(mesh.nodes["a"])
    await mesh.idle(1)
    size = mesh.nodes["a"].core.jobs[MNIST_3_7].held.current.shared.nbytes
    assert size * 6 <= meter.bytes[ModelParams.path] <= size * 6 * 1.02
    assert meter.bytes[StartTraining.path] < 2 * 1500
    assert meter.bytes[Accuracy.path] < 6 * 3000  # those that ask too early are answered in words
    assert meter.requests["fetch"] == 0
    await mesh.stop()


async def test_large_updates_are_offered_and_fetched_once_by_each_peer() -> None:
    mesh = await mixed("safetensors", "safetensors", "safetensors", numbers=LARGE)
    meter = Meter(mesh.network)
    await rounds(mesh, 1)
    assert meter.requests["fetch"] == 3 * 2
    assert len(digests(mesh)) == 1
    await mesh.stop()


async def test_folding_large_updates_gives_the_bits_of_averaging_them_at_once(monkeypatch: Any) -> None:
    held = []
    for hold_bytes in (1, 10**9):
        monkeypatch.setattr("flnet.rounds.base.HOLD_BYTES", hold_bytes)
        mesh = await mixed("safetensors", "safetensors", "safetensors", numbers=LARGE)
        await rounds(mesh, 2)
        held.append(digests(mesh))
        await mesh.stop()
    assert held[0] == held[1]
    assert len(held[0]) == 1


async def test_a_transfer_that_breaks_goes_on_where_it_stopped() -> None:
    mesh = await mixed("safetensors", "safetensors", numbers=LARGE)
    mesh.network.faults.break_transfer = 0.7
    await rounds(mesh, 2)
    assert len(digests(mesh)) == 1
    assert all("averaged 2 updates" in outcome(node) for node in mesh.nodes.values())
    await mesh.stop()


async def test_a_node_that_joins_later_fetches_the_model_and_takes_part() -> None:
    mesh = await mixed("safetensors", "safetensors", numbers=LARGE)
    await rounds(mesh, 2)
    await mesh.add("c", Linear(5.0, numbers=LARGE), ("a",))
    await mesh.full()
    meter = Meter(mesh.network)
    await trigger(mesh.nodes["a"])
    await mesh.idle(2)
    assert len(digests(mesh)) == 1
    assert "averaged 3 updates" in outcome(mesh.nodes["c"])
    assert meter.requests["fetch"] == 6 + 1  # three updates to two peers each, and the start to c
    await mesh.stop()


async def test_what_rounding_loses_is_sent_with_later_updates() -> None:
    """A step that is far smaller than one of int8 would never arrive without error feedback."""
    mesh = await mixed("int8", "int8", numbers=2000)
    await rounds(mesh, 12)
    weights = mesh.nodes["a"].core.jobs[MNIST_3_7].held.current.shared["weights"]
    aim = (10 * 1.0 + 20 * 2.0) / 30
    assert np.allclose(weights, aim, atol=0.02)
    await mesh.stop()


@pytest.mark.parametrize(
    "wires",
    [("safetensors", "safetensors", "safetensors"), ("safetensors", "json", "int8"), ("json", "int8", "json")],
)
async def test_averages_that_differ_become_one_in_the_next_round(wires: tuple[str, ...]) -> None:
    """Between some nodes the winning model is fetched by its digest, between others it comes with the claim."""
    mesh = await mixed(
        *wires,
        numbers=2000,
        wait_time_in_seconds_to_force_fedavg=0.2,
        wait_time_in_seconds_to_force_fedavg_margin=0.2,
    )
    mesh.network.cut(mesh.nodes["c"].me.address, mesh.nodes["b"].me.address)
    await rounds(mesh, 1)
    records = {name: node.history(MNIST_3_7)[0] for name, node in mesh.nodes.items()}
    assert records["b"]["contributors"] == ["a", "b"]
    assert "c" in records["a"]["contributors"]
    assert records["a"]["digest"] != records["b"]["digest"]
    mesh.network.heal_all()
    await until(lambda: all(len(node.core.members.alive) == 2 for node in mesh.nodes.values()))
    await trigger(mesh.nodes["b"])
    await mesh.idle(1)
    assert len(digests(mesh)) == 1
    assert all("averaged 3 updates" in outcome(node) for node in mesh.nodes.values())
    await mesh.stop()
