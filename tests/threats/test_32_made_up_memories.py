"""Threat 32: members state what an aggregation rule should remember, and serve what would ruin the model."""

from __future__ import annotations

import numpy as np
import pytest

from flnet.params.params import Params
from flnet.protocol.messages import HyperParams, ModelParams, Packet
from flnet.rounds.steps import Phase
from flnet.wire.binary_codec import BINARY_TYPE, BinaryCodec
from tests.helpers import params
from tests.node.mesh import MNIST_3_7, Mesh, mesh_of, trigger, until
from tests.threats.serving import HERE, Serving

RULE = "fedavgm:1:0.9"
STATED = {"merging rule": RULE}
TAG = np.frombuffer(b"no memory of any rule", np.uint8)
RUINOUS = Params({"first moment": np.full(3, 1e30, np.float32), "second moment": np.zeros(0), "rule": TAG})
HUGE = Params({"first moment": np.zeros(10**6, np.float32)})


class Liars(Serving):
    """Members at addresses of their own that send sound updates, state one memory, and serve it."""

    async def take_part(self, number: int) -> None:
        """A round that node a starts: each liar sends an update that states the memory."""
        nodes = list(self.mesh.nodes.values())
        await trigger(self.mesh.nodes["a"])
        await until(lambda: all(node.core.jobs[MNIST_3_7].number == number for node in nodes))
        for peer in self.peers:
            learnt = params(weights=[[0.1], [0.1]], bias=[0.1])
            message = ModelParams(
                i_am=peer,
                trainer_id=MNIST_3_7,
                round=number,
                initiator="a",
                federated_learning_params=HyperParams(e=1, u=0.1, b=8),
                agreement=STATED,
                examples=10,
                digest=learnt.digest,
                memory=self.params.digest,
            )
            body = bytes(BinaryCodec().encode(Packet(message, learnt)))
            for node in nodes:
                assert (await node.receive(ModelParams.path, body, BINARY_TYPE, HERE)).status == 200
        await until(lambda: all(is_averaged(self.mesh, name, number) for name in self.mesh.nodes))


def is_averaged(mesh: Mesh, name: str, number: int) -> bool:
    job = mesh.nodes[name].core.jobs[MNIST_3_7]
    model = job.held.model
    return model is not None and model.round == number and job.phase in (Phase.EXCHANGING, Phase.IDLE)


def weights(mesh: Mesh, name: str) -> list[float]:
    return [
        float(number) for number in mesh.nodes[name].core.jobs[MNIST_3_7].held.current.shared["weights"].ravel()
    ]


async def test_what_one_member_makes_up_is_not_even_asked_for() -> None:
    """Not in the first round either, in which it alone states a memory."""
    async with mesh_of(1.0, 2.0, aggregation=RULE, wait_time_in_seconds_to_force_fedavg=1) as mesh:
        liar = Liars(mesh, "m", RUINOUS)
        await liar.announce()
        for number in range(2):
            await liar.take_part(number)
        assert not liar.asked
        assert max(map(abs, weights(mesh, "b"))) < 10


@pytest.mark.parametrize("memory", [RUINOUS, HUGE], ids=["of another rule", "far too large"])
async def test_what_is_no_memory_of_the_rule_is_refused_where_most_members_state_it(memory: Params) -> None:
    async with mesh_of(1.0, aggregation=RULE, wait_time_in_seconds_to_force_fedavg=1) as mesh:
        liars = Liars(mesh, "mn", memory)
        await liars.announce()
        await liars.take_part(0)
        assert liars.asked
        news = mesh.nodes["a"].feed.recent()
        assert any(one.kind == "memory_missing" for one in news)
        assert max(map(abs, weights(mesh, "a"))) < 10
