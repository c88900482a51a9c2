"""Evaluation of a round on the whole mesh: the figures of all nodes' test rows together, and those of each node.

Nodes state what their averages reached, with their claims. Where all nodes count (`flnet.protocol.counts`), the figures are
those of their test rows in one place; else the mean accuracy, weighted by examples. Every node that hears the same
statements has the same figures, in whatever order they came. A statement is its node's word: nobody else has the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flnet.params.params import PeerId
from flnet.protocol.counts import Measured, PooledCounts, Scored, mean_accuracy
from flnet.protocol.events import Evaluated


def measured_in(event: Evaluated) -> Measured | None:
    """What a node states of a measurement; None where the number of rows is not known."""
    if event.examples is None:
        return None
    return Measured(accuracy=event.accuracy, examples=event.examples, counts=event.counts)


@dataclass
class MeshEvaluation:
    """What the nodes state of their averages in one round.

    Attributes:
        own: this node's statement; None before its average is measured.
        scores: by node; the first statement of each counts.
        pooled: sums of those that count.
        counting: how many these are.
    """

    own: Measured | None = None
    scores: dict[PeerId, Scored] = field(default_factory=dict)
    pooled: PooledCounts = field(default_factory=PooledCounts)
    counting: int = 0

    def heard(self, node: PeerId, accuracy: float, measured: Measured | None) -> None:
        """A node states its accuracy and, if it is of this version, the rows behind it."""
        if node in self.scores:
            return
        if measured is None:
            self.scores[node] = Scored(accuracy)
            return
        counts = measured.counts
        self.scores[node] = Scored(measured.accuracy, measured.examples, counts.right if counts else None)
        if counts is not None:
            self.pooled.add(counts)
            self.counting += 1

    def view(self) -> Mapping[str, Any] | None:
        """The figures as JSON-ready data (`RoundMeshView`); None before another node has stated its own."""
        if len(self.scores) < 2:
            return None
        accuracy, basis = mean_accuracy(list(self.scores.values()))
        examples = [score.examples for score in self.scores.values() if score.examples is not None]
        is_counted = basis == "counts"
        return {
            "accuracy": accuracy,
            "basis": basis,
            "examples": sum(examples) if len(examples) == len(self.scores) else None,
            "figures": self.pooled.figures() if is_counted else {},
            "labels": dict(self.pooled.by_label()) if is_counted else {},
            "nodes": len(self.scores),
            "by_node": {
                node: {"accuracy": score.accuracy, "examples": score.examples}
                for node, score in sorted(self.scores.items())
            },
        }


def in_job(mesh: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The figures of a round in the view of its job: without those of each label and node."""
    return mesh and {name: value for name, value in mesh.items() if name not in ("labels", "by_node")}
