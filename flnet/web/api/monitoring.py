"""Health, readiness and metrics, for programs that watch machines.

GET /metrics answers in the text format of Prometheus. It counts peers and does not name them: names come and go, and
each would be a time series for ever.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from quart import Response

from flnet.membership.roster import State
from flnet.node import interface
from flnet.node.interface import Node
from flnet.params.params import TrainerId
from flnet.rounds.steps import Phase
from flnet.rounds.view import View
from flnet.web.auth.permissions import Who, may_act
from flnet.web.routes import MONITORING, Api, json_answer

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Field of a view, name, description. A view without the figure has no sample.
_Gauges = tuple[tuple[str, str, str], ...]
_JOB_GAUGES: _Gauges = (  # of a job
    ("current_round", "round", "The newest round entered; -1 before the first"),
    ("model_round", "model_round", "The round whose average is in use; -1 for none"),
    ("contributors", "contributors", "Nodes whose updates are in the model in use"),
    ("rounds_left", "rounds_left", "Rounds of a series that are still to be started here"),
    ("paused", "paused", "1 while this node sits rounds out"),
)
_PRIVACY_GAUGES: _Gauges = (  # of what a node with FLNET_PRIVACY promises
    ("spent", "epsilon_spent", "Epsilon that the updates counted in the budget have spent"),
    ("epsilon", "epsilon_budget", "Epsilon of the budget"),
    ("delta", "delta", "Delta of the budget"),
    ("rounds_left", "rounds_left", "Further updates that the budget allows"),
)
_SUM_GAUGES: _Gauges = (  # of jobs whose updates are masked
    (
        "members",
        "members",
        "Nodes that held shares for the newest secure sum; before the first, nodes that are here",
    ),
    ("threshold", "threshold", "How many of them are needed to open a secure sum"),
    ("contributors", "contributors", "Updates in the newest secure sum"),
)
_MESH_GAUGES: _Gauges = (  # of the test rows of all nodes; the label says by what they count
    ("accuracy", "accuracy", "On the test rows of all nodes together"),
    ("examples", "examples", "Test rows of all nodes together"),
    ("nodes", "nodes", "Nodes that told their accuracy"),
    ("spread", "accuracy_spread", "Standard deviation of their accuracies"),
    ("jain", "accuracy_jain", "Jain's index of their accuracies"),
)
_ACCURACIES = (("before", "pre_fedavg_accuracy"), ("after", "post_fedavg_accuracy"))
api = Api()


class HealthView(View):
    """The process answers."""

    status: Literal["ok"]


class ReadyView(View):
    """Whether this node can take part in rounds."""

    ready: bool
    mesh_joined: bool
    data_loaded: bool
    reasons: list[str]


@api.get("/health", MONITORING, answer=HealthView, who=Who.PUBLIC)
async def health() -> dict[str, str]:
    """Whether the process is alive."""
    return {"status": "ok"}


@api.get("/ready", MONITORING, answer=ReadyView, alike=(503,), who=Who.PUBLIC)
async def ready(node: Node) -> Response:
    """Whether this node can take part in rounds."""
    view = node.ready()
    if node.signing is not None and not may_act():  # the reasons name the peers that this node calls
        view = {**view, "reasons": []}
    return json_answer(view, 200 if view["ready"] else 503)


@api.get("/metrics", MONITORING, answer_type="text/plain")
async def figures(node: Node) -> Response:
    """Metrics of this node, for Prometheus."""
    info = node.info()
    trainers = [TrainerId(job["trainer_id"]) for job in info["jobsInfo"] if job["current_round"] >= 0]
    newest = {str(trainer): (*await node.records(trainer, 1), {})[0] for trainer in trainers}
    text = await asyncio.to_thread(metrics_text, info, node.ready(), newest)
    return Response(text, content_type=METRICS_TYPE)


def metrics_text(info: interface.View, ready: interface.View, newest: Mapping[str, interface.View]) -> bytes:
    """The answer to GET /metrics.

    Args:
        info: the view of `Node.info`.
        ready: the view of `Node.ready`.
        newest: the record of the last round of each job that has done one.
    """
    # Few nodes are watched, and the library takes 2 MB.
    from prometheus_client import CollectorRegistry, Gauge, Info, ProcessCollector, generate_latest  # noqa: PLC0415

    registry = CollectorRegistry()
    this_node = Info("flnet", "This node", registry=registry)
    this_node.info({"version": info["version"], "mode": info.get("mode", "open")})
    for metric in _metrics(info, ready, newest):
        gauge = Gauge(f"flnet_{metric.name}", metric.description, metric.labels, registry=registry)
        for labels, value in metric.samples:
            (gauge.labels(*labels) if labels else gauge).set(value)
    ProcessCollector(registry=registry)  # memory, processor time, open files; Linux only
    return generate_latest(registry)


@dataclass
class _Metric:
    """A gauge and its samples: values of the labels, and the figure."""

    name: str
    description: str
    labels: tuple[str, ...] = ()
    samples: list[tuple[tuple[str, ...], float]] = field(default_factory=list)

    def add(self, value: Any, *labels: str) -> None:
        """Add a sample, unless the figure is not known."""
        if isinstance(value, int | float):  # a bool is 0 or 1
            self.samples.append((labels, value))


def _metrics(
    info: interface.View, ready: interface.View, newest: Mapping[str, interface.View]
) -> Iterator[_Metric]:
    for name, description in (
        ("ready", "1 if this node can take part in rounds"),
        ("mesh_joined", "1 if a bootstrap peer has answered, or none is needed"),
        ("data_loaded", "1 if some job has its data"),
    ):
        yield _Metric(name, description, samples=[((), float(ready[name]))])
    yield _Metric("busy", "1 while a job works", samples=[((), float(info["lastNodeStatus"] == "BUSY"))])
    states = Counter(str(peer["state"]) for peer in info["peers"])
    peers = _Metric("peers", "Other nodes, by what is known of them", ("state",))
    for state in State:
        peers.add(states[state.value], state.value)
    yield peers
    yield from _job_metrics(info["jobsInfo"])
    yield from _round_metrics(newest)


def _job_metrics(jobs: list[interface.View]) -> Iterator[_Metric]:
    for name, metric_name, description in _JOB_GAUGES:
        metric = _Metric(f"job_{metric_name}", description, ("trainer",))
        for job in jobs:
            metric.add(job.get(name), job["trainer_id"])
        yield metric
    yield from _metrics_of(jobs, "privacy", "privacy", _PRIVACY_GAUGES, "level")
    yield from _metrics_of(jobs, "mesh", "mesh", _MESH_GAUGES, "basis")
    yield from _metrics_of(jobs, "secure", "secure_sum", _SUM_GAUGES)
    waiting = _Metric("job_waiting_peers", "Peers whose updates are missing", ("trainer",))
    phases = _Metric("job_phase", "1 for the phase a job is in", ("trainer", "phase"))
    accuracies = _Metric("job_accuracy", "On the own test rows, before and after averaging", ("trainer", "when"))
    for job in jobs:
        trainer = job["trainer_id"]
        waiting.add(len(job["waiting_for"]), trainer)
        for phase in Phase:
            phases.add(job["phase"] == phase, trainer, phase.value)
        for when, name in _ACCURACIES:
            accuracies.add(job.get(name), trainer, when)
    yield from (waiting, phases, accuracies)


def _metrics_of(
    jobs: list[interface.View], part: str, prefix: str, gauges: _Gauges, *labels: str
) -> Iterator[_Metric]:
    """The figures of one part of the view of jobs; none where no job has that part.

    Args:
        labels: fields of the part that are labels, besides the trainer.
    """
    for name, metric_name, description in gauges:
        metric = _Metric(f"{prefix}_{metric_name}", description, ("trainer", *labels))
        for job in jobs:
            if (view := job.get(part)) is not None:
                metric.add(view.get(name), job["trainer_id"], *(view[label] for label in labels))
        if metric.samples:
            yield metric


def _round_metrics(newest: Mapping[str, interface.View]) -> Iterator[_Metric]:
    seconds = _Metric("round_seconds", "What the parts of the last round took", ("trainer", "part"))
    moved = _Metric("round_bytes", "Parameters that the last round moved", ("trainer", "direction"))
    messages = _Metric("round_messages", "Requests that this node made of others in the last round", ("trainer",))
    merged = _Metric("round_contributors", "Nodes whose updates the last round averaged", ("trainer",))
    missing = _Metric("round_missing", "Nodes that the last round averaged without", ("trainer",))
    for trainer, record in newest.items():
        for part, took in record.get("seconds", {}).items():
            seconds.add(took, trainer, part)
        for direction, nbytes in record.get("bytes", {}).items():
            moved.add(nbytes, trainer, direction)
        messages.add(record.get("messages"), trainer)
        merged.add(len(record.get("contributors", ())), trainer)
        missing.add(len(record.get("missing", ())), trainer)
    yield from (seconds, moved, messages, merged, missing)
