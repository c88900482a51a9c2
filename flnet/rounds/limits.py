"""What the start of another node may ask of this node: how many epochs, how large batches, how many of them.

A start names hyper-parameters, and every node that takes part trains by them. One message must not keep a node busy for
days or fill its memory. The operator of a node is not bound by these limits in rounds that start here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flnet.protocol.events import Declaration
from flnet.protocol.messages import HyperParams
from flnet.text import text

EPOCHS, BATCH_SIZE, BATCHES = "epochs", "batch_size", "batches"  # by which trainers name their own limits


@dataclass(frozen=True)
class Limits:
    """The most that a start of another node may ask for, as this node's settings have it.

    A trainer may declare less. Its own defaults are always allowed.

    Attributes:
        epochs: passes over the training rows.
        batch_size: examples in a batch.
        batches: in all epochs together.
        own: hyper-parameters (e, b) that this node trains with whatever a start says.
    """

    epochs: int
    batch_size: int
    batches: int
    own: Mapping[str, int] = field(default_factory=dict)

    def exceeded(self, hyper: HyperParams, declared: Declaration) -> str:
        """Which limit these hyper-parameters exceed: what was expected and what came; empty if none."""
        rows = int(declared.data.get("rows", {}).get("train", 0))
        asked, usual = self._sizes(hyper, rows), self._sizes(declared.defaults, rows)
        most = {EPOCHS: self.epochs, BATCH_SIZE: self.batch_size, BATCHES: self.batches}
        for name, number in asked.items():
            limit = max(usual[name], min(most[name], declared.limits.get(name, most[name])))
            if number > limit:
                return _refusal(name, limit, number)
        return ""

    def _sizes(self, hyper: HyperParams, rows: int) -> Mapping[str, int]:
        """What a training takes on so many rows; 0 rows: nobody knows how many there are."""
        hyper = hyper.model_copy(update=dict(self.own))
        if not rows:
            return {EPOCHS: hyper.e, BATCH_SIZE: hyper.b}
        return {EPOCHS: hyper.e, BATCH_SIZE: min(hyper.b, rows), BATCHES: hyper.e * -(-rows // hyper.b)}


def _refusal(name: str, most: int, got: int) -> str:
    match name:
        case "epochs":
            return text(
                "the start asks for too much: expected at most {most} epochs in a round of another node, got {got}",
                most,
                got,
            )
        case "batch_size":
            return text(
                "the start asks for too much: expected batches of at most {most} examples in a round of another "
                "node, got {got}",
                most,
                got,
            )
    return text(
        "the start asks for too much: expected at most {most} batches in all in a round of another node, got {got}",
        most,
        got,
    )
