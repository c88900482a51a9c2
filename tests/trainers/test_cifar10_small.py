"""The small network for photographs: its rows are CIFAR-10's, and nodes that label differently may train it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from flnet.algorithms.fed_mt.local_training import with_labels
from flnet.compute.checks import checked_fit, checked_score
from flnet.labels.spaces import read_fields
from flnet.params.params import Params, Schema
from flnet.protocol.messages import HyperParams
from flnet.trainer import Task
from tests.datasets.own_files import node
from trainers._cifar import CLASSES
from trainers.CIFAR10_SMALL import make_trainer

FEW = HyperParams(e=1, u=0.02, b=16)


def write_photographs(folder: Path, each: int = 20) -> None:
    """Ten kinds that differ in light and colour, under noise."""
    chance, y = np.random.default_rng(0), np.arange(10 * each) % 10
    colours = np.stack([25 * y, 250 - 25 * y, 60 * (y % 4)], axis=1)[:, None, None]
    x = np.clip(colours + chance.normal(0, 10, (len(y), 32, 32, 3)), 0, 255).astype(np.uint8)
    np.savez(folder / "cifar10.npz", x_train=x, y_train=y, x_test=x[::2], y_test=y[::2])


def test_photographs_are_learnt_by_a_node_with_coarse_labels(tmp_path: Path) -> None:
    write_photographs(tmp_path)
    whole = make_trainer(node(tmp_path))
    assert whole.data_info().classes == CLASSES
    assert whole.data_info().rows["test"] == 100
    assert Schema.of(Params(whole.initial_params(0))).numbers == 136_874
    says = {"id": "two", "classes": ["machine", "animal"], "desired": {"id": "ten", "classes": list(CLASSES)}}
    machines = ["airplane", "automobile", "ship", "truck"]
    mapping = {"machine": machines, "animal": [name for name in CLASSES if name not in machines]}
    told = replace(node(tmp_path, "coarse"), labels=read_fields({**says, "mapping": mapping, "steps": 40}))
    coarse = with_labels(make_trainer(told), told, "CIFAR10_SMALL")
    model = first = Params(coarse.initial_params(0))
    for seed in range(2):
        model = Params(checked_fit(coarse.fit(Task(model, FEW, seed)), model, "CIFAR10_SMALL").params)
    before, after = (checked_score(coarse.evaluate(one), "CIFAR10_SMALL").accuracy for one in (first, model))
    assert after > max(0.8, before)
