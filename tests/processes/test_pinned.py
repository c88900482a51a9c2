"""Real nodes of a pinned mesh train with TLS; a stranger waits, and is let in without a restart."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx
import pytest

from tests.processes.harness import PinnedHarness, RealNode, answers, until

pytestmark = pytest.mark.slow


def waiting(node: RealNode) -> list[str]:
    return [one["fingerprint"] for one in node.get("/trust")["pending"]]


def accept(node: RealNode, mark: str, introducer: bool = False) -> None:
    said = node.http.post("/trust/accept", json={"fingerprint": mark, "introducer": introducer})
    assert said.status_code == 200, said.text


def test_four_pinned_nodes_train_and_a_fifth_waits_until_it_is_accepted(tmp_path: Path) -> None:
    mesh = PinnedHarness(tmp_path)
    mesh.module = "tests.processes.hurried"
    try:
        marks = [mesh.mark(index) for index in range(5)]
        # The first one introduces the others, and was told of three of them before they started.
        mesh.start(TRUSTED_PEERS=",".join(marks[1:4]))
        members = [mesh.nodes[0], *(mesh.start(INTRODUCERS=marks[0]) for _ in range(3))]
        mesh.ready()
        fifth = mesh.start()
        open_node = mesh.start(MESH_MODE="open")
        open_node.http = httpx.Client(base_url=f"http://127.0.0.1:{open_node.port}", trust_env=False, timeout=60)
        for node in (fifth, open_node):
            until(lambda n=node: answers(n, "/health"), node.name)  # type: ignore[misc]
        until(lambda: marks[4] in waiting(members[0]), "the fifth among those who wait")
        until(lambda: waiting(fifth) == [marks[0]], "the first among those who wait at the fifth")
        mesh.go()
        members[1].trigger()
        for node in members:
            until(lambda n=node: bool(n.history()), f"a round on {node.name}")  # type: ignore[misc]
        before = [node.history()[-1] for node in members]
        seen = members[0].states()

        accept(fifth, marks[0], introducer=True)
        until(lambda: bool(fifth.told("trust_waits")), "words that the fifth waits there")
        accept(members[0], marks[4])
        mesh.meshed(*members, fifth)
        fifth.trigger().raise_for_status()
        for node in (*members, fifth):
            until(lambda n=node: bool(n.history()) and n.history()[-1]["round"] == 1, f"round 1 on {node.name}")  # type: ignore[misc]
        after = [node.history()[-1] for node in (*members, fifth)]

        members[0].http.post("/trust/forget", json={"fingerprint": marks[4]})
        until(lambda: not any("n4" in node.states() for node in members), "the fifth forgotten by all")
        modes = {node.get("/info")["mode"] for node in members}
        plain = httpx.get(f"http://127.0.0.1:{members[0].port}/info", trust_env=False, timeout=60)
        until(lambda: bool(open_node.told("announce_failed")), "words to the open node")
        words = open_node.told("announce_failed")[0]
        shown = ssl.get_server_certificate(("127.0.0.1", members[0].port))
    finally:
        mesh.stop()

    assert {tuple(record["contributors"]) for record in before} == {("n0", "n1", "n2", "n3")}
    assert len({record["digest"] for record in before}) == 1
    assert "n4" not in seen
    # Who came later has an older model, so it gave none.
    assert {record["initiator"] for record in after} == {"n4"}
    assert len({record["digest"] for record in after}) == 1
    assert modes == {"pinned"}
    assert plain.status_code == 403 and plain.json()["error"] == "tls_needed"
    assert "pinned mesh" in words
    assert "CERTIFICATE" in shown
