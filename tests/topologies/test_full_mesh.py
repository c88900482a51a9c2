"""Full mesh: everyone sends everything to everyone else."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from flnet.params import PeerId
from flnet.topologies.full_mesh import full_mesh

ME = PeerId("b")


def test_everyone_but_me_gets_everything() -> None:
    members = {PeerId("c"), ME, PeerId("a")}
    assert full_mesh(ME, members, 3, random.Random(0)) == [("a", None), ("c", None)]


def test_alone_nobody_gets_anything() -> None:
    assert full_mesh(ME, {ME}, 0, random.Random(0)) == []
    assert full_mesh(ME, set(), 0, random.Random(0)) == []


@given(st.sets(st.text(min_size=1, max_size=3)), st.integers(0, 9), st.integers(0, 9))
def test_the_plan_depends_on_the_members_only(names: set[str], round: int, seed: int) -> None:
    members = [PeerId(name) for name in names]
    plan = full_mesh(ME, members, round, random.Random(seed))
    assert plan == full_mesh(ME, list(reversed(members)), 0, random.Random(0))
    assert [peer for peer, _ in plan] == sorted(names - {ME})
