"""Pulling of segments: the average, and from whom they are pulled."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.aggregation.base import RoundStart
from flnet.aggregation.fed_avg import fed_avg
from flnet.algorithms.bacombo import Bandwidths, pulled
from flnet.params.params import Params, PeerId, Schema
from flnet.params.segments import Segments
from flnet.protocol.updates import RoundKey, Update

A, B, C, D = map(PeerId, "abcd")


def model(*w: float) -> Params:
    return Params({"w": np.array(w, "float64")})


def test_each_segment_is_averaged_with_those_it_was_pulled_from() -> None:
    models = {A: (model(1, 2, 3, 4), 10), B: (model(5, 6, 7, 8), 10), C: (model(9, 10, 11, 12), 20)}
    segments = Segments(Schema.of(models[A][0]), 2)
    made = pulled(A, models, [[B], [C]], segments)["w"]
    assert np.allclose(made, [3, 4, 8.3333333333, 9.3333333333], atol=1e-9)
    assert np.allclose(pulled(A, models, [[B], []], segments)["w"], [3, 4, 3, 4])  # a transfer failed


@given(st.integers(2, 6), st.integers(0, 100))
def test_one_segment_of_all_others_is_the_mean_by_examples(count: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    names = [PeerId(f"n{number}") for number in range(count)]
    arrays = {name: chance.normal(size=(3, 4)).astype("float32") for name in names}
    models = {name: (Params({"w": array}), int(chance.integers(1, 900))) for name, array in arrays.items()}
    schema = Schema.of(models[names[0]][0])
    updates = [Update(name, RoundKey(0, names[0]), *models[name]) for name in names]
    mean = fed_avg().merge(None, RoundStart(schema, models[names[0]][0]), updates).params
    for name in names:
        sources = Bandwidths().choose({*names} - {name}, 1, count - 1, Random(seed).random)
        assert np.array_equal(pulled(name, models, sources, Segments(schema, 1))["w"], mean["w"])


def test_segments_come_from_the_widest_peers_and_each_from_another_one() -> None:
    widths = Bandwidths()
    for peer, seconds in ((B, 4.0), (C, 1.0), (D, 2.0)):
        widths.note(peer, 100, seconds)
    assert widths.choose({B, C, D}, 3, 1, Random(0).random, 0.0) == [[C], [D], [B]]
    assert widths.choose({B, C, D}, 2, 2, Random(0).random, 0.0) == [[C, D], [B, C]]
    assert widths.choose({B, C, D}, 1, 9, Random(0).random, 0.0) == [[C, D, B]]
    assert widths.choose((), 2, 1, Random(0).random) == [[], []]


def test_a_peer_of_unknown_bandwidth_comes_first() -> None:
    widths = Bandwidths()
    widths.note(B, 100, 0.01)
    assert widths.choose({B, C}, 1, 1, Random(0).random, 0.0) == [[C]]
    widths.note(C, 100, 0.0)  # a clock may see no time pass
    assert widths.choose({B, C}, 1, 1, Random(0).random, 0.0) == [[C]]


def test_an_estimate_follows_the_newest_transfers() -> None:
    widths = Bandwidths()
    for seconds in (1.0, 2.0, 4.0):
        widths.note(B, 800, seconds)
    assert widths.known == {B: pytest.approx(0.5 * 200 + 0.25 * 400 + 0.25 * 800)}


def test_peers_are_explored_as_often_as_asked_for() -> None:
    widths = Bandwidths()
    for peer, seconds in ((B, 1.0), (C, 2.0), (D, 4.0)):
        widths.note(peer, 100, seconds)
    rng = Random(1)
    others = sum(widths.choose({B, C, D}, 1, 1, rng.random, 0.3) != [[B]] for _ in range(3000))
    assert others / 3000 == pytest.approx(0.3 * 2 / 3, abs=0.02)
