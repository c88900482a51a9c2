"""A start orders a training without end: ten thousand epochs of batches of one. The others do not train that.

And what does run is ended by a person at once, however deaf the trainer is, and stays ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests.processes.harness import SLOW_TRAINER, Harness, PinnedHarness, RealNode, answers, harness, until

pytestmark = pytest.mark.slow
ORDERS = {
    "epochs": (
        {"e": 10_000, "u": 0.1, "b": 1},
        "the start asks for too much: expected at most 1000 epochs in a round of another node, got 10000",
    ),
    "rate": (
        {"e": 1, "u": 1000, "b": 64},
        "the start asks for too much: expected a learning rate of at most 0.1 in a round of another node, got 1000",
    ),
}
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


@pytest.mark.parametrize("kind", ORDERS)
def test_a_node_does_not_train_what_a_peer_orders_without_measure(mesh: Harness, kind: str) -> None:
    huge, words = ORDERS[kind]
    hostile, node = mesh.nodes
    usual = node.job()["hyper"]
    order = {"trainerId": "SLOW", "federatedLearningParams": huge}
    assert hostile.http.post("/training/trigger", json=order).status_code == 202
    until(lambda: bool(node.history() and hostile.history()), "the round on both")
    (record,) = hostile.history()
    assert record["contributors"] == ["n0"]
    assert f"not taking part: n1: {words}" in record["outcome"]
    assert node.told("sits_out") == [f"this node sits the round out: {words}"]
    assert node.job()["hyper"] == usual  # the order is not taken over for later rounds either
    assert node.history()[0]["used_hyper"] is None
    assert node.job()["round_hyper"] is None
    assert node.trigger().status_code == 202
    until(lambda: len(hostile.history()) == 2, "a round as before")
    assert hostile.history()[1]["contributors"] == ["n0", "n1"]


def test_what_a_peer_orders_counts_for_its_round_alone(mesh: Harness) -> None:
    hostile, node = mesh.nodes
    usual, theirs = node.job()["hyper"], {"e": 1, "u": 0.05, "b": 3}
    order = {"trainerId": "SLOW", "federatedLearningParams": theirs}
    assert hostile.http.post("/training/trigger", json=order).status_code == 202
    until(lambda: node.job()["round_hyper"] == theirs, "the round of the other node")
    until(lambda: bool(node.history() and hostile.history()), "the end of the round on both")
    assert node.history()[0]["used_hyper"] == theirs
    assert node.job()["hyper"] == usual
    assert node.trigger().status_code == 202
    until(lambda: len(node.history()) == 2 and len(hostile.history()) == 2, "a round of this node")
    assert [made.history()[1]["used_hyper"] for made in mesh.nodes] == [usual, usual]
    assert hostile.job()["hyper"] == theirs  # its own person chose them


DEAF_TRAINER = SLOW_TRAINER.replace("while not GO.exists():", "while True:").replace(
    "task.progress(done, done + 1)", ""
)


def test_a_person_ends_a_training_at_once_and_a_restart_does_not_begin_it_again(tmp_path: Path) -> None:
    with harness(tmp_path) as made:
        (made.trainers / "SLOW.py").write_text(DEAF_TRAINER)  # it never asks whether it is to stop
        hostile, node = (made.start(COMPUTE="process") for _ in range(2))
        made.ready()
        assert hostile.trigger().status_code == 202
        until(lambda: node.job()["phase"] == "TRAINING" and busy(node), "a training that a peer has ordered")
        (child,) = node.children()
        node.http.post("/jobs/SLOW/pause").raise_for_status()
        until(lambda: not child.is_running(), "the end of its process")
        assert node.told("training_ended") == ["a person ended the training that was under way"]
        assert node.job()["phase"] == "GATHERING"
        node.http.post("/jobs/SLOW/resume").raise_for_status()
        node.kill()
        made.again(node)
        made.up(node)
        made.meshed(hostile, node)
        view = node.job()
        assert (view["phase"], view["sits_out"]) == ("GATHERING", "paused by a person here")
        assert not busy(node)
        hostile.http.post("/jobs/SLOW/pause").raise_for_status()  # its own training, which nothing bounds
        until(lambda: {one.job()["phase"] for one in (hostile, node)} == {"IDLE"}, "the end of the round")
        until(lambda: not busy(hostile), "the end of its process")


def busy(node: RealNode) -> bool:
    """Whether a training child of the node works: the trainer never rests."""
    return any(works(child) for child in node.children())


def works(child: psutil.Process) -> bool:
    """Whether a process uses the processor; not if it has ended meanwhile."""
    try:
        return child.cpu_percent(interval=0.5) > 5
    except psutil.NoSuchProcess:
        return False
