"""Weights of updates and leave-one-out accuracies on a job's card.

The newest round is a table, the weights of all rounds are a chart. In a large mesh only this node and the updates that
stand out have a row; the others are counted.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

from flnet.node.interface import View
from flnet.rounds.history import fair_shares
from flnet.rounds.view import LittleView
from flnet.web.charts import MAX_LINES, Chart, ChartSeries, figure_chart
from flnet.web.formatting import NONE, accuracy, one_line
from flnet.web.translation import Translate

ROWS = 12  # updates in the table
ROUNDS = 12  # in the table next to the chart
LEAVE_ONE_OUT_ROWS = 12  # peers in the table; of more, those that contribute most and those that contribute least
_MEASURES = ("weight", "norm", "cosine", "consistency")


@dataclass(frozen=True)
class WeightRow:
    """One update of the newest round; `state` is "counts", "little" or "out", and `reason` why it is out."""

    peer: str
    is_me: bool
    figures: tuple[str, ...]  # one for each column
    state: str
    since: str
    reason: str


@dataclass(frozen=True)
class WeightsView:
    """The updates of a job on its card.

    Attributes:
        summary: how many of how many counted, in one line; `spread` from what to what the weights go.
        columns: names of the figures that are known of any update.
        hidden: how many updates have no row.
        chart_name: of the chart; empty without one.
        table: the chart in numbers: the round, and a figure for each of `names`.
        little: whose updates count little now.
    """

    summary: str
    spread: str
    round: str
    columns: tuple[str, ...]
    rows: tuple[WeightRow, ...]
    hidden: int
    chart_name: str
    chart_label: str
    chart: Chart | None
    names: tuple[str, ...]
    table: tuple[tuple[str, tuple[str, ...]], ...]
    little: str


def weights_view(
    me: str, label: str, history: Sequence[View], counts_little: Sequence[LittleView], t: Translate
) -> WeightsView | None:
    """The weights of the updates, from the records of rounds; None if no record has any.

    Args:
        me: this node's name.
        label: of the job.
        history: records of the job's rounds, oldest first.
        counts_little: as the job's view has it.
    """
    records = [record for record in history if record.get("weighed")]
    if not records:
        return None
    newest, since = records[-1], {row.peer: str(row.since) for row in counts_little[:ROWS]}
    weighed: Mapping[str, View] = newest["weighed"]
    shown = _chosen(me, newest, since)
    columns = [name for name in _MEASURES if any(_number(update, name) is not None for update in weighed.values())]
    out = sum(bool(update.get("reason")) for update in weighed.values())
    names = [t("Weight"), t("Length"), t("Direction"), t("Consistency")]
    figure, chart_name, chart_label = _what(records, label, t)
    return WeightsView(
        _summary(newest, out, t),
        _spread(weighed, t),
        one_line(newest.get("round")),
        tuple(names[_MEASURES.index(name)] for name in columns),
        tuple(_row(peer, me, weighed[peer], columns, since) for peer in shown),
        len(weighed) - len(shown),
        chart_name,
        chart_label,
        _chart(_series(records, shown[:MAX_LINES], figure), figure),
        tuple(one_line(peer, 64) for peer in shown[:MAX_LINES]),
        tuple(_numbers(record, shown[:MAX_LINES], figure) for record in reversed(records[-ROUNDS:])),
        ", ".join(since),
    )


def _chosen(me: str, record: View, little: Collection[str]) -> list[str]:
    """Whose updates are shown: all of a few, or the own one, those that count little, and the oddest others."""
    weighed = record["weighed"]
    if len(weighed) > ROWS:
        fair = fair_shares(weighed, record.get("contributions") or ())
        odd = sorted(weighed, key=lambda peer: (-_oddness(weighed[peer], fair[peer], peer in little), peer))
        kept = set(odd[: ROWS - (me in weighed)]) | ({me} & weighed.keys())
    else:
        kept = set(weighed)
    return sorted(kept, key=lambda peer: (peer != me, peer not in little, not weighed[peer].get("reason"), peer))


def _oddness(update: View, fair: float, is_little: bool) -> float:
    """How far an update is from the others, in powers of two."""
    weight, norm = _number(update, "weight"), _number(update, "norm")
    ratios = [value for value in (None if weight is None else weight / fair, norm) if value is not None]
    far = max((abs(math.log2(max(ratio, 1e-3))) for ratio in ratios), default=0.0)
    return far + (1000 if is_little else 0) + (100 if update.get("reason") else 0)


def _row(peer: str, me: str, update: View, columns: Sequence[str], since: Mapping[str, str]) -> WeightRow:
    reason = one_line(update.get("reason"), 300)
    state = "out" if reason else "little" if peer in since else "counts"
    figures = tuple(_words(name, _number(update, name)) for name in columns)
    return WeightRow(one_line(peer, 64), peer == me, figures, state, since.get(peer, ""), reason)


def _summary(record: View, out: int, t: Translate) -> str:
    of = len(record["weighed"])
    words = t("{counted} of {all} in round {round}", counted=of - out, all=of, round=record.get("round"))
    left_out = t("{count} left out", count=out)
    return f"{words}, {left_out}" if out else words


def _spread(weighed: Mapping[str, View], t: Translate) -> str:
    weights = [weight for update in weighed.values() if (weight := _number(update, "weight")) is not None]
    if len(weights) < 2:
        return ""
    figures = {"low": min(weights), "high": max(weights), "equal": 1 / len(weighed)}
    shown = {name: _words("weight", value) for name, value in figures.items()}
    return t("weights from {low} to {high}, an equal share is {equal}", **shown)


def _what(records: Sequence[View], label: str, t: Translate) -> tuple[str, str, str]:
    """Which figure the chart draws, its name and its label: lengths, where the rule gives no weights."""
    has_weights = any(_number(update, "weight") for record in records for update in record["weighed"].values())
    if has_weights:
        name, label_words = t("Weights in the average by round"), t("Weights of {label} by round", label=label)
        return "weight", name, label_words
    return "norm", t("Lengths of the updates by round"), t("Lengths of {label} by round", label=label)


def _chart(series: Sequence[ChartSeries], figure: str) -> Chart | None:
    def level(value: float) -> str:  # short, as the axis of a phone has little room
        return f"{100 * value:.3g} %" if figure == "weight" else f"{value:.3g}"

    return figure_chart(series, lambda value: _words(figure, value), level_words=level)


def _series(records: Sequence[View], peers: Sequence[str], figure: str) -> list[ChartSeries]:
    points_by_peer = {
        peer: {r["round"]: _number(r["weighed"].get(peer), figure) for r in records} for peer in peers
    }
    return [
        ChartSeries(
            peer, tuple((r, value) for r, value in sorted(points.items()) if value is not None and value >= 0)
        )
        for peer, points in points_by_peer.items()
    ]


def _numbers(record: View, peers: Sequence[str], figure: str) -> tuple[str, tuple[str, ...]]:
    weighed = record["weighed"]
    return one_line(record.get("round")), tuple(
        _words(figure, _number(weighed.get(peer), figure)) for peer in peers
    )


def _number(update: View | None, name: str) -> float | None:
    value = update.get(name) if update is not None else None
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _words(figure: str, value: float | None) -> str:
    if value is None:
        return NONE
    if figure == "weight":
        return f"{100 * value:.1f} %" if value >= 0.01 or value <= 0 else f"{100 * value:.2g} %"
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.3g}"


@dataclass(frozen=True)
class LeaveOneOutRow:
    """One peer: the accuracy here without it, and its contribution in percentage points, newest and mean."""

    peer: str
    without: str
    gain: str
    mean: str


@dataclass(frozen=True)
class LeaveOneOutTable:
    """The leave-one-out accuracies on a card: how much each peer contributes.

    Attributes:
        round: the newest that was measured; empty before the first.
        accuracy: with all, in it, on so many test rows.
        rounds: how many the means are over.
        rows: the peers, the one that contributes most first.
        hidden: how many peers have no row.
        why_not: why the newest round was not measured, in words.
    """

    round: str
    accuracy: str
    examples: str
    rounds: int
    rows: tuple[LeaveOneOutRow, ...]
    hidden: int
    why_not: str


def leave_one_out_table(measured: View) -> LeaveOneOutTable | None:
    """The table of a card; None if nothing is measured.

    Args:
        measured: as `flnet.node.interface.LeaveOneOutResults.view` has it.
    """
    if not measured.get("on"):
        return None
    rounds: Sequence[Mapping[str, Any]] = measured["rounds"]
    newest = rounds[-1] if rounds else {"without": {}}
    gains = {peer: _gains(rounds, peer) for peer in newest["without"]}
    means = {peer: fsum(some) / len(some) for peer, some in gains.items()}
    ranked = sorted(means, key=lambda peer: (-means[peer], peer))
    shown = (
        ranked
        if len(ranked) <= LEAVE_ONE_OUT_ROWS
        else [*ranked[: LEAVE_ONE_OUT_ROWS // 2], *ranked[-LEAVE_ONE_OUT_ROWS // 2 :]]
    )
    return LeaveOneOutTable(
        one_line(newest.get("round")),
        accuracy(newest.get("accuracy")),
        one_line(newest.get("examples")),
        len(rounds),
        tuple(_leave_one_out_row(peer, newest, means[peer]) for peer in shown),
        len(ranked) - len(shown),
        one_line(measured.get("why_not"), 300),
    )


def _gains(rounds: Sequence[Mapping[str, Any]], peer: str) -> list[float]:
    return [measured["accuracy"] - measured["without"][peer] for measured in rounds if peer in measured["without"]]


def _leave_one_out_row(peer: str, newest: Mapping[str, Any], mean: float) -> LeaveOneOutRow:
    without = newest["without"][peer]
    return LeaveOneOutRow(
        one_line(peer, 64), accuracy(without), _points(newest["accuracy"] - without), _points(mean)
    )


def _points(gain: float) -> str:
    """A difference of accuracies in percentage points, never "-0.00"."""
    rounded = math.floor(abs(gain) * 10_000 + 0.5) / 100
    return f"{math.copysign(rounded, gain) if rounded else 0.0:+.2f}"
