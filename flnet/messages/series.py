"""What travels with messages of a round where part of the mesh trains, or that belongs to a series with a goal.

Older nodes ignore it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from flnet.messages.base import MAX_PEERS, Message, Name, Round, Unit
from flnet.params import Over

Loss = Annotated[float, Field(ge=-1e300, le=1e300)]
MAX_GOAL = 200  # characters
MAX_ROUNDS = 1_000_000


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("only printable characters may stand here")
    return text


Until = Annotated[str, Field(max_length=MAX_GOAL), AfterValidator(_printable)]


class SeriesMessage(Message):
    """Beside a start: the series that the round belongs to, and what its rounds have shown so far.

    Attributes:
        by: the node that was asked for it; with `first`, the name of the series.
        first: its first round.
        until: the goal, as people write it.
        rounds: how many there are at most.
        counted: rounds of which there were reports.
        best: the best mean accuracy so far.
        stale: counted rounds since then.
        means: accuracy and loss of the newest rounds, oldest first.
        total_accuracy, total_loss: sums over all counted rounds.
    """

    by: Name
    first: Round
    until: Until
    rounds: int = Field(ge=1, le=MAX_ROUNDS)
    counted: int = Field(default=0, ge=0, le=MAX_ROUNDS)
    best: Unit | None = None
    stale: int = Field(default=0, ge=0, le=MAX_ROUNDS)
    means: tuple[tuple[Unit, Loss | None], ...] = Field(default=(), max_length=3)
    total_accuracy: float = Field(default=0.0, ge=0, le=MAX_ROUNDS)
    total_loss: Loss | None = 0.0


class ReportMessage(Message):
    """Beside an accuracy: what goes into the decision whether the series is over, the same for every receiver.

    Attributes:
        accuracy: of the sender's average, even where it has adopted another model since.
        loss: of it, where the trainer tells one.
        over: why the series is over for the sender, if it is.
    """

    accuracy: Unit
    loss: Loss | None = None
    over: Over | None = None


class ChoiceMessage(Message):
    """Beside a start, and what nodes say in that round: so many of these members train, chosen by a hash.

    Attributes:
        members: the initiator and the peers that it reached when the round began.
        take: how many of them train.
    """

    members: tuple[Name, ...] = Field(min_length=1, max_length=MAX_PEERS + 1)
    take: int = Field(ge=1, le=MAX_PEERS + 1)
