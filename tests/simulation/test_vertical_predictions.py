"""Seeded fault schedules with predictions by id: every one ends once, with the right numbers or a stated reason."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from flnet.algorithms.vertical.conversation import Saved
from flnet.errors import PeerError
from flnet.params.params import Array, Params, PeerId
from flnet.protocol.effects import TellPrediction
from flnet.protocol.events import PredictionAsked
from flnet.rounds.vertical_predictions import SECONDS
from flnet.simulation.node import TRAINER, SimulatedNode
from flnet.simulation.schedule import Faults
from flnet.trainer import HyperParams
from tests.simulation.helpers import seeds
from tests.simulation.vertical_cluster import VerticalCluster

STEPS, IDS = 8, ("P001", "P013", "P002")


class PredictingCluster(VerticalCluster):
    """A cluster whose owners allow predictions.

    Attributes:
        models: of each node, by epoch.
        asked: the tickets of predictions that a node has begun.
        refused: why others were not begun.
    """

    def __init__(self, seed: int) -> None:
        self.models: dict[tuple[str, int], Params] = {}
        self.asked: dict[PeerId, list[int]] = {}
        self.refused: list[str] = []
        super().__init__(seed)
        for table in self.people.tables.values():
            table.allows_predictions = True

    def look(self, node: SimulatedNode) -> None:
        super().look(node)
        models = self.job(node.id).models
        if models.closed in models.ended and models.closed in self.reports:
            self.models.setdefault((node.id, models.closed), models.ended[models.closed].params)

    def ask(self, name: PeerId, ticket: int) -> None:
        """Let a person ask at a node; a refusal is a reason."""
        node = self.nodes[name]
        if node.is_dead:
            return
        try:
            node.hear(TRAINER, PredictionAsked(ticket, IDS))
        except PeerError as exc:
            self.refused.append(str(exc))
        else:
            self.asked.setdefault(name, []).append(ticket)

    def directly(self, epoch: int) -> Array:
        """The prediction of the models of an epoch, without messages."""
        hyper, outputs = HyperParams(e=1, u=0.05, b=16), []
        for name, table in sorted(self.people.tables.items()):
            bottom = table.bottom_model(0, hyper)
            assert bottom is not None
            bottom.load(Saved(self.models[name, epoch]).state("bottom"))
            rows = np.array([list(table.ids).index(value) for value in IDS])
            outputs.append(bottom.outputs(table.features(rows)))
        top = self.people.tables["n01"].top_model(9, 0, hyper)
        assert top is not None
        top.load(Saved(self.models["n01", epoch]).state("top"))
        return top.predict(np.concatenate(outputs, axis=1))


def play(seed: int) -> tuple[PredictingCluster, set[PeerId]]:
    """One schedule; those who were killed have forgotten what they were asked."""
    rng, cluster = Random(seed), PredictingCluster(seed)
    cluster.begin()
    cluster.run_for(5)
    names, killed = list(cluster.nodes), set[PeerId]()
    dead: dict[PeerId, Any] = {}
    cluster.trigger(names[0], 1)
    cluster.run_for(10)
    for step in range(STEPS):
        lost = rng.choice((0.0, 0.0, 0.1))
        cluster.faults = Faults(
            lose_request=lost, lose_reply=lost, duplicate=rng.choice((0.0, 0.1)), delay=(0.001, 0.1)
        )
        for number in range(rng.randint(1, 3)):
            cluster.ask(rng.choice(names), 10 * step + number)
        cluster.run_for(rng.uniform(0.0, 0.2))
        match rng.choice(("kill", "cut", "slow", "epoch", "nothing", "nothing")):
            case "kill":
                name = rng.choice(names)
                dead[name] = cluster.kill(name)
                killed.add(name)
            case "cut":
                some = rng.choice(names)
                cluster.cut([some], [name for name in names if name != some])
            case "slow":
                cluster.nodes[rng.choice(names)].slowness = rng.choice((1.0, 200.0))
            case "epoch":
                cluster.trigger(rng.choice(names), 1)
        cluster.run_for(rng.uniform(0.1, 30.0))
        cluster.heal()
        for name in list(dead):
            cluster.back(dead.pop(name))
        cluster.run_for(rng.uniform(0.0, 10.0))
    cluster.faults = Faults()
    cluster.run_for(2 * SECONDS)
    return cluster, killed


@pytest.mark.parametrize("seed", seeds(8, 20))
def test_every_prediction_ends_with_the_right_numbers_or_a_reason(seed: int) -> None:
    cluster, killed = play(seed)
    try:
        assert all(len(reason) > 20 for reason in cluster.refused)
        for name in cluster.nodes:
            assert not cluster.job(name).predictions.is_busy
            told: list[TellPrediction] = cluster.predictions.get(name, [])
            tickets = [one.ticket for one in told]
            assert len(set(tickets)) == len(tickets)
            assert set(tickets) <= set(cluster.asked.get(name, []))
            if name not in killed:
                assert sorted(tickets) == cluster.asked.get(name, [])
            for one in told:
                if one.error is None:
                    values = one.predictions[0].values["values"]
                    assert np.allclose(values, cluster.directly(one.epoch), atol=1e-5)
                else:
                    assert len(str(one.error)) > 20
        for node in cluster.nodes.values():
            node.slowness = 1.0
        cluster.predictions.clear()
        assert cluster.run_until_idle(300)
        for _ in range(3):
            cluster.trigger(PeerId("n00"), 1)
            cluster.run_for(40)
        cluster.ask(PeerId("n02"), 1000)
        cluster.run_for(5)
        assert [one.error for one in cluster.predictions[PeerId("n02")]] == [None]
    finally:
        cluster.end()
