"""What flnet and a trainer hand each other; trainers import all of it from `flnet.training.api`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from flnet.labels import Labelling
from flnet.messages import HyperParams
from flnet.params import Array
from flnet.training.lesson import Lesson
from flnet.training.method import Method
from flnet.training.partition import Partition


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
        method: how this node trains beyond what the trainer does itself. flnet sees to it: it hands out the
            trainer in a wrapper that does the rest.
        labels: how this node's rows are labelled where nodes label differently; None where they do not. flnet
            sees to that likewise.
    """

    datasets_path: Path | None
    state_path: Path
    shard: tuple[int, int] = (1, 1)
    seed: int = 0
    threads: int = 1
    partition: Partition = field(default_factory=Partition)
    device: str = "auto"
    max_seconds: float | None = None
    method: Method = field(default_factory=Method)
    labels: Labelling | None = None


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
        proximal: mu of FedProx (Li et al. 2020): a trainer that has "proximal" in `Trainer.honours` adds
            mu (w - w at the start) to each gradient. 0 to the others.
        lesson: where nodes label differently, what the rows teach, in place of their own labels: a trainer that
            has "labels" in `Trainer.honours` takes batches and losses from it. None to the others.
        round: the number of the round on the mesh, from 0; the same on all nodes.
    """

    params: Mapping[str, Array]
    hyper: HyperParams
    seed: int
    progress: Callable[[int, int], None] = lambda done, total: None
    is_over: Callable[[], bool] = lambda: False
    proximal: float = 0.0
    lesson: Lesson | None = None
    round: int = 0


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


@dataclass(frozen=True)
class InCoarse:
    """What a prediction means in the label space of this node's own rows.

    Attributes:
        space, classes: its id, and J names.
        values: (n, J) probabilities; (0, J) where nobody knows yet how the spaces correspond.
        estimated: whether that is estimated.
    """

    space: str
    classes: tuple[str, ...]
    values: Array
    estimated: bool


Meaning = Literal["one_of", "any_of", "scores"]
Optimiser = Literal["sgd", "momentum", "adam"]


@dataclass(frozen=True)
class Prediction:
    """What a model says of n inputs.

    Attributes:
        values: (n, k), in the order of `DataInfo.classes`.
        meaning: "one_of": probabilities of classes of which one is right; "any_of": of labels, each by itself;
            "scores": numbers of which the largest wins.
        threshold: from which probability on a label of "any_of" is predicted.
        answered: where a node has a model of its own beside the common one: which of them answered, "local" or
            "global", for each input; else empty.
        why: where an autoencoder chose: its error on each input, the mean square in the units of its inputs.
        limit: the error up to which the local model answers.
        coarse: the same in the label space of the own rows, where that is another one.
    """

    values: Array
    meaning: Meaning = "one_of"
    threshold: float = 0.5
    answered: tuple[str, ...] = ()
    why: tuple[float, ...] = ()
    limit: float | None = None
    coarse: InCoarse | None = None


class Gradients(Protocol):
    """One local training taken apart: flnet does the steps, the trainer tells loss and gradient of each batch.

    Attributes:
        steps: batches in all, of all epochs, in the order in which the trainer's own `fit` would take them.
        optimiser: by which `fit` descends: "sgd", "momentum" (0.9) or "adam".
    """

    steps: int
    optimiser: Optimiser

    def __call__(self, params: Mapping[str, Array], step: int) -> tuple[float, Mapping[str, Array]]:
        """Mean loss on the batch of this step, counted from 0, and its gradient by name.

        Args:
            params: by which it is computed; arrays that are not trained by gradients are absent from the gradient.
        """
        ...

    def fit(self, params: Mapping[str, Array], steps: int, loss: float) -> Fit:
        """What the trainer's `fit` says of a training that ended here.

        Args:
            params: what was learnt.
            steps: that were done.
            loss: mean over them.
        """
        ...


@dataclass(frozen=True)
class Rows:
    """Labelled rows.

    Attributes:
        inputs: as `Trainer.predict` takes them, (n, ...).
        labels: number of the right class, (n,).
    """

    inputs: Array
    labels: Array
