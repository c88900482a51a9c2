"""Evaluation of a round on the whole mesh: the figures of all nodes' test rows together, and those of each node.

Nodes state what their averages reached, with their claims. Where all nodes count (`flnet.protocol.counts`), the figures are
those of their test rows in one place; else the mean accuracy, weighted by examples. Every node that hears the same
statements has the same figures, in whatever order they came. A statement is its node's word: nobody else has the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flnet.params.params import PeerId
from flnet.protocol.counts import (
    MOST_GROUPS,
    EvaluationCounts,
    GroupAccuracy,
    Measured,
    PooledCounts,
    Scored,
    jain_index,
    mean_accuracy,
    standard_deviation,
)
from flnet.protocol.events import Evaluated
from flnet.protocol.messages import MAX_PEERS
from flnet.rounds.settings import Rules

GROUPS_SHOWN = 64  # of all nodes, by name


def measured_in(event: Evaluated, rules: Rules) -> Measured | None:
    """What a node states of a measurement; None where the number of rows is not known."""
    if event.examples is None:
        return None
    return stated_by(event.accuracy, event.examples, event.counts, event.groups, rules)


def stated_by(
    accuracy: float, examples: int, counts: EvaluationCounts | None, groups: Sequence[GroupAccuracy], rules: Rules
) -> Measured:
    """What a node states of a measurement, by its settings: counts and groups, or neither."""
    stated = tuple(groups) if rules.counts else ()
    if rules.group:
        own = GroupAccuracy(name=rules.group, accuracy=accuracy, examples=examples)
        stated = (own, *(group for group in stated if group.name != rules.group))[:MOST_GROUPS]
    told = counts if rules.counts else None
    return Measured(accuracy=accuracy, examples=examples, counts=told, groups=stated or None)


@dataclass
class MeshEvaluation:
    """What the nodes state of their averages in one round.

    Attributes:
        own: this node's statement; None before its average is measured.
        scores: by node; the first statement of each counts.
        pooled: sums of those that count.
        groups: what nodes tell of each group.
    """

    own: Measured | None = None
    scores: dict[PeerId, Scored] = field(default_factory=dict)
    pooled: PooledCounts = field(default_factory=PooledCounts)
    groups: dict[str, list[GroupAccuracy]] = field(default_factory=dict)

    def heard(self, node: PeerId, accuracy: float, measured: Measured | None) -> None:
        """A node states its accuracy and, if it is of this version, the rows behind it.

        What more names than a mesh has state, in an open mesh anybody, is left out: records would grow without a bound.
        """
        if node in self.scores or len(self.scores) > MAX_PEERS:
            return
        if measured is None:
            self.scores[node] = Scored(accuracy)
            return
        self.scores[node] = measured.scored
        if measured.counts is not None:
            self.pooled.add(measured.counts)
        for group in measured.groups or ():
            self.groups.setdefault(group.name, []).append(group)

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
            **self._fairness(),
            "by_node": {
                node: {"accuracy": score.accuracy, "examples": score.examples}
                for node, score in sorted(self.scores.items())
            },
        }

    def _fairness(self) -> dict[str, Any]:
        """How evenly the nodes that have test rows are served, and what each group has."""
        with_rows = {node: score.accuracy for node, score in self.scores.items() if score.examples != 0}
        worst = min(with_rows, key=lambda node: (with_rows[node], node), default=None)
        return {
            "worst": None if worst is None else {"node": worst, "accuracy": with_rows[worst]},
            "spread": standard_deviation(with_rows.values()) if with_rows else None,
            "jain": jain_index(with_rows.values()),
            "groups": {name: _group(told) for name, told in sorted(self.groups.items())[:GROUPS_SHOWN]},
        }


def _group(told: Sequence[GroupAccuracy]) -> Mapping[str, Any]:
    accuracy, _ = mean_accuracy([Scored(group.accuracy, group.examples) for group in told])
    return {"accuracy": accuracy, "examples": sum(group.examples for group in told), "nodes": len(told)}


def in_job(mesh: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The figures of a round in the view of its job: without those of each label and node."""
    return mesh and {name: value for name, value in mesh.items() if name not in ("labels", "by_node")}
