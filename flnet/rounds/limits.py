"""What the start of another node may ask of this node: epochs, size and number of batches, learning rate.

A start names hyper-parameters, and every node that takes part trains by them. One message must not keep a node busy for
days, fill its memory, or make its training diverge. The operator of a node is not bound by these limits in rounds that
start here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flnet.protocol.events import Declaration
from flnet.protocol.messages import HyperParams
from flnet.text import text

# By which trainers name their own limits:
EPOCHS, BATCH_SIZE, BATCHES, LEARNING_RATE = "epochs", "batch_size", "batches", "learning_rate"
ROUNDING = 1e-9  # relative; ten times 0.0008, as a person writes it, is not beyond the limit


@dataclass(frozen=True)
class Limits:
    """The most that a start of another node may ask for, as this node's settings have it.

    A trainer may declare less. Its own defaults are always allowed.

    Attributes:
        epochs: passes over the training rows.
        batch_size: examples in a batch.
        batches: in all epochs together.
        learning_rate: as a multiple of the one that the trainer declares as its default.
        own: hyper-parameters (e, u, b) that this node trains with whatever a start says.
    """

    epochs: int
    batch_size: int
    batches: int
    learning_rate: float
    own: Mapping[str, float] = field(default_factory=dict)

    def exceeded(self, hyper: HyperParams, declared: Declaration) -> str:
        """Which limit these hyper-parameters exceed: what was expected and what came; empty if none."""
        rows = declared.training_rows
        asked, usual = self._sizes(hyper, rows), self._sizes(declared.defaults, rows)
        rate = self.learning_rate * declared.defaults.u
        most = {EPOCHS: self.epochs, BATCH_SIZE: self.batch_size, BATCHES: self.batches, LEARNING_RATE: rate}
        for name, number in asked.items():
            limit = max(usual[name], min(most[name], declared.limits.get(name, most[name])))
            if number > limit * (1 + ROUNDING):
                return _refusal(name, limit, number)
        return ""

    def _sizes(self, hyper: HyperParams, rows: int) -> Mapping[str, float]:
        """What a training takes on so many rows; 0 rows: nobody knows how many there are."""
        hyper = hyper.model_copy(update=dict(self.own))
        sizes = {EPOCHS: hyper.e, LEARNING_RATE: hyper.u}
        if not rows:
            return {**sizes, BATCH_SIZE: hyper.b}
        return {**sizes, BATCH_SIZE: min(hyper.b, rows), BATCHES: hyper.e * -(-rows // hyper.b)}


def _refusal(name: str, most: float, got: float) -> str:
    match name:
        case "learning_rate":
            return text(
                "the start asks for too much: expected a learning rate of at most {most} in a round of another node, "
                "got {got}",
                f"{most:g}",
                f"{got:g}",
            )
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
