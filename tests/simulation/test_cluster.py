"""Whole meshes under a virtual clock: rounds close, averages agree, and what was split comes together again.

Every run keeps a ledger of what must never happen (see test_ledger.py) and raises where it does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flnet.simulation import Cluster, Weather
from tests.simulation.helpers import (
    STORM,
    any_weather,
    clear_up,
    digests,
    mesh,
    rounds,
    stuck,
    top,
    trace,
    train_until,
    whole,
)

# --- rounds


def test_ten_nodes_for_fifty_rounds_in_clean_weather_agree_in_every_round() -> None:
    cluster = mesh(10, seed=1)
    train_until(cluster, last=49, seed=1, crowd=(1, 1, 2, 3))
    by_round: dict[int, set[str]] = {}
    for (_, number), digest in cluster.ledger.averages.items():
        by_round.setdefault(number, set()).add(digest)
    assert all(len(found) == 1 for found in by_round.values())
    assert set(by_round) == set(range(top(cluster) + 1))
    contributors = {len(r["contributors"]) for node in cluster.nodes.values() for r in node.job.history()}
    assert contributors == {10}
    assert (rounds(cluster), len(digests(cluster))) == ({top(cluster)}, 1)


@pytest.mark.parametrize("seed", [1])
def test_ten_nodes_for_twenty_rounds_in_a_storm_close_every_round(seed: int) -> None:
    cluster = mesh(10, seed, STORM)
    train_until(cluster, last=19, seed=seed, crowd=(1, 1, 1, 2, 3), interrupt=0.2)
    clear_up(cluster, next(iter(cluster.nodes)))
    assert (rounds(cluster), len(digests(cluster))) == ({top(cluster)}, 1)


@pytest.mark.parametrize("seed", range(10))
def test_after_any_weather_one_clean_round_brings_everyone_together(seed: int) -> None:
    rng = Random(seed)
    cluster = mesh(rng.randint(2, 7), seed, any_weather(rng))
    train_until(cluster, last=7, seed=seed, crowd=(1, 1, 1, 2, 3), interrupt=0.2)
    clear_up(cluster, rng.choice(list(cluster.nodes)))
    assert whole(cluster)
    assert (rounds(cluster), len(digests(cluster))) == ({top(cluster)}, 1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("large", "small"), [(3, 3), (3, 5), (5, 3)])
def test_a_mesh_that_was_split_has_one_average_after_the_next_round(seed: int, large: int, small: int) -> None:
    rng, cluster = Random(seed), mesh(5, seed)
    names = rng.sample(list(cluster.nodes), 5)
    train_until(cluster, last=0, seed=seed)
    cluster.cut(names[:3], names[3:])
    for i in range(max(large, small)):
        if i < large:
            cluster.trigger(rng.choice(names[:3]))
        if i < small:
            cluster.trigger(rng.choice(names[3:]))
        assert cluster.run_until_idle(), stuck(cluster)
    assert len(digests(cluster)) == 2
    clear_up(cluster, rng.choice(names))
    assert whole(cluster)
    assert (len(rounds(cluster)), len(digests(cluster))) == (1, 1)


def test_the_nodes_of_a_healed_mesh_start_from_the_larger_average() -> None:
    cluster = mesh(5, seed=4)
    names = list(cluster.nodes)
    cluster.cut(names[:3], names[3:])
    for name in (names[0], names[3]):
        cluster.trigger(name)
    assert cluster.run_until_idle()
    larger = cluster.nodes[names[0]].job.view()
    assert larger["contributors"] == 3
    cluster.heal()
    cluster.run_for(60)
    cluster.trigger(names[4])
    cluster.run_for(0.3)  # the starts have arrived, nobody has trained yet
    assert {node.job.view()["digest"] for node in list(cluster.nodes.values())[:3]} == {larger["digest"]}


def test_a_node_that_nobody_reaches_does_not_hold_up_the_others() -> None:
    cluster = mesh(4, seed=5)
    names = list(cluster.nodes)
    cluster.cut(names[:1], names[1:])
    cluster.trigger(names[1])
    assert cluster.run_until_idle()
    assert [node.job.state.number for node in cluster.nodes.values()] == [-1, 0, 0, 0]
    clear_up(cluster, names[2])
    assert (len(rounds(cluster)), len(digests(cluster))) == (1, 1)


# --- the membership


@pytest.mark.parametrize("seed", range(4))
def test_any_connected_graph_becomes_a_full_mesh_even_in_a_storm(seed: int) -> None:
    rng = Random(seed)
    size = rng.randint(2, 12)
    cluster = Cluster(size, seed, STORM)
    parents = [[rng.randrange(i)] if i else [] for i in range(size)]
    cluster.start(parents.__getitem__)
    cluster.run_for(300)
    cluster.weather = cluster.network.weather = Weather()
    cluster.run_for(60)
    assert whole(cluster)


def test_in_clean_weather_the_mesh_is_whole_as_soon_as_the_announcements_are_through() -> None:
    cluster = Cluster(12, seed=3)
    cluster.start(lambda i: [i - 1] if i else [])  # a chain, all started at the same moment
    cluster.run_for(3)
    assert whole(cluster)


# --- equal seeds, equal runs


def run_of(seed: int) -> str:
    cluster = mesh(5, seed, STORM)
    train_until(cluster, last=5, seed=3, crowd=(1, 2), interrupt=0.3)
    return trace(cluster)


def test_equal_seeds_give_equal_runs_and_others_do_not() -> None:
    assert run_of(7) == run_of(7)
    assert run_of(7) != run_of(8)


def test_a_run_does_not_hang_on_the_order_of_hashes() -> None:
    code = "from tests.simulation.test_cluster import run_of; print(run_of(7))"
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": salt},
            capture_output=True,
            check=True,
        ).stdout
        for salt in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert runs[0].decode().strip() == run_of(7)


# --- schedules that nobody thought of

ACTIONS = st.one_of(
    st.tuples(st.just("trigger"), st.integers(0, 4)),
    st.tuples(st.just("run"), st.sampled_from([0.0, 0.02, 0.3, 1.0, 5.0, 40.0])),
    st.tuples(st.just("cut"), st.integers(0, 4)),
    st.tuples(st.just("heal"), st.just(0)),
)
WEATHERS = st.builds(
    Weather,
    delay=st.tuples(st.just(0.001), st.sampled_from([0.01, 1.0, 6.0])),
    lose_request=st.sampled_from([0.0, 0.1, 0.5]),
    lose_reply=st.sampled_from([0.0, 0.1, 0.5]),
    duplicate=st.sampled_from([0.0, 0.5]),
    fail_training=st.sampled_from([0.0, 0.5]),
)


@given(st.integers(0, 10**6), st.integers(2, 5), WEATHERS, st.lists(ACTIONS, max_size=14))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_schedule_breaks_a_mesh(
    seed: int, size: int, weather: Weather, actions: list[tuple[str, float]]
) -> None:
    cluster = mesh(size, seed, weather)
    names = list(cluster.nodes)
    for what, value in actions:
        match what:
            case "trigger":
                cluster.trigger(names[int(value) % size])
            case "run":
                cluster.run_for(value)
            case "cut":
                apart = names[int(value) % size]
                cluster.cut([apart], [name for name in names if name != apart])
            case _:
                cluster.heal()
    assert cluster.run_until_idle(), stuck(cluster)
    clear_up(cluster, names[seed % size])
    assert whole(cluster)
    assert (len(rounds(cluster)), len(digests(cluster))) == (1, 1)


def test_a_cluster_that_was_ended_has_no_nodes_and_nothing_to_do() -> None:
    cluster = mesh(3, seed=1)
    (first, *_) = cluster.nodes.values()
    cluster.trigger(first.id)
    cluster.end()
    assert first.is_dead
    assert cluster.run_until_idle()
    cluster.run_for(1000)
    assert (cluster.busy(), cluster.alive) == ([], [])
