"""Whom this node gains from, for a job's card and as JSON; for persons of this node alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

from quart import Blueprint, Response

from flnet.node.base import Node, View
from flnet.params import TrainerId
from flnet.web.answers import json_answer
from flnet.web.view import accuracy, text

ROWS = 12  # peers in the table: of more, those that bring most and those that bring least


@dataclass(frozen=True)
class GainRow:
    """One peer: the accuracy here without it, and what it brings in percentage points, newest and on average."""

    peer: str
    without: str
    gain: str
    mean: str


@dataclass(frozen=True)
class GainsView:
    """What a card shows of what each peer brings.

    Attributes:
        round: the newest that was measured; empty before the first.
        accuracy: with all, in it, on so many test rows.
        rounds: how many the means are over.
        rows: the peers, the one that brings most first.
        hidden: how many peers have no row.
        why_not: why the newest round was not measured, in words.
    """

    round: str
    accuracy: str
    examples: str
    rounds: int
    rows: tuple[GainRow, ...]
    hidden: int
    why_not: str


def gains_routes(node: Node) -> Blueprint:
    """The endpoint that tells what each peer brings."""
    routes = Blueprint("gains", __name__)

    @routes.get("/jobs/<trainer>/gains")
    async def gains(trainer: str) -> Response:
        return json_answer(node.gains.view(TrainerId(trainer)))

    return routes


def gains_view(found: View) -> GainsView | None:
    """What a card shows; None where nothing is to be measured.

    Args:
        found: as `flnet.node.gains_base.Gains.view` has it.
    """
    if not found.get("on"):
        return None
    rounds: Sequence[Mapping[str, Any]] = found["rounds"]
    newest = rounds[-1] if rounds else {"without": {}}
    gains = {peer: _gains(rounds, peer) for peer in newest["without"]}
    means = {peer: fsum(some) / len(some) for peer, some in gains.items()}
    ranked = sorted(means, key=lambda peer: (-means[peer], peer))
    shown = ranked if len(ranked) <= ROWS else [*ranked[: ROWS // 2], *ranked[-ROWS // 2 :]]
    return GainsView(
        text(newest.get("round")),
        accuracy(newest.get("accuracy")),
        text(newest.get("examples")),
        len(rounds),
        tuple(_row(peer, newest, means[peer]) for peer in shown),
        len(ranked) - len(shown),
        text(found.get("why_not"), 300),
    )


def _gains(rounds: Sequence[Mapping[str, Any]], peer: str) -> list[float]:
    return [one["accuracy"] - one["without"][peer] for one in rounds if peer in one["without"]]


def _row(peer: str, newest: Mapping[str, Any], mean: float) -> GainRow:
    without = newest["without"][peer]
    return GainRow(text(peer, 64), accuracy(without), _points(newest["accuracy"] - without), _points(mean))


def _points(gain: float) -> str:
    """A difference of accuracies in percentage points, never "-0.00"."""
    rounded = math.floor(abs(gain) * 10_000 + 0.5) / 100
    return f"{math.copysign(rounded, gain) if rounded else 0.0:+.2f}"
