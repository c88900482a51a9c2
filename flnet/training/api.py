"""The whole contract between flnet and a trainer: one model, its data and its loss.

A trainer is a file `<ID>.py` or a folder `<ID>/__init__.py` in `trainers/` (or in FLNET_TRAINERS_PATH, or an
installed package with an entry point in the group "flnet.trainers"). The file's name is the trainer's id in
every endpoint. It defines one function:

    def make_trainer(settings: TrainerSettings) -> Trainer

which is called once, in the worker: the only place where a framework is imported. All arrays are numpy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Self

from flnet.errors import DataMissing, NotOffered, TrainerError
from flnet.events import Turn
from flnet.messages import HyperParams
from flnet.params import Array, MergeRule
from flnet.refusals import SitsOut
from flnet.training.findings import Findings, Kind
from flnet.training.lesson import Lesson
from flnet.training.method import Method
from flnet.training.partition import Partition
from flnet.training.records import (
    DataInfo,
    Fit,
    Gradients,
    InputSpec,
    Meaning,
    Optimiser,
    Prediction,
    Rows,
    Score,
    Task,
    TrainerSettings,
)

__all__ = [
    "Array",
    "DataInfo",
    "DataMissing",
    "Findings",
    "Fit",
    "Gradients",
    "HyperParams",
    "InputSpec",
    "Lesson",
    "MakeTrainer",
    "Meaning",
    "MergeRule",
    "Method",
    "NotOffered",
    "Optimiser",
    "Partition",
    "Prediction",
    "Progress",
    "Rows",
    "Score",
    "SitsOut",
    "Task",
    "Trainer",
    "TrainerError",
    "TrainerFile",
    "TrainerSettings",
    "Turn",
]


class Trainer(ABC):
    """One model with its data. Class attributes declare what the mesh must know; three methods do the work.

    `input_spec` and `predict` together offer predictions, `onnx` an export; who lacks them says so when asked.
    """

    label: str = ""  # as people read it; the id if empty
    defaults: HyperParams = HyperParams(e=1, u=0.01, b=64)  # may be set per instance, to fit the data
    exchange_threshold: float = 0.02  # by how much a peer's model must win to be adopted
    shared: tuple[str, ...] | None = None  # names that leave this node; None: all of them
    merge: Mapping[str, MergeRule] = MappingProxyType({})  # arrays not merged by the mean
    merging: str = ""  # the rule that its updates need, named as in FLNET_AGGREGATION; empty: what that says
    finds: Kind = ""  # what `findings` tells of a model, "labels" or "groups"; empty: nothing
    turn: Turn | None = None  # in which rounds it trains, where nodes that label differently take turns
    personalises: bool = False  # whether its private parameters learn on from each average
    agreement: Mapping[str, str] = MappingProxyType({})  # what all nodes must have alike: {"classes": "cat, dog"}

    note: str = ""  # goes with every prediction: "this is no diagnosis"
    licence: str = "not stated"  # of the trained model, for its card

    honours: ClassVar[frozenset[str]] = frozenset()  # of "proximal" and "labels": what of a task may be unusual
    buffers: tuple[str, ...] = ()  # arrays that training sets without gradients: running means, for example

    @abstractmethod
    def initial_params(self, seed: int) -> Mapping[str, Array]:
        """Fresh parameters; equal seeds give equal ones on every node."""

    @abstractmethod
    def fit(self, task: Task) -> Fit:
        """Train from `task.params`; build new arrays, never edit the ones given."""

    @abstractmethod
    def evaluate(self, params: Mapping[str, Array]) -> Score:
        """Measure on this node's own test split."""

    def personalise(self, task: Task) -> Mapping[str, Array]:
        """What the private parameters become on a new average, for a trainer that says that it `personalises`.

        Asked after each average and before it is measured. `task.params` are the average beside the private
        parameters as they are; names that are left out stay so.
        """
        raise NotOffered("this trainer has no method personalise")

    @classmethod
    def fit_many(cls, jobs: Sequence[tuple[Self, Task]]) -> list[Fit]:
        """Several trainings that do not depend on each other, one result each: what `fit` gives, within 1e-5.

        Experiments give all trainings of a round at once. One by one unless a trainer can do better: many small
        networks of one shape are trained faster as one computation.
        """
        return [trainer.fit(task) for trainer, task in jobs]

    @classmethod
    def evaluate_many(cls, jobs: Sequence[tuple[Self, Mapping[str, Array]]]) -> list[Score]:
        """Several models, each measured on the data of its own trainer; likewise."""
        return [trainer.evaluate(params) for trainer, params in jobs]

    def gradients(self, task: Task) -> Gradients | None:
        """The same training as `fit` of this task, step by step; None: not offered.

        Methods that change the steps themselves (SCAFFOLD, APFL) need it.
        """
        return None

    def inputs(self) -> Array | None:
        """The own training rows as `predict` takes them, (n, *input_spec().shape); None: not offered."""
        return None

    def labels(self) -> Array | None:
        """Their classes, (n,), as numbers in the order of `DataInfo.classes`; None: not offered."""
        return None

    def own_labels(self) -> Mapping[str, tuple[Array, Array]]:
        """Of data whose rows are labelled as FLNET_LABELS has it: labels in the desired and in the own space.

        {"train": (of `inputs`, likewise), "test": of the rows of `tests` behind "accuracy"}, class numbers, -1 for
        none. Empty: all rows are labelled in the desired space, as those of a published data set are.
        """
        return {}

    def tests(self) -> Mapping[str, Rows]:
        """The labelled rows behind figures of `evaluate` that are plain accuracies, by the figure's name.

        {"accuracy": the own test split, "official_accuracy": the published one}; empty: not offered.
        """
        return {}

    def data_info(self) -> DataInfo:
        """What data this trainer works on; shown on the page."""
        return DataInfo(source="not described", rows={})

    def input_spec(self) -> InputSpec | None:
        """What `predict` takes; None: no predictions are offered."""
        return None

    def predict(self, params: Mapping[str, Array], inputs: Array) -> Prediction:
        """Judge inputs (n, *input_spec().shape), float32 in the spec's range."""
        raise NotOffered("this trainer has no method predict")

    def findings(self, params: Mapping[str, Array]) -> Findings | None:
        """What a model shows on the own rows, for this node's people alone; None: nothing."""
        return None

    def onnx(self, params: Mapping[str, Array]) -> bytes | None:
        """The model as an ONNX file, from inputs as `predict` takes them to its values; None: not offered."""
        return None


MakeTrainer = Callable[[TrainerSettings], Trainer]
Progress = Callable[[str, int, int], None]  # (trainer id, batches done, batches in all)


@dataclass(frozen=True)
class TrainerFile:
    """Where a trainer's code is, found without importing it; `error` says why it cannot be offered.

    Attributes:
        id: its name in every endpoint.
        location: the file, for people and, where `module` is empty, for the import.
        module: dotted name to import; empty for a file that lies outside every package.
        attribute: what in it makes the trainer.
        frameworks: of the frameworks that do not share a process well, those that its source imports.
        place: folder or file below FLNET_DATASETS_PATH in which it looks for data; empty if it does not say.
    """

    id: str
    location: str
    error: str = ""
    module: str = ""
    attribute: str = "make_trainer"
    frameworks: frozenset[str] = frozenset()
    place: str = ""
