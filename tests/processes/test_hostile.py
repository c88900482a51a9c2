"""Five real nodes, one of which sends flipped updates: weights by consistency take it out, and others learn."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.processes.harness import Harness, RealNode, until

pytestmark = pytest.mark.slow
ROUNDS, NAME = 8, "SMALL_DIGITS"


class HostileHarness(Harness):
    """Its fifth node is hostile."""

    def module_of(self, index: int) -> str:
        return "tests.processes.hostile" if index == 4 else self.module


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[Harness]:
    made = HostileHarness(tmp_path)
    try:
        for part in range(1, 6):
            made.start(TRAINERS=NAME, TRAINERS_PATH="", DATA_SHARD=f"{part}/5", AGGREGATION="consistency:bounded")
        made.ready()
        yield made
    finally:
        made.stop()


def is_over(node: RealNode) -> bool:
    return len(node.history(NAME)) == ROUNDS and node.job(NAME)["phase"] == "IDLE"


def test_a_node_that_flips_its_updates_loses_its_weight_and_the_others_learn(mesh: Harness) -> None:
    *honest, hostile = mesh.nodes
    assert honest[0].trigger(NAME, ROUNDS).status_code == 202
    for node in honest:
        until(partial(is_over, node), f"the last round of {node.name}")
    found = [node.history(NAME) for node in honest]
    assert len({history[-1]["digest"] for history in found}) == 1
    for history in found:
        weights = [record["weighed"][hostile.name]["weight"] for record in history]
        assert weights[0] == pytest.approx(0.2, abs=0.01)  # nothing is known of anybody yet
        assert max(weights[3:]) < 0.02
        assert history[-1]["post_fedavg_accuracy"] > 0.85
