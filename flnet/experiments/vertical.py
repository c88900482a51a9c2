"""Measures the split network and the encrypted regression on tables whose columns lie at two nodes.

`flnet experiment vertical` runs it on the folder FLNET_DATASETS_PATH, which has files vfl_NAME.npz with `X` (n, d), `y`
(n,) of 0 and 1, `party` (d,), 0 or 1 for each column, and `feature_names`. Node a holds the columns of party 0, node b
those of party 1 and the labels. A fifth of the rows is held out; columns are scaled by the mean and the spread of the
training rows. The result is tables in Markdown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flnet.algorithms.vertical import encrypted_regression as regression
from flnet.algorithms.vertical.defences import GradientNoise, NoisePlace, NormalSource, OutputNoise
from flnet.algorithms.vertical.encrypted_regression import RegressionPlan
from flnet.algorithms.vertical.encryption import OpenKey, PlainScheme, SecretScheme
from flnet.algorithms.vertical.leakage import (
    direction_scores,
    invert_with_examples,
    invert_with_weights,
    norm_scores,
    reconstruction_error,
)
from flnet.algorithms.vertical.numpy_models import DenseBottom, DenseTop, Layers
from flnet.algorithms.vertical.split_messages import CutGradients, CutOutputs, Message, Outgoing
from flnet.algorithms.vertical.split_network import FeatureHolder, LabelHolder, SplitNode, run_epoch
from flnet.algorithms.vertical.split_plan import BatchPlan, PlannedBatch, RowNumbers, SplitPlan
from flnet.algorithms.vertical.taylor_regression import fixed_batches, signed_labels
from flnet.datasets.metrics import auc
from flnet.errors import DataMissing
from flnet.params.params import Array, PeerId, digest_of
from flnet.security.ckks import CkksKeys, CkksScheme
from flnet.trainer import Optimiser, Score
from flnet.vertical_trainer import BottomModel, TopModel

A, B, C = PeerId("a"), PeerId("b"), PeerId("c")
HELD_OUT = 0.2


@dataclass(frozen=True, eq=False)
class Table:
    """A data set whose columns lie at two nodes.

    Attributes:
        columns: (n, d) of each node, scaled.
        names: of the columns of each node.
        labels: (n,) of 0 and 1.
        train, test: row numbers.
    """

    columns: Mapping[PeerId, Array]
    names: Mapping[PeerId, tuple[str, ...]]
    labels: Array
    train: RowNumbers
    test: RowNumbers


def read_table(path: Path, seed: int = 0) -> Table:
    """Read a file, choose hold-out rows by the seed, and scale the columns by the training rows."""
    with np.load(path) as file:
        x, y, party = file["X"].astype(np.float64), file["y"].astype(np.int64), file["party"]
        names = file["feature_names"]
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = np.split(order, [round(len(y) * (1 - HELD_OUT))])
    spread = x[train].std(axis=0)
    x = ((x - x[train].mean(axis=0)) / np.where(spread > 0, spread, 1)).astype(np.float32)
    nodes = {A: party == 0, B: party == 1}
    return Table(
        {peer: np.ascontiguousarray(x[:, own]) for peer, own in nodes.items()},
        {peer: tuple(map(str, names[own])) for peer, own in nodes.items()},
        y,
        train,
        test,
    )


class ShuffledBatch(NamedTuple):
    """The rows of one step, and their digest."""

    positions: RowNumbers
    digest: str


@dataclass(frozen=True, eq=False)
class ShuffledBatches:
    """Batches in an order drawn from (seed, epoch); rows are identified by their numbers."""

    train: RowNumbers
    test: RowNumbers
    size: int
    seed: int = 0

    def training(self, epoch: int) -> list[ShuffledBatch]:
        """All training rows once, the last batch may be smaller."""
        return self._cut(self.train[np.random.default_rng([self.seed, epoch]).permutation(len(self.train))])

    def hold_out(self) -> list[ShuffledBatch]:
        """All hold-out rows."""
        return self._cut(np.sort(self.test))

    def _cut(self, rows: RowNumbers) -> list[ShuffledBatch]:
        parts = (rows[start : start + self.size] for start in range(0, len(rows), self.size))
        return [ShuffledBatch(part, digest_of({"rows": part})) for part in parts]


@dataclass(frozen=True)
class Setup:
    """An architecture and how it is trained.

    Attributes:
        hidden: widths of hidden layers of each bottom model.
        cut: outputs of each bottom model.
        relu_at_cut: whether ReLU follows them.
        top: widths of hidden layers of the top model.
    """

    hidden: tuple[int, ...] = (64,)
    cut: int = 32
    relu_at_cut: bool = True
    top: tuple[int, ...] = (32,)
    optimiser: Optimiser = "adam"
    rate: float = 0.001
    batch: int = 256
    epochs: int = 10
    in_flight: int = 1
    seed: int = 0

    def bottom(self, place: int, columns: int) -> DenseBottom:
        """A new bottom model; `place` is the node's among all feature holders."""
        layers = Layers((columns, *self.hidden, self.cut), relu_at_end=self.relu_at_cut)
        return DenseBottom(layers, layers.initial(self.bottom_seed(place)), self.optimiser, self.rate)

    def top_model(self, width: int) -> DenseTop:
        """A new top model; the same for all label holders."""
        layers = Layers((width, *self.top, 1))
        return DenseTop(layers, layers.initial(self.top_seed()), self.optimiser, self.rate)

    def bottom_seed(self, place: int) -> int:
        """The seed of a bottom model's first weights."""
        return _seed(self.seed, place)

    def top_seed(self) -> int:
        """The seed of a top model's first weights."""
        return _seed(self.seed, 1000)

    def batches(self, table: Table) -> BatchPlan:
        """The batches of all epochs."""
        return ShuffledBatches(table.train, table.test, self.batch, self.seed)


def _seed(*parts: int) -> int:
    return int(np.random.SeedSequence(parts).generate_state(1)[0])


@dataclass(frozen=True)
class Protection:
    """Defences: of node a's outputs, and of node b's gradients."""

    outputs: OutputNoise | None = None
    gradients: GradientNoise | None = None


@dataclass(eq=False)
class Traffic:
    """What crossed between nodes.

    Attributes:
        seen: called with each message that left a node.
        bytes: of outputs and gradients of training batches.
        messages: of these.
    """

    seen: Callable[[Message], None] = lambda message: None
    bytes: int = 0
    messages: int = 0

    def __call__(self, outgoing: Outgoing) -> None:
        """Count a message."""
        message = outgoing.message
        if isinstance(message, CutGradients) or (isinstance(message, CutOutputs) and not message.hold_out):
            self.bytes += message.values.nbytes
            self.messages += 1
        self.seen(message)


@dataclass(frozen=True, eq=False)
class Outcome:
    """A finished training.

    Attributes:
        score: on hold-out rows, after the last epoch.
        loss: on training rows, in the last epoch.
        digests: of bottom models and top model.
        bytes, seconds: per training batch; seconds without measuring.
        nodes: as they are in the end.
    """

    score: Score
    loss: float
    digests: tuple[str, ...]
    bytes: float = 0.0
    seconds: float = 0.0
    nodes: Mapping[PeerId, SplitNode] = field(default_factory=dict)
    bottoms: Mapping[PeerId, BottomModel] = field(default_factory=dict)


def train_split(
    table: Table,
    setup: Setup,
    protection: Protection = Protection(),
    seen: Callable[[Message], None] = lambda message: None,
    labelled: Mapping[PeerId, Array | None] | None = None,
) -> Outcome:
    """Train with messages between nodes.

    Args:
        labelled: label holders and of which rows they have labels; node b and all of them if absent.
    """
    holders = {B: None} if labelled is None else labelled
    plan = SplitPlan(dict.fromkeys(table.columns, setup.cut), holders, setup.batches(table), setup.in_flight)
    bottoms = {
        peer: setup.bottom(place, columns.shape[1]) for place, (peer, columns) in enumerate(table.columns.items())
    }
    nodes = {peer: SplitNode(peer) for peer in sorted({*bottoms, *holders})}
    for peer, bottom in bottoms.items():
        noise = protection.outputs if peer == A else None
        rows: Any = table.columns[peer]
        nodes[peer].features = FeatureHolder(peer, plan, rows.__getitem__, bottom, noise=noise)
    for peer in holders:
        top, noisy = setup.top_model(plan.width), protection.gradients
        nodes[peer].labels = LabelHolder(peer, plan, table.labels, top, noise=noisy)
    traffic, seconds = Traffic(seen), 0.0
    for _ in range(setup.epochs):
        begin = time.perf_counter()
        run_epoch(nodes, sent=traffic)
        seconds += time.perf_counter() - begin
    steps = setup.epochs * len(plan.training(0))
    reports = [node.labels.report for node in nodes.values() if node.labels]
    (report, *_) = (one for one in reports if one is not None)
    if report.score is None:
        raise ValueError("no hold-out rows")
    digests = *(report.bottoms[peer] for peer in plan.feature_holders), report.top
    return Outcome(report.score, report.loss, digests, traffic.bytes / steps, seconds / steps, nodes, bottoms)


def train_joint(
    table: Table, setup: Setup, peers: Sequence[PeerId] = (A, B), fixed: Sequence[PeerId] = ()
) -> Outcome:
    """Train the same network in one place, with the same first weights and batches, and without messages.

    Args:
        peers: whose columns; one of them for a node alone.
        fixed: whose bottom models keep their first weights.
    """
    places = {peer: place for place, peer in enumerate(table.columns)}
    bottoms = {peer: setup.bottom(places[peer], table.columns[peer].shape[1]) for peer in peers}
    top, plan = setup.top_model(setup.cut * len(peers)), setup.batches(table)
    loss = seconds = 0.0
    for epoch in range(setup.epochs):
        begin, batches = time.perf_counter(), plan.training(epoch)
        losses = [_joint_step(table, bottoms, top, one.positions, fixed) * len(one.positions) for one in batches]
        seconds += time.perf_counter() - begin
        loss = sum(losses) / len(table.train)
    rows = np.sort(table.test)
    inputs = np.hstack([bottom.outputs(table.columns[peer][rows]) for peer, bottom in bottoms.items()])
    digests = *(bottom.state().digest for bottom in bottoms.values()), top.state().digest
    steps = setup.epochs * len(plan.training(0))
    return Outcome(top.evaluate(inputs, table.labels[rows]), loss, digests, 0.0, seconds / steps, bottoms=bottoms)


def _joint_step(
    table: Table,
    bottoms: Mapping[PeerId, BottomModel],
    top: TopModel,
    rows: RowNumbers,
    fixed: Sequence[PeerId],
) -> float:
    inputs = [bottom.forward(0, table.columns[peer][rows]) for peer, bottom in bottoms.items()]
    loss, gradient = top.step(np.hstack(inputs), table.labels[rows])
    ends = np.cumsum([bottom.width for bottom in bottoms.values()])[:-1]
    for (peer, bottom), part in zip(bottoms.items(), np.split(gradient, ends, axis=1), strict=True):
        if peer not in fixed:
            bottom.backward(0, part)
    return loss


def train_dense(table: Table, setup: Setup) -> Outcome:
    """Train one ordinary network of the same widths on all columns, where every column meets every other at once."""
    x, plan = np.hstack(list(table.columns.values())), setup.batches(table)
    widths = *(2 * width for width in setup.hidden), 2 * setup.cut, *setup.top
    layers = Layers((x.shape[1], *widths, 1))
    model = DenseTop(layers, layers.initial(_seed(setup.seed, 0)), setup.optimiser, setup.rate)
    loss = 0.0
    for epoch in range(setup.epochs):
        batches = plan.training(epoch)
        losses = [
            model.step(x[one.positions], table.labels[one.positions]).loss * len(one.positions) for one in batches
        ]
        loss = sum(losses) / len(table.train)
    rows = np.sort(table.test)
    return Outcome(model.evaluate(x[rows], table.labels[rows]), loss, (model.state().digest,))


# Leakage


class LabelLeak:
    """Node a's guesses of labels from the gradients that it gets.

    Attributes:
        by_norm, by_direction: AUC in each batch; for the direction it knows one row of the batch with label 1.
    """

    def __init__(self, table: Table, setup: Setup) -> None:
        self._labels, self._train, self._plan = table.labels, table.train, setup.batches(table)
        self._epoch, self._batches = -1, list[PlannedBatch]()
        self._sums = np.zeros((len(table.labels), setup.cut))
        self.by_norm: list[float] = []
        self.by_direction: list[float] = []

    def __call__(self, message: Message) -> None:
        """Look at a message."""
        if not isinstance(message, CutGradients):
            return
        if message.epoch != self._epoch:
            self._epoch, self._batches = message.epoch, list(self._plan.training(message.epoch))
        rows, values = self._batches[message.step].positions, message.values
        self._sums[rows] += values / max(float(norm_scores(values).max()), np.finfo(np.float32).tiny)
        truth = self._labels[rows]
        if not 1 < truth.sum() < len(truth):
            return
        known = int(truth.argmax())
        others = np.arange(len(truth)) != known
        self.by_norm.append(auc(truth[others], norm_scores(values[others])))
        self.by_direction.append(auc(truth[others], direction_scores(values[others], values[known])))

    def over_all_epochs(self) -> float:
        """AUC by each row's mean gradient over all epochs, along that of the first ten rows with label 1.

        Noise that is drawn anew in each epoch averages out.
        """
        known = self._train[self._labels[self._train] == 1][:TOLD]
        others = np.setdiff1d(self._train, known)
        return auc(self._labels[others], self._sums[others] @ self._sums[known].mean(axis=0))


TOLD = 10  # rows of which node a knows the label


@dataclass(eq=False)
class HoldOutOutputs:
    """Node a's outputs for hold-out rows in the last epoch, as node b gets them."""

    last: int
    parts: list[Array] = field(default_factory=list)

    def __call__(self, message: Message) -> None:
        """Keep a message."""
        if isinstance(message, CutOutputs) and message.hold_out and message.epoch == self.last:
            self.parts.append(message.values)


def seeded_normal(seed: int) -> NormalSource:
    """Noise that can be repeated; for experiments only, as whoever knows the seed can take it away again."""
    kinds = {"training": 0, "hold-out": 1, "gradient": 2}

    def draw(place: NoisePlace, shape: tuple[int, ...]) -> Array:
        return np.random.default_rng([seed, kinds[place.kind], place.epoch, place.step]).standard_normal(shape)

    return draw


@dataclass(frozen=True)
class Inversion:
    """How well node b guesses node a's features from outputs: errors as of `reconstruction_error`.

    Attributes:
        with_weights: with the bottom model's weights; None where it is not linear.
        with_examples: with some people whose features it knows.
        reads: share of the other people of whom it reads one column of two values rightly; None without one.
        always: share of those for whom the commoner value is right.
    """

    with_weights: float | None
    with_examples: float
    reads: float | None
    always: float


def invert(
    table: Table, setup: Setup, protection: Protection, known: int, column: str | None = None
) -> tuple[Outcome, Inversion]:
    """Train, and attack the outputs of hold-out rows after the last epoch.

    Columns that have one value in all but 1 % of the rows are left out: nobody can learn them from a few people.

    Args:
        known: how many hold-out rows node b knows the features of.
        column: with two values, which it tries to read.
    """
    caught = HoldOutOutputs(setup.epochs - 1)
    outcome = train_split(table, setup, protection, caught)
    outputs, features = np.concatenate(caught.parts), table.columns[A][np.sort(table.test)]
    common = [at for at, values in enumerate(features.T) if _commonest(values) <= 0.99]
    attacked, truth = outputs[known:], features[known:, common]
    guess = invert_with_examples(attacked, outputs[:known], features[:known, common])
    with_weights = None
    if not setup.hidden and not setup.relu_at_cut:
        weights = outcome.bottoms[A].state().weights
        noise = protection.outputs.multiplier * protection.outputs.clip if protection.outputs else 0.0
        exact = invert_with_weights(attacked, weights["0.weight"], weights["0.bias"], noise)
        with_weights = reconstruction_error(truth, exact[:, common])
    reads, always = None, 0.0
    if column is not None:
        at = common.index(table.names[A].index(column))
        middle = (truth[:, at].min() + truth[:, at].max()) / 2
        reads = float(((guess[:, at] > middle) == (truth[:, at] > middle)).mean())
        always = _commonest(truth[:, at])
    return outcome, Inversion(with_weights, reconstruction_error(truth, guess), reads, always)


def _commonest(values: Array) -> float:
    """The share of the value that most rows have."""
    return float(np.unique(values, return_counts=True)[1].max() / len(values))


# Tables


SETUPS: Mapping[str, Setup] = {  # chosen on a fifth of the training rows
    "adult": Setup(),
    "credit_default": Setup(epochs=15),
    "breast_cancer": Setup(batch=32, epochs=20),
}
SEEDS = range(5)


def _row(*cells: object) -> str:
    shown = (f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in cells)
    return f"| {' | '.join(shown)} |"


def _table(*columns: str) -> list[str]:
    return [_row(*columns), _row(*("---" for _ in columns))]


def _figures(outcome: Outcome) -> tuple[float, float, float]:
    return outcome.score.metrics["auc"], outcome.score.accuracy, outcome.score.metrics["loss"]


def accuracy_table(name: str, table: Table, setup: Setup) -> Iterator[str]:
    """Together, alone, and in one place; first weights and batches differ by seed, hold-out rows do not."""
    spread = f"AUC, {len(SEEDS)} seeds"
    yield from _table(f"{name}, seed {setup.seed}", "AUC", "accuracy", "loss", spread)
    kinds: dict[str, Callable[[Setup], Outcome]] = {
        "together: split network": partial(train_split, table),
        "the same network in one place": partial(train_joint, table),
        "one dense network on all columns": partial(train_dense, table),
    }
    for peer in (A, B):
        words = f"{peer}'s {table.columns[peer].shape[1]} columns alone"
        kinds[words] = partial(train_joint, table, peers=(peer,))
    found = {kind: [run(replace(setup, seed=seed)) for seed in SEEDS] for kind, run in kinds.items()}
    for kind, outcomes in found.items():
        areas = [outcome.score.metrics["auc"] for outcome in outcomes]
        yield _row(kind, *_figures(outcomes[0]), f"{np.mean(areas):.4f} (sd {np.std(areas, ddof=1):.4f})")
    split, joint, *_ = ([outcome.digests for outcome in outcomes] for outcomes in found.values())
    yield ""
    yield f"All weights of the first two rows are equal to the last bit: {split == joint}."


def cost_table(tables: Mapping[str, Table]) -> Iterator[str]:
    """Bytes and seconds of a batch."""
    yield from _table("data", "batch", "bytes per batch", "ms per batch, split", "ms per batch, in one place")
    for name, table in tables.items():
        setup = SETUPS[name]
        without_test = replace(table, test=table.test[:1])  # so that measuring takes no time
        split, joint = train_split(without_test, setup), train_joint(without_test, setup)
        milliseconds = (f"{1000 * one.seconds:.2f}" for one in (split, joint))
        yield _row(name, setup.batch, round(split.bytes), *milliseconds)


def in_flight_table(table: Table, setup: Setup, counts: Sequence[int] = (1, 2, 4, 8, 16)) -> Iterator[str]:
    """What late gradients do to the result."""
    yield from _table("batches in flight", "AUC", "accuracy", "loss", "training loss")
    for count in counts:
        outcome = train_split(table, replace(setup, in_flight=count))
        yield _row(count, *_figures(outcome), outcome.loss)


def label_holder_table(table: Table, setup: Setup) -> Iterator[str]:
    """Labels in one hand, or in two."""
    yield from _table("label holders", "AUC of the first", "accuracy", "loss")
    yield _row("b", *_figures(train_split(table, setup)))
    first = np.random.default_rng(setup.seed).random(len(table.labels)) < 0.5
    yield _row(
        "b and c, half of the rows each", *_figures(train_split(table, setup, labelled={B: first, C: ~first}))
    )
    yield _row("b alone with half of the rows", *_figures(train_split(table, setup, labelled={B: first})))


def gradient_table(table: Table, setup: Setup) -> Iterator[str]:
    """What node a learns of labels, with and without noise on gradients."""
    leaks = (f"leak AUC {kind}" for kind in ("by norm", "by direction", "over all epochs"))
    yield from _table("gradients", *leaks, "model AUC", "model accuracy")
    source = seeded_normal(setup.seed)
    rules: dict[str, GradientNoise | None] = {"as they are": None, "max-norm": GradientNoise("max-norm", source)}
    for scale in (0.01, 0.1, 1.0, 10.0, 100.0):
        rules[f"isotropic, scale {scale:g}"] = GradientNoise("isotropic", source, scale)
    for name, noise in rules.items():
        leak = LabelLeak(table, setup)
        outcome = train_split(table, setup, Protection(gradients=noise), leak)
        in_batches = float(np.mean(leak.by_norm)), float(np.mean(leak.by_direction))
        yield _row(name, *in_batches, leak.over_all_epochs(), *_figures(outcome)[:2])
    without = train_joint(table, setup, fixed=(A,))
    yield _row("none: a's bottom model keeps its first weights", "", "", "", *_figures(without)[:2])


def output_table(table: Table, setup: Setup, known: int, clip: float, column: str | None = None) -> Iterator[str]:
    """What node b learns of features, with and without noise on outputs."""
    kinds = {"linear": replace(setup, hidden=(), relu_at_cut=False), "hidden layer, ReLU": setup}
    known = min(known, len(table.test) // 2)
    yield from _table(
        "bottom model",
        "outputs",
        "error with weights",
        f"error with {known} known people",
        f"{column} read rightly" if column else "",
        "model AUC",
        "model accuracy",
    )
    for kind, one in kinds.items():
        noises: dict[str, OutputNoise | None] = {"as they are": None}
        for multiplier in (0.0, 0.1, 0.3, 1.0):
            words = f"clipped to {clip:g}, noise {multiplier:g}"
            noises[words] = OutputNoise(clip, multiplier, seeded_normal(setup.seed))
        for name, noise in noises.items():
            outcome, found = invert(table, one, Protection(outputs=noise), known, column)
            shown = (
                "" if figure is None else figure
                for figure in (found.with_weights, found.with_examples, found.reads)
            )
            yield _row(kind, name, *shown, *_figures(outcome)[:2])
    if column:
        yield ""
        yield f"Whoever always says the commoner value of {column} is right for {found.always:.4f}."


@dataclass(frozen=True, eq=False)
class EncryptedRun:
    """What came of one encrypted regression, or of the same steps in clear text.

    Attributes:
        theta: (columns,) the constant one, those of node b, those of node a.
        bytes: of the messages of a batch.
        seconds: of processor time for a batch, all three positions together; the median.
    """

    theta: Array
    bytes: float
    seconds: float

    def figures(self, table: Table) -> tuple[float, float]:
        """AUC and accuracy on hold-out rows."""
        scores = _encrypted_rows(table)[table.test] @ self.theta
        labels = table.labels[table.test]
        return auc(labels == 1, scores), float(((scores > 0) == (labels == 1)).mean())


def _encrypted_rows(table: Table) -> Array:
    ones = np.ones((len(table.labels), 1))
    return np.hstack([ones, table.columns[B], table.columns[A]]).astype(np.float64)


def message_bytes(message: regression.Message) -> int:
    """Bytes of what a message of the encrypted regression carries, without its frame on the wire."""
    total = 0
    for each in fields(message):
        value = getattr(message, each.name)
        for part in value if isinstance(value, tuple) else (value,):
            total += len(part) if isinstance(part, bytes | str) else 8
    return total


def train_encrypted(table: Table, epochs: int, batch: int, *, is_clear: bool = False) -> EncryptedRun:
    """Regress with the labels and columns of node b as A, the columns of node a as B, and a third node as C.

    Args:
        is_clear: whether the scheme that encrypts nothing is used.
    """
    a, b = (table.columns[peer][table.train].astype(np.float64) for peer in (B, A))
    plan = RegressionPlan(a.shape[1] + 1, b.shape[1], fixed_batches(len(a), batch), epochs=epochs)
    keys: SecretScheme = PlainScheme() if is_clear else CkksKeys()
    open_key: OpenKey = PlainScheme.open_key if is_clear else CkksScheme.open_key
    holder = regression.KeyHolder(plan, keys)
    holders = (
        regression.RegressionLabelHolder(
            plan, a, signed_labels(table.labels[table.train]), open_key, strict=False
        ),
        regression.RegressionFeatureHolder(plan, b, open_key, strict=False),
        holder,
    )
    sent, ends = 0, [time.process_time()]

    def observe(sender: regression.Position, to: regression.Position, message: regression.Message) -> None:
        nonlocal sent
        is_start = len(ends) == 1
        sent += 0 if is_start else message_bytes(message)
        if isinstance(message, regression.EncryptedGradients):
            ends.append(time.process_time())

    regression.run(holders, observe)
    return EncryptedRun(holder.theta, sent / (len(ends) - 2), float(np.median(np.diff(ends[1:]))))


# Epochs and rows of a batch.
ENCRYPTED = {"breast_cancer": (20, 32), "credit_default": (3, 500), "adult": (3, 650)}


def encrypted_table(tables: Mapping[str, Table]) -> Iterator[str]:
    """The encrypted regression, and the same steps in clear text."""
    yield from _table(
        "data",
        *("epochs", "batch", "AUC", "accuracy", "AUC in clear text", "accuracy in clear text"),
        *("weights differ by", "bytes per batch", "ms per batch", "ms per batch in clear text"),
    )
    for name, (epochs, batch) in ENCRYPTED.items():
        if name not in tables:
            continue
        try:
            run, clear = (train_encrypted(tables[name], epochs, batch, is_clear=clear) for clear in (False, True))
        except DataMissing as exc:  # the extra
            yield _row(name, epochs, batch, str(exc), *[""] * 6)
            continue
        apart = f"{np.abs(run.theta - clear.theta).max():.1e}"
        times = (f"{1000 * one.seconds:.2f}" for one in (run, clear))
        figures = (*run.figures(tables[name]), *clear.figures(tables[name]))
        yield _row(name, epochs, batch, *figures, apart, round(run.bytes), *times)


SMALLEST = "breast_cancer"
CLIP, READ = 4.0, "sex=Male"  # norm of outputs, and the column that node b tries to read


def read_tables(folder: Path | None, names: Iterable[str]) -> tuple[dict[str, Table], list[str]]:
    """The tables in a folder, and what is missing there, in words."""
    tables, missing = {}, []
    for name in names:
        file = f"vfl_{name}.npz"
        if folder is not None and (folder / file).is_file():
            tables[name] = read_table(folder / file)
        else:
            missing.append(
                f"{name}: expected {file} in {folder or 'the folder FLNET_DATASETS_PATH, which is not set'}"
            )
    return tables, missing


def main(folder: Path | None, write: Callable[[str], object] = print, *, quick: bool = False) -> None:
    """Measure everything on the data sets in this folder.

    Args:
        folder: None if no person named one.
        write: gets line after line.
        quick: only the smallest data set, to check that everything works.
    """
    tables, missing = read_tables(folder, [SMALLEST] if quick else SETUPS)
    for line in missing:
        write(line)
    if missing:
        write("")
    parts = [accuracy_table(name, table, SETUPS[name]) for name, table in tables.items()]
    parts += [cost_table(tables), encrypted_table(tables)] if tables else []
    if "adult" in tables:
        adult = tables["adult"], SETUPS["adult"]
        parts += [in_flight_table(*adult), label_holder_table(*adult), gradient_table(*adult)]
        parts += [output_table(*adult, 200, CLIP, READ)]
    if SMALLEST in tables:
        parts += [output_table(tables[SMALLEST], SETUPS[SMALLEST], 50, CLIP)]
    for part in parts:
        for line in part:
            write(line)
        write("")
