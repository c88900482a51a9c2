"""How much each update counted, for a job's card: the newest round in a table, the weights of all as a chart.

In a large mesh only this node and those that stand out are shown; how many others there are is said.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flnet.jobs.weights import fair_shares
from flnet.node.base import View
from flnet.web.charts import MAX_LINES, Chart, Series, figure_chart
from flnet.web.view import NONE, text
from flnet.web.words import Translate

ROWS = 12  # updates in the table
ROUNDS = 12  # in the table beside the chart
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
    """What a card shows of the updates of its job.

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
    me: str, label: str, history: Sequence[View], counts_little: Any, t: Translate
) -> WeightsView | None:
    """What the rounds say of the updates; None where no record tells.

    Args:
        me: this node's name.
        label: of the job.
        history: records of the job's rounds, oldest first.
        counts_little: as the job's view has it.
    """
    told = [record for record in history if record.get("weighed")]
    if not told:
        return None
    newest, since = told[-1], _little(counts_little)
    weighed: Mapping[str, View] = newest["weighed"]
    shown = _chosen(me, newest, since)
    columns = [name for name in _MEASURES if any(_number(one, name) is not None for one in weighed.values())]
    out = sum(bool(one.get("reason")) for one in weighed.values())
    names = [t("Weight"), t("Length"), t("Direction"), t("Consistency")]
    figure, chart_name, chart_label = _what(told, label, t)
    return WeightsView(
        _summary(newest, out, t),
        _spread(weighed, t),
        text(newest.get("round")),
        tuple(names[_MEASURES.index(name)] for name in columns),
        tuple(_row(peer, me, weighed[peer], columns, since) for peer in shown),
        len(weighed) - len(shown),
        chart_name,
        chart_label,
        _chart(_series(told, shown[:MAX_LINES], figure), figure),
        tuple(text(peer, 64) for peer in shown[:MAX_LINES]),
        tuple(_numbers(record, shown[:MAX_LINES], figure) for record in reversed(told[-ROUNDS:])),
        ", ".join(since),
    )


def _little(counts_little: Any) -> Mapping[str, str]:
    """Who counts little, and since which round."""
    found = counts_little if isinstance(counts_little, list | tuple) else []
    rows = [one for one in found[:ROWS] if isinstance(one, Mapping)]
    return {text(one.get("peer"), 64): text(one.get("since"), 20) for one in rows}


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


def _oddness(one: View, fair: float, is_little: bool) -> float:
    """How far an update is from the others, in powers of two."""
    weight, norm = _number(one, "weight"), _number(one, "norm")
    ratios = [value for value in (None if weight is None else weight / fair, norm) if value is not None]
    far = max((abs(math.log2(max(ratio, 1e-3))) for ratio in ratios), default=0.0)
    return far + (1000 if is_little else 0) + (100 if one.get("reason") else 0)


def _row(peer: str, me: str, one: View, columns: Sequence[str], since: Mapping[str, str]) -> WeightRow:
    reason = text(one.get("reason"), 300)
    state = "out" if reason else "little" if peer in since else "counts"
    figures = tuple(_words(name, _number(one, name)) for name in columns)
    return WeightRow(text(peer, 64), peer == me, figures, state, since.get(peer, ""), reason)


def _summary(record: View, out: int, t: Translate) -> str:
    of = len(record["weighed"])
    words = t("{counted} of {all} in round {round}", counted=of - out, all=of, round=record.get("round"))
    return f"{words}, {t('{count} left out', count=out)}" if out else words


def _spread(weighed: Mapping[str, View], t: Translate) -> str:
    weights = [found for one in weighed.values() if (found := _number(one, "weight")) is not None]
    if len(weights) < 2:
        return ""
    said = {"low": min(weights), "high": max(weights), "equal": 1 / len(weighed)}
    shown = {name: _words("weight", value) for name, value in said.items()}
    return t("weights from {low} to {high}, an equal share is {equal}", **shown)


def _what(told: Sequence[View], label: str, t: Translate) -> tuple[str, str, str]:
    """Which figure the chart draws, its name and its label: lengths, where the rule gives no weights."""
    has_weights = any(_number(one, "weight") for record in told for one in record["weighed"].values())
    if has_weights:
        name, said = t("Weights in the average by round"), t("Weights of {label} by round", label=label)
        return "weight", name, said
    return "norm", t("Lengths of the updates by round"), t("Lengths of {label} by round", label=label)


def _chart(series: Sequence[Series], figure: str) -> Chart | None:
    def level(value: float) -> str:  # short, as the axis of a phone has little room
        return f"{100 * value:.3g} %" if figure == "weight" else f"{value:.3g}"

    return figure_chart(series, lambda value: _words(figure, value), level_words=level)


def _series(told: Sequence[View], peers: Sequence[str], figure: str) -> list[Series]:
    found = {peer: {r["round"]: _number(r["weighed"].get(peer), figure) for r in told} for peer in peers}
    return [
        Series(peer, tuple((r, value) for r, value in sorted(points.items()) if value is not None and value >= 0))
        for peer, points in found.items()
    ]


def _numbers(record: View, peers: Sequence[str], figure: str) -> tuple[str, tuple[str, ...]]:
    weighed = record["weighed"]
    return text(record.get("round")), tuple(_words(figure, _number(weighed.get(peer), figure)) for peer in peers)


def _number(one: View | None, name: str) -> float | None:
    value = one.get(name) if one is not None else None
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _words(figure: str, value: float | None) -> str:
    if value is None:
        return NONE
    if figure == "weight":
        return f"{100 * value:.1f} %" if value >= 0.01 or value <= 0 else f"{100 * value:.2g} %"
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.3g}"
