"""Small split networks for tests: random columns at some nodes, batches in an order of (seed, epoch), models in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from flnet.algorithms.vertical.defences import GradientNoise, NoisePlace, NormalSource, OutputNoise
from flnet.algorithms.vertical.numpy_models import DenseBottom, DenseTop, Layers
from flnet.algorithms.vertical.split_messages import EpochClosed, Outgoing
from flnet.algorithms.vertical.split_network import FeatureHolder, LabelHolder, SplitNode, run_epoch
from flnet.algorithms.vertical.split_plan import RowNumbers, SplitPlan
from flnet.params.params import Array, PeerId, digest_of
from flnet.trainer import Optimiser
from flnet.vertical_trainer import BottomModel, TopModel


class Batch(NamedTuple):
    positions: RowNumbers
    digest: str


@dataclass(frozen=True, eq=False)
class Permuted:
    """Batches of the first rows in a new order each epoch; the last rows are held out."""

    rows: int
    size: int
    held_out: int = 0
    seed: int = 0

    def training(self, epoch: int) -> list[Batch]:
        return self._cut(np.random.default_rng([self.seed, epoch]).permutation(self.rows - self.held_out))

    def hold_out(self) -> list[Batch]:
        return self._cut(np.arange(self.rows - self.held_out, self.rows))

    def _cut(self, rows: RowNumbers) -> list[Batch]:
        parts = (rows[at : at + self.size] for at in range(0, len(rows), self.size))
        return [Batch(part, digest_of({"rows": part})) for part in parts]


Ids = Sequence[str]
Pick = Callable[[Sequence[Outgoing]], int]


@dataclass(eq=False)
class Case:
    """What a test trains. All nodes hold two columns more than the one before; the last one holds the labels too."""

    holders: Ids = ("a", "b")
    owners: Ids = ("b",)
    rows: int = 40
    size: int = 8
    held_out: int = 8
    optimiser: Optimiser = "sgd"
    rate: float = 0.1
    in_flight: int = 1
    dtype: Literal["float32", "float64"] = "float64"
    labelled: Mapping[str, Array] = field(default_factory=dict)
    labels: Array | None = None
    hidden: tuple[int, ...] = (5,)
    private_output: bool = False
    output_noise: OutputNoise | None = None  # of the first feature holder
    gradient_noise: GradientNoise | None = None

    def __post_init__(self) -> None:
        chance = np.random.default_rng(7)
        self.columns = {peer: chance.normal(size=(self.rows, 2 + 2 * at)) for at, peer in enumerate(self.holders)}
        total = np.sum([columns[:, 0] for columns in self.columns.values()], axis=0)
        self.truth = np.asarray(total > 0, np.int64) if self.labels is None else self.labels
        widths = {PeerId(peer): 3 + at for at, peer in enumerate(self.holders)}
        masks = {PeerId(peer): self.labelled.get(peer) for peer in self.owners}
        batches = Permuted(self.rows, self.size, self.held_out)
        self.plan = SplitPlan(widths, masks, batches, self.in_flight, self.dtype)

    def bottom(self, peer: str) -> BottomModel:
        layers = self.bottom_layers(peer)
        return DenseBottom(layers, self.bottom_weights(peer), self.optimiser, self.rate)

    def bottom_layers(self, peer: str) -> Layers:
        return Layers((self.columns[peer].shape[1], *self.hidden, self.plan.widths[PeerId(peer)]))

    def bottom_weights(self, peer: str) -> dict[str, Array]:
        return self.bottom_layers(peer).initial(list(self.holders).index(peer), self.dtype)

    @property
    def top_layers(self) -> Layers:
        return Layers((self.plan.width, 4, 1))

    @property
    def top_weights(self) -> dict[str, Array]:
        return self.top_layers.initial(99, self.dtype)

    def top(self, peer: str) -> TopModel:
        return DenseTop(
            self.top_layers, self.top_weights, self.optimiser, self.rate, private_output=self.private_output
        )

    def features(self, peer: str) -> Callable[[RowNumbers], Array]:
        columns = self.columns[peer]
        return lambda rows: columns[rows]

    def nodes(self) -> dict[PeerId, SplitNode]:
        made = {}
        for peer in sorted({*self.holders, *self.owners}):
            me, features, labels = PeerId(peer), None, None
            if peer in self.holders:
                noise = self.output_noise if peer == self.holders[0] else None
                features = FeatureHolder(me, self.plan, self.features(peer), self.bottom(peer), noise=noise)
            if peer in self.owners:
                labels = LabelHolder(me, self.plan, self.truth, self.top(peer), noise=self.gradient_noise)
            made[me] = SplitNode(me, features, labels)
        return made


def trained(case: Case, epochs: int = 3, pick: Pick = lambda waiting: 0) -> dict[PeerId, SplitNode]:
    """Nodes after some epochs."""
    nodes = case.nodes()
    for _ in range(epochs):
        run_epoch(nodes, pick)
    return nodes


def features_of(node: SplitNode) -> FeatureHolder:
    """The part of a node that holds features."""
    assert node.features is not None
    return node.features


def labels_of(node: SplitNode) -> LabelHolder:
    """The part of a node that holds labels."""
    assert node.labels is not None
    return node.labels


def report_of(node: SplitNode) -> EpochClosed:
    """What a label holder said at the end of its last epoch."""
    report = labels_of(node).report
    assert report is not None
    return report


def models_of(nodes: Mapping[PeerId, SplitNode]) -> dict[str, BottomModel | TopModel]:
    """All models, by "node/bottom" and "node/top"."""
    bottoms = {f"{peer}/bottom": node.features.bottom for peer, node in nodes.items() if node.features}
    tops = {f"{peer}/top": node.labels.top for peer, node in nodes.items() if node.labels}
    return {**bottoms, **tops}


def weights_of(nodes: Mapping[PeerId, SplitNode]) -> dict[str, Array]:
    """All weights, by "node/bottom/NAME" and "node/top/NAME"."""
    return {
        f"{model}/{name}": array
        for model, made in models_of(nodes).items()
        for name, array in made.state().weights.items()
    }


def digests_of(nodes: Mapping[PeerId, SplitNode]) -> dict[str, str]:
    """Digests of all models."""
    return {name: model.state().digest for name, model in models_of(nodes).items()}


def normal(seed: int = 0) -> NormalSource:
    """Noise by place."""
    kinds = {"training": 0, "hold-out": 1, "gradient": 2}

    def draw(place: NoisePlace, shape: tuple[int, ...]) -> Array:
        return np.random.default_rng([seed, kinds[place.kind], place.epoch, place.step]).standard_normal(shape)

    return draw
