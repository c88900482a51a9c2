"""Schedules in which updates do not fit in memory beside each other: offered, fetched when there is room, folded."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from flnet.jobs import state
from tests.simulation.helpers import any_weather, clear_up, digests, mesh, train_until

ONE_UPDATE = 28  # bytes: 4 weights and 3 biases


@pytest.mark.parametrize("updates", [1, 2])
@pytest.mark.parametrize("seed", range(24))
def test_folded_averages_keep_every_promise(seed: int, updates: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "HOLD_BYTES", updates * ONE_UPDATE)
    rng = Random(seed)
    weather = replace(any_weather(rng), digests=rng.choice([0.5, 1]), push_bytes=0)
    cluster = mesh(rng.choice([3, 4, 5]), seed, weather)
    train_until(cluster, 3, seed, crowd=(1, 2), interrupt=0.5)
    clear_up(cluster, list(cluster.nodes)[0])
    assert len(digests(cluster)) == 1
    assert any(node.job.state.averaging.folded for node in cluster.nodes.values() if node.job.state.averaging)
