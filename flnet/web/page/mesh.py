"""The mesh on the first page: a table of the nodes, and a picture with nodes on one or two circles."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from flnet.rounds.steps import Phase
from flnet.text import text
from flnet.web.api.mesh import Mesh, MeshJob, MeshNode
from flnet.web.formatting import accuracy, one_line
from flnet.web.page.job_card import PHASES
from flnet.web.page.keys import Identity, accept_url, distrust_url, forget_url, identity_of

JOBS_SHOWN = 8  # of one node
NAMES_SHOWN = 8  # of those that a node waits for
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
STATES = (
    text("alive"),
    text("suspect"),
    text("dead"),
    text("left"),
    text("pending"),
    text("forgotten"),
)  # that have a shape and a colour of their own
APART = ("pending", "forgotten")  # states of nodes that are no members
_CHIPS = {"alive": "calm", "dead": "bad"}  # of the others: "warn"
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}")
Letters = Mapping[tuple[str, str], str]  # by trainer and digest


@dataclass(frozen=True)
class NodeJob:
    """One trainer on one node.

    Attributes:
        round: -1 before the first.
        phase: in English words; empty while nothing goes on.
        older_round: round of the accuracy; None where it is that of `round`, or not known.
        digest: the beginning of the held model's digest; empty where none is known.
        letter: the same for all nodes with the same model of this trainer; empty without another.
        waits_for: ids, all of them; `waits` are the same in words.
    """

    trainer: str
    label: str
    round: int
    phase: str
    is_paused: bool
    accuracy: str
    older_round: int | None
    digest: str
    letter: str
    waits_for: tuple[str, ...]
    waits: str


@dataclass(frozen=True)
class NodeRow:
    """One node of the mesh.

    Attributes:
        name: by which people know it: that of its machine where it was given none, else its id.
        look: the state where it has a shape of its own, or "other".
        chip: the class of the state's chip.
        identity: its key as people compare it; None without one.
        forget: the address that asks whether to forget it; empty where it cannot be.
        accept: the address of the form that accepts it; empty for who is a member.
        rtt: round-trip time in words; empty for this node, and where none was measured.
        other_key: whether it signs with the second of two mesh keys; None while only one is accepted.
        hidden: jobs that are not listed.
    """

    id: str
    name: str
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
    other_key: bool | None
    version: str
    jobs: tuple[NodeJob, ...]
    hidden: int


def mesh_rows(mesh: Mesh, labels: Mapping[str, str], *, pinned: bool = False) -> tuple[NodeRow, ...]:
    """A row per node, this node first. Nodes on one machine are told apart by their ports.

    Args:
        labels: of this node's own trainers, by their ids.
        pinned: whether the mesh is pinned, and nodes speak TLS.
    """
    letters = _letters(mesh)
    rows = [_row(node, labels, letters, pinned) for node in mesh.nodes]
    count = Counter(row.name for row in rows)
    several = [row for row in rows if count[row.name] > 1 and row.name != row.id]
    apart = {row.id: f"{row.name}:{row.address.rpartition(':')[2]}" for row in several}
    return tuple(replace(row, name=apart.get(row.id, row.name)) for row in rows)


def page_url(address: str, scheme: str = "http") -> str:
    """The page of the node at this address; empty for what is no address."""
    return f"{scheme}://{address}/" if _ADDRESS.fullmatch(address) else ""


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
    letters: dict[tuple[str, str], str] = {}
    for trainer, digests in held.items():
        if digests.total() > 1:
            ranked = sorted(digests, key=lambda digest: (-digests[digest], digest))
            letters |= {(trainer, digest): letter for digest, letter in zip(ranked, LETTERS, strict=False)}
    return letters


def _row(node: MeshNode, labels: Mapping[str, str], letters: Letters, pinned: bool) -> NodeRow:
    address, state, identity = one_line(node.address), one_line(node.state, 20), identity_of(node.key)
    is_apart = node.me or state in APART
    return NodeRow(
        id=one_line(node.id),
        name=one_line(node.machine or node.id),
        me=node.me,
        address=address,
        url="" if is_apart else page_url(address, "https" if pinned else "http"),
        state=state,
        look=state if state in STATES else "other",
        chip=_CHIPS.get(state, "warn"),
        note=one_line(node.reason, 500),
        identity=identity,
        forget="" if is_apart else _forget(node, state, identity, pinned),
        accept=accept_url(identity.fingerprint) if identity and state in APART else "",
        rtt=rtt_words(node.rtt_ms),
        other_key=node.signs_with_other_key,
        version=node.version or "",
        jobs=tuple(_job(job, labels, letters) for job in node.jobs[:JOBS_SHOWN]),
        hidden=max(0, len(node.jobs) - JOBS_SHOWN),
    )


def _forget(node: MeshNode, state: str, identity: Identity | None, pinned: bool) -> str:
    """The form that forgets a node: its key in a pinned mesh, at any time; else its name, if the node is gone."""
    return distrust_url(identity.fingerprint) if pinned and identity else forget_url(node.id, state, node.disputed)


def _job(job: MeshJob, labels: Mapping[str, str], letters: Letters) -> NodeJob:
    waits_for, digest = tuple(job.waiting_for), job.digest or ""
    return NodeJob(
        trainer=job.trainer_id,
        label=one_line(labels.get(job.trainer_id, job.trainer_id), 64),
        round=job.current_round,
        phase="" if job.phase in (None, Phase.IDLE) else PHASES[job.phase],
        is_paused=job.paused,
        accuracy="" if job.post_fedavg_accuracy is None else accuracy(job.post_fedavg_accuracy),
        older_round=None if job.figures_round == job.current_round else job.figures_round,
        digest=digest[:8],
        letter=letters.get((job.trainer_id, digest), ""),
        waits_for=waits_for,
        waits=_names(waits_for),
    )


def _names(names: Sequence[str]) -> str:
    rest = len(names) - NAMES_SHOWN
    return ", ".join(one_line(name, 64) for name in names[:NAMES_SHOWN]) + (f" +{rest}" if rest > 0 else "")


ALL_EDGES_UP_TO = 12  # nodes; beyond that only this node's lines are drawn, and labels turn outwards
ONE_RING_UP_TO = 30  # nodes; beyond that this node is in the middle of two rings
INNER_LABELS_UP_TO = (
    20  # nodes of the inner ring; beyond that every second one has no label, but for those in trouble
)
MAX_NODES = 91  # in the picture; the table has all
MAX_ARROWS = 60


@dataclass(frozen=True)
class Dot:
    """One node of the picture.

    Attributes:
        name: by which people know it.
        look: its shape: "self", or what the membership says of it.
        letter: of the model that it holds; empty where there is none, or more than one trainer.
        label: short enough for the picture, or empty; `turn` in degrees about its beginning, 0 for none.
        anchor: where the label begins, as SVG names it: start, middle or end.
    """

    id: str
    name: str
    look: str
    x: float
    y: float
    letter: str
    label: str
    label_x: float
    label_y: float
    anchor: str
    turn: float


@dataclass(frozen=True)
class Edge:
    """A line between two nodes; `look` is the worse of their states."""

    a: str
    b: str
    x1: float
    y1: float
    x2: float
    y2: float
    look: str


@dataclass(frozen=True)
class Arrow:
    """A node waits for what another one is to send; `path` is what the attribute d of an SVG path takes."""

    waiting: str
    awaited: str
    path: str


@dataclass(frozen=True)
class Picture:
    """All that is drawn; `hidden` nodes did not fit, `looks` are those that the legend explains."""

    width: int
    height: int
    size: str
    dots: tuple[Dot, ...]
    edges: tuple[Edge, ...]
    arrows: tuple[Arrow, ...]
    looks: tuple[tuple[str, str], ...]
    has_letters: bool
    hidden: int


@dataclass(frozen=True)
class _Place:
    """The position of a node, its direction from the centre, and whether there is room for its name."""

    x: float
    y: float
    right: float
    down: float
    is_labelled: bool = True


def mesh_picture(nodes: Sequence[NodeRow]) -> Picture:
    """This node, which comes first, and its peers in the order of their ids."""
    me, around = nodes[0], sorted(nodes[1:], key=lambda node: node.id)
    shown = [me, *around[: MAX_NODES - 1]]
    size = "small" if len(shown) <= ALL_EDGES_UP_TO else "medium" if len(shown) <= ONE_RING_UP_TO else "large"
    width, height = {"small": (460, 320), "medium": (530, 530), "large": (600, 600)}[size]
    places = list(_two_rings(len(shown)) if size == "large" else _one_ring(len(shown), size))
    is_compared = len({job.trainer for node in shown for job in node.jobs}) == 1
    dots = tuple(_dot(node, place, size, is_compared) for node, place in zip(shown, places, strict=True))
    looks = {dot.look: node.state for dot, node in zip(dots, shown, strict=True)}
    order = ("self", *STATES, "other")
    return Picture(
        width,
        height,
        size,
        dots,
        tuple(_edges(dots)),
        tuple(_arrows(shown, dots))[:MAX_ARROWS],
        tuple((look, looks[look]) for look in order if look in looks),
        any(dot.letter for dot in dots),
        len(nodes) - len(shown),
    )


def _one_ring(count: int, size: str) -> Iterator[_Place]:
    """This node at the top, the others round in the sense of a clock."""
    centre_x, centre_y, wide, high = (230, 160, 108, 115.2) if size == "small" else (265, 265, 150, 150)
    for place in range(count):
        angle = 2 * math.pi * place / count
        right, down = math.sin(angle), -math.cos(angle)
        yield _Place(centre_x + wide * right, centre_y + high * down, right, down)


def _two_rings(count: int) -> Iterator[_Place]:
    """This node in the middle; a third of the others near it, so that the lines to the rest pass between them."""
    yield _Place(300, 300, 0, 0)
    inner = max(1, (count - 1) // 3)
    outer = count - 1 - inner
    for ring, radius, start in ((inner, 100, 0.5), (outer, 200, 0.0)):
        for place in range(ring):
            angle = 2 * math.pi * (place + start) / ring
            right, down = math.sin(angle), -math.cos(angle)
            is_labelled = radius == 200 or ring <= INNER_LABELS_UP_TO or place % 2 == 0
            yield _Place(300 + radius * right, 300 + radius * down, right, down, is_labelled)


def _dot(node: NodeRow, place: _Place, size: str, is_compared: bool) -> Dot:
    look = "self" if node.me else node.look
    letters = {job.letter for job in node.jobs} if is_compared else set()
    label = one_line(node.name, 14 if size != "large" else 11)
    if not place.is_labelled and look in ("self", "alive"):
        label = ""
    x, y, anchor, turn = _upright(place) if size == "small" or node.me else _turned(place)
    return Dot(
        node.id,
        node.name,
        look,
        round(place.x, 1),
        round(place.y, 1),
        letters.pop() if len(letters) == 1 else "",
        label,
        round(x, 1),
        round(y + 4, 1),
        anchor,
        turn,
    )


def _upright(place: _Place) -> tuple[float, float, str, float]:
    """A label next to its node; above or below it if the node is near the middle line."""
    right, down = place.right, place.down
    anchor = "middle" if abs(right) < 0.3 else "start" if right > 0 else "end"
    x = place.x + (0 if anchor == "middle" else 18 * right)
    return x, place.y + (24 if down > 0 else -22) * max(abs(down), 0 if right else 1), anchor, 0.0


def _turned(place: _Place) -> tuple[float, float, str, float]:
    """A label that leads away from the middle and is never upside down."""
    degrees = math.degrees(math.atan2(place.down, place.right))
    is_left = place.right < -1e-9
    turn = round(degrees + 180 if is_left else degrees, 1)
    return place.x + 14 * place.right, place.y + 14 * place.down, "end" if is_left else "start", turn % 360


def _edges(dots: Sequence[Dot]) -> Iterator[Edge]:
    for place, a in enumerate(dots if len(dots) <= ALL_EDGES_UP_TO else dots[:1]):
        for b in dots[place + 1 :]:
            if "forgotten" in (a.look, b.look) or ("pending" in (a.look, b.look) and a.look != "self"):
                continue  # it speaks with none of them
            worse = next((dot.look for dot in (a, b) if dot.look not in ("self", "alive")), "alive")
            yield Edge(a.id, b.id, a.x, a.y, b.x, b.y, worse)


def _arrows(nodes: Sequence[NodeRow], dots: Sequence[Dot]) -> Iterator[Arrow]:
    """Bent, so that the lines of two nodes that wait for each other do not overlap."""
    where = {dot.id: dot for dot in dots}
    for node, a in zip(nodes, dots, strict=True):
        for awaited in sorted({name for job in node.jobs for name in job.waits_for}):
            b = where.get(awaited)
            if b is not None and b is not a:
                yield Arrow(a.id, b.id, _bent(a, b))


def _bent(a: Dot, b: Dot) -> str:
    """A curve from the rim of one node to the rim of the other, bent by a sixth of the distance."""
    dx, dy = b.x - a.x, b.y - a.y
    length = math.hypot(dx, dy) or 1.0
    via_x, via_y = (a.x + b.x) / 2 - dy / 6, (a.y + b.y) / 2 + dx / 6
    rim = min(16.0, length / 4)

    def toward(dot: Dot) -> tuple[float, float]:
        far = math.hypot(via_x - dot.x, via_y - dot.y) or 1.0
        return dot.x + rim * (via_x - dot.x) / far, dot.y + rim * (via_y - dot.y) / far

    (x1, y1), (x2, y2) = toward(a), toward(b)
    return f"M{x1:.1f} {y1:.1f}Q{via_x:.1f} {via_y:.1f} {x2:.1f} {y2:.1f}"
