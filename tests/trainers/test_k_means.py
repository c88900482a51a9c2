"""The k-means trainers: spread first, Lloyd's step then, batches, what is kept back, judging rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.aggregation.base import RoundStart
from flnet.algorithms.clustering import pair_jaccard
from flnet.algorithms.k_means import k_means, move
from flnet.compute.checks import checked_fit, checked_params, checked_score, declared
from flnet.errors import TrainerError
from flnet.experiments.plan import find_plan
from flnet.experiments.run import run_together
from flnet.params.params import Params, PeerId, Schema
from flnet.protocol.updates import Update
from flnet.settings import Settings
from flnet.trainer import DataInfo, Fit, HyperParams, Task, TrainerSettings
from tests.algorithms.rows import heaps
from tests.experiments.cells import cell
from tests.helpers import key
from tests.trainers.mooc_files import COLUMNS, write_data
from trainers._central_groups import CentralGroups, lloyd
from trainers._k_means import KMeans, Options, Table, read_options
from trainers._mooc import FILE, as_counts
from trainers.MOOC_K_MEANS import OPTIONS_FILE, make_trainer

INFO = DataInfo("three heaps", {"train": 60, "validation": 0, "test": 30}, ("a", "b"), counts={"train": (1, 2)})


def node(rows: Any, **options: Any) -> KMeans:
    table = Table(rows[30:], rows[:30], ("x", "y"), (-3.0, -3.0), (12.0, 12.0), INFO)
    return KMeans(table, Options(**{"min_count": 1, **options}), "heaps")


def task(trainer: KMeans, params: Any, seed: int = 0, **hyper: Any) -> Task:
    return Task(params, trainer.defaults.model_copy(update=hyper), seed)


def start_of(trainer: KMeans, seed: int = 0) -> Params:
    return checked_params(trainer.initial_params(seed), "X")


def averaged(base: Params, fits: list[Fit]) -> Params:
    """What a mesh makes of it."""
    sent = [Update(PeerId(f"p{at}"), key(), Params(fit.params), fit.examples) for at, fit in enumerate(fits)]
    return k_means().merge(None, RoundStart(Schema.of(base), base), sent).params


def test_equal_seeds_give_equal_starts_and_the_schema_is_that_of_the_merging_rule() -> None:
    rows, _ = heaps(0)
    one, other = start_of(node(rows)), start_of(node(rows * 0))
    assert one == other != start_of(node(rows), seed=1)
    assert declared(node(rows), "X", one).shared == ("centroids", "counts")
    assert (one["counts"] == -1).all()
    assert (start_of(node(rows, start="seed"))["counts"] == 0).all()


def test_a_training_is_measured_on_validation_rows_if_there_are_some() -> None:
    rows, _ = heaps(0)
    assert "validation_accuracy" not in node(rows).fit(task(node(rows), start_of(node(rows)))).metrics
    table = Table(rows[30:70], rows[:30], ("x", "y"), (-3.0, -3.0), (12.0, 12.0), INFO, rows[70:])
    trainer = KMeans(table, Options(min_count=1), "heaps")
    fit = trainer.fit(task(trainer, start_of(trainer)))
    score = trainer.validation_score(fit.params)
    assert score is not None and score.examples == 20
    assert fit.metrics["validation_accuracy"] == score.accuracy


@pytest.mark.parametrize("start", ["spread", "seed"])
def test_a_mesh_finds_the_heaps(start: str) -> None:
    rows, _ = heaps(0, rows=270)
    trainers = [node(rows[part : part + 90], start=start) for part in (0, 90, 180)]
    model = start_of(trainers[0])
    for number in range(8):
        fits = [checked_fit(one.fit(task(one, model, number)), model, "X") for one in trainers]
        model = averaged(model, fits)
    scores = [checked_score(one.evaluate(model), "X") for one in trainers]
    assert min(score.accuracy for score in scores) > 0.8
    assert min(score.metrics["silhouette"] for score in scores) > 0.5
    assert model["counts"].sum() == 180
    some, groups = heaps(0, rows=270)
    guess = np.argmax(trainers[0].predict(model, some.astype(np.float32)).values, axis=1)
    assert pair_jaccard(groups, guess) > 0.95


def test_by_default_a_round_is_lloyds_step() -> None:
    rows, _ = heaps(1)
    trainer = node(rows, start="seed")
    base = start_of(trainer)
    fit, lloyd = trainer.fit(task(trainer, base)), move(rows[30:], base["centroids"])
    assert fit.params["centroids"] == pytest.approx(lloyd.centroids, abs=1e-12)
    assert (fit.examples, fit.params["counts"].tolist()) == (60, lloyd.counts.tolist())


def test_small_groups_are_kept_back() -> None:
    rows, _ = heaps(1)
    trainer = node(rows, start="seed", min_count=1000)
    base = start_of(trainer)
    fit = trainer.fit(task(trainer, base))
    assert fit.params["counts"].tolist() == [0, 0, 0]
    assert fit.params["centroids"].tolist() == base["centroids"].tolist()


def test_batches_are_told_and_time_may_end_them() -> None:
    rows, _ = heaps(1)
    trainer, told = node(rows, start="seed"), list[tuple[int, int]]()
    hyper = HyperParams(e=2, u=7.0, b=25)  # a share above 1 would go past the mean: it counts as 1
    some = replace(
        task(trainer, start_of(trainer)), hyper=hyper, progress=lambda done, of: told.append((done, of))
    )
    assert trainer.fit(some).examples == 60
    assert told == [(number, 6) for number in range(1, 7)]
    assert trainer.fit(replace(some, is_over=lambda: True)).examples == 25
    equal = [trainer.fit(some).params["centroids"].tolist() for _ in range(2)]
    assert equal[0] == equal[1]


def test_the_groups_have_names_and_no_counts_of_labels() -> None:
    info = node(heaps(0)[0]).data_info()
    assert (info.classes, info.counts) == (("group 1", "group 2", "group 3"), {})


def test_enrolments_are_grouped_without_their_labels(tmp_path: Path) -> None:
    write_data(tmp_path)
    (tmp_path / OPTIONS_FILE).write_text('k = 4\nmin_count = 7\nstart = "seed"', "utf-8")
    (tmp_path / "state").mkdir()
    trainer = make_trainer(TrainerSettings(tmp_path, tmp_path / "state"))
    base = checked_params(trainer.initial_params(0), "MOOC_K_MEANS")
    fit = trainer.fit(Task(base, trainer.defaults, 0))
    assert fit.params["centroids"].shape == (4, COLUMNS)
    assert ((fit.params["counts"] >= 7) | (fit.params["counts"] == 0)).all()
    assert 0 <= trainer.evaluate(fit.params).accuracy <= 1
    spec = trainer.input_spec()
    assert spec is not None and spec.shape == (COLUMNS,)
    assert trainer.predict(fit.params, np.ones((2, COLUMNS), np.float32)).values.shape == (2, 4)
    assert trainer.agreement["start"] == "seed"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("k = 1", "k = 1; expected 2 to 200"),
        ("k = 3.0", "k = 3.0; expected"),
        ("k = true", "k = True; expected"),
        ("min_count = 0", "min_count = 0; expected 1 to 1000000"),
        ('start = "rows"', "start = 'rows'; expected 'spread' or 'seed'"),
        ("alpha = 1", "alpha is no option; expected k, min_count, start"),
        ("k = [", "cannot be read"),
    ],
)
def test_wrong_options_are_refused_in_words(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "options.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(TrainerError, match=fault):
        read_options(path)


def test_without_a_file_the_usual_options(tmp_path: Path) -> None:
    assert read_options(tmp_path / "options.toml") == Options()


def test_lloyd_ends_where_no_centroid_moves() -> None:
    rows, _ = heaps(0)
    found = lloyd(rows, rows[:3])
    assert np.abs(lloyd(rows, found) - found).max() < 0.001
    nearest = np.argmin(((rows[:, None] - found) ** 2).sum(axis=2), axis=1)
    means = np.array([rows[nearest == group].mean(axis=0) for group in range(3)])
    assert found == pytest.approx(means, abs=0.001)


def test_the_same_groups_are_wholly_alike_whatever_they_are_called() -> None:
    rows, _ = heaps(1)
    start = rows[:3]
    central, found = CentralGroups(rows), lloyd(rows, start)
    assert central.alike(start, found[[2, 0, 1]]) == 1
    assert central.alike(start, found * 0) < 0.5  # all in one
    assert central.alike(start, found) == 1


def write_heaps(folder: Path) -> None:
    """Enrolments of three kinds."""
    write_data(folder)
    with np.load(folder / FILE) as file:
        arrays = dict(file)
    for side in ("x_train", "x_test"):
        rows, _ = heaps(3, len(arrays[side]), columns=COLUMNS)
        arrays[side] = as_counts(rows / 9).astype(np.float32)
    np.savez(folder / FILE, **arrays)


@pytest.mark.parametrize("start", ["spread", "seed"])
def test_schools_come_to_the_groups_of_all_enrolments(tmp_path: Path, start: str) -> None:
    write_heaps(tmp_path)
    name = "after.central_jaccard"
    options = {"rows": 800, "compare": True, "start": start}
    one = cell(
        trainer="MOOC_K_MEANS",
        nodes=4,
        aggregation="k-means",
        rounds=6,
        options_file=OPTIONS_FILE,
        options=options,
        curves=(name,),
    )
    (found,) = run_together([one], Settings(datasets_path=tmp_path))
    assert found.reason == ""
    (course,) = set(found.curves[name])  # all schools have one model
    assert course[-1] is not None
    assert 0.97 < course[-1] <= 1


def test_what_is_compared_must_be_yes_or_no(tmp_path: Path) -> None:
    write_data(tmp_path)
    (tmp_path / OPTIONS_FILE).write_text("compare = 1", "utf-8")
    with pytest.raises(TrainerError, match="compare = 1; expected true or false"):
        make_trainer(TrainerSettings(tmp_path, tmp_path))


def test_the_table_has_the_rounds_and_schools_of_the_thesis() -> None:
    setups = {(one.row, one.column): one.setup for one in find_plan("k-means").cells()}
    assert {setup.nodes for setup in setups.values()} == {54}
    counts = {int(row.split()[0]): setup.participation for (row, _), setup in setups.items()}
    assert {schools: int(np.ceil(share * 54)) for schools, share in counts.items()} == {
        n: n for n in (5, 10, 20, 40)
    }
    rounds = {column: setup.rounds for (_, column), setup in setups.items()}
    assert rounds["100 rounds, spread"] == rounds["100 rounds, by chance"] + 1 == 101
