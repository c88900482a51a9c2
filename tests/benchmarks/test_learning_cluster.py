"""Simulated nodes that learn: part of the mesh moves half of the bytes, and a slow node holds nobody up."""

from __future__ import annotations

from functools import cache

import numpy as np

from benchmarks.learning_cluster import Course, Digits, LearningCluster
from flnet.rounds.participation import Participation
from flnet.rounds.settings import Rules

NODES, BATCH_S, ROUNDS = 5, 0.1, 10


@cache
def blobs() -> Digits:
    """Four classes of 100 numbers, which overlap a little."""
    chance = np.random.default_rng(2)
    y = chance.integers(0, 4, 4000)
    x = chance.normal(np.eye(100, dtype=np.float32)[y] * 4, 1.0).astype(np.float32)
    return Digits(x[:3200], y[:3200], x[3200:], y[3200:])


@cache
def without_the_slow_one() -> Course:
    return LearningCluster(NODES, blobs(), BATCH_S, left_out=1).run(ROUNDS)


def test_half_of_the_nodes_move_half_of_the_bytes_and_learn_as_well() -> None:
    whole = LearningCluster(8, blobs(), BATCH_S).run(8)
    half = LearningCluster(8, blobs(), BATCH_S, rules=Rules(Participation(0.5))).run(12)
    assert half.bytes / 12 < 0.6 * whole.bytes / 8
    assert half.accuracies[-1] > whole.accuracies[-1] - 0.01 > 0.7
    assert sum(half.counted) == 12 * 4 and min(half.counted) > 0


def test_a_node_ten_times_slower_that_trains_for_some_seconds_holds_nobody_up_and_counts() -> None:
    without = without_the_slow_one()
    result = LearningCluster(NODES, blobs(), BATCH_S, slow={4: 10.0}, limit=without.training_s).run(ROUNDS)
    assert result.seconds <= 1.5 * without.seconds
    assert result.counted == [ROUNDS] * NODES
    assert 0 < result.examples[4] < result.examples[0] / 5  # a part, and another one in each round


def test_without_common_rounds_a_slow_node_holds_nobody_up_and_its_models_count() -> None:
    alone = LearningCluster(NODES, blobs(), BATCH_S, slow={4: 10.0}, rules=Rules(asynchronous=True))
    rounds = LearningCluster(NODES, blobs(), BATCH_S, slow={4: 10.0})
    seconds = 10 * without_the_slow_one().seconds / ROUNDS
    result, waited = alone.over_time(seconds, seconds / 5), rounds.over_time(seconds, seconds / 5)
    first, slow = next(iter(alone.nodes.values())), list(alone.nodes.values())[-1]
    assert first.job.number > 5 * rounds.nodes[first.id].job.number
    assert sum(result) > sum(waited)
    alone.run_for(2 * seconds)
    assert slow.job.number >= 1
    assert any(slow.id in record["contributors"] for record in first.job.records())
