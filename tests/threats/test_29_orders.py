"""A start orders a training without end: ten thousand epochs of batches of one. The others do not train that."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.processes.harness import Harness, PinnedHarness, answers, until

pytestmark = pytest.mark.slow
HUGE = {"e": 10_000, "u": 0.1, "b": 1}
WORDS = "the start asks for too much: expected at most 1000 epochs in a round of another node, got 10000"
KEY = "correct horse battery staple"


@pytest.fixture(params=["open", "keyed", "pinned"])
def mesh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    """Two nodes: the first is a member that orders, the second one is ordered."""
    made = (PinnedHarness if request.param == "pinned" else Harness)(tmp_path)
    try:
        made.go()
        for _ in range(2):
            made.start(**({"MESH_KEY": KEY} if request.param == "keyed" else {}))
        if isinstance(made, PinnedHarness):
            for node, other in ((0, 1), (1, 0)):
                until(partial(answers, made.nodes[node], "/health"), f"answers of n{node}")
                accepted = {"fingerprint": made.mark(other)}
                made.nodes[node].http.post("/trust/accept", json=accepted).raise_for_status()
        made.ready()
        yield made
    finally:
        made.stop()


def test_a_node_does_not_train_what_a_peer_orders_without_measure(mesh: Harness) -> None:
    hostile, node = mesh.nodes
    usual = node.job()["hyper"]
    order = {"trainerId": "SLOW", "federatedLearningParams": HUGE}
    assert hostile.http.post("/training/trigger", json=order).status_code == 202
    until(lambda: bool(node.history() and hostile.history()), "the round on both")
    (record,) = hostile.history()
    assert record["contributors"] == ["n0"]
    assert f"not taking part: n1: {WORDS}" in record["outcome"]
    assert node.told("sits_out") == [f"this node sits the round out: {WORDS}"]
    assert node.job()["hyper"] == usual  # the order is not taken over for later rounds either
    assert node.history()[0]["used_hyper"] is None
    assert node.trigger().status_code == 202
    until(lambda: len(hostile.history()) == 2, "a round as before")
    assert hostile.history()[1]["contributors"] == ["n0", "n1"]
