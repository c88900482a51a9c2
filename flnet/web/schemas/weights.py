"""The forms in which a node's answers tell how much the updates of each node count."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

WeighedView = Annotated[
    dict[str, dict[str, float | str]],
    Field(
        description="by peer, as far as known: weight, norm, cosine, consistency, reason (docs/merging-rules.md)"
    ),
]
RuleView = Annotated[str, Field(description="by which updates become one model, as FLNET_AGGREGATION is written")]


class LittleView(BaseModel):
    """A node whose updates count little in the averages that are made here."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # as of all views

    peer: str
    since: int = Field(description="the first round of those in which they do")
    weight: float | None = Field(description="in the newest average that gave it one, in [0, 1]")
    fair: float | None = Field(
        description="the share that it would have had there by its examples, at most an equal one"
    )
    reason: str = Field(description="why its newest update did not count; empty if it did")


class GainsRoundView(BaseModel):
    """What each peer brought to one round."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    round: int
    accuracy: float = Field(description="of the average of all, on the own test split")
    examples: int = Field(description="rows of that split")
    seconds: float = Field(description="that it took")
    without: dict[str, float] = Field(description="by peer: the accuracy of the average without its update")


class GainsView(BaseModel):
    """What each peer brings, as this node alone knows it (FLNET_LEAVE_ONE_OUT)."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    on: bool = Field(description="whether that is to be measured")
    why_not: str = Field(description="why the newest round was not measured; empty if it was, or is to be")
    rounds: list[GainsRoundView] = Field(
        description="those that were measured since this node started, oldest first"
    )
