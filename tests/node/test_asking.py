"""A policy starts rounds; the manual one never does."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

from flnet.node.asking import ask_policy
from flnet.params import Rng
from flnet.policies import Policy, manual
from tests.node.mesh import MNIST_3_7, mesh_of, until


async def test_a_policy_that_says_yes_starts_a_round_on_all_nodes() -> None:
    async with mesh_of(1.0, 1.0) as mesh:
        node = mesh.nodes["a"]
        seen: list[Mapping[str, Any]] = []

        def first_round_only(snapshot: Mapping[str, Any], rng: Rng) -> bool:
            seen.append(snapshot)
            return bool(snapshot["phase"] == "IDLE" and snapshot["current_round"] < 0)

        asking = asyncio.create_task(_ask(node, first_round_only))
        await mesh.idle(0)
        await until(lambda: seen[-1]["current_round"] == 0)
        asking.cancel()
        assert node.job(MNIST_3_7)["current_round"] == 0
        assert node.job(MNIST_3_7)["initiator"] == "a"


async def test_the_manual_policy_is_asked_and_starts_nothing() -> None:
    async with mesh_of(1.0) as mesh:
        node = mesh.nodes["a"]
        asked: list[int] = []

        def counted(snapshot: Mapping[str, Any], rng: Rng) -> bool:
            asked.append(1)
            return manual(snapshot, rng)

        asking = asyncio.create_task(_ask(node, counted))
        await until(lambda: len(asked) >= 3)
        asking.cancel()
        assert node.job(MNIST_3_7)["current_round"] == -1


async def _ask(node: Any, policy: Policy) -> None:
    await ask_policy(node.core, policy, random.Random(0), node.deliver, every=0.001)
