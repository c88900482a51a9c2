"""The Keras networks of CIFAR10 and CHEST_X_RAY_PNEUMONIA: declaration, determinism, learning, predictions.

They stand in one module because one process runs a module: TensorFlow is imported once.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flnet.algorithms.registry import with_method
from flnet.algorithms.wrapper import Descent
from flnet.compute.checks import checked_fit, checked_score, declared
from flnet.compute.loader import import_trainer
from flnet.errors import TrainerError
from flnet.params.params import Params, Schema
from flnet.protocol.messages import HyperParams
from flnet.trainer import Method, Task, Trainer, TrainerSettings
from tests.trainers.cifar_forms import made_up, npz
from tests.trainers.real_data import datasets_path
from tests.trainers.test_chest_x_ray import packed
from tests.trainers.test_private_layers import documented

Both = dict[str, Trainer]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    pytest.importorskip("tensorflow", reason="needs TensorFlow: pip install flnet[tensorflow]")
    from trainers import CHEST_X_RAY_PNEUMONIA, CIFAR10

    photographs, xrays = tmp_path_factory.mktemp("cifar"), tmp_path_factory.mktemp("chest")
    return {
        "CIFAR10": CIFAR10.make_trainer(TrainerSettings(npz(photographs / "data"), photographs)),
        "CHEST": CHEST_X_RAY_PNEUMONIA.make_trainer(TrainerSettings(packed(xrays / "data"), xrays)),
    }


@pytest.fixture
def trainer(both: Both) -> Trainer:
    return both["CIFAR10"]


@pytest.fixture
def chest(both: Both) -> Trainer:
    return both["CHEST"]


EACH = pytest.mark.parametrize(
    ("name", "label", "numbers"),
    [
        ("CIFAR10", "CIFAR-10 Dataset", range(200_000, 600_000)),
        ("CHEST", "Chest X-Ray Pneumonia Dataset", [178_002]),
    ],
)


@EACH
def test_the_declaration_says_what_the_mesh_must_know(both: Both, name: str, label: str, numbers: range) -> None:
    trainer = both[name]
    params = Params(trainer.initial_params(0))
    declaration = declared(trainer, name, params)
    assert declaration.label == label
    assert set(declaration.shared) == set(params)
    assert Schema.of(params).numbers in numbers
    assert all(value.dtype == np.float32 for value in params.values())
    assert Params(trainer.initial_params(0)) == params != Params(trainer.initial_params(4))


@pytest.mark.parametrize("name", ["CIFAR10", "CHEST"])
def test_rows_cannot_be_hidden_under_batch_normalisation(both: Both, name: str) -> None:
    words = r"batch normalisation \(.*\) mixes the rows of a batch; .* group normalisation, or take one of .*CIFAR10_SMALL"
    with pytest.raises(TrainerError, match=words):
        with_method(both[name], Method(row_privacy=True), 0, name)


@pytest.mark.parametrize("name", ["CIFAR10", "CHEST"])
def test_a_training_depends_on_nothing_but_parameters_data_and_seed(both: Both, name: str) -> None:
    trainer = both[name]
    start, hyper = Params(trainer.initial_params(1)), HyperParams(e=2, u=0.01, b=64)
    calls: list[tuple[int, int]] = []
    once = checked_fit(trainer.fit(Task(start, hyper, 5, lambda *at: calls.append(at))), start, name)
    batches = 2 * -(-once.examples // 64)
    assert calls == [(done, batches) for done in range(1, batches + 1)]
    assert Params(trainer.fit(Task(start, hyper, 5)).params) == Params(once.params)
    assert Params(trainer.fit(Task(start, hyper, 6)).params) != Params(once.params)


def test_small_batches_are_trained_in_groups_as_they_are_one_by_one(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainers import _keras

    start = Params(trainer.initial_params(1))
    calls: list[tuple[int, int]] = []
    for proximal in (0.0, 0.1):
        task = Task(start, HyperParams(e=1, u=0.01, b=5), 5, lambda *at: calls.append(at), proximal=proximal)
        ends = []
        for rows in (64, 1):
            monkeypatch.setattr(_keras, "ROWS_AT_ONCE", rows)
            ends.append(trainer.fit(task))
        grouped, single = ends
        assert Params(grouped.params) == Params(single.params) != start
        assert grouped.metrics["loss"] == pytest.approx(single.metrics["loss"], rel=1e-5)
        assert calls[0] == (12, 36)
        assert calls[2:] == [(36, 36), *((done, 36) for done in range(1, 37))]
        calls.clear()


def test_x_rays_are_measured_by_more_than_their_accuracy(chest: Trainer) -> None:
    score = checked_score(chest.evaluate(chest.initial_params(1)), "CHEST")
    assert score.accuracy == score.metrics["accuracy"]
    own = {"accuracy", "balanced_accuracy", "auc"}
    assert set(score.metrics) == own | {f"official_{name}" for name in own}


@pytest.mark.parametrize("name", ["CIFAR10", "CHEST"])
def test_validation_rows_give_the_accuracy_that_a_training_tells(both: Both, name: str) -> None:
    trainer = both[name]
    fit = trainer.fit(Task(Params(trainer.initial_params(1)), HyperParams(e=1, u=0.01, b=64), 5))
    score = trainer.validation_score(fit.params)
    assert score is not None
    rows = trainer.data_info().rows["validation"]
    assert (score.accuracy, score.examples) == (fit.metrics["validation_accuracy"], rows)


def test_parameters_go_in_as_they_came_out(trainer: Trainer) -> None:
    start = Params(trainer.initial_params(1))
    before = Params({name: value.copy() for name, value in start.items()})
    fit = trainer.fit(Task(start, HyperParams(e=1, u=1e-30, b=64), 0))
    assert start == before
    for name in (name for name in start if "moving" not in name):
        np.testing.assert_allclose(fit.params[name], start[name], atol=1e-20)  # a rate of nothing moves nothing


def test_taken_apart_it_is_the_same_training(trainer: Trainer) -> None:
    """Batches, dropout and moving statistics too; a second question within a step moves nothing."""
    start = Params(trainer.initial_params(1))
    task = Task(start, HyperParams(e=2, u=0.01, b=64), 7)
    whole, gradients = trainer.fit(task), trainer.gradients(task)
    assert gradients is not None
    params, descent = {name: np.array(value) for name, value in start.items()}, Descent("momentum", 0.01)
    losses = []
    for step in range(gradients.steps):
        loss, slope = gradients(params, step)
        assert not any("moving" in name for name in slope)
        descent.step(params, slope)
        losses.append(loss)
    apart = gradients.fit(params, gradients.steps, float(np.mean(losses)))
    assert (apart.examples, set(apart.metrics)) == (whole.examples, set(whole.metrics))
    assert apart.metrics["loss"] == pytest.approx(whole.metrics["loss"], abs=1e-4)
    for name, value in whole.params.items():
        np.testing.assert_allclose(apart.params[name], value, atol=2e-4, err_msg=name)
        assert name.endswith("bias") or np.abs(value - start[name]).max() > 1e-3  # they did move
    ends = []
    for asked in ([start], [start, {name: value + 1 for name, value in start.items()}]):
        gradients = trainer.gradients(task)
        assert gradients is not None
        for one in asked:
            gradients(one, 0)
        found = gradients.fit(dict(start), 1, 0.0).params
        ends.append(Params({name: value for name, value in found.items() if "moving" in name}))
    assert ends[0] == ends[1]


def test_it_learns_what_is_easy_and_predicts_as_it_is_measured_and_so_does_its_onnx_file(trainer: Trainer) -> None:
    fit = trainer.fit(Task(Params(trainer.initial_params(0)), HyperParams(e=5, u=0.02, b=16), 0))
    score = checked_score(trainer.evaluate(fit.params), "CIFAR10")
    assert score.accuracy > 0.5 and score.examples == 40
    x, y = made_up(40, 5)
    prediction = trainer.predict(fit.params, x.astype(np.float32))
    assert prediction.values.sum(1) == pytest.approx(np.ones(40), abs=1e-5)
    assert (prediction.values.argmax(1) == y).mean() == score.accuracy
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime, which runs the file, is not here")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(trainer.onnx(fit.params), options)
    (values,) = session.run(None, {"inputs": x.astype(np.float32)})
    assert np.abs(values - prediction.values).max() < 1e-4


def test_the_proximal_term_holds_a_training_back(trainer: Trainer) -> None:
    start = Params(trainer.initial_params(0))
    task = Task(start, HyperParams(e=1, u=0.02, b=20), seed=1)
    trained = [name for name in start if name not in trainer.buffers]
    assert sorted(name for name in start if "moving_" in name) == sorted(trainer.buffers)

    learnt = [trainer.fit(replace(task, proximal=mu)).params for mu in (0.0, 5.0)]
    free, held = (sum(np.square(one[n] - start[n]).sum() for n in trained) ** 0.5 for one in learnt)
    assert held < 0.9 * free


def test_private_normalisation_as_documented_shares_all_but_its_scales(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow", reason="needs TensorFlow: pip install flnet[tensorflow]")
    told = TrainerSettings(npz(tmp_path / "data"), tmp_path)
    own = import_trainer(documented("OwnNormalisation", tmp_path), told)
    params = Params(own.initial_params(0))
    private = set(params) - set(declared(own, "T", params).shared)
    assert {name.split("/")[0] for name in private} == {"conv1_norm", "conv2_norm", "conv3_norm", "dense_norm"}
    assert {name.split("/")[1] for name in private} == {"gamma", "beta", "moving_mean", "moving_variance"}


@pytest.mark.data
@pytest.mark.long
def test_it_learns_from_real_photographs(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow", reason="needs TensorFlow: pip install flnet[tensorflow]")
    if not any(datasets_path().glob("cifar10_*.npz")):
        pytest.skip(f"no CIFAR-10 in {datasets_path()}; name its folder in FLNET_DATASETS_PATH")
    from trainers.CIFAR10 import make_trainer

    real = make_trainer(TrainerSettings(datasets_path(), tmp_path, (1, 10)))
    fit = real.fit(Task(Params(real.initial_params(0)), HyperParams(e=3, u=0.02, b=32), 0))
    assert real.evaluate(fit.params).accuracy > 0.3


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_gpu_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    keras = pytest.importorskip("trainers._keras")
    monkeypatch.setattr(keras.tf.config, "list_physical_devices", lambda kind: [])
    with pytest.raises(TrainerError, match=f"FLNET_DEVICE={device} asks for a GPU"):
        keras.use_device(device)
    keras.use_device("cpu")
    keras.use_device("auto")


def test_it_judges_x_rays_and_says_that_this_is_no_diagnosis(chest: Trainer) -> None:
    spec, params = chest.input_spec(), Params(chest.initial_params(0))
    assert spec is not None and spec.shape == (64, 64, 1)
    prediction = chest.predict(params, np.zeros((3, *spec.shape), np.float32))
    assert prediction.values.shape == (3, 2)
    assert "no diagnosis" in chest.note
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    model = chest.onnx(params)
    assert model is not None and len(model) > 177_874 * 4


def test_figures_by_hand() -> None:
    pytest.importorskip("tensorflow", reason="needs TensorFlow: pip install flnet[tensorflow]")
    from trainers.CHEST_X_RAY_PNEUMONIA import class_weights, figures

    ill = np.array([True, True, True, False])
    assert figures(np.array([1.0, 2.0, -1.0, -2.0]), ill) == {
        "accuracy": 0.75,
        "balanced_accuracy": pytest.approx((2 / 3 + 1) / 2),
        "auc": 1.0,
    }
    assert figures(np.zeros(4), ill)["auc"] == 0.5
    assert figures(np.ones(2), np.array([True, True])) == {"accuracy": 1.0}
    assert class_weights(np.array([1, 1, 1, 0])).tolist() == pytest.approx([2.0, 2 / 3])
    assert class_weights(np.array([1, 1]))[1] == 1.0


@pytest.mark.data
@pytest.mark.long
def test_it_learns_from_real_x_rays(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow", reason="needs TensorFlow: pip install flnet[tensorflow]")
    if not (datasets_path() / "chest_xray_pneumonia_64.npz").is_file():
        pytest.skip(f"no chest X-rays in {datasets_path()}; name their folder in FLNET_DATASETS_PATH")
    from trainers.CHEST_X_RAY_PNEUMONIA import make_trainer

    real = make_trainer(TrainerSettings(datasets_path(), tmp_path, (1, 4)))
    fit = real.fit(Task(Params(real.initial_params(0)), HyperParams(e=4, u=0.01, b=32), 0))
    score = real.evaluate(fit.params)
    assert score.metrics["auc"] > 0.9
    assert score.metrics["official_auc"] > 0.8
