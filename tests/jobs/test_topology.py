"""The own update goes where the topology says, whole or in parts."""

from __future__ import annotations

import random
from collections.abc import Collection

from flnet.effects import Effect, Send
from flnet.events import PeerSeen, Prepared, RoundTriggered, Trained
from flnet.jobs import Job
from flnet.messages import ModelParams
from flnet.params import Params, PeerId, Rng, TrainerId
from flnet.topologies import Topology, full_mesh
from tests.helpers import key, params, peer
from tests.jobs.helpers import declaration


def in_halves(
    me: PeerId, members: Collection[PeerId], round: int, rng: Rng
) -> list[tuple[PeerId, tuple[str, ...] | None]]:
    """The first peer gets everything, the others only "b"."""
    first, *others = sorted(members)
    assert 0 <= rng.random() < 1
    return [(first, None), *((other, ("b",)) for other in others)]


def updates_sent(topology: Topology) -> list[tuple[tuple[str, ...], Params | None]]:
    job = Job(peer("me"), TrainerId("T"), topology=topology, rng=random.Random(0))
    start = params(w=[0.0], b=[0.0])
    job.receive(Prepared(declaration(shared=("w", "b")), start))
    for name in ("x", "y", "z"):
        job.receive(PeerSeen(PeerId(name)))
    job.receive(RoundTriggered())
    learnt = params(w=[1.0], b=[2.0])
    effects: list[Effect] = job.receive(Trained(key(0, "me"), learnt, 5, 0.5))
    return [(e.to, e.params) for e in effects if isinstance(e, Send) and isinstance(e.message, ModelParams)]


def test_in_a_full_mesh_everyone_gets_everything() -> None:
    assert updates_sent(full_mesh) == [(("x", "y", "z"), params(w=[1.0], b=[2.0]))]


def test_a_topology_may_send_parts_to_some() -> None:
    assert updates_sent(in_halves) == [(("x",), params(w=[1.0], b=[2.0])), (("y", "z"), params(b=[2.0]))]
