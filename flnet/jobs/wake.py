"""What a node has under way when it makes a version of its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from flnet.events import Mark, Version
from flnet.params import Params, PeerId


@dataclass
class Wake:
    """One waking: the peers are asked, newer models fetched and merged, and then this node trains.

    Attributes:
        asked: peers that have not answered yet.
        told: what the others answered.
        fetched: which versions are merged, or will be as soon as they are here.
        merged: shared parameters that the training begins with, where there was something to merge.
        counted: of which peers' versions those are.
    """

    asked: set[PeerId]
    told: dict[PeerId, Version] = field(default_factory=dict)
    fetched: dict[PeerId, Mark] = field(default_factory=dict)
    merged: Params | None = None
    counted: tuple[PeerId, ...] = ()
