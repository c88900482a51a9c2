"""."""

from __future__ import annotations

import itertools
import json
import math
import re
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from flnet.rounds.steps import Phase
from flnet.web.api.monitoring import metrics_text
from tests.test_layout import ROOT
from tests.web.conftest import Client
from tests.web.fake_node import FakeNode

DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "flnet.json").read_text("utf-8"))
OF_PROMETHEUS = {"instance", "job"}  # labels that a scraper adds
READY = {"ready": True, "mesh_joined": True, "data_loaded": False, "reasons": []}
Lines = dict[str, dict[tuple[tuple[str, str], ...], float]]


def read(text: bytes) -> Lines:
    """As a reader of Prometheus takes it: name, labels, value."""
    found: Lines = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            lines = found.setdefault(sample.name, {})
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in lines, f"{sample.name}{labels} stands there twice"
            lines[labels] = sample.value
    return found


def info(**job: Any) -> dict[str, Any]:
    """The view of a node with one job and four peers."""
    fields = {
        **{"trainer_id": "MNIST", "phase": "GATHERING", "current_round": 3, "model_round": 2, "contributors": 4},
        **{"rounds_left": 1, "paused": False, "waiting_for": ["b", "c"]},
        **{"pre_fedavg_accuracy": 0.5, "post_fedavg_accuracy": None},
        **job,
    }
    states = ("alive", "alive", "suspect", "left")
    return {
        "version": "9.8",
        "lastNodeStatus": "BUSY",
        "jobsInfo": [fields],
        "peers": [{"state": s} for s in states],
    }


def test_a_job_is_told_by_its_figures() -> None:
    lines = read(metrics_text(info(), READY, {}))
    mnist = (("trainer", "MNIST"),)
    named = ("round", "model_round", "contributors", "rounds_left", "paused", "waiting_peers")
    assert [lines[f"flnet_job_{name}"][mnist] for name in named] == [3, 2, 4, 1, 0, 2]
    assert lines["flnet_job_accuracy"] == {(("trainer", "MNIST"), ("when", "before")): 0.5}
    assert lines["flnet_info"] == {(("mode", "open"), ("version", "9.8")): 1}
    assert [lines[f"flnet_{name}"][()] for name in ("ready", "mesh_joined", "data_loaded", "busy")] == [1, 1, 0, 1]


def test_a_job_is_in_one_of_all_phases_and_peers_are_counted_by_state_without_their_names() -> None:
    lines = read(metrics_text(info(), READY, {}))
    phases = {dict(labels)["phase"]: value for labels, value in lines["flnet_job_phase"].items()}
    assert phases == {phase.value: float(phase is Phase.GATHERING) for phase in Phase}
    peers = {dict(labels)["state"]: value for labels, value in lines["flnet_peers"].items()}
    assert peers == {"alive": 2, "suspect": 1, "dead": 0, "left": 1}


def test_the_last_round_is_told_by_seconds_bytes_and_who_was_in_it() -> None:
    record = {
        **{"seconds": {"train": 1.5, "wait": 0.25}, "bytes": {"sent": 100, "received": 300}},
        **{"contributors": ["a", "b", "c"], "missing": ["d"], "messages": 27},
    }
    lines = read(metrics_text(info(), READY, {"MNIST": record}))
    assert lines["flnet_round_seconds"][("part", "train"), ("trainer", "MNIST")] == 1.5
    assert lines["flnet_round_bytes"][("direction", "received"), ("trainer", "MNIST")] == 300
    assert lines["flnet_round_messages"][(("trainer", "MNIST"),)] == 27
    assert lines["flnet_round_contributors"][(("trainer", "MNIST"),)] == 3
    assert lines["flnet_round_missing"][(("trainer", "MNIST"),)] == 1
    assert lines["process_resident_memory_bytes"][()] > 2**20


def test_names_that_would_break_a_line_are_escaped_and_what_is_no_number_is_left_out() -> None:
    strange = 'a "quoted"\nname \\ {x="y"}'
    view = info(trainer_id=strange, contributors=None, post_fedavg_accuracy=math.nan)
    lines = read(metrics_text(view, READY, {strange: {}}))
    assert lines["flnet_job_round"] == {(("trainer", strange),): 3}
    assert "flnet_job_contributors" not in lines
    assert math.isnan(lines["flnet_job_accuracy"][("trainer", strange), ("when", "after")])


async def test_a_node_gives_its_figures_to_a_program_that_asks(client: Client, node: FakeNode) -> None:
    before = read(await (await client.get("/metrics")).get_data(as_text=False))
    assert before["flnet_job_round"][(("trainer", "MNIST"),)] == -1
    assert "flnet_round_contributors" not in before
    await client.post("/training/trigger", json={"trainerId": "MNIST"})
    await node.finish_round("MNIST", before=0.5, after=0.75)
    answer = await client.get("/metrics")
    assert answer.content_type == "text/plain; version=0.0.4; charset=utf-8"
    after = read(await answer.get_data(as_text=False))
    assert after["flnet_job_accuracy"][("trainer", "MNIST"), ("when", "after")] == 0.75
    assert after["flnet_round_contributors"].keys() == {(("trainer", "MNIST"),)}


@pytest.mark.parametrize("method", ["post", "put", "delete"])
async def test_figures_are_only_read(client: Client, method: str) -> None:
    assert (await getattr(client, method)("/metrics")).status_code == 405


def test_a_job_that_promises_privacy_tells_what_was_spent_and_others_do_not() -> None:
    privacy = {"level": "node", "epsilon": 3.0, "delta": 1e-5, "spent": 1.25, "rounds_left": 7}
    lines = read(metrics_text(info(privacy=privacy), READY, {}))
    labels = (("level", "node"), ("trainer", "MNIST"))
    named = ("epsilon_spent", "epsilon_budget", "delta", "rounds_left")
    assert [lines[f"flnet_privacy_{name}"][labels] for name in named] == [1.25, 3.0, 1e-5, 7]
    assert "flnet_privacy_epsilon_spent" not in read(metrics_text(info(), READY, {}))
    broken = read(metrics_text(info(privacy={**privacy, "spent": None}), READY, {}))
    assert "flnet_privacy_epsilon_spent" not in broken


def test_what_all_nodes_reached_together_has_the_basis_as_a_label() -> None:
    mesh = {"accuracy": 0.75, "basis": "counts", "examples": 12, "nodes": 3, "spread": 0.25, "jain": None}
    lines = read(metrics_text(info(mesh=mesh), READY, {}))
    labels = ("basis", "counts"), ("trainer", "MNIST")
    assert lines["flnet_mesh_accuracy"][labels] == 0.75 and lines["flnet_mesh_examples"][labels] == 12
    assert lines["flnet_mesh_accuracy_spread"][labels] == 0.25 and "flnet_mesh_accuracy_jain" not in lines
    assert "flnet_mesh_accuracy" not in read(metrics_text(info(), READY, {}))


def all_metrics() -> Lines:
    """Those of a node that has all there can be."""
    privacy = {"level": "node", "epsilon": 3.0, "delta": 1e-5, "spent": 1.25, "rounds_left": 7}
    secure = {"members": 4, "threshold": 3, "contributors": 4}
    record = {
        "seconds": {"train": 1.5},
        "bytes": {"sent": 1},
        "messages": 2,
        "contributors": ["a"],
        "missing": ["b"],
    }
    mesh = {"accuracy": 0.75, "basis": "counts", "examples": 12, "nodes": 3, "spread": 0.25, "jain": 0.9}
    return read(metrics_text(info(privacy=privacy, secure=secure, mesh=mesh), READY, {"MNIST": record}))


def targets() -> list[tuple[str, str]]:
    """Query and legend of everything in the dashboard that asks for metrics."""
    panels = [
        (each["expr"], each["legendFormat"]) for panel in DASHBOARD["panels"] for each in panel.get("targets", ())
    ]
    variables = [each["query"]["query"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
    return [*panels, *((query, "") for query in variables)]


def test_the_dashboard_names_only_metrics_and_labels_that_there_are_and_no_metric_is_forgotten() -> None:
    lines, named = all_metrics(), set()
    for query, legend in targets():
        metrics = re.findall(r"\b(?:flnet|process)_\w+", query)
        assert metrics, query
        assert set(metrics) <= lines.keys(), query
        named |= set(metrics)
        labels = {name for metric in metrics[:1] for key in lines[metric] for name, _ in key} | OF_PROMETHEUS
        used = {*re.findall(r"(\w+)\s*=~", query), *re.findall(r"\{\{(\w+)\}\}", legend)}
        assert used <= labels, (query, legend)
    # Constant, or shown as updates in the model.
    unshown = {"flnet_privacy_delta", "flnet_secure_sum_contributors"}
    assert {name for name in lines if name.startswith("flnet_")} - named == unshown


def test_the_dashboard_can_be_laid_out_and_its_variables_exist() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    for a, b in itertools.combinations(places, 2):
        is_apart = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        assert is_apart or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
    assert max(place["x"] + place["w"] for place in places) == 24
    variables = {each["name"] for each in DASHBOARD["templating"]["list"]}
    written = json.dumps(DASHBOARD)
    assert {*re.findall(r"\$\{?([a-z]\w*)", written)} == variables
    assert {panel["datasource"]["uid"] for panel in panels if panel["type"] != "row"} == {"${datasource}"}
