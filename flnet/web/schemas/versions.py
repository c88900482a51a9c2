"""The form in which a node's answers tell of versions, where there are no common rounds."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

_CONFIG = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # as of all views


class PeerVersionView(BaseModel):
    """What this node knows of a peer's versions, where there are no common rounds."""

    model_config = _CONFIG

    peer: str
    version: int | None = Field(description="the newest one that it told")
    merged: int | None = Field(description="the newest one that was merged here")
    into: int | None = Field(description="the own version that came of that")
    at: float | None = Field(description="when that was ready, in seconds since 1970 by this node's clock")
    newer: bool = Field(description="whether the newest one is still to be merged")
    reachable: bool


class VersionsView(BaseModel):
    """Versions, where there are no common rounds."""

    model_config = _CONFIG

    own: int = Field(description="number of the newest own version; 0 before the first training")
    peers: list[PeerVersionView]
