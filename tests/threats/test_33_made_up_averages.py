"""Threat 33: members state averages of rounds that never took place, to hand a model of theirs to the others."""

from __future__ import annotations

import pytest

from flnet.errors import NotComparable
from flnet.protocol.messages import Accuracy, HyperParams, Packet
from flnet.rounds.steps import Phase
from flnet.wire.binary_codec import BINARY_TYPE, BinaryCodec
from tests.helpers import params
from tests.node.mesh import MNIST_3_7, Mesh, mesh_of, trigger, until
from tests.threats.serving import HERE, Serving

THEIRS = params(weights=[[9.0], [9.0]], bias=[9.0])


class Liars(Serving):
    """Members at addresses of their own that state one average, and serve it."""

    async def state(self, number: int) -> None:
        """Each of them states its average of a round to each node, which has none to compare."""
        for peer in self.peers:
            message = Accuracy(
                i_am=peer,
                trainer_id=MNIST_3_7,
                round=number,
                initiator=peer.id,
                federated_learning_params=HyperParams(e=1, u=0.1, b=8),
                accuracy=1.0,
                digest=THEIRS.digest,
                contributors=250,
            )
            body = bytes(BinaryCodec().encode(Packet(message)))
            for node in self.mesh.nodes.values():
                with pytest.raises(NotComparable):
                    await node.receive(Accuracy.path, body, BINARY_TYPE, HERE)


def held(mesh: Mesh) -> set[str | None]:
    return {node.core.jobs[MNIST_3_7].held.digest for node in mesh.nodes.values()}


def is_over(mesh: Mesh, number: int) -> bool:
    jobs = [node.core.jobs[MNIST_3_7] for node in mesh.nodes.values()]
    return all(job.phase is Phase.IDLE and job.number == number for job in jobs)


@pytest.mark.parametrize("names", ["w", "wx", "vwxyz"], ids=["one", "two", "more than all others"])
async def test_names_that_never_sent_an_update_hand_a_model_to_nobody(names: str) -> None:
    async with mesh_of(1.0, 2.0, 3.0, wait_time_in_seconds_to_force_fedavg=1) as mesh:
        await trigger(mesh.nodes["a"])
        await until(lambda: is_over(mesh, 0))
        before = held(mesh)
        liars = Liars(mesh, names, THEIRS)
        await liars.announce()
        await liars.state(1)
        await liars.state(900)
        assert (held(mesh), is_over(mesh, 0), dict(liars.asked)) == (before, True, {})


async def test_one_name_hands_no_model_to_a_node_that_has_averaged_nothing_yet() -> None:
    async with mesh_of(1.0) as mesh:
        before = held(mesh)
        liars = Liars(mesh, "x", THEIRS)
        await liars.announce()
        await liars.state(3)
        assert (held(mesh), is_over(mesh, -1), dict(liars.asked)) == (before, True, {})
