"""Many small networks trained as one give what each gives by itself, whatever differs between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from flnet.protocol.messages import HyperParams  # noqa: E402
from flnet.trainer import Task  # noqa: E402
from trainers import _stacked  # noqa: E402
from trainers._dense import Learner, Learnt, train  # noqa: E402
from trainers._stacked import train_together  # noqa: E402

LAYERS = ("a", "b", "c")


def learner(
    rows: int, labels: int, *, epochs: int = 1, batch: int = 8, rate: float = 0.001, columns: int = 12, **how: Any
) -> Learner:
    """A network columns -> 10 -> 5 -> labels with rows and parameters of its own."""
    chance = np.random.default_rng([rows, labels, epochs])
    widths, params = (columns, 10, 5, labels), {}
    for name, inputs, outputs in zip(LAYERS, widths, widths[1:], strict=False):
        params[f"{name}.weight"] = chance.uniform(-0.6, 0.6, (outputs, inputs)).astype(np.float32)
        params[f"{name}.bias"] = chance.uniform(-0.1, 0.1, outputs).astype(np.float32)
    x = torch.from_numpy(chance.normal(size=(rows, columns)).astype(np.float32))
    y = torch.from_numpy((chance.random((rows, labels)) < 0.4).astype(np.uint8))
    return Learner(LAYERS, x, y, Task(params, HyperParams(e=epochs, u=rate, b=batch), seed=rows, **how))


def assert_alike(found: list[Learnt], expected: list[Learnt]) -> None:
    assert len(found) == len(expected)
    for mine, other in zip(found, expected, strict=True):
        assert mine.batches == other.batches
        assert mine.loss == pytest.approx(other.loss, abs=1e-5)
        assert mine.params.keys() == other.params.keys()
        for name, value in other.params.items():
            assert mine.params[name].shape == value.shape
            assert mine.params[name].dtype == value.dtype
            np.testing.assert_allclose(mine.params[name], value, rtol=0, atol=1e-5)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=6))
def test_stacked_training_equals_training_one_by_one(kinds: list[tuple[int, int, int]]) -> None:
    """Other numbers of rows, of labels and of passes: short batches, early ends and narrow heads are padded."""
    learners = [learner(rows, labels, epochs=epochs) for rows, labels, epochs in kinds]
    assert_alike(train_together(learners), [train(one) for one in learners])


def test_what_has_another_shape_or_rate_is_trained_apart() -> None:
    learners = [
        learner(20, 2),
        learner(21, 2, columns=7),
        learner(22, 3, batch=5),
        learner(23, 1, rate=0.01),
        learner(24, 3),
    ]
    assert_alike(train_together(learners), [train(one) for one in learners])
    assert train_together([]) == []


def test_one_network_is_a_stack_too() -> None:
    """As where all rows are at one node, or one node of many trains in a round."""
    alone = [learner(45, 3, epochs=2, rate=0.01, proximal=mu) for mu in (0.0, 0.5)]
    for one in alone:
        assert_alike(train_together([one]), [train(one)])


def test_stacks_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    learners = [learner(rows, 2) for rows in range(10, 17)]
    together = train_together(learners)
    monkeypatch.setattr(_stacked, "NUMBERS_AT_ONCE", 400)  # two of them
    monkeypatch.setattr(_stacked, "STEPS_AT_ONCE", 1)
    assert_alike(train_together(learners), together)


def test_parameters_that_were_given_stay_as_they_are() -> None:
    learners = [learner(20, 2), learner(21, 3)]
    before = [{name: value.copy() for name, value in one.task.params.items()} for one in learners]
    train_together(learners)
    for one, params in zip(learners, before, strict=True):
        assert all((one.task.params[name] == value).all() for name, value in params.items())


def after(batches: int, told: list[tuple[int, int]]) -> Callable[[], bool]:
    return lambda: len(told) >= batches


@pytest.mark.parametrize("ends", [(2, 5, 99), (1, 1, 1), (99, 3, 1), (2,)])
def test_each_ends_when_its_own_time_is_over(ends: tuple[int, ...]) -> None:
    def learners() -> tuple[list[Learner], list[list[tuple[int, int]]]]:
        told: list[list[tuple[int, int]]] = [[] for _ in ends]
        found = [
            learner(30 + 9 * at, 2, progress=lambda *step, to=to: to.append(step), is_over=after(end, to))
            for at, (end, to) in enumerate(zip(ends, told, strict=True))
        ]
        return found, told

    together, told_together = learners()
    apart, told_apart = learners()
    assert_alike(train_together(together), [train(one) for one in apart])
    assert told_together == told_apart
    assert [len(told) for told in told_together] == [
        min(end, -(-(30 + 9 * at) // 8)) for at, end in enumerate(ends)
    ]


def test_the_proximal_term_is_that_of_training_one_by_one() -> None:
    learners = [learner(rows, 2, epochs=2, rate=0.01, proximal=mu) for rows in (20, 33) for mu in (0.0, 0.5, 0.5)]
    found = train_together(learners)
    assert_alike(found, [train(one) for one in learners])
    plain = train(learner(20, 2, epochs=2, rate=0.01))
    assert any((found[1].params[name] != plain.params[name]).any() for name in plain.params)
