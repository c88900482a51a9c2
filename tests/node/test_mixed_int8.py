"""Meshes that round to int8: with a scale for each block, or with one for an array while a node reads only that."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from flnet.compute.tasks import ComputeTasks
from flnet.node import build
from flnet.params.params import Array, PeerId
from flnet.protocol.messages import EARLIER_FORMS, Accuracy
from flnet.trainer import Fit, Task
from flnet.wire.memory import MemoryNetwork
from flnet.wire.transport import Reply
from tests.node.mesh import MNIST_3_7, PARAMS, Linear, Mesh, mesh_of, until
from tests.node.test_mesh_forms import LARGE, averaged

SIZES = [2000, LARGE]  # numbers: an update is sent along with the message, or fetched by its digest


class Uneven(Linear):
    """Its weights are of standard deviation 0.02 but for one, which is 5: one step of int8 is 0.04 beside it."""

    def fit(self, task: Task) -> Fit:
        weights = np.random.default_rng(self.examples).standard_normal((self.numbers, 1)) * 0.02
        weights[7] = 5.0
        moved: Mapping[str, Array] = {**task.params, "weights": weights.astype(np.float32)}
        return Fit(moved, self.examples)


class TappedNetwork(MemoryNetwork):
    """Keeps the bodies with large arrays that come to each node, by the node's address."""

    def __init__(self) -> None:
        super().__init__(random.Random(0))
        self.came: dict[str, list[bytes]] = {}

    async def carry(
        self,
        sender: str,
        address: str,
        path: str,
        body: bytes,
        content_type: str,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        reply = await super().carry(sender, address, path, body, content_type, headers)
        is_fetched = path.startswith(PARAMS) and path != Accuracy.path
        receiver, sent = (sender, reply.body) if is_fetched else (address, body)
        if len(sent) > SIZES[0]:
            self.came.setdefault(receiver, []).append(sent)
        return reply

    def forms(self, address: str, numbers: int) -> set[str]:
        """The forms of the bodies that came to a node, which all have an array of so many numbers."""
        names = set()
        for body in self.came.pop(address):
            stated = next((name for name in ("scales", "blocks") if f'"{name}"'.encode() in body[:20_000]), "full")
            assert (len(body) < 2 * numbers) == (stated != "full")
            names.add(stated)
        return names


def tap_of(mesh: Mesh) -> TappedNetwork:
    """The network of a mesh, which keeps what comes from now on."""
    assert isinstance(mesh.network, TappedNetwork)
    mesh.network.came.clear()
    return mesh.network


def earlier_tasks(*args: Any, **more: Any) -> ComputeTasks:
    """How an earlier version rounds: with one scale, whatever its peers read."""
    return ComputeTasks(*args, **{**more, "encoding": lambda: "int8"})


async def add(mesh: Mesh, name: str, numbers: int, *, is_earlier: bool = False, wire: str = "int8") -> None:
    with pytest.MonkeyPatch.context() as patch:
        if is_earlier:
            patch.setattr(build, "accepted", lambda form: EARLIER_FORMS)
            patch.setattr(build, "ComputeTasks", earlier_tasks)
        trainer = Uneven(1.0, examples=10 * (1 + len(mesh.nodes)), numbers=numbers)
        await mesh.add(name, trainer, tuple(mesh.nodes)[:1], wire=wire)


@asynccontextmanager
async def mesh_of_int8(names: str, numbers: int, *, earlier: str = "", json_only: str = "") -> AsyncIterator[Mesh]:
    """A full mesh of nodes with these letters, some of which are of an earlier version or read JSON only."""
    async with mesh_of() as mesh:
        mesh.network = TappedNetwork()
        for name in names:
            wire = "json" if name in json_only else "int8"
            await add(mesh, name, numbers, is_earlier=name in earlier, wire=wire)
        await mesh.full()
        yield mesh


def kept(mesh: Mesh) -> int:
    """Numbers of the model that are not 0; the large one is right in any case."""
    weights = mesh.nodes["a"].core.jobs[MNIST_3_7].held.current.shared["weights"]
    assert weights[7] == pytest.approx(5.0, rel=1e-2)
    return int(np.count_nonzero(weights))


@pytest.mark.parametrize("numbers", SIZES)
async def test_one_large_number_does_not_round_the_others_to_0(numbers: int) -> None:
    async with mesh_of_int8("ab", numbers) as mesh:
        tap = tap_of(mesh)
        await mesh.train()
        assert averaged(mesh, 2)
        assert [tap.forms(node.me.address, numbers) for node in mesh.nodes.values()] == [{"blocks"}] * 2
        assert kept(mesh) > 0.99 * (numbers - 256)


@pytest.mark.parametrize("numbers", SIZES)
async def test_a_mesh_with_an_earlier_node_exchanges_the_form_that_it_reads(numbers: int) -> None:
    async with mesh_of_int8("abc", numbers, earlier="b") as mesh:
        tap = tap_of(mesh)
        await mesh.train(rounds=2)
        assert averaged(mesh, 3)
        assert [tap.forms(node.me.address, numbers) for node in mesh.nodes.values()] == [{"scales"}] * 3
        assert kept(mesh) < 0.9 * numbers
        accepted = mesh.nodes["a"].core.members.accepts_of
        assert accepted(PeerId("b")) == set(EARLIER_FORMS) < accepted(PeerId("c"))


async def test_once_that_node_was_updated_all_go_over_to_blocks() -> None:
    numbers = SIZES[0]
    async with mesh_of_int8("abc", numbers, earlier="b") as mesh:
        await mesh.train()
        await mesh.nodes["b"].stop()
        await add(mesh, "b", numbers)
        await mesh.full()
        accepts = [mesh.nodes[name].core.members.accepts_of for name in "ac"]
        await until(lambda: all(accepted(PeerId("b")) > set(EARLIER_FORMS) for accepted in accepts))
        tap = tap_of(mesh)
        await mesh.train()
        assert averaged(mesh, 3)
        assert all("blocks" in tap.forms(node.me.address, numbers) for node in mesh.nodes.values())
        assert kept(mesh) > 0.99 * (numbers - 256)


@pytest.mark.parametrize("numbers", SIZES)
async def test_a_node_that_reads_json_only_changes_nothing_for_the_others(numbers: int) -> None:
    async with mesh_of_int8("abc", numbers, json_only="b") as mesh:
        tap = tap_of(mesh)
        await mesh.train()
        assert averaged(mesh, 3)
        assert tap.forms(mesh.nodes["b"].me.address, numbers) == {"full"}
        assert "blocks" in tap.forms(mesh.nodes["a"].me.address, numbers)
