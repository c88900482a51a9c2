"""What the page shows, as plain records; built from any data, because a peer may claim anything of itself."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from flnet.node.base import FeedItem, View

MAX_JOBS = 50  # of one node; what a peer claims beyond that is not shown
MAX_TEXT = 200  # characters of one value
MAX_FIGURES = 24  # of one job
NEVER = "not trained yet"
NONE = "—"
_QUIET = ("IDLE", "NO_DATA")
_PHASES = {
    "LOADING": "Loading data",
    "NO_DATA": "No data",
    "IDLE": "Idle",
    "TRAINING": "Training",
    "GATHERING": "Waiting for updates",
    "AVERAGING": "Averaging",
    "MEASURING": "Measuring",
    "EXCHANGING": "Exchanging models",
}
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}")


@dataclass(frozen=True)
class Progress:
    """How far the local training is: `done` of `total` steps."""

    done: float
    total: float

    @property
    def percent(self) -> int:
        """From 0 to 100."""
        return round(100 * self.done / self.total)


@dataclass(frozen=True)
class JobView:
    """One job of one node, in words; the names of the thesis stand in the template."""

    node: str
    trainer_id: str
    label: str
    phase: str
    phase_words: str
    round: str
    hyper: str
    averaged: str
    pre: str
    post: str
    change: str
    exchanged: str
    digest: str
    waiting_for: str
    outcome: str
    error: str
    data: str
    data_note: str
    data_classes: tuple[tuple[str, str], ...]  # split, rows of each class in words
    checksum: str
    sample: bool
    progress: Progress | None
    figures: tuple[tuple[str, str], ...]  # of the trainer, name and value
    figures_when: str

    @property
    def busy(self) -> bool:
        """Whether something is going on, so that the page should look again soon."""
        return bool(self.phase) and self.phase not in _QUIET

    @property
    def can_start(self) -> bool:
        """Whether a round could be asked for; the node itself decides when it is."""
        return self.phase not in ("LOADING", "NO_DATA")


@dataclass(frozen=True)
class PeerView:
    """One other node; `url` is its page, or empty when its address is none."""

    id: str
    address: str
    url: str
    state: str
    note: str


@dataclass(frozen=True)
class EventView:
    """One thing that happened."""

    time: str
    iso: str
    text: str


def job_view(node: str, job: Any) -> JobView:
    """Read one job's view, of this node or as a peer tells it; what is missing or no text becomes a dash."""
    job = job if isinstance(job, Mapping) else {}
    label = text(job.get("trainer_label")) or text(job.get("trainer_id")) or "?"
    phase = text(job.get("phase"))
    data = job.get("data")
    data = data if isinstance(data, Mapping) else {}
    figures, when = _figures(job.get("metrics"))
    return JobView(
        node=node,
        trainer_id=text(job.get("trainer_id")),
        label=label,
        phase=phase,
        phase_words=_PHASES.get(phase, phase.capitalize()),
        round=_round_words(job.get("current_round")),
        hyper=text(job.get("federated_learning_params")) or NONE,
        averaged=text(job.get("fed_learn_done")) or NONE,
        pre=accuracy(job.get("pre_fedavg_accuracy")),
        post=accuracy(job.get("post_fedavg_accuracy")),
        change=_change(job.get("pre_fedavg_accuracy"), job.get("post_fedavg_accuracy")),
        exchanged=text(job.get("model_was_exchanged")) or NONE,
        digest=text(job.get("digest"))[:12] or NONE,
        waiting_for=_names(job.get("waiting_for")),
        outcome=text(job.get("outcome")),
        error=text(job.get("error"), 500),
        data=_data_words(data),
        data_note=text(data.get("note"), 400),
        data_classes=_classes_words(data.get("classes"), job.get("counts")),
        checksum=text(job.get("checksum"), 12),
        sample=data.get("sample") is True,
        progress=_progress(job.get("progress")),
        figures=figures,
        figures_when=when,
    )


def jobs_of(node: str, info: Any) -> list[JobView]:
    """The jobs in an answer to GET /info."""
    jobs = info.get("jobsInfo") if isinstance(info, Mapping) else None
    return [job_view(node, job) for job in jobs[:MAX_JOBS]] if isinstance(jobs, list | tuple) else []


def same_job(one: JobView, other: JobView) -> bool:
    """Whether two nodes mean the same trainer; an old node tells no id, only the label."""
    if one.trainer_id and other.trainer_id:
        return one.trainer_id == other.trainer_id
    return one.label == other.label


def peer_views(peers: Iterable[View], infos: Mapping[str, View]) -> list[PeerView]:
    """The other nodes; `infos` by peer id says which of them gave no information."""
    return [peer_view(peer, infos.get(str(peer.get("id")))) for peer in peers]


def peer_view(peer: View, asked: View | None) -> PeerView:
    """One other node, with what went wrong when it was asked for its information."""
    address = text(peer.get("address"))
    note = text(peer.get("reason")) or text((asked or {}).get("error"))
    url = f"http://{address}/" if _ADDRESS.fullmatch(address) else ""
    return PeerView(text(peer.get("id")), address, url, text(peer.get("state")), note)


def event_views(items: Sequence[FeedItem], most: int) -> list[EventView]:
    """The newest things that happened, newest first; times are this machine's."""
    return [_event_view(item) for item in reversed(items[-most:])]


def _event_view(item: FeedItem) -> EventView:
    moment = datetime.fromtimestamp(item.at).astimezone()
    return EventView(moment.strftime("%H:%M:%S"), moment.isoformat(timespec="seconds"), text(item.text, 500))


def text(value: Any, most: int = MAX_TEXT) -> str:
    """A string or number as one line of at most `most` characters; nothing for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    try:
        line = " ".join(str(value).split())
    except ValueError:  # Python refuses to print integers of thousands of digits
        return ""
    cut = len(line) > most
    # Lone surrogates could not be sent at all, and marks that turn the direction of text could disguise it.
    line = "".join(sign if sign.isprintable() else "\ufffd" for sign in line[:most])
    return line if not cut else line[: most - 1] + "…"


def accuracy(value: Any) -> str:
    """An accuracy in [0, 1] as per cent; a dash for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        return NONE
    return f"{100 * value:.2f} %"


def _figures(metrics: Any) -> tuple[tuple[tuple[str, str], ...], str]:
    """The trainer's further figures after averaging, or before it as long as that is all, and which these are."""
    for when in ("after", "before"):
        found = metrics.get(when) if isinstance(metrics, Mapping) else None
        if not isinstance(found, Mapping):
            continue
        # The figure named accuracy is the one that the page shows in large.
        shown = [(text(name, 40), _number(value)) for name, value in found.items() if name != "accuracy"]
        if kept := [(name, number) for name, number in shown if name and number]:
            return tuple(kept[:MAX_FIGURES]), f"{when} averaging"
    return (), ""


def _number(value: Any) -> str:
    """With four digits that count; nothing for what is no finite number."""
    try:
        return f"{value:.4g}" if type(value) in (int, float) and math.isfinite(value) else ""
    except OverflowError:  # a whole number that no float holds
        return ""


def _change(before: Any, after: Any) -> str:
    """What averaging brought, in percentage points."""
    if NONE in (accuracy(before), accuracy(after)):
        return ""
    return f"{100 * (after - before):+.2f}"


def _round_words(value: Any) -> str:
    if isinstance(value, int) and value < 0:
        return NEVER
    return text(value, 20) or NONE


def _names(value: Any) -> str:
    names = [text(name, 64) for name in value[:20]] if isinstance(value, list | tuple) else []
    hidden = len(value) - len(names) if names else 0
    return ", ".join(name for name in names if name) + (f" and {hidden} more" if hidden else "")


def _data_words(data: Mapping[str, Any]) -> str:
    """Where the data is from and how much it is: rows in all or by split, classes by number or name."""
    classes = data.get("classes")
    named = _count(len(classes) if isinstance(classes, list | tuple) else classes)
    parts = [text(data.get("source")), _rows(data.get("rows")), f"{named} classes" if named else ""]
    return "; ".join(part for part in parts if part)


def _classes_words(classes: Any, counts: Any) -> tuple[tuple[str, str], ...]:
    """For each split the rows of each class, of twelve classes at most."""
    if not isinstance(classes, list | tuple) or not isinstance(counts, Mapping):
        return ()
    lines = []
    for split, numbers in list(counts.items())[:5]:
        pairs = zip(classes, numbers if isinstance(numbers, list | tuple) else (), strict=False)
        words = [f"{text(name, 40)}: {_count(number) or 0}" for name, number in list(pairs)[:12]]
        more = f" and {len(classes) - 12} more classes" if len(classes) > 12 else ""
        lines += [(text(split, 20), ", ".join(words) + more)] if words else []
    return tuple(lines)


def _rows(rows: Any) -> str:
    if not isinstance(rows, Mapping):
        return f"{_count(rows)} rows" if _count(rows) else ""
    splits = [f"{_count(number)} {text(split, 20)}" for split, number in rows.items() if _count(number)]
    return f"{', '.join(splits[:5])} rows" if splits else ""


def _count(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**15:
        return ""
    return f"{value:,}"


def _progress(value: Any) -> Progress | None:
    if not isinstance(value, Mapping):
        return None
    done, total = value.get("done"), value.get("total")
    if not isinstance(done, int | float) or not isinstance(total, int | float):
        return None
    return Progress(min(done, total), total) if 0 <= done < 10**15 and 0 < total < 10**15 else None
