"""A node of the thesis among whole nodes that average in segments: it is sent whole updates, and its own one counts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from flnet.params.params import Params
from flnet.protocol.messages import Accuracy, Announce, ModelParams, StartTraining
from flnet.protocol.segments import SegmentsMessage
from flnet.rounds.segmented_round import SegmentedRound
from flnet.wire.transport import Reply
from tests.node.mesh import MNIST_3_7, Linear, Mesh, mesh_of, until

JSON = "application/json"
HYPER = {"e": 2, "u": 1e-05, "b": 64}
OLD = {"id": "old", "ip": None, "port": "4100"}
TARGETS = (1.0, 2.0, 3.0)
EXAMPLES = (10, 20, 30)
NUMBERS = 9


def read(body: dict[str, Any]) -> Params:
    return Params({name: np.array(values, np.float32) for name, values in body["modelParams"].items()})


class ThesisNode:
    """Sends an update for each start that it hears, and keeps what it is sent; it knows the thesis' paths alone.

    Attributes:
        got: path, sender and body of each message.
        unknown: paths at which it was called, and which it does not know.
        sends_to: whom its updates reach.
        answers: status of each answer to one.
    """

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._transport = mesh.network.transport("127.0.0.1:4100")
        self.got: list[tuple[str, str, dict[str, Any]]] = []
        self.unknown: list[str] = []
        self.answers: list[int] = []
        self.sends_to: Sequence[str] = ("a", "b", "c")
        self.update = Params({"weights": np.full((NUMBERS, 1), 0.25, np.float32), "bias": -np.ones(1, np.float32)})

    async def receive(self, path: str, body: bytes, content_type: str, caller: str) -> Reply:
        if content_type != JSON or path not in (
            StartTraining.path,
            ModelParams.path,
            Accuracy.path,
            Announce.path,
        ):
            self.unknown.append(path)
            return Reply(404, b"")
        message = json.loads(body)
        self.got.append((path, message["iAm"]["id"], message))
        if path == Announce.path:
            return Reply(201, json.dumps({"announceYourselfToPeers": [], "iAm": OLD}).encode())
        if path == Accuracy.path:
            answer = {"iAm": OLD, "modelParams": message.get("modelParams"), "accuracy": 0.7}
            return Reply(200, json.dumps(answer).encode())
        if path == StartTraining.path:
            await self.send_update(message["round"])
        return Reply(200, b"")

    def body(self, number: int) -> dict[str, Any]:
        values = {name: array.tolist() for name, array in self.update.items()}
        return {
            "iAm": OLD,
            "trainerId": MNIST_3_7,
            "round": number,
            "federatedLearningParams": HYPER,
            "modelParams": values,
        }

    async def send_update(self, number: int) -> None:
        for name in self.sends_to:
            self.answers.append(await self.tell(name, ModelParams.path, self.body(number)))

    async def tell(self, name: str, path: str, body: dict[str, Any]) -> int:
        address = self._mesh.nodes[name].me.address
        return (await self._transport.send(address, path, json.dumps(body).encode(), JSON)).status

    def updates(self, number: int) -> dict[str, Params]:
        """What the nodes sent in a round, by sender."""
        sent = [
            (who, body) for path, who, body in self.got if path == ModelParams.path and body["round"] == number
        ]
        return {who: read(body) for who, body in sent}


@asynccontextmanager
async def mesh_with(topology: str, **settings: Any) -> AsyncIterator[tuple[Mesh, ThesisNode]]:
    nodes = [Linear(target, n, NUMBERS) for target, n in zip(TARGETS, EXAMPLES, strict=True)]
    async with mesh_of(*nodes, topology=topology, **settings) as mesh:
        old = ThesisNode(mesh)
        mesh.network.register("127.0.0.1:4100", old.receive)
        for name in mesh.nodes:
            assert await old.tell(name, Announce.path, {"iAm": OLD, "myKnownPeers": []}) == 201
        await until(lambda: all("old" in node.core.members.alive for node in mesh.nodes.values()))
        jobs = [node.core.jobs[MNIST_3_7] for node in mesh.nodes.values()]
        await until(lambda: topology == "mesh" or all("old" in job.peers.proven for job in jobs))
        yield mesh, old


START = Params({"weights": np.zeros((NUMBERS, 1), np.float32), "bias": np.zeros(1, np.float32)})


def half_way(base: Params, target: float) -> Params:
    return Params({name: value + (np.float32(target) - value) / np.float32(2) for name, value in base.items()})


def average(base: Params, old: Params | None) -> Params:
    """The mean by examples; who states none counts as the mean of the others."""
    updates = [half_way(base, target) for target in TARGETS] + ([old] if old else [])
    weights = [*EXAMPLES, sum(EXAMPLES) / len(EXAMPLES)][: len(updates)]
    made = {}
    for name, start in base.items():
        total = np.zeros(start.shape)
        for weight, update in zip(weights, updates, strict=True):
            total += weight * update[name].astype(np.float64)
        made[name] = (total / sum(weights)).astype(np.float32)
    return Params(made)


@pytest.mark.parametrize("wire", ["safetensors", "json"])
@pytest.mark.parametrize("topology", ["mesh", "segments", "segments:3"])
async def test_its_update_counts_and_it_gets_the_whole_updates_of_all(topology: str, wire: str) -> None:
    async with mesh_with(topology, wire=wire) as (mesh, old):
        base = START
        for number in range(2):
            await mesh.train()
            expected = average(base, old.update)
            assert mesh.digests() == {expected.digest}
            for node in mesh.nodes.values():
                record = (await node.records(MNIST_3_7, 2))[-1]
                assert set(record["contributors"]) == {"a", "b", "c", "old"}
            assert old.updates(number) == {
                name: half_way(base, target) for name, target in zip("abc", TARGETS, strict=True)
            }
            base = expected
        assert SegmentsMessage.path not in old.unknown and set(old.answers) == {200}


@pytest.mark.parametrize("wire", ["safetensors"])
@pytest.mark.parametrize("topology", ["segments", "random:2"])
async def test_a_round_that_it_starts_is_started_by_the_first_of_the_others(topology: str, wire: str) -> None:
    async with mesh_with(topology, wire=wire) as (mesh, old):
        for name in mesh.nodes:
            status = await old.tell(name, StartTraining.path, old.body(0))
            assert status in ((200,) if name == "a" else (200, 409))  # the start of "a" may have come before
        await mesh.idle(0)
        for node in mesh.nodes.values():
            (record,) = await node.records(MNIST_3_7, 1)
            assert record["initiator"] == "a"
        if topology == "segments":
            assert mesh.digests() == {average(START, old.update).digest}


@pytest.mark.parametrize("topology", ["segments"])
async def test_without_its_update_the_others_average(topology: str) -> None:
    async with mesh_with(topology, wait_time_in_seconds_to_force_fedavg=4) as (mesh, old):
        old.sends_to = ()
        await mesh.train()
        assert mesh.digests() == {average(START, None).digest}
        (record,) = await mesh.nodes["a"].records(MNIST_3_7, 1)
        assert set(record["contributors"]) == {"a", "b", "c"} and set(record["left_out"]) == {"old"}


@pytest.mark.parametrize("topology", ["segments", "segments:3"])
async def test_all_have_one_average_where_its_update_did_not_reach_all(topology: str) -> None:
    async with mesh_with(topology, wait_time_in_seconds_to_force_fedavg=10) as (mesh, old):
        old.sends_to = ("a", "c")
        await mesh.train()
        assert mesh.digests() == {average(START, None).digest}  # who lacks it could not vouch for it


@pytest.mark.parametrize("wire", ["json"])
async def test_a_node_of_ours_that_reads_json_only_owns_segments_as_any_other(wire: str) -> None:
    mesh = Mesh()
    try:
        for i, (target, examples) in enumerate(zip(TARGETS, EXAMPLES, strict=True)):
            form = wire if i == 1 else "safetensors"
            trainer = Linear(target, examples, NUMBERS)
            await mesh.add("abc"[i], trainer, ("a",) if i else (), topology="segments", wire=form)
        await mesh.full()
        await mesh.train()
        assert mesh.digests() == {average(START, None).digest}
        for node in mesh.nodes.values():
            round = node.core.jobs[MNIST_3_7].round
            assert isinstance(round, SegmentedRound) and round.choice is not None
            assert round.choice.members == ("a", "b", "c") and round.choice.whole is None
    finally:
        await mesh.stop()
