"""The nodes of the mesh in words: state, distance, who has which model, and who waits for whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flnet.web.identities import Identity, accept_url, distrust_url, forget_url, identity_of
from flnet.web.job_view import NEVER, phase_words
from flnet.web.mesh import Mesh, MeshJob, MeshNode
from flnet.web.view import accuracy, page_url, text

JOBS_SHOWN = 8  # of one node
NAMES_SHOWN = 8  # of those that a node waits for
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
STATES = (
    "alive",
    "suspect",
    "dead",
    "left",
    "pending",
    "forgotten",
)  # that have a shape and a colour of their own
APART = ("pending", "forgotten")  # states of nodes that are no members
_CHIPS = {"alive": "calm", "dead": "bad"}  # of the others: "warn"
Letters = Mapping[tuple[str, str], str]  # by trainer and digest


@dataclass(frozen=True)
class NodeJob:
    """One trainer on one node.

    Attributes:
        phase: in English words; empty while nothing goes on.
        digest: the beginning of the held model's digest; empty where none is known.
        letter: the same for all nodes with the same model of this trainer; empty without another.
        waits_for: ids, all of them; `waits` are the same in words.
    """

    trainer: str
    label: str
    round: str
    phase: str
    is_paused: bool
    accuracy: str
    digest: str
    letter: str
    waits_for: tuple[str, ...]
    waits: str


@dataclass(frozen=True)
class NodeRow:
    """One node of the mesh.

    Attributes:
        look: the state where it has a shape of its own, or "other".
        chip: the class of the state's chip.
        identity: its key as people compare it; None without one.
        forget: the address that asks whether to forget it; empty where it cannot be.
        accept: the address of the form that accepts it; empty for who is a member.
        rtt: round-trip time in words; empty for this node, and where none was measured.
        hidden: jobs that are not listed.
    """

    id: str
    me: bool
    address: str
    url: str
    state: str
    look: str
    chip: str
    note: str
    identity: Identity | None
    forget: str
    accept: str
    rtt: str
    version: str
    jobs: tuple[NodeJob, ...]
    hidden: int


def mesh_rows(mesh: Mesh, labels: Mapping[str, str], *, pinned: bool = False) -> tuple[NodeRow, ...]:
    """A row per node, this node first.

    Args:
        labels: of this node's own trainers, by their ids.
        pinned: whether the mesh is pinned, and nodes speak TLS.
    """
    letters = _letters(mesh)
    return tuple(_row(node, labels, letters, pinned) for node in mesh.nodes)


def rtt_words(milliseconds: float | None) -> str:
    """A round-trip time as people read it; so coarse that it does not change with every look."""
    if milliseconds is None:
        return ""
    if milliseconds < 1:
        return "< 1 ms"
    return f"{milliseconds:.0f} ms" if milliseconds < 10 else f"{float(f'{milliseconds:.1e}'):.0f} ms"


def _letters(mesh: Mesh) -> Letters:
    """A letter for each model; of each trainer, A is what most nodes have. It takes two nodes to compare."""
    held: dict[str, Counter[str]] = {}
    for node in mesh.nodes:
        for job in node.jobs:
            if job.digest:
                held.setdefault(job.trainer_id, Counter())[job.digest] += 1
    found: dict[tuple[str, str], str] = {}
    for trainer, digests in held.items():
        if digests.total() > 1:
            ranked = sorted(digests, key=lambda digest: (-digests[digest], digest))
            found |= {(trainer, digest): letter for digest, letter in zip(ranked, LETTERS, strict=False)}
    return found


def _row(node: MeshNode, labels: Mapping[str, str], letters: Letters, pinned: bool) -> NodeRow:
    address, state, identity = text(node.address), text(node.state, 20), identity_of(node.key)
    is_apart = node.me or state in APART
    return NodeRow(
        id=text(node.id),
        me=node.me,
        address=address,
        url="" if is_apart else page_url(address, "https" if pinned else "http"),
        state=state,
        look=state if state in STATES else "other",
        chip=_CHIPS.get(state, "warn"),
        note=text(node.reason, 500),
        identity=identity,
        forget="" if is_apart else _forget(node, state, identity, pinned),
        accept=accept_url(identity.fingerprint) if identity and state in APART else "",
        rtt=rtt_words(node.rtt_ms),
        version=node.version or "",
        jobs=tuple(_job(job, labels, letters) for job in node.jobs[:JOBS_SHOWN]),
        hidden=max(0, len(node.jobs) - JOBS_SHOWN),
    )


def _forget(node: MeshNode, state: str, identity: Identity | None, pinned: bool) -> str:
    """In a pinned mesh a key is forgotten, at any time; else a name, when its node is gone."""
    return distrust_url(identity.fingerprint) if pinned and identity else forget_url(node.id, state, node.disputed)


def _job(job: MeshJob, labels: Mapping[str, str], letters: Letters) -> NodeJob:
    waits_for, digest = tuple(job.waiting_for), job.digest or ""
    phase = job.phase.value if job.phase else ""
    return NodeJob(
        trainer=job.trainer_id,
        label=text(labels.get(job.trainer_id, job.trainer_id), 64),
        round=NEVER if job.current_round < 0 else str(job.current_round),
        phase="" if phase == "IDLE" else phase_words(phase),
        is_paused=job.paused,
        accuracy="" if job.post_fedavg_accuracy is None else accuracy(job.post_fedavg_accuracy),
        digest=digest[:8],
        letter=letters.get((job.trainer_id, digest), ""),
        waits_for=waits_for,
        waits=_names(waits_for),
    )


def _names(names: Sequence[str]) -> str:
    rest = len(names) - NAMES_SHOWN
    return ", ".join(text(name, 64) for name in names[:NAMES_SHOWN]) + (f" +{rest}" if rest > 0 else "")
