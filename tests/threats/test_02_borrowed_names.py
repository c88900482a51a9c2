"""A node of the mesh claims the id of another one: it has another key, and cannot sign with that of the owner."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flnet.node.runtime import NodeRuntime
from flnet.wire.transport import Reply
from tests.node.mesh import MNIST_3_7, Mesh, mesh_of
from tests.node.signed_receiver import signing

KEY = "correct horse battery staple"
JSON = "application/json"
ROUND = {"trainerId": MNIST_3_7, "round": 0, "federatedLearningParams": {"e": 1, "u": 0.1, "b": 1}}


async def says(mesh: Mesh, path: str, body: dict[str, Any], to: NodeRuntime) -> Reply:
    """What a node that knows the mesh's key, and has a key of its own, is answered."""
    signs = signing(6666, KEY)
    assert signs is not None
    transport = mesh.network.transport("127.0.0.1:6666", signs.signer)
    return await transport.send(to.me.address, path, json.dumps(body).encode(), JSON)


def own_key() -> str:
    signs = signing(6666, KEY)
    assert signs is not None
    return signs.verifier.me.key


def named(name: str) -> dict[str, Any]:
    return {"iAm": {"id": name, "ip": "127.0.0.1", "port": 6666}}


async def test_the_same_id_with_another_key_is_refused_and_the_owner_stays() -> None:
    async with mesh_of(1.0, 2.0, mesh_key=KEY) as mesh:
        a, b = mesh.nodes["a"], mesh.nodes["b"]
        reply = await says(mesh, "/announce", named("b") | {"key": own_key()}, a)

        assert (reply.status, json.loads(reply.body)["error"]) == (409, "id_taken")
        assert [(peer["id"], peer["address"]) for peer in a.peers()] == [("b", b.me.address)]


@pytest.mark.parametrize("path", ["/announce", "/probe"])
async def test_the_key_of_another_node_cannot_be_shown(path: str) -> None:
    async with mesh_of(1.0, 2.0, mesh_key=KEY) as mesh:
        a, b = mesh.nodes["a"], mesh.nodes["b"]
        reply = await says(mesh, path, named("b") | {"key": b.core.members.key}, a)

        assert (reply.status, json.loads(reply.body)["error"]) == (403, "signature_refused")
        assert a.core.members.address_of(a.core.members.alive[0]) == b.me.address


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/training", {}),
        ("/training/model_params", {"declined": "no time"}),
        ("/training/model_params/accuracy", {"accuracy": 1.0}),
    ],
)
async def test_nothing_is_said_in_a_round_in_the_name_of_another(path: str, more: dict[str, Any]) -> None:
    async with mesh_of(1.0, 2.0, mesh_key=KEY) as mesh:
        a = mesh.nodes["a"]
        reply = await says(mesh, path, {**named("b"), **ROUND, **more}, a)

        assert (reply.status, json.loads(reply.body)["error"]) == (403, "signature_refused")
        assert a.job(MNIST_3_7).current_round == -1
