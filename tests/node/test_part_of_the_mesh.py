"""Whole nodes of which a part trains: the settings reach the jobs, and people read who has others."""

from __future__ import annotations

from tests.node.mesh import MNIST_3_7, Linear, mesh_of, until
from tests.node.test_runtime import trigger


async def test_half_of_the_nodes_train_and_all_hold_one_model() -> None:
    async with mesh_of(0.0, 1.0, 2.0, 3.0, participation=0.5) as mesh:
        await trigger(mesh.nodes["a"], rounds=3)
        await mesh.idle(2)
        views = [node.job(MNIST_3_7) for node in mesh.nodes.values()]
        assert len({view.digest for view in views}) == 1
        for node in mesh.nodes.values():
            for record in node.history(MNIST_3_7):
                assert record["contributors"] == record["chosen"] and len(record["chosen"]) == 2


async def test_people_read_that_a_node_has_other_settings() -> None:
    async with mesh_of(0.0, 1.0, 2.0, participation=0.5) as mesh:
        await mesh.add("e", Linear(1.0), ("a",))
        await mesh.full()
        await trigger(mesh.nodes["a"])

        def told() -> bool:
            return any("do not agree on participation" in item.text for item in mesh.nodes["a"].feed.recent())

        await until(told)
