"""Ways to drive a simulated mesh, and what to ask it afterwards."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from random import Random

from flnet.jobs import Rules
from flnet.membership import Pauses
from flnet.params import Digest, PeerId
from flnet.simulation import Cluster, Weather

STORM = Weather(delay=(0.001, 2.0), lose_request=0.05, lose_reply=0.05, duplicate=0.1, fail_training=0.03)
TIMES = (0.05, 2.0, 6.0)


def mesh(
    size: int,
    seed: int,
    weather: Weather | None = None,
    pauses: Pauses | None = None,
    rules: Rules | None = None,
) -> Cluster:
    """A cluster whose nodes have met."""
    cluster = Cluster(size, seed, weather, pauses=pauses, rules=rules)
    cluster.start()
    cluster.run_for(60)
    return cluster


def any_weather(rng: Random) -> Weather:
    """Faults of all kinds, from none to many."""
    return Weather(
        delay=(0.001, rng.choice(TIMES)),
        lose_request=rng.choice([0, 0.05, 0.2]),
        lose_reply=rng.choice([0, 0.05, 0.2]),
        duplicate=rng.choice([0, 0.1, 0.5]),
        fail_training=rng.choice([0, 0.05, 0.3]),
        digests=rng.choice([0, 0.5, 1]),
        push_bytes=rng.choice([0, 1000]),
        fail_fetch=rng.choice([0, 0.05, 0.3]),
    )


def top(cluster: Cluster) -> int:
    """The newest round in the mesh."""
    return max(node.job.state.number for node in cluster.nodes.values())


def train_until(
    cluster: Cluster, last: int, seed: int, crowd: Sequence[int] = (1,), interrupt: float = 0.0
) -> None:
    """Ask nodes for rounds until `last` is over: `crowd` of them at once, and again in mid-round at times."""
    rng, names = Random(seed), list(cluster.nodes)
    for _ in range(3 * (last + 1)):
        if top(cluster) >= last:
            return
        for name in rng.sample(names, min(len(names), rng.choice(crowd))):
            cluster.trigger(name, rng.choice([1, 3]))
        if rng.random() < interrupt:
            cluster.run_for(rng.uniform(0, 4))
            cluster.trigger(rng.choice(names))
        assert cluster.run_until_idle(), stuck(cluster)
    raise AssertionError(f"the mesh got to round {top(cluster)} only")


def clear_up(cluster: Cluster, starter: PeerId) -> None:
    """Let all faults end, give the membership a minute, and play one more round."""
    cluster.heal()
    cluster.weather = cluster.network.weather = Weather()
    cluster.run_for(60)
    assert cluster.trigger(starter)
    assert cluster.run_until_idle(), stuck(cluster)


def stuck(cluster: Cluster) -> dict[PeerId, str]:
    """Which nodes still have an open round, and where."""
    return {
        name: f"{cluster.nodes[name].job.phase} {cluster.nodes[name].job.state.key}" for name in cluster.busy()
    }


def digests(cluster: Cluster) -> set[Digest]:
    """The models that the nodes hold."""
    models = [node.job.state.model for node in cluster.nodes.values()]
    return {model.shared.digest for model in models if model}


def rounds(cluster: Cluster) -> set[int]:
    """The rounds that the nodes are in."""
    return {node.job.state.number for node in cluster.nodes.values()}


def whole(cluster: Cluster) -> bool:
    """Whether everyone knows everyone."""
    return all(len(node.core.members.alive) == len(cluster.nodes) - 1 for node in cluster.nodes.values())


def trace(cluster: Cluster) -> str:
    """A digest over all that happened."""
    told = [list(node.job.history()) for node in cluster.nodes.values()]
    return hashlib.sha256(
        repr((cluster.clock.now, sorted(cluster.ledger.averages.items()), told)).encode()
    ).hexdigest()
