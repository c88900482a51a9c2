"""A mesh in which one node works against all others: what the others find, and what they say of it."""

from __future__ import annotations

import orjson

from flnet.messages import Trigger
from tests.node.mesh import MNIST_3_7, mesh_of


async def test_who_pulls_away_from_all_others_is_named_by_each_of_them() -> None:
    async with mesh_of(1.0, 1.0, 1.25, -9.0, aggregation="cosine,agg0") as mesh:
        for number in range(3):
            body = orjson.dumps({"trainerId": MNIST_3_7})
            await mesh.nodes["a"].receive(Trigger.path, body, "application/json", "127.0.0.1")
            await mesh.idle(number)
        for node in mesh.nodes.values():
            weighed = node.history(MNIST_3_7)[-1]["weighed"]
            assert weighed["d"]["cosine"] < 0 < weighed["a"]["cosine"]
            assert (weighed["d"]["weight"], weighed["a"]["weight"]) == (0.0, 1 / 3)
            (told,) = [item for item in node.feed.recent() if item.kind == "weight_collapsed"]
            assert told.text.startswith("the updates of d have been left out since round 0: ")
            assert [one["peer"] for one in node.job(MNIST_3_7)["counts_little"]] == ["d"]


async def test_where_all_pull_alike_nobody_is_named() -> None:
    async with mesh_of(1.0, 1.1, 1.2, aggregation="clip,cosine,agg1") as mesh:
        for number in range(4):
            body = orjson.dumps({"trainerId": MNIST_3_7})
            await mesh.nodes["a"].receive(Trigger.path, body, "application/json", "127.0.0.1")
            await mesh.idle(number)
        for node in mesh.nodes.values():
            assert {item.kind for item in node.feed.recent()} & {"weight_collapsed", "weight_recovered"} == set()
            assert node.job(MNIST_3_7)["counts_little"] == []
