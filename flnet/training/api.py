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
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Literal, Self

from flnet.errors import DataMissing, NotOffered, TrainerError
from flnet.messages import HyperParams
from flnet.params import Array, MergeRule
from flnet.training.partition import Partition

__all__ = [
    "Array",
    "DataInfo",
    "DataMissing",
    "Fit",
    "HyperParams",
    "InputSpec",
    "MakeTrainer",
    "Meaning",
    "MergeRule",
    "NotOffered",
    "Partition",
    "Prediction",
    "Progress",
    "Score",
    "Task",
    "Trainer",
    "TrainerError",
    "TrainerFile",
    "TrainerSettings",
]


@dataclass(frozen=True)
class TrainerSettings:
    """What a node tells a trainer about itself.

    Attributes:
        datasets_path: folder in which data sets lie; None when the person named none.
        state_path: folder of this trainer that survives restarts, for splits and caches; exists.
        shard: this node's part and the number of parts, (1, 1) for everything.
        seed: of splits, initial parameters and shuffling; the same on nodes that share a data set.
        threads: CPU threads that a framework may use.
        partition: how the parts differ; `flnet.training.dealing` picks this node's rows by it.
        device: where a framework is to work: auto, cpu, cuda or mps.
        max_seconds: after so long a training ends with the batch that it is in; None for never.
    """

    datasets_path: Path | None
    state_path: Path
    shard: tuple[int, int] = (1, 1)
    seed: int = 0
    threads: int = 1
    partition: Partition = field(default_factory=Partition)
    device: str = "auto"
    max_seconds: float | None = None


@dataclass(frozen=True)
class DataInfo:
    """What a trainer says about its data.

    Attributes:
        source: where they are from, in words: "MNIST idx files in /data/mnist".
        rows: examples per split: {"train": 0, "validation": 0, "test": 0}.
        classes: names of the classes, in the order of the model's outputs.
        counts: rows of each class per split, in the order of `classes`; for this node's people, told to no peer.
        sample: True when these data were generated; then called "sample data" wherever they are shown. Real
            data that stand in for others are no sample: `source` says what they are.
        note: one more sentence for people.
        checksum: SHA-256 over this node's rows and labels, to see whether they changed; told to no peer.
        parts: of an experiment in which every node has the whole data set: the training rows of each class in each
            part, as `flnet.training.dealing.dealt_counts` has them; for this node's people, told to no peer.
    """

    source: str
    rows: Mapping[str, int]
    classes: tuple[str, ...] = ()
    sample: bool = False
    note: str = ""
    counts: Mapping[str, Sequence[int]] = field(default_factory=dict)
    checksum: str = ""
    parts: Sequence[Sequence[int]] = ()


@dataclass(frozen=True)
class Task:
    """One local training.

    Attributes:
        params: all parameters to start from, private ones included; read-only.
        hyper: epochs e, learning rate u, batch size b.
        seed: differs per round and node; shuffle and drop out with it.
        progress: call it with (batches done, batches in all); it also is where a cancelled training stops.
        is_over: ask it after each batch: whether the time for this training is over, and `Fit` is to say what was
            learnt so far, from the examples really seen.
    """

    params: Mapping[str, Array]
    hyper: HyperParams
    seed: int
    progress: Callable[[int, int], None] = lambda done, total: None
    is_over: Callable[[], bool] = lambda: False


@dataclass(frozen=True)
class Fit:
    """What local training gives.

    Attributes:
        params: new arrays under the same names.
        examples: training rows used: the weight in the average. Of a training that ended early, those seen.
        labels: how many labels the data has, for rules that weigh by it.
        metrics: more figures, by name ("loss").
    """

    params: Mapping[str, Array]
    examples: int
    labels: int = 1
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Score:
    """How good a model is on this node's test split.

    Attributes:
        accuracy: what the exchange compares, in [0, 1].
        examples: test rows behind it.
        metrics: more figures, by name.
    """

    accuracy: float
    examples: int
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class InputSpec:
    """What one input of `predict` looks like: the page and the command line build inputs by it, flnet checks them.

    Attributes:
        kind: "image" (may come as a PNG or JPEG file too), "features" (numbers), "table" (named columns).
        shape: of one input: (height, width), (height, width, 1 or 3), or (columns,).
        low: the smallest number that may come; None: any finite one.
        high: the largest.
        names: of the columns; an input may then come as an object with these keys.
        hint: one sentence for people: "one digit, white on black, in the middle".
    """

    kind: Literal["image", "features", "table"]
    shape: tuple[int, ...]
    low: float | None = None
    high: float | None = None
    names: tuple[str, ...] = ()
    hint: str = ""


Meaning = Literal["one_of", "any_of", "scores"]


@dataclass(frozen=True)
class Prediction:
    """What a model says of n inputs.

    Attributes:
        values: (n, k), in the order of `DataInfo.classes`.
        meaning: "one_of": probabilities of classes of which one is right; "any_of": of labels, each by itself;
            "scores": numbers of which the largest wins.
        threshold: from which probability on a label of "any_of" is predicted.
    """

    values: Array
    meaning: Meaning = "one_of"
    threshold: float = 0.5


class Trainer(ABC):
    """One model with its data. Class attributes declare what the mesh must know; three methods do the work.

    `input_spec` and `predict` together offer predictions, `onnx` an export; who lacks them says so when asked.
    """

    label: str = ""  # as people read it; the id if empty
    defaults: HyperParams = HyperParams(e=1, u=0.01, b=64)  # may be set per instance, to fit the data
    exchange_threshold: ClassVar[float] = 0.02  # by how much a peer's model must win to be adopted
    shared: ClassVar[tuple[str, ...] | None] = None  # names that leave this node; None: all of them
    merge: ClassVar[Mapping[str, MergeRule]] = {}  # arrays not merged by the mean
    agreement: Mapping[str, str] = MappingProxyType({})  # what all nodes must have alike: {"classes": "cat, dog"}

    note: str = ""  # goes with every prediction: "this is no diagnosis"
    licence: str = "not stated"  # of the trained model, for its card

    @abstractmethod
    def initial_params(self, seed: int) -> Mapping[str, Array]:
        """Fresh parameters; equal seeds give equal ones on every node."""

    @abstractmethod
    def fit(self, task: Task) -> Fit:
        """Train from `task.params`; build new arrays, never edit the ones given."""

    @abstractmethod
    def evaluate(self, params: Mapping[str, Array]) -> Score:
        """Measure on this node's own test split."""

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

    def data_info(self) -> DataInfo:
        """What data this trainer works on; shown on the page."""
        return DataInfo(source="not described", rows={})

    def input_spec(self) -> InputSpec | None:
        """What `predict` takes; None: no predictions are offered."""
        return None

    def predict(self, params: Mapping[str, Array], inputs: Array) -> Prediction:
        """Judge inputs (n, *input_spec().shape), float32 in the spec's range."""
        raise NotOffered("this trainer has no method predict")

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
