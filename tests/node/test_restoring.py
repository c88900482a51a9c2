"""On whole nodes: models are pinned, and a person goes back to one from which the next round starts everywhere."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from flnet.errors import JobBusy, UnknownModel, UnknownTrainer
from flnet.node import model_registry as model_registry
from flnet.node.runtime import NodeRuntime
from flnet.params.params import TrainerId
from flnet.store.base import USUAL
from flnet.web.api.models import ModelView
from tests.node.mesh import MNIST_3_7, Mesh, mesh_of, trigger, until
from tests.node.predicting import Predictor


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Two nodes after two rounds."""
    async with mesh_of(Predictor(1.0), Predictor(3.0)) as made:
        await made.train(rounds=2)
        yield made


def kinds(node: NodeRuntime) -> list[str]:
    return [item.kind for item in node.feed.recent()]


async def test_the_model_comes_back_with_its_figures_and_private_part(mesh: Mesh) -> None:
    node = mesh.nodes["b"]
    newer, older = await node.models(MNIST_3_7)
    view = await node.restore(MNIST_3_7, older["digest"][:12])
    assert (view.digest, view.model_round, view.rolled_back) == (older["digest"], 0, True)
    held, other = await node.models(MNIST_3_7)
    assert held == {**older, "held": True}
    assert other == {**newer, "held": False}
    model = node.core.jobs[MNIST_3_7].held.model
    assert model is not None
    assert model.private["head"][0] == 1  # of two trainings
    await until(lambda: kinds(node)[-2:] == ["rolled_back", "measured"])
    assert (await node.models(MNIST_3_7))[0]["accuracy"] == older["accuracy"]
    assert older["digest"][:10] in (await node.card(MNIST_3_7, held["digest"])).body.decode()


async def test_the_next_round_started_here_starts_from_it_on_every_node(mesh: Mesh) -> None:
    node = mesh.nodes["b"]
    _, older = await node.models(MNIST_3_7)
    await node.restore(MNIST_3_7, older["digest"])
    before = node.core.jobs[MNIST_3_7].held.model
    assert before is not None
    await mesh.train(node.me.id)
    views = [each.job(MNIST_3_7).as_json() for each in mesh.nodes.values()]
    assert len({view["digest"] for view in views}) == 1
    assert [view["rolled_back"] for view in views] == [False, False]
    assert [record["contributors"] for record in node.history(MNIST_3_7)] == [["a", "b"]] * 3
    after = node.core.jobs[MNIST_3_7].held.model
    assert after is not None
    expected = (before.shared["bias"][0] + 1) / 2, (before.shared["bias"][0] + 3) / 2  # half way to 1 and to 3
    assert after.shared["bias"][0] == pytest.approx(sum(expected) / 2, abs=1e-6)
    # The model gone back to is known there too as what it was.
    there = {view["digest"]: view for view in await mesh.nodes["a"].models(MNIST_3_7)}
    assert there[older["digest"]]["round"] == 0


async def test_where_a_peer_starts_it_is_over_and_people_are_told(mesh: Mesh) -> None:
    node = mesh.nodes["b"]
    _, older = await node.models(MNIST_3_7)
    await node.restore(MNIST_3_7, older["digest"])
    await mesh.train()
    assert "roll_back_ended" in kinds(node)
    assert node.job(MNIST_3_7).as_json()["digest"] == mesh.nodes["a"].job(MNIST_3_7).as_json()["digest"]
    assert node.history(MNIST_3_7)[-1]["contributors"] == ["a", "b"]


async def test_what_cannot_be_gone_back_to_is_refused_in_words(mesh: Mesh) -> None:
    node = mesh.nodes["a"]
    newer, older = await node.models(MNIST_3_7)
    with pytest.raises(JobBusy, match="already"):
        await node.restore(MNIST_3_7, newer["digest"])
    with pytest.raises(UnknownModel, match="has no model"):
        await node.restore(MNIST_3_7, "ff" * 32)
    with pytest.raises(UnknownTrainer):
        await node.restore(TrainerId("NONE"), newer["digest"])
    await trigger(node)
    with pytest.raises(JobBusy, match="round 2 is still"):
        await node.restore(MNIST_3_7, older["digest"])
    await mesh.idle(2)


async def test_a_pinned_model_outlives_the_others_and_can_be_gone_back_to(mesh: Mesh) -> None:
    node = mesh.nodes["a"]
    _, first = await node.models(MNIST_3_7)
    pinned = await node.pin(MNIST_3_7, first["digest"][:8], True)
    assert pinned == {**first, "pinned": True}
    ModelView.model_validate(pinned)
    await mesh.train(node.me.id, rounds=USUAL.averages + 3)
    views = await node.models(MNIST_3_7)
    assert len(views) == USUAL.averages + 2
    assert [view["digest"] for view in views if view["pinned"]] == [first["digest"]]
    assert first["digest"] not in [view["digest"] for view in await mesh.nodes["b"].models(MNIST_3_7)]
    await node.restore(MNIST_3_7, first["digest"])
    assert (await node.models(MNIST_3_7))[0] == {**first, "pinned": True, "held": True}
    assert (await node.pin(MNIST_3_7, first["digest"], False))["pinned"] is False


async def test_there_is_a_bound_on_pinned_models(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    node = mesh.nodes["a"]
    one, other = [view["digest"] for view in await node.models(MNIST_3_7)]
    monkeypatch.setattr(model_registry, "PINNED_BYTES", 20)  # a model has 16
    await node.pin(MNIST_3_7, one, True)
    await node.pin(MNIST_3_7, one, True)
    with pytest.raises(JobBusy, match="unpin one first"):
        await node.pin(MNIST_3_7, other, True)
    monkeypatch.setattr(model_registry, "PINNED_BYTES", 2000)
    monkeypatch.setattr(model_registry, "MOST_PINNED", 1)
    with pytest.raises(JobBusy, match="has 1 pinned models, as many as may be; unpin one first"):
        await node.pin(MNIST_3_7, other, True)
    await node.pin(MNIST_3_7, one, False)
    assert (await node.pin(MNIST_3_7, other, True))["pinned"] is True


async def test_the_untrained_model_is_not_kept_and_cannot_be_pinned() -> None:
    async with mesh_of(Predictor(1.0)) as mesh:
        node = mesh.nodes["a"]
        with pytest.raises(UnknownModel, match="no round averaged it"):
            await node.pin(MNIST_3_7, node.job(MNIST_3_7).as_json()["digest"], True)
