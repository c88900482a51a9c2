"""The order of the common rows of a job, and which of them are held out."""

from __future__ import annotations

import numpy as np
import pytest

from flnet.algorithms.vertical.aligned_batches import AlignedBatches, held_out_of, ordered_by_ids
from flnet.algorithms.vertical.holder import Agreement


def agreed(common: list[str], ids: list[str], chance: int, digest: str = "d") -> Agreement:
    """What an alignment leaves: the own rows of the common ids, in an order that nobody can foresee."""
    order = np.random.default_rng(chance).permutation(len(common))
    return Agreement("s", ("a", "b"), np.array([ids.index(common[place]) for place in order]), digest)


def people(agreement: Agreement, ids: list[str]) -> list[str]:
    return [ids[row] for row in agreement.rows]


IDS = [f"p{number}" for number in range(300)]


def test_all_holders_have_one_order_whatever_that_of_their_rows_and_of_the_alignment_is() -> None:
    others = IDS[::-1]
    one = ordered_by_ids(agreed(IDS, IDS, 1), IDS, 7)
    other = ordered_by_ids(agreed(IDS, others, 2), others, 7)
    assert people(one, IDS) == people(other, others)
    assert people(one, IDS) not in (IDS, others)
    assert sorted(people(one, IDS)) == sorted(IDS)


def test_orders_of_other_seeds_and_agreements_have_other_digests() -> None:
    one = ordered_by_ids(agreed(IDS, IDS, 1), IDS, 7)
    other = ordered_by_ids(agreed(IDS, IDS, 1), IDS, 8)
    assert people(one, IDS) != people(other, IDS)
    assert len({one.digest, other.digest, ordered_by_ids(agreed(IDS, IDS, 1, "e"), IDS, 7).digest, "d", "e"}) == 5


@pytest.mark.parametrize("changed", [0, 5, 30])
def test_who_was_trained_on_is_hardly_ever_held_out_when_people_come_and_go(changed: int) -> None:
    before = ordered_by_ids(agreed(IDS, IDS, 1), IDS, 7)
    ids = [f"new{number}" for number in range(changed)] + IDS[changed:]
    after = ordered_by_ids(agreed(ids, ids, 2), ids, 7)
    count = held_out_of(len(IDS))
    trained = set(people(before, IDS)[count:])
    crossed = trained & set(people(after, ids)[:count])
    assert len(crossed) <= changed / 4
    assert len(crossed) == 0 or changed


@pytest.mark.parametrize(("count", "held_out"), [(9, 0), (10, 2), (60, 12), (101, 20)])
def test_a_fifth_is_held_out_and_each_other_row_is_trained_on_once_an_epoch(count: int, held_out: int) -> None:
    batches = AlignedBatches(count, 16, 3, "digest")
    held = [row for batch in batches.hold_out() for row in batch.positions]
    assert held == list(range(held_out)) == batches.held_out.tolist()
    for epoch in (0, 1):
        rows = [row for batch in batches.training(epoch) for row in batch.positions]
        assert sorted(rows) == batches.trained.tolist() == list(range(held_out, count))
        assert rows != sorted(rows)
