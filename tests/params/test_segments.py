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
from flnet.params.quantization import BLOCK, MIN_NUMBERS, Encoding, lowered
from flnet.params.segments import Segments
from flnet.protocol.updates import Update
from flnet.wire.binary_codec import BinaryCodec
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


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=5), st.integers(1, 40))
def test_large_arrays_are_cut_between_blocks_into_segments_of_nearly_equal_size(
    sizes: list[int], count: int
) -> None:
    whole = Params({f"a{place}": np.arange(size, dtype=np.float32) for place, size in enumerate(sizes)})
    segments = Segments(Schema.of(whole), count)
    places = sum(-(-size // BLOCK) if size >= MIN_NUMBERS else size for size in sizes)
    assert segments.count == min(count, max(1, places))
    assert segments.joined(segments.cut(whole)) == whole
    for stretches, schema in zip(segments.stretches, segments.schemas, strict=True):
        assert stretches or not places
        equal = sum(sizes) / segments.count
        assert equal < BLOCK or abs(schema.numbers - equal) <= 2 * BLOCK
        for part in stretches:
            size = whole[part.name].size
            assert size < MIN_NUMBERS or (part.start % BLOCK, part.stop % BLOCK * (part.stop < size)) == (0, 0)


@pytest.mark.parametrize("encoding", ["float16", "int8-blocks"])
@given(count=st.integers(1, 9), seed=st.integers(0, 99))
def test_segments_of_a_rounded_update_take_the_bytes_of_the_rounded_update(
    encoding: Encoding, count: int, seed: int
) -> None:
    chance, codec = np.random.default_rng(seed), BinaryCodec(encoding)
    arrays = {"a": (90, 111), "b": (7,), "c": (13_001,), "d": (300, 1100)}
    scales = {name: np.exp(chance.normal(size=shape)) for name, shape in arrays.items()}
    drawn = Params({n: (scales[n] * chance.normal(size=s)).astype(np.float32) for n, s in arrays.items()})
    rounded, _ = lowered(drawn, None, encoding)
    cut = Segments(Schema.of(rounded), count).cut(rounded)
    bodies = [bytes(codec.encode_params(segment)) for segment in cut]
    assert [codec.decode_params(body).digest for body in bodies] == [segment.digest for segment in cut]
    # Of each array that is cut, a piece at either end may be too short to be packed.
    short = 4 * MIN_NUMBERS * (len(arrays) + count)
    assert sum(map(len, bodies)) <= len(bytes(codec.encode_params(rounded))) + short + 1000 * count
    assert sum(map(len, bodies)) <= {"float16": 0.55, "int8-blocks": 0.32}[encoding] * rounded.nbytes


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
