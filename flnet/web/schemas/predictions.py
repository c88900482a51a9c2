"""The forms in which a node tells of its models, and of what they say of inputs."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from flnet.messages import HexDigest, Unit
from flnet.web.schemas.choices import ChoiceView

_CONFIG = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # as of all views


class ModelView(BaseModel):
    """A model that is kept here."""

    model_config = _CONFIG

    digest: HexDigest
    round: int
    contributors: int
    accuracy: Unit | None
    exchanged_with: str | None
    bytes: int
    held: bool = Field(description="whether the job goes on from it")
    pinned: bool = Field(default=False, description="whether it is kept until a person unpins it")


class PredictedBy(BaseModel):
    """The model that a prediction is of."""

    model_config = _CONFIG

    digest: HexDigest
    round: int
    accuracy: Unit | None


class CoarseView(BaseModel):
    """What a prediction means in the label space of this node's own rows."""

    model_config = _CONFIG

    space: str
    classes: list[str]
    estimated: bool = Field(description="whether the correspondence of the spaces is estimated")
    probabilities: list[list[float]] = Field(description="empty while nobody knows the correspondence")
    predicted: list[str] = Field(description="a name for each input; empty likewise")


class PredictionView(BaseModel):
    """What a model says of inputs: probabilities, or scores where the trainer gives no probabilities."""

    model_config = _CONFIG

    classes: list[str]
    probabilities: list[list[float]] = []
    scores: list[list[float]] = []
    predicted: list[Any] = Field(description="a name, or a list of names, for each input")
    model: PredictedBy
    note: str
    choice: ChoiceView | None = None
    coarse: CoarseView | None = Field(
        default=None, description="the same in the label space of the own rows, where that is another one"
    )
