"""Threats 10 and 11: updates with numbers that are none, or that do not fit. The round goes on without them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from flnet.params.params import Array, Params
from flnet.protocol.messages import HyperParams, ModelParams, Packet, Peer
from flnet.wire.binary_codec import BINARY_TYPE, BinaryCodec
from tests.node.mesh import until
from tests.papers.test_thesis_bodies import ACCURACY, TRAINING, Thesis, with_numbers

PATH = "/training/model_params"
SOUND: dict[str, Array] = {"weights": np.full((784, 1), 0.5, np.float32), "bias": np.full(1, 0.5, np.float32)}
BAD = "bad"


def one(value: float) -> Array:
    """Sound but for one number."""
    array = np.full((784, 1), 0.5, np.float32)
    array[5] = value
    return array


UNSOUND: dict[str, dict[str, Array]] = {
    "NaN": {**SOUND, "weights": one(np.nan)},
    "infinity": {**SOUND, "weights": one(-np.inf)},
    "NaN in the bias": {**SOUND, "bias": np.full(1, np.nan, np.float32)},
    "beyond float32": {**SOUND, "weights": one(0).astype(np.float64) + 1e300},
    "another shape": {**SOUND, "weights": np.zeros((1, 784), np.float32)},
    "flat": {**SOUND, "weights": np.zeros(784, np.float32)},
    "one too many": {**SOUND, "weights": np.zeros((785, 1), np.float32)},
    "empty": {**SOUND, "weights": np.zeros((0, 1), np.float32)},
    "booleans": {**SOUND, "bias": np.ones(1, np.bool_)},
    "one missing": {"weights": SOUND["weights"]},
    "one more": {**SOUND, "more": np.zeros(1, np.float32)},
    "another name": {"weights": SOUND["weights"], "Bias": SOUND["bias"]},
}


@pytest.fixture
async def thesis() -> AsyncIterator[Thesis]:
    made = Thesis("safetensors")
    await made.node.start()
    await until(lambda: bool(made.node.ready()["data_loaded"]))
    await made.meet_old_node()
    assert (await made.post("/training", with_numbers(TRAINING)))[0] == 200
    await until(lambda: made.job()["phase"] == "GATHERING")
    yield made
    await made.node.stop()


async def send(thesis: Thesis, arrays: dict[str, Array], sender: str, **fields: Any) -> tuple[int, dict[str, Any]]:
    """An update in the binary form, of somebody who announced itself."""
    port = 4009 if sender == BAD else 4010
    await thesis.post(
        "/announce", {"iAm": {"id": sender, "ip": "127.0.0.1", "port": str(port)}, "myKnownPeers": []}
    )
    message = ModelParams(
        i_am=Peer(id=sender, ip="127.0.0.1", port=port),
        trainer_id="MNIST_3_7",
        round=0,
        federated_learning_params=HyperParams(e=2, u=1e-05, b=64),
        **fields,
    )
    body = bytes(BinaryCodec().encode(Packet(message, Params(arrays))))
    headers = {"Content-Type": BINARY_TYPE, "Content-Length": str(len(body))}
    answer = await thesis._client.post(PATH, data=body, headers=headers)
    return answer.status_code, json.loads(await answer.get_data())


@pytest.mark.parametrize("name", UNSOUND)
async def test_an_unsound_update_is_refused_and_the_round_goes_on_without_it(thesis: Thesis, name: str) -> None:
    status, told = await send(thesis, UNSOUND[name], BAD)
    assert (status, told["error"]) == (422, "params_refused")
    assert BAD not in thesis.job()["received"]
    assert (await send(thesis, SOUND, "good"))[0] == 200
    assert (await thesis.post(PATH, with_numbers(TRAINING)))[0] == 200
    await until(lambda: thesis.job()["phase"] == "IDLE")
    (record,) = thesis.node.history("MNIST_3_7")  # type: ignore[arg-type]
    assert record["contributors"] == ["NODE_1", "NODE_4", "good"]
    (claim,) = thesis.old.bodies("/training/model_params/accuracy")
    # the mean of the own 0.625, NODE_1's 0.25 and 0.5; the bias of 0.25, -0.5 and 0.5
    np.testing.assert_allclose(claim["modelParams"]["weights"], np.full((784, 1), 1.375 / 3), rtol=1e-6)
    assert claim["modelParams"]["bias"] == pytest.approx([0.25 / 3])
    assert any("refused" in item.kind for item in thesis.node.feed.recent())


@pytest.mark.parametrize("fields", [{"examples": -1}, {"examples": 10**13}, {"accuracy": 1.5}, {"labels": -2}])
async def test_figures_that_cannot_be_are_refused(thesis: Thesis, fields: dict[str, Any]) -> None:
    body = with_numbers(TRAINING, iAm={"id": BAD, "ip": None, "port": "4009"}, **fields)
    status, told = await thesis.post(PATH, body)
    assert (status, told["error"]) == (422, "invalid_message")
    assert BAD not in thesis.job()["received"]


async def test_a_claim_with_unsound_parameters_is_refused(thesis: Thesis) -> None:
    await thesis.post(PATH, with_numbers(TRAINING))
    await until(lambda: thesis.job()["phase"] == "IDLE")
    before = thesis.job()["digest"]
    body = with_numbers(ACCURACY, modelParams={"weights": [[1.0]] * 783, "bias": [0.0]}, accuracy=1.0)
    assert (await thesis.post("/training/model_params/accuracy", body))[0] == 422
    assert thesis.job()["digest"] == before
