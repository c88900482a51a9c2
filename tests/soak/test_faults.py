"""Faults are drawn from a seed, spare who must live, and are undone."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.processes.harness import Harness
from tests.soak.faults import KINDS, SPARED, Fault, befall, draw, passing, possible


def test_the_same_seed_draws_the_same_faults() -> None:
    one, two = Random(3), Random(3)
    drawn = [draw(one, 5, KINDS) for _ in range(200)]
    assert drawn == [draw(two, 5, KINDS) for _ in range(200)]
    brief = [draw(one, 5, KINDS, 1.0, 2.0).seconds for _ in range(200)]
    assert 1.0 <= min(brief) < 1.1 < 1.9 < max(brief) <= 2.0
    assert {fault.kind for fault in drawn} == set(KINDS)
    assert all(fault.node != fault.other for fault in drawn)
    assert {fault.node for fault in drawn if fault.kind == "kill"} == set(range(SPARED, 5))
    assert {fault.node for fault in drawn if fault.kind == "stop"} == set(range(5))


def test_without_hosts_no_network_is_cut(tmp_path: Path) -> None:
    assert set(possible(Harness(tmp_path))) == {"kill", "stop"}


@pytest.mark.slow
def test_a_killed_node_is_started_again_whatever_happens_meanwhile(tmp_path: Path) -> None:
    made = Harness(tmp_path)
    try:
        node = made.start()
        made.up(node)
        old = node.process

        def look() -> None:
            assert old.poll() is not None
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            befall(made, Fault("kill", 0, 1, 5.0), passing(look))
        made.up(node)
        assert node.process.pid != old.pid
    finally:
        made.stop()
