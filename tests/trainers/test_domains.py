"""Digits of unlike domains: who has which, at what size, and what is said where something is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flnet.datasets.labelled import Labelled
from flnet.params.params import Params, Schema
from flnet.protocol.messages import HyperParams
from flnet.trainer import DataMissing, Task, TrainerError, TrainerSettings
from tests.trainers.domain_files import written
from trainers._domains import FILES, Domain, Options, load_domain, read_options, small
from trainers.DIGIT_DOMAINS import SHAPES, DigitDomains, make_trainer


def domains(folder: Path, nodes: int) -> list[Domain]:
    return [load_domain(TrainerSettings(folder, folder, (part, nodes))) for part in range(1, nodes + 1)]


def test_each_of_four_nodes_has_a_domain(tmp_path: Path) -> None:
    found = domains(written(tmp_path, "rows = 50\ntests = 10"), 4)
    assert [one.name for one in found] == ["mnist", "mnist-m", "usps", "svhn"]
    assert [(len(one.train), len(one.test)) for one in found] == [(50, 10)] * 4
    assert all(one.train.x.shape[1:] == (16, 16, 3) and one.train.x.dtype == np.uint8 for one in found)
    assert all(np.array_equal(one.everything.x, found[0].everything.x) for one in found)
    assert len(found[0].everything) == 40


def test_all_but_the_first_of_five_nodes_share_a_domain(tmp_path: Path) -> None:
    options = 'scenario = "d5"\nmajority = "usps"\nother = "svhn"\nrows = 12\ntests = 4'
    found = domains(written(tmp_path, options), 5)
    assert [one.name for one in found] == ["svhn", *["usps"] * 4]
    assert [(len(one.train), len(one.test)) for one in found] == [(12, 4)] * 5
    rows = {row.tobytes() for one in found[1:] for row in one.train.x}
    assert len(rows) == 48  # nobody has what another one has
    assert len(found[0].everything) == 8


def test_what_mnist_is_tested_with_is_of_its_training_part(tmp_path: Path) -> None:
    folder = written(tmp_path, "rows = 40\ntests = 20")
    with np.load(folder / "mnist.npz") as file:
        there = {row.tobytes() for row in small(file["x_train"])}
    one = domains(folder, 4)[0]
    seen = [row.tobytes() for row in (*one.train.x, *one.test.x)]
    assert len(set(seen)) == 60
    assert set(seen) <= there


def test_of_a_domain_all_digits_are_taken_that_there_are(tmp_path: Path) -> None:
    """Domains with fewer test digits count as much in what is told of all of them as others."""
    folder = written(tmp_path, "rows = 1000\ntests = 20")
    with np.load(folder / "svhn.npz") as file:
        np.savez(folder / "svhn.npz", **{name: file[name][:7] for name in file.files})
    found = domains(folder, 4)
    assert [(len(one.train), len(one.test)) for one in found] == [(40, 20), (60, 20), (60, 20), (7, 7)]
    assert [int((found[0].domains == name).sum()) for name in FILES] == [20, 20, 20, 7]


def test_sizes_become_sixteen_pixels() -> None:
    grey = np.zeros((1, 28, 28), np.uint8)
    grey[0, 0, 0], grey[0, 1, 1] = 10, 20
    found = small(grey)
    assert found.shape == (1, 16, 16, 3)
    assert found[0, 1, 1].tolist() == [8, 8, 8]  # the mean of 10, 0, 0 and 20, after a frame of 2
    assert found.sum() == 3 * 8
    colour = np.arange(32 * 32 * 3, dtype=np.uint8).reshape(1, 32, 32, 3)
    assert small(colour)[0, 3, 5, 2] == int(colour[0, 6:8, 10:12, 2].astype(float).mean() + 0.5)
    sixteen = np.full((1, 16, 16), 7, np.uint8)
    assert (small(sixteen) == 7).all()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("domain = 1", "domain is no option"),
        ('scenario = "d6"', "scenario = 'd6'; expected 5b or d5"),
        ("rows = 0", "rows = 0; expected a whole number above 0"),
        ("tests = true", "tests = True"),
        ("rows = ", "cannot be read"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "domains.toml"
    path.write_text(line, "utf-8")
    with pytest.raises(TrainerError, match=words):
        read_options(path)


def test_without_options_all_is_usual(tmp_path: Path) -> None:
    assert read_options(tmp_path / "domains.toml") == Options()


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="FLNET_DATASETS_PATH is not set"):
        load_domain(TrainerSettings(None, tmp_path))
    folder = written(tmp_path / "data", 'scenario = "d5"\nmajority = "usps"\nother = "svhn"', rows=3)
    with pytest.raises(DataMissing, match="too few digits of usps for 4 nodes"):
        domains(folder, 5)
    (folder / "svhn.npz").write_bytes(b"no archive")
    with pytest.raises(TrainerError, match=r"svhn.npz is damaged or incomplete"):
        domains(folder, 2)
    (folder / "svhn.npz").unlink()
    with pytest.raises(DataMissing, match="no digits of svhn were found"):
        domains(folder, 2)


ONE = HyperParams(e=1, u=0.003, b=16)


@pytest.fixture
def trainer(tmp_path: Path) -> DigitDomains:
    return node(tmp_path)


def node(folder: Path, part: int = 3) -> DigitDomains:
    made = make_trainer(TrainerSettings(written(folder), folder, (part, 4)))
    assert isinstance(made, DigitDomains)
    return made


def test_the_network_is_that_of_the_paper(trainer: DigitDomains) -> None:
    params = Params(trainer.initial_params(0))
    assert {name: array.shape for name, array in params.items()} == SHAPES
    assert Schema.of(params).numbers == 28_474
    assert params == Params(trainer.initial_params(0)) != Params(trainer.initial_params(1))


def test_training_learns_what_shows(trainer: DigitDomains) -> None:
    start = trainer.initial_params(0)
    fit = trainer.fit(Task(start, HyperParams(e=30, u=0.003, b=16), 0))
    assert fit.metrics["loss"] < 2.0 and "validation_accuracy" not in fit.metrics
    assert trainer.evaluate(fit.params).accuracy > trainer.evaluate(start).accuracy
    assert fit.examples == 60


def test_equal_seeds_give_equal_training(trainer: DigitDomains) -> None:
    start = Params(trainer.initial_params(0))
    one, same, other = (Params(trainer.fit(Task(start, ONE, seed)).params) for seed in (1, 1, 2))
    assert one == same != other


def test_the_first_step_by_gradients_is_that_of_training(trainer: DigitDomains) -> None:
    start = trainer.initial_params(0)
    task = Task(start, ONE, 5)
    steps = trainer.gradients(task)
    assert (steps.steps, steps.optimiser) == (4, "adam")
    loss, gradient = steps(start, 0)
    ends = iter([True])
    fit = trainer.fit(Task(start, ONE, 5, is_over=lambda: next(ends)))
    assert fit.metrics["loss"] == pytest.approx(loss)
    moved = fit.params["dense4.weight"] - start["dense4.weight"]
    slope = gradient["dense4.weight"]
    np.testing.assert_allclose(moved, -0.003 * slope / (np.abs(slope) + 1e-7), atol=1e-6)
    assert steps.fit(start, 2, 1.0).examples == 32


def test_the_proximal_term_holds_near_the_start(trainer: DigitDomains) -> None:
    start = trainer.initial_params(0)

    def moved(mu: float) -> float:
        params = trainer.fit(Task(start, HyperParams(e=4, u=0.003, b=16), 0, proximal=mu)).params
        return float(sum(np.square(params[name] - start[name]).sum() for name in SHAPES))

    assert moved(0.0) > moved(10.0) > 0


def test_figures_are_accuracies_on_the_rows_that_it_tells(trainer: DigitDomains) -> None:
    params = trainer.fit(Task(trainer.initial_params(0), ONE, 0)).params
    score, tests = trainer.evaluate(params), trainer.tests()
    is_right = {
        name: trainer.predict(params, rows.inputs).values.argmax(1) == rows.labels for name, rows in tests.items()
    }
    assert score.accuracy == pytest.approx(is_right["accuracy"].mean())
    domains = tests["global_accuracy"].groups
    by_domain = {f"accuracy_{name}": is_right["global_accuracy"][domains == name].mean() for name in FILES}
    assert score.metrics == pytest.approx({**by_domain, "global_accuracy": np.mean(list(by_domain.values()))})
    assert trainer.evaluate_many([(trainer, params)]) == [score]


def test_a_training_is_measured_on_digits_that_are_held_back(tmp_path: Path) -> None:
    folder = written(tmp_path, "rows = 50\ntests = 10")
    trainer = make_trainer(TrainerSettings(folder, folder, (1, 4), validation_share=0.2))
    fit = trainer.fit(Task(trainer.initial_params(0), ONE, 0))
    score = trainer.validation_score(fit.params)
    assert score is not None and 5 <= score.examples == trainer.data_info().rows["validation"] <= 15
    assert fit.metrics["validation_accuracy"] == score.accuracy


def test_what_people_and_methods_see(trainer: DigitDomains) -> None:
    info = trainer.data_info()
    assert (info.source, info.rows) == ("digits of usps", {"train": 60, "validation": 0, "test": 20})
    assert trainer.inputs().shape == (60, 16, 16, 3)
    assert trainer.input_spec().shape == (16, 16, 3)
    trainer.change_rows(lambda rows: Labelled(rows.x[:10], rows.y[:10]))
    assert trainer.fit(Task(trainer.initial_params(0), ONE, 0)).examples == 10
