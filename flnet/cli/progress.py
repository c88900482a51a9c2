"""Follows rounds on one or several nodes until each has a result: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Protocol

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table

from flnet.cli.client import NodeClient, View
from flnet.cli.epochs import is_vertical, stage_words
from flnet.cli.output import (
    FEW,
    Metrics,
    accuracy,
    chosen_metrics,
    counted,
    fairness_words,
    listed,
    means,
    mesh_words,
    metric_words,
    metrics_of,
    numbers,
    older_round,
    parts,
    printable,
    short,
    table,
)
from flnet.errors import PeerTimeout, PeerUnreachable


@dataclass(frozen=True)
class Spread:
    """Mean, lowest and highest of some accuracies, each in [0, 1]."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Spread | None:
        """The spread of the values that are there; None when none is."""
        known = [value for value in values if value is not None]
        return cls(fmean(known), min(known), max(known)) if known else None

    def __str__(self) -> str:
        if self.low == self.high:
            return accuracy(self.mean)
        return f"{accuracy(self.mean)} ({accuracy(self.low)} - {accuracy(self.high)})"


@dataclass(frozen=True)
class RoundResult:
    """One round over all nodes.

    Attributes:
        pre: accuracies before averaging; post: after it, and after the exchange.
        digests: of the model that each node holds after the round.
        missing: nodes without a result for this round.
        errors: by node, what failed there in this round.
        seconds: of the round on the node that took longest, by the nodes' own records; None where none tells it.
        figures: by node, what it measured after averaging: the accuracy and the trainer's further metrics.
        alone: by node that was alone in the round, the peers that were expected, each with the reason.
        updates: how many the first node averaged; None where it averaged none itself, or does not tell.
        left_out: nodes whose updates are not in that average, each with the reason; None where it does not tell.
        spread: the distance of neighbours, where nodes average with these alone: how far their updates were apart before
            that, as a part of their norm, in the mean of the nodes; None where all make one average.
        mesh: what all nodes reached together, as the first node that tells it has it; None where none does.
    """

    number: int
    pre: Spread | None
    post: Spread | None
    digests: Mapping[str, str | None]
    missing: tuple[str, ...]
    errors: Mapping[str, str]
    seconds: float | None
    figures: Mapping[str, Metrics]
    alone: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    updates: int | None = None
    left_out: Mapping[str, str] | None = None
    spread: float | None = None
    mesh: View | None = None

    @property
    def test_rows(self) -> Mapping[str, int]:
        """Test rows of each node, as far as the nodes told each other."""
        by_node = (self.mesh or {}).get("by_node")
        told = by_node.items() if isinstance(by_node, Mapping) else ()
        return {node: view["examples"] for node, view in told if isinstance(view.get("examples"), int)}

    @property
    def on_all_rows(self) -> float | None:
        """The accuracy on the test rows of all nodes together, after averaging; None where some node does not count."""
        mesh = self.mesh or {}
        value = mesh.get("accuracy") if mesh.get("basis") == "counts" else None
        return value if isinstance(value, float) else None

    @property
    def same_model(self) -> bool:
        """Whether all nodes hold the same model, bit by bit."""
        return not self.missing and None not in self.digests.values() and len(set(self.digests.values())) == 1

    @property
    def is_empty(self) -> bool:
        """Whether no node averaged anything, because nobody sent an update."""
        tells = self.updates == 0 and self.left_out is not None
        return tells and not (self.errors or self.missing or any(self.digests.values()))

    @property
    def why_empty(self) -> str:
        """Why nobody sent an update in an empty round."""
        return by_reason(self.left_out or {}) or "no node was to train"

    def models(self) -> str:
        """Which models are held: "1f2e3d4c5b on all 4 nodes", or what is wrong."""
        if self.errors:
            return "FAILED: " + _by_node(self.errors)
        if self.is_empty:
            return "NO AVERAGE: " + self.why_empty
        if self.missing:
            return "no result: " + listed(map(printable, self.missing))
        if self.same_model:
            digest = short(next(iter(self.digests.values())))
            return digest if len(self.digests) == 1 else f"{digest} on all {len(self.digests)} nodes"
        if self.spread is not None:
            return f"one of each node, distance of neighbours {self.spread:.2%}"
        return "DIFFERENT: " + _by_node({node: short(digest) for node, digest in self.digests.items()})

    def update_words(self) -> str:
        """How many updates are in the average, of the nodes that were to train: "3 of 4"; "-" if nobody tells."""
        if self.updates is None:
            return "-"
        return str(self.updates) + ("" if self.left_out is None else f" of {self.updates + len(self.left_out)}")

    def fields(self) -> dict[str, object]:
        """The fields as JSON-ready data, for scripts."""
        return {**asdict(self), "missing": list(self.missing), "same_model": self.same_model}

    def lone_words(self) -> str:
        """The round where every node trained by itself: models differ, and averaging changes nothing."""
        trouble = f", {self.models()}" if self.errors or self.missing else ""
        return f"round {self.number} alone: accuracy {self.post}, {_seconds_words(self.seconds)}{trouble}"

    def __str__(self) -> str:
        if self.is_empty:
            return f"round {self.number}: {self.models()}"
        updates = "" if self.updates is None else f"{self.update_words()} updates, "
        node = _only_node((self,))
        of_nodes = f"on {node}" if node else "mean of nodes"
        together = "" if self.on_all_rows is None else f"{accuracy(self.on_all_rows)} on all rows; {of_nodes} "
        return (
            f"round {self.number}: {together}before {self.pre}, after {self.post}, {updates}"
            f"model {self.models()}, {_seconds_words(self.seconds)}"
        )


def failure(results: Iterable[RoundResult]) -> str | None:
    """The failure in words; None if there is none."""
    failed = [f"round {result.number} failed: {_by_node(result.errors)}" for result in results if result.errors]
    return "; ".join(failed) or None


def no_average(results: Iterable[RoundResult]) -> str:
    """The rounds in which no node sent an update, and why in the last of them; empty if there are none."""
    empty = [result for result in results if result.is_empty]
    if not empty:
        return ""
    rounds = "round " if len(empty) == 1 else "rounds "
    return f"no average in {rounds}{', '.join(str(result.number) for result in empty)}: {empty[-1].why_empty}"


def by_reason(nodes: Mapping[str, str]) -> str:
    """Why these nodes took no part, each reason once."""
    grouped: dict[str, list[str]] = {}
    for node, why in nodes.items():
        grouped.setdefault(printable(why), []).append(printable(node))
    return "; ".join(f"{listed(names)}: {reason}" for reason, names in grouped.items())


def round_result(number: int, records: Mapping[str, View | None]) -> RoundResult:
    """Put one round together.

    Args:
        records: by node, its history record of this round; None where there is none.
    """
    held = {node: record for node, record in records.items() if record is not None}
    first = next(iter(held.values()), {})
    averaged, left_out = None if first.get("taken_from") else first.get("contributors"), first.get("left_out")
    return RoundResult(
        number,
        Spread.of(record.get("pre_fedavg_accuracy") for record in held.values()),
        Spread.of(record.get("post_fedavg_accuracy") for record in held.values()),
        {node: record.get("digest") for node, record in held.items()},
        tuple(node for node, record in records.items() if record is None),
        {node: str(record["error"]) for node, record in held.items() if record.get("error")},
        max(filter(None, map(_seconds_of, held.values())), default=None),
        {node: metrics_of(record) for node, record in held.items()},
        {node: record["alone"] for node, record in held.items() if isinstance(record.get("alone"), dict)},
        len(averaged) if isinstance(averaged, list) else None,
        left_out if isinstance(left_out, dict) else None,
        _mean(record.get("spread") for record in held.values()),
        next((record["mesh"] for record in held.values() if isinstance(record.get("mesh"), dict)), None),
    )


def _mean(values: Iterable[object]) -> float | None:
    known = [value for value in values if isinstance(value, float)]
    return fmean(known) if known else None


def _by_node(words: Mapping[str, str]) -> str:
    return listed(f"{printable(node)} {printable(text)}" for node, text in words.items())


def _seconds_of(record: View) -> float:
    """The seconds of all parts of a round on one node."""
    return sum(numbers(record.get("seconds")).values())


def _seconds_words(seconds: float | None) -> str:
    return "time unknown" if seconds is None else f"{seconds:.1f} s"


def results_table(results: Sequence[RoundResult]) -> Table:
    """One row per round."""
    node = _only_node(results)
    before = "before averaging" if node else "before averaging: mean of nodes (low - high)"
    title = f"Results on {node}" if node else "Results"
    together = ("all rows",) if any(result.mesh for result in results) else ()
    shown = table("round", *together, before, "after", "updates", "model", "seconds", title=title)
    for result in results:
        seconds = "-" if result.seconds is None else f"{result.seconds:.1f}"
        averaged = (result.update_words(), result.models())
        mesh = [accuracy((result.mesh or {}).get("accuracy"))] if together else []
        shown.add_row(
            str(result.number),
            *mesh,
            *(str(each or "-") for each in (result.pre, result.post)),
            *averaged,
            seconds,
        )
    return shown


def _only_node(results: Iterable[RoundResult]) -> str:
    """The node that all figures are of, if there is one alone; else empty."""
    nodes = {node for result in results for node in result.figures}
    return printable(next(iter(nodes))) if len(nodes) == 1 else ""


def metrics_tables(results: Sequence[RoundResult], every: bool) -> list[Table]:
    """The trainer's further metrics, one row per round; several tables when there are many.

    They are the means over the nodes that were asked, or those of the only one.
    """
    rows = [(str(result.number), means(result.figures.values())) for result in results]
    names = chosen_metrics((name for _, row in rows for name in row), every)
    tables: list[Table] = []
    node = _only_node(results)
    title = f"Further metrics after averaging, {f'on {node}' if node else 'means over the nodes'}"
    for group in parts(names):
        shown = table("round", *map(printable, group), title=title if not tables else None)
        for number, row in rows:
            shown.add_row(number, *(accuracy(row.get(name)) for name in group))
        tables.append(shown)
    return tables


def summary(results: Sequence[RoundResult], every: bool = False) -> str:
    """The result in a sentence or two."""
    averaged = [result for result in results if not result.is_empty] or results
    first, last = averaged[0], averaged[-1]
    differing = [
        str(result.number)
        for result in results
        if not (result.same_model or result.is_empty or (result.spread is not None and not result.missing))
    ]
    same = (
        "after every round all nodes held the same model, bit by bit"
        if not differing
        else f"the nodes' models differed after round {', '.join(differing)}"
    )
    if last.spread is not None and not differing:
        same = (
            "each node holds a model of its own; before the last averaging, the distance of neighbours was "
            f"{last.spread:.2%}"
        )
    if empty := no_average(results):
        same = f"{empty}; {same}" if differing else empty
    seconds = sum(result.seconds or 0.0 for result in results)
    further = metric_words(means(last.figures.values()), every)
    return (
        f"{counted(len(results), 'round')} in {seconds:.1f} s; {_gain_words(first, last, _only_node(results))}; "
        + (f"{fairness_words(last.mesh)}; " if last.mesh else "")
        + same
        + (f"; further means after the last averaging: {further}" if further else "")
    )


def _gain_words(first: RoundResult, last: RoundResult, node: str) -> str:
    """What averaging brought: on all rows where nodes count, and the mean of the nodes.

    Args:
        node: that all other figures are of, if there is one alone.
    """
    gain = f"{first.pre.mean:.4f} to {last.post.mean:.4f}" if first.pre and last.post else "unknown"
    ends = "(before the first averaging, after the last)"
    if last.on_all_rows is None:
        together = f"; all nodes together {mesh_words(last.mesh)}" if last.mesh else ""
        return f"{f'accuracy on {node}' if node else 'mean accuracy'} from {gain} {ends}{together}"
    begun = "" if first is last else f", {accuracy(first.on_all_rows)} after the first"
    of_nodes = f"on {node}" if node else "mean of nodes"
    return f"accuracy {mesh_words(last.mesh)} after the last averaging{begun}; {of_nodes} from {gain} {ends}"


BAR_CELLS = 16
WIDTHS = (8, 10, 5, 26, 9, 6, 6)
LINE_SECONDS = 5.0  # at most one plain line in this time: a log of CI stays short
Views = Mapping[str, View]  # node id -> job view


class ProgressDisplay(Protocol):
    """Shows how far the nodes are."""

    def show(self, views: Views) -> None:
        """Show the nodes' jobs as they are now."""
        ...

    def say(self, words: str) -> None:
        """Print a line that stays."""
        ...


class LiveProgress:
    """A table that is redrawn in place."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, views: Views) -> None:
        """Redraw the table."""
        self._live.update(progress_table(views))

    def say(self, words: str) -> None:
        """Print above the table."""
        self._live.console.print(words)


class PlainProgress:
    """A line now and then, when something changed."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._shown = ""
        self._next = clock() + LINE_SECONDS

    def show(self, views: Views) -> None:
        """Print a line if there is news and the last line is old enough."""
        line = progress_line(views)
        if line != self._shown and self._clock() >= self._next:
            self._shown, self._next = line, self._clock() + LINE_SECONDS
            self.say("  " + line)

    def say(self, words: str) -> None:
        """Print a line."""
        self._console.print(words, soft_wrap=True)


@contextmanager
def open_progress(console: Console) -> Iterator[ProgressDisplay]:
    """The display that suits where the output goes."""
    if not console.is_terminal or console.is_dumb_terminal:
        yield PlainProgress(console)
        return
    with Live(console=console, transient=True, refresh_per_second=8) as live:
        yield LiveProgress(live)


def progress_table(views: Views) -> Table:
    """One row per node."""
    shown = table("node", "phase", "round", "batches", "received", "pre", "post")
    for column, width in zip(shown.columns, WIDTHS, strict=True):
        column.min_width = width  # so that the table stands still while its numbers move
    for node, view in views.items():
        shown.add_row(
            printable(node),
            printable(view.get("phase")).lower(),
            printable(view.get("current_round")),
            _bar(view),
            _received(view),
            _of_this_round(view, "pre_fedavg_accuracy"),
            _of_this_round(view, "post_fedavg_accuracy"),
        )
    return shown


def progress_line(views: Views) -> str:
    """All nodes in one line: "node-a training 40/120 | node-b gathering, 2 of 3 received".

    More nodes than fit in it are counted by phase: "40 nodes: 12 training 480/1440, 28 gathering".
    """
    if len(views) > FEW:
        return f"{len(views)} nodes: {_by_phase(views.values())}"
    return " | ".join(f"{printable(node)} {_words(view)}" for node, view in views.items())


def _by_phase(views: Iterable[View]) -> str:
    """How many nodes are in each phase; with the batches of all that train."""
    phases: dict[str, list[View]] = {}
    for view in views:
        phases.setdefault(printable(view.get("phase")).lower(), []).append(view)
    words = []
    for phase, members in sorted(phases.items()):
        pairs = [view.get("progress") or {} for view in members if phase == "training"]
        done, total = (sum(pair.get(name, 0) for pair in pairs) for name in ("done", "total"))
        words.append(f"{len(members)} {phase}" + (f" {done}/{total}" if total else ""))
    return ", ".join(words)


def fingerprint(views: Views) -> object:
    """Equal as long as nothing moves on any node; tells a stuck round from a slow one."""
    keys = ("phase", "current_round", "progress", "received", "waiting_for", "outcome", "error")
    return {node: [repr(view.get(key)) for key in keys] for node, view in views.items()}


def _words(view: View) -> str:
    phase = printable(view.get("phase")).lower()
    if is_vertical(view):
        waiting = listed(map(printable, view.get("waiting_for") or ())) if view.get("rounds_left") else ""
        return stage_words(view["vertical"]) or (f"{phase}, waiting for {waiting}" if waiting else phase)
    if phase == "training" and view.get("progress"):
        return f"{phase} {_batches(view)}"
    if phase == "gathering":
        sits_out = f" (sits out: {printable(view['sits_out'])})" if view.get("sits_out") else ""
        return f"{phase}, {_received(view)} received{sits_out}"
    return phase


def _of_this_round(view: View, name: str) -> str:
    """An accuracy, unless it is still that of the round before."""
    return accuracy(None if older_round(view) is not None else view.get(name))


def _batches(view: View) -> str:
    progress = view.get("progress") or {}
    return f"{progress.get('done', 0)}/{progress.get('total', 0)}"


def _bar(view: View) -> str:
    progress = view.get("progress")
    if is_vertical(view):
        return stage_words(view["vertical"])
    if not progress or not progress.get("total"):
        return ""
    filled = min(BAR_CELLS, BAR_CELLS * int(progress["done"]) // int(progress["total"]))
    return "#" * filled + "." * (BAR_CELLS - filled) + " " + _batches(view)


def _received(view: View) -> str:
    """ "2 of 3" updates of peers; empty when none is expected."""
    received, missing = len(view.get("received") or ()), len(view.get("waiting_for") or ())
    missing = 0 if view.get("phase") == "EXCHANGING" else missing  # those are models of peers, no updates
    return f"{received} of {received + missing}" if received + missing else ""


POLL_SECONDS = 0.3
NEWEST = 100  # records of a node among which a result is looked for
AT_REST = ("IDLE", "NO_DATA")
LEFT = "cut short: "  # how the outcome of a round begins that a node left for a later one


class RoundFailed(click.ClickException):
    """A round ended without a result, or does not move any more; exit code 1."""


def is_open(view: View) -> bool:
    """Whether a series with a goal is under way, of which any node may start the next round."""
    goal = view.get("goal")
    return isinstance(goal, Mapping) and goal.get("state") == "open"


class Follower:
    """Polls the nodes' jobs of one trainer, shows them, and collects the result of each round.

    Args:
        clients: by node id; the first one is the node that was asked for the rounds.
        patience: seconds without any change on any node until a round counts as stuck.
        check: called at each look; raises if there is no point in going on.
        tolerant: bear with a node that does not answer, as long as `patience` lasts; a node that has ended
            is then for `check` to see.
    """

    def __init__(
        self,
        clients: Mapping[str, NodeClient],
        trainer: str,
        progress: ProgressDisplay,
        *,
        patience: float = math.inf,
        check: Callable[[], None] = lambda: None,
        tolerant: bool = False,
    ) -> None:
        self._clients = clients
        self._asked = next(iter(clients))
        self._trainer = trainer
        self._progress = progress
        self._patience = patience
        self._check = check
        self._tolerant = tolerant
        self._views: dict[str, View] = {}

    def rounds(self, first: int, count: int) -> Iterator[RoundResult]:
        """The results of `count` completed rounds, each as soon as all nodes have it.

        A round counts if the node that was asked did not leave it for a later one, as it does if the mesh is ahead.

        Raises:
            RoundFailed: a round ended without a result on some node, or is stuck.
        """
        number = first
        for _ in range(count):
            result = self._wait_for(number)
            yield result
            number = result.number + 1

    def rounds_of_goal(self, first: int) -> Iterator[RoundResult]:
        """The results of the rounds of a series with a goal, as long as it is under way on the first node.

        Raises:
            RoundFailed: a round ended without a result.
        """
        number = first
        while True:
            result = self._wait_for(number)
            yield result
            view = self.look()[self._asked]
            if not is_open(view) and view.get("current_round", -1) <= result.number:
                return
            number = result.number + 1

    def look(self) -> Mapping[str, View]:
        """The jobs as they are now, also shown."""
        self._check()
        for node, client in self._clients.items():
            try:
                self._views[node] = client.job(self._trainer)
            except (PeerUnreachable, PeerTimeout):
                if not self._tolerant:
                    raise
        self._progress.show(self._views)
        return self._views

    def _wait_for(self, number: int) -> RoundResult:
        """The result of the first completed round with this number or a higher one."""
        records: dict[str, View | None] = dict.fromkeys(self._clients)
        moved, last, rested = time.monotonic(), None, False
        while True:
            resting = self._at_rest()  # looked at first: a result that comes after it is not missed
            number = self._collect(number, records)
            missing = [node for node, record in records.items() if record is None]
            if not missing:
                return round_result(number, records)
            if resting and rested:
                raise RoundFailed(self._without_result(number, missing))
            now, state = time.monotonic(), fingerprint(self._views)
            moved, last = (now, state) if state != last else (moved, last)
            if now - moved > self._patience:
                raise RoundFailed(
                    f"round {number} has not moved for {self._patience:g} s: {progress_line(self._views)}"
                )
            rested = resting
            time.sleep(POLL_SECONDS)

    def _at_rest(self) -> bool:
        views = self.look().values()
        return len(views) == len(self._clients) and all(
            view.get("phase") in AT_REST and not view.get("rounds_left") and not is_open(view) for view in views
        )

    def _collect(self, number: int, records: dict[str, View | None]) -> int:
        """Look for the round in the histories of the nodes that may be through with it.

        Returns:
            Its number: a higher one if the node that was asked has left this round for a later one.
        """
        for node, view in self._views.items():
            reached = view.get("current_round", -1)
            over = reached > number or (reached == number and view.get("phase") in AT_REST)
            if records[node] is not None or not over:
                continue
            records[node] = record = self._record(node, number)
            if record is not None and record["round"] > number:
                number = record["round"]
                records.update((other, None) for other in records if other != node)
        return number

    def _record(self, node: str, number: int) -> View | None:
        try:
            history = self._clients[node].history(self._trainer, last=NEWEST)
        except (PeerUnreachable, PeerTimeout):
            if not self._tolerant:
                raise
            return None
        if node != self._asked:
            return next((record for record in reversed(history) if record.get("round") == number), None)
        completed = [record for record in reversed(history) if _counts(record, number)]
        return min(completed, key=lambda record: int(record["round"]), default=None)

    def _without_result(self, number: int, missing: list[str]) -> str:
        reasons = []
        for node in missing:
            view = self._views.get(node, {})
            reason = view.get("error") or view.get("outcome") or "no reason given"
            reasons.append(f"{printable(node)} ({printable(reason)})")
        return f"round {number} ended without a result on {listed(reasons)}"


def _counts(record: View, number: int) -> bool:
    """Whether this is the record of a round from this number on that the node completed."""
    return record.get("round", -1) >= number and not str(record.get("outcome")).startswith(LEFT)
