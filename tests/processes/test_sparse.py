"""Real nodes that average with neighbours alone: each with the right ones, for as many models of traffic as it has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load

from flnet.algorithms.gossip import graph, links
from flnet.algorithms.topology import Topology
from flnet.params.params import Params, PeerId
from flnet.protocol.updates import RoundKey
from tests.processes.harness import harness, until
from tests.processes.test_wires import LARGE, Wires

NODES = 5
MODEL = 4 * LARGE  # bytes


def learnt(part: int) -> dict[str, np.ndarray]:
    """What a node has after its training."""
    return {"w": np.linspace(-1, part, LARGE, dtype="float32"), "b": np.full(3, part, "float32")}


def mean(me: PeerId, near: dict[PeerId, float]) -> Params:
    """Its average with its neighbours; node ni is part i + 1, and trains on ten times as many examples."""
    mine, parts = int(me[1:]) + 1, {peer: int(peer[1:]) + 1 for peer in near}
    weights = {peer: near[peer] * min(1.0, part / mine) for peer, part in parts.items()}
    own = 1 - sum(weights.values())
    return Params(
        {
            name: np.asarray(
                own * np.float64(array)
                + sum(weights[peer] * np.float64(learnt(parts[peer])[name]) for peer in near),
                "float32",
            )
            for name, array in learnt(mine).items()
        }
    )


@pytest.mark.slow
def test_each_node_averages_with_its_neighbours_and_goes_on_from_its_own_model(tmp_path: Path) -> None:
    with harness(tmp_path) as made:
        wires = Wires(made, LARGE)
        for place in range(NODES):
            wires.start(TOPOLOGY="random:2", DATA_SHARD=f"{place + 1}/{NODES}")
        made.ready()
        wires.trigger()
        names = [PeerId(node.name) for node in made.nodes]
        until(lambda: all(_at_rest(node.get("/jobs/MANY")) for node in made.nodes), "the end of the round")
        for node, me in zip(made.nodes, names, strict=True):
            (record,) = node.get("/jobs/MANY/history")
            near = dict(
                links(graph(Topology.read("random:2"), RoundKey(0, PeerId(record["initiator"])), names), me)
            )
            assert record["contributors"] == sorted([me, *near])
            assert record["spread"] > 0 and node.get("/jobs/MANY")["spread"] == record["spread"]
            body = node.http.get(f"/jobs/MANY/models/{record['digest']}").content
            held = load(body)
            assert np.allclose(held["w"], mean(me, near)["w"], rtol=1e-6)
            for way in ("sent", "received"):
                assert record["bytes"][way] <= 2.05 * MODEL


def _at_rest(job: dict[str, object]) -> bool:
    return job["phase"] == "IDLE" and job["current_round"] == 0
