"""X-rays with what causes a pneumonia: where the labels are from, and the network that learns from coarse ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from flnet.algorithms.fed_mt.local_training import with_labels
from flnet.compute.checks import checked_fit, declared
from flnet.errors import TrainerError
from flnet.labels.spaces import read_fields
from flnet.params.params import Params, Schema
from flnet.protocol.messages import HyperParams
from flnet.trainer import Task, TrainerSettings
from trainers._chest import SUBTYPES, load_xrays
from trainers.CHEST_SUBTYPES import make_trainer

LABELS = {
    "id": "two",
    "classes": ["normal", "pneumonia"],
    "desired": {"id": "three", "classes": list(SUBTYPES)},
    "mapping": {"normal": ["NORMAL"], "pneumonia": ["BACTERIAL", "VIRAL"]},
}


def write_data(folder: Path) -> Path:
    """A file as the published one, whose kinds differ in brightness: 60 X-rays to train on, each of a patient."""
    chance = np.random.default_rng(0)
    arrays: dict[str, Any] = {}
    for part, first, count in (("train", 0, 60), ("val", 100, 6), ("test", 200, 30)):
        kinds = np.arange(count) % 3
        shades = 60 * kinds[:, None, None] + chance.integers(0, 40, (count, 64, 64))
        arrays |= {f"x_{part}": shades.astype(np.uint8), f"y_{part}": (kinds > 0).astype(np.uint8)}
        arrays |= {f"subtype_{part}": kinds.astype(np.uint8), f"patient_{part}": first + np.arange(count)}
    np.savez(folder / "chest_xray_pneumonia_64.npz", **arrays)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


def told(data: Path, state: Path, **says: object) -> TrainerSettings:
    state.mkdir(exist_ok=True)
    return TrainerSettings(data, state, labels=read_fields(LABELS | says) if says else None)


def test_a_file_tells_the_three_kinds(data: Path, tmp_path: Path) -> None:
    fine, coarse = load_xrays(told(data, tmp_path), SUBTYPES), load_xrays(told(data, tmp_path))
    assert fine.info.classes == SUBTYPES
    assert set(fine.train.y) == {0, 1, 2}
    assert ((fine.train.y > 0) == coarse.train.y).all()
    assert sum(map(sum, fine.info.counts.values())) == 66


def test_names_of_files_tell_them_too(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    names = ["NORMAL/IM-{}-0001.jpeg", "PNEUMONIA/person{}_bacteria_1.jpeg", "PNEUMONIA/person{}_virus_2.jpeg"]
    for part, first, count in (("train", 0, 12), ("test", 50, 2)):
        for patient in range(first, first + count):
            for kind, name in enumerate(names):
                path = tmp_path / "chest_xray" / part / name.format(100 * kind + patient)
                path.parent.mkdir(parents=True, exist_ok=True)
                image.fromarray(np.full((64, 64), 80 * kind + patient, np.uint8)).save(path)
    found = load_xrays(told(tmp_path, tmp_path / "state"), SUBTYPES)
    assert np.bincount(found.official.y).tolist() == [2, 2, 2]
    assert (found.train.y == (found.train.x.reshape(len(found.train), -1).mean(1) // 75).astype(int)).all()


def test_labels_of_another_kind_are_refused(data: Path, tmp_path: Path) -> None:
    with np.load(data / "chest_xray_pneumonia_64.npz") as there:
        arrays = dict(there)
    arrays["subtype_test"][3] = 9
    np.savez(tmp_path / "chest_xray_pneumonia_64.npz", **arrays)
    with pytest.raises(TrainerError, match="expected 0 or 1 or 2 for each of 30 images"):
        load_xrays(told(tmp_path, tmp_path / "state"), SUBTYPES)


def test_it_learns_the_three_kinds_from_few_fine_labels_and_the_two_from_coarse_ones(
    data: Path, tmp_path: Path
) -> None:
    settings = told(data, tmp_path, steps=30)
    trainer = with_labels(make_trainer(settings), settings, "CHEST_SUBTYPES")
    start = trainer.initial_params(0)
    assert Schema.of(Params(start)).numbers == 154_884  # and one that tells whether coarse labels teach
    assert declared(trainer, "CHEST_SUBTYPES", Params(start)).turn is not None
    fit = trainer.fit(Task(start, HyperParams(e=1, u=0.02, b=16), 0))
    score = trainer.evaluate(checked_fit(fit, start, "CHEST_SUBTYPES").params)
    assert score.accuracy == 1.0
    plain = make_trainer(told(data, tmp_path))
    taught = plain.fit(Task(plain.initial_params(0), HyperParams(e=20, u=0.02, b=16), 0))
    params = taught.params
    assert plain.evaluate(params).metrics["official_balanced_accuracy"] > 0.9
    validated = plain.validation_score(params)
    assert validated is not None
    assert (validated.accuracy > 0.9, validated.examples) == (True, plain.data_info().rows["validation"])
    assert taught.metrics["validation_accuracy"] == validated.accuracy
    many = type(plain).evaluate_many([(plain, params), (plain, params)])
    assert many == [plain.evaluate(params)] * 2
    assert plain.predict(params, np.asarray(plain.inputs(), np.float32)).values.shape[1] == 3
