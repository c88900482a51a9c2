"""Users pause nodes and go back to older models: paused nodes hold the average of the others, and all agree."""

from __future__ import annotations

import pytest

from flnet.params.params import Digest, Params, PeerId
from flnet.protocol.effects import Train
from flnet.protocol.events import Paused, RolledBack
from flnet.simulation.cluster import Cluster
from flnet.simulation.node import TRAINER
from tests.simulation.helpers import (
    digests,
    mesh,
    play_round,
    train_until,
)

Models = dict[PeerId, dict[Digest, RolledBack]]  # by node, the models that it held


def remember(cluster: Cluster, models: Models) -> None:
    """Remember the models that the nodes hold now."""
    for name, node in cluster.nodes.items():
        held = node.job.held.model
        if held is not None and held.round >= 0:
            models.setdefault(name, {})[held.shared.digest] = RolledBack(
                held.shared, Params(), held.round, held.contributors
            )


def test_paused_nodes_take_the_average_of_the_others() -> None:
    cluster = mesh(4, seed=1)
    paused, training = list(cluster.nodes)[:2], list(cluster.nodes)[2:]
    for name in paused:
        cluster.nodes[name].hear(TRAINER, Paused())
    assert not cluster.trigger(paused[0])
    play_round(cluster, training[0], rounds=3)
    for node in cluster.nodes.values():
        assert [record["contributors"] for record in node.job.records()] == [training] * 3
    assert len(digests(cluster)) == 1


@pytest.mark.parametrize("starter", [0, 1, 2])
def test_all_nodes_start_a_round_from_the_model_of_the_node_that_starts_it(starter: int) -> None:
    cluster = mesh(3, seed=starter)
    models: Models = {}
    train_until(cluster, 0, seed=1)
    remember(cluster, models)
    train_until(cluster, 3, seed=2)
    (newest,) = digests(cluster)
    name = list(cluster.nodes)[1]
    (older,) = models[name].values()
    cluster.nodes[name].hear(TRAINER, older)
    assert digests(cluster) == {newest, older.shared.digest}
    bases: dict[PeerId, Digest] = {}
    work = cluster.work

    def recorded(node: object, effect: object) -> object:
        if isinstance(effect, Train):
            bases[node.id] = effect.params.digest  # type: ignore[attr-defined]
        return work(node, effect)  # type: ignore[arg-type]

    cluster.work = recorded  # type: ignore[assignment, method-assign]
    play_round(cluster, list(cluster.nodes)[starter])
    assert bases == dict.fromkeys(cluster.nodes, older.shared.digest if starter == 1 else newest)
    assert len(digests(cluster)) == 1
    for node in cluster.nodes.values():
        assert node.job.records()[-1]["contributors"] == list(cluster.nodes)
