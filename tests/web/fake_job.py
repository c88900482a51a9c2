"""What the in-memory twin of a node remembers of a job, and shows of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from flnet.errors import NotOffered
from flnet.node.interface import View
from flnet.protocol.messages import HyperParams
from flnet.rounds.view import JobView
from flnet.text import text

NO_SCHEDULE: View = {
    **{"when": "never", "by_person": False, "next_seconds": None, "next_words": ""},
    **{"new_examples": 0, "unwilling": ""},
}


class FakeGains:
    """What the twin found out of what each peer brings: the same for all its jobs."""

    def __init__(self) -> None:
        self.found: View = {"on": False, "why_not": "", "rounds": []}

    def view(self, trainer: str) -> View:
        return self.found


class FakeStudies:
    """What the twin sees on its own rows: what tests laid out by kind, for all its jobs."""

    def __init__(self) -> None:
        self.found: dict[str, View] = {}
        self.asked: list[tuple[str, str, str | None]] = []  # trainer, kind, digest

    async def findings(self, trainer: str, kind: str, digest: str | None = None) -> View:
        self.asked.append((trainer, kind, digest))
        if kind not in self.found:
            raise NotOffered(text("{trainer} looks for no groups of rows: there is nothing to show", trainer))
        return self.found[kind]


@dataclass
class FakeJob:
    """What the twin remembers of one job."""

    trainer_id: str
    label: str
    hyper: HyperParams
    source: str = "scikit-learn digits"
    sample: bool = False
    phase: str = "IDLE"
    round: int = -1
    before: float | None = None
    after: float | None = None
    exchanged: bool = False
    waiting_for: list[str] = field(default_factory=list)
    progress: View | None = None
    outcome: str = ""
    rounds_left: int = 0
    goal: View | None = None
    schedule: View = field(default_factory=lambda: NO_SCHEDULE)
    paused: bool = False
    error: str | None = None
    digest: str | None = None
    records: list[View] = field(default_factory=list)
    metrics: View = field(default_factory=dict)
    more: View = field(default_factory=dict)  # fields of its view beside these

    def view(self) -> JobView:
        return JobView.model_validate(self.fields())

    def fields(self) -> View:
        return {
            **dict.fromkeys(("used_hyper", "exchanged_with", "schema_digest", "initiator", "inputs")),
            **{"model_round": -1, "formats": []},
            "trainer_id": self.trainer_id,
            "trainer_label": self.label,
            "phase": self.phase,
            "current_round": self.round,
            "fed_learn_done": "Yes" if self.records else "No",
            "model_was_exchanged": "Yes" if self.exchanged else "No",
            "federated_learning_params": self.hyper.words(),
            "hyper": {"e": self.hyper.e, "u": self.hyper.u, "b": self.hyper.b},
            "pre_fedavg_accuracy": self.before,
            "post_fedavg_accuracy": self.after,
            "metrics": self.metrics,
            "digest": self.digest,
            "contributors": 0,
            "rounds_left": self.rounds_left,
            "goal": self.goal,
            "schedule": self.schedule,
            "paused": self.paused,
            "waiting_for": list(self.waiting_for),
            "received": [],
            "progress": self.progress,
            "outcome": self.outcome,
            "error": self.error,
            "data": {
                "source": self.source,
                "rows": {"train": 1259, "validation": 178, "test": 360},
                "classes": [str(digit) for digit in range(10)],
                "sample": self.sample,
                "note": "for MNIST put its four files into a folder",
            },
            **self.more,
        }
