"""Rules over all updates at once, block by block: the same as over whole arrays."""

from __future__ import annotations

import numpy as np
import pytest

from flnet.blockwise import Rows, blockwise, sort_columns
from flnet.params import Array, Params, Schema
from tests.helpers import params


def spread(rows: Rows) -> Array:
    rows.sort(axis=0)  # a rule may write into what it is given
    return np.asarray(rows[-1] - rows[0])


def sets_of(count: int, size: int) -> list[Params]:
    chance = np.random.default_rng(7)
    drawn = ((chance.normal(size=(size, 3)), chance.normal(size=2)) for _ in range(count))
    return [params(w=w.astype(np.float32), b=b.astype(np.float32)) for w, b in drawn]


@pytest.mark.parametrize(("count", "size"), [(1, 5), (3, 43_691), (3, 43_690), (2, 80_000), (200, 700)])
def test_blocks_give_what_whole_arrays_give(count: int, size: int) -> None:
    sets = sets_of(count, size)
    before = [one.digest for one in sets]
    found = blockwise(Schema.of(sets[0]).specs, sets, spread)
    for name in ("w", "b"):
        stacked = np.stack([one[name].astype(np.float64) for one in sets])
        expected = (stacked.max(axis=0) - stacked.min(axis=0)).astype(np.float32)
        np.testing.assert_array_equal(found[name], expected)
    assert [Params(dict(one)).digest for one in sets] == before  # the updates stay as they were


def test_what_is_not_averaged_takes_the_maximum_and_nothing_stays_nothing() -> None:
    sets = [Params({"n": np.array(n), "e": np.empty((0, 4), np.float32)}) for n in (3, 9, 4)]
    found = blockwise(Schema.of(sets[0]).specs, sets, spread)
    assert (int(found["n"]), found["e"].shape) == (9, (0, 4))


def test_the_result_lies_in_the_memory_that_is_given() -> None:
    asked: list[int] = []

    def memory(nbytes: int) -> Array:
        asked.append(nbytes)
        return np.empty(nbytes, np.uint8)

    blockwise(Schema.of(params(w=[1.0, 2.0])).specs, [params(w=[1.0, 2.0])], spread, memory)
    assert asked == [8]


@pytest.mark.parametrize("count", [*range(20), 33, 64, 65, 100])
def test_columns_are_sorted_whatever_their_number(count: int) -> None:
    rows = np.random.default_rng(count).integers(-9, 9, size=(count, 50)).astype(np.float64)
    expected = np.sort(rows, axis=0)
    sort_columns(rows)
    np.testing.assert_array_equal(rows, expected)


@pytest.mark.parametrize("count", range(2, 13))
def test_every_order_of_zeros_and_ones_is_sorted(count: int) -> None:
    """So a network sorts everything (Knuth, 5.3.4, Theorem Z)."""
    rows = np.array([[(number >> row) & 1 for number in range(1 << count)] for row in range(count)], np.float64)
    sort_columns(rows)
    assert (np.diff(rows, axis=0) >= 0).all()


def test_zero_has_no_sign() -> None:
    for one, other in ((0.0, -0.0), (-0.0, 0.0)):
        found = blockwise(
            Schema.of(params(w=[one])).specs, [params(w=[one]), params(w=[other])], lambda rows: rows[0]
        )
        assert not np.signbit(found["w"]).any()


def test_without_updates_there_is_nothing_to_merge() -> None:
    with pytest.raises(ValueError, match="expected at least one set of parameters"):
        blockwise({}, [], spread)
