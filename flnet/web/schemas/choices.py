"""The form in which a prediction tells which of two models answered."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class ChoiceView(BaseModel):
    """Of a node that has a local model beside the common one."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # as of all views

    answered: list[Literal["local", "global"]] = Field(description="which of them, for each input")
    errors: list[float] = Field(description="how badly an autoencoder of the own data rebuilds each input")
    limit: float | None = Field(description="the error up to which the local one answers; null where none chooses")
