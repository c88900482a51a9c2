"""Real nodes that speak different forms, and large updates over connections that break and nodes that die."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes.harness import DEADLINE_SECONDS, Harness, RealNode, harness, until
from tests.processes.proxy import ADDRESS, Proxy

MEGA = 1024 * 1024
LARGE = MEGA  # numbers: four megabytes
SOON = {"REQUEST_TIMEOUT_IN_SECONDS": "3"}  # for nodes of which one takes or gives nothing
TRAINER = '''
"""Moves its numbers by what its part says, each a little differently."""

import numpy as np

from flnet.trainer import DataInfo, Fit, Score, Trainer


class Many(Trainer):
    def __init__(self, settings):
        self.part = settings.shard[0]

    def initial_params(self, seed):
        return {"w": np.zeros(NUMBERS, "float32"), "b": np.zeros(3, "float32")}

    def fit(self, task):
        steps = np.linspace(-1, self.part, NUMBERS, dtype="float32")
        return Fit({"w": task.params["w"] + steps, "b": task.params["b"] + np.float32(self.part)}, 10 * self.part)

    def evaluate(self, params):
        return Score(0.5, examples=10)

    def data_info(self):
        return DataInfo(source="nothing but numbers", rows={"train": 10, "test": 10}, sample=True)


def make_trainer(settings):
    return Many(settings)
'''


class Wires:
    """Nodes with the trainer MANY."""

    def __init__(self, made: Harness, numbers: int) -> None:
        self.harness = made
        (made.trainers / "MANY.py").write_text(TRAINER.replace("NUMBERS", str(numbers)))

    def start(self, **settings: str) -> RealNode:
        return self.harness.start(TRAINERS="MANY", **settings)

    def trigger(self) -> None:
        answer = self.harness.nodes[0].http.post("/training/trigger", json={"trainerId": "MANY"})
        assert answer.status_code == 202

    def ended(self, round: int, *nodes: RealNode) -> list[dict[str, Any]]:
        """The nodes' records of the round, which all of them end with one model."""

        def at_rest(node: RealNode) -> bool:
            job = node.get("/jobs/MANY")
            return bool(job["phase"] == "IDLE" and job["current_round"] == round)

        for node in nodes:
            until(lambda node=node: at_rest(node), f"the end of round {round}")  # type: ignore[misc]
        assert len({node.get("/jobs/MANY")["digest"] for node in nodes}) == 1
        return [node.get("/jobs/MANY/history")[-1] for node in nodes]


@pytest.fixture
def large(tmp_path: Path) -> Iterator[Wires]:
    with harness(tmp_path) as made:
        yield Wires(made, LARGE)


def hears(node: RealNode, words: str) -> None:
    """Read the node's feed from its beginning until these words."""
    with node.http.stream("GET", "/events", headers={"Last-Event-ID": "0"}, timeout=DEADLINE_SECONDS) as answer:
        assert any(words in line for line in answer.iter_lines()), "the feed ended"


@pytest.mark.slow
def test_nodes_of_three_forms_end_every_round_with_one_model(tmp_path: Path) -> None:
    with harness(tmp_path) as made:
        wires = Wires(made, 3000)
        nodes = [wires.start(WIRE=wire) for wire in ("json", "safetensors", "int8")]
        made.ready()
        digests = set()
        for number in range(2):
            wires.trigger()
            for record in wires.ended(number, *nodes):
                assert record["contributors"] == ["n0", "n1", "n2"]
                digests.add(record["digest"])
        assert len(digests) == 2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs a second address of this machine")
def test_a_download_that_breaks_again_and_again_goes_on_where_it_stopped(large: Wires) -> None:
    first, second = large.start(), large.start(NODE_IP=ADDRESS)
    with Proxy(second.port, after=MEGA, breaks=3) as proxy:
        large.harness.ready()
        large.trigger()
        for record in large.ended(0, first, second):
            assert record["contributors"] == ["n0", "n1"]
        assert proxy.broken == 3
        assert 4 * LARGE <= proxy.passed < 5 * LARGE  # each byte once; from the beginning each time it would be 7


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs a second address of this machine")
def test_a_node_killed_while_its_update_is_fetched_holds_nobody_up(large: Wires) -> None:
    others = [large.start(**SOON), large.start(**SOON)]
    dying = large.start(NODE_IP=ADDRESS, **SOON)
    with Proxy(dying.port, after=MEGA // 4) as proxy:
        large.harness.ready()
        large.trigger()
        for node, peer in zip(others, ("n1", "n0"), strict=True):
            hears(node, f"update from {peer}: ")
        until(lambda: proxy.held >= 2, "the beginning of the update at both")
        dying.process.kill()
        dying.process.wait()
        proxy.close()
        for record in large.ended(0, *others):
            assert record["contributors"] == ["n0", "n1"]
            assert "forced" not in record["outcome"]
    for node in others:
        hears(node, "n2 does not answer")
