"""Threat 1 in an open mesh: a node that did not announce itself starts no round, and its update counts in none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flnet.errors import PeerError
from flnet.params.params import PeerId
from tests.node.mesh import MNIST_3_7, Mesh, mesh_of, until

JSON = "application/json"
SOUND = {"weights": [[0.5], [0.5]], "bias": [0.5]}
TRIGGER = b'{"trainerId": "MNIST_3_7", "rounds": 1}'


def said(round: int, params: dict[str, Any] | None = None) -> bytes:
    """A start or an update of the thesis' form."""
    fields = {
        "iAm": {"id": "stranger", "ip": "127.0.0.1", "port": "6666"},
        "trainerId": "MNIST_3_7",
        "modelParams": params or SOUND,
        "round": round,
        "federatedLearningParams": {"e": 1, "u": 0.0001, "b": 8},
    }
    return json.dumps(fields).encode()


async def send(mesh: Mesh, path: str, body: bytes) -> int:
    """Status of the answer of node a."""
    try:
        return (await mesh.nodes["a"].receive(path, body, JSON, "127.0.0.1")).status
    except PeerError as exc:
        return exc.status


@pytest.mark.parametrize("path", ["/training", "/training/model_params"])
async def test_a_stranger_opens_no_round(path: str) -> None:
    async with mesh_of(1.0, 2.0) as mesh:
        for round in (0, 7):
            assert await send(mesh, path, said(round)) == 403
        assert {node.job(MNIST_3_7).current_round for node in mesh.nodes.values()} == {-1}
        told = [item.text for item in mesh.nodes["a"].feed.recent() if item.kind == "refused_here"]
        assert any("announce it first with POST /announce" in text for text in told)


async def test_a_stranger_counts_in_no_round_of_others() -> None:
    async with mesh_of(1.0, 2.0) as mesh:
        await mesh.nodes["a"].receive("/training/trigger", TRIGGER, JSON, "127.0.0.1")
        assert await send(mesh, "/training/model_params", said(0)) == 403
        await mesh.idle(0)
        assert mesh.nodes["a"].history(MNIST_3_7)[0]["contributors"] == ["a", "b"]


async def test_who_announced_itself_is_heard_as_in_the_thesis() -> None:
    async with mesh_of(1.0, 2.0) as mesh:
        announced = json.dumps({"iAm": json.loads(said(0))["iAm"], "myKnownPeers": []}).encode()
        assert await send(mesh, "/announce", announced) == 201
        assert await send(mesh, "/training", said(0)) == 200
        assert await send(mesh, "/training/model_params", said(0)) == 200
        await mesh.idle(0)
        assert "stranger" in mesh.nodes["a"].history(MNIST_3_7)[0]["contributors"]


async def test_a_node_that_was_forgotten_introduces_itself_again_and_no_round_is_lost() -> None:
    async with mesh_of(1.0, 2.0) as mesh:
        b = mesh.nodes["b"]
        b.core.members.state.roster.known.pop(PeerId("a"))
        for job in b.core.jobs.values():
            job.peers.here.clear()
        await mesh.nodes["a"].receive("/training/trigger", TRIGGER, JSON, "127.0.0.1")
        await mesh.idle(0)
        await until(lambda: mesh.nodes["b"].core.members.alive == ["a"])
        assert mesh.nodes["a"].history(MNIST_3_7)[0]["contributors"] == ["a", "b"]
