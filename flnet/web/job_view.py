"""What the page shows of a job, as a plain record; built from any data, as a peer may claim anything of itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flnet.web.data_words import classes_words, data_words
from flnet.web.goals import GoalView, goal_view
from flnet.web.schedules import ScheduleView, schedule_view
from flnet.web.version_rows import VersionTable, version_table
from flnet.web.view import NONE, accuracy, text
from flnet.web.words import Translate, english

MAX_JOBS = 50  # of one node; what a peer claims beyond that is not shown
MAX_FIGURES = 24  # of one job
NEVER = "not trained yet"
_QUIET = ("IDLE", "NO_DATA")
_PHASES = {
    "LOADING": "Loading data",
    "NO_DATA": "No data",
    "IDLE": "Idle",
    "FETCHING": "Fetching the start",
    "TRAINING": "Training",
    "GATHERING": "Waiting for updates",
    "AVERAGING": "Averaging",
    "MEASURING": "Measuring",
    "EXCHANGING": "Exchanging models",
}


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
    """One job of one node, in words; the names of the thesis stand in the template.

    Attributes:
        phase: as the node names it; `phase_words` in words, not translated.
        number: the round; -1 for none, also where the node tells no whole number.
        model_round: the round whose average it holds and has measured; None where it has none or does not tell.
        received: updates of the round that have come, of `expected`; 0 of 0 outside a round.
        hyper_values: e, u, b as they stand in the form; empty where they are not known.
        figures: of the trainer, name and value.
        paused: whether it sits rounds out; None where the node cannot be paused.
        sits_out: why it does not train in the open round; empty if it does.
        versions: where there are no common rounds.
        rule: by which updates become one model; empty where the node does not tell.
        finds: what can be seen of its models on the own rows: "labels", "groups" or nothing.
        counts_little: whose updates count little, as this node itself tells it (`flnet.web.weights`).
    """

    node: str
    trainer_id: str
    label: str
    phase: str
    phase_words: str
    round: str
    number: int
    model_round: int | None
    hyper: str
    hyper_values: Mapping[str, str]
    averaged: str
    pre: str
    post: str
    post_value: float | None
    change: str
    exchanged: str
    exchanged_with: str
    digest: str
    waiting_for: str
    received: int
    expected: int
    rounds_left: int
    goal: GoalView | None
    schedule: ScheduleView | None
    paused: bool | None
    sits_out: str
    versions: VersionTable | None
    rule: str
    finds: str
    counts_little: Any
    outcome: str
    error: str
    data: str
    data_note: str
    data_classes: tuple[tuple[str, str], ...]  # split, rows of each class in words
    checksum: str
    sample: bool
    progress: Progress | None
    figures: tuple[tuple[str, str], ...]
    figures_when: str

    @property
    def busy(self) -> bool:
        """Whether something is going on, so that the page should look again soon."""
        return bool(self.phase) and self.phase not in _QUIET

    @property
    def can_start(self) -> bool:
        """Whether a round could be asked for; the node itself decides when it is."""
        return self.phase not in ("LOADING", "NO_DATA")


def job_view(node: str, job: Any, t: Translate = english) -> JobView:
    """Read one job's view, of this node or as a peer tells it; what is missing or no text becomes a dash."""
    job = job if isinstance(job, Mapping) else {}
    return JobView(
        node=node,
        **_who(job),
        **_state(job),
        goal=goal_view(job.get("goal"), t),
        schedule=schedule_view(job.get("schedule"), t),
        versions=version_table(job.get("versions"), t),
        **_learnt(job, t),
        **_data(job, t),
    )


def jobs_of(node: str, info: Any, t: Translate = english) -> list[JobView]:
    """The jobs in an answer to GET /info."""
    jobs = info.get("jobsInfo") if isinstance(info, Mapping) else None
    return [job_view(node, job, t) for job in jobs[:MAX_JOBS]] if isinstance(jobs, list | tuple) else []


def phase_words(phase: str) -> str:
    """A phase in English words, as the templates translate them."""
    return _PHASES.get(phase, phase.capitalize())


def same_job(one: JobView, other: JobView) -> bool:
    """Whether two nodes mean the same trainer; an old node tells no id, only the label."""
    if one.trainer_id and other.trainer_id:
        return one.trainer_id == other.trainer_id
    return one.label == other.label


def _who(job: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "trainer_id": text(job.get("trainer_id")),
        "label": text(job.get("trainer_label")) or text(job.get("trainer_id")) or "?",
    }


def _state(job: Mapping[str, Any]) -> dict[str, Any]:
    phase = text(job.get("phase"))
    received, waiting = job.get("received"), job.get("waiting_for")
    have = len(received) if isinstance(received, list | tuple) and phase not in _QUIET else 0
    paused = job.get("paused")
    return {
        "phase": phase,
        "phase_words": phase_words(phase),
        "round": _round_words(job.get("current_round")),
        "number": _whole(job.get("current_round"), -1),
        "model_round": _model_round(job, phase),
        "waiting_for": _names(waiting),
        "received": have,
        "expected": have + (len(waiting) if isinstance(waiting, list | tuple) else 0),
        "rounds_left": _whole(job.get("rounds_left"), 0),
        "paused": paused if isinstance(paused, bool) else None,
        "sits_out": text(job.get("sits_out"), 500),
        "rule": text(job.get("merging_rule")),
        "finds": finds if (finds := text(job.get("finds"))) in ("labels", "groups") else "",
        "counts_little": job.get("counts_little"),
        "progress": _progress(job.get("progress")),
        "outcome": text(job.get("outcome"), 500),
        "error": text(job.get("error"), 500),
    }


def _learnt(job: Mapping[str, Any], t: Translate) -> dict[str, Any]:
    before, after = job.get("pre_fedavg_accuracy"), job.get("post_fedavg_accuracy")
    figures, when = _figures(job.get("metrics"))
    values = _hyper_values(job.get("hyper"))
    return {
        "hyper": _hyper_words(values, t) or text(job.get("federated_learning_params")) or NONE,
        "hyper_values": values,
        "averaged": text(job.get("fed_learn_done")) or NONE,
        "pre": accuracy(before),
        "post": accuracy(after),
        "post_value": None if accuracy(after) == NONE else after,
        "change": _change(before, after),
        "exchanged": text(job.get("model_was_exchanged")) or NONE,
        "exchanged_with": text(job.get("exchanged_with"), 64),
        "digest": text(job.get("digest"))[:12] or NONE,
        "figures": figures,
        "figures_when": when,
    }


def _data(job: Mapping[str, Any], t: Translate) -> dict[str, Any]:
    data = job.get("data")
    data = data if isinstance(data, Mapping) else {}
    return {
        "data": data_words(data, t),
        "data_note": text(data.get("note"), 400),
        "data_classes": classes_words(data.get("classes"), job.get("counts"), t),
        "checksum": text(job.get("checksum"), 12),
        "sample": data.get("sample") is True,
    }


def _hyper_values(hyper: Any) -> Mapping[str, str]:
    if not isinstance(hyper, Mapping):
        return {}
    values = {name: _exact(hyper.get(name)) for name in ("e", "u", "b")}
    return values if all(values.values()) else {}


def _hyper_words(values: Mapping[str, str], t: Translate) -> str:
    """As the thesis shows them, in the reader's language."""
    return t("Learning Rate: {u}, Epochs: {e}, Batch size: {b}", **values) if values else ""


def _exact(value: Any) -> str:
    """A number as a form takes it, without loss."""
    return repr(value) if type(value) in (int, float) and abs(value) < 10**15 else ""


def _whole(value: Any, otherwise: int) -> int:
    return value if type(value) is int and 0 <= value < 10**15 else otherwise


def _model_round(job: Mapping[str, Any], phase: str) -> int | None:
    """A node that names no round of its model holds that of its round once it is idle."""
    idle = phase == "IDLE" and job.get("fed_learn_done") == "Yes"
    found = _whole(job.get("model_round", job.get("current_round") if idle else None), -1)
    return found if found >= 0 else None


def _change(before: Any, after: Any) -> str:
    """What averaging brought, in percentage points."""
    if NONE in (accuracy(before), accuracy(after)):
        return ""
    return f"{100 * (after - before):+.2f}"


def _round_words(value: Any) -> str:
    if isinstance(value, int) and value < 0:
        return NEVER
    return text(value, 20) or NONE


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


def _names(value: Any) -> str:
    names = [text(name, 64) for name in value[:20]] if isinstance(value, list | tuple) else []
    hidden = len(value) - len(names) if names else 0
    return ", ".join(name for name in names if name) + (f" and {hidden} more" if hidden else "")


def _progress(value: Any) -> Progress | None:
    if not isinstance(value, Mapping):
        return None
    done, total = value.get("done"), value.get("total")
    if not isinstance(done, int | float) or not isinstance(total, int | float):
        return None
    return Progress(min(done, total), total) if 0 <= done < 10**15 and 0 < total < 10**15 else None
