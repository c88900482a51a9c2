"""Graphs and weights of sparse exchange."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flnet.aggregation.base import RoundStart
from flnet.algorithms.gossip import Graph, graph, links, mixed
from flnet.algorithms.topology import Topology
from flnet.params.params import Params, PeerId, Schema
from flnet.protocol.updates import RoundKey, Update

KEY = RoundKey(0, PeerId("n000"))


def names(count: int) -> list[PeerId]:
    return [PeerId(f"n{number:03}") for number in range(count)]


def drawn(words: str, count: int, number: int = 0) -> Graph:
    return graph(Topology.read(words), RoundKey(number, PeerId("n000")), names(count))


def update(peer: str, w: Sequence[float], examples: int | None = 1, labels: int = 1) -> Update:
    return Update(PeerId(peer), KEY, Params({"w": np.array(w, "float64")}), examples, labels)


def start(me: str, base: Sequence[float] = (0.0, 0.0)) -> RoundStart:
    held = Params({"w": np.array(base, "float64")})
    return RoundStart(Schema.of(held, {}), held, 0, PeerId(me))


def matrix(of: Graph, examples: Sequence[int], rule: str = "agg1") -> np.ndarray:
    """The weights of all nodes, a row each, as their averages of unit vectors show them."""
    peers, unit = sorted(of), np.eye(len(of))
    updates = {peer: update(peer, unit[i], examples[i]) for i, peer in enumerate(peers)}
    rows = []
    for peer in peers:
        here = [updates[other] for other in peers if other == peer or other in of[peer]]
        rows.append(mixed(rule, start(peer, unit[0] * 0), here, links(of, peer)).params["w"])
    return np.array(rows)


# the graph


@given(st.integers(1, 40), st.integers(1, 8), st.integers(0, 5))
def test_every_node_has_as_many_neighbours_as_asked_for(count: int, neighbours: int, number: int) -> None:
    of = drawn(f"random:{neighbours}", count, number)
    degree = min(neighbours, count - 1)
    assert all(peer in of[other] and peer != other for peer, near in of.items() for other in near)
    odd = degree % 2 and count % 2
    assert sorted(len(near) for near in of.values()) == [degree - 1] * odd + [degree] * (count - odd)


@given(st.integers(1, 40), st.sampled_from(["random:2", "random:3", "random:6", "ring"]))
def test_every_node_is_reached_from_every_other_one(count: int, words: str) -> None:
    of = drawn(words, count)
    reached, newest = {PeerId("n000")}, {PeerId("n000")}
    while newest:
        newest = {other for peer in newest for other in of[peer]} - reached
        reached |= newest
    assert reached == set(names(count))


def test_all_nodes_draw_one_graph_and_another_one_in_the_next_round() -> None:
    there = graph(Topology.read("random:3"), KEY, names(20)[::-1])
    assert there == drawn("random:3", 20)
    assert len({frozenset(drawn("random:2", 20, number).items()) for number in range(30)}) == 30


def test_a_ring_stays_the_same_and_a_node_that_leaves_changes_its_neighbours_alone() -> None:
    before = drawn("ring", 12)
    assert before == drawn("ring", 12, 7)
    after = graph(Topology.read("ring"), KEY, [peer for peer in names(12) if peer != "n005"])
    changed = {peer for peer in after if after[peer] != before[peer]}
    assert changed == before[PeerId("n005")]


def test_a_node_outside_the_graph_has_no_links() -> None:
    assert links(drawn("ring", 4), PeerId("z")) == {}


# the weights


def test_weights_of_metropolis_and_hastings_worked_by_hand() -> None:
    # a - b - c - a, c - d: degrees 2, 2, 3, 1.
    of = {
        PeerId(peer): frozenset(map(PeerId, near))
        for peer, near in {"a": "bc", "b": "ac", "c": "abd", "d": "c"}.items()
    }
    assert np.allclose(
        matrix(of, [1, 1, 1, 1]),
        [[5 / 12, 1 / 3, 1 / 4, 0], [1 / 3, 5 / 12, 1 / 4, 0], [1 / 4, 1 / 4, 1 / 4, 1 / 4], [0, 0, 1 / 4, 3 / 4]],
    )
    # n = 1, 2, 4, 1: c takes half of a and of b, and a quarter of d; all of it goes to c's own update.
    assert np.allclose(matrix(of, [1, 2, 4, 1])[2], [1 / 16, 1 / 8, 3 / 4, 1 / 16])
    assert np.allclose(matrix(of, [1, 2, 4, 1], "agg0"), matrix(of, [1, 1, 1, 1]))


@given(st.lists(st.integers(1, 900), min_size=2, max_size=9), st.integers(1, 5))
@settings(max_examples=30)
def test_an_average_keeps_the_mean_by_examples(examples: list[int], neighbours: int) -> None:
    count = len(examples)
    weights = matrix(drawn(f"random:{neighbours}", count), examples)
    assert np.allclose(weights.sum(axis=1), 1) and (weights >= 0).all()
    assert np.allclose(np.array(examples) @ weights, examples)
    uniform = matrix(drawn(f"random:{neighbours}", count), examples, "agg0")
    assert np.allclose(uniform, uniform.T) and np.allclose(uniform.sum(axis=0), 1)


def test_repeated_averages_lead_all_nodes_to_what_a_mesh_computes() -> None:
    examples, models = [5, 1, 3, 8, 2, 4, 9, 1, 1], np.random.default_rng(1).normal(size=(9, 3))
    common = np.average(models, axis=0, weights=examples)
    for number in range(60):
        models = matrix(drawn("random:2", 9, number), examples) @ models
    assert np.allclose(models, common, atol=1e-7)


def test_labels_count_under_agg2_and_a_node_without_examples_says_nothing_under_agg0() -> None:
    most, near = {PeerId("b"): 0.25}, [update("a", [0, 0], 10, 3), update("b", [1, 1], 10, 1)]
    assert np.allclose(mixed("agg2", start("a"), near, most).params["w"], 0.25 / 3)
    assert np.allclose(mixed("agg1", start("a"), near, most).params["w"], 0.25)
    nothing = [near[0], update("b", [1, 1], 0)]
    assert np.allclose(mixed("agg0", start("a"), nothing, most).params["w"], 0)
    unstated = [near[0], update("b", [1, 1], None)]
    assert np.allclose(mixed("agg1", start("a"), unstated, most).params["w"], 0.25)


@given(st.integers(0, 10**12))
def test_no_neighbour_weighs_more_than_its_link_whatever_it_states(examples: int) -> None:
    made = mixed("agg1", start("a"), [update("a", [0, 0], 7), update("b", [1, 1], examples)], {PeerId("b"): 1 / 3})
    assert (made.weighed[PeerId("b")].weight or 0) <= 1 / 3
    assert math.isclose(sum(weighed.weight or 0 for weighed in made.weighed.values()), 1)


def test_the_weight_of_an_update_that_did_not_come_goes_to_the_own_one() -> None:
    made = mixed(
        "agg1", start("a"), [update("a", [3, 0]), update("b", [0, 3])], dict.fromkeys(map(PeerId, "bc"), 1 / 3)
    )
    assert np.allclose(made.params["w"], [2, 1])


def test_a_node_that_did_not_train_averages_its_model() -> None:
    made = mixed("agg1", start("a", [3, 0]), [update("b", [0, 3], 50)], {PeerId("b"): 1 / 3})
    assert np.allclose(made.params["w"], [2, 1])
    assert {peer: weighed.weight for peer, weighed in made.weighed.items()} == {"a": 1 - 1 / 3, "b": 1 / 3}


def test_a_new_node_that_did_not_train_takes_what_its_neighbours_have() -> None:
    near, most = [update("b", [0, 3], 50), update("c", [3, 0], 5)], {PeerId("b"): 1 / 3, PeerId("c"): 1 / 4}
    made = mixed("agg1", start("a", [9, 9]), near, most, is_new=True)
    assert np.allclose(made.params["w"], [3 * 3 / 7, 3 * 4 / 7])
    trained = mixed("agg1", start("a", [9, 9]), [update("a", [9, 9], 5), *near], most, is_new=True)
    assert np.allclose(trained.params["w"], [9 * 5 / 12 + 3 / 4, 9 * 5 / 12 + 3 / 3])


def test_a_node_alone_keeps_its_update_to_the_last_bit() -> None:
    own = update("a", [0.1, 0.7])
    made = mixed("agg1", start("a"), [own], {})
    assert made.params.digest == own.params.digest
    assert (made.spread, made.note) == (None, "")


def test_the_spread_is_the_mean_distance_as_a_part_of_the_own_norm() -> None:
    # The own update has the norm 5, and the others are 5 and 10 away.
    near = [update("a", [3, 4]), update("b", [0, 0]), update("c", [9, 12])]
    made = mixed("agg1", start("a"), near, dict.fromkeys(map(PeerId, "bc"), 1 / 3))
    assert made.spread == pytest.approx(1.5, rel=1e-6)
    assert made.note == "updates of neighbours differ from this node's by 150.00% on average"
    assert (
        mixed("agg1", start("a"), [update("a", [0, 0]), near[2]], dict.fromkeys(map(PeerId, "bc"), 1 / 3)).spread
        is None
    )


# how fast it mixes


@pytest.mark.parametrize(("neighbours", "count"), [(1, 10), (2, 10), (3, 10)])
def test_one_round_shrinks_the_variance_by_as_much_as_the_docstring_says(neighbours: int, count: int) -> None:
    models = np.random.default_rng(neighbours).normal(size=(count, 60))
    models -= models.mean(axis=0)
    rounds = 80
    after = sum(
        float(np.square(matrix(drawn(f"random:{neighbours}", count, number), [1] * count) @ models).sum())
        for number in range(rounds)
    )
    expected = (count / (neighbours + 1) - 1) / (count - 1)
    assert after / rounds / float(np.square(models).sum()) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("count", [4, 7, 16])
def test_a_ring_shrinks_the_slowest_part_by_its_second_eigenvalue(count: int) -> None:
    values = np.sort(np.abs(np.linalg.eigvals(matrix(drawn("ring", count), [1] * count))))
    assert values[-1] == pytest.approx(1)
    assert values[-2] == pytest.approx((1 + 2 * math.cos(2 * math.pi / count)) / 3)
