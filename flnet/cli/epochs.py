"""Vertical jobs on the command line: who holds what, and the epochs that were trained, in words, tables and JSON.

A round of a vertical job is one epoch. Each node has another part of the one model, so nodes have no models to compare.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from flnet.cli.client import NodeClient, View
from flnet.cli.output import (
    accuracy,
    chosen_metrics,
    counted,
    listed,
    metric_words,
    metrics_of,
    numbers,
    printable,
    table,
)

POLL_SECONDS = 0.3
NEWEST = 100  # records of a node among which a result is looked for
AT_REST = ("IDLE", "NO_DATA")
STAGES = {"asking": "asking who holds columns", "aligning": "aligning rows", "closing": "measuring"}


def is_vertical(job: View) -> bool:
    """Whether nodes hold different columns of the same rows in a job."""
    return isinstance(job.get("vertical"), Mapping)


def holder_words(row: View) -> str:
    """ "insurer (label and 3 columns; 850 rows)"; "notary (key)"."""
    if row.get("holds_key"):
        return f"{printable(row.get('peer'))} (key)"
    columns = counted(_whole(row.get("columns")), "column")
    held = (f"label and {columns}" if row.get("columns") else "label") if row.get("has_label") else columns
    names = [printable(name) for name in row.get("names") or ()]
    named = f": {listed(names)}" if names else ""
    return f"{printable(row.get('peer'))} ({held}{named}; {counted(_whole(row.get('rows')), 'row')})"


def stage_words(vertical: View) -> str:
    """The stage of the open epoch, and how far it is; empty between epochs."""
    stage = printable(vertical.get("stage") or "")
    words = STAGES.get(stage, stage)
    return f"{words}, {vertical.get('step')} of {vertical['steps']} batches" if vertical.get("steps") else words


def vertical_lines(jobs: Sequence[View]) -> list[str]:
    """What `flnet status` says of vertical jobs."""
    lines = []
    for job in filter(is_vertical, jobs):
        name, view = printable(job.get("trainer_id")), job["vertical"]
        holders = [holder_words(row) for row in view.get("holders") or ()]
        if holders:
            lines.append(f"{name} is held by {listed(holders)}")
        for row in view.get("holders") or ():
            if defences := [printable(words) for words in row.get("defences") or ()]:
                lines.append(f"{name}: {printable(row.get('peer'))} states: {'; '.join(defences)}")
        common = view.get("common")
        rows = "rows are not aligned yet" if common is None else counted(_whole(common), "common row")
        if common is not None and view.get("hides_matches"):
            rows = f"{counted(_whole(common), 'position')} of rows, of which the key holder knows the matches"
        figures = {"accuracy": view.get("accuracy"), "auc": view.get("auc"), "loss": view.get("loss")}
        words = [f"{figure} {accuracy(value)}" for figure, value in figures.items() if value is not None]
        lines.append(f"{name}: {', '.join([rows, counted(_whole(view.get('epochs')), 'trained epoch'), *words])}")
        lines.append(f"{name}: {_moved(view)} since the node was started")
        if stage := stage_words(view):
            lines.append(f"{name}: {stage}")
        if own := metric_words_of(view.get("own")):
            gain = metric_words_of(view.get("gain"), sign="+")
            lines.append(f"{name} with the own columns alone: {own}" + (f"; gain {gain}" if gain else ""))
        lines += [f"warning: {name}: {printable(words)}" for words in view.get("warnings") or ()]
    return lines


def metric_words_of(figures: object, sign: str = "") -> str:
    """ "accuracy 0.7721, auc 0.8160"."""
    return ", ".join(f"{printable(name)} {value:{sign}.4f}" for name, value in numbers(figures).items())


def size(nbytes: object) -> str:
    """Bytes with a unit, as on the page: "93.1 kB"; "-" for none."""
    if not isinstance(nbytes, int | float):
        return "-"
    number = float(nbytes)
    for unit in ("bytes", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "bytes" or number >= 100 else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def _shown(metrics: Mapping[str, float]) -> dict[str, float]:
    """Without those of the label holder's own columns, for which there is a line of its own."""
    return {name: value for name, value in metrics.items() if not name.startswith("own_")}


def _moved(moved: Mapping[str, Any]) -> str:
    return f"{size(moved.get('sent', 0))} sent, {size(moved.get('received', 0))} received"


def _whole(number: object) -> int:
    return number if isinstance(number, int) else 0


@dataclass(frozen=True)
class EpochResult:
    """One round of a vertical job: an epoch that has ended, or an attempt that was given up.

    Attributes:
        holders: nodes that took part; none where it was given up.
        rows: common rows.
        metrics: figures of all columns together on hold-out rows: accuracy, loss, AUC where it is defined.
        seconds: that it took at this node.
        sent, received: bytes.
    """

    number: int
    has_ended: bool
    outcome: str
    holders: tuple[str, ...]
    rows: int | None
    metrics: Mapping[str, float]
    seconds: float
    sent: int
    received: int

    @classmethod
    def of(cls, record: View) -> EpochResult:
        """The result in a record of the history."""
        moved, holders = record.get("bytes") or {}, tuple(map(str, record.get("contributors") or ()))
        return cls(
            int(record["round"]),
            bool(holders),
            str(record.get("outcome")),
            holders,
            record.get("examples") if holders else None,
            _shown(metrics_of(record)) if holders else {},
            sum(numbers(record.get("seconds")).values()),
            _whole(moved.get("sent")),
            _whole(moved.get("received")),
        )

    def fields(self) -> dict[str, object]:
        """The fields as JSON-ready data, for scripts."""
        return {**asdict(self), "holders": list(self.holders), "metrics": dict(self.metrics)}

    def __str__(self) -> str:
        if not self.has_ended:
            return f"round {self.number}: {printable(self.outcome)}"
        right = [f"accuracy {accuracy(self.metrics['accuracy'])}"] if "accuracy" in self.metrics else []
        figures = ", ".join([*right, metric_words(self.metrics, True)])
        took = f"{self.seconds:.1f} s, {_moved({'sent': self.sent, 'received': self.received})}"
        return f"round {self.number}: {printable(self.outcome)}: {figures}; {took}"


def epochs_table(records: Sequence[View]) -> Table:
    """One row per round, oldest first."""
    results = [EpochResult.of(record) for record in records]
    names = chosen_metrics((name for result in results for name in result.metrics), True)
    columns = ["round", "by", "holders", "rows", "accuracy", *map(printable, names), "seconds", "sent", "received"]
    shown = table(*columns, "outcome")
    for result, record in zip(results, records, strict=True):
        shown.add_row(
            str(result.number),
            printable(record.get("initiator")),
            listed(map(printable, result.holders)) or "-",
            "-" if result.rows is None else str(result.rows),
            *(accuracy(result.metrics.get(name)) for name in ("accuracy", *names)),
            f"{result.seconds:.2f}",
            size(result.sent),
            size(result.received),
            printable(result.outcome),
        )
    return shown


def epochs_from(node: NodeClient, trainer: str, first: int, count: int, show: Any) -> Iterator[EpochResult]:
    """The rounds from this number on, each when it is over, until `count` epochs have ended.

    Attempts that were given up are among them: the node tries such an epoch again if a holder did not answer. It
    ends early where the node leaves out the rest.

    Args:
        show: called with the job at each look.
    """
    seen, ended, rested = first - 1, 0, False
    while ended < count:
        job = node.job(trainer)
        show(job)
        resting = job.get("phase") in AT_REST and not job.get("rounds_left")
        records = [record for record in node.history(trainer, last=NEWEST) if record.get("round", -1) > seen]
        for record in records:
            result = EpochResult.of(record)
            seen, ended = result.number, ended + result.has_ended
            yield result
        if resting and rested:
            return
        rested = resting
        if ended < count:
            time.sleep(POLL_SECONDS)


def shortfall(results: Sequence[EpochResult], count: int, job: View) -> str:
    """Why fewer epochs were trained than were asked for; empty if all were."""
    ended = sum(result.has_ended for result in results)
    if ended >= count:
        return ""
    given_up = [result.outcome for result in results if not result.has_ended]
    reason = printable(given_up[-1] if given_up else job.get("error") or job.get("outcome") or "no reason given")
    return f"{ended} of {counted(count, 'epoch')} trained: {reason}"
