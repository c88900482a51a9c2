"""How far a round is on one or several nodes: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table

from flnet.cli.client import View
from flnet.cli.tables import table
from flnet.cli.text import accuracy, printable

__all__ = ["PlainProgress", "Progress", "fingerprint", "open_progress", "progress_line", "progress_table"]

BAR_CELLS = 16
WIDTHS = (8, 10, 5, 26, 9, 6, 6)
LINE_SECONDS = 5.0  # at most one plain line in this time: a log of CI stays short
Views = Mapping[str, View]  # node id -> job view


class Progress(Protocol):
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
def open_progress(console: Console) -> Iterator[Progress]:
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
            accuracy(view.get("pre_fedavg_accuracy")),
            accuracy(view.get("post_fedavg_accuracy")),
        )
    return shown


def progress_line(views: Views) -> str:
    """All nodes in one line: "node-a training 40/120 | node-b gathering, 2 of 3 received"."""
    return " | ".join(f"{printable(node)} {_words(view)}" for node, view in views.items())


def fingerprint(views: Views) -> object:
    """Equal as long as nothing moves on any node; tells a stuck round from a slow one."""
    keys = ("phase", "current_round", "progress", "received", "waiting_for", "outcome", "error")
    return {node: [repr(view.get(key)) for key in keys] for node, view in views.items()}


def _words(view: View) -> str:
    phase = printable(view.get("phase")).lower()
    if phase == "training" and view.get("progress"):
        return f"{phase} {_batches(view)}"
    if phase == "gathering":
        sits_out = f" (sits out: {printable(view['sits_out'])})" if view.get("sits_out") else ""
        return f"{phase}, {_received(view)} received{sits_out}"
    return phase


def _batches(view: View) -> str:
    progress = view.get("progress") or {}
    return f"{progress.get('done', 0)}/{progress.get('total', 0)}"


def _bar(view: View) -> str:
    progress = view.get("progress")
    if not progress or not progress.get("total"):
        return ""
    filled = min(BAR_CELLS, BAR_CELLS * int(progress["done"]) // int(progress["total"]))
    return "#" * filled + "." * (BAR_CELLS - filled) + " " + _batches(view)


def _received(view: View) -> str:
    """ "2 of 3" updates of peers; empty when none is expected."""
    received, missing = len(view.get("received") or ()), len(view.get("waiting_for") or ())
    return f"{received} of {received + missing}" if received + missing else ""
