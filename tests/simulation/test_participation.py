"""Part of the mesh trains: the same nodes everywhere, one model at the end, half of the messages."""

from __future__ import annotations

import pytest

from flnet.jobs import Rules
from flnet.params import PeerId
from flnet.policies import Participation
from flnet.simulation import Cluster
from flnet.simulation.playing import play
from flnet.simulation.rest import choices_agree, is_one
from flnet.simulation.schedule import draw

FIRST = PeerId("n00")


def after_rounds(fraction: float, rounds: int = 10) -> Cluster:
    cluster = Cluster(8, 3, rules=Rules(Participation(fraction)))
    cluster.start()
    cluster.run_for(10)
    cluster.trigger(FIRST, rounds)
    cluster.run_for(600)
    return cluster


def test_half_of_eight_nodes_train_and_all_hold_the_same_model() -> None:
    cluster = after_rounds(0.5)
    is_one(cluster)
    choices_agree(cluster)
    records = cluster.nodes[FIRST].job.history()
    assert len(records) == 10
    assert all(len(record["chosen"]) == 4 and record["contributors"] == record["chosen"] for record in records)
    trained = {peer for record in records for peer in record["chosen"]}
    assert trained == set(cluster.nodes)
    for name, node in cluster.nodes.items():
        told = [record["pre_fedavg_accuracy"] is not None for record in node.job.history()]
        assert told == [name in record["chosen"] for record in records]


@pytest.mark.parametrize("seed", [s for s in range(400, 430) if draw(s).participation < 1])
def test_schedules_of_faults_in_which_half_of_the_nodes_train(seed: int) -> None:
    assert play(draw(seed)) is None
