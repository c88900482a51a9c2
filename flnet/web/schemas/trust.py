"""The forms in which a node of a pinned mesh tells which keys it knows."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

_CONFIG = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # as of all views


class OwnKeyView(BaseModel):
    """The key of this node, as people at other nodes have to see it."""

    model_config = _CONFIG

    key: str = Field(description="public key in base64")
    fingerprint: str = Field(description="all of it")
    words: str = Field(description="the first six words of it")


class KeyView(BaseModel):
    """A key of another node in a pinned mesh; name and address are what its node said, for people only."""

    model_config = _CONFIG

    name: str
    address: str
    key: str = Field(description="public key in base64; empty until its node called")
    fingerprint: str = Field(description="all of it")
    words: str = Field(description="the first six words of it")
    since: float = Field(description="seconds since the epoch, by this node's clock")
    introduced_by: str | None = Field(description="fingerprint of the introducer that vouches for it")


class AcceptedView(KeyView):
    """A key that is trusted."""

    is_introducer: bool = Field(description="whether those whom its node accepted are accepted here")
    accepted_by: Literal["person", "settings", "introducer"]


class TrustView(BaseModel):
    """All keys that a node of a pinned mesh knows; empty, and own null, in an open or keyed mesh."""

    model_config = _CONFIG

    own: OwnKeyView | None
    pending: list[KeyView] = Field(description="that wait for a person, oldest first")
    accepted: list[AcceptedView]
    refused: list[KeyView] = Field(description="that were rejected or forgotten, and stay out")


class IntroducedView(BaseModel):
    """One node that people accepted here."""

    model_config = _CONFIG

    fingerprint: str
    name: str = Field(description="as the node calls itself; empty while it has not said so")


class IntroductionsView(BaseModel):
    """For whom a node of a pinned mesh vouches."""

    model_config = _CONFIG

    introductions: list[IntroducedView]
