"""Every model that a job comes to hold is found again, with what is known of it."""

from __future__ import annotations

import pytest

from flnet.errors import NotReady, UnknownModel, UnknownTrainer
from flnet.node.core import NodeCore
from flnet.node.model_registry import ModelRegistry, SelectedModel
from flnet.params.params import PeerId, Schema, TrainerId
from flnet.protocol.messages import Peer
from flnet.rounds.history import RoundRecord
from flnet.rounds.model import Model
from flnet.store.base import USUAL, SavedJob
from flnet.store.memory import MemoryStore
from tests.helpers import HYPER, key, params
from tests.node.mesh import MNIST_3_7, mesh_of
from tests.node.predicting import Predictor
from tests.rounds.helpers import prepared


async def test_before_the_first_round_there_is_the_untrained_model() -> None:
    async with mesh_of(Predictor(1.0)) as mesh:
        node = mesh.nodes["a"]
        (only,) = await node.models(MNIST_3_7)
        assert (only["round"], only["contributors"], only["accuracy"], only["held"]) == (-1, 0, None, True)
        assert only["digest"] == node.job(MNIST_3_7).as_json()["digest"]
        assert only["bytes"] == 4 * (2 + 1 + 1)


async def test_the_last_averages_stay_and_the_held_one_comes_first() -> None:
    async with mesh_of(Predictor(1.0), Predictor(3.0)) as mesh:
        node = mesh.nodes["a"]
        rounds = USUAL.averages + 3
        await mesh.train(rounds=rounds)
        views = await node.models(MNIST_3_7)
        assert [view["round"] for view in views] == list(range(rounds - 1, 1, -1))
        assert [view["held"] for view in views] == [True] + [False] * USUAL.averages
        records = {record["digest"]: record for record in node.history(MNIST_3_7)}
        for view in views:
            assert view["contributors"] == 2
            assert view["accuracy"] == records[view["digest"]]["post_fedavg_accuracy"]
            assert view["exchanged_with"] is None


async def test_each_average_keeps_the_private_part_of_its_time() -> None:
    store = MemoryStore()
    async with mesh_of(Predictor(1.0), store=store) as mesh:
        node = mesh.nodes["a"]
        await mesh.train(rounds=3)
        registry = ModelRegistry(node.core, store)
        for view in await node.models(MNIST_3_7):
            chosen = await registry.pick(MNIST_3_7, view["digest"][:12].upper())
            assert chosen.shared.digest == view["digest"]
            assert chosen.full["head"][0] == view["round"] + 1
            assert chosen.figures["record"]["round"] == view["round"]
        assert (await registry.pick(MNIST_3_7, None)).figures["round"] == 2
        forgetful = ModelRegistry(node.core, MemoryStore())  # the held one is there all the same
        assert [view["round"] for view in await forgetful.views(MNIST_3_7)] == [2]


@pytest.mark.parametrize("digest", ["", "ff" * 32, "xyz", "../../etc", "f" * 70])
async def test_an_unknown_digest_is_answered_with_those_that_are_there(digest: str) -> None:
    store = MemoryStore()
    async with mesh_of(Predictor(1.0), store=store) as mesh:
        node = mesh.nodes["a"]
        held = node.job(MNIST_3_7).as_json()["digest"]
        with pytest.raises(UnknownModel, match=f"it has {held[:10]}"):
            await ModelRegistry(node.core, store).pick(MNIST_3_7, digest)


async def test_a_job_that_loads_and_one_that_is_not_there_have_no_models() -> None:
    registry = ModelRegistry(NodeCore(Peer(id="a", ip="127.0.0.1", port=4000), [MNIST_3_7]), MemoryStore())
    with pytest.raises(NotReady, match="still loading"):
        await registry.views(MNIST_3_7)
    with pytest.raises(UnknownTrainer):
        await registry.pick(TrainerId("NONE"), None)


def held(registry: ModelRegistry) -> SelectedModel:
    found = registry.held_model(MNIST_3_7)
    assert found is not None
    return found


async def keep(registry: ModelRegistry, store: MemoryStore) -> int:
    """Keep what a job holds, as a node does with the next save; how many models that were."""
    models = await registry.unsaved([held(registry)])
    await store.save(MNIST_3_7, SavedJob(models=tuple(model.to_keep for model in models)))
    registry.mark_saved(models)
    return len(models)


async def test_an_adopted_model_is_kept_beside_the_average_that_it_beat() -> None:
    store = MemoryStore()
    core = NodeCore(Peer(id="a", ip="127.0.0.1", port=4000), [MNIST_3_7])
    registry, job = ModelRegistry(core, store), core.jobs[MNIST_3_7]
    job.receive(prepared())
    own, better, head = params(w=[1.0]), params(w=[2.0]), params(head=[5.0])
    record = RoundRecord(key(4), digest=own.digest, post_accuracy=0.5, used_hyper={"e": 1})
    job.history.add(record)
    job.held.model, job.held.accuracy = Model(Schema.of(own), own, head, 4, 2), 0.5
    await keep(registry, store)
    job.held.adopt(better, 4, 3, 0.75)
    record.exchanged_with = PeerId("b")
    await keep(registry, store)
    views = await registry.views(MNIST_3_7)
    assert [(v["digest"], v["accuracy"], v["exchanged_with"], v["contributors"]) for v in views] == [
        (better.digest, 0.75, "b", 3),
        (own.digest, 0.5, None, 2),
    ]
    # The next training changes the head and an edit the settings: what is kept of round 4 stays.
    job.held.learn(params(head=[6.0]))
    job.settings.use(HYPER)
    await keep(registry, store)
    kept = await store.load_model(MNIST_3_7, better.digest)
    assert kept is not None
    assert (kept.private, kept.figures["hyper"]) == (head, {"e": 1})
    assert await keep(registry, store) == 0  # nothing new is known of it


async def test_a_model_taken_over_at_a_start_was_not_measured_here() -> None:
    core = NodeCore(Peer(id="a", ip="127.0.0.1", port=4000), [MNIST_3_7])
    job, taken = core.jobs[MNIST_3_7], params(w=[3.0])
    job.receive(prepared())
    job.held.model, job.held.accuracy = Model(Schema.of(taken), taken, params(), 7, 2), 0.9  # of the model before
    (view,) = await ModelRegistry(core, MemoryStore()).views(MNIST_3_7)
    assert (view["round"], view["accuracy"]) == (7, None)
