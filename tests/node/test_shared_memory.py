"""Whole nodes under a rule whose memory must be equal: what a newcomer fetches, and nodes of earlier versions."""

from __future__ import annotations

from typing import Any

import pytest

from flnet.node.runtime import NodeRuntime
from flnet.params.params import Digest
from flnet.rounds.settings import JobSettings
from tests.node.mesh import MNIST_3_7, Linear, Mesh, mesh_of
from tests.node.test_mesh_forms import LARGE

RULE: dict[str, Any] = {"aggregation": "fedadam:0.1"}


def memories(mesh: Mesh) -> set[Digest | None]:
    remembered = [node.core.jobs[MNIST_3_7].held.remembered for node in mesh.nodes.values()]
    return {memory.digest if memory else None for memory in remembered}


def averages(mesh: Mesh) -> set[Any]:
    """Of the newest round, before any node adopted another model."""
    return {node.history(MNIST_3_7)[-1]["digest"] for node in mesh.nodes.values()}


def kinds(node: NodeRuntime) -> list[str]:
    return [news.kind for news in node.feed.recent()]


@pytest.mark.parametrize("numbers", [2, LARGE])
@pytest.mark.parametrize("wire", ["safetensors", "int8"])
async def test_a_newcomer_fetches_the_moments_and_averages_like_the_others(wire: str, numbers: int) -> None:
    settings = {**RULE, "wire": wire}
    async with mesh_of(*(Linear(target, numbers=numbers) for target in (1.0, 2.0)), **settings) as mesh:
        await mesh.train(rounds=2)
        d = await mesh.add("d", Linear(5.0, numbers=numbers), ("a",), **settings)
        await mesh.full()
        await mesh.train()
        assert (len(averages(mesh)), len(memories(mesh))) == (1, 1)
        assert "memory_taken" in kinds(d)
        assert "memory_taken" not in kinds(mesh.nodes["a"])
        await mesh.train(rounds=2)
        assert (len(averages(mesh)), len(memories(mesh)), len(mesh.digests())) == (1, 1, 1)
        assert kinds(d).count("memory_taken") == 1


async def test_nodes_of_earlier_versions_train_on_in_the_same_mesh() -> None:
    """They state no memory, and reset theirs in some rounds: then they adopt the model of the others."""
    async with mesh_of(1.0, 2.0, **RULE) as mesh:
        old = await mesh.add("o", Linear(3.0), ("a",), **RULE)
        await mesh.full()
        job = old.core.jobs[MNIST_3_7]
        job.settings.__class__ = type("Earlier", (JobSettings,), {"shared_memory": None})
        await mesh.train(rounds=2)
        assert (len(averages(mesh)), len(memories(mesh))) == (1, 1)
        job.held.remember(None)
        for number in range(2, 4):
            await mesh.train("o" if number == 3 else "a")
            assert len(mesh.nodes["a"].history(MNIST_3_7)[-1]["contributors"]) == 3
        new = [mesh.nodes[name].core.jobs[MNIST_3_7].held for name in "ab"]
        assert new[0].remembered == new[1].remembered != job.held.remembered
        assert new[0].digest == new[1].digest
        assert "memory_taken" not in kinds(mesh.nodes["a"])
