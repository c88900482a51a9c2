"""The views of what a model shows on the own rows, for people of this node: label spaces, numbers of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quart import Blueprint, Response, request

from flnet.node.base import Node, View
from flnet.params import TrainerId
from flnet.postponing import postponed
from flnet.web.frame import language_of_request
from flnet.web.view import NONE, count, text
from flnet.web.views.frame import Choice, choices, show
from flnet.web.words import Translate

with postponed("flnet.web.charts"):  # until somebody looks
    from flnet.web import charts

MOST_ROWS, MOST_COLUMNS = 40, 30  # of a matrix; the rest is in the JSON
SHADES = 9  # of a cell, beside its number: 0 for none


@dataclass(frozen=True)
class Cell:
    """One pair of classes: the chance, how far an estimate may be off, the rows behind it, and how dark it is."""

    share: str
    spread: str
    rows: str
    shade: int


@dataclass(frozen=True)
class MatrixRow:
    """One of the own classes."""

    name: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class MatrixView:
    """A correspondence as a table.

    Attributes:
        seen: rows behind each column of an estimate; empty where nothing is estimated.
        unseen: names of the columns of an estimate behind which no row stands.
        hidden_rows, hidden_columns: how many are not shown.
    """

    columns: tuple[str, ...]
    rows: tuple[MatrixRow, ...]
    seen: tuple[str, ...]
    unseen: str
    hidden_rows: int
    hidden_columns: int


@dataclass(frozen=True)
class WaitingWords:
    """Why labels do not teach yet, in numbers to be put into a sentence."""

    from_round: str
    share: str
    needed: str
    judged: str


@dataclass(frozen=True)
class GroupRow:
    """One number of groups."""

    k: str
    inertia: str
    silhouette: str
    is_bend: bool
    is_best: bool


@dataclass(frozen=True)
class GroupsShown:
    """An elbow with silhouettes.

    Attributes:
        common: the common model's groups.
        has_negative: whether a silhouette is below 0, so that there is no picture of them.
    """

    common: GroupRow
    tried: tuple[GroupRow, ...]
    elbow: charts.Chart | None
    silhouettes: charts.Chart | None
    has_negative: bool


def findings_views(routes: Blueprint, node: Node) -> None:
    """GET /view/labels/<trainer> and /view/groups/<trainer>; ?digest= names another model than the one held."""

    @routes.get("/view/labels/<trainer>")
    async def labels(trainer: str) -> Response:
        job = node.job(TrainerId(trainer))
        found = await node.studies.findings(TrainerId(trainer), "labels", request.args.get("digest"))
        return await show(
            "labels.html",
            **_common(node, "labels", trainer, job, found),
            space=text(found["space"]["id"], 64),
            desired=text(found["desired"]["id"], 64),
            estimated=found["estimated"],
            pooled=found.get("pooled") is True,
            threshold=f"{found['threshold']:g}",
            matrix=matrix_view(found),
            waiting=waiting_words(found.get("waiting")),
        )

    @routes.get("/view/groups/<trainer>")
    async def groups(trainer: str) -> Response:
        job = node.job(TrainerId(trainer))
        found = await node.studies.findings(TrainerId(trainer), "groups", request.args.get("digest"))
        return await show(
            "groups.html",
            **_common(node, "groups", trainer, job, found),
            groups=groups_view(found, language_of_request()),
            rows=count(found["rows"]),
            judged=count(found["judged"]),
            compared=count(found["compared"]),
        )


def matrix_view(found: View) -> MatrixView | None:
    """The table of a correspondence; None while there is no estimate."""
    matrix: Sequence[Sequence[float]] | None = found.get("matrix")
    if matrix is None:
        return None
    names = [text(name, 60) for name in found["desired"]["classes"]]
    own = [text(name, 60) for name in found["space"]["classes"]]
    counts: Sequence[Sequence[int]] = found.get("counts") or ()
    seen = [sum(column) for column in zip(*counts, strict=True)]
    rows = [
        MatrixRow(name, tuple(_cell(found, row, column) for column in range(min(len(names), MOST_COLUMNS))))
        for row, name in enumerate(own[:MOST_ROWS])
    ]
    return MatrixView(
        tuple(names[:MOST_COLUMNS]),
        tuple(rows),
        tuple(count(rows) for rows in seen[:MOST_COLUMNS]),
        ", ".join(name for name, rows in zip(names, seen, strict=False) if not rows),
        max(0, len(own) - MOST_ROWS),
        max(0, len(names) - MOST_COLUMNS),
    )


def waiting_words(waiting: View | None) -> WaitingWords | None:
    """How far a warm-up is; None where nothing is waited for."""
    if not waiting:
        return None
    share, needed = (f"{100 * waiting[name]:.0f} %" for name in ("share", "needed"))
    return WaitingWords(str(waiting["from_round"]), share, needed, count(waiting["judged"]))


def groups_view(found: View, t: Translate) -> GroupsShown:
    """The numbers of groups that were tried, in words and as charts."""
    tried: Sequence[Mapping[str, Any]] = found["tried"]
    known = [one["silhouette"] for one in tried if one["silhouette"] is not None]
    best = max(known, default=None)
    rows = [_group_row(one, one["k"] == found["bend"], one["silhouette"] == best) for one in tried]
    has_negative = min(known, default=0) < 0
    return GroupsShown(
        _group_row(found["common"], is_bend=False, is_best=False),
        tuple(rows),
        _chart([(one["k"], one["inertia"]) for one in tried], t),
        None if has_negative else _chart(_with_silhouettes(tried), t),
        has_negative,
    )


def _with_silhouettes(tried: Sequence[Mapping[str, Any]]) -> list[tuple[int, float]]:
    return [(one["k"], one["silhouette"]) for one in tried if one["silhouette"] is not None]


def _chart(points: Sequence[tuple[int, float]], t: Translate) -> charts.Chart | None:
    name = t("with {count} groups", count=points[-1][0]) if points else ""  # beside it stands the last figure
    return charts.figure_chart([charts.Series(name, tuple(points))], lambda value: f"{value:.3g}")


def _group_row(one: Mapping[str, Any], is_bend: bool, is_best: bool) -> GroupRow:
    silhouette = one["silhouette"]
    words = NONE if silhouette is None else f"{silhouette:.3f}"
    return GroupRow(str(one["k"]), f"{one['inertia']:.4g}", words, is_bend, is_best and silhouette is not None)


def _cell(found: View, row: int, column: int) -> Cell:
    share = found["matrix"][row][column]
    deviation, counts = found.get("deviation"), found.get("counts")
    spread = f"{deviation[row][column]:.3f}" if deviation else ""
    return Cell(f"{share:.3f}", spread, count(counts[row][column]) if counts else "", round(SHADES * share))


def _common(node: Node, view: str, trainer: str, job: View, found: View) -> dict[str, Any]:
    """What both views say: of which job and which model, and which other jobs there are."""
    model = found["model"]
    round = model.get("round")
    return {
        "trainer": trainer,
        "label": text(job.get("trainer_label")) or text(trainer),
        "sample": (job.get("data") or {}).get("sample") is True,
        "digest": text(model.get("digest"))[:12],
        "round": str(round) if isinstance(round, int) and round >= 0 else "",
        "choices": _choices(node, view, trainer),
    }


def _choices(node: Node, view: str, trainer: str) -> list[Choice]:
    """The jobs that have something of this kind to show."""
    return [one for one in choices(node, view, trainer) if node.job(TrainerId(one.id)).get("finds") == view]
