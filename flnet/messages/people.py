"""What a person asks of a node, and the answers."""

from __future__ import annotations

from typing import ClassVar

from pydantic import ConfigDict, Field

from flnet.messages.base import HyperParams, Message, Name, Round


class PersonMessage(Message):
    """What a person sends: nothing unknown is accepted."""

    model_config = ConfigDict(extra="forbid")


class Trigger(PersonMessage):
    """POST /training/trigger: start `rounds` rounds, one after the other."""

    path: ClassVar[str] = "/training/trigger"

    trainer_id: Name
    rounds: int = Field(default=1, ge=1, le=1_000_000)
    federated_learning_params: HyperParams | None = None


class EditHyperParams(PersonMessage):
    """PATCH /jobs/{trainerId}/params: change some of them; what is absent stays."""

    e: int | None = Field(default=None, ge=1, le=10_000)
    u: float | None = Field(default=None, gt=0, le=1_000)
    b: int | None = Field(default=None, ge=1, le=1_000_000)


class Triggered(Message):
    """The answer to Trigger: the number of the (first) round that was started."""

    trainer_id: Name
    round: Round
