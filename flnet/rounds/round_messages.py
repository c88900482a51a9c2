"""The messages of a round that a node sends: its start, the node's update, or that the node takes no part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flnet.protocol.messages import ChoiceMessage, ModelParams, SeriesMessage, StartTraining
from flnet.protocol.updates import RoundKey, Update
from flnet.rounds.model import Model
from flnet.rounds.settings import JobSettings


@dataclass(frozen=True)
class RoundMessages:
    """Makes the messages of one round.

    Attributes:
        choice: of who trains; None where all nodes do.
        run: of the initiator's node, in which it started the round, as far as is known.
    """

    settings: JobSettings
    key: RoundKey
    choice: ChoiceMessage | None = None
    run: str | None = None

    def start(self, model: Model, series: SeriesMessage | None) -> StartTraining:
        """The start of the round.

        Args:
            model: that the round starts from.
            series: with a goal, that the round belongs to.
        """
        fields: dict[str, Any] = {
            "base_round": model.round,
            "contributors": model.contributors,
            "digest": model.shared.digest,
            "restored_at": model.restored_at,
            "series": series,
            "choice": self.choice,
            "run": self.run,
        }
        return self.settings.message(StartTraining, self.key, **fields)

    def update(self, own: Update, seconds: float | None) -> ModelParams:
        """The message that brings, or offers, the node's update.

        Args:
            seconds: for which it trained.
        """
        fields = {**stated(own), "staleness": own.staleness or None, "choice": self.choice, "run": self.run}
        digest = own.params.digest
        return self.settings.message(ModelParams, self.key, **fields, seconds=seconds, digest=digest)

    def decline(self, reason: str, late: bool) -> ModelParams:
        """The message that the node takes no part, so that nobody waits for it.

        Args:
            late: whether its training goes on, and counts in a later round.
        """
        fields: dict[str, Any] = {"declined": reason[:500], "choice": self.choice, "late": late or None}
        return self.settings.message(ModelParams, self.key, examples=0, **fields)


def stated(update: Update) -> Mapping[str, Any]:
    """What a node states of its update, in rounds and in versions."""
    contribution = update.contribution
    fields: dict[str, Any] = {
        "examples": update.examples,
        "labels": update.labels,
        "accuracy": update.accuracy,
        "base": update.base,
    }
    if contribution is not None:
        fields["schema_digest"] = contribution.schema
        fields |= {"key": contribution.key or None, "signature": contribution.signature or None}
    return fields
