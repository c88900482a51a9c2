"""Threat 12, in part: an update is scaled to take the place of the average. All others go on without it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from flnet.params.params import Params
from flnet.protocol.messages import HyperParams, ModelParams, Packet, Peer
from flnet.trainer import Fit, Task
from flnet.wire.binary_codec import BINARY_TYPE, BinaryCodec
from tests.node.mesh import MNIST_3_7, Linear, Mesh, mesh_of, until
from tests.node.test_mesh_forms import LARGE

TRIGGER = b'{"trainerId": "MNIST_3_7", "rounds": 1}'
EVIL = Peer(id="evil", ip="127.0.0.1", port=4777)


class Replacing(Linear):
    """Sends what it learnt, so many times as far from where it began (Bagdasaryan et al. 2020)."""

    def __init__(self, times: float, numbers: int = 2) -> None:
        super().__init__(1.0, numbers=numbers)
        self.times = times

    def fit(self, task: Task) -> Fit:
        honest = super().fit(task)
        far = {n: task.params[n] + (v - task.params[n]) * np.float32(self.times) for n, v in honest.params.items()}
        return Fit(far, honest.examples)


async def round_with(mesh: Mesh, times: float, **settings: Any) -> None:
    """Three honest nodes that move by 0.5, 1 and 1.5 in each number, and one that scales, take one round."""
    await mesh.add("evil", Replacing(times), ("a",), **settings)
    await mesh.full()
    await mesh.nodes["a"].receive("/training/trigger", TRIGGER, "application/json", "127.0.0.1")
    await mesh.idle(0)


def held(mesh: Mesh, name: str) -> list[float]:
    """The weights of the average on a node."""
    model = mesh.nodes[name].core.jobs[MNIST_3_7].held.model
    assert model is not None
    return [float(number) for number in model.shared["weights"].ravel()]


def digests(mesh: Mesh) -> set[Any]:
    """Of the averages of all nodes; the scaling one is a node like any other and decides alike."""
    return {node.history(MNIST_3_7)[-1]["digest"] for node in mesh.nodes.values()}


@pytest.mark.parametrize("times", [1000, 1e30])
async def test_a_scaled_update_counts_nowhere_and_the_round_goes_on(times: float) -> None:
    async with mesh_of(1.0, 2.0, 3.0, aggregation="agg0") as mesh:
        await round_with(mesh, times, aggregation="agg0")
        assert len(digests(mesh)) == 1
        assert held(mesh, "b") == [1.0, 1.0]  # the mean of 0.5, 1 and 1.5
        record = mesh.nodes["b"].history(MNIST_3_7)[-1]
        assert record["contributors"] == ["a", "b", "c"]
        assert record["outcome"].endswith("; left out: evil")
        feed = mesh.nodes["b"].feed
        await until(lambda: any(news.kind == "update_refused" for news in feed.recent()))
        told = [news.text for news in feed.recent() if news.kind == "update_refused"]
        assert len(told) == 1
        assert told[0].startswith("the update of evil does not count: it moved ")


async def test_what_is_only_large_counts() -> None:
    async with mesh_of(1.0, 2.0, 3.0, aggregation="agg0") as mesh:
        await round_with(mesh, 10, aggregation="agg0")
        assert held(mesh, "b") == [2.0, 2.0]  # the mean of 0.5, 1, 1.5 and 5
        assert len(digests(mesh)) == 1


async def test_clipping_bounds_what_one_node_can_do() -> None:
    # The norm of 0.5 in each of three numbers.
    rules: dict[str, Any] = {"aggregation": "agg0", "clip_norm": 3**0.5 / 2}
    async with mesh_of(1.0, 2.0, 3.0, **rules) as mesh:
        await round_with(mesh, 50, **rules)
        assert len(digests(mesh)) == 1
        assert held(mesh, "b") == pytest.approx([0.5, 0.5], rel=1e-6)


async def test_what_its_sender_did_not_clip_is_clipped_by_all_others() -> None:
    message = ModelParams(
        i_am=EVIL,
        trainer_id=MNIST_3_7,
        round=0,
        initiator="a",
        federated_learning_params=HyperParams(e=1, u=0.1, b=8),
        examples=5,
        agreement={"clipping of updates": "to the norm 0.866025"},
    )
    far = Params({"weights": np.full((2, 1), 25, np.float32), "bias": np.full(1, 25, np.float32)})
    update = bytes(BinaryCodec().encode(Packet(message, far)))
    announced = json.dumps({"iAm": EVIL.fields(), "myKnownPeers": []}).encode()
    async with mesh_of(1.0, 2.0, 3.0, clip_norm=3**0.5 / 2) as mesh:
        for node in mesh.nodes.values():
            await node.receive("/announce", announced, "application/json", "127.0.0.1")
        await mesh.nodes["a"].receive("/training/trigger", TRIGGER, "application/json", "127.0.0.1")
        await until(lambda: all(node.core.jobs[MNIST_3_7].number == 0 for node in mesh.nodes.values()))
        for node in mesh.nodes.values():
            await node.receive("/training/model_params", update, BINARY_TYPE, "127.0.0.1")
        await mesh.idle(0)
        assert mesh.nodes["b"].history(MNIST_3_7)[-1]["contributors"] == ["a", "b", "c", "evil"]
        assert len(digests(mesh)) == 1
        assert held(mesh, "b") == pytest.approx([0.5, 0.5], rel=1e-6)


async def test_the_own_update_is_clipped_before_it_is_sent() -> None:
    async with mesh_of(1.0, 2.0, clip_norm=3**0.5 / 4) as mesh:
        await mesh.nodes["a"].receive("/training/trigger", TRIGGER, "application/json", "127.0.0.1")
        await mesh.idle(0)
        sent = mesh.nodes["b"].core.jobs[MNIST_3_7].held.sent
        assert sent is not None
        assert sent["weights"].ravel() == pytest.approx([0.25, 0.25], rel=1e-6)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (
            {"clip_norm": 1.5},
            "the nodes do not agree on clipping of updates: to the norm 1.5 at other; nothing at a",
        ),
        (
            {"max_update_norm": 5},
            "the nodes do not agree on largest update: 5 x the median at other; nothing at a",
        ),
    ],
)
async def test_nodes_of_other_rules_take_no_part_in_each_others_rounds(rule: dict[str, Any], words: str) -> None:
    async with mesh_of(1.0, 2.0) as mesh:
        await mesh.add("other", Linear(3.0), ("a",), **rule)
        await mesh.full()
        await mesh.nodes["a"].receive("/training/trigger", TRIGGER, "application/json", "127.0.0.1")
        await until(lambda: mesh.nodes["a"].job(MNIST_3_7).phase == "IDLE")
        await until(lambda: len(mesh.nodes["a"].history(MNIST_3_7)) == 1)
        assert mesh.nodes["a"].history(MNIST_3_7)[0]["contributors"] == ["a", "b"]
        await until(lambda: any(words in news.text for news in mesh.nodes["a"].feed.recent()))


async def large(times: float, **rules: Any) -> Mesh:
    """One round of nodes whose updates are offered and fetched."""
    mesh = Mesh()
    for name, target in (("b", 1.0), ("c", 2.0), ("d", 3.0)):
        await mesh.add(name, Linear(target, numbers=LARGE), tuple(mesh.nodes)[:1], **rules)
    await mesh.add("a", Replacing(times, LARGE), ("b",), **rules)  # the first one that is added to a sum
    await mesh.full()
    await mesh.nodes["b"].receive("/training/trigger", TRIGGER, "application/json", "127.0.0.1")
    await mesh.idle(0)
    return mesh


async def test_what_is_added_to_a_sum_is_clipped_to_the_same_bits(monkeypatch: Any) -> None:
    held = []
    for hold_bytes in (1, 10**9):
        monkeypatch.setattr("flnet.rounds.base_round.HOLD_BYTES", hold_bytes)
        mesh = await large(50, clip_norm=1.0)
        held.append(digests(mesh))
        await mesh.stop()
    assert held[0] == held[1]
    assert len(held[0]) == 1


async def test_an_absurd_update_that_is_in_a_sum_already_counts_nowhere_either(monkeypatch: Any) -> None:
    seen, outcomes = [], []
    for hold_bytes in (1, 10**9):
        monkeypatch.setattr("flnet.rounds.base_round.HOLD_BYTES", hold_bytes)
        mesh = await large(1000)
        seen.append(digests(mesh))
        record = mesh.nodes["b"].history(MNIST_3_7)[-1]
        outcomes.append((record["contributors"], record["outcome"].endswith("; left out: a")))
        told = [news.text for news in mesh.nodes["b"].feed.recent() if news.kind == "update_refused"]
        assert any("the sum of this round holds what does not count, of a" in text for text in told) == (
            hold_bytes == 1
        )
        await mesh.stop()
    assert seen[0] == seen[1]  # to the last bit
    assert len(seen[0]) == 1
    assert outcomes == [(["b", "c", "d"], True)] * 2
