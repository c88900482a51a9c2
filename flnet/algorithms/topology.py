"""How the updates of a round travel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flnet.text import text

MOST_COPIES = 9


@dataclass(frozen=True)
class Topology:
    """The topology of a job's rounds; the same on all nodes.

    Attributes:
        kind: "mesh": each node sends its update to all others. "segments": to each node the segment that it averages.
        copies: how many nodes average each segment.
    """

    kind: Literal["mesh", "segments"] = "mesh"
    copies: int = 1

    @classmethod
    def read(cls, words: str) -> Topology:
        """Read "mesh", "segments" or "segments:3".

        Raises:
            ValueError: it is none of these.
        """
        kind, colon, copies = words.partition(":")
        if kind == "mesh" and not colon:
            return cls()
        if kind == "segments" and not colon:
            return cls("segments")
        if kind == "segments" and copies.isascii() and copies.isdigit() and 1 <= int(copies) <= MOST_COPIES:
            return cls("segments", int(copies))
        raise ValueError(
            text("expected mesh, segments or segments:3, with 1 to {most} nodes for each segment", MOST_COPIES)
        )

    @property
    def meaning(self) -> str:
        """What people are told of it; empty for a mesh."""
        if self.kind == "mesh":
            return ""
        if self.copies == 1:
            return text("in segments, each averaged by one node")
        return text("in segments, each averaged by {count} nodes, of which most must agree", self.copies)

    @property
    def words(self) -> str:
        """The text that nodes compare with each other; empty for a mesh."""
        return "" if self.kind == "mesh" else f"segments:{self.copies}"
