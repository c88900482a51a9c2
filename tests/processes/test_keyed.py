"""Real nodes that share a key train; one with another key and one without are told why they are not let in."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.mesh_name import MESH_HEADERS
from tests.processes.harness import RealNode, answers, harness, kept, until

pytestmark = pytest.mark.slow
KEY = "correct horse battery staple"


def hears(node: RealNode, words: str) -> bool:
    """Whether a node was told so when it announced itself."""
    return any(words in told for told in node.told("announce_failed"))


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
        for stranger, words in ((open_node, "signature_needed"), (other_key, "FLNET_MESH_KEY")):
            until(lambda n=stranger, w=words: hears(n, w), f"{words} at {stranger.name}")  # type: ignore[misc]
        mesh.go()
        assert members[0].trigger().status_code == 202
        for node in members:
            until(lambda n=node: bool(n.history()), f"a round on {node.name}")  # type: ignore[misc]
        records = [node.history()[-1] for node in members]
        until(lambda: kept(members, 0), "the round on all disks")
        members[1].kill()
        mesh.again(members[1])  # its session is new, and its counters start again
        mesh.up(members[1])
        mesh.meshed(*members)
        assert members[1].trigger().status_code == 202
        for node in members:
            until(lambda n=node: n.history()[-1]["round"] == 1, f"a second round on {node.name}")  # type: ignore[misc]
        after = [node.history()[-1] for node in members]
        unsigned = httpx.post(
            f"http://127.0.0.1:{members[0].port}/announce",
            json={},
            headers=MESH_HEADERS,
            trust_env=False,
            timeout=60,
        )
        modes = [node.get("/info")["mode"] for node in (members[0], open_node)]
        refused = members[0].told("refused_here")
        seen = members[0].states()

    assert {tuple(record["contributors"]) for record in records} == {("n0", "n1", "n2", "n3")}
    assert len({record["digest"] for record in records}) == 1
    assert {tuple(record["contributors"]) for record in after} == {("n0", "n1", "n2", "n3")}
    assert unsigned.status_code == 401
    assert unsigned.headers["WWW-Authenticate"].startswith("Flnet ")
    assert modes == ["keyed", "open"]
    assert set(seen) == {"n1", "n2", "n3"}
    assert len(refused) == 2
