"""Many nodes of MLFedAvg at once: results are those of each node by itself, over rounds and seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flnet.params import Params
from flnet.training.api import Fit, Task, TrainerSettings

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from trainers.MULTI_LABEL import MultiLabelNet, make_trainer  # noqa: E402

LABELS = tuple("abcdefg")


def nodes(folder: Path, count: int, seed: int) -> list[MultiLabelNet]:
    """All nodes of one mesh, with labels and rows of their own."""
    chance = np.random.default_rng(0)
    y = (chance.random((500, len(LABELS))) < 0.25).astype(np.uint8)
    x = (y @ chance.normal(size=(len(LABELS), 20)) + 0.1 * chance.normal(size=(500, 20))).astype(np.float32)
    np.savez(folder / "ml_scene.npz", X=x, Y=y, label_names=LABELS)
    found = []
    for part in range(1, count + 1):
        state = folder / f"state-{seed}-{part}"
        state.mkdir()
        trainer = make_trainer(TrainerSettings(folder, state, (part, count), seed))
        assert isinstance(trainer, MultiLabelNet)
        found.append(trainer)
    return found


def assert_alike(found: Fit, expected: Fit) -> None:
    assert (found.examples, found.labels) == (expected.examples, expected.labels)
    assert found.metrics == pytest.approx(expected.metrics, abs=1e-5)
    assert found.params.keys() == expected.params.keys()
    for name, value in expected.params.items():
        np.testing.assert_allclose(found.params[name], value, rtol=0, atol=1e-5)


def test_nodes_of_several_meshes_train_together_as_they_do_one_by_one(tmp_path: Path) -> None:
    """Three nodes of one seed and three of another, with heads of 3, 2 and 2 labels and rows that differ."""
    trainers = [trainer for seed in (1, 2) for trainer in nodes(tmp_path, 3, seed)]
    jobs = [
        (trainer, Task(Params(trainer.initial_params(at)), trainer.defaults, at))
        for at, trainer in enumerate(trainers)
    ]
    assert len({trainer.data_info().rows["train"] for trainer in trainers}) > 1
    fits = MultiLabelNet.fit_many(jobs)
    for (trainer, task), fit in zip(jobs, fits, strict=True):
        assert_alike(fit, trainer.fit(task))
    assert {len(fit.params["head.bias"]) for fit in fits} == {2, 3}
