"""The forms in which a node tells its own people what a model shows on the rows that it has."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from flnet.messages import HexDigest, Unit

_CONFIG = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # as of all views
Shares = Annotated[
    list[list[Unit]],
    Field(description="a row for each own class, a column for each desired one"),
]


class SpaceView(BaseModel):
    """A label space."""

    model_config = _CONFIG

    id: str
    classes: list[str] = Field(description="in the order of their numbers")


class ShownModel(BaseModel):
    """The model that was looked at."""

    model_config = _CONFIG

    digest: HexDigest
    round: int
    accuracy: Unit | None


class WaitingView(BaseModel):
    """Why coarse labels do not teach yet."""

    model_config = _CONFIG

    from_round: int = Field(description="number of the first round in which they may teach")
    share: Unit = Field(description="of the own rows: on which the model is sure")
    needed: Unit = Field(description="which share it takes")
    judged: int = Field(description="rows behind that share")


class LabelsView(BaseModel):
    """How the classes of this node's label space correspond to those in which the model answers."""

    model_config = _CONFIG

    kind: Literal["labels"]
    space: SpaceView = Field(description="of the own rows, J classes")
    desired: SpaceView = Field(description="of the answers, K classes")
    estimated: bool = Field(description="whether nobody said it, so that it is found from confident guesses")
    pooled: bool = Field(description="whether the nodes pool their counts, so that the others know a histogram")
    threshold: Unit = Field(description="from which probability on a guess is counted")
    matrix: Shares | None = Field(
        description="J x K: the chance of each own label in each desired class; null before the first estimate"
    )
    deviation: list[list[float]] | None = Field(
        description="J x K: standard deviation of each entry, of a Dirichlet column; null where it is no estimate"
    )
    counts: list[list[int]] | None = Field(
        description="J x K: how often each own label met each confident guess; null where it is no estimate"
    )
    waiting: WaitingView | None = Field(description="null where nothing is waited for")
    model: ShownModel


class GroupingView(BaseModel):
    """One number of groups."""

    model_config = _CONFIG

    k: int
    inertia: float = Field(description="mean squared distance of a row to the middle of its group")
    silhouette: float | None = Field(
        description="from -1 to 1: how much nearer rows are to their own group than to another; null for one"
    )


class GroupsView(BaseModel):
    """How many groups the own rows have."""

    model_config = _CONFIG

    kind: Literal["groups"]
    rows: int = Field(description="own training rows")
    judged: int = Field(description="rows that were drawn from them for this")
    compared: int = Field(description="rows of these that silhouettes compare")
    model: ShownModel
    common: GroupingView = Field(description="the groups of the common model, on the rows that were judged")
    tried: list[GroupingView] = Field(description="k-means on these rows alone, of rising numbers of groups")
    bend: int = Field(description="the number of groups at which the inertia bends most")
