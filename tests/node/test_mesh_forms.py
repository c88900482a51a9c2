"""Meshes of nodes that speak different forms, small and large models, transfers that break, and forms that change."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from flnet.params.params import PeerId
from flnet.protocol.events import AnnounceReceived
from flnet.protocol.messages import EARLIER_FORMS, INT8_BLOCKS, Accuracy, ModelParams, StartTraining
from flnet.wire.binary_codec import BINARY_TYPE
from flnet.wire.memory import MemoryNetwork
from flnet.wire.transport import Reply
from tests.node.mesh import (
    MNIST_3_7,
    PARAMS,
    Linear,
    Mesh,
    gives_up_waiting,
    has_measured,
    mesh_of,
    trigger,
    until,
)

LARGE = 300_000  # numbers: more than a megabyte, so updates are offered and fetched
JSON = "application/json"
ALL = frozenset({*EARLIER_FORMS, INT8_BLOCKS})
C = PeerId("c")

Fields = Mapping[str, str] | None


class Meter:
    """Counts requests and bytes of bodies by path, and notes by what type updates went and how they were answered."""

    def __init__(self, network: MemoryNetwork) -> None:
        self.requests: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self.updates: dict[str, list[int]] = {JSON: [], BINARY_TYPE: []}
        self._carry = network.carry
        network.carry = self._count  # type: ignore[method-assign]

    async def _count(
        self, sender: str, address: str, path: str, body: bytes, content_type: str, headers: Fields = None
    ) -> Reply:
        reply = await self._carry(sender, address, path, body, content_type, headers)
        kind = "fetch" if path.startswith(PARAMS) and path != Accuracy.path else path
        self.requests[kind] += 1
        self.bytes[kind] += len(body) + len(reply.body)
        if path == ModelParams.path:
            self.updates[content_type].append(reply.status)
        return reply


@asynccontextmanager
async def mixed(*wires: str, numbers: int = 2, **settings: Any) -> AsyncIterator[Mesh]:
    """A full mesh of nodes that speak these forms."""
    async with mesh_of() as mesh:
        for i, wire in enumerate(wires):
            trainer = Linear(1.0 + i, examples=10 * (i + 1), numbers=numbers)
            await mesh.add("abcdefgh"[i], trainer, ("a",) if i else (), wire=wire, **settings)
        await mesh.full()
        yield mesh


def averaged(mesh: Mesh, updates: int) -> bool:
    """Whether all nodes averaged so many updates in their newest round, and hold one model."""
    outcomes = [node.history(MNIST_3_7)[-1]["outcome"] for node in mesh.nodes.values()]
    return len(mesh.digests()) == 1 and all(f"averaged {updates} updates" in words for words in outcomes)


@pytest.mark.parametrize(
    "wires",
    [
        *([wire] * 3 for wire in ("safetensors", "float16", "int8", "json")),
        ("json", "safetensors", "json"),
        ("int8", "json", "float16", "safetensors"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("numbers", [2, 2000])
async def test_nodes_of_equal_and_of_different_forms_hold_one_model(wires: list[str], numbers: int) -> None:
    async with mixed(*wires, numbers=numbers) as mesh:
        await mesh.train(rounds=3)
        assert averaged(mesh, len(wires))


async def test_in_a_healthy_round_each_update_moves_once_to_each_peer_and_nothing_else() -> None:
    async with mixed("safetensors", "safetensors", "safetensors", numbers=20_000) as mesh:
        await mesh.train()
        meter = Meter(mesh.network)
        await mesh.train()
        size = mesh.nodes["a"].core.jobs[MNIST_3_7].held.current.shared.nbytes
        assert size * 6 <= meter.bytes[ModelParams.path] <= size * 6 * 1.02
        assert meter.bytes[StartTraining.path] < 2 * 1500
        assert meter.bytes[Accuracy.path] < 6 * 3000  # those that ask too early are answered in words
        assert meter.requests["fetch"] == 0


async def test_large_updates_are_fetched_once_by_each_peer_and_a_node_that_joins_later_takes_part() -> None:
    async with mixed("safetensors", "safetensors", numbers=LARGE) as mesh:
        meter = Meter(mesh.network)
        await mesh.train()
        assert meter.requests["fetch"] == 2
        await mesh.add("c", Linear(5.0, numbers=LARGE), ("a",), wire="safetensors")
        await mesh.full()
        await until(lambda: len(mesh.digests()) == 1)  # c takes the average
        await mesh.train()
        assert averaged(mesh, 3)
        assert meter.requests["fetch"] == 2 + 1 + 6  # that average, and three updates to two peers each


async def test_folding_large_updates_gives_the_bits_of_averaging_them_at_once(monkeypatch: Any) -> None:
    held = []
    for hold_bytes in (1, 10**9):
        monkeypatch.setattr("flnet.rounds.base_round.HOLD_BYTES", hold_bytes)
        async with mixed("safetensors", "safetensors", "safetensors", numbers=LARGE) as mesh:
            await mesh.train(rounds=2)
            held.append(mesh.digests())
    assert held[0] == held[1]
    assert len(held[0]) == 1


async def test_a_transfer_that_breaks_goes_on_where_it_stopped() -> None:
    async with mixed("safetensors", "safetensors", numbers=LARGE) as mesh:
        mesh.network.faults.break_transfer = 0.7
        await mesh.train(rounds=2)
        assert averaged(mesh, 2)


async def test_what_rounding_loses_is_sent_with_later_updates() -> None:
    """A step that is far smaller than one of int8 would never arrive without error feedback."""
    async with mixed("int8", "int8", numbers=2000) as mesh:
        await mesh.train(rounds=12)
        weights = mesh.nodes["a"].core.jobs[MNIST_3_7].held.current.shared["weights"]
        aim = (10 * 1.0 + 20 * 2.0) / 30
        assert np.allclose(weights, aim, atol=0.02)


@pytest.mark.parametrize(
    "wires",
    [("safetensors", "safetensors", "safetensors"), ("safetensors", "json", "int8"), ("json", "int8", "json")],
)
async def test_averages_that_differ_become_one_in_the_next_round(wires: tuple[str, ...]) -> None:
    """Between some nodes the winning model is fetched by its digest, between others it comes with the claim."""
    async with mixed(*wires, numbers=2000) as mesh:
        mesh.network.cut(mesh.nodes["c"].me.address, mesh.nodes["b"].me.address)
        await trigger(mesh.nodes["a"])
        # b compares last: a claim of c that comes later than b's question cannot reach it, and b would wait for it.
        await until(lambda: all(has_measured(mesh.nodes[name], 0) for name in "ac"))
        await gives_up_waiting(mesh.nodes["b"], "a", "b")
        await mesh.idle(0)
        records = {name: node.history(MNIST_3_7)[0] for name, node in mesh.nodes.items()}
        assert records["b"]["contributors"] == ["a", "b"]
        assert "c" in records["a"]["contributors"]
        assert records["a"]["digest"] != records["b"]["digest"]
        mesh.network.heal_all()
        await mesh.full()
        await mesh.train("b")
        assert averaged(mesh, 3)


# A node that comes back at its address with another form, before all its peers hear of it.


async def back_as(wire: str, mesh: Mesh, numbers: int) -> Meter:
    """Node c is ended and comes back with another setting and nothing remembered; the mesh is whole again."""
    await mesh.nodes["c"].stop()
    node = await mesh.add("c", Linear(5.0, numbers=numbers), ("a",), wire=wire)
    await until(lambda: node.core.members.alive == ["a", "b"])
    await mesh.full()
    return Meter(mesh.network)


async def test_the_form_of_a_mesh_is_the_one_that_a_test_asks_for(default_wire: str) -> None:
    async with mesh_of(1.0, 2.0) as mesh:
        meter = Meter(mesh.network)
        await mesh.train()
        form, other = (BINARY_TYPE, JSON) if default_wire == "safetensors" else (JSON, BINARY_TYPE)
        assert (meter.updates[form], meter.updates[other]) == ([200, 200], [])


@pytest.mark.parametrize(("before", "after"), [("safetensors", "json"), ("json", "int8")])
async def test_a_node_that_comes_back_with_another_form_is_sent_that_one(before: str, after: str) -> None:
    async with mixed("safetensors", "safetensors", before) as mesh:
        await mesh.train()
        meter = await back_as(after, mesh, 2)
        await mesh.train()
        to_or_from_c = 4
        assert len(meter.updates[JSON]) == (to_or_from_c if after == "json" else 0)
        assert {*meter.updates[JSON], *meter.updates[BINARY_TYPE]} == {200}
        assert averaged(mesh, 3)


@pytest.mark.parametrize(("numbers", "refused"), [(2000, [415, 415]), (LARGE, [])])  # large ones are fetched
async def test_peers_that_do_not_know_it_yet_send_json_as_soon_as_it_says_415(
    numbers: int, refused: list[int]
) -> None:
    async with mixed("safetensors", "safetensors", "safetensors", numbers=numbers) as mesh:
        await mesh.train()
        meter = await back_as("json", mesh, numbers)
        accepts = [mesh.nodes[name].core.members.accepts_of for name in ("a", "b")]
        for name in ("a", "b"):  # what c said before it changed arrives after what it said since
            mesh.nodes[name].deliver(None, AnnounceReceived(mesh.nodes["c"].me, (), ALL))
        await until(lambda: all(accepted(C) == ALL for accepted in accepts))
        for _ in range(2 if refused else 1):  # the second time they know
            await mesh.train()
            assert averaged(mesh, 3)
            assert [status for status in meter.updates[BINARY_TYPE] if status != 200] == refused
        assert [accepted(C) for accepted in accepts] == [frozenset() if refused else ALL] * 2
