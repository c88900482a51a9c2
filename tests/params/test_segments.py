"""Segments of parameters: how they are cut, and that rules which work number by number do not notice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.aggregation.base import RoundStart
from flnet.algorithms.registry import parse_rule
from flnet.errors import ParamsRefused
from flnet.params.params import Params, PeerId, Schema
from flnet.params.segments import Segments
from flnet.protocol.updates import Update
from tests.helpers import key, params

SHAPES = st.dictionaries(
    st.text("abc", min_size=1, max_size=2), st.lists(st.integers(0, 4), max_size=3), min_size=1
)


def drawn(shapes: dict[str, list[int]], seed: int) -> Params:
    chance = np.random.default_rng(seed)
    made = {name: chance.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return Params({**made, "steps": chance.integers(0, 9, 3)})


@given(SHAPES, st.integers(1, 12))
def test_what_is_cut_can_be_joined_and_sizes_differ_by_one_number_at_most(
    shapes: dict[str, list[int]], count: int
) -> None:
    whole = drawn(shapes, 1)
    segments = Segments(Schema.of(whole), count)
    cut = segments.cut(whole)
    assert len(cut) == segments.count == min(count, Schema.of(whole).numbers)
    sizes = [sum(array.size for array in segment.values()) for segment in cut]
    assert max(sizes) - min(sizes) <= 1
    assert [Schema.of(segment).numbers for segment in cut] == [schema.numbers for schema in segments.schemas]
    assert segments.joined(cut) == whole


@pytest.mark.parametrize(
    "rule", ["agg0", "agg1", "agg2", "median", "trimmed-mean:0.2", "winsorised-mean:0.2", "fedavgm:1:0.9"]
)
@given(shapes=SHAPES, count=st.integers(1, 6), seed=st.integers(0, 99))
def test_a_rule_that_works_number_by_number_gives_the_same_bits_segment_by_segment(
    rule: str, shapes: dict[str, list[int]], count: int, seed: int
) -> None:
    merge = parse_rule(rule).merge
    sets = [drawn(shapes, seed + place) for place in range(5)]
    updates = [
        Update(PeerId(f"n{place}"), key(), each, 1 + (seed + place) % 7, place + 1)
        for place, each in enumerate(sets)
    ]
    schema, base = Schema.of(sets[0]), drawn(shapes, seed + 5)
    segments = Segments(schema, count)
    bases = segments.cut(base)
    made = []
    for place in range(segments.count):
        start = RoundStart(segments.schemas[place], bases[place])
        cut = [Update(u.peer, u.key, segments.cut(u.params)[place], u.examples, u.labels) for u in updates]
        made.append(merge(None, start, cut).params)
    assert segments.joined(made) == merge(None, RoundStart(schema, base), updates).params


def test_segments_that_do_not_fit_are_refused_in_words() -> None:
    whole = params(w=[1, 2, 3, 4])
    segments = Segments(Schema.of(whole), 2)
    first, second = segments.cut(whole)
    with pytest.raises(ParamsRefused, match="1 segments; expected 2"):
        segments.joined([first])
    with pytest.raises(ParamsRefused, match="shape"):
        segments.joined([first, params(w=[1, 2, 3])])
    with pytest.raises(ParamsRefused):
        segments.joined([first, params(v=second["w"].tolist())])
    with pytest.raises(ValueError, match="expected at least 1"):
        Segments(Schema.of(whole), 0)
