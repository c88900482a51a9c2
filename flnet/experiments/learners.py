"""The trainers of simulated nodes, with their data, and the work that nodes wait for, which is done together."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from flnet.compute.checks import checked_fit, checked_params, checked_private, checked_score, declared, in_words
from flnet.compute.loader import find_trainers, import_trainer
from flnet.datasets.labelled import Labelled
from flnet.errors import DataMissing, LocalError, SettingsError, SitsOut, TrainerError
from flnet.experiments.attacks import Changeable, Side
from flnet.experiments.cells import Cell, Setup
from flnet.labels.spaces import Labelling, read_fields
from flnet.params.params import Array, Params
from flnet.protocol.events import Split
from flnet.settings import Settings
from flnet.trainer import Fit, Partition, Score, Task, Trainer, TrainerFile, TrainerSettings

log = logging.getLogger(__name__)
LINKED = "datasets"  # folder with the options of a trainer and links to data sets
NEVER = 1.0  # a peer's model is never better by so much, so that none is adopted
T = TypeVar("T")


class Learner:
    """The trainer of one node.

    Attributes:
        declaration: what the trainer declares about itself.
        initial: initial parameters.
        measured: the score of the model that was measured last, by its digest.
    """

    def __init__(self, file: TrainerFile, settings: TrainerSettings, *, exchange: bool = True) -> None:
        """Load the trainer with its data.

        Args:
            exchange: whether the node may adopt a peer's model.

        Raises:
            TrainerError: it cannot be loaded, or has no data.
        """
        self.name = file.id
        self.trainer = import_trainer(file, settings, again=False)
        first = self.trainer.initial_params(settings.seed)
        self.initial = checked_params(first, f"initial_params of trainer {file.id}")
        declaration = declared(self.trainer, file.id, self.initial)
        self.declaration = declaration if exchange else replace(declaration, exchange_threshold=NEVER)
        self.measured: dict[str, Score] = {}


def changeable(learner: Learner) -> Changeable:
    """The trainer of a node without the methods around it.

    Raises:
        LocalError: its rows cannot be changed.
    """
    trainer: object = learner.trainer
    while not isinstance(trainer, Changeable):
        inner = getattr(trainer, "inner", None)
        if inner is None:
            raise LocalError(f"trainer {learner.name} does not let its rows be changed; it needs change_rows")
        trainer = inner
    return trainer


def rows_of(learner: Learner, side: Side) -> Labelled:
    """The training or test rows of a node.

    Raises:
        LocalError: its trainer does not let its rows be changed, and so read.
    """
    seen: list[Labelled] = []

    def read(rows: Labelled) -> Labelled:
        seen.append(rows)
        return rows

    changeable(learner).change_rows(read, side)
    return seen[0]


@dataclass
class Order:
    """A training, or (without a task) an evaluation, that a node waits for, and its result.

    Attributes:
        is_personal: whether private parameters are trained on an average, which is evaluated then.
        split: rows on which an evaluation is wanted.
        validates: whether validation rows are measured besides.
        private: those parameters after the training.
        sits_out: whether the trainer has nothing to contribute, which is no failure.
    """

    learner: Learner
    params: Params
    task: Task | None = None
    is_personal: bool = False
    split: Split = "test"
    validates: bool = False
    private: Params | None = None
    fit: Fit | None = None
    score: Score | None = None
    failure: str = ""
    sits_out: bool = False


def trainer_file(name: str, settings: Settings) -> TrainerFile:
    """The trainer of this id.

    Raises:
        SettingsError: there is none.
    """
    files = _trainer_files(settings.trainers_path)
    if name not in files:
        raise SettingsError(f"no trainer {name!r}; there are {', '.join(files)}")
    return files[name]


@lru_cache(maxsize=8)
def _trainer_files(folder: Path | None) -> Mapping[str, TrainerFile]:
    """All trainers by id; cached because a table has hundreds of cells."""
    return {file.id: file for file in find_trainers(Settings(trainers_path=folder), every=True)}


def learners_of(
    cell: Cell, file: TrainerFile, settings: Settings, folder: Path, seed: int | None = None
) -> list[Learner]:
    """Load the nodes' trainers, each with its part of the data.

    Args:
        seed: of data and parts; that of the cell if absent.
        settings: where data sets are, device and threads.
        folder: where trainers keep their splits; empty, so that equal seeds give equal splits.

    Raises:
        TrainerError: one cannot be loaded, or has no data.
    """
    setup = cell.setup
    place = _datasets(setup, settings.datasets_path, folder)
    count = 1 if setup.kind == "central" else setup.nodes
    learners = []
    for index in range(1, count + 1):
        state = folder / f"node-{index}"
        state.mkdir(parents=True)
        of_node = TrainerSettings(
            place,
            state,
            (index, count),
            cell.seed if seed is None else seed,
            settings.compute_threads or 1,
            Partition() if setup.kind == "central" else Partition.parse(setup.partition),
            settings.device,
            method=setup.method,
            labels=_labels(setup, index),
            validation_share=settings.validation_share,
        )
        learners.append(Learner(file, of_node, exchange=setup.exchange))
    return learners


def _labels(setup: Setup, index: int) -> Labelling | None:
    """How the rows of the node of this number, from 1, are labelled; a central node is number 1."""
    if not setup.labels:
        return None
    labels = read_fields(setup.labels)
    if index > setup.fine:
        return replace(labels, rows=None)
    return replace(labels, space=labels.target, desired=None, correspondence=None, estimate=False)


def carry_out(orders: Sequence[Order]) -> None:
    """Do all this work: trainings of one class of trainers together, then evaluations likewise."""
    for kind, group in _by_kind(order for order in orders if order.task is not None and not order.is_personal):
        _do(group, "fit", kind.fit_many, _training, _take_fit)
    _do([order for order in orders if order.is_personal], "personalise", _personalise, _training, _take_private)
    for order in orders:
        if order.split == "validation" and not order.failure:
            _do([order], "validation_score", _validate, _evaluation, _take_validation)
    for order in orders:
        if not order.failure and order.score is None:
            order.score = order.learner.measured.get(order.params.digest)
    for kind, group in _by_kind(order for order in orders if not order.failure and order.score is None):
        _do(group, "evaluate", kind.evaluate_many, _evaluation, _take_score)
    for order in orders:
        if order.validates and not order.failure:
            _do([order], "validation_score", _validate, _evaluation, _take_both)


def _by_kind(orders: Iterable[Order]) -> list[tuple[type[Trainer], list[Order]]]:
    kinds: dict[type[Trainer], list[Order]] = {}
    for order in orders:
        kinds.setdefault(type(order.learner.trainer), []).append(order)
    return list(kinds.items())


def _do(
    orders: Sequence[Order],
    verb: str,
    work: Callable[[Sequence[Any]], Sequence[T]],
    argument: Callable[[Order], tuple[Trainer, Any]],
    take: Callable[[Order, T], None],
) -> None:
    """Do work for all orders together, or one by one if that fails, so that each has a result of its own."""
    try:
        results = work([argument(order) for order in orders])
        pairs: list[tuple[Order, T]] = list(zip(orders, results, strict=True))
    except Exception as exc:
        if len(orders) == 1:
            message = exc.message if isinstance(exc, TrainerError) else ""
            orders[0].sits_out = isinstance(exc, SitsOut)
            orders[0].failure = message or in_words(exc, f"trainer {orders[0].learner.name} failed in {verb}")
            return
        if not isinstance(exc, SitsOut):
            log.warning("%s of %d at once failed: %s", verb, len(orders), exc)
        for order in orders:
            _do([order], verb, work, argument, take)
        return
    for order, result in pairs:
        try:
            take(order, result)
        except TrainerError as exc:
            order.failure = exc.message


def _training(order: Order) -> tuple[Trainer, Task]:
    assert order.task is not None
    return order.learner.trainer, order.task


def _evaluation(order: Order) -> tuple[Trainer, Params]:
    return order.learner.trainer, order.params


def _take_fit(order: Order, fit: Fit) -> None:
    assert order.task is not None
    order.fit = checked_fit(fit, order.task.params, order.learner.name, order.task.row_privacy)
    order.params = Params(order.fit.params)


def _personalise(tasks: Sequence[tuple[Trainer, Task]]) -> list[Mapping[str, Array]]:
    return [trainer.personalise(task) for trainer, task in tasks]


def _take_private(order: Order, learnt: Mapping[str, Array]) -> None:
    assert order.task is not None
    learner = order.learner
    order.private = checked_private(learnt, order.task.params, learner.declaration.shared, learner.name)
    order.params = order.params.merged_with(order.private)


def _validate(models: Sequence[tuple[Trainer, Params]]) -> list[Score | None]:
    return [trainer.validation_score(params) for trainer, params in models]


def _take_validation(order: Order, score: Score | None) -> None:
    if score is not None:  # else its test rows are measured
        order.score = checked_score(score, order.learner.name, "validation")


def _take_both(order: Order, score: Score | None) -> None:
    if score is not None and order.score is not None:
        validation = checked_score(score, order.learner.name, "validation")
        order.score = replace(order.score, validation=validation)


def _take_score(order: Order, score: Score) -> None:
    order.score = checked_score(score, order.learner.name)
    order.learner.measured = {order.params.digest: order.score}


def _datasets(setup: Setup, place: Path | None, folder: Path) -> Path | None:
    """The folder in which trainers find their data; with options, a folder with these and links to the data sets.

    Raises:
        DataMissing: nothing that the setup needs exists.
    """
    existing = [] if place is None else [name for name in setup.needs if (place / name).exists()]
    if setup.needs and not existing:
        where = "FLNET_DATASETS_PATH is not set" if place is None else f"not found in {place}"
        raise DataMissing(f"needs {' or '.join(setup.needs)}: {where}", "see docs/experiments.md")
    if not setup.options_file:
        return place
    linked = folder / LINKED
    linked.mkdir(parents=True)
    for path in sorted(place.iterdir()) if place is not None and place.is_dir() else ():
        if path.name != setup.options_file:
            (linked / path.name).symlink_to(path.resolve())
    (linked / setup.options_file).write_text(as_toml(setup.options), "utf-8")
    return linked


def as_toml(options: Mapping[str, Any]) -> str:
    """Write options as TOML, whose texts, numbers and lists look like those of JSON.

    Raises:
        SettingsError: a value is of another type.
    """
    for name, value in options.items():
        if not _is_plain(value):
            raise SettingsError(f"the option {name} is {value!r}; expected text, numbers, true, false, or lists")
    return "".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in options.items())


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, str | int | float | bool)
