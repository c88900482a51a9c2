"""Vertical trainers for tests: some columns of people that several nodes know, each in an order of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flnet.algorithms.vertical.aligned_batches import AlignedBatches, seed_for
from flnet.algorithms.vertical.groups import SafePrimeGroup
from flnet.algorithms.vertical.numpy_models import DenseBottom, DenseTop, Layers
from flnet.algorithms.vertical.split_network import FeatureHolder, LabelHolder, SplitNode, run_epoch
from flnet.algorithms.vertical.split_plan import SplitPlan
from flnet.compute.vertical import VerticalHost
from flnet.params.params import Array, PeerId
from flnet.trainer import DataInfo, HyperParams, NotOffered, Optimiser
from flnet.vertical_trainer import BottomModel, TopModel, VerticalTrainer

Ids = Sequence[Any]


class Table(VerticalTrainer):
    """Columns of some people; with labels, this node has a top model too."""

    label = "People"
    defaults = HyperParams(e=3, u=0.05, b=16)
    hidden: tuple[int, ...] = (4,)  # layers of the top model

    def __init__(
        self, ids: Ids, x: Array | None, y: Array | None = None, width: int = 3, optimiser: Optimiser = "adam"
    ) -> None:
        self.ids, self.x, self.y, self.width, self.optimiser = ids, x, y, width, optimiser
        self.fails = False

    def identifiers(self) -> Ids:
        return self.ids

    def features(self, rows: Array) -> Array:
        if self.x is None:
            raise NotOffered("no features")
        if self.fails:
            raise RuntimeError("asked to fail")
        return self.x[rows]

    def labels(self, rows: Array) -> Array:
        if self.y is None:
            raise NotOffered("no labels")
        return self.y[rows]

    def bottom_model(self, seed: int, hyper: HyperParams) -> BottomModel | None:
        if self.x is None:
            return None
        layers = Layers((self.x.shape[1], self.width))
        return DenseBottom(layers, layers.initial(seed), self.optimiser, hyper.u)

    def top_model(self, width: int, seed: int, hyper: HyperParams) -> TopModel | None:
        if self.y is None:
            return None
        layers = Layers((width, *self.hidden, 1))
        return DenseTop(layers, layers.initial(seed), self.optimiser, hyper.u)

    def data_info(self) -> DataInfo:
        return DataInfo(source="a test", rows={"train": len(self.ids)})


class People:
    """People whom all nodes know, and some whom only one knows.

    Attributes:
        tables: the trainer of each node.
    """

    def __init__(
        self, nodes: Sequence[str] = ("a", "b"), labels: Sequence[str] = ("b",), common: int = 60
    ) -> None:
        chance = np.random.default_rng(5)
        self.x = {node: chance.normal(size=(common, 2 + at)).astype(np.float32) for at, node in enumerate(nodes)}
        self.y = (np.sum([x[:, 0] for x in self.x.values()], axis=0) > 0).astype(np.int64)
        self.tables: dict[str, Table] = {}
        for at, node in enumerate(nodes):
            order = chance.permutation(common)
            ids = [f"P{number:03}" for number in order] + [f"only {node} {number}" for number in range(5 + at)]
            x = np.vstack([self.x[node][order], chance.normal(size=(5 + at, 2 + at))]).astype(np.float32)
            y = np.concatenate([self.y[order], np.zeros(5 + at, np.int64)]) if node in labels else None
            self.tables[node] = Table(ids, x, y)

    def hosts(self) -> dict[str, VerticalHost]:
        """The trainers as a compute queue has them."""
        return {node: VerticalHost(table, node, SafePrimeGroup) for node, table in self.tables.items()}


def trained_alone(
    tables: Mapping[str, Table],
    rows: Mapping[str, Array],
    alignment: str,
    seed: int,
    hyper: HyperParams,
    epochs: int,
    in_flight: int = 1,
) -> dict[PeerId, SplitNode]:
    """The same split network without job and wire: all nodes in this process.

    Args:
        rows: the own row of each common person.
    """
    count = len(next(iter(rows.values())))
    widths = {PeerId(node): table.width for node, table in tables.items() if table.x is not None}
    labelled = {PeerId(node): None for node, table in tables.items() if table.y is not None}
    plan = SplitPlan(widths, labelled, AlignedBatches(count, hyper.b, seed, alignment), in_flight)
    nodes = {
        PeerId(node): _node(PeerId(node), table, rows[node], plan, seed, hyper) for node, table in tables.items()
    }
    for _ in range(epochs):
        run_epoch(nodes)
    return nodes


def _node(node: PeerId, table: Table, rows: Array, plan: SplitPlan, seed: int, hyper: HyperParams) -> SplitNode:
    features = labels = None
    bottom = table.bottom_model(seed_for(seed, f"bottom:{node}"), hyper)
    if bottom is not None:
        features = FeatureHolder(node, plan, lambda places: table.features(rows[places]), bottom)
    top = table.top_model(plan.width, seed_for(seed, "top"), hyper)
    if top is not None:
        labels = LabelHolder(node, plan, table.labels(rows), top)
    return SplitNode(node, features, labels)
