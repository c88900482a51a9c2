"""The digits of both MNIST trainers: where they are found, and that no test row is ever trained on."""

from __future__ import annotations

import gzip
import importlib.util
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.compute.assignment import Assignment
from flnet.compute.in_process import InProcessBackend
from flnet.compute.verbs import ExportRequest, PredictRequest
from flnet.datasets.labelled import Labelled
from flnet.errors import DataMissing, TrainerError
from flnet.params.params import Array, Params
from flnet.trainer import HyperParams, Partition, Task, Trainer, TrainerFile, TrainerSettings
from trainers import MNIST, MNIST_3_7
from trainers._digits import Digits, _scikit_digits, enlarged, load_digits

CHANCE = np.random.default_rng(0)
TRAIN = CHANCE.integers(0, 256, (300, 28, 28), np.uint8), (np.arange(300) % 10).astype(np.uint8)
TEST = CHANCE.integers(0, 256, (100, 28, 28), np.uint8), (np.arange(100) % 10).astype(np.uint8)


def settings(
    state: Path,
    data: Path | None = None,
    shard: tuple[int, int] = (1, 1),
    seed: int = 0,
    partition: str = "iid",
) -> TrainerSettings:
    state.mkdir(parents=True, exist_ok=True)
    return TrainerSettings(data, state, shard, seed, partition=Partition.parse(partition))


def contents(data: Labelled) -> set[bytes]:
    return {row.tobytes() for row in data.x}


def write_idx(folder: Path, pack: bool, dotted: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for part, (x, y) in {"train": TRAIN, "t10k": TEST}.items():
        for kind, array in (("images-idx3", x), ("labels-idx1", y)):
            head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
            name = f"{part}-{kind}-ubyte".replace("-idx", ".idx" if dotted else "-idx")
            data = head + array.tobytes()
            (folder / (name + ".gz" * pack)).write_bytes(gzip.compress(data) if pack else data)


def write_npz(path: Path, x: Array = TRAIN[0], y: Array = TRAIN[1]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, x_train=x, y_train=y, x_test=TEST[0], y_test=TEST[1])


def check_mnist(digits: Digits) -> None:
    assert digits.info.rows == {"train": 270, "validation": 30, "test": 100}
    assert not digits.bundled
    assert contents(digits.train) | contents(digits.validation) == {row.tobytes() for row in TRAIN[0]}
    assert contents(digits.test) == {row.tobytes() for row in TEST[0]}
    labels = {row.tobytes(): label for row, label in zip(*TRAIN, strict=True)}
    assert all(labels[row.tobytes()] == label for row, label in zip(digits.train.x, digits.train.y, strict=True))


@pytest.mark.parametrize("place", ["mnist", "mnist/raw", "MNIST/raw"])
@pytest.mark.parametrize(("pack", "dotted"), [(True, False), (False, False), (False, True)])
def test_mnist_is_found_as_it_is_published(tmp_path: Path, place: str, pack: bool, dotted: bool) -> None:
    write_idx(tmp_path / "data" / place, pack, dotted)
    digits = load_digits(settings(tmp_path / "state", tmp_path / "data"))
    check_mnist(digits)
    assert digits.info.source == f"MNIST idx files in {tmp_path / 'data' / place}"


@pytest.mark.parametrize("place", ["mnist.npz", "mnist/mnist.npz"])
def test_mnist_is_found_as_one_file(tmp_path: Path, place: str) -> None:
    write_npz(tmp_path / "data" / place)
    check_mnist(load_digits(settings(tmp_path / "state", tmp_path / "data")))


def test_an_incomplete_set_of_files_does_not_count(tmp_path: Path) -> None:
    write_idx(tmp_path / "mnist", pack=True)
    (tmp_path / "mnist/t10k-labels-idx1-ubyte.gz").unlink()
    assert load_digits(settings(tmp_path / "state", tmp_path)).bundled


def test_without_mnist_the_bundled_digits_stand_in_and_say_so(tmp_path: Path) -> None:
    digits = load_digits(settings(tmp_path))
    assert (digits.bundled, digits.info.sample) == (True, False)
    assert digits.info.source == (
        "the digits bundled with scikit-learn (1797 images of 8x8), because FLNET_DATASETS_PATH is not set"
    )
    assert "FLNET_DATASETS_PATH" in digits.info.note
    assert sum(digits.info.rows.values()) == 1797
    elsewhere = load_digits(settings(tmp_path / "b", tmp_path)).info.source
    assert elsewhere.endswith(f"because MNIST was not found in {tmp_path}")


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (TRAIN[0][:, :20], TRAIN[1], r"images are uint8 \[300, 20, 28\]; expected uint8 \[n, 28, 28\]"),
        (TRAIN[0] / 255, TRAIN[1], "images are float64"),
        (TRAIN[0], TRAIN[1] + 1, "expected digits"),
        (TRAIN[0], TRAIN[1][:-1], "300 rows came with 299 labels"),
    ],
)
def test_data_of_another_kind_are_refused(tmp_path: Path, x: Array, y: Array, words: str) -> None:
    write_npz(tmp_path / "mnist.npz", x, y)
    with pytest.raises(TrainerError, match=words):
        load_digits(settings(tmp_path / "state", tmp_path))


def test_a_shard_too_small_to_be_split_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match=r"too few rows for this shard: .*; use fewer shards"):
        load_digits(settings(tmp_path, shard=(1797, 1797)))


@pytest.mark.parametrize("bundled", [True, False])
def test_shards_are_disjoint_and_complete(tmp_path: Path, bundled: bool) -> None:
    data = None
    if not bundled:
        data = tmp_path
        write_npz(tmp_path / "mnist.npz")
    nodes = [load_digits(settings(tmp_path / str(i), data, (i, 4))) for i in (1, 2, 3, 4)]
    rows = [contents(part) for node in nodes for part in (node.train, node.validation, node.test)]
    whole = load_digits(settings(tmp_path / "whole", data))
    everything = set.union(*map(contents, (whole.train, whole.validation, whole.test)))
    assert set.union(*rows) == everything
    assert sum(map(len, rows)) == len(everything)


@pytest.mark.parametrize("keep", [tuple(range(10)), (3, 7)])
@pytest.mark.parametrize("bundled", [True, False])
def test_parts_of_a_partition_are_disjoint_complete_and_tested_on_what_they_have(
    tmp_path: Path, bundled: bool, keep: tuple[int, ...]
) -> None:
    data = None
    if not bundled:
        data = tmp_path
        write_npz(tmp_path / "mnist.npz")
    told = [settings(tmp_path / str(i), data, (i, 3), partition="dirichlet:0.5") for i in (1, 2, 3)]
    nodes = [load_digits(one, keep) for one in told]
    rows = [contents(part) for node in nodes for part in (node.train, node.validation, node.test)]
    whole = load_digits(settings(tmp_path / "whole", data), keep)
    everything = set.union(*map(contents, (whole.train, whole.validation, whole.test)))
    assert set.union(*rows) == everything
    assert sum(map(len, rows)) == len(everything)
    for number, node in enumerate(nodes, start=1):
        assert node.info.note.startswith(f"this node has part {number} of 3 of the partition dirichlet:0.5")
        trained, tested = (np.bincount(part.y, minlength=len(keep)) for part in (node.train, node.test))
        assert np.abs(tested / tested.sum() - trained / trained.sum()).max() < 0.25
    # Unlike parts are also measured on all published test digits, which nobody trains on.
    assert whole.official is None
    officials = [contents(node.official) for node in nodes if node.official]
    assert len(officials) == (0 if whole.bundled else len(nodes))
    assert all(official == contents(whole.test) for official in officials)
    again = load_digits(settings(tmp_path / "again", data, (1, 3), partition="dirichlet:0.5"), keep)
    assert contents(again.train) == contents(nodes[0].train)
    assert len({node.info.checksum for node in nodes}) == len(nodes)


def test_test_rows_are_never_trained_on_over_restarts_seeds_and_other_shards(tmp_path: Path) -> None:
    tested, trained = set[bytes](), set[bytes]()
    for shard, seed in [((1, 4), 0), ((1, 4), 0), ((1, 4), 5), ((2, 4), 0), ((1, 1), 0)]:
        digits = load_digits(settings(tmp_path, shard=shard, seed=seed))
        tested |= contents(digits.test)
        trained |= contents(digits.train)
    assert not tested & trained


def test_the_file_read_past_scikit_learn_is_the_one_that_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    direct = _scikit_digits()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    asked = _scikit_digits()
    assert (direct.x == asked.x).all()
    assert (direct.y == asked.y).all()


def test_only_some_digits_are_kept_and_numbered_from_nought(tmp_path: Path) -> None:
    digits = load_digits(settings(tmp_path), keep=(3, 7))
    assert digits.info.classes == ("3", "7")
    assert sum(digits.info.rows.values()) == 183 + 179
    assert set(digits.test.y.tolist()) == {0, 1}


def test_small_images_are_drawn_large_in_the_middle() -> None:
    flat = enlarged(np.ones((1, 8, 8)))
    assert (flat[0, 4:24, 4:24] == 255).all()
    assert flat.sum() == 255 * 400
    dot = np.zeros((1, 8, 8))
    dot[0, 0, 7] = 1
    rows, columns = np.nonzero(enlarged(dot)[0])
    assert (rows.max() <= 7, columns.min() >= 20) == (True, True)


Made = tuple[Trainer, Params, Assignment]


@pytest.fixture(scope="module", params=[MNIST, MNIST_3_7], ids=["MNIST", "MNIST_3_7"])
def made(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A trainer, what it learnt in two passes, and how the compute queue knows it."""
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
    prediction = InProcessBackend(lambda who: trainer).call(who, PredictRequest(params, images))
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
    model = InProcessBackend(lambda who: trainer).call(who, ExportRequest(params, {"trainer": who.file.id}))
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
