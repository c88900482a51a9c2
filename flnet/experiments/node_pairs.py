"""Who gains: two columns of a table compared node by node, by size and by likeness.

A node stands in both columns with the same rows, so that its gain is a difference of two models on equal test rows.
Means hide who gains: the table of gains has them by thirds of the nodes, by number of training rows and by how far the
shares of their classes are from those of all nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from flnet.experiments.cells import NodeGroup, Outcome
from flnet.experiments.plan import Plan
from flnet.experiments.statistics import Done

FIGURE = "after.accuracy"
SIZES: tuple[NodeGroup, ...] = ("small", "middle", "large")
LIKENESS: tuple[NodeGroup, ...] = ("alike", "between", "unlike")
DRIFT: tuple[NodeGroup, ...] = ("steady", "drifting")


@dataclass(frozen=True)
class NodePairs:
    """The nodes of one row of the table, in two of its columns.

    Attributes:
        seeds: for each seed the outcome that tells the groups of nodes, and of each node both figures.
    """

    row: str
    first: str
    second: str
    seeds: tuple[tuple[Outcome, tuple[tuple[float, float], ...]], ...]

    @property
    def points(self) -> list[tuple[float, float]]:
        """Both figures of all nodes of all seeds."""
        return [point for _, points in self.seeds for point in points]

    def gain(self, *groups: NodeGroup) -> str:
        """The mean gain by the second column in percentage points, with its deviation over seeds; empty without nodes."""
        gains = [
            fmean(100 * (points[node][1] - points[node][0]) for node in nodes)
            for outcome, points in self.seeds
            if (nodes := outcome.members(groups, len(points)))
        ]
        if not gains:
            return ""
        return f"{fmean(gains):+.2f}" + (f" ± {stdev(gains):.2f}" if len(gains) > 1 else "")

    def sides(self) -> tuple[float, float]:
        """How many nodes gain, and how many lose, in the mean over seeds."""
        gains = [[second - first for first, second in points] for _, points in self.seeds]
        return fmean(sum(g > 0 for g in of) for of in gains), fmean(sum(g < 0 for g in of) for of in gains)


def node_pairs(plan: Plan, done: Done) -> list[NodePairs]:
    """The pairs that the plan asks for, row by row, as far as both columns have figures of the same nodes."""
    at = {(cell.row, cell.column, cell.seed): outcome for cell, outcome in done if not outcome.reason}
    found = []
    for row in plan.rows:
        for first, second in plan.pairs:
            seeds = []
            for seed in sorted({of for name, _, of in at if name == row.name}):
                both = [at.get((row.name, column, seed)) for column in (first, second)]
                if both[0] is not None and both[1] is not None and (points := _points(both[0], both[1])):
                    seeds.append((both[0], points))
            if seeds:
                found.append(NodePairs(row.name, first, second, tuple(seeds)))
    return found


def _points(first: Outcome, second: Outcome) -> tuple[tuple[float, float], ...]:
    """Both figures of each node; nothing if the columns have other nodes, or some have no figure."""
    figures = [outcome.figures.get(FIGURE, ()) for outcome in (first, second)]
    if len(figures[0]) != len(figures[1]) or None in figures[0] or None in figures[1]:
        return ()
    return tuple((x, y) for x, y in zip(*figures, strict=True) if x is not None and y is not None)


def pairs_section(pairs: Sequence[NodePairs]) -> Iterator[str]:
    """Who gains, as tables: nodes by size and likeness, and those that drift."""
    if not pairs:
        return
    yield "\n## Node by node"
    yield (
        "\nMean gain of accuracy on the nodes' own test rows, in percentage points ± standard deviation over seeds: thirds "
        "of the nodes by number of training rows, and by how far the shares of their classes are from those of all nodes."
    )
    for pair in pairs:
        better, worse = pair.sides()
        count = len(pair.seeds[0][1])
        yield (
            f"\n**{pair.row}: {pair.second} against {pair.first}.** Of {count} nodes {better:.1f} gain and {worse:.1f} "
            f"lose, in the mean over {len(pair.seeds)} seeds.\n"
        )
        yield f"| | {' | '.join((*LIKENESS, 'all'))} |"
        yield "| --- | --- | --- | --- | --- |"
        for size in SIZES:
            yield f"| {size} | {' | '.join((*(pair.gain(size, like) for like in LIKENESS), pair.gain(size)))} |"
        yield f"| all | {' | '.join((*(pair.gain(like) for like in LIKENESS), pair.gain()))} |"
        if drifting := pair.gain("drifting"):
            yield f"\nNodes that drift {drifting}, others {pair.gain('steady')}."


def draw_pairs(axes: Any, pair: NodePairs) -> None:
    """A dot for each node and seed, by thirds of size; above the line the second column is better."""
    points = pair.points
    low, high = min(map(min, points)), max(map(max, points))
    axes.plot([low, high], [low, high], c="#5f6f66", lw=1, zorder=1)
    for size in SIZES:
        chosen = [points[node] for outcome, points in pair.seeds for node in outcome.members((size,), len(points))]
        if chosen:
            axes.scatter(*zip(*chosen, strict=True), s=14, alpha=0.7, label=size)
    axes.set_xlabel(f"{pair.first}: accuracy on own test rows")
    axes.set_ylabel(pair.second)
    axes.figure.legend(loc="outside lower center", ncols=4)
