"""What a person asks of a node, and the answers."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import AfterValidator, ConfigDict, Field

from flnet.messages.base import HyperParams, Message, Name, Round
from flnet.messages.series import MAX_ROUNDS, Until
from flnet.setting_types import check_merging_rule

MOST_ROUNDS = 100  # of a series with a goal, if nobody says


class PersonMessage(Message):
    """What a person sends: nothing unknown is accepted."""

    model_config = ConfigDict(extra="forbid")


class Trigger(PersonMessage):
    """POST /training/trigger: start `rounds` rounds, one after the other.

    Attributes:
        rounds: how many; with `until`, how many at most, a hundred if nothing is said.
        until: a goal that ends the series on all nodes, such as "accuracy>=0.98, no-gain 5 0.001".
    """

    path: ClassVar[str] = "/training/trigger"

    trainer_id: Name
    rounds: int = Field(default=1, ge=1, le=MAX_ROUNDS)
    until: Until | None = None
    federated_learning_params: HyperParams | None = None

    @property
    def most(self) -> int:
        """How many rounds are asked for, at most."""
        return MOST_ROUNDS if self.until and "rounds" not in self.model_fields_set else self.rounds


class EditHyperParams(PersonMessage):
    """PATCH /jobs/{trainerId}/params: change some of them; what is absent stays.

    Attributes:
        aggregation: the merging rule of the job from now on, as FLNET_AGGREGATION is written.
    """

    e: int | None = Field(default=None, ge=1, le=10_000)
    u: float | None = Field(default=None, gt=0, le=1_000)
    b: int | None = Field(default=None, ge=1, le=1_000_000)
    aggregation: Annotated[str, Field(max_length=200), AfterValidator(check_merging_rule)] | None = None


class PlanRounds(PersonMessage):
    """PUT /jobs/{trainerId}/schedule: when rounds start by themselves here.

    Attributes:
        when: such as "every 6h, new 100"; "never" for no schedule, None for that of the node's settings.
    """

    when: Annotated[str, Field(max_length=200)] | None


class Triggered(Message):
    """The answer to Trigger: the number of the (first) round that was started."""

    trainer_id: Name
    round: Round
