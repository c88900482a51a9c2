"""The example bodies of García Pérez (2021), section 3.3, read and answered as written by nodes of any form."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Mapping
from typing import Any

import numpy as np
import pytest

from flnet.node.build import assemble
from flnet.node.interface import View
from flnet.node.runtime import NodeRuntime
from flnet.params.params import Array, TrainerId
from flnet.protocol.messages import Peer
from flnet.settings import Settings
from flnet.store.memory import MemoryStore
from flnet.web.app import create_app
from flnet.wire.memory import MemoryNetwork
from flnet.wire.transport import Reply
from tests.compute.inline_queue import InlineQueue
from tests.node.mesh import Linear, until
from tests.wire import bodies

ANNOUNCE, ANNOUNCE_ANSWER, TRAINING, ACCURACY, ACCURACY_ANSWER = (
    json.loads(body)
    for body in (bodies.ANNOUNCE, bodies.ANNOUNCE_REPLY, bodies.UPDATE, bodies.ACCURACY, bodies.ACCURACY_REPLY)
)
INFO: dict[str, Any] = {
    "iAm": {"id": "NODE_4", "ip": None, "port": "4003"},
    "jobsInfo": [
        {
            "current_round": 0,
            "fed_learn_done": "Yes",
            "federated_learning_params": "Learning Rate: 1e-05, Epochs: 2, Batch size: 64",
            "model_was_exchanged": "No",
            "post_fedavg_accuracy": 0.4545,
            "pre_fedavg_accuracy": 0.4545,
            "trainer_label": "MNIST Dataset",
        }
    ],
    "lastNodeStatus": "IDLE",
}
NUMBERS = {"weights": [[0.25]] * 784, "bias": [-0.5]}


class MnistNet(Linear):
    """Stands where MNIST's network stands: its parameters have other names than the examples'."""

    label = "MNIST Dataset"

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        return {"conv1.weight": np.zeros((2, 2), np.float32)}


class OldNode:
    """NODE_1, which speaks the thesis' form and nothing else; keeps what it was sent."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, Any]]] = []
        self.held: dict[str, Any] = NUMBERS  # the model that it compares

    async def receive(self, path: str, body: bytes, content_type: str, caller: str) -> Reply:
        self.got.append((path, json.loads(body)))
        if path == "/announce":
            answer: dict[str, Any] = {
                "announceYourselfToPeers": [],
                "iAm": {"id": "NODE_1", "ip": None, "port": "4000"},
            }
            return Reply(201, json.dumps(answer).encode())
        if path.endswith("/accuracy"):
            answer = {"iAm": TRAINING["iAm"], "modelParams": self.held, "accuracy": 0.7}
            return Reply(200, json.dumps(answer).encode())
        return Reply(200, b"")

    def bodies(self, path: str) -> list[dict[str, Any]]:
        return [body for got, body in self.got if got == path]


class Thesis:
    """NODE_4 on port 4003 with both trainers, its web layer, and NODE_1 in the same network."""

    def __init__(self, wire: str, numbers: int = 784) -> None:
        self.wire = wire
        self.network = network = MemoryNetwork(random.Random(0))
        trainers = {"MNIST": MnistNet(1.0), "MNIST_3_7": Linear(1.0, numbers=numbers)}
        settings = Settings.model_validate({"node_id": "NODE_4", "node_port": 4003, "wire": wire})
        self.node: NodeRuntime = assemble(
            settings,
            Peer(id="NODE_4", ip=None, port=4003),
            [TrainerId(name) for name in trainers],
            pool=InlineQueue(trainers),
            transport=network.transport("127.0.0.1:4003"),
            store=MemoryStore(),
        )
        self.old = OldNode()
        network.register("127.0.0.1:4000", self.old.receive)
        self._client = create_app(self.node, settings).test_client()

    async def post(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        scope = {"client": ("127.0.0.1", 50_000)}
        response = await self._client.post(path, json=body, scope_base=scope)
        return response.status_code, json.loads(await response.get_data())

    async def info(self) -> dict[str, Any]:
        response = await self._client.get("/info")
        answer: dict[str, Any] = await response.get_json()
        return answer

    def job(self) -> View:
        return self.node.job(TrainerId("MNIST_3_7")).as_json()

    async def meet_old_node(self) -> None:
        await self.post("/announce", {"iAm": {"id": "NODE_1", "ip": None, "port": "4000"}, "myKnownPeers": []})


@pytest.fixture(params=["safetensors", "int8", "json"])
async def thesis(request: pytest.FixtureRequest) -> AsyncIterator[Thesis]:
    made = Thesis(request.param)
    await made.node.start()
    await until(lambda: bool(made.node.ready()["data_loaded"]))
    yield made
    await made.node.stop()


def with_numbers(body: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The example for the linear model, numbers in place of its empty lists."""
    return {**body, "trainerId": "MNIST_3_7", "modelParams": NUMBERS, **changes}


async def test_an_announcement_is_answered_with_the_peers_that_the_caller_lacks(thesis: Thesis) -> None:
    await thesis.post("/announce", {"iAm": {"id": "NODE_2", "ip": None, "port": 4001}, "myKnownPeers": []})
    status, answer = await thesis.post("/announce", ANNOUNCE)
    assert status == 201
    assert json.dumps(answer) == json.dumps(ANNOUNCE_ANSWER)  # the order of the fields too


async def test_who_says_nothing_of_forms_is_told_nothing_of_them(thesis: Thesis) -> None:
    _, answer = await thesis.post("/announce", {"iAm": {"id": "NODE_3", "ip": None, "port": 4002}})  # a number
    assert answer == {"announceYourselfToPeers": [], "iAm": {"id": "NODE_4", "ip": None, "port": "4003"}}
    _, answer = await thesis.post("/announce", {**ANNOUNCE, "accepts": ["safetensors"]})
    assert answer.get("accepts") == (
        None if thesis.wire == "json" else ["safetensors", "float16", "int8", "int8-blocks"]
    )
    _, answer = await thesis.post("/announce", ANNOUNCE)  # it came back as a node of the thesis
    assert "accepts" not in answer


async def test_an_example_sent_literally_is_read_and_found_not_to_be_this_jobs(thesis: Thesis) -> None:
    before = await thesis.info()
    for path, body in (
        ("/training", TRAINING),
        ("/training/model_params", TRAINING),
        ("/training/model_params/accuracy", ACCURACY),
    ):
        status, answer = await thesis.post(path, body)
        assert (status, answer["error"]) == (422, "params_refused")
        assert "expected 'conv1.weight'" in answer["message"]
        status, answer = await thesis.post(path, {**body, "trainerId": "NO_SUCH"})
        assert (status, answer["error"]) == (404, "unknown_trainer")
    assert await thesis.info() == before


async def test_a_round_with_a_node_of_the_thesis(thesis: Thesis) -> None:
    await thesis.meet_old_node()
    assert (await thesis.post("/training", with_numbers(TRAINING)))[0] == 200
    await until(lambda: thesis.job()["phase"] == "GATHERING")
    assert thesis.job()["waiting_for"] == ["NODE_1"]
    assert (await thesis.post("/training/model_params/accuracy", with_numbers(ACCURACY)))[0] == 400  # not averaged

    await until(lambda: bool(thesis.old.bodies("/training/model_params")))  # which is sent when it is saved
    (sent,) = thesis.old.bodies("/training/model_params")
    assert sent.keys() >= TRAINING.keys()
    assert sent["iAm"] == {"id": "NODE_4", "ip": None, "port": "4003"}
    assert sent["federatedLearningParams"] == {"e": 2, "u": 1e-05, "b": 64}
    # NODE_4 starts from NODE_1's numbers and goes half way from 0.25 and -0.5 to 1
    assert sent["modelParams"] == {"weights": [[0.625]] * 784, "bias": [0.25]}

    assert (await thesis.post("/training/model_params", with_numbers(TRAINING)))[0] == 200
    await until(lambda: thesis.job()["phase"] == "IDLE")
    (claim,) = thesis.old.bodies("/training/model_params/accuracy")
    assert claim.keys() >= ACCURACY.keys()
    # a node of the thesis states no examples, so it counts as much as the others: (0.625 + 0.25) / 2
    assert claim["modelParams"] == {"weights": [[0.4375]] * 784, "bias": [-0.125]}

    status, answer = await thesis.post("/training/model_params/accuracy", with_numbers(ACCURACY))
    assert status == 200
    assert answer.keys() >= ACCURACY_ANSWER.keys()
    assert answer["modelParams"] == claim["modelParams"]
    assert answer["accuracy"] == claim["accuracy"]
    other_round = with_numbers(ACCURACY, round=7)
    assert (await thesis.post("/training/model_params/accuracy", other_round))[0] == 400
    assert (await thesis.post("/training/model_params", with_numbers(TRAINING)))[0] == 200  # a duplicate
    late = with_numbers(TRAINING, iAm={"id": "NODE_2", "ip": None, "port": "4001"})
    assert (await thesis.post("/training/model_params", late))[0] == 403  # it did not announce itself
    await thesis.post("/announce", {"iAm": late["iAm"], "myKnownPeers": []})
    assert (await thesis.post("/training/model_params", late))[0] == 409


async def test_info_has_the_thesis_form(thesis: Thesis) -> None:
    await thesis.meet_old_node()
    await thesis.post("/training", with_numbers(TRAINING))
    await until(lambda: thesis.job()["phase"] == "GATHERING")
    assert (await thesis.info())["lastNodeStatus"] == "BUSY"
    await thesis.post("/training/model_params", with_numbers(TRAINING))
    await until(lambda: thesis.job()["phase"] == "IDLE")
    info = await thesis.info()
    assert info["iAm"] == INFO["iAm"]
    assert info["lastNodeStatus"] == INFO["lastNodeStatus"]
    job = next(job for job in info["jobsInfo"] if job["trainer_id"] == "MNIST_3_7")
    example = INFO["jobsInfo"][0]
    assert {name: type(job[name]) for name in example} == {name: type(value) for name, value in example.items()}
    same = ("current_round", "fed_learn_done", "federated_learning_params", "model_was_exchanged")
    assert {name: job[name] for name in same} == {name: example[name] for name in same}
    assert info["jobsInfo"][0]["trainer_label"] == example["trainer_label"]
