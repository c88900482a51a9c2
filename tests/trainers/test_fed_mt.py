"""FedMT's losses in PyTorch are those in numpy: values, and gradients as autograd finds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from flnet.labels import losses as ours  # noqa: E402
from flnet.protocol.messages import HyperParams  # noqa: E402
from flnet.trainer import Fit, Lesson, Task  # noqa: E402
from trainers import _fed_mt as twin  # noqa: E402

MATRICES = [
    np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    np.array([[0.9, 0.5, 0.0], [0.1, 0.5, 1.0]]),
    np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]),  # nobody can have label 1
]
scores = arrays(np.float64, (5, 3), elements=st.floats(-60, 60))
numbers = arrays(np.int64, 5, elements=st.integers(-2, 4))


def of_twin(loss: Callable[[Any], Any], logits: Any) -> tuple[float, Any]:
    """Value and gradient."""
    given_ones = torch.tensor(logits, requires_grad=True)
    value = loss(given_ones)
    value.backward()
    return float(value.detach()), given_ones.grad.numpy()


def same(found: tuple[float, Any], wanted: ours.Loss) -> None:
    assert found[0] == pytest.approx(wanted.value, abs=1e-12)
    assert found[1] == pytest.approx(wanted.gradient, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(scores, numbers, st.sampled_from(MATRICES))
def test_the_projected_loss(logits: Any, coarse: Any, matrix: Any) -> None:
    m, y = torch.tensor(matrix), torch.tensor(coarse)
    same(of_twin(lambda z: twin.projected_loss(z, m, y), logits), ours.projected_loss(logits, matrix, coarse))


@settings(max_examples=30, deadline=None)
@given(scores, numbers, numbers, st.floats(0, 1))
def test_the_ordinary_and_the_mixed_loss(logits: Any, first: Any, second: Any, share: float) -> None:
    a, b = torch.tensor(first), torch.tensor(second)
    same(of_twin(lambda z: twin.cross_entropy(z, a), logits), ours.cross_entropy(logits, first))
    found = of_twin(lambda z: twin.mixed_cross_entropy(z, a, b, share), logits)
    same(found, ours.mixed_cross_entropy(logits, first, second, share))


@settings(max_examples=30, deadline=None)
@given(scores, numbers, numbers, st.sampled_from(MATRICES))
def test_the_loss_of_a_node_with_both_kinds_of_labels(logits: Any, fine: Any, coarse: Any, matrix: Any) -> None:
    m, y, c = torch.tensor(matrix), torch.tensor(fine), torch.tensor(coarse)
    same(of_twin(lambda z: twin.loss_of_both(z, y, c, m), logits), ours.loss_of_both(logits, fine, coarse, matrix))


def test_oracle_11_in_the_precision_of_training() -> None:
    logits = np.log(np.array([[0.2, 0.5, 0.3]], np.float32))
    m = torch.tensor(MATRICES[1], dtype=torch.float32)
    value, gradient = of_twin(lambda z: twin.projected_loss(z, m, torch.tensor([1])), logits)
    assert value == pytest.approx(0.5621189182, abs=1e-6)
    assert gradient[0] == pytest.approx([0.1649122807, 0.0614035088, -0.2263157895], abs=1e-6)


def test_what_is_most_wrong_still_teaches_in_single_precision() -> None:
    wrong = np.array([[200.0, 0.0, 0.0]], np.float32)  # the softmax of class 2 is 0 here
    m = torch.tensor(MATRICES[0], dtype=torch.float32)
    value, gradient = of_twin(lambda z: twin.projected_loss(z, m, torch.tensor([1])), wrong)
    assert value == pytest.approx(200)
    assert gradient[0] == pytest.approx([1, 0, -1])


def test_taught_steps_have_the_gradient_of_the_lesson() -> None:
    """A linear model on pictures of one number: its gradient by hand is that of the lesson's loss in numpy."""
    chance = np.random.default_rng(0)
    x, weights = chance.normal(size=(5, 1, 1, 1)), chance.normal(size=(1, 3))
    guesses = np.array([-1, 2, 0, 1, -1])
    lesson = Lesson(np.array([0, -1, -1, 2, -1]), np.array([-1, 1, 0, 0, 1]), MATRICES[1], 2, guesses, 0.5)
    task = Task({"w": weights}, HyperParams(e=1, u=0.1, b=4), 3)
    pictures = torch.tensor(x)

    def outputs(params: Any, shown: Any) -> Any:
        return shown.flatten(1) @ params["w"]

    def fit(params: Any, steps: int, loss: float) -> Fit:
        return Fit(params, steps)

    steps = twin.taught_steps(task, lesson, lambda rows: pictures[rows], outputs, fit, torch.device("cpu"))
    assert steps.steps == 2
    (rows, _) = lesson.batches(4, 3)
    loss, gradient = steps(task.params, 0)
    logits = x[rows].reshape(-1, 1) @ weights
    wanted = lesson.loss(logits, rows) + lesson.loss_of_changed(logits, rows)  # one number cannot be shifted
    assert loss == pytest.approx(wanted.value, abs=1e-6)
    np.testing.assert_allclose(gradient["w"], x[rows].reshape(-1, 1).T @ wanted.gradient, atol=1e-6)


def test_taught_steps_hold_mixed_pictures_to_both_guesses() -> None:
    chance = np.random.default_rng(0)
    x, weights = chance.normal(size=(5, 1, 1, 1)), chance.normal(size=(1, 3))
    lesson = Lesson(np.array([0, 1, 0, 2, 1]), np.full(5, -1), MATRICES[1], 2, np.array([0, 2, 0, 1, -1]), 0, 0.5)
    task, pictures = Task({"w": weights}, HyperParams(e=1, u=0.1, b=5), 3), torch.tensor(x)

    def outputs(params: Any, shown: Any) -> Any:
        return shown.flatten(1) @ params["w"]

    steps = twin.taught_steps(
        task, lesson, lambda rows: pictures[rows], outputs, lambda *how: Fit(how[0], how[1]), torch.device("cpu")
    )
    rows, flat = lesson.batches(5, 3)[0], x.reshape(-1, 1)
    loss, gradient = steps(task.params, 0)
    mix = lesson.mix(rows, np.random.default_rng([3, 1]))
    between = mix.share * flat[mix.first] + (1 - mix.share) * flat[mix.second]
    plain, mixed = lesson.loss(flat[rows] @ weights, rows), lesson.loss_of_mixed(between @ weights, mix)
    assert mixed.value > 0
    assert loss == pytest.approx(plain.value + mixed.value, abs=1e-6)
    wanted = flat[rows].T @ plain.gradient + between.T @ mixed.gradient
    np.testing.assert_allclose(gradient["w"], wanted, atol=1e-6)


def test_shifted_pictures_have_the_same_numbers() -> None:
    pictures = torch.arange(2 * 3 * 10 * 20).reshape(2, 3, 10, 20)
    moved = [twin.shifted(pictures, torch.Generator().manual_seed(seed)) for seed in range(6)]
    assert all((one.flatten(1).sort().values == pictures.flatten(1).sort().values).all() for one in moved)
    assert not all((one == pictures).all() for one in moved)
