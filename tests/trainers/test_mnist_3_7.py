"""The thesis' linear model: its parameters, and that it learns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flnet.errors import TrainerError
from flnet.params.params import Params
from flnet.protocol.messages import HyperParams
from flnet.trainer import Task, Trainer, TrainerSettings
from tests.trainers.real_data import datasets_path
from trainers.MNIST_3_7 import make_trainer


def node(state: Path, shard: tuple[int, int] = (1, 1), data: Path | None = None) -> Trainer:
    state.mkdir(parents=True, exist_ok=True)
    return make_trainer(TrainerSettings(data, state, shard))


def test_its_parameters_are_those_of_the_thesis(tmp_path: Path) -> None:
    params = Params(node(tmp_path).initial_params(0))
    shapes = {name: (value.shape, value.dtype.name) for name, value in params.items()}
    assert shapes == {"weights": ((784, 1), "float32"), "bias": ((1,), "float32")}


def test_first_weights_are_drawn_where_its_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "mnist_3_7.toml").write_text("start = 0.5")
    one = node(tmp_path / "state", data=tmp_path)
    weights = one.initial_params(1)["weights"]
    assert weights.std() == pytest.approx(0.5, abs=0.05)
    assert np.array_equal(weights, one.initial_params(1)["weights"])
    assert not np.array_equal(weights, one.initial_params(2)["weights"])
    assert node(tmp_path / "state").initial_params(1)["weights"].tobytes() == bytes(784 * 4)  # no zero is negative
    (tmp_path / "mnist_3_7.toml").write_text("start = -1")
    with pytest.raises(TrainerError, match="start = -1; expected a number from 0 to 10"):
        node(tmp_path / "state", data=tmp_path)


def test_small_steps_do_not_overcome_what_was_drawn(tmp_path: Path) -> None:
    """As in García Pérez (2021): rate 0.00001. From zeros the first step decides, whatever its size."""
    small = HyperParams(e=20, u=0.00001, b=64)
    drawn = {}
    for start in (0.0, 1.0):
        (tmp_path / "mnist_3_7.toml").write_text(f"start = {start}")
        one = node(tmp_path / "state", data=tmp_path)
        first = Params(one.initial_params(3))
        learnt = one.fit(Task(first, small, seed=0)).params
        drawn[start] = (one.evaluate(first).accuracy, one.evaluate(learnt).accuracy)
    assert drawn[0.0][1] >= 0.9
    assert abs(drawn[1.0][1] - drawn[1.0][0]) < 0.02
    assert drawn[1.0][1] < 0.8


def test_the_first_step_is_the_one_worked_by_hand(tmp_path: Path) -> None:
    """At zero all probabilities are 1/2, so the bias moves by u * (share of sevens - 1/2)."""
    one = node(tmp_path)
    rows = one.data_info().rows["train"]
    fit = one.fit(Task(Params(one.initial_params(0)), HyperParams(e=1, u=1, b=rows), seed=0))
    sevens = float(fit.params["bias"][0]) + 0.5
    assert round(sevens * rows) == pytest.approx(sevens * rows, abs=1e-3)
    assert fit.metrics["loss"] == pytest.approx(np.log(2), abs=1e-6)
    assert (fit.examples, fit.labels) == (rows, 2)


def test_training_is_a_function_of_parameters_data_and_seed(tmp_path: Path) -> None:
    one, other = node(tmp_path / "a", (1, 2)), node(tmp_path / "b", (2, 2))
    start = Params(one.initial_params(0))
    learnt = [Params(t.fit(Task(start, t.defaults, seed)).params) for t, seed in ((one, 1), (one, 1), (one, 2))]
    assert learnt[0] == learnt[1] != learnt[2]
    assert Params(other.fit(Task(start, other.defaults, 1)).params) != learnt[0]


def test_it_tells_the_bundled_threes_from_sevens(tmp_path: Path) -> None:
    one = node(tmp_path)
    fit = one.fit(Task(Params(one.initial_params(0)), one.defaults, seed=0))
    assert one.evaluate(fit.params).accuracy >= 0.9
    assert one.data_info().classes == ("3", "7")


@pytest.mark.data
def test_it_tells_threes_from_sevens_of_mnist(tmp_path: Path) -> None:
    one = node(tmp_path, (1, 10), datasets_path())
    if not one.data_info().source.startswith("MNIST"):
        pytest.skip(f"no MNIST in {datasets_path()}; name its folder in FLNET_DATASETS_PATH")
    fit = one.fit(Task(Params(one.initial_params(0)), one.defaults, seed=0))
    assert one.evaluate(fit.params).accuracy >= 0.93


def test_when_its_time_is_over_it_counts_the_rows_that_it_saw(tmp_path: Path) -> None:
    one = node(tmp_path)
    start, hyper = Params(one.initial_params(0)), HyperParams(e=2, u=1e-3, b=16)
    told: list[int] = []
    fit = one.fit(Task(start, hyper, 0, lambda done, total: told.append(done), lambda: len(told) == 3))
    assert (told, fit.examples) == ([1, 2, 3], 48)
    assert Params(fit.params) != start
