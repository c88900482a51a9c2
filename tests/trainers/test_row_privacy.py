"""Single rows hidden in the training of networks in PyTorch: against gradients of rows one by one, and Opacus."""

from __future__ import annotations

import re
import sys
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
if find_spec("opacus") is None:
    pytest.skip("Opacus is not installed: pip install flnet[privacy]", allow_module_level=True)

from flnet.algorithms.registry import with_method  # noqa: E402
from flnet.algorithms.row_privacy import SHIPPED, hidden_mean  # noqa: E402
from flnet.installing import install  # noqa: E402
from flnet.params.params import Array, Params  # noqa: E402
from flnet.protocol.messages import HyperParams  # noqa: E402
from flnet.trainer import Method, NoisySteps, RowPrivacy, Task, Trainer, TrainerError  # noqa: E402
from tests.datasets.own_files import csv_file, table, two_clouds  # noqa: E402
from tests.datasets.own_files import node as own_node  # noqa: E402
from tests.trainers.made_trainers import made  # noqa: E402
from trainers import (  # noqa: E402
    MNIST,
    MNIST_3_7,
    _batches,
)
from trainers._batches import Drawn  # noqa: E402
from trainers._own import make_own  # noqa: E402
from trainers._torch import Steps  # noqa: E402

NAMES = (
    "MNIST",
    "MNIST_3_7",
    "MOOC",
    "MULTI_LABEL",
    "CHEST_SUBTYPES",
    "DIGIT_DOMAINS",
    "images",
    "table",
    "number",
)
OPEN = RowPrivacy(0.0, 1e9)  # neither clips nor adds noise


@pytest.fixture(scope="module", autouse=True)
def hiding() -> Any:
    """The part of trainers that needs Opacus, whose import takes more than a second: not in processes of other tests."""
    pytest.importorskip("opacus")
    return import_module("trainers._row_privacy")


@pytest.fixture(scope="module")
def trainers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trainer]:
    return {name: made(name, tmp_path_factory.mktemp(name.lower())) for name in NAMES}


def rows_of(trainer: Trainer) -> int:
    return trainer.data_info().rows["train"]


def task_of(trainer: Trainer, privacy: RowPrivacy | None, e: int = 1, b: int = 0, **more: Any) -> Task:
    """A training whose steps have all rows, unless a batch size is given: then each has the rate b / rows."""
    hyper = HyperParams(e=e, u=0.01, b=b or rows_of(trainer))
    return Task(Params(trainer.initial_params(0)), hyper, seed=3, row_privacy=privacy, **more)


def by_hand(trainer: Trainer, task: Task, clip: float) -> Mapping[str, Array]:
    """One step of plain descent by the clipped gradients of rows, each of a backward pass for that row alone."""
    steps = trainer.gradients(replace(task, row_privacy=None))
    assert isinstance(steps, Steps)
    (batch,) = steps._batches
    rows = []
    for row in batch:
        params = {n: torch.tensor(v, requires_grad=True) for n, v in task.params.items()}
        loss = steps._loss(params, *steps._read(row[None]))
        rows.append([g.numpy() for g in torch.autograd.grad(loss, list(params.values()))])
    gradients = {n: np.stack([row[at] for row in rows]) for at, n in enumerate(task.params)}
    mean = hidden_mean(gradients, RowPrivacy(0.0, clip), len(rows), np.zeros)
    return {n: v - task.hyper.u * mean[n] for n, v in task.params.items()}


def assert_alike(one: Mapping[str, Array], other: Mapping[str, Array], off: float = 2e-6) -> None:
    assert one.keys() == other.keys()
    for name, value in other.items():
        np.testing.assert_allclose(one[name], value, rtol=0, atol=off, err_msg=name)


def moved(one: Mapping[str, Array], other: Mapping[str, Array]) -> float:
    return float(sum(((one[name] - other[name]) ** 2).sum() for name in other) ** 0.5)


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """No step draws any row."""
    monkeypatch.setattr(_batches, "system_uniform", np.ones)


@pytest.mark.parametrize("mu", [0.0, 2.0])
@pytest.mark.parametrize("name", NAMES)
def test_without_noise_and_clipping_it_is_the_plain_training(
    trainers: dict[str, Trainer], name: str, mu: float
) -> None:
    trainer = trainers[name]
    assert "row-privacy" in trainer.honours
    plain, hidden = (trainer.fit(task_of(trainer, how, e=3, proximal=mu)) for how in (None, OPEN))
    assert_alike(hidden.params, plain.params, 3e-5)
    assert moved(plain.params, trainer.initial_params(0)) > 1e-3
    assert (hidden.examples, hidden.labels) == (plain.examples, plain.labels)
    assert hidden.metrics["loss"] == pytest.approx(plain.metrics["loss"], abs=1e-5)
    assert (plain.noisy, hidden.noisy) == (None, NoisySteps(1.0, 3))


@pytest.mark.parametrize("name", NAMES)
def test_noise_moves_a_training_and_never_the_same_way(trainers: dict[str, Trainer], name: str) -> None:
    trainer = trainers[name]
    task = task_of(trainer, RowPrivacy(1.0, 1.0), e=2, b=10)
    one, other = trainer.fit(task), trainer.fit(task)  # of one seed
    assert moved(one.params, other.params) > 1e-4
    rows = rows_of(trainer)
    assert one.noisy == NoisySteps(10 / rows, 2 * -(-rows // 10))


def checked_step(trainer: Trainer, clip: float) -> None:
    """One step of plain descent must be that of rows clipped one by one."""
    task = task_of(trainer, RowPrivacy(0.0, clip))
    assert_alike(trainer.fit(task).params, by_hand(trainer, task, clip))


def test_rows_are_clipped_one_by_one(trainers: dict[str, Trainer]) -> None:
    for clip in (1e9, 1.0, 0.05):
        checked_step(trainers["MNIST"], clip)
        checked_step(trainers["images"], clip)


def test_clipping_the_mean_instead_of_rows_would_be_noticed(
    trainers: dict[str, Trainer], hiding: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OfTheMean(hiding.SecretNoise):  # type: ignore[misc]
        def clip_and_accumulate(self) -> None:
            sums = [p.grad_sample.sum(0) for p in self.params]
            count = len(self.params[0].grad_sample)
            norm = torch.stack([s.norm() for s in sums]).norm() / count
            for param, total in zip(self.params, sums, strict=True):
                param.summed_grad = total * min(1.0, self.max_grad_norm / float(norm))

    monkeypatch.setattr(hiding, "SecretNoise", OfTheMean)
    monkeypatch.setattr(hiding, "PIECE", 2**40)
    checked_step(trainers["MNIST"], 1e9)  # nothing is clipped: no difference
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        checked_step(trainers["MNIST"], 1.0)


def test_gradients_of_rows_are_those_of_backward_passes_row_by_row(
    trainers: dict[str, Trainer], hiding: Any
) -> None:
    task = task_of(trainers["MNIST"], None)
    steps = trainers["MNIST"].gradients(task)
    assert isinstance(steps, Steps)
    params = {n: torch.tensor(v, requires_grad=True) for n, v in task.params.items()}
    rows = steps._read(torch.arange(5))
    slopes, losses = hiding.row_gradients(params, steps._loss, rows)
    for row in range(5):
        loss = steps._loss(params, *(part[row : row + 1] for part in rows))
        for slope, one in zip(slopes, torch.autograd.grad(loss, list(params.values())), strict=True):
            torch.testing.assert_close(slope[row], one, rtol=1e-4, atol=1e-6)
        assert float(losses[row]) == pytest.approx(float(loss.detach()), rel=1e-5)


def test_opacus_by_itself_gives_the_same_step(trainers: dict[str, Trainer]) -> None:
    """Opacus with its own gradients of rows, by hooks on modules, and its own optimiser."""
    opacus, nn = pytest.importorskip("opacus"), torch.nn
    layers = {
        **{"conv1": nn.Conv2d(1, 16, 3, padding=1), "relu1": nn.ReLU(), "pool1": nn.MaxPool2d(2)},
        **{"conv2": nn.Conv2d(16, 64, 3, padding=1), "relu2": nn.ReLU(), "pool2": nn.MaxPool2d(2)},
        **{"flat": nn.Flatten(), "dense": nn.Linear(64 * 49, 32), "relu3": nn.ReLU(), "output": nn.Linear(32, 10)},
    }
    trainer = trainers["MNIST"]
    task = task_of(trainer, RowPrivacy(0.0, 0.5))
    steps = trainer.gradients(task)
    assert isinstance(steps, Steps)
    net = nn.Sequential(OrderedDict(layers))
    net.load_state_dict({name: torch.tensor(value) for name, value in task.params.items()})
    module = opacus.GradSampleModule(net)
    plain = torch.optim.SGD(module.parameters(), lr=task.hyper.u)
    count = rows_of(trainer)
    private = opacus.optimizers.DPOptimizer(
        plain, noise_multiplier=0.0, max_grad_norm=0.5, expected_batch_size=count
    )
    x, y = steps._read(torch.arange(count))
    nn.functional.cross_entropy(module(x.requires_grad_()), y).backward()  # or its hooks warn
    private.step()
    assert_alike(trainer.fit(task).params, {n: v.detach().numpy() for n, v in net.state_dict().items()})


def test_many_rows_are_taken_in_pieces_with_one_noise(
    trainers: dict[str, Trainer], hiding: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, asked = trainers["MNIST"], list[int]()

    def noise(count: int) -> Array:
        asked.append(count)
        return np.ones(count)

    monkeypatch.setattr(hiding, "system_noise", noise)
    task = task_of(trainer, RowPrivacy(0.5, 0.1), e=2)
    whole = trainer.fit(task).params
    assert sum(asked) == 2 * sum(v.size for v in whole.values())
    monkeypatch.setattr(hiding, "PIECE", 3 * sum(v.size for v in whole.values()))
    assert_alike(trainer.fit(task).params, whole)
    assert sum(asked) == 4 * sum(v.size for v in whole.values())


@pytest.mark.usefixtures("nobody")
@pytest.mark.parametrize("name", NAMES)
def test_a_step_that_drew_no_row_is_noise_of_the_stated_spread_and_counts(
    trainers: dict[str, Trainer], name: str, hiding: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = np.random.default_rng(0)
    for module in (hiding, MNIST_3_7):
        monkeypatch.setattr(module, "system_noise", chance.standard_normal)
    trainer = trainers[name]
    task = task_of(trainer, RowPrivacy(3.0, 0.5))
    fit = trainer.fit(task)
    assert fit.noisy == NoisySteps(1.0, 1)
    steps = trainer.gradients(task)
    assert steps is not None
    noise = np.concatenate([(fit.params[n] - v).ravel() for n, v in task.params.items()]).astype(np.float64)
    if steps.optimiser == "adam":  # whose first step has the size of the rate, in whatever direction
        assert np.median(np.abs(noise)) == pytest.approx(task.hyper.u, rel=0.001)
        return
    told = task.hyper.u * 3.0 * 0.5 / rows_of(trainer)
    assert noise.std() == pytest.approx(told, rel=5 / (2 * noise.size) ** 0.5)  # five errors of the estimate
    assert abs(noise.mean()) < 5 * told / noise.size**0.5


def test_each_row_is_drawn_alone_and_as_often_as_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(1)
    monkeypatch.setattr(_batches, "system_uniform", chance.random)
    hyper = HyperParams(e=40, u=0.1, b=64)
    batches = Drawn[Array](np.arange(1000) + 5, Task({}, hyper, 0))
    assert (len(batches), batches.rate, batches.expected) == (40 * 16, 0.064, 64)
    drawn = np.zeros((640, 1000))
    for step, rows in enumerate(batches):
        drawn[step, rows - 5] = 1
    assert drawn.mean() == pytest.approx(0.064, rel=0.03)
    sizes = drawn.sum(1)
    assert sizes.std() == pytest.approx((1000 * 0.064 * 0.936) ** 0.5, rel=0.15)  # binomial: no fixed size
    often = drawn.sum(0)
    assert often.std() == pytest.approx((640 * 0.064 * 0.936) ** 0.5, rel=0.12)  # no row goes once round
    with pytest.raises(IndexError):
        batches[640]


def test_more_rows_asked_for_than_there_are_means_all(trainers: dict[str, Trainer]) -> None:
    batches = Drawn[Array](np.arange(7), Task({}, HyperParams(e=2, u=0.1, b=64), 0))
    assert [list(batch) for batch in batches] == [list(range(7))] * 2
    assert (batches.rate, batches.expected) == (1.0, 7)


@pytest.mark.parametrize("name", NAMES)
def test_a_training_that_ends_early_counts_the_steps_that_it_did(trainers: dict[str, Trainer], name: str) -> None:
    trainer, done = trainers[name], list[int]()
    task = task_of(trainer, RowPrivacy(1.0, 1.0), e=9, b=10, is_over=lambda: len(done) == 4)
    fit = trainer.fit(replace(task, progress=lambda step, total: done.append(step)))
    assert done == [1, 2, 3, 4]
    assert fit.noisy == NoisySteps(10 / rows_of(trainer), 4)


@pytest.mark.parametrize("name", ["MOOC", "MULTI_LABEL"])
def test_networks_that_train_together_hide_rows_too(trainers: dict[str, Trainer], name: str) -> None:
    trainer = trainers[name]
    task = task_of(trainer, OPEN, e=2)
    (fit,) = type(trainer).fit_many([(trainer, task)])
    assert fit.noisy == NoisySteps(1.0, 2)
    assert_alike(fit.params, trainer.fit(task).params)


def test_batches_of_another_kind_are_refused(trainers: dict[str, Trainer]) -> None:
    task = task_of(trainers["MNIST"], OPEN)
    steps = trainers["MNIST"].gradients(replace(task, row_privacy=None))
    assert isinstance(steps, Steps)
    with pytest.raises(TrainerError, match="its batches do not draw each row alone"):
        steps.descended(task)


def test_without_opacus_a_training_says_what_to_install(
    trainers: dict[str, Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "trainers._row_privacy", None)
    with pytest.raises(TrainerError, match="needs .*: " + re.escape(install("privacy"))):
        trainers["MNIST"].fit(task_of(trainers["MNIST"], OPEN))
    assert trainers["MNIST_3_7"].fit(task_of(trainers["MNIST_3_7"], OPEN)).noisy  # numpy needs nothing


def test_shipped_trainers_are_taken_unless_own_rows_scale_their_columns(
    trainers: dict[str, Trainer], tmp_path: Path
) -> None:
    told = Method(row_privacy=True)
    for name in {*SHIPPED, "images"} & trainers.keys():
        assert with_method(trainers[name], told, 0, name) is trainers[name]
    with pytest.raises(TrainerError, match="mean and spread of all own rows"):
        with_method(trainers["table"], told, 0, "table")
    csv_file(tmp_path / "t.csv", ["a", "b", "y"], two_clouds())
    stated = make_own(table(scale={"a": [0.0, 2.0], "b": [0.0, 2.0]}), own_node(tmp_path))
    assert with_method(stated, told, 0, "table") is stated


def test_the_trainers_that_words_name_are_those_that_can() -> None:
    files = Path(MNIST.__file__).parent.glob("[!_]*.py")
    can = [
        path.stem for path in files if any(w in path.read_text("utf-8") for w in ('"row-privacy"', "on_images("))
    ]
    assert sorted(can) == list(SHIPPED)
