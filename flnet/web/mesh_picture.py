"""The mesh as a picture: nodes on a circle and lines between them, as coordinates for the template."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from flnet.web.view import PeerView, text

WIDTH, HEIGHT = 400, 320
MAX_NODES = 50  # on the circle; the table has all
ALL_EDGES_UP_TO = 12  # nodes; beyond that only this node's lines are drawn
_LABELS_UP_TO = 24  # nodes; beyond that the names would cover each other


@dataclass(frozen=True)
class Dot:
    """One node of the picture.

    Attributes:
        state: "self", or what the node knows of the peer: "alive", "unreachable".
        anchor: where the label begins, as SVG names it: start, middle or end.
        label: short enough for the picture, or empty.
    """

    id: str
    state: str
    x: float
    y: float
    label: str
    label_x: float
    label_y: float
    anchor: str


@dataclass(frozen=True)
class Edge:
    """A line between two nodes; `up` when both can be reached from here."""

    a: str
    b: str
    x1: float
    y1: float
    x2: float
    y2: float
    up: bool


@dataclass(frozen=True)
class Picture:
    """All that is drawn; `hidden` nodes did not fit."""

    dots: tuple[Dot, ...]
    edges: tuple[Edge, ...]
    hidden: int


def mesh_picture(me: str, peers: Sequence[PeerView]) -> Picture:
    """This node at the top of a circle and its peers around it, in the order of their ids."""
    around = sorted(peers, key=lambda peer: peer.id)[: MAX_NODES - 1]
    nodes = [(me, "self"), *((peer.id, peer.state) for peer in around)]
    dots = tuple(_dot(place, len(nodes), name, state) for place, (name, state) in enumerate(nodes))
    pairs = [(a, b) for i, a in enumerate(dots) for b in dots[i + 1 :]]
    if len(dots) > ALL_EDGES_UP_TO:
        pairs = pairs[: len(dots) - 1]  # those of this node come first
    return Picture(dots, tuple(_edge(a, b) for a, b in pairs), len(peers) - len(around))


def _dot(place: int, of: int, name: str, state: str) -> Dot:
    angle = 2 * math.pi * place / of
    right, down = math.sin(angle), -math.cos(angle)
    x, y = WIDTH / 2 + 0.27 * WIDTH * right, HEIGHT / 2 + 0.36 * HEIGHT * down
    side = "middle" if abs(right) < 0.3 else "start" if right > 0 else "end"
    label = text(name, 14) if of <= _LABELS_UP_TO else ""
    label_x, label_y = x + (0 if side == "middle" else 16 * right), y + (22 if down > 0 else -22) * abs(down)
    return Dot(name, state, round(x, 1), round(y, 1), label, round(label_x, 1), round(label_y + 4, 1), side)


def _edge(a: Dot, b: Dot) -> Edge:
    up = all(dot.state in ("self", "alive") for dot in (a, b))
    return Edge(a.id, b.id, a.x, a.y, b.x, b.y, up)
