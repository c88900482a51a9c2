"""Batches: all holders get the same ones, each row is in one of them, and the digest tells batches apart."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.algorithms.vertical.batches import batch_digest, batches, epoch_order, permutation
from tests.algorithms.vertical.playing import play

DIGEST = hashlib.sha256(b"agreed").hexdigest()


@given(st.integers(1, 500), st.integers(1, 600), st.integers(0, 2**64), st.integers(0, 1000))
def test_each_row_is_in_one_batch_of_an_epoch(count: int, size: int, seed: int, epoch: int) -> None:
    made = list(batches(count, size, seed, epoch, DIGEST))
    assert [batch.step for batch in made] == list(range(math.ceil(count / size)))
    assert {batch.epoch for batch in made} == {epoch}
    assert [len(batch.positions) for batch in made[:-1]] == [size] * (len(made) - 1)
    rows = np.concatenate([batch.positions for batch in made])
    assert sorted(rows) == list(range(count))
    assert np.array_equal(rows, epoch_order(count, seed, epoch))


def test_the_order_is_the_same_everywhere() -> None:
    """Recorded once: a version or a platform on which these differ would train on rows of different people."""
    assert permutation(8, bytes(32)).tolist() == PERMUTATION
    assert epoch_order(10, 7, 0).tolist() == EPOCH_0
    assert epoch_order(10, 7, 1).tolist() == EPOCH_1
    assert [batch.digest[:16] for batch in batches(10, 4, 7, 0, DIGEST)] == DIGESTS


PERMUTATION = [0, 4, 6, 2, 7, 3, 1, 5]
EPOCH_0 = [0, 4, 8, 6, 1, 9, 5, 2, 7, 3]
EPOCH_1 = [7, 9, 3, 1, 6, 2, 8, 4, 0, 5]
DIGESTS = ["c5f03a6797f3943a", "6a8a55371287d66b", "88ed804b2200aecd"]


def test_every_order_is_as_likely_as_any_other() -> None:
    orders = Counter(tuple(epoch_order(4, seed=3, epoch=epoch)) for epoch in range(4800))
    assert set(orders) == set(itertools.permutations(range(4)))
    chi_squared = sum((count - 200) ** 2 / 200 for count in orders.values())
    assert chi_squared < 58.6  # 23 degrees of freedom: a larger one has a probability below 1e-4


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = {tuple(epoch_order(50, seed, epoch)) for seed in range(12) for epoch in range(12)}
    assert len(orders) == 144  # (1, 11) and (11, 1) among them


def test_a_digest_tells_everything_apart_that_differs() -> None:
    positions = np.array([3, 1, 2])
    digests = {
        batch_digest(DIGEST, 0, 0, positions),
        batch_digest(DIGEST, 0, 0, positions[::-1]),
        batch_digest(DIGEST, 0, 0, positions[:2]),
        batch_digest(DIGEST, 0, 1, positions),
        batch_digest(DIGEST, 1, 0, positions),
        batch_digest(DIGEST[::-1], 0, 0, positions),
    }
    assert len(digests) == 6
    assert batch_digest(DIGEST, 0, 0, positions.astype(">i8")) == batch_digest(DIGEST, 0, 0, positions)
    assert all(len(digest) == 64 for digest in digests)


def test_all_holders_have_the_same_people_in_every_batch() -> None:
    sets = {name: [f"id-{n}" for n in range(start, start + 30)] for name, start in (("a", 0), ("b", 9), ("c", 5))}
    done = play(sets)
    common = {name: done.common(name) for name in sets}
    assert len(common["a"]) == 21
    made = {name: list(batches(21, 8, 1, 2, done.digest(name))) for name in sets}
    for steps in zip(*made.values(), strict=True):
        assert len({batch.digest for batch in steps}) == 1
        people = [[common[name][at] for at in batch.positions] for name, batch in zip(made, steps, strict=True)]
        assert people[0] == people[1] == people[2]


@pytest.mark.parametrize(
    ("count", "size", "seed", "epoch"), [(0, 1, 0, 0), (1, 0, 0, 0), (1, 1, -1, 0), (1, 1, 0, -1)]
)
def test_what_cannot_be_is_misuse(count: int, size: int, seed: int, epoch: int) -> None:
    with pytest.raises(ValueError, match=r"=-?[01]"):
        list(batches(count, size, seed, epoch, DIGEST))
