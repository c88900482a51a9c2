"""A mesh whose merging rule remembers: every node finds the same, and each keeps it with its job."""

from __future__ import annotations

import orjson
import pytest

from flnet.protocol.messages import Trigger
from tests.node.mesh import MNIST_3_7, mesh_of


@pytest.mark.parametrize("rule", ["consistency", "clip,cosine,consistency:raw", "fedavgm:0.5:0.8", "fedyogi"])
async def test_all_nodes_make_the_same_of_what_they_remember(rule: str) -> None:
    async with mesh_of(1.0, 1.1, 1.2, 1.3, aggregation=rule) as mesh:
        for number in range(4):
            body = orjson.dumps({"trainerId": MNIST_3_7})
            await mesh.nodes["a"].receive(Trigger.path, body, "application/json", "127.0.0.1")
            await mesh.idle(number)
        records = [node.history(MNIST_3_7) for node in mesh.nodes.values()]
        for course in zip(*records, strict=True):
            assert len({record["digest"] for record in course}) == 1
            assert all(record["exchanged_with"] is None for record in course)
            assert len({orjson.dumps(record["weighed"]) for record in course}) == 1
        told = [["consistency" in record["weighed"]["b"] for record in course] for course in records]
        assert told == [[False, False, "consistency" in rule, "consistency" in rule]] * 4
