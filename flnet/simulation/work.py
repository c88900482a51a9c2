"""What the nodes' trainers and strategies do in a simulation: seven numbers, learnt by chance."""

from __future__ import annotations

import zlib
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from flnet.effects import Average, Evaluate, Train
from flnet.events import (
    Averaged,
    Declaration,
    Evaluated,
    Event,
    Prepared,
    SumSpoilt,
    Trained,
    TrainingFailed,
)
from flnet.messages import HyperParams
from flnet.params import Digest, Params, PeerId
from flnet.screening import Screening
from flnet.simulation.ledger import peers_of
from flnet.strategies import RoundStart

if TYPE_CHECKING:
    from flnet.simulation.cluster import Cluster
    from flnet.simulation.node import SimulatedNode

QUICK = 0.05  # seconds: an average, or a measurement
THRESHOLD = 0.02  # by how much a peer's model must be better to be adopted


def work(cluster: Cluster, node: SimulatedNode, effect: Train | Average | Evaluate) -> tuple[float, Event]:
    """What a piece of work takes, in seconds, and how it ends."""
    match effect:
        case Train():
            return _training(cluster, node, effect)
        case Evaluate(key, _, shared):
            return QUICK * node.slowness, Evaluated(key, shared.digest, accuracy(node.id, shared.digest))
        case Average():
            return QUICK * node.slowness, _averaging(cluster, node, effect)


def _training(cluster: Cluster, node: SimulatedNode, effect: Train) -> tuple[float, Event]:
    rng: Random = cluster.rng
    seconds = rng.uniform(*cluster.weather.training) * node.slowness
    if rng.random() < cluster.weather.fail_training:
        return seconds, TrainingFailed(effect.key, "the weather")
    pull = np.float32(rng.uniform(-1, 1))
    learnt = Params({name: value * np.float32(0.9) + pull for name, value in effect.params.items()})
    return seconds, Trained(effect.key, learnt, rng.randint(1, 500), rng.random(), seconds=seconds)


def _averaging(cluster: Cluster, node: SimulatedNode, effect: Average) -> Event:
    key, model = effect.key, node.job.state.model
    assert model is not None
    cluster.ledger.begins_average(node.id, key.number)
    folded, spoilt = node.sums.pop(key, []), node.spoilt.pop(key, [])
    base, needs_base = node.job.state.screened_from, cluster.strategy.needs_base
    screening = Screening(cluster.bounds, base, model.schema, needs_base, cluster.measure)
    screening.take(spoilt)  # what was decided of these stands
    taken, refused = screening.take((*folded, *effect.updates)), screening.refused()
    if refused.keys() & peers_of(folded):
        node.spoilt[key] = [*folded, *effect.updates]
        return SumSpoilt(key, refused)
    counting = [update for update in taken if update.peer not in refused]
    members = frozenset({node.id, *node.job.state.peers})
    start = RoundStart(model.schema, base, key.number, node.id, members)
    merged, remembered, weighed, alike = cluster.strategy.merge(node.job.state.remembered, start, counting)
    is_common = screening.is_common and alike
    apart = None if is_common else model.shared.digest
    again = node.job.state.averaging.again if node.job.state.averaging else None
    cluster.ledger.averages_now(
        node.id, effect, merged, folded, apart, left_out={*refused, *(again.lost if again else ())}
    )
    return Averaged(key, merged, 0.0, refused, is_common, screening.weighed(weighed), remembered)


def accuracy(node: PeerId, digest: Digest) -> float:
    """What a model is worth on a node's own test split: anything, but always the same."""
    return zlib.crc32(f"{node} {digest}".encode()) / 2**32


def declared() -> Declaration:
    """What the trainer says of itself."""
    return Declaration("Simulated", HyperParams(e=1, u=0.1, b=8), THRESHOLD, ("w", "b"))


def initial(index: int) -> Params:
    """Four weights and three biases, different on every node."""
    return Params({"w": np.full((2, 2), index, np.float32), "b": np.zeros(3, np.float32)})


def prepared(index: int) -> Event:
    """A trainer that is loaded."""
    return Prepared(declared(), initial(index))
