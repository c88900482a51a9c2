"""Threat 14: a peer claims an accuracy that its model does not have. Only the own measure counts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from flnet.wire.transport import Reply
from tests.node.mesh import until
from tests.papers.test_thesis_bodies import ACCURACY, TRAINING, OldNode, Thesis, with_numbers

CLAIM = "/training/model_params/accuracy"


class Liar(OldNode):
    """Says that what it holds is perfect."""

    async def receive(self, path: str, body: bytes, content_type: str, caller: str) -> Reply:
        reply = await super().receive(path, body, content_type, caller)
        if not path.endswith("/accuracy"):
            return reply
        return Reply(200, json.dumps({**json.loads(reply.body), "accuracy": 1.0}).encode())


@pytest.fixture
async def thesis() -> AsyncIterator[Thesis]:
    made = Thesis("json")
    made.old = Liar()
    made.network.register("127.0.0.1:4000", made.old.receive)
    await made.node.start()
    await until(lambda: bool(made.node.ready()["data_loaded"]))
    await made.meet_old_node()
    yield made
    await made.node.stop()


async def trained(thesis: Thesis, held: float) -> None:
    """One round with the peer, which holds these weights at its end."""
    thesis.old.held = {"weights": [[held]] * 784, "bias": [0.0]}
    assert (await thesis.post("/training", with_numbers(TRAINING)))[0] == 200
    await until(lambda: thesis.job()["phase"] == "GATHERING")
    assert (await thesis.post("/training/model_params", with_numbers(TRAINING)))[0] == 200
    await until(lambda: thesis.job()["phase"] == "IDLE")


async def test_a_bad_model_with_a_perfect_claim_is_not_adopted(thesis: Thesis) -> None:
    await trained(thesis, -50.0)
    assert len(thesis.old.bodies(CLAIM)) == 1
    assert thesis.job()["exchanged_with"] is None
    assert thesis.job()["contributors"] == 2
    before = thesis.job()["digest"]
    lie = with_numbers(ACCURACY, accuracy=1.0, modelParams=thesis.old.held)
    assert (await thesis.post(CLAIM, lie))[0] == 200
    await until(lambda: thesis.job()["phase"] == "IDLE")
    assert thesis.job()["digest"] == before


async def test_the_same_claim_is_believed_where_the_own_measure_agrees(thesis: Thesis) -> None:
    await trained(thesis, 1.0)
    assert thesis.job()["exchanged_with"] == "NODE_1"
