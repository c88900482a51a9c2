"""Three real nodes get another mesh key, one after the other, and train a round after each step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.live import flnet
from tests.processes.harness import Harness, RealNode, answers, harness, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
OLD, NEW = "correct horse battery staple", "incorrect horse battery staple"
STEPS = ({"MESH_KEY": OLD, "OTHER_MESH_KEY": NEW}, {"MESH_KEY": NEW, "OTHER_MESH_KEY": OLD}, {"MESH_KEY": NEW})


def trained(mesh: Harness, starter: RealNode, members: list[RealNode]) -> None:
    """Train one round, in which each of these nodes takes part."""
    mesh.meshed(*members)
    answer = starter.trigger()
    assert answer.status_code == 202, answer.text
    number, names = answer.json()["round"], {member.name for member in members}
    for node in members:
        until(lambda n=node: (number, names) in rounds(n), f"round {number} of {sorted(names)} on {node.name}")  # type: ignore[misc]


def rounds(node: RealNode) -> list[tuple[int, set[str]]]:
    """The numbers of the rounds that a node keeps, and who took part in each."""
    return [(record["round"], set(record["contributors"])) for record in node.history()]


def ended(node: RealNode) -> None:
    """Ask a node to end, as its operator does."""
    node.process.terminate()
    node.process.wait()


def shows_who_signs_with_the_old_key(folder: Path, node: RealNode) -> None:
    """In the middle of the second step, this node has the new key as its first, and the others sign with the old one."""
    until(lambda: [p["signs_with_other_key"] for p in node.get("/peers")] == [True, True], "requests of both")
    page = node.http.get("/").text
    assert page.count('<span class="chip warn">second mesh key</span>') == 2
    assert "it is still needed" in page
    with flnet(folder, "peers", "--node", f"127.0.0.1:{node.port}") as shown:
        assert shown.communicate()[0].count("second") == 2
    with flnet(folder, "status", "--node", f"127.0.0.1:{node.port}") as shown:
        assert "the second one was last used by n1, n2" in shown.communicate()[0]


def test_a_mesh_gets_another_key_without_being_stopped(tmp_path: Path) -> None:
    with harness(tmp_path) as mesh:
        mesh.go()
        nodes = [mesh.start(MESH_KEY=OLD, OTHER_MESH_KEY="") for _ in range(3)]
        mesh.ready()
        trained(mesh, nodes[0], nodes)
        for step in STEPS:
            for node in nodes:
                others = [other for other in nodes if other is not node]
                ended(node)
                until(lambda o=others, n=node: all(x.states()[n.name] != "alive" for x in o), "its end")  # type: ignore[misc]
                trained(mesh, others[0], others)
                mesh.again(node, **{"OTHER_MESH_KEY": "", **step})
                mesh.up(node)
                trained(mesh, others[0], nodes)
                if step == STEPS[1] and node is nodes[0]:
                    shows_who_signs_with_the_old_key(tmp_path, node)
            if step == STEPS[1]:
                until(
                    lambda: all(n.get("/info")["signWithOtherKey"] == [] for n in nodes), "all to use the new key"
                )
                with flnet(tmp_path, "status", "--node", f"127.0.0.1:{nodes[0].port}") as shown:
                    assert "the second one was last used by no peer" in shown.communicate()[0]
                page = nodes[0].http.get("/").text
                assert "mesh with two keys" in page
                assert "second mesh key" not in page and "signs with the key of FLNET_OTHER_MESH_KEY." in page
        assert "signWithOtherKey" not in nodes[0].get("/info")
        assert [told for node in nodes for told in node.told("refused_here")] == []
        late = mesh.start(MESH_KEY=OLD)
        until(lambda: answers(late, "/health"), late.name)
        until(lambda: any("FLNET_MESH_KEY" in told for told in late.told("announce_failed")), "its refusal")
        assert set(nodes[0].states()) == {"n1", "n2"}
