"""Rounds over links with a rate and a latency: what they must take, worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from flnet.params.params import PeerId
from flnet.simulation.links import LINKS, Link
from flnet.simulation.scale import LinkedCluster, RoundFigures

MODEL = 40_000_000
LINK = Link(10e6, 10e6, 0.001)


def steady_round(
    topology: str, links: list[Link], training: float = 0.0, owned: Mapping[int, int] | None = None
) -> RoundFigures:
    """A round of nodes that have the model of the one before."""
    cluster = LinkedCluster(topology, links, MODEL, training, owned=owned)
    cluster.form()
    cluster.play_round()
    figures = cluster.play_round()
    assert len({node.job.held.digest for node in cluster.nodes.values()}) == 1
    assert cluster.nodes[PeerId("n00")].job.history.records[-1].contributors == tuple(sorted(cluster.nodes))
    return figures


def test_a_mesh_sends_each_update_to_all_others() -> None:
    figures = steady_round("mesh", [LINK] * 4)
    assert figures.bytes_out == pytest.approx(3 * MODEL, rel=0.001)
    assert figures.bytes_in == pytest.approx(3 * MODEL, rel=0.001)
    assert figures.seconds == pytest.approx(12.0, rel=0.01)
    assert figures.kinds["parameters"][0] == 3


def test_segments_take_two_models_and_what_no_sender_may_hold_alone() -> None:
    figures = steady_round("segments", [LINK] * 4)
    # 3 segments of updates and 1 that its sender owns alone are downloaded; those of the average come with their result.
    # One request brings all segments that come from the same node.
    for kind, segments in (("parameters", 4), ("/training/segments sum", 3)):
        requests, passed = figures.kinds[kind]
        assert requests == 3 and passed == pytest.approx(segments * MODEL / 4, rel=0.001)
    assert figures.bytes_out == pytest.approx(1.75 * MODEL, rel=0.001)
    # The extra segment goes from one node to its next: all links are not full.
    assert 7.0 <= figures.seconds <= 8.0


def test_training_and_latency_add_up() -> None:
    at_once, later = (steady_round("mesh", [LINK] * 3, training=seconds) for seconds in (0.0, 5.0))
    assert later.seconds == pytest.approx(at_once.seconds + 5.0, abs=0.01)
    far = steady_round("mesh", [Link(10e6, 10e6, 0.251)] * 3)
    # Start, offer, request, parameters and accuracy cross two links each, one after the other.
    assert far.seconds == pytest.approx(at_once.seconds + 5 * 2 * 0.25, abs=0.05)


def test_the_slowest_node_decides() -> None:
    slow = Link(2e6, 10e6, 0.001)
    assert steady_round("mesh", [LINK, LINK, slow]).seconds == pytest.approx(2 * MODEL / 2e6, rel=0.01)


def test_a_node_with_a_slow_link_that_owns_less_holds_up_the_others_less() -> None:
    links = [LINKS["100mbit"]] * 5 + [LINKS["dsl"]]
    equal, less = (steady_round("segments", links, owned=owned) for owned in ({}, {5: 1}))
    # It sends its update and its part of the average; without the latter, 8.5 seconds for 40 MB would be left.
    assert less.seconds < 0.85 * equal.seconds


def test_many_nodes_that_download_from_the_same_few_do_not_fill_their_links() -> None:
    figures = steady_round("mesh", [LINKS["100mbit"]] * 8)
    least = 7 * MODEL / LINKS["100mbit"].up
    # Eight nodes with 20 MB took 2.0 times the least on real links of 100 Mbit/s (docs/scale.md).
    assert 1.5 * least <= figures.seconds <= 2.5 * least


def test_small_models_are_not_simulated() -> None:
    with pytest.raises(ValueError, match="above 1048576 bytes"):
        LinkedCluster("mesh", [LINK] * 2, 1000)
