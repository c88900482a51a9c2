"""The ONNX files of trainers without code judge as the trainers do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flnet.messages import HyperParams
from flnet.params import Array
from flnet.training.api import Task, Trainer
from tests.training.own_files import class_folders, csv_file, images, node, table, two_clouds
from trainers._own import make_own

pytest.importorskip("onnx", reason="the extra onnx is not installed")
RUNTIME = pytest.importorskip("onnxruntime", reason="onnxruntime, which runs the files, is not here")


def furthest(trainer: Trainer, inputs: Array) -> float:
    """By how much file and trainer differ, after a little training."""
    fit = trainer.fit(Task(trainer.initial_params(0), HyperParams(e=2, u=0.05, b=8), seed=1))
    file = trainer.onnx(fit.params)
    assert file is not None
    options = RUNTIME.SessionOptions()
    options.intra_op_num_threads = 1
    (values,) = RUNTIME.InferenceSession(file, options).run(None, {"inputs": inputs})
    expected = trainer.predict(fit.params, inputs).values
    assert values.shape == expected.shape
    return float(np.abs(values - expected).max() / max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("model", ["small-cnn", "linear"])
@pytest.mark.parametrize("colour", ["grey", "rgb"])
def test_images(tmp_path: Path, model: str, colour: str) -> None:
    class_folders(tmp_path / "pictures")
    trainer = make_own(images(model=model, colour=colour), node(tmp_path))
    spec = trainer.input_spec()
    assert spec is not None
    pictures = np.random.default_rng(0).integers(0, 256, (7, *spec.shape)).astype(np.float32)
    assert furthest(trainer, pictures) < 1e-4


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_classes_of_a_table(tmp_path: Path, model: str) -> None:
    rows = [[a, b, ("f", "m")[i % 2], y] for i, (a, b, y) in enumerate(two_clouds(200))]
    csv_file(tmp_path / "t.csv", ["a", "b", "sex", "y"], rows)
    trainer = make_own(table(model=model, categories={"sex": ["f", "m"]}), node(tmp_path))
    assert furthest(trainer, np.array([[0, 100, 1, 0], [2, 140, 0, 1], [1, 120, 0, 1]], np.float32)) < 1e-4


def test_numbers_of_a_table_come_in_the_targets_own_unit(tmp_path: Path) -> None:
    csv_file(tmp_path / "t.csv", ["a", "y"], [[i, 1000 + 10 * i] for i in range(100)])
    trainer = make_own(table(task="regress", target_scale=[1500, 300]), node(tmp_path))
    assert furthest(trainer, np.array([[10], [90]], np.float32)) < 1e-4
