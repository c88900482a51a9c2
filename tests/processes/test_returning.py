"""A real node that returns after a round was closed takes the average of the others, and trains in the next round."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.harness import Harness, at_rest, digests, harness, kept, until

pytestmark = pytest.mark.slow
TRAINER = "SLOW"


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[Harness]:
    with harness(tmp_path) as made:
        for _ in range(4):
            # What is sent to a node that is away is tried again for so long; it must not reach it after its return.
            made.start(WAIT_TIME_IN_SECONDS_TO_FORCE_FEDAVG="20", REQUEST_TIMEOUT_IN_SECONDS="2")
        made.ready()
        yield made


@pytest.mark.parametrize("is_training", [False, True], ids=["idle", "training"])
def test_a_node_that_was_killed_takes_the_average_that_was_made_without_it(
    mesh: Harness, is_training: bool
) -> None:
    first, *_, last = mesh.nodes
    others = mesh.nodes[:-1]
    mesh.go()
    first.trigger()
    until(lambda: at_rest(mesh.nodes, 0) and kept(mesh.nodes, 0), "a round of all")
    if is_training:
        mesh.hold()
        first.trigger()
        until(lambda: last.job()["phase"] == "TRAINING", "the training")
        last.kill()
        mesh.go()
    else:
        last.kill()
        until(lambda: first.states()["n3"] == "dead", "the loss of the node")
        first.trigger()
    until(lambda: at_rest(others, 1) and kept(others, 1), "a round of the others")
    mesh.again(last)
    mesh.up(last)
    until(lambda: at_rest(mesh.nodes, 1) and kept([last], 1), "the end of the round on the node that returned")
    assert len(digests(mesh.nodes)) == 1
    record = last.history()[-1]
    assert (record["round"], record["digest"], record["contributors"]) == (1, first.job()["digest"], [])
    assert record["taken_from"] in ("n0", "n1", "n2")
    words = f"took the average of 3 updates from {record['taken_from']}: most other nodes made it without this one"
    assert last.told("average_taken") == [words]
    last.trigger()
    until(lambda: at_rest(mesh.nodes, 2) and kept(mesh.nodes, 2), "the next round")
    assert {tuple(node.history()[-1]["contributors"]) for node in mesh.nodes} == {("n0", "n1", "n2", "n3")}
    assert len(digests(mesh.nodes)) == 1
