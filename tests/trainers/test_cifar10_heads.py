"""A common core and private heads on photographs: each node has the outputs of its own kinds, and sends the core."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from flnet.compute.checks import checked_fit, checked_score, declared
from flnet.params.arithmetic import weighted_mean
from flnet.params.params import Params
from flnet.trainer import Partition, Task, Trainer, TrainerError, TrainerSettings
from tests.datasets.own_files import node
from tests.trainers.test_cifar10_small import FEW, write_photographs
from trainers._cifar import CLASSES
from trainers.CIFAR10_HEADS import OPTIONS_FILE, make_trainer


def write_all_kinds(folder: Path) -> None:
    """Two hundred photographs to train with, and the first hundred of them, ten of each kind, to test with."""
    write_photographs(folder)
    with np.load(folder / "cifar10.npz") as file:
        x, y = file["x_train"], file["y_train"]
    np.savez(folder / "cifar10.npz", x_train=x, y_train=y, x_test=x[:100], y_test=y[:100])


def settings(folder: Path, part: int, partition: str = "pathological:2") -> TrainerSettings:
    of_node = node(folder, f"{partition.replace(':', '-')}-{part}")
    return replace(of_node, shard=(part, 5), partition=Partition.parse(partition))


def nodes(folder: Path, partition: str = "pathological:2") -> list[Trainer]:
    return [make_trainer(settings(folder, part, partition)) for part in range(1, 6)]


@pytest.mark.parametrize(("each", "partition"), [(2, "pathological:2"), (4, "pathological:4")])
def test_each_node_has_the_kinds_that_it_was_dealt(tmp_path: Path, each: int, partition: str) -> None:
    write_all_kinds(tmp_path)
    infos = [trainer.data_info() for trainer in nodes(tmp_path, partition)]
    assert {len(info.classes) for info in infos} == {each}
    assert sorted(name for info in infos for name in info.classes) == sorted(CLASSES * (each // 2))
    assert all(min(counts) > 0 for info in infos for side, counts in info.counts.items() if side != "validation")
    assert sum(info.rows["test"] for info in infos) == 100


def test_the_core_is_averaged_and_every_head_stays(tmp_path: Path) -> None:
    write_all_kinds(tmp_path)
    trainers = nodes(tmp_path)
    held = [Params(trainer.initial_params(0)) for trainer in trainers]
    said = [declared(trainer, "HEADS", params) for trainer, params in zip(trainers, held, strict=True)]
    assert {name.split(".")[0] for name in said[0].shared} == {"conv1", "conv2", "dense"}
    assert all(one.agreement == said[0].agreement for one in said)  # though their kinds differ
    assert held[0]["output.weight"].shape == (2, 64)
    passes = FEW.model_copy(update={"e": 10})
    for number in range(4):
        fits = [trainer.fit(Task(params, passes, number)) for trainer, params in zip(trainers, held, strict=True)]
        learnt = [Params(checked_fit(fit, params, "HEADS").params) for fit, params in zip(fits, held, strict=True)]
        mean = weighted_mean([(params.select(said[0].shared), 1.0) for params in learnt], {})
        held = [params.merged_with(mean) for params in learnt]
    assert len({params["output.weight"].tobytes() for params in held}) == 5
    scores = [
        checked_score(trainer.evaluate(params), "HEADS") for trainer, params in zip(trainers, held, strict=True)
    ]
    assert np.mean([score.accuracy for score in scores]) > 0.8


def test_options_bound_how_many_photographs_are_used(tmp_path: Path) -> None:
    write_all_kinds(tmp_path)
    (tmp_path / OPTIONS_FILE).write_text("rows = 10\ntests = 6\n")
    info = make_trainer(settings(tmp_path, 1)).data_info()
    assert (info.rows["train"], info.rows["test"]) == (10, 6)
    (tmp_path / OPTIONS_FILE).write_text("rows = 0\n")
    with pytest.raises(TrainerError, match="expected a whole number above 0"):
        make_trainer(settings(tmp_path, 1))
