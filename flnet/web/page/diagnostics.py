"""The pages of diagnostics: label spaces, groups of rows, what a model gives away, which classes it mistakes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quart import Response, request

from flnet.node.interface import Node, PeerInfo, View
from flnet.params.params import TrainerId
from flnet.rounds.view import JobView
from flnet.text import text
from flnet.web import charts
from flnet.web.auth.permissions import Who
from flnet.web.formatting import NONE, accuracy, count, one_line
from flnet.web.page.frame import Choice, choices, show
from flnet.web.routes import Pages
from flnet.web.translation import Translate, request_translator

pages = Pages()
MOST_ROWS, MOST_COLUMNS = 40, 30  # of a matrix; the rest is in the JSON
FEW_TESTED = 100  # rows: with them an accuracy of 0.8 is uncertain by 0.08 (95 %)
FIGURES = {
    "accuracy": text("Accuracy"),
    "balanced_accuracy": text("Balanced accuracy"),
    "f1_macro": text("F1 macro"),
    "auc": text("AUC"),
    "precision_macro": text("Precision macro"),
    "recall_macro": text("Recall macro"),
}
FEW_ROWS = 200  # of one kind: chance alone reaches 0.09 and more
SHADES = 9  # of a cell, in addition to its number: 0 for none


@dataclass(frozen=True)
class MatrixCell:
    """One pair of classes: the chance, how far an estimate may be off, the rows behind it, and how dark it is."""

    share: str
    spread: str
    rows: str
    shade: int


@dataclass(frozen=True)
class MatrixRow:
    """One of the own classes."""

    name: str
    cells: tuple[MatrixCell, ...]


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
class ConfusedRow:
    """The rows of one class: what was predicted for them, how many they are, and the share that was told rightly."""

    name: str
    cells: tuple[MatrixCell, ...]
    total: str
    recall: str


@dataclass(frozen=True)
class ConfusionTable:
    """Which classes are mistaken for which; `hidden` classes with few rows are left out."""

    columns: tuple[str, ...]
    rows: tuple[ConfusedRow, ...]
    hidden: int


@dataclass(frozen=True)
class NodeScore:
    """What a model reaches on the test rows of one node."""

    node: str
    accuracy: str
    rows: str


@dataclass(frozen=True)
class WaitingWords:
    """Why coarse labels are not used for training yet, in figures for a sentence."""

    from_round: str
    share: str
    needed: str
    judged: str


@dataclass(frozen=True)
class GroupRow:
    """The quality of one number of groups."""

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


@pages.get("/view/labels/<trainer>", Who.OPERATOR)
async def labels(node: Node, trainer: TrainerId) -> Response:
    """How the labels of the own rows correspond to those of the answers; ?digest= names another model."""
    findings = await node.studies.findings(trainer, "labels", request.args.get("digest"))
    return await show(
        "labels.html",
        **_common(node, "labels", trainer, findings),
        space=one_line(findings["space"]["id"], 64),
        desired=one_line(findings["desired"]["id"], 64),
        estimated=findings["estimated"],
        pooled=findings.get("pooled") is True,
        threshold=f"{findings['threshold']:g}",
        matrix=matrix_view(findings),
        waiting=waiting_words(findings.get("waiting")),
    )


@pages.get("/view/groups/<trainer>", Who.OPERATOR)
async def groups(node: Node, trainer: TrainerId) -> Response:
    """How many groups the own rows have; ?digest= names another model."""
    findings = await node.studies.findings(trainer, "groups", request.args.get("digest"))
    return await show(
        "groups.html",
        **_common(node, "groups", trainer, findings),
        groups=groups_view(findings, request_translator()),
        rows=count(findings["rows"]),
        judged=count(findings["judged"]),
        compared=count(findings["compared"]),
    )


@pages.get("/view/leaks/<trainer>", Who.OPERATOR)
async def leaks(node: Node, trainer: TrainerId) -> Response:
    """How much a model gives away of the own rows; ?digest= names another model."""
    findings = await node.studies.findings(trainer, "leaks", request.args.get("digest"))
    figures = ("advantage", "low", "high", "by_chance", "by_mean", "auc")
    shown: dict[str, Any] = {
        **{name: f"{findings[name]:.3f}" for name in figures},
        **{name: count(findings[name]) for name in ("members", "others")},
        **{f"{side}_rows": count(rows) for side, rows in findings["rows"].items()},
        "few": min(findings["members"], findings["others"]) < FEW_ROWS,
    }
    return await show("leaks.html", **_common(node, "leaks", trainer, findings), **shown, seen=findings["seen"])


@pages.get("/view/confusion/<trainer>", Who.OPERATOR)
async def confusion(node: Node, trainer: TrainerId) -> Response:
    """Which classes a model mistakes for which; ?digest= names another model."""
    findings = await node.studies.findings(trainer, "confusion", request.args.get("digest"))
    shown = confusion_view(findings)
    return await show(
        "confusion.html",
        **_common(node, "confusion", trainer, findings),
        table=shown,
        figures=figure_rows(findings["figures"]),
        rows=count(findings["rows"]),
        judged=count(findings["judged"]),
        few=findings["judged"] < FEW_TESTED,
        nodes=same_model(node.me.id, findings, node.job(trainer), await node.peer_infos()),
        together=node.job(trainer).mesh,
    )


def figure_rows(figures: Mapping[str, float]) -> list[tuple[str, str]]:
    """The figures that people compare, with their names."""
    return [(words, accuracy(figures[name])) for name, words in FIGURES.items() if name in figures]


def confusion_view(findings: View) -> ConfusionTable:
    """The table of mistakes; of many classes those with most rows."""
    matrix: Sequence[Sequence[int]] = findings["matrix"]
    names = [one_line(name, 60) for name in findings["classes"]]
    order = sorted(range(len(names)), key=lambda place: -sum(matrix[place]))
    kept = sorted(order[:MOST_COLUMNS])
    recalls: Sequence[float | None] = findings["each"].get("recall") or [None] * len(names)
    rows = []
    for place in kept:
        total = sum(matrix[place])
        cells = tuple(
            MatrixCell("", "", count(matrix[place][column]) or "0", _shade(matrix[place][column], total))
            for column in kept
        )
        rows.append(
            ConfusedRow(names[place], cells, count(total) or "0", accuracy(recalls[place]) if total else NONE)
        )
    return ConfusionTable(tuple(names[place] for place in kept), tuple(rows), len(names) - len(kept))


def _shade(number: int, total: int) -> int:
    return round(SHADES * number / total) if total else 0


def same_model(me: str, findings: View, job: JobView, infos: Sequence[PeerInfo]) -> tuple[NodeScore, ...]:
    """What nodes that hold the same model say that it reaches on their own test rows, this one first."""
    digest = findings["model"].get("digest")
    own = NodeScore(
        one_line(me, 64), accuracy(findings["figures"].get("accuracy")), count(findings["judged"]) or NONE
    )
    theirs = [(info.id, peer) for info in infos if (peer := info.job(job.trainer_id)) and peer.digest == digest]
    return (
        own,
        *(
            NodeScore(
                one_line(name, 64), accuracy(peer.post_fedavg_accuracy), count(peer.data.rows.get("test")) or NONE
            )
            for name, peer in theirs[:MOST_COLUMNS]
        ),
    )


def matrix_view(findings: View) -> MatrixView | None:
    """The table of a correspondence; None while there is no estimate."""
    matrix: Sequence[Sequence[float]] | None = findings.get("matrix")
    if matrix is None:
        return None
    names = [one_line(name, 60) for name in findings["desired"]["classes"]]
    own = [one_line(name, 60) for name in findings["space"]["classes"]]
    counts: Sequence[Sequence[int]] = findings.get("counts") or ()
    seen = [sum(column) for column in zip(*counts, strict=True)]
    rows = [
        MatrixRow(name, tuple(_cell(findings, row, column) for column in range(min(len(names), MOST_COLUMNS))))
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


def groups_view(findings: View, t: Translate) -> GroupsShown:
    """The numbers of groups that were tried, in words and as charts."""
    tried: Sequence[Mapping[str, Any]] = findings["tried"]
    known = [grouping["silhouette"] for grouping in tried if grouping["silhouette"] is not None]
    best = max(known, default=None)
    rows = [
        _group_row(grouping, grouping["k"] == findings["bend"], grouping["silhouette"] == best)
        for grouping in tried
    ]
    has_negative = min(known, default=0) < 0
    return GroupsShown(
        _group_row(findings["common"], is_bend=False, is_best=False),
        tuple(rows),
        _chart([(grouping["k"], grouping["inertia"]) for grouping in tried], t),
        None if has_negative else _chart(_with_silhouettes(tried), t),
        has_negative,
    )


def _with_silhouettes(tried: Sequence[Mapping[str, Any]]) -> list[tuple[int, float]]:
    return [(grouping["k"], grouping["silhouette"]) for grouping in tried if grouping["silhouette"] is not None]


def _chart(points: Sequence[tuple[int, float]], t: Translate) -> charts.Chart | None:
    name = t("with {count} groups", count=points[-1][0]) if points else ""  # beside it stands the last figure
    return charts.figure_chart([charts.ChartSeries(name, tuple(points))], lambda value: f"{value:.3g}")


def _group_row(grouping: Mapping[str, Any], is_bend: bool, is_best: bool) -> GroupRow:
    silhouette = grouping["silhouette"]
    words = NONE if silhouette is None else f"{silhouette:.3f}"
    return GroupRow(
        str(grouping["k"]), f"{grouping['inertia']:.4g}", words, is_bend, is_best and silhouette is not None
    )


def _cell(findings: View, row: int, column: int) -> MatrixCell:
    share = findings["matrix"][row][column]
    deviation, counts = findings.get("deviation"), findings.get("counts")
    spread = f"{deviation[row][column]:.3f}" if deviation else ""
    return MatrixCell(f"{share:.3f}", spread, count(counts[row][column]) if counts else "", round(SHADES * share))


def _common(node: Node, view: str, trainer: TrainerId, findings: View) -> dict[str, Any]:
    """Template values of all these pages: the job, the model, and the other jobs."""
    job = node.job(trainer)
    model = findings["model"]
    round = model.get("round")
    return {
        "trainer": trainer,
        "label": job.label,
        "sample": job.data.sample,
        "digest": one_line(model.get("digest"))[:12],
        "round": str(round) if isinstance(round, int) and round >= 0 else "",
        "choices": _choices(node, view, trainer),
    }


def _choices(node: Node, view: str, trainer: str) -> list[Choice]:
    """The jobs that have something of this kind to show."""
    jobs = [(choice, node.job(TrainerId(choice.id))) for choice in choices(node, view, trainer)]
    is_open = view in ("leaks", "confusion")  # to every job whose rows have classes
    return [choice for choice, job in jobs if (job.measures_leaks if is_open else job.finds == view)]
