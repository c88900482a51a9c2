"""The module that measures the split network, on made-up columns and, where they are, on the real tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flnet.algorithms.vertical.defences import GradientNoise, OutputNoise
from flnet.experiments import vertical
from flnet.experiments.vertical import (
    A,
    B,
    C,
    LabelLeak,
    Protection,
    Setup,
    Table,
    invert,
    read_table,
    seeded_normal,
    train_dense,
    train_joint,
    train_split,
)
from tests.trainers.real_data import datasets_path

SMALL = Setup(hidden=(8,), cut=4, top=(8,), batch=32, epochs=8, rate=0.01)


def made_up(folder: Path, name: str = "made_up") -> Path:
    """600 rows of 6 columns, half at each node; the label of a fifth depends on both halves."""
    chance = np.random.default_rng(3)
    x = chance.normal(size=(600, 6)).astype(np.float32)
    x[:, 0] = chance.integers(0, 2, 600)
    score = x @ [1.5, 1.0, -1.0, 1.0, -1.0, 1.0] + 0.5 * chance.normal(size=600)
    path = folder / f"vfl_{name}.npz"
    y = (score > np.quantile(score, 0.8)).astype(np.uint8)
    names = np.array(["yes", "a1", "a2", "b0", "b1", "b2"])
    np.savez(path, X=x, y=y, party=np.array([0, 0, 0, 1, 1, 1], np.uint8), feature_names=names)
    return path


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return read_table(made_up(tmp_path))


def area(outcome: vertical.Outcome) -> float:
    return outcome.score.metrics["auc"]


def test_columns_are_divided_and_scaled_by_training_rows(table: Table) -> None:
    assert table.names == {A: ("yes", "a1", "a2"), B: ("b0", "b1", "b2")}
    assert (len(table.train), len(table.test), len({*table.train, *table.test})) == (480, 120, 600)
    for columns in table.columns.values():
        assert columns[table.train].mean(axis=0) == pytest.approx(np.zeros(3), abs=1e-6)
        assert columns[table.train].std(axis=0) == pytest.approx(np.ones(3), abs=1e-6)


def test_together_is_the_same_as_in_one_place_and_better_than_alone(table: Table) -> None:
    split, joint = train_split(table, SMALL), train_joint(table, SMALL)
    assert split.digests == joint.digests
    assert split.score.metrics == pytest.approx(joint.score.metrics)
    assert split.loss == pytest.approx(joint.loss)
    alone = [area(train_joint(table, SMALL, [peer])) for peer in (A, B)]
    assert area(split) > max(alone) + 0.05
    assert abs(area(split) - area(train_dense(table, SMALL))) < 0.05


def test_bytes_are_those_of_outputs_and_gradients_of_one_node(table: Table) -> None:
    split = train_split(table, SMALL)
    assert split.bytes == 2 * 480 * SMALL.cut * 4 / 15  # two directions, four bytes a number, fifteen batches


def test_two_label_holders_do_better_than_one_with_half_of_the_rows(table: Table) -> None:
    first = np.random.default_rng(0).random(600) < 0.3
    few = replace(SMALL, epochs=2)
    both, one = (train_split(table, few, labelled=held) for held in ({B: first, C: ~first}, {B: first}))
    assert both.score.examples == one.score.examples == first[table.test].sum()
    assert both.score.metrics["loss"] < one.score.metrics["loss"]


def test_noise_on_gradients_hides_labels_and_costs_accuracy(table: Table) -> None:
    found = {}
    for name in ("none", "max-norm", "isotropic"):
        noise = None if name == "none" else GradientNoise(name, seeded_normal(0), 10.0)  # type: ignore[arg-type]
        leak = LabelLeak(table, SMALL)
        outcome = train_split(table, SMALL, Protection(gradients=noise), leak)
        in_batches = float(np.mean(leak.by_norm)), float(np.mean(leak.by_direction))
        found[name] = *in_batches, area(outcome), leak.over_all_epochs()
    plain, stretched, isotropic = found.values()
    assert plain[0] > 0.75 and plain[1] > 0.85
    assert abs(stretched[0] - 0.5) < 0.08 and stretched[1] < 0.65
    assert abs(isotropic[0] - 0.5) < 0.08 and isotropic[1] < 0.6
    assert isotropic[2] < plain[2]
    assert plain[3] > 0.99 and plain[3] > stretched[3] > stretched[1] and plain[3] > isotropic[3] > isotropic[1]


def test_noise_on_outputs_hides_features_and_costs_accuracy(table: Table) -> None:
    linear = replace(SMALL, hidden=(), relu_at_cut=False)
    noises = [None, *(OutputNoise(2.0, multiplier, seeded_normal(0)) for multiplier in (0.1, 2.0))]
    found = [invert(table, linear, Protection(outputs=noise), 40, "yes") for noise in noises]
    inversions = [inversion for _, inversion in found]
    exact = [inversion.with_weights or 0 for inversion in inversions]
    assert exact[0] < 1e-6 < exact[1] < exact[2]
    learned = [inversion.with_examples for inversion in inversions]
    assert learned[0] < 0.05 and learned[0] < learned[1] < learned[2]
    reads = [inversion.reads or 0 for inversion in inversions]
    assert reads[0] > 0.95 > reads[2] and reads[2] < inversions[2].always + 0.1
    assert area(found[2][0]) < area(found[0][0])
    assert invert(table, SMALL, Protection(), 40)[1].with_weights is None


def test_the_program_writes_all_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = replace(SMALL, epochs=1)
    for name in vertical.SETUPS:
        made_up(tmp_path, name)
    monkeypatch.setattr(vertical, "SETUPS", dict.fromkeys(vertical.SETUPS, few))
    monkeypatch.setattr(vertical, "SEEDS", range(2))
    monkeypatch.setattr(vertical, "READ", "yes")
    monkeypatch.setattr(vertical, "ENCRYPTED", dict.fromkeys(vertical.SETUPS, (1, 240)))
    lines: list[str] = []
    vertical.main(tmp_path, lines.append)
    tables = "\n".join(lines).strip().split("\n\n")
    assert sum(line.startswith("| ---") for line in lines) == 10
    assert "All weights of the first two rows are equal to the last bit: True." in tables
    widths = [{line.count("|") for line in part.split("\n")} for part in tables if part.startswith("|")]
    assert all(len(width) == 1 for width in widths)


def test_data_sets_that_are_not_there_are_named(tmp_path: Path) -> None:
    made_up(tmp_path, "breast_cancer")
    tables, missing = vertical.read_tables(tmp_path, vertical.SETUPS)
    assert (list(tables), [words.split(":")[0] for words in missing]) == (
        ["breast_cancer"],
        ["adult", "credit_default"],
    )
    lines: list[str] = []
    vertical.main(None, lines.append, quick=True)
    expected = "expected vfl_breast_cancer.npz in the folder FLNET_DATASETS_PATH, which is not set"
    assert lines == [f"breast_cancer: {expected}", ""]


def test_regression_on_encrypted_numbers_does_what_it_does_in_clear_text(table: Table) -> None:
    clear = vertical.train_encrypted(table, 10, 60, is_clear=True)
    area_under, accuracy = clear.figures(table)
    assert area_under > 0.9 and accuracy > 0.85
    pytest.importorskip("tenseal", reason="TenSEAL is not installed (the extra `vertical`)")
    run = vertical.train_encrypted(table, 10, 60)
    assert run.theta == pytest.approx(clear.theta, abs=0.01)
    assert run.figures(table)[1] == pytest.approx(accuracy, abs=0.005)
    assert run.bytes > 100 * clear.bytes


@pytest.mark.data
@pytest.mark.slow
def test_adult_reaches_what_a_network_on_all_columns_does() -> None:
    """AUC of scikit-learn's network of 32 on all columns, another split: .904; civil register alone .82, work .827."""
    path = datasets_path() / "vfl_adult.npz"
    if not path.exists():
        pytest.skip(f"no {path.name}")
    table = read_table(path)
    setup = replace(Setup(), epochs=5)
    assert area(train_split(table, setup)) > 0.898
    assert max(area(train_joint(table, setup, [peer])) for peer in (A, B)) < 0.84
