"""CIFAR-10 in each form in which it is found; the network: determinism, declaration, learning."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from flnet.algorithms.wrapper import Descent
from flnet.compute.checks import checked_fit, checked_score, declared
from flnet.compute.loader import import_trainer
from flnet.datasets.download import DATA_SETS
from flnet.errors import DataMissing, TrainerError
from flnet.params.params import Array, Params, Schema
from flnet.protocol.messages import HyperParams
from flnet.trainer import Partition, Task, Trainer, TrainerSettings
from tests.trainers.cifar_forms import archive_of, batch_files, made_up, npz, unpacked
from tests.trainers.real_data import datasets_path
from tests.trainers.test_private_layers import documented
from trainers._cifar import CLASSES, SHA256, SIZE, URL, Photographs, load_photographs


def load(data: Path | None, state: Path, shard: tuple[int, int] = (1, 1), partition: str = "iid") -> Photographs:
    state.mkdir(parents=True, exist_ok=True)
    return load_photographs(TrainerSettings(data, state, shard, partition=Partition.parse(partition)))


def contents(data: Photographs) -> list[tuple[bytes, int]]:
    parts = (data.train, data.validation, data.test)
    return sorted(
        (image.tobytes(), int(label)) for part in parts for image, label in zip(part.x, part.y, strict=True)
    )


# What is found.


def test_every_form_gives_the_same_photographs(tmp_path: Path) -> None:
    binary = {f"cifar-10-batches-bin/{k}": v for k, v in batch_files(tmp_path / "scratch").items()}
    archive_of(binary, tmp_path / "packed" / "cifar10" / "cifar-10-binary.tar.gz")
    forms = {
        "binary": unpacked(tmp_path / "binary"),
        "packed": tmp_path / "packed",
        "npz": npz(tmp_path / "npz"),
        "column": npz(tmp_path / "column", column=True),
    }
    loaded = {name: load(folder, tmp_path / "state" / name) for name, folder in forms.items()}
    expected = contents(loaded["npz"])
    assert len(expected) == 240
    for name, data in loaded.items():
        assert contents(data) == expected, name
        assert data.info.rows == {"train": 180, "validation": 20, "test": 40}
        assert data.info.classes == CLASSES
        assert data.info.counts["test"] == [4] * 10
        assert data.train.x.dtype == np.uint8


@pytest.mark.parametrize("partition", ["iid", "dirichlet:0.5", "power:1"])
def test_shards_of_the_binary_version_are_disjoint(tmp_path: Path, partition: str) -> None:
    data = unpacked(tmp_path / "data")
    nodes = [load(data, tmp_path / str(node), (node, 3), partition) for node in (1, 2, 3)]
    assert sorted(chain(*map(contents, nodes))) == contents(load(data, tmp_path / "all"))
    assert all((partition in node.info.note) is (partition != "iid") for node in nodes)


def test_jpegs_are_decoded_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install flnet[tensorflow]")

    def packed(rows: int, seed: int, spoil: int | None = None) -> tuple[Array, Array, Array]:
        x, y = made_up(rows, seed)
        files = []
        for number, pixels in enumerate(x):
            file = io.BytesIO()
            image.fromarray(pixels).save(file, "JPEG", quality=95)
            files.append(b"spoilt" if number == spoil else file.getvalue())
        return np.frombuffer(b"".join(files), np.uint8), np.cumsum([0, *map(len, files)]), y

    def write(spoil: int | None = None) -> None:
        a, b, c = packed(100, 0)
        d, e, f = packed(20, 1, spoil)
        arrays = {
            "jpeg_train": a,
            "offsets_train": b,
            "y_train": c,
            "jpeg_test": d,
            "offsets_test": e,
            "y_test": f,
        }
        np.savez(tmp_path / "cifar10_full_jpeg.npz", **arrays)  # type: ignore[arg-type]

    write()
    data = load(tmp_path, tmp_path / "state")
    x, y = made_up(20, 1)
    assert data.test.y.tolist() == y.tolist()
    assert np.abs(data.test.x.astype(int) - x).mean() < 15
    write(spoil=3)
    with pytest.raises(TrainerError, match=r"cifar10_full_jpeg.npz, test image 3 is damaged"):
        load(tmp_path, tmp_path / "state")


def test_what_is_missing_is_said_with_its_remedy(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="FLNET_DATASETS_PATH is not set") as unset:
        load(None, tmp_path)
    assert "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz" in unset.value.remedy
    with pytest.raises(DataMissing, match="not found"):
        load(tmp_path, tmp_path)
    with pytest.raises(DataMissing, match="too few rows for this shard"):
        load(npz(tmp_path / "data"), tmp_path, (99, 99))


def test_damaged_files_are_named(tmp_path: Path) -> None:
    data = unpacked(tmp_path / "data")
    batch = data / "cifar-10-batches-bin" / "data_batch_3.bin"
    whole = batch.read_bytes()
    batch.write_bytes(whole[:-1])
    with pytest.raises(TrainerError, match=r"data_batch_3.bin is damaged"):
        load(data, tmp_path)
    batch.write_bytes(b"\x0a" + whole[1:])
    with pytest.raises(TrainerError, match="expected 0 to 9"):
        load(data, tmp_path)
    batch.unlink()
    with pytest.raises(TrainerError, match=r"data_batch_3.bin cannot be read"):
        load(data, tmp_path)
    archive = tmp_path / "packed" / "cifar-10-binary.tar.gz"
    archive.parent.mkdir()
    archive.write_bytes(b"no archive")
    with pytest.raises(TrainerError, match=r"tar.gz cannot be read"):
        load(archive.parent, tmp_path)
    with tarfile.open(archive, "w:gz"):
        pass
    with pytest.raises(TrainerError, match=r"tar.gz lacks data_batch_1.bin"):
        load(archive.parent, tmp_path)


def test_the_pickled_version_is_refused_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "unpacked" / "cifar10" / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    (folder / "test_batch").write_bytes(b"\x80\x02cposix\nsystem\n" + b"U\x04true\x85R.")
    archive = tmp_path / "packed" / "cifar-10-python.tar.gz"
    archive.parent.mkdir()
    archive.write_bytes(b"")
    for pickled in (folder, archive):
        with pytest.raises(DataMissing, match=f"{pickled} holds pickles, which flnet does not read") as refused:
            load(tmp_path / pickled.relative_to(tmp_path).parts[0], tmp_path)
        assert URL in refused.value.remedy
    unpacked(tmp_path / "unpacked")  # the binary version wins where both lie
    assert "binary files in" in load(tmp_path / "unpacked", tmp_path).info.source


# The network.


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    pytest.importorskip("tensorflow", reason="needs TensorFlow: pip install flnet[tensorflow]")
    from trainers.CIFAR10 import make_trainer

    folder = tmp_path_factory.mktemp("cifar")
    return make_trainer(TrainerSettings(npz(folder / "data"), folder))


def test_the_declaration_says_what_the_mesh_must_know(trainer: Trainer) -> None:
    params = Params(trainer.initial_params(0))
    declaration = declared(trainer, "CIFAR10", params)
    assert declaration.label == "CIFAR-10 Dataset"
    assert set(declaration.shared) == set(params)
    assert 200_000 < Schema.of(params).numbers < 600_000
    assert all(value.dtype == np.float32 for value in params.values())


def test_equal_seeds_give_equal_starts(trainer: Trainer) -> None:
    assert Params(trainer.initial_params(3)) == Params(trainer.initial_params(3))
    assert Params(trainer.initial_params(3)) != Params(trainer.initial_params(4))


def test_a_training_depends_on_nothing_but_parameters_data_and_seed(trainer: Trainer) -> None:
    start, hyper = Params(trainer.initial_params(1)), HyperParams(e=1, u=0.02, b=32)
    calls: list[tuple[int, int]] = []
    once = checked_fit(trainer.fit(Task(start, hyper, 5, lambda *at: calls.append(at))), start, "CIFAR10")
    assert calls == [(done, 6) for done in range(1, 7)]  # 180 rows
    other = Params(trainer.fit(Task(start, hyper, 6)).params)
    assert Params(trainer.fit(Task(start, hyper, 5)).params) == Params(once.params) != other


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
    if not (datasets_path() / "cifar10_20k.npz").is_file():
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


def test_what_is_fetched_is_what_is_looked_for() -> None:
    (file,) = DATA_SETS["cifar10"].files
    assert (file.url, file.sha256, file.size) == (URL, SHA256, SIZE)
