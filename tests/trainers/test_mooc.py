"""Drop-out from courses: schools as courses or as parts of all enrolments, alone and many at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.compute.checks import checked_fit, checked_params, checked_score, declared
from flnet.datasets.labelled import Labelled
from flnet.errors import DataMissing, TrainerError
from flnet.params.params import Params
from flnet.trainer import Partition, Task, TrainerSettings

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tests.trainers.mooc_files import COLUMNS, COURSES, write_data  # noqa: E402
from tests.trainers.real_data import datasets_path  # noqa: E402
from trainers._mooc import FILE, OPTIONS_FILE, load_school, one_scale  # noqa: E402
from trainers.MOOC import DropOut, make_trainer  # noqa: E402


def node(folder: Path, part: int = 1, count: int = 1, partition: str = "iid") -> TrainerSettings:
    state = folder / f"state-{partition.replace(':', '-')}-{part}-{count}"
    state.mkdir(exist_ok=True)
    return TrainerSettings(folder, state, (part, count), partition=Partition.parse(partition))


def trainer_of(settings: TrainerSettings) -> DropOut:
    made = make_trainer(settings)
    assert isinstance(made, DropOut)
    return made


def test_the_model_is_that_of_the_thesis(tmp_path: Path) -> None:
    trainer = trainer_of(node(write_data(tmp_path)))
    params = checked_params(trainer.initial_params(0), "MOOC")
    shapes = [params[f"{layer}.weight"].shape for layer in ("dense.0", "dense.1", "dense.2", "output")]
    assert shapes == [(100, COLUMNS), (100, 100), (100, 100), (1, 100)]
    assert declared(trainer, "MOOC", params).shared == tuple(params)
    assert Params(trainer.initial_params(0)) == params != Params(trainer.initial_params(1))


def test_it_learns_and_judges(tmp_path: Path) -> None:
    trainer = trainer_of(node(write_data(tmp_path)))
    start = checked_params(trainer.initial_params(0), "MOOC")
    task = Task(start, trainer.defaults.model_copy(update={"e": 10}), seed=1)
    fit = checked_fit(trainer.fit(task), start, "MOOC")
    score = checked_score(trainer.evaluate(fit.params), "MOOC")
    assert score.accuracy > 0.85
    assert score.metrics["auc"] > 0.9
    assert score.metrics["official_accuracy"] == pytest.approx(score.accuracy)  # all test rows are its own
    assert fit.examples == trainer.data_info().rows["train"]
    idle, busy = np.zeros((1, COLUMNS), np.float32), np.full((1, COLUMNS), 300, np.float32)
    chances = trainer.predict(fit.params, np.concatenate([idle, busy])).values
    assert chances[0, 1] > 0.7 > 0.3 > chances[1, 1]


@pytest.mark.parametrize("partition", ["iid", "groups", "dirichlet:0.5"])
def test_schools_train_and_are_measured_at_once_as_they_are_one_by_one(tmp_path: Path, partition: str) -> None:
    write_data(tmp_path)
    trainers = [trainer_of(node(tmp_path, part, COURSES, partition)) for part in range(1, COURSES + 1)]
    jobs = [
        (trainer, Task(Params(trainer.initial_params(0)), trainer.defaults.model_copy(update={"b": 16}), at))
        for at, trainer in enumerate(trainers)
    ]
    assert len({trainer.data_info().rows["train"] for trainer in trainers}) > (partition != "iid")
    fits = DropOut.fit_many(jobs)
    for (trainer, task), fit in zip(jobs, fits, strict=True):
        alone = trainer.fit(task)
        assert (fit.examples, fit.labels) == (alone.examples, alone.labels)
        assert fit.metrics == pytest.approx(alone.metrics, abs=1e-5)
        for name, value in alone.params.items():
            np.testing.assert_allclose(fit.params[name], value, rtol=0, atol=1e-5)
    models = [(trainer, fits[at // 2].params) for at, trainer in enumerate(trainers)]  # some have the same one
    scores = DropOut.evaluate_many(models)
    assert scores == [trainer.evaluate(params) for trainer, params in models]
    assert all(("official_accuracy" in score.metrics) == (partition != "iid") for score in scores)


def test_a_school_that_is_a_course_has_all_its_enrolments_and_no_other(tmp_path: Path) -> None:
    write_data(tmp_path)
    with np.load(tmp_path / FILE) as file:
        courses = {side: np.bincount(file[f"course_{side}"], minlength=COURSES) for side in ("train", "test")}
    found = []
    for part in range(1, COURSES + 1):
        rows = load_school(node(tmp_path, part, COURSES, "groups")).info.rows
        found.append((rows["train"] + rows["validation"], rows["test"]))
    assert sorted(found) == sorted(zip(courses["train"].tolist(), courses["test"].tolist(), strict=True))


def test_the_whole_test_part_is_measured_unless_the_options_say_no(tmp_path: Path) -> None:
    write_data(tmp_path)
    told = node(tmp_path, 1, COURSES, "groups")
    assert load_school(told).official is not None
    (tmp_path / OPTIONS_FILE).write_text("official = false")
    assert load_school(told).official is None
    trainer = trainer_of(told)
    assert "official_accuracy" not in trainer.evaluate(trainer.initial_params(0)).metrics
    (tmp_path / OPTIONS_FILE).write_text('official = "no"')
    with pytest.raises(TrainerError, match="expected true or false"):
        load_school(told)


def test_test_rows_change_as_training_rows_do(tmp_path: Path) -> None:
    trainer = trainer_of(node(write_data(tmp_path)))
    before = trainer.evaluate(trainer.initial_params(0)).accuracy
    trainer.change_rows(lambda rows: Labelled(rows.x, 1 - rows.y), "test")
    assert trainer.evaluate(trainer.initial_params(0)).accuracy == pytest.approx(1 - before)
    trainer.change_rows(lambda rows: rows.take(np.arange(30)))
    assert trainer.inputs().shape == (30, COLUMNS)


def test_the_options_bound_how_many_enrolments_are_dealt(tmp_path: Path) -> None:
    write_data(tmp_path)
    (tmp_path / OPTIONS_FILE).write_text("rows = 400", "utf-8")
    schools = [load_school(node(tmp_path, part, 4)) for part in range(1, 5)]
    assert [school.info.rows["train"] + school.info.rows["validation"] for school in schools] == [100] * 4
    together = load_school(node(tmp_path)).sides
    central = {row.tobytes() for name in ("train", "validation") for row in together[name].x}
    dealt = [{row.tobytes() for name in ("train", "validation") for row in s.sides[name].x} for s in schools]
    assert set.union(*dealt) == central
    assert sum(map(len, dealt)) == len(central)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("row = 3", "row is no option; expected rows"),
        ("rows = 0", "rows = 0; expected how many enrolments are dealt, above 0"),
        ("rows = true", "rows = True"),
        ("rows = [", "cannot be read"),
    ],
)
def test_wrong_options_are_refused_in_words(tmp_path: Path, text: str, fault: str) -> None:
    write_data(tmp_path)
    (tmp_path / OPTIONS_FILE).write_text(text, "utf-8")
    with pytest.raises(TrainerError, match=fault):
        load_school(node(tmp_path))


def test_what_is_missing_or_wrong_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="FLNET_DATASETS_PATH is not set"):
        load_school(TrainerSettings(None, tmp_path))
    with pytest.raises(DataMissing, match=rf"{FILE} is not there"):
        load_school(node(tmp_path))
    write_data(tmp_path, rows=8, tests=2)
    with pytest.raises(DataMissing, match="too few enrolments for this node"):
        load_school(node(tmp_path, 3, 8))
    with np.load(tmp_path / FILE) as file:
        arrays: dict[str, Any] = dict(file)
    for name, value, fault in (
        ("y_train", arrays["y_train"][:-1], r"rows are \[8, 6\], with 7 labels"),
        ("y_train", arrays["y_train"] + 7, "labels 0 or 1"),
    ):
        np.savez(tmp_path / FILE, **{**arrays, name: value})
        with pytest.raises(TrainerError, match=fault):
            load_school(node(tmp_path))


def test_counts_come_on_one_scale() -> None:
    scaled = one_scale(np.array([0.0, np.e - 1, -(np.e - 1), 10_000.0]))
    assert scaled.dtype == np.float32
    assert scaled[:3].tolist() == pytest.approx([0, 0.25, -0.25])
    assert 2 < scaled[3] < 3


@pytest.mark.data
def test_real_enrolments_are_judged_better_than_by_the_majority(tmp_path: Path) -> None:
    if not (datasets_path() / FILE).is_file():
        pytest.skip(f"no {FILE} in {datasets_path()}; name its folder in FLNET_DATASETS_PATH")
    trainer = trainer_of(TrainerSettings(datasets_path(), tmp_path, (1, 4)))
    start = Params(trainer.initial_params(0))
    fit = trainer.fit(Task(start, trainer.defaults.model_copy(update={"e": 2}), seed=0))
    assert trainer.evaluate(fit.params).accuracy >= 0.86  # the majority is 0.79
