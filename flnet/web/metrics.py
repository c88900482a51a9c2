"""Figures of this node in the text form of Prometheus, for programs that watch over many machines.

No peer is named in them, only how many there are: names come and go, and each would be a series for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from flnet.jobs import Phase
from flnet.membership import State

View = Mapping[str, Any]
_OF_JOBS = (  # field of a job's view, name, what it is; a job that has no such figure has no such line
    ("current_round", "round", "The newest round entered; -1 before the first"),
    ("model_round", "model_round", "The round whose average is held; -1 for none"),
    ("contributors", "contributors", "Nodes whose updates are in the model held"),
    ("rounds_left", "rounds_left", "Rounds of a series that are still to be started here"),
    ("paused", "paused", "1 while this node sits rounds out"),
)
_ACCURACIES = (("before", "pre_fedavg_accuracy"), ("after", "post_fedavg_accuracy"))


def metrics_text(info: View, ready: View, newest: Mapping[str, View]) -> bytes:
    """The answer to GET /metrics.

    Args:
        info: the view of `Node.info`.
        ready: the view of `Node.ready`.
        newest: of each job that has done a round, the record of the last one.
    """
    registry = CollectorRegistry()
    registry.register(_Figures(info, ready, newest))
    ProcessCollector(registry=registry)  # memory, processor time, open files; Linux only
    return generate_latest(registry)


class _Figures(Collector):
    def __init__(self, info: View, ready: View, newest: Mapping[str, View]) -> None:
        self._info, self._ready, self._newest = info, ready, newest

    def collect(self) -> Iterator[Metric]:
        """All families, each with the lines that there are."""
        yield InfoMetricFamily(
            "flnet", "This node", {"version": self._info["version"], "mode": self._info.get("mode", "open")}
        )
        for name, what in (
            ("ready", "1 if this node can take part in rounds"),
            ("mesh_joined", "1 if a bootstrap peer has answered, or none is needed"),
            ("data_loaded", "1 if some job has its data"),
        ):
            yield GaugeMetricFamily(f"flnet_{name}", what, float(self._ready[name]))
        yield GaugeMetricFamily("flnet_busy", "1 while a job works", float(self._info["lastNodeStatus"] == "BUSY"))
        yield self._peers()
        yield from self._jobs()
        yield from self._rounds()

    def _peers(self) -> Metric:
        counts = Counter(str(peer["state"]) for peer in self._info["peers"])
        family = GaugeMetricFamily("flnet_peers", "Other nodes, by what is known of them", labels=["state"])
        for state in State:
            family.add_metric([state.value], counts[state.value])
        return family

    def _jobs(self) -> Iterator[Metric]:
        jobs = self._info["jobsInfo"]
        for field, name, what in _OF_JOBS:
            family = GaugeMetricFamily(f"flnet_job_{name}", what, labels=["trainer"])
            for job in jobs:
                _add(family, [job["trainer_id"]], job.get(field))
            yield family
        waiting = GaugeMetricFamily(
            "flnet_job_waiting_peers", "Peers whose updates are missing", labels=["trainer"]
        )
        phases = GaugeMetricFamily("flnet_job_phase", "1 for the phase a job is in", labels=["trainer", "phase"])
        accuracies = GaugeMetricFamily(
            "flnet_job_accuracy", "On the own test rows, before and after averaging", labels=["trainer", "when"]
        )
        for job in jobs:
            trainer = job["trainer_id"]
            waiting.add_metric([trainer], len(job["waiting_for"]))
            for phase in Phase:
                phases.add_metric([trainer, phase.value], job["phase"] == phase)
            for when, field in _ACCURACIES:
                _add(accuracies, [trainer, when], job.get(field))
        yield from (waiting, phases, accuracies)

    def _rounds(self) -> Iterator[Metric]:
        seconds = GaugeMetricFamily(
            "flnet_round_seconds", "What the parts of the last round took", labels=["trainer", "part"]
        )
        moved = GaugeMetricFamily(
            "flnet_round_bytes", "Parameters that the last round moved", labels=["trainer", "direction"]
        )
        merged = GaugeMetricFamily(
            "flnet_round_contributors", "Nodes whose updates the last round averaged", labels=["trainer"]
        )
        missing = GaugeMetricFamily(
            "flnet_round_missing", "Nodes that the last round averaged without", labels=["trainer"]
        )
        for trainer, record in self._newest.items():
            for part, took in record.get("seconds", {}).items():
                _add(seconds, [trainer, part], took)
            for direction, nbytes in record.get("bytes", {}).items():
                _add(moved, [trainer, direction], nbytes)
            merged.add_metric([trainer], len(record.get("contributors", ())))
            missing.add_metric([trainer], len(record.get("missing", ())))
        yield from (seconds, moved, merged, missing)


def _add(family: GaugeMetricFamily, labels: list[str], value: Any) -> None:
    if isinstance(value, int | float):  # a bool is 0 or 1
        family.add_metric(labels, value)
