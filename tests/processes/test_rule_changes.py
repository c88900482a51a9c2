"""Three real nodes whose people agree on an aggregation rule while rounds go on; one is killed in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.processes.harness import Harness, PinnedHarness, RealNode, harness, until

pytestmark = pytest.mark.slow
SECRET = "a secret of all nodes, long enough"
PROPOSALS = "/jobs/SLOW/proposals"


@pytest.fixture(
    params=["open", pytest.param("keyed", marks=pytest.mark.long), pytest.param("pinned", marks=pytest.mark.long)]
)
def mesh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    if request.param != "pinned":
        with harness(tmp_path) as h:
            for _ in range(3):
                h.start(**({"MESH_KEY": SECRET} if request.param == "keyed" else {}))
            yield h
        return
    pinned = PinnedHarness(tmp_path)
    pinned.module = "tests.processes.hurried"
    try:
        marks = [pinned.mark(index) for index in range(3)]
        for mark in marks:
            pinned.start(TRUSTED_PEERS=",".join(other for other in marks if other != mark))
        yield pinned
    finally:
        pinned.stop()


def take(node: RealNode, rule: str) -> None:
    """A person at a node takes the rule, as soon as it is shown there."""
    found: list[Mapping[str, Any]] = []

    def is_shown() -> bool:
        found[:] = [one for one in node.get(PROPOSALS) if one["rule"] == rule]
        return bool(found)

    until(is_shown, f"the proposal at {node.name}")
    answer = node.http.post(f"{PROPOSALS}/answer", json={"mark": found[0]["mark"], "takes": True})
    assert answer.status_code == 200, answer.text


def test_rounds_go_on_while_the_rule_of_all_nodes_changes(mesh: Harness) -> None:
    first, second, third = mesh.nodes
    mesh.go()
    mesh.ready()
    assert first.trigger(rounds=100_000).status_code == 202
    until(lambda: first.job()["current_round"] >= 2, "the first rounds")
    assert second.http.post(PROPOSALS, json={"aggregation": "median"}).status_code == 201
    take(first, "median")
    assert {node.job()["merging_rule"] for node in mesh.nodes} == {"agg1"}
    take(third, "median")
    third.kill()
    mesh.again(third)
    mesh.up(third)
    until(lambda: {node.job()["merging_rule"] for node in mesh.nodes} == {"median"}, "the new rule")
    last = first.job()["current_round"] + 3
    until(lambda: first.job()["current_round"] >= last, "rounds by it")
    first.http.post("/jobs/SLOW/stop")
    until(lambda: all(node.job()["phase"] == "IDLE" for node in mesh.nodes), "the end of the series")
    assert len({node.job()["digest"] for node in mesh.nodes}) == 1
    until(lambda: not any(node.job().get("rule_proposals") for node in mesh.nodes), "all nodes to know of it")
    assert [words for node in mesh.nodes for words in node.told("refused") if "aggregation rule" in words] == []
    assert [words for node in mesh.nodes for words in node.told("differs")] == []
    digests: dict[tuple[Any, ...], set[str]] = {}  # of what each node averaged itself, by the updates in it
    for record in (record for node in mesh.nodes for record in node.history() if record["exchanged_with"] is None):
        of = (record["round"], record["initiator"], *record["contributors"])
        digests.setdefault(of, set()).add(record["digest"])
    assert all(len(made) == 1 for made in digests.values())
