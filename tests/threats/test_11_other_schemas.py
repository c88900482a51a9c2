"""Threat 11: an update of something else: other names, shapes or types, or another version of the trainer."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from flnet.errors import PeerError
from flnet.params.params import Array, Params
from flnet.protocol.messages import HyperParams, ModelParams, Packet, Peer
from flnet.wire.binary_codec import BINARY_TYPE, BinaryCodec
from tests.node.mesh import MNIST_3_7, gives_up_waiting, mesh_of, until

TRIGGER = b'{"trainerId": "MNIST_3_7", "rounds": 1}'
JSON, HERE = "application/json", "127.0.0.1"
OTHER = Peer(id="other", ip=HERE, port=4777)
RIGHT: dict[str, Array] = {"weights": np.zeros((2, 1), np.float32), "bias": np.zeros(1, np.float32)}
MUTATIONS: dict[str, tuple[dict[str, Array], dict[str, Any]]] = {
    "a name is missing": ({"weights": RIGHT["weights"]}, {}),
    "a name too many": ({**RIGHT, "more": RIGHT["bias"]}, {}),
    "a name in capitals": ({"WEIGHTS": RIGHT["weights"], "bias": RIGHT["bias"]}, {}),
    "turned": ({**RIGHT, "weights": np.zeros((1, 2), np.float32)}, {}),
    "one row more": ({**RIGHT, "weights": np.zeros((3, 1), np.float32)}, {}),
    "a number for a row": ({**RIGHT, "bias": np.zeros((), np.float32)}, {}),
    "booleans": ({**RIGHT, "bias": np.zeros(1, np.bool_)}, {}),
    "clipped elsewhere": (RIGHT, {"agreement": {"clipping of updates": "to the norm 1"}}),
    "bounded elsewhere": (RIGHT, {"agreement": {"largest update": "any"}}),
}


def body(arrays: dict[str, Array], **more: Any) -> bytes:
    """An update of a member."""
    message = ModelParams(
        i_am=OTHER,
        trainer_id=MNIST_3_7,
        round=0,
        initiator="a",
        federated_learning_params=HyperParams(e=1, u=0.1, b=8),
        examples=5,
        **more,
    )
    return bytes(BinaryCodec().encode(Packet(message, Params(arrays))))


@pytest.mark.parametrize("name", MUTATIONS)
async def test_it_is_refused_in_words_and_the_round_goes_on(name: str) -> None:
    async with mesh_of(1.0, 2.0) as mesh:
        a = mesh.nodes["a"]
        announced = {"iAm": OTHER.fields(), "myKnownPeers": []}
        await a.receive("/announce", json.dumps(announced).encode(), JSON, HERE)
        await a.receive("/training/trigger", TRIGGER, JSON, HERE)
        await until(lambda: a.job(MNIST_3_7).current_round == 0)
        arrays, more = MUTATIONS[name]
        with pytest.raises(PeerError) as refused:
            await a.receive("/training/model_params", body(arrays, **more), BINARY_TYPE, HERE)
        assert (refused.value.status, refused.value.code) == (422, "params_refused")
        await gives_up_waiting(a, "a", "b")  # a member that says nothing of use is waited for until then
        await until(lambda: a.job(MNIST_3_7).phase == "IDLE")
        assert a.history(MNIST_3_7)[0]["contributors"] == ["a", "b"]
        assert any(item.kind == "refused_here" for item in a.feed.recent())


async def test_the_same_without_a_mutation_counts() -> None:
    async with mesh_of(1.0, 2.0) as mesh:
        a = mesh.nodes["a"]
        announced = {"iAm": OTHER.fields(), "myKnownPeers": []}
        await a.receive("/announce", json.dumps(announced).encode(), JSON, HERE)
        await a.receive("/training/trigger", TRIGGER, JSON, HERE)
        await until(lambda: a.job(MNIST_3_7).current_round == 0)
        await a.receive("/training/model_params", body(RIGHT), BINARY_TYPE, HERE)
        await mesh.idle(0)
        assert "other" in a.history(MNIST_3_7)[0]["contributors"]
