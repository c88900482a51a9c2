"""Own tables and own folders of pictures where nodes label differently: one model from labels of two spaces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.algorithms.fed_mt.local_training import ByLabels, with_labels
from flnet.compute.checks import checked_fit, checked_score, declared
from flnet.errors import TrainerError
from flnet.labels.spaces import read_fields
from flnet.params.params import Params
from flnet.trainer import Task, Trainer
from tests.datasets.own_files import csv_file, images, node, save, table
from trainers._own import make_own

CLASSES = ["healthy", "cold", "flu"]
THREE = {"id": "three", "classes": CLASSES, "steps": 30}
TWO = {
    **THREE,
    "id": "two",
    "classes": ["well", "ill"],
    "desired": {"id": "three", "classes": CLASSES},
    "mapping": {"well": ["healthy"], "ill": ["cold", "flu"]},
}
MIDDLES = np.array([[0.0, 0], [4, 0], [0, 4]])
SCALE = {"scale": {"a": [1, 2], "b": [1, 2]}}


def rows(count: int, seed: int) -> tuple[Any, Any]:
    """Points around three middles, and around which."""
    chance, kinds = np.random.default_rng(seed), np.arange(count) % 3
    return MIDDLES[kinds] + chance.normal(0, 0.7, (count, 2)), kinds


def labelled(own: Any, place: Path, says: dict[str, Any]) -> Trainer:
    settings = replace(node(place), labels=read_fields(says))
    return with_labels(make_own(own, settings), settings, "OWN")


def fine_node(tmp_path: Path, count: int = 40) -> Trainer:
    place = tmp_path / "fine"
    place.mkdir()
    x, kinds = rows(count, 0)
    csv_file(place / "t.csv", "aby", ([*row, CLASSES[kind]] for row, kind in zip(x, kinds, strict=True)))
    return labelled(table(**SCALE), place, THREE)


def coarse_node(tmp_path: Path, header: str = "aby", **options: Any) -> Trainer:
    place = tmp_path / "coarse"
    place.mkdir()
    x, kinds = rows(300, 1)
    csv_file(
        place / "t.csv", header, ([*row, "ill" if kind else "well"] for row, kind in zip(x, kinds, strict=True))
    )
    return labelled(table(**SCALE, **options), place, TWO)


def learnt(trainer: Trainer, params: Params, seed: int) -> Params:
    return Params(checked_fit(trainer.fit(Task(params, trainer.defaults, seed)), params, "OWN").params)


def test_a_table_with_coarse_labels_teaches_a_model_that_answers_finely(tmp_path: Path) -> None:
    fine, coarse = fine_node(tmp_path), coarse_node(tmp_path)
    model = Params(fine.initial_params(0))
    assert declared(fine, "OWN", model).agreement == declared(coarse, "OWN", model).agreement
    assert [one.turn and one.turn.is_desired for one in (fine, coarse)] == [True, False]
    for seed in range(12):
        model = learnt((fine, coarse)[seed % 2], model, seed)  # in turns, each alone of its kind
    assert checked_score(fine.evaluate(model), "OWN").metrics["desired_accuracy"] > 0.8
    score = checked_score(coarse.evaluate(model), "OWN")
    assert score.accuracy > 0.9  # of well or ill
    assert "desired_accuracy" not in score.metrics  # no row here says which illness it is
    validated = fine.validation_score(model)
    assert validated is not None
    own = coarse.validation_score(model)
    assert own is not None and own.counts is not None
    assert (validated.accuracy > 0.8, own.accuracy > 0.9) == (True, True)  # own: of well or ill
    assert own.examples == coarse.data_info().rows["validation"]
    x, kinds = rows(300, 2)
    guess = np.argmax(fine.predict(model, x.astype(np.float32)).values, axis=1)
    assert (guess == kinds).mean() > 0.9


def test_labels_of_the_own_space_may_stand_in_a_column_of_their_own(tmp_path: Path) -> None:
    fine = fine_node(tmp_path)
    coarse = coarse_node(tmp_path, "abc", coarse="c")
    assert coarse.agreement == fine.agreement
    assert coarse.own_labels() == {}  # of the wrapper: it has taken them
    assert coarse.data_info().counts["train"] == (0, 0, 0)


def test_rows_may_have_either_label_or_both(tmp_path: Path) -> None:
    x, kinds = rows(90, 3)
    cells = [(("", "cold", "flu")[kind], ("well", "", "ill")[kind]) for kind in kinds]
    lines = ([*row, *pair] for row, pair in zip(x, cells, strict=True))
    csv_file(tmp_path / "t.csv", "abyc", lines)
    settings = replace(node(tmp_path), labels=read_fields(TWO))
    trainer = make_own(table(coarse="c", **SCALE), settings)
    (fine, coarse), test = trainer.own_labels()["train"], trainer.own_labels()["test"]
    pairs = {(int(a), int(b)) for a, b in zip(fine, coarse, strict=True)}
    assert pairs == {(-1, 0), (1, -1), (2, 1)}
    assert trainer.data_info().counts["test"] == (0, int((test[0] == 1).sum()), int((test[0] == 2).sum()))
    whole = with_labels(trainer, settings, "OWN")
    model = Params(whole.initial_params(0))
    for seed in range(6):
        model = learnt(whole, model, seed)
    assert checked_score(whole.evaluate(model), "OWN").accuracy > 0.8


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([[1, 2, "sick"]], r"line 2: the label 'y' is 'sick'; expected one of well, ill, healthy, cold, flu"),
        ([[1, 2, "ill"], [1, 2, ""]], r"line 3: the label 'y' has no value; fill it in"),
    ],
)
def test_a_word_of_neither_space_is_named(tmp_path: Path, lines: list[list[object]], words: str) -> None:
    csv_file(tmp_path / "t.csv", "aby", lines)
    with pytest.raises(TrainerError, match=words):
        labelled(table(**SCALE), tmp_path, TWO)


def test_a_table_of_numbers_says_that_it_cannot(tmp_path: Path) -> None:
    csv_file(tmp_path / "t.csv", "aby", ([i, i, i] for i in range(40)))
    with pytest.raises(TrainerError, match="FLNET_LABELS needs a trainer that honours labels"):
        labelled(table(task="regress", target_scale=[20, 10], **SCALE), tmp_path, TWO)


def test_a_model_of_other_classes_says_so(tmp_path: Path) -> None:
    csv_file(tmp_path / "t.csv", "aby", ([i, i, ("x", "z")[i % 2]] for i in range(40)))
    with pytest.raises(TrainerError, match="the classes of OWN are x, z; the label space 'three'"):
        labelled(table(classes=["x", "z"], **SCALE), tmp_path, TWO)


@pytest.mark.parametrize("name", ["fixed", "mixed"])
def test_folders_of_both_spaces_teach_one_model(tmp_path: Path, name: str) -> None:
    chance = np.random.default_rng(0)
    for folder, bright in (("well", 40), ("ill", 160), ("flu", 220)):
        for number in range(20):
            pixels = chance.integers(0, 30, (8, 8)).astype(np.uint8) + np.uint8(bright)
            save(tmp_path / "pictures" / folder / f"{number}.png", pixels)
    own = images(colour="grey", model="linear")
    trainer = labelled(own, tmp_path, {**TWO, "threshold": 0.5, name: 1.0})
    assert trainer.data_info().classes == ("healthy", "cold", "flu")
    assert sum(trainer.data_info().counts["train"]) == 14  # those of flu
    assert trainer.turn is not None and trainer.turn.is_desired
    model = Params(trainer.initial_params(0))
    for seed in range(6):
        model = learnt(trainer, model, seed)
    assert checked_score(trainer.evaluate(model), "OWN").accuracy > 0.7


def test_a_folder_of_neither_space_is_named(tmp_path: Path) -> None:
    for name in ("well", "sick"):
        save(tmp_path / "pictures" / name / "1.png", np.zeros((8, 8), np.uint8))
    with pytest.raises(
        TrainerError, match="the folder 'sick' is no class of this trainer: expected well, ill, he"
    ):
        labelled(images(), tmp_path, TWO)


def test_nobody_needs_to_say_how_own_labels_correspond(tmp_path: Path) -> None:
    fine = fine_node(tmp_path, 120)
    guessed = {**TWO, "estimate": True, "threshold": 0.8}
    del guessed["mapping"]
    x, kinds = rows(300, 1)
    csv_file(
        tmp_path / "t.csv", "aby", ([*row, "ill" if kind else "well"] for row, kind in zip(x, kinds, strict=True))
    )
    trainer = labelled(table(**SCALE), tmp_path, guessed)
    model = Params(trainer.initial_params(0))
    assert trainer.findings(model) is not None  # also before anything was counted
    for seed in range(20):
        model = model.merged_with(
            learnt(fine, Params({name: model[name] for name in fine.initial_params(0)}), seed)
        )
    model = learnt(trainer, model, 6)
    assert checked_score(trainer.evaluate(model), "OWN").accuracy > 0.9
    assert isinstance(trainer, ByLabels)
    assert trainer.correspondence(model).argmax(axis=0).tolist() == [0, 1, 1]
