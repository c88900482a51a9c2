"""The batches of a training: the order in which rows come, and that they need no memory for what is yet to come."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from flnet.errors import TrainerError  # noqa: E402
from flnet.params.params import Params  # noqa: E402
from flnet.protocol.messages import HyperParams  # noqa: E402
from flnet.trainer import Task, TrainerSettings  # noqa: E402
from tests.trainers.test_gradients import NAMES  # noqa: E402
from tests.trainers.test_gradients import trainers as trainers  # noqa: E402
from trainers import SMALL_DIGITS, _torch  # noqa: E402
from trainers import _batches as _numpy  # noqa: E402

MOST = HyperParams(e=10_000, u=0.001, b=1)  # the largest orders that a message can give
MEBIBYTE = 1024 * 1024


def task(**hyper: Any) -> Task:
    return Task({}, HyperParams(**{"e": 2, "u": 0.1, "b": 3, **hyper}), seed=5)


@pytest.mark.parametrize("shuffled", [_numpy.shuffled, _torch.shuffled])
def test_every_epoch_has_every_row_once_in_an_order_of_its_own(shuffled: Callable[[int, Task], Any]) -> None:
    batches = [batch.tolist() for batch in shuffled(7, task())]
    assert [len(rows) for rows in batches] == [3, 3, 1, 3, 3, 1] and len(shuffled(7, task())) == 6
    first, second = ([row for batch in part for row in batch] for part in (batches[:3], batches[3:]))
    assert sorted(first) == sorted(second) == list(range(7))
    assert first != second
    assert [batch.tolist() for batch in shuffled(7, task())] == batches


@pytest.mark.parametrize("shuffled", [_numpy.shuffled, _torch.shuffled])
def test_batches_may_be_read_in_any_order(shuffled: Callable[[int, Task], Any]) -> None:
    batches = shuffled(7, task())
    expected = [batch.tolist() for batch in batches]
    for step in (5, 0, 0, 4, 2, 3):
        assert batches[step].tolist() == expected[step]
    with pytest.raises(IndexError):
        batches[6]
    assert len(shuffled(0, task())) == 0


def test_orders_are_those_that_one_generator_draws_in_turn() -> None:
    chance = np.random.default_rng(5)
    expected = [chance.permutation(4).tolist() for _ in range(3)]
    assert [batch.tolist() for batch in _numpy.shuffled(4, task(e=3, b=4))] == expected
    chance = torch.Generator().manual_seed(5)
    expected = [torch.randperm(4, generator=chance).tolist() for _ in range(3)]
    assert [batch.tolist() for batch in _torch.shuffled(4, task(e=3, b=4))] == expected
    rows = np.array([5, 9, 11])
    assert sorted(_numpy.shuffled(rows, task(e=1))[0].tolist()) == rows.tolist()


@pytest.mark.parametrize("name", [*NAMES, "SMALL_DIGITS"])
def test_the_largest_orders_need_no_more_memory_than_an_epoch(trainers: Any, name: str, tmp_path: Path) -> None:
    """Ten thousand epochs of batches of one: all their row numbers together were two gigabytes."""
    trainer = trainers[name] if name in NAMES else SMALL_DIGITS.make_trainer(TrainerSettings(None, tmp_path))
    start = Params(trainer.initial_params(0))
    told: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        told.append((done, total))
        if done == 3:
            raise TrainerError("enough")

    trainer.fit(Task(start, trainer.defaults, 0))  # what is imported and made at first is not measured
    tracemalloc.start()
    try:
        with pytest.raises(TrainerError, match="enough"):
            trainer.fit(Task(start, MOST, 0, progress))
        if (steps := trainer.gradients(Task(start, MOST, 0))) is not None:
            steps(start, 0)
            assert steps.steps == told[-1][1]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert told[-1] == (3, MOST.e * trainer.data_info().rows["train"])
    assert peak < 4 * MEBIBYTE
