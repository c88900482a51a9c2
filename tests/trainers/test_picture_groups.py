"""Groups of pictures without a label: nodes with kinds of their own find the kinds of all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("PIL", reason="Pillow is not installed")

from flnet.algorithms.clustering import pair_jaccard
from flnet.compute.checks import checked_fit, checked_params, checked_score
from flnet.errors import DataMissing
from flnet.params.params import Params
from flnet.trainer import Task, TrainerSettings
from tests.datasets.own_files import node, save
from tests.trainers.test_k_means import averaged
from tests.trainers.test_orientations import stripes
from trainers.PICTURE_GROUPS import OPTIONS_FILE, SIDE, make_trainer

ANGLES = (0, 60, 120)


def picture(kind: int, seed: int) -> Any:
    """Stripes of one of three directions, wherever they begin, under noise and more or less light."""
    chance = np.random.default_rng(seed)
    light = stripes(ANGLES[kind], chance.uniform(0, 6)) * chance.uniform(0.4, 1) + chance.normal(
        0, 8, (SIDE, SIDE)
    )
    return np.clip(light, 0, 255).astype(np.uint8)


def folder(tmp_path: Path, kinds: tuple[int, ...], seed: int) -> TrainerSettings:
    tmp_path.mkdir()
    for number in range(40):
        kind = kinds[number % len(kinds)]
        save(tmp_path / "pictures" / f"{number:02}.png", picture(kind, 100 * seed + number))
    return node(tmp_path)


def test_nodes_find_the_kinds_of_all_without_a_label(tmp_path: Path) -> None:
    told = [folder(tmp_path / str(at), kinds, at) for at, kinds in enumerate([(0, 1), (1, 2), (0, 2)])]
    trainers = [make_trainer(one) for one in told]
    model = checked_params(trainers[0].initial_params(0), "PICTURE_GROUPS")
    for number in range(5):
        fits = [checked_fit(one.fit(Task(model, one.defaults, number)), model, "X") for one in trainers]
        model = averaged(Params(model), fits)
    kinds = np.arange(60) % 3
    shown = np.stack([picture(int(kind), 9000 + at) for at, kind in enumerate(kinds)]).astype(np.float32)
    guess = trainers[0].predict(model, shown).values.argmax(axis=1)
    assert pair_jaccard(kinds, guess) > 0.95  # pixels alone: stripes begin anywhere, so no pixel tells anything
    assert checked_score(trainers[1].evaluate(model), "X").accuracy > 0.3


def test_damaged_files_are_named_and_options_are_read(tmp_path: Path) -> None:
    told = folder(tmp_path / "some", (0, 1, 2), 0)
    (tmp_path / "some" / "pictures" / "deep").mkdir()
    (tmp_path / "some" / "pictures" / "deep" / "torn.jpg").write_bytes(b"no picture")
    (tmp_path / "some" / OPTIONS_FILE).write_text("k = 5", "utf-8")
    trainer = make_trainer(told)
    info = trainer.data_info()
    assert info.note.startswith("skipped files that cannot be read (1): deep/torn.jpg")
    assert (info.rows["train"], len(info.classes)) == (32, 5)


def test_without_pictures_it_says_what_to_do(tmp_path: Path) -> None:
    for place in (None, tmp_path):
        with pytest.raises(DataMissing):
            make_trainer(replace(node(tmp_path), datasets_path=place))
    (tmp_path / "pictures").mkdir()
    with pytest.raises(DataMissing, match="too few pictures"):
        make_trainer(node(tmp_path))
