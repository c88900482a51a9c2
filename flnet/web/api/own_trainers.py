"""No-code trainers that nodes show each other: this node's own, those of the others, and taking one over."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict
from quart import request

from flnet.datasets.guess import stated
from flnet.errors import DataThere, ImportRefused, InvalidMessage, NoRoom
from flnet.node.interface import Node, View
from flnet.node.own_trainers import PATH
from flnet.params.params import TrainerId
from flnet.settings import Settings
from flnet.web.api.data_import import import_body
from flnet.web.auth.permissions import Who
from flnet.web.body import MULTIPART, Files, hand_on_body
from flnet.web.routes import JOBS, UNREADABLE, Api

api = Api()
OFFERS = "/trainers/offers"


class OfferedTrainer(BaseModel):
    """The id of a trainer, and the options of its file but for the place of its data."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    id: str
    description: dict[str, Any]


class OfferedTrainers(BaseModel):
    """All trainers that a node shows."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    trainers: list[OfferedTrainer]


class OfferOfPeer(OfferedTrainer):
    """A trainer that another node shows, checked: the digest of its description, and its lines in a file here."""

    peer: str
    digest: str
    lines: str


class TakenOver(BaseModel):
    """The trainer that was taken over, and whether FLNET_TRAINERS has to name it before the next start."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    trainer_id: str
    must_be_named: bool


@api.get(PATH, JOBS, answer=OfferedTrainers)
async def offered(node: Node) -> View:
    """Describe the no-code trainers that this node offers to others (`offered = true`); never their data."""
    return {"trainers": list(await node.own_trainers.offered())}


@api.get(OFFERS, JOBS, answer=list[OfferOfPeer], who=Who.OPERATOR)
async def offers(node: Node) -> list[View]:
    """Ask the other nodes which no-code trainers they offer that this node does not have."""
    return [
        {
            "id": offer.name,
            "description": stated(offer.own),
            "peer": offer.peer,
            "digest": offer.digest,
            "lines": offer.lines,
        }
        for offer in await node.own_trainers.offers()
    ]


@api.post(
    OFFERS,
    JOBS,
    types=(MULTIPART,),
    answer=TakenOver,
    status=201,
    refuses=(*UNREADABLE, InvalidMessage, ImportRefused, DataThere, NoRoom),
    body=import_body,
)
async def take_over(node: Node, settings: Settings) -> View:
    """Take over a trainer that another node offers: a form with peer, name, digest, and then files of data, if any."""
    trainer, _ = await taken_from_request(node)
    return {"trainer_id": trainer, "must_be_named": bool(settings.trainers)}


async def taken_from_request(node: Node) -> tuple[TrainerId, str]:
    """Take over the trainer that the form in the current request names; its id, and the peer that offers it.

    Raises:
        PeerError: it was refused; nothing has changed.
    """
    files = await files_from_request(node)
    peer, name, digest = (files.fields.get(field, "") for field in ("peer", "name", "digest"))
    return await node.own_trainers.take_over(peer, name, digest, files.upload), peer


async def files_from_request(node: Node) -> Files:
    """The files for a new trainer, and the fields of the form, in the current request.

    Raises:
        PeerError: they cannot be taken in; nothing is left of them.
    """
    files = Files(
        lambda _: node.own_trainers.begin(), request.mimetype, request.mimetype_params, name="", replace=True
    )
    try:
        await hand_on_body(files)
    except BaseException:
        if files.upload is not None:
            files.upload.discard()
        raise
    return files
