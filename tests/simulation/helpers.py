"""Drive a simulated mesh, and ask for its state afterwards."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from random import Random

import pytest

from flnet.membership.probing import Pauses
from flnet.params.params import Digest, PeerId
from flnet.rounds.base_job import BaseJob
from flnet.rounds.settings import Rules
from flnet.simulation.cluster import Cluster
from flnet.simulation.network import FETCHED
from flnet.simulation.schedule import Faults

STORM = Faults(delay=(0.001, 2.0), lose_request=0.05, lose_reply=0.05, duplicate=0.1, fail_training=0.03)
TIMES = (0.05, 2.0, 6.0)


def seeds(quick: int, count: int) -> list[object]:
    """So many seeds, of which only the first few run without --long."""
    return first_of(quick, *range(count))


def first_of(quick: int, *values: object) -> list[object]:
    """These values, of which only the first few run without --long."""
    return [
        pytest.param(value, marks=[pytest.mark.long] if at >= quick else []) for at, value in enumerate(values)
    ]


def mesh(
    size: int, seed: int, faults: Faults | None = None, pauses: Pauses | None = None, rules: Rules | None = None
) -> Cluster:
    """A cluster whose nodes know each other."""
    cluster = Cluster(size, seed, faults, pauses=pauses, rules=rules)
    cluster.start()
    cluster.run_for(60)
    return cluster


def any_faults(rng: Random) -> Faults:
    """Random faults of all kinds, from none to many."""
    return Faults(
        delay=(0.001, rng.choice(TIMES)),
        lose_request=rng.choice([0, 0.05, 0.2]),
        lose_reply=rng.choice([0, 0.05, 0.2]),
        duplicate=rng.choice([0, 0.1, 0.5]),
        fail_training=rng.choice([0, 0.05, 0.3]),
        digests=rng.choice([0, 0.5, 1]),
        push_bytes=rng.choice([0, 1000]),
        fail_fetch=rng.choice([0, 0.05, 0.3]),
    )


def idle(cluster: Cluster) -> None:
    """Run until no round is open, and fail with the open rounds if that does not come."""
    open_rounds = {name: f"{node.job.phase} {node.job.key}" for name, node in cluster.nodes.items()}
    assert cluster.run_until_idle(), {name: open_rounds[name] for name in cluster.busy()}


def play_round(cluster: Cluster, starter: str, rounds: int = 1) -> None:
    """Have a node start rounds, and run to their end."""
    assert cluster.trigger(PeerId(starter), rounds)
    idle(cluster)


def downloaded(cluster: Cluster, starter: str) -> float:
    """Play a round; return how many bytes of parameters a node downloaded in the mean."""
    before = cluster.network.moved[FETCHED]
    play_round(cluster, starter)
    return (cluster.network.moved[FETCHED] - before) / len(cluster.nodes)


def top(cluster: Cluster) -> int:
    """The newest round in the mesh."""
    return max(node.job.number for node in cluster.nodes.values())


def train_until(
    cluster: Cluster, last: int, seed: int, crowd: Sequence[int] = (1,), interrupt: float = 0.0
) -> None:
    """Trigger rounds until `last` is over, at `crowd` nodes at once, and sometimes again in the middle of a round."""
    rng, names = Random(seed), list(cluster.nodes)
    for _ in range(3 * (last + 1)):
        if top(cluster) >= last:
            return
        for name in rng.sample(names, min(len(names), rng.choice(crowd))):
            cluster.trigger(name, rng.choice([1, 3]))
        if rng.random() < interrupt:
            cluster.run_for(rng.uniform(0, 4))
            cluster.trigger(rng.choice(names))
        idle(cluster)
    raise AssertionError(f"the mesh got to round {top(cluster)} only")


def clear_up(cluster: Cluster, starter: PeerId | None = None) -> None:
    """End all faults, give the membership a minute, and play one more round, after which all nodes are alike."""
    cluster.heal()
    cluster.faults = Faults()
    cluster.run_for(60)
    play_round(cluster, starter or next(iter(cluster.nodes)))
    assert (rounds(cluster), len(digests(cluster))) == ({top(cluster)}, 1)


def digests(cluster: Cluster) -> set[Digest]:
    """The models that the nodes hold."""
    models = [node.job.held.model for node in cluster.nodes.values()]
    return {model.shared.digest for model in models if model}


def rounds(cluster: Cluster) -> set[int]:
    """The rounds that the nodes are in."""
    return {node.job.number for node in cluster.nodes.values()}


def whole(cluster: Cluster) -> bool:
    """Whether every node knows every other one."""
    return all(len(node.core.members.alive) == len(cluster.nodes) - 1 for node in cluster.nodes.values())


def trace(cluster: Cluster) -> str:
    """A digest of everything that happened."""
    histories = [list(node.job.records()) for node in cluster.nodes.values()]
    run = (cluster.clock.now, sorted(cluster.ledger.averages.items()), histories)
    return hashlib.sha256(repr(run).encode()).hexdigest()


def forget_updates(patch: pytest.MonkeyPatch) -> None:
    """A bug: updates of peers are acknowledged and not saved."""
    save = BaseJob.save
    patch.setattr(BaseJob, "save", lambda self, *updates: save(self))
