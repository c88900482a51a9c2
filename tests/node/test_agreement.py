"""Whole nodes whose trainers differ in what must be alike, and nodes with hyper-parameters of their own."""

from __future__ import annotations

from flnet.node.runtime import NodeRuntime
from flnet.protocol.messages import HyperParams
from flnet.trainer import Fit, Task
from tests.node.mesh import MNIST_3_7, Linear, Mesh, until

TRIGGER = b'{"trainerId": "MNIST_3_7", "rounds": 1}'


class Animals(Linear):
    """Says which classes its outputs stand for, and remembers what it was asked to train with."""

    def __init__(self, target: float, classes: str = "", examples: int = 10) -> None:
        super().__init__(target, examples)
        self.seen: list[HyperParams] = []
        if classes:
            self.agreement = {"classes": classes}

    def fit(self, task: Task) -> Fit:
        self.seen.append(task.hyper)
        return super().fit(task)


def said(node: NodeRuntime) -> str:
    return " | ".join(news.text for news in node.feed.recent())


async def trigger(node: NodeRuntime) -> None:
    await node.receive("/training/trigger", TRIGGER, "application/json", "127.0.0.1")


async def test_two_nodes_with_other_classes_are_told_what_differs_and_nobody_waits() -> None:
    mesh = Mesh()
    try:
        a = await mesh.add("a", Animals(1, "cat, dog"))
        b = await mesh.add("b", Animals(2, "cat, fox"), ("a",))
        await mesh.full()
        await trigger(a)
        await until(lambda: a.job(MNIST_3_7).phase == "IDLE" and a.job(MNIST_3_7).current_round == 0)
        assert "the nodes do not agree on classes: here cat, fox; there cat, dog" in said(a)
        assert "the nodes do not agree on classes: here cat, fox; there cat, dog" in said(b)
        assert a.history(MNIST_3_7)[-1]["contributors"] == ["a"]
        assert b.job(MNIST_3_7).as_json()["current_round"] == -1
        assert a.job(MNIST_3_7).as_json()["schema_digest"] != b.job(MNIST_3_7).as_json()["schema_digest"]
    finally:
        await mesh.stop()


async def test_a_node_trains_with_its_own_epochs_and_batch_and_says_so() -> None:
    mesh = Mesh()
    weak, strong = Animals(1, examples=30), Animals(2, examples=10)
    try:
        a = await mesh.add("a", strong)
        b = await mesh.add("b", weak, ("a",), local_epochs=1, local_batch_size=7)
        await mesh.full()
        await trigger(a)
        await mesh.idle(0)
        assert strong.seen == [HyperParams(e=2, u=1e-05, b=64)]
        assert weak.seen == [HyperParams(e=1, u=1e-05, b=7)]
        for node, e, batch in ((a, 2, 64), (b, 1, 7)):
            assert node.job(MNIST_3_7).as_json()["hyper"] == {"e": 2, "u": 1e-05, "b": 64}
            used = {"e": e, "u": 1e-05, "b": batch}
            assert node.job(MNIST_3_7).as_json()["used_hyper"] == used
            assert node.history(MNIST_3_7)[-1]["used_hyper"] == used
        digests = {str(node.job(MNIST_3_7).as_json()["digest"]) for node in mesh.nodes.values()}
        assert len(digests) == 1
        shared = a.core.job(MNIST_3_7).held.model
        assert shared is not None
        assert float(shared.shared["bias"][0]) == (10 * 1.0 + 30 * 0.5) / 40  # weights stay the examples
    finally:
        await mesh.stop()


async def test_a_third_node_does_not_wait_for_the_one_that_trains_something_else() -> None:
    mesh = Mesh()
    try:
        a = await mesh.add("a", Animals(1, "cat, dog"))
        await mesh.add("b", Animals(2, "cat, fox"), ("a",))
        c = await mesh.add("c", Animals(3, "cat, dog"), ("a", "b"))
        await mesh.full()
        await trigger(a)
        for node in (a, c):
            await until(lambda node=node: node.job(MNIST_3_7).as_json()["current_round"] == 0)  # type: ignore[misc]
            await until(lambda node=node: node.job(MNIST_3_7).as_json()["phase"] == "IDLE")  # type: ignore[misc]
            record = node.history(MNIST_3_7)[-1]
            assert record["contributors"] == ["a", "c"]
            assert "forced" not in record["outcome"]
    finally:
        await mesh.stop()
