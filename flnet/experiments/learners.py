"""Nodes' trainers with their data, and their work done together: all trainings that nodes wait for at once."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from flnet.errors import DataMissing, SettingsError, TrainerError
from flnet.experiments.base import Cell, Setup
from flnet.labels import Labelling, read_fields
from flnet.params import Array, Params
from flnet.refusals import SitsOut
from flnet.settings import Settings
from flnet.training import find_trainers
from flnet.training.api import Fit, Score, Task, Trainer, TrainerFile, TrainerSettings
from flnet.training.checks import checked_fit, checked_params, checked_private, checked_score, declared
from flnet.training.faults import in_words
from flnet.training.loader import import_trainer
from flnet.training.partition import Partition

log = logging.getLogger(__name__)
LINKED = "datasets"  # folder with links to data sets, beside the options of a trainer
NEVER = 1.0  # by how much a peer's model must be better where none is to be adopted
T = TypeVar("T")


class Learner:
    """One node's trainer.

    Attributes:
        declaration: what it says of itself.
        initial: parameters.
    """

    def __init__(self, file: TrainerFile, settings: TrainerSettings, *, exchange: bool = True) -> None:
        """Load the trainer with its data.

        Args:
            exchange: whether it may adopt a peer's model.

        Raises:
            TrainerError: it cannot be loaded, or has no data.
        """
        self.name = file.id
        self.trainer = import_trainer(file, settings, again=False)
        first = self.trainer.initial_params(settings.seed)
        self.initial = checked_params(first, f"initial_params of trainer {file.id}")
        said = declared(self.trainer, file.id, self.initial)
        self.declaration = said if exchange else replace(said, exchange_threshold=NEVER)
        self.measured: dict[str, Score] = {}  # of the model that was measured last, by its digest


@dataclass
class Order:
    """A training, or (without a task) a measurement, that a node waits for; its end is filled in.

    Attributes:
        is_personal: private parameters are to learn on from an average, which is measured then.
        private: what they became.
        sits_out: whether the failure is none: the trainer had nothing to add.
    """

    learner: Learner
    params: Params
    task: Task | None = None
    is_personal: bool = False
    private: Params | None = None
    fit: Fit | None = None
    score: Score | None = None
    failure: str = ""
    sits_out: bool = False
    seconds: float = field(default=0.0)


def trainer_file(name: str, settings: Settings) -> TrainerFile:
    """The trainer of this id.

    Raises:
        SettingsError: there is none.
    """
    there = _there(settings.trainers_path)
    if name not in there:
        raise SettingsError(f"no trainer {name!r}; there are {', '.join(there)}")
    return there[name]


@lru_cache(maxsize=8)
def _there(folder: Path | None) -> Mapping[str, TrainerFile]:
    """All trainers by id; looked for once, for a table has hundreds of cells."""
    return {file.id: file for file in find_trainers(Settings(trainers_path=folder))}


def learners_of(cell: Cell, file: TrainerFile, settings: Settings, folder: Path) -> list[Learner]:
    """The nodes' trainers, each with its part of the data.

    Args:
        settings: of whoever runs the experiment: where data sets lie, device, threads.
        folder: in which trainers keep their splits; empty, so that equal seeds give equal ones.

    Raises:
        TrainerError: one cannot be loaded, or has no data.
    """
    setup = cell.setup
    place = _datasets(setup, settings.datasets_path, folder)
    count = 1 if setup.kind == "central" else setup.nodes
    found = []
    for index in range(1, count + 1):
        state = folder / f"node-{index}"
        state.mkdir(parents=True)
        told = TrainerSettings(
            place,
            state,
            (index, count),
            cell.seed,
            settings.compute_threads or 1,
            Partition() if setup.kind == "central" else Partition.parse(setup.partition),
            settings.device,
            method=setup.method,
            labels=_labels(setup, index),
        )
        found.append(Learner(file, told, exchange=setup.exchange))
    return found


def _labels(setup: Setup, index: int) -> Labelling | None:
    """How the rows of the node of this number, from 1, are labelled; a central one's as those of the first."""
    if not setup.labels:
        return None
    said = read_fields(setup.labels)
    if index > setup.fine:
        return replace(said, rows=None)
    return replace(said, space=said.target, desired=None, correspondence=None, estimate=False)


def carry_out(orders: Sequence[Order]) -> None:
    """Do all this work: trainings of one kind of trainer together, then measurements likewise."""
    for kind, some in _by_kind(order for order in orders if order.task is not None and not order.is_personal):
        _each(some, "fit", kind.fit_many, _training, _trained)
    _each([order for order in orders if order.is_personal], "personalise", _personalised, _training, _learnt)
    for order in orders:
        if not order.failure:
            order.score = order.learner.measured.get(order.params.digest)
    for kind, some in _by_kind(order for order in orders if not order.failure and order.score is None):
        _each(some, "evaluate", kind.evaluate_many, _measurement, _measured)


def _by_kind(orders: Iterable[Order]) -> list[tuple[type[Trainer], list[Order]]]:
    kinds: dict[type[Trainer], list[Order]] = {}
    for order in orders:
        kinds.setdefault(type(order.learner.trainer), []).append(order)
    return list(kinds.items())


def _each(
    orders: Sequence[Order],
    what: str,
    work: Callable[[Sequence[Any]], Sequence[T]],
    job: Callable[[Order], tuple[Trainer, Any]],
    end: Callable[[Order, T], None],
) -> None:
    """Do work for all at once; where that fails, one by one, so that each has an end of its own."""
    try:
        results = work([job(order) for order in orders])
        pairs: list[tuple[Order, T]] = list(zip(orders, results, strict=True))
    except Exception as exc:
        if len(orders) == 1:
            words = exc.message if isinstance(exc, TrainerError) else ""
            orders[0].sits_out = isinstance(exc, SitsOut)
            orders[0].failure = words or in_words(exc, f"trainer {orders[0].learner.name} failed in {what}")
            return
        if not isinstance(exc, SitsOut):
            log.warning("%s of %d at once failed: %s", what, len(orders), exc)
        for order in orders:
            _each([order], what, work, job, end)
        return
    for order, result in pairs:
        try:
            end(order, result)
        except TrainerError as exc:
            order.failure = exc.message


def _training(order: Order) -> tuple[Trainer, Task]:
    assert order.task is not None
    return order.learner.trainer, order.task


def _trained(order: Order, fit: Fit) -> None:
    assert order.task is not None
    order.fit = checked_fit(fit, order.task.params, order.learner.name)
    order.params = Params(order.fit.params)


def _personalised(jobs: Sequence[tuple[Trainer, Task]]) -> list[Mapping[str, Array]]:
    return [trainer.personalise(task) for trainer, task in jobs]


def _learnt(order: Order, learnt: Mapping[str, Array]) -> None:
    assert order.task is not None
    learner = order.learner
    order.private = checked_private(learnt, order.task.params, learner.declaration.shared, learner.name)
    order.params = order.params.merged_with(order.private)


def _measurement(order: Order) -> tuple[Trainer, Params]:
    return order.learner.trainer, order.params


def _measured(order: Order, score: Score) -> None:
    order.score = checked_score(score, order.learner.name)
    order.learner.measured = {order.params.digest: order.score}


def _datasets(setup: Setup, place: Path | None, folder: Path) -> Path | None:
    """Where the trainers find their data: with options, a folder of links beside the file with them.

    Raises:
        DataMissing: nothing of what the setup needs is there.
    """
    there = [] if place is None else [name for name in setup.needs if (place / name).exists()]
    if setup.needs and not there:
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
    """Options as lines of TOML, whose texts, numbers and lists are written as those of JSON are.

    Raises:
        SettingsError: a value has another form.
    """
    for name, value in options.items():
        if not _is_plain(value):
            raise SettingsError(f"the option {name} is {value!r}; expected text, numbers, true, false, or lists")
    return "".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in options.items())


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, str | int | float | bool)
