"""Schedules in which updates do not fit in memory beside each other: offered, fetched by and by, folded."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from flnet.effects import Average, Evaluate, Train
from flnet.events import Event, SumSpoilt, Trained
from flnet.jobs import state
from flnet.params import Params
from flnet.simulation import Cluster, Weather
from flnet.simulation.node import SimulatedNode
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


def with_absurd_updates(cluster: Cluster, evil: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whatever this node learns is a million times as large; returns who had to make a sum again."""
    work, spoilt = cluster.work, list[str]()

    def absurd(node: SimulatedNode, effect: Train | Average | Evaluate) -> tuple[float, Event]:
        seconds, event = work(node, effect)
        if isinstance(event, Trained) and node.id == evil:
            event = replace(event, params=Params({n: v * np.float32(1e6) for n, v in event.params.items()}))
        if isinstance(event, SumSpoilt):
            spoilt.append(node.id)
        return seconds, event

    monkeypatch.setattr(cluster, "work", absurd)
    return spoilt


def test_all_make_the_same_average_of_all_others_where_an_absurd_update_was_folded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state, "HOLD_BYTES", ONE_UPDATE)
    cluster = mesh(5, 0, Weather(digests=1, push_bytes=0))
    evil, *others = list(cluster.nodes)
    spoilt = with_absurd_updates(cluster, evil, monkeypatch)
    train_until(cluster, 1, 0)
    assert set(others) <= set(spoilt)
    assert len(digests(cluster)) == 1
    for node in cluster.nodes.values():
        assert {record.contributors for record in node.job.state.history} == {tuple(sorted(others))}
        assert node.job.state.history[-1].outcome.endswith(f"; left out: {evil}")


@pytest.mark.parametrize("seed", range(6))
def test_sums_that_are_made_again_keep_every_promise(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "HOLD_BYTES", ONE_UPDATE)
    rng = Random(seed)
    weather = replace(any_weather(rng), digests=rng.choice([0.5, 1]), push_bytes=0)
    cluster = mesh(5, seed, weather)
    with_absurd_updates(cluster, rng.choice(list(cluster.nodes)), monkeypatch)
    train_until(cluster, 3, seed, crowd=(1, 2), interrupt=0.5)
    clear_up(cluster, next(iter(cluster.nodes)))
    assert len(digests(cluster)) == 1
    outcomes = [record.outcome for node in cluster.nodes.values() for record in node.job.state.history]
    assert not any("averaging failed" in outcome for outcome in outcomes)
