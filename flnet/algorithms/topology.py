"""How the updates of a round travel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flnet.aggregation.base import AggregationRule
from flnet.text import text

MOST_COPIES = 9
MOST_NEIGHBOURS = 64
MOST_DIGITS = 4  # of a number
MIXED = ("agg0", "agg1", "agg2")  # aggregation rules with a weight for each pair of nodes


@dataclass(frozen=True)
class Topology:
    """The topology of a job's rounds; the same on all nodes.

    Attributes:
        kind: "mesh": each node sends its update to all others. "segments": to each node the segment that it averages.
            "random" and "ring": to its neighbours alone (`flnet.algorithms.gossip`), drawn in each round or always the
            same.
        copies: how many nodes average each segment.
        neighbours: how many each node has, where it does not send to all.
    """

    kind: Literal["mesh", "segments", "random", "ring"] = "mesh"
    copies: int = 1
    neighbours: int = 2

    @classmethod
    def read(cls, words: str) -> Topology:
        """Read "mesh", "segments", "segments:3", "random:2" or "ring".

        Raises:
            ValueError: it is none of these.
        """
        kind, colon, number = words.partition(":")
        count = int(number) if number.isascii() and number.isdigit() and len(number) <= MOST_DIGITS else 0
        match kind:
            case "mesh" if not colon:
                return cls()
            case "segments" if not colon:
                return cls("segments")
            case "segments" if 1 <= count <= MOST_COPIES:
                return cls("segments", count)
            case "random" if 1 <= count <= MOST_NEIGHBOURS:
                return cls("random", neighbours=count)
            case "ring" if not colon:
                return cls("ring")
        raise ValueError(
            text(
                "expected mesh, segments or segments:3, with 1 to {most} nodes for each segment, random:2, with 1 to "
                "{neighbours} neighbours, or ring",
                MOST_COPIES,
                MOST_NEIGHBOURS,
            )
        )

    @property
    def meaning(self) -> str:
        """What people are told of it; empty for a mesh."""
        match self.kind:
            case "mesh":
                return ""
            case "random":
                return text("to {count} other nodes, drawn in each round", self.neighbours)
            case "ring":
                return text("to the same {count} other nodes in each round", self.neighbours)
        if self.copies == 1:
            return text("in segments, each averaged by one node")
        return text("in segments, each averaged by {count} nodes, of which most must agree", self.copies)

    @property
    def is_sparse(self) -> bool:
        """Whether each node averages with its neighbours alone, so that nodes hold different models."""
        return self.kind in ("random", "ring")

    @property
    def setting(self) -> str:
        """The text that people read, which is that of FLNET_TOPOLOGY."""
        return "segments" if (self.kind, self.copies) == ("segments", 1) else self.words or "mesh"

    @property
    def words(self) -> str:
        """The text that nodes compare with each other; empty for a mesh."""
        match self.kind:
            case "segments":
                return f"segments:{self.copies}"
            case "random":
                return f"random:{self.neighbours}"
        return "" if self.kind == "mesh" else self.kind

    def allows(self, rule: AggregationRule) -> bool:
        """Whether updates that travel so can be aggregated by this rule."""
        if self.kind == "mesh":
            return True
        if self.is_sparse:
            return rule.secure is None and rule.name in MIXED
        return rule.by_number or rule.secure is not None  # masked updates are added number by number
