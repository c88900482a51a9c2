"""The comparison of a vertical job with one place: from what nodes keep in their state folders."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from flnet.algorithms.vertical.aligned_batches import AlignedBatches, seed_for
from flnet.algorithms.vertical.conversation import saved_arrays
from flnet.algorithms.vertical.split_network import FeatureHolder, LabelHolder, SplitNode, run_epoch
from flnet.algorithms.vertical.split_plan import SplitPlan
from flnet.algorithms.vertical.wire_form import report_part
from flnet.datasets.no_code import OwnColumns, read_own
from flnet.errors import TrainerError
from flnet.experiments.vertical_mesh import HolderFiles, compare_with_one_place, read_models
from flnet.params.params import Array, Params, PeerId, TrainerId
from flnet.protocol.vertical import PositionPart
from flnet.rounds.vertical_models import VerticalModels
from flnet.store.base import SavedJob
from flnet.store.sqlite_store import DiskStore, read_job
from flnet.trainer import HyperParams, TrainerSettings
from flnet.vertical_trainer import VerticalTrainer
from trainers._own_columns import make_own_columns

T = TrainerId("CLAIMS")
A, B = PeerId("a"), PeerId("b")
ALIGNMENT, SEED, EPOCHS = "ab" * 32, 7, 2
HEADS = {A: ("id,x,y", 'kind = "vertical"\ndata = "a.csv"\nid = "id"\nhidden = [8]\nwidth = 4\nbatch = 16\n')}
HEADS[B] = ("id,z,label", HEADS[A][1].replace("a.csv", "b.csv") + 'target = "label"\n')


def files_of(folder: Path) -> dict[PeerId, HolderFiles]:
    chance = np.random.default_rng(0)
    x = chance.normal(size=(100, 3))
    for peer, (head, toml) in HEADS.items():
        rows = [
            f"p{n},{x[n, 0]},{x[n, 1]}" if peer == A else f"p{n},{x[n, 2]},{'yes' if x[n].sum() > 0 else 'no'}"
            for n in chance.permutation(100)
        ]
        (folder / f"{peer}.csv").write_text("\n".join([head, *rows]) + "\n")
        (folder / f"{peer}.toml").write_text(toml)
    return {peer: HolderFiles(folder / f"{peer}.toml", folder, folder / f"state-{peer}") for peer in HEADS}


def features_at(trainer: VerticalTrainer, rows: Array, places: Array) -> Array:
    return trainer.features(rows[places])


def trained(nodes: dict[PeerId, HolderFiles]) -> dict[PeerId, VerticalModels]:
    """What both nodes keep after the epochs, as the job trains them: with the trainers that nodes have."""
    trainers = {}
    for peer, files in nodes.items():
        own = read_own(files.trainer)
        assert isinstance(own, OwnColumns)
        trainers[peer] = make_own_columns(own, TrainerSettings(files.datasets, files.state))
    common = [f"p{n}" for n in np.random.default_rng(1).permutation(100)[:80]]
    rows = {p: np.array([list(trainer.identifiers()).index(i) for i in common]) for p, trainer in trainers.items()}
    hyper = HyperParams(e=1, u=0.005, b=16)
    batches = AlignedBatches(80, hyper.b, SEED, ALIGNMENT)
    plan = SplitPlan(dict.fromkeys(trainers, 4), {B: None}, batches)
    split = {peer: SplitNode(peer) for peer in trainers}
    for peer, trainer in trainers.items():
        bottom = trainer.bottom_model(seed_for(SEED, f"bottom:{peer}"), hyper)
        assert bottom is not None
        split[peer].features = FeatureHolder(peer, plan, partial(features_at, trainer, rows[peer]), bottom)
    top = trainers[B].top_model(plan.width, seed_for(SEED, "top"), hyper)
    assert top is not None
    split[B].labels = LabelHolder(B, plan, trainers[B].labels(rows[B]), top)
    for _ in range(EPOCHS):
        run_epoch(split)
    report = split[B].labels.report  # type: ignore[union-attr]
    assert report is not None
    position = PositionPart(columns=1, has_label=False, width=4, rows=100, rule="r", group="g", seed=1, number=0)
    kept = {}
    for peer, node in split.items():
        assert node.features is not None
        state, models = node.features.bottom.state(), VerticalModels()
        models.holders, models.seed, models.ids = dict.fromkeys("ab", position), SEED, "ids"
        models.align(rows[peer], ALIGNMENT, ("a", "b"))
        stated = report_part(report) if peer == B else None
        models.add(EPOCHS - 1, Params(saved_arrays("bottom", state)), state.digest, stated)
        models.closed = EPOCHS - 1
        kept[peer] = models
    return kept


@contextlib.asynccontextmanager
async def saved(nodes: dict[PeerId, HolderFiles], kept: dict[PeerId, VerticalModels]) -> AsyncIterator[None]:
    """The stores of both nodes are open, as those of running nodes are."""
    async with contextlib.AsyncExitStack() as stack:
        for peer, models in kept.items():
            store = DiskStore(nodes[peer].state)
            stack.push_async_callback(store.close)
            await store.save(T, SavedJob({"vertical": models.kept()}, Params(), models.params))
        yield


async def test_the_network_in_one_place_becomes_that_of_the_nodes_to_the_last_bit(tmp_path: Path) -> None:
    nodes = files_of(tmp_path)
    async with saved(nodes, trained(nodes)):
        compared = compare_with_one_place(T, nodes, EPOCHS)
    assert compared.is_equal
    assert (compared.common, compared.held_out, compared.label) == (80, 16, B)
    assert compared.columns == {A: 2, B: 1}
    assert compared.together == compared.in_one_place
    assert compared.alone.keys() == {A, B}
    assert compared.alone[A] != compared.together


async def test_other_weights_are_not_called_equal(tmp_path: Path) -> None:
    nodes = files_of(tmp_path)
    kept = trained(nodes)
    for models in kept.values():
        models.seed = SEED + 1
    async with saved(nodes, kept):
        assert not compare_with_one_place(T, nodes, EPOCHS).is_equal


async def test_nodes_that_are_not_at_the_end_of_the_epoch_are_refused(tmp_path: Path) -> None:
    nodes = files_of(tmp_path)
    kept = trained(nodes)
    async with saved(nodes, kept):
        with pytest.raises(TrainerError, match="do not all keep the models of epoch 2"):
            compare_with_one_place(T, nodes, EPOCHS + 1)
    kept[A].alignment = "cd" * 32
    async with saved(nodes, kept):
        with pytest.raises(TrainerError, match="do not all keep"):
            compare_with_one_place(T, nodes, EPOCHS)


async def test_another_kind_of_trainer_is_refused(tmp_path: Path) -> None:
    nodes = files_of(tmp_path)
    async with saved(nodes, trained(nodes)):
        nodes[A].trainer.write_text('kind = "table"\ndata = "a.csv"\ntarget = "x"\n')
        with pytest.raises(TrainerError, match='expected kind = "vertical"'):
            compare_with_one_place(T, nodes, EPOCHS)


async def test_a_job_is_read_beside_its_node_and_lost_parameters_are_none(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    assert read_job(tmp_path, T) is None
    private = Params({"w": np.ones(3, np.float32)})
    await store.save(T, SavedJob({"phase": "IDLE"}, Params(), private))
    job = read_job(tmp_path, T)
    assert job is not None and job.private == private
    for path in (tmp_path / "models").iterdir():
        path.unlink()
    job = read_job(tmp_path, T)
    assert job is not None and job.private is None
    await store.close()
    assert read_models(T, tmp_path) == VerticalModels()
