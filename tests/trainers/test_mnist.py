"""The convolutional network: determinism, learning, and a federation of four on either data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.aggregation.base import RoundStart
from flnet.aggregation.fed_avg import fed_avg
from flnet.algorithms.fed_mt.local_training import with_labels
from flnet.compute.checks import checked_fit
from flnet.datasets.samples import write_digits
from flnet.errors import TrainerError
from flnet.labels.spaces import read_fields
from flnet.params.params import Params, PeerId, Schema
from flnet.protocol.messages import HyperParams
from flnet.protocol.updates import Update
from flnet.trainer import Partition, Task, Trainer, TrainerSettings
from tests.helpers import key
from tests.trainers.real_data import datasets_path
from trainers import MNIST
from trainers.MNIST import SHAPES, Mnist, make_trainer


def node(state: Path, shard: tuple[int, int] = (1, 4), data: Path | None = None) -> Trainer:
    state.mkdir(parents=True, exist_ok=True)
    return make_trainer(TrainerSettings(data, state, shard))


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    return node(tmp_path_factory.mktemp("first"))


def test_the_declaration_says_what_the_mesh_must_know(first: Trainer) -> None:
    assert (first.label, first.exchange_threshold) == ("MNIST Dataset", 0.02)
    assert first.defaults == HyperParams(e=8, u=0.02, b=16)
    assert first.data_info().classes == tuple("0123456789")


def test_the_model_has_about_a_hundred_thousand_parameters(first: Trainer) -> None:
    params = Params(first.initial_params(0))
    assert {name: value.shape for name, value in params.items()} == SHAPES
    assert Schema.of(params).numbers == 110_154
    assert all(value.dtype == np.float32 for value in params.values())


def test_equal_seeds_give_equal_starts_on_every_node(first: Trainer, tmp_path: Path) -> None:
    other = node(tmp_path, (2, 4))
    assert Params(first.initial_params(3)) == Params(other.initial_params(3))
    assert Params(first.initial_params(3)) != Params(first.initial_params(4))


def test_training_is_a_function_of_parameters_data_and_seed(first: Trainer, tmp_path: Path) -> None:
    start = Params(first.initial_params(0))

    def learnt(trainer: Trainer, seed: int) -> Params:
        return Params(trainer.fit(Task(start, HyperParams(e=1, u=0.02, b=32), seed)).params)

    once = learnt(first, 7)
    assert learnt(first, 7) == once
    assert learnt(node(tmp_path / "restarted"), 7) == once
    assert learnt(first, 8) != once
    assert learnt(node(tmp_path / "other", (2, 4)), 7) != once
    assert Params(first.initial_params(0)) == start


def test_every_batch_is_told_of_and_the_figures_are_given(first: Trainer) -> None:
    told: list[tuple[int, int]] = []
    start, rows = Params(first.initial_params(0)), first.data_info().rows["train"]
    fit = first.fit(Task(start, HyperParams(e=2, u=0.02, b=100), 0, lambda *progress: told.append(progress)))
    batches = 2 * -(-rows // 100)
    assert told == [(n + 1, batches) for n in range(batches)]
    assert (fit.examples, fit.labels) == (rows, 10)
    assert fit.metrics.keys() == {"loss", "validation_accuracy"}


def test_a_rate_far_too_large_gives_numbers_that_are_refused_as_diverged(first: Trainer) -> None:
    start = Params(first.initial_params(0))
    fit = first.fit(Task(start, HyperParams(e=2, u=1000, b=16), 0))
    with pytest.raises(TrainerError, match=r"training diverged: 'conv1.weight' has numbers that are not finite"):
        checked_fit(fit, start, "MNIST")


def federation(nodes: list[Trainer], rounds: int, hyper: HyperParams) -> float:
    """Mean test accuracy of the average after so many rounds."""
    params = Params(nodes[0].initial_params(0))
    schema, strategy = Schema.of(params), fed_avg()
    for number in range(rounds):
        fits = [one.fit(Task(params, hyper, seed=100 * number + i)) for i, one in enumerate(nodes)]
        updates = [Update(PeerId(str(i)), key(number), Params(f.params), f.examples) for i, f in enumerate(fits)]
        params = strategy.merge(None, RoundStart(schema, params), updates).params
    return float(np.mean([one.evaluate(params).accuracy for one in nodes]))


def test_four_nodes_learn_the_bundled_digits(tmp_path: Path) -> None:
    nodes = [node(tmp_path / str(i), (i, 4)) for i in (1, 2, 3, 4)]
    assert federation(nodes, 2, HyperParams(e=2, u=0.02, b=16)) >= 0.8


@pytest.mark.data
@pytest.mark.long
def test_four_nodes_learn_a_part_of_mnist(tmp_path: Path) -> None:
    nodes = [node(tmp_path / str(i), (i, 40), datasets_path()) for i in (1, 2, 3, 4)]
    if not nodes[0].data_info().source.startswith("MNIST"):
        pytest.skip(f"no MNIST in {datasets_path()}; name its folder in FLNET_DATASETS_PATH")
    assert all(isinstance(one, Mnist) and one.defaults == HyperParams(e=1, u=0.05, b=64) for one in nodes)
    rows = nodes[0].data_info().rows
    assert (rows["train"] + rows["validation"], rows["test"]) == (1500, 250)
    assert federation(nodes, 2, HyperParams(e=1, u=0.05, b=32)) >= 0.85


def test_when_its_time_is_over_it_counts_the_rows_that_it_saw(first: Trainer) -> None:
    start, hyper, told = Params(first.initial_params(0)), HyperParams(e=2, u=0.02, b=100), [0]
    fit = first.fit(Task(start, hyper, 0, lambda done, total: told.append(done), lambda: told[-1] == 1))
    assert (told, fit.examples) == ([0, 1], 100) and np.isfinite(fit.metrics["loss"])


def test_where_nodes_label_differently_it_learns_from_coarse_labels(tmp_path: Path) -> None:
    halves = {"small": [str(digit) for digit in range(5)], "large": [str(digit) for digit in range(5, 10)]}
    desired = {"id": "digits", "classes": [str(digit) for digit in range(10)]}
    labels = read_fields({"id": "halves", "classes": list(halves), "desired": desired, "mapping": halves})
    told = TrainerSettings(None, tmp_path, (1, 4), labels=labels)
    trainer = with_labels(make_trainer(told), told, "MNIST")
    params = trainer.initial_params(0)
    before = trainer.evaluate(params)
    for seed in range(3):
        fit = trainer.fit(Task(params, HyperParams(e=1, u=0.05, b=16), seed))
        params = checked_fit(fit, params, "MNIST").params
    after = trainer.evaluate(params)
    assert after.accuracy > max(0.7, before.accuracy)
    assert after.metrics["desired_accuracy"] < after.accuracy - 0.2  # the labels do not tell the ten apart


def many_nodes(folder: Path, count: int) -> list[MNIST.Mnist]:
    """Nodes with unlike parts of made-up digits, each of which knows the whole published test part."""
    (folder / "mnist").mkdir()
    write_digits(folder / "mnist", train=120, test=40)
    found = []
    for part in range(1, count + 1):
        state = folder / f"state-{part}"
        state.mkdir()
        settings = TrainerSettings(folder, state, (part, count), partition=Partition.parse("dirichlet:1"))
        trainer = MNIST.make_trainer(settings)
        assert isinstance(trainer, MNIST.Mnist) and trainer.defaults == HyperParams(e=1, u=0.05, b=64)
        found.append(trainer)
    return found


def test_scores_are_those_of_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainers = many_nodes(tmp_path, 3)
    models = [Params(trainers[0].initial_params(seed)) for seed in (0, 0, 1)]
    jobs = list(zip(trainers, models, strict=True))
    alone = [trainer.evaluate(params) for trainer, params in jobs]
    measured: list[int] = []
    accuracy = MNIST._accuracy

    def counted(params: Any, part: MNIST.Part) -> float:
        measured.append(len(part.labels))
        return accuracy(params, part)

    monkeypatch.setattr(MNIST, "_accuracy", counted)
    assert MNIST.Mnist.evaluate_many(jobs) == alone
    assert all("official_accuracy" in score.metrics for score in alone)
    assert measured == [40, 40]  # two models on all 40
