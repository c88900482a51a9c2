"""Who holds a travelling model next."""

from __future__ import annotations

from collections import Counter

import pytest

from flnet.algorithms.passing import at_random, cyclic
from flnet.params.params import PeerId

A, B, C, D = map(PeerId, "abcd")
NAMES = [PeerId(name) for name in "dacb"]


def test_cyclic_passing_reaches_all_nodes_in_the_order_of_their_ids() -> None:
    holder, seen = B, []
    for _ in range(8):
        holder = cyclic(NAMES, holder)
        seen.append(holder)
    assert seen == ["c", "d", "a", "b", "c", "d", "a", "b"]


def test_a_dead_successor_is_skipped() -> None:
    assert cyclic(NAMES, B, {C, D}) == "a"
    assert cyclic(NAMES, B, {A, C, D}) == "b"
    assert cyclic(NAMES, B, {B}) == "c"  # the model was sent back by who has the last copy of it
    assert at_random(NAMES, B, "run", 0, {A, C}) == "d"
    assert at_random(NAMES, B, "run", 0, {A, C, D}) == "b"


def test_random_passing_takes_each_other_node_with_the_same_probability() -> None:
    counts = Counter(at_random(NAMES, B, "run", hop) for hop in range(3000))
    assert set(counts) == {"a", "c", "d"}
    assert all(count / 3000 == pytest.approx(1 / 3, abs=0.03) for count in counts.values())


def test_all_nodes_draw_the_same_and_another_run_draws_otherwise() -> None:
    def holders(run: str) -> list[PeerId]:
        return [at_random(NAMES, B, run, hop) for hop in range(30)]

    assert holders("one") == holders("one") != holders("two")
