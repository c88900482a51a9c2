"""Meshes of different names on one machine stay apart, whoever calls whom."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.processes.harness import Harness, RealNode, answers, harness, until

pytestmark = pytest.mark.slow


def started(made: Harness, mesh: str, *bootstrap: RealNode) -> RealNode:
    """A node of this mesh, which may call a node of another one."""
    node = made.start(MESH_NAME=mesh, BOOTSTRAP_PAIRS=",".join(f"127.0.0.1:{other.port}" for other in bootstrap))
    del node.http.headers["Flnet-Mesh"]  # its operator states no mesh
    until(lambda: answers(node, "/health"), node.name)
    return node


def refuses(node: RealNode, kind: str, mesh: str) -> bool:
    return any(f"the mesh {mesh}" in words for words in node.told(kind))


def test_nodes_of_other_meshes_refuse_each_other_in_words(tmp_path: Path) -> None:
    with harness(tmp_path) as made:
        lab = started(made, "lab")
        ward, usual, member = started(made, "ward", lab), started(made, "flnet", lab), started(made, "lab", lab)
        made.meshed(lab, member)
        for node, kind, mesh in (
            (ward, "announce_failed", "lab"),
            (usual, "announce_failed", "lab"),
            (lab, "refused_here", "lab"),
        ):
            until(lambda n=node, k=kind, m=mesh: refuses(n, k, m), f"{kind} at {node.name}")  # type: ignore[misc]
        made.go()
        for node in (lab, member):
            made.up(node)
        assert lab.trigger().status_code == 202
        until(lambda: bool(lab.history()), "a round of the mesh")
        seen = [set(node.states()) for node in (lab, ward, usual, member)]
        names = [node.get("/info")["mesh"] for node in (lab, ward, usual, member)]
        page = lab.http.get("/").text

    assert seen == [{"n3"}, set(), set(), {"n0"}]
    assert names == ["lab", "ward", "flnet", "lab"]
    assert '<h2 id="mesh">Mesh <small>lab</small></h2>' in page


def test_messages_of_another_mesh_make_no_member(tmp_path: Path) -> None:
    with harness(tmp_path) as made:
        node = started(made, "lab")
        me = {"id": "x", "ip": "127.0.0.1", "port": node.port + 1}
        news = [{**me, "id": "y", "state": "alive", "incarnation": 0}]
        bodies = {"/announce": {"iAm": me, "incarnation": 0, "members": news}, "/probe": {"iAm": me, "news": news}}
        address = f"http://127.0.0.1:{node.port}"
        refused = [
            httpx.post(address + path, json=body, headers=headers, trust_env=False, timeout=60)
            for path, body in bodies.items()
            for headers in ({}, {"Flnet-Mesh": "ward"}, {"Flnet-Mesh": "not a name"})
        ]
        seen = node.get("/peers")

    assert {answer.status_code for answer in refused} == {403}
    assert {answer.json()["error"] for answer in refused} == {"other_mesh"}
    assert seen == []
