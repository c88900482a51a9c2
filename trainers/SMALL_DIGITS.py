"""Handwritten digits of 8x8 pixels with a dense network in numpy: 64-64-10, 4,810 parameters, trained by Adam.

A training of five passes takes hundredths of a second, so experiments with hundreds of meshes are done with it.
The digits are those that scikit-learn brings along; 1437 are for training, 360 for testing, the same everywhere. With a
file small_digits.toml beside the data sets they are the first ones of MNIST, reduced to the same size:

    mnist = 4000    # digits for training
    tests = 1000    # for testing
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np

from flnet.datasets.labelled import Labelled, fingerprint
from flnet.datasets.metrics import class_counts, softmax
from flnet.datasets.split import held_back, own_published, own_rows, with_partition
from flnet.text import text
from flnet.trainer import (
    Array,
    DataInfo,
    DataMissing,
    Fit,
    Gradients,
    HyperParams,
    InputSpec,
    Lesson,
    Optimiser,
    Prediction,
    Rows,
    Score,
    Task,
    Trainer,
    TrainerSettings,
)

from ._batches import Batches, shuffled
from ._digits import find_mnist, scikit_digits
from ._options import Fits, is_whole, read_lines

OFFERED = "named"  # for research: not among the trainers of a node that names none
OPTIONS_FILE = "small_digits.toml"
_RULES: dict[str, tuple[str, Fits]] = dict.fromkeys(("mnist", "tests"), (text("a whole number above 0"), is_whole))
BRIGHTEST, TESTED = 16, 360
CLASSES = tuple("0123456789")
SHAPES = {"hidden.bias": (64,), "hidden.weight": (64, 64), "output.bias": (10,), "output.weight": (64, 10)}
BETAS, EPSILON = (0.9, 0.999), 1e-8  # of Adam


class SmallDigits(Trainer):
    """The network with one node's digits."""

    label = "Small digits"
    predicts = "one_of"
    defaults = HyperParams(e=5, u=0.001, b=32)
    honours: ClassVar[frozenset[str]] = frozenset({"proximal", "labels"})

    def __init__(self, settings: TrainerSettings) -> None:
        self._source, train, self._all_tests = _loaded(settings.datasets_path)
        own = train.take(own_rows(train.y, settings))
        self._train, self._validation = (own.take(rows) for rows in held_back(own.y, settings))
        self._test = self._all_tests.take(own_published(train.y, self._all_tests.y, settings))
        self._note = with_partition("", settings)

    def data_info(self) -> DataInfo:
        """The digits of scikit-learn."""
        sides = {"train": self._train, "validation": self._validation, "test": self._test}
        sides = {side: rows for side, rows in sides.items() if len(rows) or side != "validation"}
        return DataInfo(
            self._source,
            {"train": len(self._train), "validation": len(self._validation), "test": len(self._test)},
            CLASSES,
            note=self._note,
            counts={side: np.bincount(rows.y, minlength=10).tolist() for side, rows in sides.items()},
            checksum=fingerprint(sides),
        )

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        """Uniform weights as Glorot and Bengio (2010) have them, biases 0."""
        chance, params = np.random.default_rng(seed), {}
        for name, shape in SHAPES.items():
            bound = (6 / sum(shape)) ** 0.5 if name.endswith("weight") else 0.0
            params[name] = chance.uniform(-bound, bound, shape).astype(np.float32)
        return params

    def fit(self, task: Task) -> Fit:
        """`e` passes over the training rows, each in a new order, with a fresh Adam optimiser."""
        steps = _Steps(self._train, task, self._validated)
        start = _packed(task.params)
        flat, mean, square = start.copy(), np.zeros_like(start), np.zeros_like(start)
        params, losses = _views(flat), 0.0
        for done in range(1, steps.steps + 1):
            loss, gradient = steps(params, done - 1)
            slope = _packed(gradient)
            if task.proximal:
                slope += np.float32(task.proximal) * (flat - start)
            mean += np.float32(1 - BETAS[0]) * (slope - mean)
            square += np.float32(1 - BETAS[1]) * (slope * slope - square)
            first, second = (1 - beta**done for beta in BETAS)
            flat -= np.float32(task.hyper.u / first) * mean / (np.sqrt(square / np.float32(second)) + EPSILON)
            losses += loss
            task.progress(done, steps.steps)
            if task.is_over():
                break
        return steps.fit(params, done, losses / done)

    def gradients(self, task: Task) -> Gradients:
        """The same training, batch by batch."""
        return _Steps(self._train, task, self._validated)

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        """Accuracy on the own test digits, and on those of all nodes together."""
        return self._score(params, {})

    def validation_score(self, params: Mapping[str, Array]) -> Score | None:
        """Accuracy on the own digits that are held back, if some are."""
        return _counted(params, self._validation, {}) if len(self._validation) else None

    def _validated(self, params: Mapping[str, Array]) -> Mapping[str, float]:
        """The figure of a training on validation rows, if there are some."""
        score = self.validation_score(params)
        return {} if score is None else {"validation_accuracy": score.accuracy}

    @classmethod
    def evaluate_many(cls, jobs: Sequence[tuple[Self, Mapping[str, Array]]]) -> list[Score]:
        """Likewise; a model that several nodes hold is measured once on the digits of all."""
        known: dict[bytes, float] = {}
        return [trainer._score(params, known) for trainer, params in jobs]

    def inputs(self) -> Array:
        """The own training digits."""
        return self._train.x.astype(np.float32)

    def labels(self) -> Array:
        """Which digits they are."""
        return self._train.y

    def tests(self) -> Mapping[str, Rows]:
        """The own test digits, and those of all."""
        sides = {"accuracy": self._test, "global_accuracy": self._all_tests}
        return {figure: Rows(rows.x.astype(np.float32), rows.y) for figure, rows in sides.items()}

    def validation_rows(self) -> Rows | None:
        """The own digits that are held back."""
        rows = self._validation
        return Rows(rows.x.astype(np.float32), rows.y) if len(rows) else None

    def change_rows(
        self, change: Callable[[Labelled], Labelled], side: Literal["train", "test"] = "train"
    ) -> None:
        """Go on with what becomes of the own training or test rows, for experiments."""
        if side == "test":
            self._test = change(self._test)
        else:
            self._train = change(self._train)

    def input_spec(self) -> InputSpec:
        """One digit."""
        return InputSpec("image", (8, 8), 0, BRIGHTEST, hint=text("one digit, white on black, in the middle"))

    def predict(self, params: Mapping[str, Array], inputs: Array) -> Prediction:
        """Probabilities of the ten digits."""
        return Prediction(softmax(_outputs(params, _flat(inputs))[1]))

    def _score(self, params: Mapping[str, Array], known: dict[bytes, float]) -> Score:
        key = _packed(params).tobytes()
        if key not in known:
            known[key] = _accuracy(params, self._all_tests)
        metrics = {"global_accuracy": known[key]}
        return _counted(params, self._test, metrics)


def _loaded(folder: Path | None) -> tuple[str, Labelled, Labelled]:
    """Where the digits are from, those for training, and those for testing, of all nodes.

    Raises:
        DataMissing: MNIST is asked for, and not there.
        TrainerError: the options are wrong, or a file is damaged.
    """
    options = {} if folder is None else read_lines(folder / OPTIONS_FILE, _RULES)
    if folder is None or "mnist" not in options:
        digits = scikit_digits()
        # Who trains on what another tests with learns it.
        order = np.random.default_rng(0).permutation(len(digits))
        source = text("the digits bundled with scikit-learn ({count} of them for testing)", TESTED)
        return source, digits.take(order[TESTED:]), digits.take(order[:TESTED])
    train, test = (side.take(np.arange(min(len(side), options.get(name, 1000)))) for side, name in _mnist(folder))
    count, tests = len(train) + len(test), len(test)
    source = text("{count} digits of MNIST, reduced to 8x8 ({tests} of them for testing)", count, tests)
    return source, train, test


@lru_cache(maxsize=1)
def _mnist(folder: Path) -> tuple[tuple[Labelled, str], tuple[Labelled, str]]:
    """MNIST's two parts at this size, each with the option that says how many of them are used."""
    found = find_mnist(folder)
    if found is None:
        raise DataMissing(text("MNIST was not found in {folder}", folder), text("leave {file} away", OPTIONS_FILE))
    train, test = (Labelled(reduced(side.x), side.y.astype(np.int64)) for side in found[2:])
    return (train, "mnist"), (test, "tests")


def reduced(images: Array) -> Array:
    """Images (n, 28, 28) from 0 to 255 as (n, 8, 8) from 0 to 16: means of 4x4 pixels, with an edge of 2 around."""
    framed = np.pad(images, ((0, 0), (2, 2), (2, 2)))
    means = framed.reshape(-1, 8, 4, 8, 4).mean(axis=(2, 4), dtype=np.float32)
    small: Array = np.rint(means * (BRIGHTEST / 255)).astype(np.uint8)
    return small


class _Steps:
    """One training, batch by batch."""

    optimiser: Optimiser = "adam"

    def __init__(
        self, rows: Labelled, task: Task, validated: Callable[[Mapping[str, Array]], Mapping[str, float]]
    ) -> None:
        lesson, seed, self._validated = task.lesson, task.seed, validated
        self._batches: Batches[Array] | Sequence[Array] = (
            shuffled(len(rows), task) if lesson is None else lesson.batches(task.hyper.b, seed)
        )
        self._lesson = lesson
        self._chance, self._draws = np.random.default_rng(seed), np.random.default_rng([seed, 1])
        self._x, self._y, self._most = _flat(rows.x), rows.y, task.hyper.b
        self.steps = len(self._batches)

    def __call__(self, params: Mapping[str, Array], step: int) -> tuple[float, Mapping[str, Array]]:
        """Cross-entropy and its gradient."""
        rows = self._batches[step]
        x, y = self._x[rows], self._y[rows]
        hidden, scores = _outputs(params, x)
        if self._lesson is not None:
            return self._taught(self._lesson, params, rows, hidden, scores)
        error = softmax(scores)
        right = np.arange(len(y)), y
        loss = float(-np.log(np.maximum(error[right], 1e-30)).mean())
        error[right] -= 1
        error /= np.float32(len(y))
        return loss, _gradient(params, x, hidden, error)

    def _taught(
        self, lesson: Lesson, params: Mapping[str, Array], rows: Array, hidden: Array, scores: Array
    ) -> tuple[float, Mapping[str, Array]]:
        """Where nodes label differently: FedMT's loss; on shifted and mixed digits, too, if it has a weight."""
        loss = lesson.loss(scores, rows)
        value, gradient = loss.value, _gradient(params, self._x[rows], hidden, loss.gradient.astype(np.float32))
        changed: list[tuple[Array, Callable[[Array], Any]]] = []
        if lesson.fixed:
            moved = np.roll(self._x[rows].reshape(-1, 8, 8), self._chance.integers(-1, 2, 2), (1, 2))
            changed.append((moved.reshape(-1, 64), lambda scores: lesson.loss_of_changed(scores, rows)))
        if lesson.mixed:
            mix = lesson.mix(rows, self._draws)
            between = np.float32(mix.share) * self._x[mix.first] + np.float32(1 - mix.share) * self._x[mix.second]
            changed.append((between, lambda scores: lesson.loss_of_mixed(scores, mix)))
        for x, held in changed:
            hidden, scores = _outputs(params, x)
            loss = held(scores)
            more = _gradient(params, x, hidden, loss.gradient.astype(np.float32))
            value, gradient = value + loss.value, {name: gradient[name] + more[name] for name in SHAPES}
        return value, gradient

    def fit(self, params: Mapping[str, Array], steps: int, loss: float) -> Fit:
        """What is said of a training that ended here."""
        seen = min(len(self._y), steps * self._most)
        return Fit(dict(params), seen, labels=10, metrics={"loss": loss, **self._validated(params)})


def _outputs(params: Mapping[str, Array], x: Array) -> tuple[Array, Array]:
    """The hidden layer (n, 64) and a score for each digit (n, 10)."""
    hidden = np.maximum(x @ params["hidden.weight"] + params["hidden.bias"], 0)
    return hidden, hidden @ params["output.weight"] + params["output.bias"]


def _gradient(params: Mapping[str, Array], x: Array, hidden: Array, error: Array) -> Mapping[str, Array]:
    """From the gradient of a loss by the scores, (n, 10), that by each array."""
    back = (error @ params["output.weight"].T) * (hidden > 0)
    return {
        "hidden.bias": back.sum(0),
        "hidden.weight": x.T @ back,
        "output.bias": error.sum(0),
        "output.weight": hidden.T @ error,
    }


def _counted(params: Mapping[str, Array], rows: Labelled, metrics: Mapping[str, float]) -> Score:
    """Accuracy and counts on these digits."""
    scores = _outputs(params, _flat(rows.x))[1]
    counts = class_counts(rows.y, scores.argmax(1), CLASSES, softmax(scores))
    return Score(_accuracy(params, rows), len(rows), metrics, counts=counts)


def _accuracy(params: Mapping[str, Array], rows: Labelled) -> float:
    return float((_outputs(params, _flat(rows.x))[1].argmax(1) == rows.y).mean()) if len(rows) else 0.0


def _flat(images: Array) -> Array:
    flat: Array = images.reshape(len(images), -1).astype(np.float32) / BRIGHTEST
    return flat


def _packed(params: Mapping[str, Array]) -> Array:
    """All numbers in one row, so that one step of Adam is a few operations."""
    return np.concatenate([np.ravel(params[name]) for name in SHAPES]).astype(np.float32)


def _views(flat: Array) -> Mapping[str, Array]:
    """The arrays by name, in the memory of that row."""
    views, start = {}, 0
    for name, shape in SHAPES.items():
        size = int(np.prod(shape))
        views[name] = flat[start : start + size].reshape(shape)
        start += size
    return views


def make_trainer(settings: TrainerSettings) -> Trainer:
    """This node's digits and the network for them."""
    return SmallDigits(settings)
