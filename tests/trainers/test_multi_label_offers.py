"""A multi-label model names all labels that hold, and its ONNX file judges alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from flnet.training.api import TrainerFile  # noqa: E402
from flnet.training.backend import Assignment  # noqa: E402
from flnet.training.local import LocalBackend  # noqa: E402
from flnet.training.offers import predicted  # noqa: E402
from tests.trainers.test_multi_label import node, start, trained, write_data  # noqa: E402
from trainers.MULTI_LABEL import make_trainer  # noqa: E402


def test_rows_are_judged_by_the_nodes_own_labels_and_elsewhere_too(tmp_path: Path) -> None:
    settings = node(write_data(tmp_path, options="deal = [4, 2]"))
    trainer = make_trainer(settings)
    who, backend = Assignment(TrainerFile("T", "here"), settings), LocalBackend(lambda who: trainer)
    declaration, _ = backend.prepare(who)
    assert (declaration.offers["inputs"]["kind"], declaration.offers["inputs"]["shape"]) == ("features", [20])

    params = trained(trainer, start(trainer), epochs=8)
    rows = np.load(tmp_path / "ml_scene.npz", allow_pickle=False)["X"][:50]
    prediction = backend.predict(who, params, rows)
    assert (prediction.meaning, prediction.values.shape) == ("any_of", (50, 4))
    names = predicted(prediction, declaration.data["classes"])
    assert {len(labels) for labels in names} >= {0, 1, 2}

    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime, which runs the file, is not here")
    (values,) = runtime.InferenceSession(backend.export(who, params, {})).run(None, {"inputs": rows})
    assert np.abs(values - prediction.values).max() < 1e-4
