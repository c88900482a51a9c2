"""The part of a job's card that only a vertical job has: who holds what, how far the epoch is, and what it brings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flnet.node.interface import View
from flnet.rounds.view import HolderView, JobView, OwnFiguresView, VerticalView
from flnet.text import text
from flnet.web.charts import AFTER, Chart, ChartSeries, accuracy_chart, figure_chart, points_of
from flnet.web.formatting import NONE, accuracy, count, one_line, size_words
from flnet.web.translation import Translate

HOLDERS_SHOWN = 50
NAMES_SHOWN = 20  # of the columns of one holder
WARNINGS_SHOWN = 10
DEFENCES_SHOWN = 10
EPOCHS_SHOWN = 12
SHOWN_ABOVE = ("loss", "auc", "own_accuracy", "own_auc", "own_loss")  # of the figures of an epoch
METHODS = {
    "split-network": text("split network"),
    "encrypted-regression": text("encrypted regression"),
}
STAGES = {
    "asking": text("Asking who holds columns"),
    "aligning": text("Finding the common rows"),
    "training": text("Training"),
    "closing": text("Measuring"),
}


@dataclass(frozen=True)
class HolderRow:
    """A holder of columns.

    Attributes:
        role: what it holds, in words.
        names: of its columns, as far as its owner shares them.
        defences: how it protects what it sends, as it states it.
        phase: of its job, as it says itself; empty where it does not answer.
        is_part: whether it takes part in the epochs; else it only says that it holds columns.
    """

    peer: str
    is_me: bool
    role: str
    columns: str
    names: str
    defences: tuple[str, ...]
    rows: str
    phase: str
    is_part: bool


@dataclass(frozen=True)
class EpochRow:
    """A round in the table: one epoch, or the attempt at one."""

    number: str
    started_by: str
    loss: str
    accuracy: str
    auc: str
    sent: str
    received: str
    seconds: str
    outcome: str


@dataclass(frozen=True)
class VerticalCard:
    """What the card of a vertical job shows besides the fields of the job's view.

    Attributes:
        method: by which the nodes train; empty where that is not known.
        holders: label holders first.
        stages: words of each stage of the open epoch, and whether it is the current one; none between epochs.
        progress: how far that stage is, in words; empty where it is not known.
        own: figures of the label holder's own columns alone; empty where they are not known.
        gain: what the columns of the others add to them.
        chart: accuracy and AUC by round, also of the own columns alone where they were measured; None without any.
        loss_chart: likewise, of the loss.
        moved: bytes of the job, each way.
        epochs: the newest rounds first.
    """

    method: str
    holders: tuple[HolderRow, ...]
    hidden: int
    stages: tuple[tuple[str, bool], ...]
    progress: str
    accuracy: str
    auc: str
    loss: str
    own: str
    gain: str
    warnings: tuple[str, ...]
    chart: Chart | None
    loss_chart: Chart | None
    moved: str
    epochs: tuple[EpochRow, ...]


def vertical_card(
    node: str,
    job: JobView,
    peers: Mapping[str, JobView],
    history: Sequence[View],
    t: Translate,
) -> VerticalCard | None:
    """The vertical part of a card; None for other jobs.

    Args:
        node: name of this node.
        peers: the same job as its peers tell it, by name.
        history: records of the job's rounds, oldest first.
    """
    view = job.vertical
    if view is None:
        return None
    rows = tuple(_holders(node, job, peers, t))
    return VerticalCard(
        method=METHODS.get(view.method, ""),
        holders=rows[:HOLDERS_SHOWN],
        hidden=max(0, len(rows) - HOLDERS_SHOWN),
        stages=tuple((words, name == view.stage) for name, words in STAGES.items()) if view.stage else (),
        progress=_progress(view, t),
        accuracy=accuracy(view.accuracy),
        auc=_figure(view.auc),
        loss=_figure(view.loss),
        own=_figures(_stated(view.own), t),
        gain=_gain(_stated(view.gain), t),
        warnings=tuple(view.warnings[:WARNINGS_SHOWN]),
        chart=accuracy_chart(_lines(history, t)),
        loss_chart=figure_chart(_loss_lines(history, t), lambda loss: f"{loss:.3g}"),
        moved=t(
            "{sent} sent, {received} received", sent=size_words(view.sent), received=size_words(view.received)
        ),
        epochs=tuple(_epoch(record, t) for record in reversed(history[-EPOCHS_SHOWN:])),
    )


def _lines(history: Sequence[View], t: Translate) -> list[ChartSeries]:
    """Accuracy and AUC of the one model that all holders have together, and of the own columns alone."""
    after = _after(history)
    return [
        ChartSeries(t("Accuracy"), points_of(history, AFTER)),
        ChartSeries(t("AUC"), points_of(after, "after", "auc")),
        ChartSeries(t("AUC of the own columns alone"), points_of(after, "after", "own_auc")),
    ]


def _loss_lines(history: Sequence[View], t: Translate) -> list[ChartSeries]:
    after = _after(history)
    return [
        ChartSeries(t("Loss"), points_of(after, "after", "loss")),
        ChartSeries(t("Loss of the own columns alone"), points_of(after, "after", "own_loss")),
    ]


def _after(history: Sequence[View]) -> list[View]:
    return [{"round": record["round"], **(record.get("metrics") or {})} for record in history]


def _holders(node: str, job: JobView, peers: Mapping[str, JobView], t: Translate) -> Iterator[HolderRow]:
    """Those of the last epoch, and other peers that say that they hold columns; label holders first."""
    view = job.vertical
    assert view is not None
    known = {one_line(holder.peer, 64): holder for holder in view.holders}
    further = {
        name: own
        for name, other in peers.items()
        if name not in known and other.vertical
        for own in other.vertical.holders
        if own.peer == name
    }
    are_agreed = view.epochs > 0 or len(known) > 1
    for name, holder in sorted({**known, **further}.items(), key=lambda row: (not row[1].has_label, row[0])):
        phase = job.phase if name == node else peers[name].phase if name in peers else ""
        yield _holder(name, holder, t, is_me=name == node, phase=phase, is_part=name in known or not are_agreed)


def _holder(name: str, holder: HolderView, t: Translate, *, is_me: bool, phase: str, is_part: bool) -> HolderRow:
    return HolderRow(
        peer=name,
        is_me=is_me,
        role=role_words(holder, t),
        columns=NONE if holder.holds_key else count(holder.columns) or NONE,
        names=_names(holder, t),
        defences=tuple(one_line(words, 200) for words in holder.defences[:DEFENCES_SHOWN]),
        rows=NONE if holder.holds_key else count(holder.rows) or NONE,
        phase=phase,
        is_part=is_part,
    )


def role_words(holder: HolderView, t: Translate) -> str:
    """What a holder has."""
    if holder.holds_key:
        return t("key")
    if holder.has_label and holder.columns:
        return t("label and features")
    return t("label") if holder.has_label else t("features")


def _names(holder: HolderView, t: Translate) -> str:
    if not holder.columns:
        return NONE
    if not holder.names:
        return t("not shared")
    shown = ", ".join(one_line(name, 60) for name in holder.names[:NAMES_SHOWN])
    hidden = max(holder.columns, len(holder.names)) - NAMES_SHOWN
    return t("{names} and {count} more", names=shown, count=hidden) if hidden > 0 else shown


def _progress(view: VerticalView, t: Translate) -> str:
    if view.steps:
        return t("{done} of {total} batches", done=view.step, total=view.steps)
    return t("lists of ids received: {count} parts", count=view.step) if view.step else ""


def _figure(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return NONE
    return f"{value:.4f}"


def _stated(figures: OwnFiguresView | None) -> Mapping[str, float]:
    """Those that are known, as numbers."""
    known: Mapping[str, float] = {} if figures is None else figures.model_dump(exclude_none=True)
    return {name: value for name, value in known.items() if math.isfinite(value)}


def _figures(stated: Mapping[str, float], t: Translate) -> str:
    parts = [t("accuracy {figure}", figure=accuracy(stated["accuracy"]))] if "accuracy" in stated else []
    parts += [t("AUC {figure}", figure=_figure(stated["auc"]))] if "auc" in stated else []
    return ", ".join(parts)


def _gain(stated: Mapping[str, float], t: Translate) -> str:
    points = f"{100 * stated.get('accuracy', 0):+.2f}"
    parts = [t("accuracy {points} percentage points", points=points)] if "accuracy" in stated else []
    parts += [t("AUC {figure}", figure=f"{stated['auc']:+.4f}")] if "auc" in stated else []
    return ", ".join(parts)


def _epoch(record: Mapping[str, Any], t: Translate) -> EpochRow:
    figures = (record.get("metrics") or {}).get("after") or {}
    moved, seconds = record.get("bytes") or {}, record.get("seconds") or {}
    return EpochRow(
        number=one_line(record.get("round")),
        started_by=one_line(record.get("initiator"), 64),
        loss=_figure(figures.get("loss")),
        accuracy=accuracy(record.get("post_fedavg_accuracy")),
        auc=_figure(figures.get("auc")),
        sent=size_words(moved.get("sent", 0)),
        received=size_words(moved.get("received", 0)),
        seconds=f"{sum(seconds.values()):.2f} s" if seconds else NONE,
        outcome=one_line(record.get("outcome"), 500),
    )
