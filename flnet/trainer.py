"""The public contract of trainers: the plug-ins that hold a model, its data and its loss.

A trainer is a file `<ID>.py` or a folder `<ID>/__init__.py` in `trainers/` (or in FLNET_TRAINERS_PATH, or an
installed package with an entry point in the group "flnet.trainers"). The file's name is the trainer's id in
every endpoint. It defines one function:

    def make_trainer(settings: TrainerSettings) -> Trainer

which is called once, in the worker: the only place where a framework is imported. All arrays are numpy.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Protocol, Self

import numpy as np

from flnet.datasets.partition import Partition
from flnet.errors import DataMissing, NotOffered, SitsOut, TrainerError
from flnet.labels.losses import Lesson
from flnet.labels.spaces import Labelling
from flnet.params.params import Array, MergeRule
from flnet.protocol.counts import EvaluationCounts, GroupAccuracy, Scored
from flnet.protocol.events import Split, Turn
from flnet.protocol.messages import HyperParams
from flnet.text import text

__all__ = [
    "Array",
    "DataInfo",
    "DataMissing",
    "EvaluationCounts",
    "Findings",
    "Fit",
    "Gradients",
    "GroupAccuracy",
    "HyperParams",
    "InputSpec",
    "Lesson",
    "MakeTrainer",
    "Meaning",
    "MergeRule",
    "Method",
    "NoisySteps",
    "NotOffered",
    "Optimiser",
    "Partition",
    "Prediction",
    "Progress",
    "RowPrivacy",
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


Personal = Literal["none", "apfl", "increment"]
Choice = Literal["by-input", "local", "global"]
MU = 0.01  # of "proximal" without a number
SHARE, SHARE_RATE = 0.5, 1e-4  # of "apfl" without numbers: as published


@dataclass(frozen=True)
class Method:
    """The method of this node around a trainer's own training: FedProx, a personal model, SCAFFOLD.

    Attributes:
        local: "plain", or "proximal:0.01" for FedProx with that mu. The same on all nodes.
        personal: "none"; "apfl:0.5:0.0001", a second model that is mixed with the common one, with the share that
            it begins with, the rate at which that share learns and, if a third word is there, the optimiser of both
            models (sgd, momentum or adam; if absent, the trainer's own for the common model and sgd for the second
            one); or "increment:5", what is added to the common model,
            with the epochs of its own training (those of the round if absent). Each node's own business.
        choice: which model answers: "by-input", "local" or "global".
        controls: whether local steps are corrected by SCAFFOLD's control variates. The same on all nodes.
        row_privacy: whether noise is to hide each single row in what the training gives (`RowPrivacy`). Each node's
            own business.
    """

    local: str = "plain"
    personal: str = "none"
    choice: Choice = "by-input"
    controls: bool = False
    row_privacy: bool = False

    @property
    def mu(self) -> float:
        """The weight of FedProx's term; 0 for plain training."""
        name, *numbers = self.local.split(":")
        return 0.0 if name == "plain" else float(numbers[0]) if numbers else MU

    @property
    def kind(self) -> Personal:
        """The kind of the personal model."""
        name = self.personal.split(":")[0]
        return "apfl" if name == "apfl" else "increment" if name == "increment" else "none"

    @property
    def share(self) -> tuple[float, float]:
        """APFL's alpha at the beginning, and its rate."""
        _, *numbers = self.personal.split(":")
        begin = float(numbers[0]) if numbers else SHARE
        return begin, float(numbers[1]) if len(numbers) > 1 else SHARE_RATE

    @property
    def optimiser(self) -> str:
        """The optimiser of APFL's steps; empty for the trainer's own, and plain descent of the second model."""
        words = self.personal.split(":")
        return words[3] if len(words) > 3 else ""

    @property
    def epochs(self) -> int | None:
        """Epochs of the increment's training; None for those of the round."""
        _, *numbers = self.personal.split(":")
        return int(numbers[0]) if numbers else None

    def fields(self) -> dict[str, Any]:
        """The fields as JSON-ready data."""
        return dict(vars(self))


@dataclass(frozen=True)
class TrainerSettings:
    """Settings of the node that a trainer gets when it is made.

    Attributes:
        datasets_path: folder in which data sets lie; None when the person named none.
        state_path: folder of this trainer that survives restarts, for splits and caches; exists.
        shard: this node's part and the number of parts, (1, 1) for everything.
        seed: of splits, initial parameters and shuffling; the same on nodes that share a data set.
        threads: CPU threads that a framework may use.
        partition: how the parts differ; `flnet.datasets.split` picks this node's rows by it.
        device: where a framework is to work: auto, cpu, cuda or mps.
        max_seconds: after so long a training ends with the batch that it is in; None for never.
        method: how this node trains beyond what the trainer does itself. flnet sees to it: it hands out the
            trainer in a wrapper that does the rest.
        labels: how this node's rows are labelled where nodes label differently; None where they do not. flnet
            sees to that likewise.
        validation_share: of the training rows, how many a trainer holds back for validation if its data set has no
            validation rows (`flnet.datasets.split.held_back`).
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
    validation_share: float = 0.0


@dataclass(frozen=True)
class DataInfo:
    """Description of a trainer's data.

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
            part, as `flnet.datasets.split.dealt_counts` has them; for this node's people, told to no peer.
        common_test: of rows that all nodes have and nobody trains on, the beginning of a checksum, by which nodes see
            whether these are the same; empty if there are none.
    """

    source: str
    rows: Mapping[str, int]
    classes: tuple[str, ...] = ()
    sample: bool = False
    note: str = ""
    counts: Mapping[str, Sequence[int]] = field(default_factory=dict)
    checksum: str = ""
    parts: Sequence[Sequence[int]] = ()
    common_test: str = ""


@dataclass(frozen=True)
class RowPrivacy:
    """How a training is to hide each single row: DP-SGD (Abadi et al. 2016, Algorithm 1).

    Each step draws every training row on its own, with probability min(1, b / rows). The gradient of each drawn row is
    cut to the norm `clip`, over all arrays together; to their sum comes normal noise of standard deviation
    noise_multiplier x clip in every number; the sum is divided by the expected number of rows, min(b, rows).

    Attributes:
        noise_multiplier: z, 0 or more; 0 hides nothing and is for tests.
        clip: C, above 0.
    """

    noise_multiplier: float
    clip: float


@dataclass(frozen=True)
class NoisySteps:
    """What a training under `RowPrivacy` really did, for those who count what it tells of a row.

    Attributes:
        sampling_rate: the probability with which each row was in a step, in (0, 1].
        steps: that were done, those that drew no row included; fewer than planned where a training ended early.
    """

    sampling_rate: float
    steps: int


@dataclass(frozen=True)
class Task:
    """One local training: what `Trainer.fit` gets.

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
        row_privacy: how each single row is to be hidden: a trainer that has "row-privacy" in `Trainer.honours` does
            it, and says so in `Fit.noisy`. None for no noise, and to the others. Draws of rows and noise must not
            follow from `seed`, which peers can compute.
    """

    params: Mapping[str, Array]
    hyper: HyperParams
    seed: int
    progress: Callable[[int, int], None] = lambda done, total: None
    is_over: Callable[[], bool] = lambda: False
    proximal: float = 0.0
    lesson: Lesson | None = None
    round: int = 0
    row_privacy: RowPrivacy | None = None


@dataclass(frozen=True)
class Fit:
    """The result of a local training.

    Attributes:
        params: new arrays under the same names.
        examples: training rows used: the weight in the average. Of a training that ended early, those seen.
        labels: how many labels the data has, for rules that weigh by it.
        metrics: more figures, by name ("loss").
        noisy: of a training under `Task.row_privacy`, what it did; None of any other.
    """

    params: Mapping[str, Array]
    examples: int
    labels: int = 1
    metrics: Mapping[str, float] = field(default_factory=dict)
    noisy: NoisySteps | None = None


@dataclass(frozen=True)
class Score:
    """The result of an evaluation on rows of this node.

    Attributes:
        accuracy: what the exchange compares, in [0, 1].
        examples: rows behind it.
        metrics: more figures, by name.
        split: the rows that were measured; set by flnet.
        counts: the same rows as counts, which nodes add up to figures of the whole mesh: `class_counts` and
            `label_counts` in `flnet.datasets.metrics` make them. None: the mesh has the mean accuracy alone,
            weighted by examples.
        groups: accuracies on groups of these rows that matter to people (wards, kinds of schools), at most 16, so that
            the mesh has each group's figure. Peers see names and numbers of rows.
        validation: of the same parameters on validation rows; set by flnet.
    """

    accuracy: float
    examples: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    split: Split = "test"
    counts: EvaluationCounts | None = None
    groups: Sequence[GroupAccuracy] = ()
    validation: Score | None = None

    @property
    def scored(self) -> Scored:
        """The accuracy with what it counts by."""
        return Scored(self.accuracy, self.examples, None if self.counts is None else self.counts.right)


@dataclass(frozen=True)
class InputSpec:
    """Format of one input of `predict`. The page and the command line build inputs by it, and flnet checks them.

    Attributes:
        kind: "image" (may come as a PNG or JPEG file too), "features" (numbers), "table" (named columns).
        shape: of one input: (height, width), (height, width, 1 or 3), or (columns,).
        low: the smallest number that may come; None: any finite one.
        high: the largest.
        names: of the columns; an input may then come as an object with these keys. Columns "sex=f" and "sex=m" may
            come as one, "sex", with one of these words.
        hint: one sentence for people: "one digit, white on black, in the middle".
        ignored: columns of the data set that are no inputs (target, id); an input that comes as an object may have
            them, so that people can use rows as they are in the file.
        gaps: whether a number may be missing. `predict` then gets NaN for it, and so does an ONNX file.
        no_value: words that mean a missing value in the data set, besides the usual ones.
        decimal: the sign before the decimals of numbers in the data set, for rows that come as they are in the file.
        scale: of each column the mean that `predict` subtracts and the spread by which it divides then; empty where
            inputs are not scaled by column. An ONNX file of the trainer does the same.
        scale_is_own: whether some of these come from this node's own rows, so that only its operator may see them.
    """

    kind: Literal["image", "features", "table"]
    shape: tuple[int, ...]
    low: float | None = None
    high: float | None = None
    names: tuple[str, ...] = ()
    hint: str = ""
    ignored: tuple[str, ...] = ()
    gaps: bool = False
    no_value: tuple[str, ...] = ()
    decimal: Literal[".", ","] = "."
    scale: tuple[tuple[float, float], ...] = ()
    scale_is_own: bool = False


@dataclass(frozen=True)
class InCoarse:
    """A prediction in the label space of this node's own rows.

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
THRESHOLD = 0.5  # of a prediction of labels that says no other
Optimiser = Literal["sgd", "momentum", "adam"]


@dataclass(frozen=True)
class Prediction:
    """The prediction of a model for n inputs.

    Attributes:
        values: (n, k), in the order of `DataInfo.classes`.
        meaning: "one_of": probabilities of classes of which one is right; "any_of": of labels, each by itself;
            "scores": numbers of which the largest wins.
        threshold: from which probability on a label of "any_of" is predicted.
        answered: if a node has a local and a common model: which of them made the prediction, "local" or
            "global", for each input; else empty.
        why: where an autoencoder chose: its error on each input, the mean square in the units of its inputs.
        limit: the error up to which the local model answers.
        coarse: the same in the label space of this node's rows, if it is another one.
    """

    values: Array
    meaning: Meaning = "one_of"
    threshold: float = THRESHOLD
    answered: tuple[str, ...] = ()
    why: tuple[float, ...] = ()
    limit: float | None = None
    coarse: InCoarse | None = None


class Gradients(Protocol):
    """A local training step by step: flnet does the steps, the trainer computes loss and gradient of each batch.

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
        """The result of `fit` for a training that ended here.

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
        groups: name of the group of each row, (n,): the domain that it is from, say. A figure of such rows is the mean
            of those of the groups, which are told too. None: they are one group.
    """

    inputs: Array
    labels: Array
    groups: Array | None = None


Kind = Literal["", "labels", "groups"]


@dataclass(frozen=True)
class Waiting:
    """Why rows with coarse labels are not used for training yet.

    Attributes:
        from_round: number of the first round in which they may be used.
        share: of the own rows, as far as they were judged, on which the model is sure; in [0, 1].
        needed: which share it takes.
        judged: rows behind that share.
    """

    from_round: int
    share: float
    needed: float
    judged: int


@dataclass(frozen=True)
class LabelFindings:
    """How the classes of the own label space correspond to those of the desired one, J to K.

    Attributes:
        space, classes: the own one: its id, and J names.
        desired, desired_classes: the one in which the model answers.
        matrix: (J, K), columns add up to 1: the chance of each own label for rows of each desired class; None
            where it has to be estimated and nothing was counted yet.
        threshold: minimum probability of a confident guess.
        deviation: (J, K), standard deviation of each entry; None where the matrix is known.
        counts: (J, K), how often each label met each confident guess; None where the matrix is known.
        pooled: whether the counts are the mean of all nodes that pool theirs, for as many rows as are here.
        waiting: why there is no learning from these labels yet; None where there is, or nothing to wait for.
    """

    space: str
    classes: tuple[str, ...]
    desired: str
    desired_classes: tuple[str, ...]
    matrix: Array | None
    threshold: float
    deviation: Array | None = None
    counts: Array | None = None
    waiting: Waiting | None = None
    pooled: bool = False


@dataclass(frozen=True)
class Grouping:
    """A number of groups; silhouette in [-1, 1], None where rows lie in fewer than two."""

    k: int
    inertia: float
    silhouette: float | None


@dataclass(frozen=True)
class GroupFindings:
    """How many groups fit this node's own rows.

    Attributes:
        rows: own training rows in all.
        judged: rows that were drawn from them for this.
        compared: rows of these that a silhouette compares with each other.
        common: the common model's groups on the rows that were judged.
        tried: k-means on these rows alone, by rising numbers of groups.
        bend: the number at which their inertia bends most.
    """

    rows: int
    judged: int
    compared: int
    common: Grouping
    tried: tuple[Grouping, ...]
    bend: int


Findings = LabelFindings | GroupFindings


def fields_of(findings: Findings | None, trainer: str) -> dict[str, Any] | None:
    """Findings as JSON-ready data; None if there are none.

    Raises:
        TrainerError: it is no such record, or its numbers make no sense.
    """
    if findings is None:
        return None
    if isinstance(findings, LabelFindings):
        return _labels(findings, trainer)
    if isinstance(findings, GroupFindings):
        return _groups(findings, trainer)
    raise TrainerError(
        text("findings of trainer {trainer} gave a {kind}; expected findings", trainer, type(findings).__name__)
    )


def _labels(findings: LabelFindings, trainer: str) -> dict[str, Any]:
    shape = len(findings.classes), len(findings.desired_classes)
    tables = {name: _table(getattr(findings, name), shape, trainer) for name in ("matrix", "deviation", "counts")}
    return {
        "kind": "labels",
        "space": {"id": findings.space, "classes": list(findings.classes)},
        "desired": {"id": findings.desired, "classes": list(findings.desired_classes)},
        "estimated": findings.counts is not None,
        "pooled": bool(findings.pooled),
        "threshold": float(findings.threshold),
        **tables,
        "waiting": None if findings.waiting is None else dict(vars(findings.waiting)),
    }


def _table(values: Array | None, shape: tuple[int, int], trainer: str) -> list[list[float]] | None:
    if values is None:
        return None
    table = np.asarray(values)
    if table.shape != shape or not np.isfinite(table).all() or (table < 0).any():
        raise TrainerError(
            text(
                "findings of trainer {trainer} gave a table {shape}, or odd numbers in it; expected "
                "{expected}, finite and not negative",
                trainer,
                list(table.shape),
                list(shape),
            )
        )
    rows: list[list[float]] = table.tolist()
    return rows if table.dtype.kind in "iu" else [[round(value, 6) for value in row] for row in rows]


def _groups(findings: GroupFindings, trainer: str) -> dict[str, Any]:
    return {
        "kind": "groups",
        **{name: int(getattr(findings, name)) for name in ("rows", "judged", "compared", "bend")},
        "common": _grouping(findings.common, trainer),
        "tried": _groupings(findings.tried, trainer),
    }


def _groupings(tried: Sequence[Grouping], trainer: str) -> list[Mapping[str, Any]]:
    return [_grouping(grouping, trainer) for grouping in tried]


def _grouping(grouping: Grouping, trainer: str) -> dict[str, Any]:
    numbers = [grouping.inertia, *([] if grouping.silhouette is None else [grouping.silhouette])]
    if not all(map(math.isfinite, numbers)):
        raise TrainerError(text("findings of trainer {trainer} gave numbers that are not finite", trainer))
    silhouette = None if grouping.silhouette is None else round(float(grouping.silhouette), 6)
    return {"k": int(grouping.k), "inertia": float(f"{float(grouping.inertia):.6g}"), "silhouette": silhouette}


class Trainer(ABC):
    """One model with its data. Class attributes declare what the mesh must know; three methods do the work.

    `input_spec` and `predict` together offer predictions, `onnx` an export; who lacks them says so when asked.
    """

    label: str = ""  # as people read it; the id if empty
    defaults: HyperParams = HyperParams(e=1, u=0.01, b=64)  # may be set per instance, to fit the data
    # The most of epochs, batch_size, batches and learning_rate in a round of another node:
    limits: Mapping[str, float] = MappingProxyType({})
    exchange_threshold: float = 0.02  # by how much a peer's model must win to be adopted
    shared: tuple[str, ...] | None = None  # names that leave this node; None: all of them
    merge: Mapping[str, MergeRule] = MappingProxyType({})  # arrays not merged by the mean
    merging: str = ""  # the rule that its updates need, named as in FLNET_AGGREGATION; empty: what that says
    predicts: Meaning | None = None  # the meaning of all its predictions, for a model's card; None: unsaid
    label_threshold: float = THRESHOLD  # of all its predictions, where they are of "any_of"
    finds: Kind = ""  # what `findings` tells of a model, "labels" or "groups"; empty: nothing
    turn: Turn | None = None  # in which rounds it trains, where nodes that label differently take turns
    personalises: bool = False  # whether its private parameters learn on from each average
    agreement: Mapping[str, str] = MappingProxyType({})  # what all nodes must have alike: {"classes": "cat, dog"}

    note: str = ""  # goes with every prediction: "this is no diagnosis"
    licence: str = text("not stated")  # of the trained model, for its card

    # Of "proximal", "labels" and "row-privacy": what of a task may be unusual.
    honours: ClassVar[frozenset[str]] = frozenset()
    buffers: tuple[str, ...] = ()  # arrays that training sets without gradients: running means, for example

    @abstractmethod
    def initial_params(self, seed: int) -> Mapping[str, Array]:
        """Initial parameters; equal seeds give equal parameters on every node."""

    @abstractmethod
    def fit(self, task: Task) -> Fit:
        """Train from `task.params`; build new arrays, never edit the ones given."""

    @abstractmethod
    def evaluate(self, params: Mapping[str, Array]) -> Score:
        """Measure on this node's own test split."""

    def validation_score(self, params: Mapping[str, Array]) -> Score | None:
        """Measure on this node's validation rows, by the same accuracy as `evaluate`; None if there are none.

        A node asks before it takes a model from a peer, and for a goal. Without it, the test rows decide, and an
        accuracy on rows by which models were chosen is no fair estimate any more.
        """
        return None

    def personalise(self, task: Task) -> Mapping[str, Array]:
        """Train the private parameters on a new average, for trainers that declare `personalises`.

        Asked after each average and before it is measured. `task.params` are the average with the private
        parameters as they are; names that are left out stay so.
        """
        raise NotOffered(text("this trainer has no method personalise"))

    @classmethod
    def fit_many(cls, jobs: Sequence[tuple[Self, Task]]) -> list[Fit]:
        """Several independent trainings, one result each, equal to that of `fit` within 1e-5.

        Experiments give all trainings of a round at once. One by one unless a trainer can do better: many small
        networks of one shape are trained faster as one computation.
        """
        return [trainer.fit(task) for trainer, task in jobs]

    @classmethod
    def evaluate_many(cls, jobs: Sequence[tuple[Self, Mapping[str, Array]]]) -> list[Score]:
        """Several evaluations, each on the data of its own trainer."""
        return [trainer.evaluate(params) for trainer, params in jobs]

    def gradients(self, task: Task) -> Gradients | None:
        """The training that `fit` does for this task, step by step; None if not offered.

        Methods that change the steps themselves (SCAFFOLD, APFL) need it.
        """
        return None

    def inputs(self) -> Array | None:
        """This node's training rows as inputs of `predict`, (n, *input_spec().shape); None if not offered."""
        return None

    def labels(self) -> Array | None:
        """Classes of these rows, (n,), as numbers in the order of `DataInfo.classes`; None if not offered."""
        return None

    def own_labels(self) -> Mapping[str, tuple[Array, Array]]:
        """The labels of data with the label spaces of FLNET_LABELS: in the desired space and in the own one.

        {"train": (of `inputs`, likewise), "test": of the rows of `tests` behind "accuracy", and if there are such
        "validation": of `validation_rows`}, class numbers, -1 for none. Empty: all rows are labelled in the desired space,
        as those of a published data set are.
        """
        return {}

    def tests(self) -> Mapping[str, Rows]:
        """The labelled rows behind figures of `evaluate` that are plain accuracies, by the figure's name.

        {"accuracy": the own test split, "official_accuracy": the published one}; empty: not offered.
        """
        return {}

    def validation_rows(self) -> Rows | None:
        """The labelled rows behind `validation_score`, for nodes that label differently; None: none, or not offered."""
        return None

    def data_info(self) -> DataInfo:
        """Description of this trainer's data, shown on the page."""
        return DataInfo(source=text("not described"), rows={})

    def input_spec(self) -> InputSpec | None:
        """Format of the inputs of `predict`; None if predictions are not offered."""
        return None

    def predict(self, params: Mapping[str, Array], inputs: Array) -> Prediction:
        """Predict from inputs (n, *input_spec().shape), float32 in the spec's range."""
        raise NotOffered(text("this trainer has no method predict"))

    def findings(self, params: Mapping[str, Array]) -> Findings | None:
        """Diagnostics of a model on this node's rows, never sent to peers; None if there are none."""
        return None

    def onnx(self, params: Mapping[str, Array]) -> bytes | None:
        """The model as an ONNX file, from the inputs of `predict` to its values; None if not offered."""
        return None


MakeTrainer = Callable[[TrainerSettings], Trainer]
Progress = Callable[[str, int, int], None]  # (trainer id, batches done, batches in all)


@dataclass(frozen=True)
class TrainerFile:
    """The file of a trainer, found without importing it; `error` says why it cannot be offered.

    Attributes:
        id: its name in every endpoint.
        location: the file, for people and, where `module` is empty, for the import.
        module: dotted name to import; empty for a file that lies outside every package.
        attribute: what in it makes the trainer.
        frameworks: of the frameworks that do not share a process well, those that its source imports.
        place: folder or file below FLNET_DATASETS_PATH in which it looks for data; empty if it does not say.
        reader: "module:function" that reads the data without the trainer's framework; empty if there is none.
        label: the name for people, where the source states it as a constant.
        kind: whether all nodes have the same columns of different rows ("horizontal"), or different columns of the
            same rows ("vertical").
        options: name of the file of options next to the data, which an import keeps; empty if there is none.
        is_for_research: whether it is offered only where FLNET_TRAINERS names it.
    """

    id: str
    location: str
    error: str = ""
    module: str = ""
    attribute: str = "make_trainer"
    frameworks: frozenset[str] = frozenset()
    place: str = ""
    reader: str = ""
    label: str = ""
    kind: Literal["horizontal", "vertical"] = "horizontal"
    options: str = ""
    is_for_research: bool = False
