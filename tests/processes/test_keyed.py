"""Real nodes that share a key train; one with another key and one without are told why they are not let in."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.processes.harness import answers, harness, until

pytestmark = pytest.mark.slow
KEY = "correct horse battery staple"


def test_four_nodes_with_a_key_train_and_go_on_after_a_restart_while_strangers_are_told_why_not(
    tmp_path: Path,
) -> None:
    (tmp_path / "mesh.key").write_text(KEY)
    with harness(tmp_path) as mesh:
        members = [mesh.start(MESH_KEY_FILE=str(tmp_path / "mesh.key")) for _ in range(4)]
        mesh.ready()
        open_node, other_key = mesh.start(), mesh.start(MESH_KEY=KEY + "!")
        for stranger in (open_node, other_key):
            until(lambda n=stranger: answers(n, "/health"), stranger.name)  # type: ignore[misc]
        until(lambda: bool(open_node.told("announce_failed")), "words to the open node")
        until(lambda: bool(other_key.told("announce_failed")), "words to the node with another key")
        mesh.go()
        members[0].trigger()
        for node in members:
            until(lambda n=node: bool(n.history()), f"a round on {node.name}")  # type: ignore[misc]
        records = [node.history()[-1] for node in members]
        members[1].kill()
        mesh.again(members[1])  # its session is new, and its counters begin anew
        mesh.up(members[1])
        mesh.meshed(*members)
        members[1].trigger()
        for node in members:
            until(lambda n=node: n.history()[-1]["round"] == 1, f"a second round on {node.name}")  # type: ignore[misc]
        after = [node.history()[-1] for node in members]
        unsigned = httpx.post(f"http://127.0.0.1:{members[0].port}/announce", json={}, trust_env=False)
        modes = [node.get("/info")["mode"] for node in (members[0], open_node)]
        words = [stranger.told("announce_failed")[0] for stranger in (open_node, other_key)]
        refused = members[0].told("refused_here")
        seen = members[0].states()

    assert {tuple(record["contributors"]) for record in records} == {("n0", "n1", "n2", "n3")}
    assert len({record["digest"] for record in records}) == 1
    assert {tuple(record["contributors"]) for record in after} == {("n0", "n1", "n2", "n3")}
    assert unsigned.status_code == 401
    assert unsigned.headers["WWW-Authenticate"].startswith("Flnet ")
    assert modes == ["keyed", "open"]
    assert set(seen) == {"n1", "n2", "n3"}
    assert "signature_needed" in words[0] and "FLNET_MESH_KEY" in words[1]
    assert len(refused) == 2
