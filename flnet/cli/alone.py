"""What training together brought: the nodes' models beside those they get from their own data alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from rich.table import Table

from flnet.cli.client import View
from flnet.cli.figures import ACCURACY, Figures, chosen
from flnet.cli.tables import table
from flnet.cli.text import accuracy, printable

__all__ = ["Comparison", "comparison_table", "different_data"]

EQUAL = 0.00005  # less is not seen in four digits


@dataclass(frozen=True)
class Comparison:
    """The same nodes after the same number of rounds; by node, the accuracy and the trainer's further figures.

    Attributes:
        together: after the last average.
        alone: of the model that never met another.
    """

    together: Mapping[str, Figures]
    alone: Mapping[str, Figures]

    def names(self, every: bool) -> list[str]:
        """The figures that some node has in both; the accuracy first."""
        shared = [name for node, figures in self.together.items() for name in figures if self.pair(node, name)]
        return [ACCURACY, *chosen(shared, every)]

    def pair(self, node: str, name: str) -> tuple[float, float] | None:
        """A node's figure together and alone; None unless it has both."""
        both = self.together[node].get(name), self.alone.get(node, {}).get(name)
        return None if both[0] is None or both[1] is None else (both[0], both[1])

    def mean(self, name: str) -> tuple[float, float] | None:
        """The means together and alone, over the nodes that have both."""
        pairs = [pair for node in self.together if (pair := self.pair(node, name))]
        return (fmean(one for one, _ in pairs), fmean(other for _, other in pairs)) if pairs else None

    def words(self) -> str:
        """Which mean accuracy is higher, and by how much."""
        mean = self.mean(ACCURACY)
        if mean is None:
            return "no node has an accuracy both together and alone: there is nothing to compare"
        together, alone = mean
        difference = together - alone
        verdict = (
            "they are equal in four digits"
            if abs(difference) < EQUAL
            else f"{'together' if difference > 0 else 'alone'} it is higher by {abs(difference):.4f}"
        )
        return f"mean accuracy {together:.4f} together and {alone:.4f} alone: {verdict}"


def comparison_table(comparison: Comparison, every: bool) -> Table:
    """For each figure a row per node and one for their mean."""
    shown = table("figure", "node", "together", "alone", "difference", title="Together and alone")
    for name in comparison.names(every):
        for node in comparison.together:
            shown.add_row(printable(name), printable(node), *_cells(comparison.pair(node, name)))
        shown.add_row(printable(name), "mean", *_cells(comparison.mean(name)), end_section=True)
    return shown


def _cells(pair: tuple[float, float] | None) -> Sequence[str]:
    if pair is None:
        return "-", "-", "-"
    return accuracy(pair[0]), accuracy(pair[1]), f"{pair[0] - pair[1]:+.4f}"


def different_data(together: Mapping[str, View], alone: Mapping[str, View]) -> str | None:
    """A warning when a node did not have the same data both times; None when all had."""
    keys = ("source", "rows", "classes", "sample")
    nodes = [
        node
        for node, data in together.items()
        if any(data.get(key) != alone.get(node, {}).get(key) for key in keys)
    ]
    return f"beware: the data changed meanwhile on {', '.join(map(printable, nodes))}" if nodes else None
