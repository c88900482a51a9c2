"""Who is held for alive, or dead when networks between hosts are cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.mesh import host_mesh, watched
from tests.hosts.namespaces import unable
from tests.hosts.rules import Rule
from tests.processes.harness import until

pytestmark = [
    pytest.mark.skipif(bool(unable()), reason=unable() or "hosts can be made here"),
]
WATCH_SECONDS = 12.0  # in which somebody who gets no answer at all is declared dead


@pytest.mark.long
def test_two_nodes_that_cannot_reach_each_other_live_on_through_a_third(tmp_path: Path) -> None:
    with host_mesh(tmp_path, 4, seed=8, everywhere=Rule(delay=0.01)) as mesh:
        mesh.start_all()
        mesh.rules.cut(0, 1)
        seen: list[tuple[str, str, str]] = []

        def look() -> None:
            for node in mesh.nodes:
                seen.extend((node.name, peer, state) for peer, state in node.states().items())

        watched(WATCH_SECONDS, look)
        assert {state for _, _, state in seen} <= {"alive", "suspect"}
        mesh.rules.heal()
        mesh.meshed(*mesh.nodes)


@pytest.mark.slow
def test_a_host_that_nobody_reaches_is_dead_and_is_back_when_it_is_reached(tmp_path: Path) -> None:
    with host_mesh(tmp_path, 4, seed=9, everywhere=Rule(delay=0.01)) as mesh:
        mesh.start_all()
        mesh.rules.part([3])
        others = mesh.nodes[:3]
        for node in others:
            until(lambda node=node: node.states()["n3"] == "dead", "the death of n3")  # type: ignore[misc]
            assert {peer: state for peer, state in node.states().items() if peer != "n3"} == {
                other.name: "alive" for other in others if other is not node
            }
        mesh.rules.heal()
        mesh.meshed(*mesh.nodes)
