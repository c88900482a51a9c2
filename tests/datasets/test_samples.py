"""Made-up data: found by the trainers that they are for, learnable, and called sample data."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from flnet.datasets.no_code import OwnImages, OwnTable
from flnet.datasets.no_code_images import load_images
from flnet.datasets.no_code_table import load_table
from flnet.datasets.samples import SAMPLES, is_sample, write_sample
from flnet.errors import DataMissing
from flnet.trainer import TrainerSettings
from trainers._digits import load_digits
from trainers.MNIST_3_7 import make_trainer


@pytest.fixture
def told(tmp_path: Path) -> TrainerSettings:
    (tmp_path / "state").mkdir()
    return TrainerSettings(tmp_path / "data", tmp_path / "state")


def test_digits_stand_in_for_mnist(told: TrainerSettings, tmp_path: Path) -> None:
    write_sample(SAMPLES["mnist"], tmp_path / "data")
    digits = load_digits(told)
    assert (digits.info.sample, digits.bundled) == (True, False)
    assert sum(digits.info.rows.values()) == 1200
    trainer = make_trainer(told)
    assert trainer.data_info().sample
    assert trainer.evaluate(trainer.initial_params(0)).examples == 40


def test_a_folder_of_pictures(told: TrainerSettings, tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image", reason="needs Pillow: pip install flnet[images]")
    write_sample(SAMPLES["images"], tmp_path / "data")
    own = OwnImages.model_validate(tomllib.loads(SAMPLES["images"].lines))
    data = load_images(own, told)
    assert data.info.sample
    assert (data.classes, len(data.images)) == (("disc", "square", "triangle"), 180)


def test_a_table(told: TrainerSettings, tmp_path: Path) -> None:
    write_sample(SAMPLES["table"], tmp_path / "data")
    own = OwnTable.model_validate(tomllib.loads(SAMPLES["table"].lines))
    info = load_table(own, told).info
    assert info.sample
    assert sum(info.rows.values()) == 300
    assert min(info.counts["train"]) > 50


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_there_is_not_written_over(tmp_path: Path, name: str) -> None:
    target = write_sample(SAMPLES[name], tmp_path)
    before = sorted(path.stat().st_mtime_ns for path in target.rglob("*"))
    with pytest.raises(DataMissing, match="is there already; remove it first"):
        write_sample(SAMPLES[name], tmp_path)
    assert sorted(path.stat().st_mtime_ns for path in target.rglob("*")) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [target.name]
    assert (is_sample(target), is_sample(tmp_path)) == (True, False)


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataMissing, match="cannot be written"):
        write_sample(SAMPLES["table"], tmp_path / "file" / "data")
