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
