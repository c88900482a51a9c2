"""A job's card on the page: the job, the same job on the peers, what came of its rounds, and the chart of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flnet.node.base import Points, View
from flnet.web.charts import MAX_LINES, Chart, Series, accuracy_chart, figure_chart, points_of, spark_path
from flnet.web.gains import GainsView
from flnet.web.job_view import JobView, same_job
from flnet.web.view import NONE, accuracy, text
from flnet.web.views.frame import size_words
from flnet.web.weights import WeightsView, weights_view
from flnet.web.words import Translate

ROWS_SHOWN = 12  # rounds in the table below the chart
MAX_RULES = 5  # peers that are named because they merge by another rule
_SECONDS = {
    "fetch": "Fetching the start",
    "train": "Local training",
    "wait": "Waiting for updates",
    "average": "Averaging",
    "measure": "Measuring",
    "exchange": "Exchanging models",
}
BEFORE, AFTER = "pre_fedavg_accuracy", "post_fedavg_accuracy"


@dataclass(frozen=True)
class RoundRow:
    """One round in the table."""

    number: str
    pre: str
    post: str
    exchanged_with: str
    contributors: str
    examples: str
    seconds: str
    outcome: str


@dataclass(frozen=True)
class Card:
    """All that a job's card shows.

    Attributes:
        why: in one sentence, why the model was exchanged or not; empty where nobody can tell.
        seconds: what the last round's parts took, name and seconds.
        moved: how many bytes of parameters it sent and received, in words; empty where that is not known.
        further: charts of what the rounds took and moved, with their names.
        weights: how much each update counted; None where that is not known.
        gains: what each peer brings; None where that is not measured, or the reader is no person of this node.
        rules: a sentence for each peer that merges by another rule.
    """

    job: JobView
    others: tuple[JobView, ...]
    why: str
    outcome: str
    seconds: tuple[tuple[str, str], ...]
    moved: str
    chart: Chart | None
    further: tuple[tuple[str, Chart], ...]
    spark: str
    rows: tuple[RoundRow, ...]
    weights: WeightsView | None
    rules: tuple[str, ...]
    gains: GainsView | None


def card_of(
    job: JobView,
    elsewhere: Sequence[JobView],
    history: Sequence[View],
    peer_rounds: Mapping[str, Points],
    t: Translate,
    gains: GainsView | None = None,
) -> Card:
    """The card of one of this node's jobs.

    Args:
        elsewhere: all jobs of the peers.
        history: records of the job's rounds, oldest first.
        peer_rounds: accuracies of the same job on the peers, by peer.
    """
    others = tuple(other for other in elsewhere if same_job(job, other))
    after = points_of(history, AFTER)
    own = [Series(t("{node}, after", node=job.node), after)]
    own += [Series(t("{node}, before", node=job.node), points_of(history, BEFORE))]
    theirs = [Series(peer, tuple(points)) for peer, points in peer_rounds.items()][: MAX_LINES - 2]
    last: View = history[-1] if history else {}
    return Card(
        job,
        others,
        exchange_words(job, others, t),
        job.outcome or text(last.get("outcome"), 500),
        tuple(_seconds(last, t)),
        _moved(last, t),
        accuracy_chart([*own, *theirs]),
        tuple(_further(history, t)),
        spark_path(after),
        tuple(_row(record, t) for record in reversed(history[-ROWS_SHOWN:])),
        weights_view(job.node, job.label, history, job.counts_little, t),
        tuple(other_rules(job, others, t)),
        gains,
    )


def other_rules(job: JobView, others: Sequence[JobView], t: Translate) -> Iterator[str]:
    """Which peers merge by another rule than this node; of those that say by which, at most MAX_RULES."""
    differing = [other for other in others if job.rule and other.rule not in ("", job.rule)]
    for other in differing[:MAX_RULES]:
        yield t("{peer} merges by {there}, this node by {here}", peer=other.node, there=other.rule, here=job.rule)


def exchange_words(job: JobView, others: Sequence[JobView], t: Translate) -> str:
    """Why a job's model was exchanged in its last round, or was not; empty where nobody can tell."""
    if job.exchanged_with:
        return t("taken from {peer}, whose model was better here", peer=job.exchanged_with)
    there = {other.digest for other in others if other.number == job.number and other.averaged == "Yes"} - {NONE}
    if job.versions is not None or job.busy or job.averaged != "Yes" or not there:
        return ""
    if there == {job.digest}:
        return t("all nodes hold the same model")
    return t("no other model was better here by the threshold")


def _further(history: Sequence[View], t: Translate) -> Iterator[tuple[str, Chart]]:
    """Seconds of each part of a round, and bytes that went out and came in, by round."""
    parts = [Series(t(words), points_of(history, "seconds", name)) for name, words in _SECONDS.items()]
    directions = (("sent", t("sent")), ("received", t("received")))
    moved = [Series(words, points_of(history, "bytes", name)) for name, words in directions]
    if chart := figure_chart(parts, seconds_words):
        yield t("Seconds by round"), chart
    if chart := figure_chart(moved, lambda nbytes: size_words(int(nbytes))):
        yield t("Bytes by round"), chart


def seconds_words(seconds: float) -> str:
    """A duration with the digits that count: "0.25 s"."""
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"


def _row(record: View, t: Translate) -> RoundRow:
    return RoundRow(
        text(record.get("round")),
        accuracy(record.get(BEFORE)),
        accuracy(record.get(AFTER)),
        text(record.get("exchanged_with"), 64) or NONE,
        ", ".join(text(name, 64) for name in (record.get("contributors") or ())[:20]) or NONE,
        text(record.get("examples")) or NONE,
        ", ".join(f"{name} {words}" for name, words in _seconds(record, t)) or NONE,
        text(record.get("outcome"), 500),
    )


def _seconds(record: Mapping[str, Any], t: Translate) -> list[tuple[str, str]]:
    found = record.get("seconds") or {}
    named = [(t(_SECONDS.get(name, text(name, 20))), seconds) for name, seconds in found.items()]
    return [(name, f"{seconds:.2f} s") for name, seconds in named if isinstance(seconds, int | float)]


def _moved(record: Mapping[str, Any], t: Translate) -> str:
    moved = record.get("bytes") or {}
    if not any(moved.values()):
        return ""
    sent, received = (size_words(moved.get(name, 0)) for name in ("sent", "received"))
    return t("{sent} sent, {received} received", sent=sent, received=received)
