"""Every model that a job comes to hold is found again, with what is known of it."""

from __future__ import annotations

import pytest

from flnet.errors import NotReady, UnknownModel, UnknownTrainer
from flnet.messages import Peer
from flnet.node.core import NodeCore
from flnet.node.shelf import Shelf
from flnet.params import TrainerId
from flnet.store import KEPT_AVERAGES, MemoryStore
from tests.node.judging import Judge
from tests.node.mesh import MNIST_3_7, Mesh
from tests.node.test_runtime import trigger


async def test_before_the_first_round_there_is_the_untrained_model() -> None:
    mesh = Mesh()
    try:
        node = await mesh.add("a", Judge(1.0))
        await mesh.full()
        (only,) = await node.models(MNIST_3_7)
        assert (only["round"], only["contributors"], only["accuracy"], only["held"]) == (-1, 0, None, True)
        assert only["digest"] == node.job(MNIST_3_7)["digest"]
        assert only["bytes"] == 4 * (2 + 1 + 1)
    finally:
        await mesh.stop()


async def test_the_last_averages_stay_and_the_held_one_comes_first() -> None:
    mesh = Mesh()
    try:
        node = await mesh.add("a", Judge(1.0))
        await mesh.add("b", Judge(3.0), ("a",))
        await mesh.full()
        rounds = KEPT_AVERAGES + 3
        await trigger(node, rounds)
        await mesh.idle(rounds - 1)
        views = await node.models(MNIST_3_7)
        assert [view["round"] for view in views] == list(range(rounds - 1, 1, -1))
        assert [view["held"] for view in views] == [True] + [False] * KEPT_AVERAGES
        records = {record["digest"]: record for record in node.history(MNIST_3_7)}
        for view in views:
            assert view["contributors"] == 2
            assert view["accuracy"] == records[view["digest"]]["post_fedavg_accuracy"]
            assert view["exchanged_with"] is None
    finally:
        await mesh.stop()


async def test_each_average_keeps_the_private_part_of_its_time() -> None:
    mesh, store = Mesh(), MemoryStore()
    try:
        node = await mesh.add("a", Judge(1.0), store=store)
        await mesh.full()
        await trigger(node, 3)
        await mesh.idle(2)
        shelf = Shelf(node.core, store)
        for view in await node.models(MNIST_3_7):
            chosen = await shelf.pick(MNIST_3_7, view["digest"][:12].upper())
            assert chosen.shared.digest == view["digest"]
            assert chosen.full["head"][0] == view["round"] + 1
            assert chosen.figures["record"]["round"] == view["round"]
        assert (await shelf.pick(MNIST_3_7, None)).figures["round"] == 2
        forgetful = Shelf(node.core, MemoryStore())  # the held one is there all the same
        assert [view["round"] for view in await forgetful.views(MNIST_3_7)] == [2]
    finally:
        await mesh.stop()


@pytest.mark.parametrize("digest", ["", "ff" * 32, "xyz", "../../etc", "f" * 70])
async def test_an_unknown_digest_is_answered_with_those_that_are_there(digest: str) -> None:
    mesh, store = Mesh(), MemoryStore()
    try:
        node = await mesh.add("a", Judge(1.0), store=store)
        await mesh.full()
        held = node.job(MNIST_3_7)["digest"]
        with pytest.raises(UnknownModel, match=f"it has {held[:10]}"):
            await Shelf(node.core, store).pick(MNIST_3_7, digest)
    finally:
        await mesh.stop()


async def test_a_job_that_loads_and_one_that_is_not_there_have_no_models() -> None:
    shelf = Shelf(NodeCore(Peer(id="a", ip="127.0.0.1", port=4000), [MNIST_3_7]), MemoryStore())
    with pytest.raises(NotReady, match="still loading"):
        await shelf.views(MNIST_3_7)
    with pytest.raises(UnknownTrainer):
        await shelf.pick(TrainerId("NONE"), None)
