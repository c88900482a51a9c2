"""This node and its peers, with their jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from flnet.errors import StillThere, UnknownPeer
from flnet.names import DEFAULT_MESH, is_name
from flnet.node import interface
from flnet.node.interface import Node, PeerInfo
from flnet.protocol.messages import LAST_ROUND, HexDigest, Name, Peer, StateWord, Unit
from flnet.rounds.steps import Phase
from flnet.rounds.view import JobView, View
from flnet.settings import Settings
from flnet.text import Text, Words
from flnet.web.routes import MESH, Api

api = Api()
MAX_WORDS = 500  # characters of a reason


def _shown(value: Any) -> str:
    """Words on one line, and not too many of them."""
    if isinstance(value, Text) and value.isprintable() and len(value) <= MAX_WORDS:
        return value
    return "".join(sign if sign.isprintable() else " " for sign in str(value)[:MAX_WORDS])


class _Said(BaseModel):
    """Base of a node's statements; each field has only values of its type."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False, defer_build=True)


class MeshJob(_Said):
    """The job of one trainer on one node. Accuracies are measured on that node's test split, in [0, 1]."""

    trainer_id: Name
    current_round: Annotated[int, Field(ge=-1, le=LAST_ROUND)] = -1
    phase: Annotated[Phase | None, Field(strict=False)] = None
    paused: bool = False
    figures_round: Annotated[int | None, Field(ge=-1, le=LAST_ROUND)] = None
    pre_fedavg_accuracy: Unit | None = None
    post_fedavg_accuracy: Unit | None = None
    digest: HexDigest | None = None
    waiting_for: list[Name] = []

    @classmethod
    def of(cls, job: JobView) -> MeshJob | None:
        """Read the view of a job, which may be incomplete; None if it names no trainer."""
        if not is_name(job.trainer_id):
            return None
        return cls(
            trainer_id=job.trainer_id,
            current_round=max(job.current_round, -1),
            phase=job.phase if "phase" in job.model_fields_set else None,
            paused=job.paused,
            figures_round=None if job.figures_round is None else max(job.figures_round, -1),
            pre_fedavg_accuracy=job.pre_fedavg_accuracy,
            post_fedavg_accuracy=job.post_fedavg_accuracy,
            digest=job.digest,
            waiting_for=[name for name in job.waiting_for if is_name(name)],
        )


class MeshNode(_Said):
    """One node: its address, its state and its jobs.

    Attributes:
        machine: name of its machine, if it was given no name of its own; "" otherwise.
        state: state in the membership, such as "alive", "suspect", "dead", "left", "pending".
        reason: why it does not answer, or why nothing is known of its jobs; of this node, why it is thought to be out of
            the others' reach.
        fingerprint: short fingerprint of its key; empty if it has none.
        key: its public key; empty if it has none.
        disputed: whether another node claims its name and is refused.
        rtt_ms: smoothed round-trip time in milliseconds; None for this node, and if it was not measured.
        signs_with_other_key: whether it signed its last request with the second of two mesh keys; None while this node
            accepts only one.
    """

    id: Name
    address: str
    state: Annotated[str, BeforeValidator(_shown), Field(max_length=MAX_WORDS)]
    reason: Annotated[Words, BeforeValidator(_shown)] = ""
    machine: Annotated[str, BeforeValidator(_shown), Field(max_length=MAX_WORDS)] = ""
    me: bool = False
    version: Annotated[str, Field(pattern=r"^[0-9A-Za-z.+-]{1,40}$")] | None = None
    fingerprint: str = ""
    key: str = ""
    disputed: bool = False
    rtt_ms: Annotated[float, Field(ge=0)] | None = None
    signs_with_other_key: bool | None = None
    jobs: list[MeshJob] = []


class Mesh(_Said):
    """This node and its peers; this node comes first."""

    nodes: list[MeshNode]


class PeerView(View):
    """What this node knows about another one."""

    id: str
    ip: str | None
    port: str
    address: str
    state: StateWord
    reason: str = Field(description="why the node is not considered alive")
    incarnation: int = Field(description="how often a suspicion against the node was refuted")
    fingerprint: str = Field(default="", description="short fingerprint of its key; empty if it has none")
    key: str = Field(default="", description="its public key; empty if it has none")
    disputed: bool = Field(default=False, description="whether another node claims its name and is refused")
    rtt_ms: float | None = Field(default=None, description="smoothed round-trip time in milliseconds")
    signs_with_other_key: bool | None = Field(
        default=None,
        description="whether it signed its last request with the second mesh key; null while only one is accepted "
        "(docs/keyed-meshes.md)",
    )


class InfoView(View):
    """This node, its jobs and its peers."""

    iAm: Peer  # as it stands on the wire
    fingerprint: str = Field(default="", description="short fingerprint of this node's key")
    key: str = Field(default="", description="the public key by which this node is known")
    mesh: str = Field(default=DEFAULT_MESH, description="name of the mesh (docs/settings.md, FLNET_MESH_NAME)")
    mode: Literal["open", "keyed", "pinned"] = Field(
        default="open", description="which nodes may take part (docs/settings.md, FLNET_MESH_MODE)"
    )
    machine: str = Field(default="", description="name of the machine of a node that was given no name")
    unreached: str = Field(default="", description="why this node is thought to be out of the others' reach")
    relayPort: int | None = Field(
        default=None,
        description="the port at which this node, as a relay, takes requests of nodes that others do not reach "
        "(docs/settings.md, FLNET_RELAY)",
    )
    jobsInfo: list[JobView]
    lastNodeStatus: Literal["IDLE", "BUSY"]
    peers: list[PeerView]
    version: str
    signWithOtherKey: list[str] | None = Field(
        default=None,
        description="while this node accepts two mesh keys: peers that signed their last request with the second one "
        "(docs/keyed-meshes.md)",
    )


@api.get("/info", MESH, answer=InfoView)
async def info(node: Node) -> interface.View:
    """This node, its jobs and its peers."""
    return node.info()


@api.get("/peers", MESH, answer=list[PeerView])
async def peers(node: Node) -> Sequence[interface.View]:
    """The other nodes."""
    return list(node.peers())


@api.get("/mesh", MESH, answer=Mesh)
async def mesh(node: Node, settings: Settings) -> dict[str, Any]:
    """This node, its peers and their jobs, for diagrams and charts."""
    return mesh_of(node, await node.peer_infos(), settings.listen_address).model_dump(mode="json")


@api.delete("/peers/<path:peer>", MESH, answer=list[PeerView], refuses=(UnknownPeer, StillThere))
async def forget(node: Node, peer: str) -> Sequence[interface.View]:  # a name may hold a slash
    """Forget a peer that is dead or left, or whose name another node claims. Its name is free again."""
    return list(await node.forget(peer))


def mesh_of(node: Node, peer_infos: Sequence[PeerInfo], host: str) -> Mesh:
    """The mesh as this node sees it.

    Args:
        host: where this node listens, if it was not told at which address its peers reach it.
    """
    info, answers = node.info(), {answer.id: answer for answer in peer_infos}
    me = MeshNode(
        id=node.me.id,
        address=node.me.model_copy(update={"ip": node.me.ip or host.strip("[]")}).address,
        state="alive",
        me=True,
        machine=info.get("machine", ""),
        reason=info.get("unreached", ""),
        version=info["version"],
        fingerprint=info.get("fingerprint", ""),
        key=info.get("key", ""),
        jobs=_mesh_jobs(node.all_jobs()),
    )
    return Mesh(nodes=[me, *(_peer(peer, answers.get(peer["id"])) for peer in node.peers())])


def _peer(peer: interface.View, answer: PeerInfo | None) -> MeshNode:
    return MeshNode(
        id=peer["id"],
        address=peer["address"],
        state=peer["state"],
        reason=peer.get("reason") or (answer.error if answer else "") or "",
        machine=answer.machine if answer else "",
        version=answer.version if answer else None,
        fingerprint=peer.get("fingerprint", ""),
        key=peer.get("key", ""),
        disputed=peer.get("disputed", False),
        rtt_ms=peer.get("rtt_ms"),
        signs_with_other_key=peer.get("signs_with_other_key"),
        jobs=_mesh_jobs(answer.jobs if answer else ()),
    )


def _mesh_jobs(jobs: Iterable[JobView]) -> list[MeshJob]:
    return [made for job in jobs if (made := MeshJob.of(job)) is not None]
