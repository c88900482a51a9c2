"""Threat 15: a peer sends each node something else. The averages differ, and what it signed convicts it."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flnet.cli.history import SIGNED, WRONG, verdict_of
from flnet.params.params import Params
from flnet.protocol.messages import HyperParams, ModelParams, Packet, Peer
from flnet.protocol.updates import Contribution
from flnet.wire.binary_codec import BINARY_TYPE, BinaryCodec
from tests.helpers import params
from tests.node.mesh import MNIST_3_7, Mesh, mesh_of, until
from tests.security.keypairs import TestKey

TRIGGER = b'{"trainerId": "MNIST_3_7", "rounds": 1}'
JSON, HERE = "application/json", "127.0.0.1"
PEER = Peer(id="two", ip=HERE, port=4777)


def update(learnt: Params) -> bytes:
    """What the peer sends, signed for what it is."""
    signer = TestKey(9)
    plain = Contribution("two", MNIST_3_7, 0, "a", "1" * 64, "2" * 64, learnt.digest, 50, key=signer.text)
    message = ModelParams(
        i_am=PEER,
        trainer_id=MNIST_3_7,
        round=0,
        initiator="a",
        federated_learning_params=HyperParams(e=1, u=0.1, b=8),
        examples=plain.examples,
        digest=learnt.digest,
        base=plain.base,
        schema_digest=plain.schema,
        key=plain.key,
        signature=base64.b64encode(signer.sign(plain.statement())).decode(),
    )
    return bytes(BinaryCodec().encode(Packet(message, learnt)))


def stated(mesh: Mesh, name: str) -> Contribution:
    """What a node keeps of the peer's update."""
    record = mesh.nodes[name].history(MNIST_3_7)[0]
    (view,) = [one for one in record["contributions"] if one["peer"] == "two"]
    return Contribution.read(view, MNIST_3_7, record["round"], record["initiator"])


async def two_faced(mesh: Mesh, to_a: float = 5.0, to_b: float = -5.0) -> None:
    """One round in which "a" hears of other numbers than "b"."""
    announced = {"iAm": PEER.fields(), "myKnownPeers": [node.me.fields() for node in mesh.nodes.values()]}
    for node in mesh.nodes.values():
        await node.receive("/announce", json.dumps(announced).encode(), JSON, HERE)
    await mesh.nodes["a"].receive("/training/trigger", TRIGGER, JSON, HERE)
    await until(lambda: all(node.core.jobs[MNIST_3_7].number == 0 for node in mesh.nodes.values()))
    for name, number in (("a", to_a), ("b", to_b)):
        learnt = params(weights=[[number], [number]], bias=[number])
        await mesh.nodes[name].receive("/training/model_params", update(learnt), BINARY_TYPE, HERE)
    await mesh.idle(0)


def digest(mesh: Mesh, name: str) -> Any:
    """Of the average that a node made last."""
    return mesh.nodes[name].history(MNIST_3_7)[-1]["digest"]


async def test_two_statements_of_one_node_on_one_round_are_proof_that_anybody_can_check() -> None:
    async with mesh_of(1.0, 1.0) as mesh:
        await two_faced(mesh)
        assert digest(mesh, "a") != digest(mesh, "b")
        one, other = stated(mesh, "a"), stated(mesh, "b")
        assert (verdict_of(one), verdict_of(other)) == (SIGNED, SIGNED)
        assert replace(one, digest="", signature="") == replace(other, digest="", signature="")
        assert one.digest != other.digest
        assert verdict_of(replace(one, digest=other.digest)) == WRONG  # nobody else can make such a proof


@pytest.mark.parametrize(
    ("to_b", "decided", "words"),
    [
        (-1.9, "start_taken", "accuracy 0.5000 against 0.5000"),
        (-1.8, "start_refused", "accuracy 0.5000 against 0.5156"),  # too little for "a" to adopt that of "b"
    ],
)
async def test_the_next_round_starts_from_the_model_of_its_initiator_only_if_it_is_no_worse(
    to_b: float, decided: str, words: str
) -> None:
    async with mesh_of(1.0, 1.0) as mesh:
        await two_faced(mesh, 4.5, to_b)
        assert digest(mesh, "a") != digest(mesh, "b")
        await mesh.nodes["a"].receive("/training/trigger", TRIGGER, JSON, HERE)
        await mesh.idle(1)
        told = [news for news in mesh.nodes["b"].feed.recent() if news.kind in ("start_taken", "start_refused")]
        assert [news.kind for news in told] == [decided]
        assert words in told[0].text


async def test_the_mesh_has_one_model_again_with_the_next_round() -> None:
    async with mesh_of(1.0, 1.0) as mesh:
        await two_faced(mesh)
        await mesh.nodes["a"].receive("/training/trigger", TRIGGER, JSON, HERE)
        await mesh.idle(1)
        assert digest(mesh, "a") == digest(mesh, "b")
        model = mesh.nodes["a"].core.jobs[MNIST_3_7].held.model
        assert model is not None
        assert np.isfinite(model.shared["weights"]).all()
