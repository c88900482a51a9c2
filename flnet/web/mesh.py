"""GET /mesh: this node and its peers with their jobs, for pictures and charts. What peers say is checked here.

And DELETE /peers/{peer}, by which a person forgets one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from quart import Blueprint, Response

from flnet.jobs import Phase
from flnet.messages import LAST_ROUND, MAX_PEERS, HexDigest, Name, Unit
from flnet.node.base import Node, View
from flnet.settings import Settings
from flnet.web.answers import json_answer
from flnet.web.body import read_body

MAX_JOBS = 100  # of one node
MAX_WORDS = 500  # characters of a reason


def _else(instead: Any) -> WrapValidator:
    """What breaks its rule stands in the answer as this."""

    def validate(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
        try:
            return check(value)
        except ValidationError:
            return instead

    return WrapValidator(validate)


def _good_ones(kind: Any, most: int) -> BeforeValidator:
    """Of a list, the first `most` entries without those that break their rule; of anything else nothing."""
    adapter = TypeAdapter(kind, config=None if isinstance(kind, type) else ConfigDict(strict=True))

    def validate(value: Any) -> list[Any]:
        entries = value[:most] if isinstance(value, list | tuple) else []
        return [good for entry in entries for good in _tried(adapter.validate_python, entry)]

    return BeforeValidator(validate)


def _tried(check: Callable[[Any], Any], value: Any) -> list[Any]:
    try:
        return [check(value)]
    except ValidationError:
        return []


def _shown(value: Any) -> str:
    """Words on one line, and not too many of them."""
    return "".join(sign if sign.isprintable() else " " for sign in str(value)[:MAX_WORDS])


class _Said(BaseModel):
    """What a node says; no field can hold anything but what its type allows."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False, defer_build=True)


class MeshJob(_Said):
    """One trainer on one node; accuracies are on that node's own test split, in [0, 1]."""

    trainer_id: Name
    current_round: Annotated[int, Field(ge=-1, le=LAST_ROUND), _else(-1)] = -1
    phase: Annotated[Phase | None, Field(strict=False), _else(None)] = None
    paused: Annotated[bool, _else(False)] = False
    pre_fedavg_accuracy: Annotated[Unit | None, _else(None)] = None
    post_fedavg_accuracy: Annotated[Unit | None, _else(None)] = None
    digest: Annotated[HexDigest | None, _else(None)] = None
    waiting_for: Annotated[list[Name], _good_ones(Name, MAX_PEERS)] = []


class MeshNode(_Said):
    """One node: where it is, whether it answers, and its jobs.

    Attributes:
        state: as the membership names it, such as "alive", "suspect", "dead", "left", "pending".
        reason: why it does not answer, or why nothing is known of its jobs.
        fingerprint: of its key, the short form; empty for a node that has none.
        key: its public key; empty for a node that has none.
        disputed: whether another node claims its name, and is refused.
        rtt_ms: round-trip time to it, smoothed, in milliseconds; None for this node, and where none was measured.
    """

    id: Name
    address: str
    state: Annotated[str, BeforeValidator(_shown), Field(max_length=MAX_WORDS)]
    reason: Annotated[str, BeforeValidator(_shown)] = ""
    me: bool = False
    version: Annotated[Annotated[str, Field(pattern=r"^[0-9A-Za-z.+-]{1,40}$")] | None, _else(None)] = None
    fingerprint: str = ""
    key: str = ""
    disputed: bool = False
    rtt_ms: Annotated[float, Field(ge=0)] | None = None
    jobs: Annotated[list[MeshJob], _good_ones(MeshJob, MAX_JOBS)] = []


class Mesh(_Said):
    """The answer: this node first, then the others."""

    nodes: list[MeshNode]


def mesh_routes(node: Node, settings: Settings) -> Blueprint:
    """The endpoint that a picture of the mesh is drawn from, and the one that forgets a peer."""
    routes = Blueprint("mesh", __name__)

    @routes.get("/mesh")
    async def mesh() -> Response:
        return json_answer(mesh_of(node, await node.peer_infos(), settings.listen_address).model_dump(mode="json"))

    @routes.delete("/peers/<path:peer>")  # a name may hold a slash
    async def forget(peer: str) -> Response:
        await read_body()  # nothing is expected in it
        return json_answer(list(await node.forget(peer)))

    return routes


def mesh_of(node: Node, peer_infos: Sequence[View], host: str) -> Mesh:
    """The mesh as this node sees it.

    Args:
        peer_infos: what the peers said of themselves, unchecked; see `flnet.node.base.Node.peer_infos`.
        host: where this node listens, if it was not told at which address its peers reach it.
    """
    info, asked = node.info(), {one["id"]: one for one in peer_infos}
    me = MeshNode(
        id=node.me.id,
        address=node.me.model_copy(update={"ip": node.me.ip or host.strip("[]")}).address,
        state="alive",
        me=True,
        version=info["version"],
        fingerprint=info.get("fingerprint", ""),
        key=info.get("key", ""),
        jobs=info["jobsInfo"],
    )
    peers = [_peer(peer, asked.get(peer["id"], {})) for peer in node.peers()]
    return Mesh(nodes=[me, *peers])


def _peer(known: View, asked: View) -> MeshNode:
    said = asked.get("info") or {}
    return MeshNode(
        id=known["id"],
        address=known["address"],
        state=known["state"],
        reason=known.get("reason") or asked.get("error") or "",
        version=said.get("version"),
        fingerprint=known.get("fingerprint", ""),
        key=known.get("key", ""),
        disputed=known.get("disputed", False),
        rtt_ms=known.get("rtt_ms"),
        jobs=said.get("jobsInfo", []),
    )
