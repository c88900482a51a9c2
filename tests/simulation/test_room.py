"""Schedules in which updates do not fit in memory beside each other: offered, fetched by and by, folded."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from flnet.jobs import state
from flnet.simulation import Weather
from tests.simulation.helpers import any_weather, clear_up, digests, mesh, train_until

ONE_UPDATE = 28  # bytes: 4 weights and 3 biases


@pytest.mark.parametrize("updates", [1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_folded_averages_keep_every_promise(seed: int, updates: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "HOLD_BYTES", updates * ONE_UPDATE)
    rng = Random(seed)
    weather = replace(any_weather(rng), digests=rng.choice([0.5, 1]), push_bytes=0)
    cluster = mesh(rng.choice([3, 4, 5]), seed, weather)
    train_until(cluster, 3, seed, crowd=(1, 2), interrupt=0.5)
    clear_up(cluster, next(iter(cluster.nodes)))
    assert len(digests(cluster)) == 1


def test_folding_happens_in_such_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "HOLD_BYTES", ONE_UPDATE)
    cluster = mesh(5, 0, Weather(digests=1))
    train_until(cluster, 3, 0)
    averagings = [node.job.state.averaging for node in cluster.nodes.values()]
    assert all(averaging is not None and averaging.folded for averaging in averagings)
