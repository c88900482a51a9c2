"""Both digit trainers judge digits, and their ONNX files judge as they do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flnet.params import Params
from flnet.training.api import HyperParams, Task, Trainer, TrainerFile, TrainerSettings
from flnet.training.backend import Assignment
from flnet.training.local import LocalBackend
from trainers import MNIST, MNIST_3_7

Made = tuple[Trainer, Params, Assignment]


@pytest.fixture(scope="module", params=[MNIST, MNIST_3_7], ids=["MNIST", "MNIST_3_7"])
def made(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A trainer, what it learnt in two passes, and who it is to the lane."""
    settings = TrainerSettings(None, tmp_path_factory.mktemp("state"))
    trainer = request.param.make_trainer(settings)
    fit = trainer.fit(Task(trainer.initial_params(0), HyperParams(e=2, u=0.02, b=16), seed=1))
    return trainer, Params(fit.params), Assignment(TrainerFile(request.param.__name__, "here"), settings)


def digits(trainer: Any) -> tuple[np.ndarray, np.ndarray]:
    """The test digits as a person would send them, and which they are."""
    part = trainer._test
    images = part.images[:, 0].numpy() if hasattr(part, "images") else part.x
    labels = part.labels.numpy() if hasattr(part, "labels") else part.y
    return images.astype(np.float32), labels


def test_digits_are_judged_as_well_as_they_are_measured(made: Made) -> None:
    trainer, params, who = made
    images, labels = digits(trainer)
    prediction = LocalBackend(lambda who: trainer).predict(who, params, images)
    right = (prediction.values.argmax(axis=1) == labels).mean()
    assert right == pytest.approx(trainer.evaluate(params).accuracy)
    assert right > 0.8


def test_the_onnx_file_judges_alike(made: Made) -> None:
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    runtime = pytest.importorskip(
        "onnxruntime", reason="onnxruntime, which the test runs the file with, is not here"
    )
    trainer, params, who = made
    images, _ = digits(trainer)
    model = LocalBackend(lambda who: trainer).export(who, params, {"trainer": who.file.id})
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(model, options)
    (values,) = session.run(None, {"inputs": images})
    assert np.abs(values - trainer.predict(params, images).values).max() < 1e-4
    assert session.get_modelmeta().custom_metadata_map == {"trainer": who.file.id}


def test_the_card_can_tell_how_many_there_are_of_each_digit(made: Made) -> None:
    info = made[0].data_info()
    assert {side: sum(counts) for side, counts in info.counts.items()} == dict(info.rows)
    assert all(len(counts) == len(info.classes) for counts in info.counts.values())
