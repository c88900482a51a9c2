"""A stranger announces itself to a mesh with a key: nothing of it is kept, it reads nothing, and is told why."""

from __future__ import annotations

import json

import pytest

from flnet.errors import PeerRefused
from flnet.protocol.messages import ModelParams
from flnet.wire.memory import MemoryTransport
from tests.node.mesh import MNIST_3_7, Mesh, mesh_of
from tests.node.signed_receiver import signing

KEY = "correct horse battery staple"
JSON = "application/json"
STRANGER = "127.0.0.1:6666"


def announcement(name: str = "stranger", key: str | None = None) -> bytes:
    said: dict[str, object] = {"iAm": {"id": name, "ip": "127.0.0.1", "port": 6666}, "myKnownPeers": []}
    return json.dumps(said | ({"key": key} if key else {})).encode()


def outsider(mesh: Mesh, secret: str | None) -> MemoryTransport:
    """Somebody on the network, who knows this key or none."""
    signs = signing(6666, secret)
    return mesh.network.transport(STRANGER, signs.signer if signs else None)


async def test_who_signs_nothing_is_refused_and_nothing_of_it_is_kept() -> None:
    async with mesh_of(1.0, 2.0, mesh_key=KEY) as mesh:
        a = mesh.nodes["a"]
        reply = await outsider(mesh, None).send(a.me.address, "/announce", announcement(), JSON)

        assert reply.status == 401
        assert [peer["id"] for peer in a.peers()] == ["b"]
        assert [i.text for i in a.feed.recent() if i.kind == "refused_here"] != []


async def test_who_has_another_key_is_refused_and_told_why() -> None:
    async with mesh_of(1.0, 2.0, mesh_key=KEY) as mesh:
        a = mesh.nodes["a"]
        with pytest.raises(PeerRefused, match="FLNET_MESH_KEY"):
            await outsider(mesh, "another horse, same battery").send(
                a.me.address, "/announce", announcement(), JSON
            )

        assert [peer["id"] for peer in a.peers()] == ["b"]


async def test_no_model_is_handed_to_a_stranger() -> None:
    async with mesh_of(1.0, 2.0, mesh_key=KEY) as mesh:
        a = mesh.nodes["a"]
        model = a.core.jobs[MNIST_3_7].held.model
        assert model is not None
        path = f"{ModelParams.path}/{model.shared.digest}"

        assert (await outsider(mesh, None).fetch(a.me.address, path)).status == 401
        assert (await outsider(mesh, KEY).fetch(a.me.address, path)).status == 200


async def test_with_the_key_it_is_no_stranger() -> None:
    async with mesh_of(1.0, 2.0, mesh_key=KEY) as mesh:
        signs = signing(6666, KEY)
        assert signs is not None
        said = announcement("newcomer", signs.verifier.me.key)
        transport = mesh.network.transport(STRANGER, signs.signer)

        reply = await transport.send(mesh.nodes["a"].me.address, "/announce", said, JSON)

        assert reply.status == 201
        assert "newcomer" in {peer["id"] for peer in mesh.nodes["a"].peers()}


async def test_a_round_goes_on_while_strangers_knock() -> None:
    async with mesh_of(1.0, 2.0, mesh_key=KEY) as mesh:
        a, knocking = mesh.nodes["a"], outsider(mesh, None)
        trigger = json.dumps({"trainerId": MNIST_3_7, "rounds": 3}).encode()
        await a.receive("/training/trigger", trigger, JSON, "127.0.0.1")
        for _ in range(50):
            assert (await knocking.send(a.me.address, "/announce", announcement(), JSON)).status == 401
        await mesh.idle(2)

        assert [record["contributors"] for record in a.history(MNIST_3_7)] == [["a", "b"]] * 3
