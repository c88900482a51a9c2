"""Output of commands: tables, JSON for scripts, files, log lines, and metrics. Text of peers is made printable."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

import click
from rich import box
from rich.console import Console
from rich.table import Table

from flnet.security.rate_limits import Buckets
from flnet.text import Text

FEW = 6  # things of one kind that are named in a line or shown next to each other
PIPE_WIDTH = 160  # columns where no terminal says its width: wide enough that no cell breaks


def console(stderr: bool = False) -> Console:
    """A console that prints text literally, without markup, emoji or highlighting."""
    shown = Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not shown.is_terminal:
        shown.width = PIPE_WIDTH
    return shown


def table(*columns: str, title: str | None = None) -> Table:
    """A plain table; cells must be printable text."""
    shown = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
    for column in columns:
        shown.add_column(column, overflow="fold")
    return shown


def print_table(shown: Table) -> None:
    """Print it on stdout."""
    console().print(shown)


def print_json(data: object) -> None:
    """Print it on stdout as one indented JSON document, ASCII only, so that any terminal can take it."""
    click.echo(json.dumps(data, indent=2))


def printable(text: object) -> str:
    r"""The text on one line, with control, bidirectional and broken characters written as \x1b, \u202e."""
    given = str(text)
    if given.isprintable():
        return given
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "backslashreplace").decode("ascii")
        for char in given
    )


def short(digest: object) -> str:
    """The first characters of a digest, enough to compare by eye; "-" for none."""
    return printable(digest)[:10] if digest else "-"


def accuracy(value: object) -> str:
    """An accuracy in [0, 1] with four digits; "-" for none."""
    return f"{value:.4f}" if isinstance(value, int | float) else "-"


def share(value: object) -> str:
    """A share in [0, 1] as per cent, with the digits that count; "-" for none."""
    if not isinstance(value, int | float):
        return "-"
    return f"{100 * value:.1f} %" if value >= 0.01 or value <= 0 else f"{100 * value:.2g} %"


def counted(number: int, thing: str) -> str:
    """ "1 round", "2 rounds"."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def listed(words: Iterable[str], most: int = FEW) -> str:
    """ "a, b, c"; of more than `most` the rest as a number, so that a line stays readable: "a, b and 38 more"."""
    shown = list(words)
    hidden = len(shown) - most
    return ", ".join(shown[:most]) + (f" and {hidden} more" if hidden > 0 else "")


def next_line(schedule: Mapping[str, Any]) -> str:
    """When and why the next scheduled round starts; empty if there is none."""
    if not schedule.get("next_words"):
        return ""
    seconds = schedule.get("next_seconds")
    when = f" in {time_words(seconds)}" if isinstance(seconds, int) and seconds > 0 else ""
    return f"next round{when}: {printable(schedule['next_words'])}"


def time_words(seconds: int) -> str:
    """A duration in its two largest units: "3 h 12 min"."""
    days, hours, minutes = seconds // 86_400, seconds // 3600 % 24, seconds // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds % 60} s" if minutes else f"{seconds} s"


def write_file(target: Path, parts: Iterable[bytes]) -> int:
    """Write a file completely or not at all; returns its size in bytes."""
    from flnet.datasets.files import replacing  # noqa: PLC0415  brings numpy along, which other commands spare

    size = 0
    try:
        with replacing(target) as file:
            for part in parts:
                file.write(part)
                size += len(part)
        target.chmod(0o666 & ~_umask())  # a temporary file is its owner's alone
    except OSError as exc:
        raise click.ClickException(f"{target} cannot be written: {exc.strerror or exc}") from exc
    return size


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


CHATTY = ("asyncio", "httpcore", "httpx", "hypercorn.access", "hypercorn.error", "quart.app")


LINES, LINES_PER_MINUTE = 300, 30  # of one cause in the log: at once, and afterwards
JOB_LINES, JOB_LINES_PER_MINUTE = 3000, 300  # the same for the events of a job
TRACEBACKS, TRACEBACKS_PER_MINUTE = 20, 6  # the same for records with a traceback


class OneLine(logging.Formatter):
    """Formats a record as one line: time, level, logger, text, and a traceback with escaped line ends."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """The record as one printable line."""
        return printable(super().format(record))


class CauseLimit(logging.Filter):
    """Leaves out records of a cause that has given too many; the next one that is written says how many.

    A cause is a logger, a level and a text without its parameters, so strangers cannot make causes. Each may give a
    number of lines at once, and then some per minute: fewer with a traceback, more of the rounds of a job. Records
    at DEBUG are all written.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Args:
        clock: seconds, of which only differences count.
        """
        super().__init__()
        self._lock = threading.Lock()
        self._lines = Buckets(LINES, LINES_PER_MINUTE / 60, clock)
        self._job_lines = Buckets(JOB_LINES, JOB_LINES_PER_MINUTE / 60, clock)
        self._tracebacks = Buckets(TRACEBACKS, TRACEBACKS_PER_MINUTE / 60, clock)
        self._left_out: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written."""
        if record.levelno <= logging.DEBUG:
            return True
        words = [record.msg, *(record.args if isinstance(record.args, tuple) else ())]
        templates = [part.template for part in words if isinstance(part, Text)]
        cause = " ".join([record.name, record.levelname, str(record.msg) if len(words) > 1 else "", *templates])
        with self._lock:
            buckets = self._lines
            if record.exc_info:
                buckets = self._tracebacks
            elif getattr(record, "job", ""):
                buckets = self._job_lines
            if buckets.take(cause):
                self._left_out[cause] += 1
                return False
            count = self._left_out.pop(cause, 0)
        if count:
            record.msg, record.args = f"{record.getMessage()} ({count} lines like this one were left out)", ()
        return True


def set_up_logging(level: str) -> None:
    """Send all records of this level and above to stderr.

    The libraries say each request at INFO; they are heard from WARNING on, or all of it at DEBUG.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine())
    handler.addFilter(CauseLimit())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in CHATTY:
        logging.getLogger(name).setLevel(level if level == "DEBUG" else max(logging.WARNING, root.level))


ACCURACY = "accuracy"  # shown in a column of its own; a further metric of this name is the same one
# Of many figures those come first that hide least: a guess of the commonest class does not shine in them.
MAIN_METRICS = ("common_test_accuracy", "f1_macro", "balanced_accuracy", "auc", "argmax_accuracy", "r2")
COMMON_TEST = "common_test_"  # further figures of that come after those of the own test rows
Metrics = Mapping[str, float]
F = TypeVar("F", bound=Callable[..., Any])


def metrics_option(command: F) -> F:
    """The option --metrics; the command gets `every`, whether to show all metrics."""
    return click.option(
        "--metrics",
        "every",
        type=click.Choice(["few", "all"]),
        default="few",
        show_default=True,
        callback=lambda ctx, param, value: value == "all",
        help=f"How many of the trainer's further metrics are shown; few means at most {FEW}.",
    )(command)


def numbers(values: Any) -> dict[str, float]:
    """The numeric metrics in a node's answer, which may contain anything."""
    if not isinstance(values, Mapping):
        return {}
    return {
        str(name): float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def metrics_of(view: Mapping[str, Any]) -> dict[str, float]:
    """The metrics of a job or record after averaging, with the accuracy first."""
    metrics = view.get("metrics")
    after = numbers(metrics.get("after")) if isinstance(metrics, Mapping) else {}
    own = numbers({ACCURACY: view.get("post_fedavg_accuracy")})
    return own | {name: value for name, value in after.items() if name != ACCURACY}


def mesh_words(mesh: Any) -> str:
    """What the nodes reached together, and by what that counts: "0.9312 on 1200 test rows of 3 nodes"; "-" for none."""
    if not isinstance(mesh, Mapping):
        return "-"
    value, nodes = accuracy(mesh.get("accuracy")), f"{printable(mesh.get('nodes'))} nodes"
    if mesh.get("basis") == "counts":
        return f"{value} on {printable(mesh.get('examples'))} test rows of {nodes}"
    if mesh.get("basis") == "examples":
        return f"{value}, mean of {nodes} weighted by {printable(mesh.get('examples'))} test rows"
    return f"{value}, plain mean of {nodes}"


def fairness_words(mesh: Mapping[str, Any]) -> str:
    """How evenly nodes and groups are served: "lowest 0.8000 (b), sd 0.0500, Jain 0.9969"; empty if nobody tells."""
    worst, groups = mesh.get("worst"), mesh.get("groups")
    parts = []
    if isinstance(worst, Mapping):
        parts.append(f"lowest {accuracy(worst.get('accuracy'))} ({printable(worst.get('node'))})")
    parts += [
        f"{name} {accuracy(mesh[key])}" for key, name in (("spread", "sd"), ("jain", "Jain")) if mesh.get(key)
    ]
    for name, group in groups.items() if isinstance(groups, Mapping) else ():
        if isinstance(group, Mapping):
            parts.append(
                f"{printable(name)} {accuracy(group.get('accuracy'))} of {printable(group.get('examples'))}"
            )
    return ", ".join(parts)


def older_round(view: Mapping[str, Any]) -> int | None:
    """The round of a job's figures, if the newest round has none yet; None too where a node does not say."""
    of = view.get("figures_round")
    return of if isinstance(of, int) and of != view.get("current_round") else None


def means(nodes: Iterable[Metrics]) -> dict[str, float]:
    """The mean of each metric over the nodes that have it."""
    values_of: dict[str, list[float]] = {}
    for figures in nodes:
        for name, value in figures.items():
            values_of.setdefault(name, []).append(value)
    return {name: fmean(values) for name, values in values_of.items()}


def chosen_metrics(names: Iterable[str], every: bool) -> list[str]:
    """The metrics to show besides accuracy, the most informative first."""
    given = [name for name in dict.fromkeys(names) if name != ACCURACY]
    ranked = sorted(given, key=_rank)
    return ranked if every else ranked[:FEW]


def _rank(name: str) -> int:
    """The position of a metric in MAIN_METRICS; prefixes as in global_f1_macro are ignored."""
    if name.startswith(COMMON_TEST) and name not in MAIN_METRICS:
        return len(MAIN_METRICS) + 1
    ends = (place for place, end in enumerate(MAIN_METRICS) if name == end or name.endswith("_" + end))
    return next(ends, len(MAIN_METRICS))


def metric_words(figures: Metrics, every: bool) -> str:
    """ "f1_macro 0.5103, auc 0.8012, and 3 more (--metrics all)"; empty when there is none."""
    names = chosen_metrics(figures, every)
    words = [f"{printable(name)} {accuracy(figures[name])}" for name in names]
    hidden = len(chosen_metrics(figures, True)) - len(names)
    return ", ".join([*words, f"and {hidden} more (--metrics all)"] if hidden else words)


def parts(names: Sequence[str], most: int = FEW) -> list[Sequence[str]]:
    """The names in groups that fit next to each other."""
    return [names[start : start + most] for start in range(0, len(names), most)]
