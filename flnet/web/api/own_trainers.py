"""GET /trainers/offered: the descriptions of no-code trainers that this node shows to others."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from flnet.node.interface import Node, View
from flnet.node.own_trainers import PATH
from flnet.web.routes import JOBS, Api

api = Api()


class OfferedTrainer(BaseModel):
    """The id of a trainer, and the options of its file but for the place of its data."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    id: str
    description: dict[str, Any]


class OfferedTrainers(BaseModel):
    """All trainers that a node shows."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    trainers: list[OfferedTrainer]


@api.get(PATH, JOBS, answer=OfferedTrainers)
async def offered(node: Node) -> View:
    """Describe the no-code trainers that this node offers to others (`offered = true`); never their data."""
    return {"trainers": list(await node.own_trainers.offered())}
