"""Meshes of whole nodes inside one process: real queue, performer, codec and jobs over the in-memory twins."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import orjson

from flnet.node.build import assemble, notices_of
from flnet.node.lan_discovery import Discovery
from flnet.node.own_trainers import PATH as OFFERED
from flnet.node.relay_client import RelayLink
from flnet.node.runtime import NodeRuntime
from flnet.params.params import Array, TrainerId
from flnet.protocol.events import TimerFired
from flnet.protocol.messages import HyperParams, ModelParams, Peer, Trigger
from flnet.rounds.steps import Phase
from flnet.settings import Settings
from flnet.store.base import Store
from flnet.store.memory import MemoryStore
from flnet.trainer import Fit, Score, Task, Trainer, TrainerFile
from flnet.wire.binary_codec import BINARY_TYPE
from flnet.wire.memory import MemoryNetwork, SignedReceiver
from flnet.wire.notice_channels import Channel
from flnet.wire.transport import FORMS_HEADER, Reply, forms_of
from tests.compute.inline_queue import InlineQueue
from tests.node.signed_receiver import signed_receiver, signing, trust_for

PARAMS = f"{ModelParams.path}/"
MNIST_3_7 = TrainerId("MNIST_3_7")
default_wire = "safetensors"  # of nodes for which a test states none; tests/node/conftest.py changes it


class Linear(Trainer):
    """Moves its weights towards a target of its own; more accurate the nearer the mean weight is to 1."""

    label = "MNIST 3 vs 7 Dataset"
    defaults = HyperParams(e=2, u=1e-05, b=64)

    def __init__(self, target: float, examples: int = 10, numbers: int = 2) -> None:
        self.target, self.examples, self.numbers = target, examples, numbers
        self.fails = False

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        return {"weights": np.zeros((self.numbers, 1), np.float32), "bias": np.zeros(1, np.float32)}

    def fit(self, task: Task) -> Fit:
        if self.fails:
            raise RuntimeError("asked to fail")
        task.progress(1, 1)
        moved = {n: v + (np.float32(self.target) - v) / np.float32(2) for n, v in task.params.items()}
        return Fit(moved, self.examples)

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        return Score(max(0.0, 1 - abs(float(params["weights"].mean()) - 1) / 4), 5)


class Mesh:
    """Nodes by name over one in-memory network."""

    def __init__(self, seed: int = 0) -> None:
        self.network = MemoryNetwork(random.Random(seed))
        self.nodes: dict[str, NodeRuntime] = {}

    async def add(
        self,
        name: str,
        trainer: Trainer | None,
        bootstrap: tuple[str, ...] = (),
        store: Store | None = None,
        key: str | None = None,
        files: Sequence[TrainerFile] = (),
        pool: InlineQueue | None = None,
        discovery: Discovery | None = None,
        relay_link: RelayLink | None = None,
        channel: Channel | None = None,
        **settings: Any,
    ) -> NodeRuntime:
        """Start a node; `bootstrap` names nodes that were added before. One of a known name takes its place.

        Args:
            pool: that makes its trainers itself.
            channel: on which its notices leave.
        """
        before = self.nodes.get(name)
        port = before.me.port if before else 4000 + len(self.nodes)
        me = Peer(id=name, ip="127.0.0.1", port=port)
        pairs = tuple(self.nodes[other].me.address for other in bootstrap)
        values: dict[str, object] = {"node_id": name, "node_port": port, "bootstrap_pairs": pairs}
        chosen = Settings.model_validate({"wire": default_wire, **values, **settings})
        store = store or MemoryStore()

        def tell(*told: Any) -> None:
            self.nodes[name].feed.publish(*told)

        trust = trust_for(port, chosen, store, tell)
        signs = signing(port, chosen.mesh_key, trust)
        node = assemble(
            chosen,
            me,
            [MNIST_3_7],
            pool=pool or InlineQueue({MNIST_3_7: trainer} if trainer else {}),
            transport=self.network.transport(me.address, signs.signer if signs else None),
            store=store,
            files={TrainerId(file.id): file for file in files},
            key=signs.verifier.me.key if signs else key,
            signer=signs.node if signs else None,
            trust=trust,
        )
        self.nodes[name], node.discovery, node.relay_link = node, discovery, relay_link
        node.notices = notices_of(chosen, node, [channel] if channel else [])
        if signs is None:
            self.network.register_signed(me.address, node_receiver(node, chosen.wire))
        else:
            node.signing = signs.verifier
            self.network.register_signed(me.address, signed_receiver(node))
        await node.start()
        return node

    async def full(self) -> None:
        """Wait until everybody knows everybody and all trainers are loaded."""
        await until(lambda: all(len(n.core.members.alive) == len(self.nodes) - 1 for n in self.nodes.values()))
        await until(lambda: all(n.ready()["data_loaded"] for n in self.nodes.values()))

    async def idle(self, round: int, seconds: float = 60.0) -> None:
        """Wait until every node has closed this round, saved it and said so; see `until` for the seconds."""

        def closed(node: NodeRuntime) -> bool:
            view = node.job(MNIST_3_7)
            return bool(view.phase == "IDLE" and view.current_round >= round and has_said_all(node))

        await until(lambda: all(closed(node) for node in self.nodes.values()), seconds)

    async def train(self, starter: str = "a", rounds: int = 1) -> None:
        """Let a node start so many rounds as soon as all are idle, and wait until every node has closed them."""
        nodes = self.nodes.values()
        await until(lambda: not any(job.busy for node in nodes for job in node.core.jobs.values()))
        last = max(node.job(MNIST_3_7).current_round for node in nodes) + rounds
        await trigger(self.nodes[starter], rounds)
        await self.idle(last)

    def digests(self) -> set[str | None]:
        """Of the models that the nodes hold."""
        return {node.job(MNIST_3_7).digest for node in self.nodes.values()}

    async def stop(self) -> None:
        """End all nodes."""
        for node in self.nodes.values():
            await node.stop()


def node_receiver(node: NodeRuntime, wire: str) -> SignedReceiver:
    """What the network calls at a node's address; it refuses what the web layer of a node of this form refuses."""

    async def receive(path: str, body: bytes, content_type: str, caller: str, headers: Mapping[str, str]) -> Reply:
        if wire == "json" and content_type == BINARY_TYPE:
            return Reply(415, b'{"error": "unsupported_media_type", "message": "this node takes JSON only"}')
        if path == "/info":
            return Reply(200, orjson.dumps(node.info()), "application/json")
        if path == OFFERED:
            return Reply(200, orjson.dumps({"trainers": list(await node.own_trainers.offered())}))
        if path.startswith(PARAMS) and not body:
            forms = forms_of(headers.get(FORMS_HEADER))
            return Reply(200, bytes(await node.held(path.removeprefix(PARAMS), (), forms)), BINARY_TYPE)
        return await node.receive(path, body, content_type, caller.rpartition(":")[0])

    return receive


async def trigger(node: NodeRuntime, rounds: int = 1) -> tuple[int, dict[str, object]]:
    """Ask a node for rounds, as a person does; status and body of its answer."""
    body = json.dumps({"trainerId": MNIST_3_7, "rounds": rounds}).encode()
    reply = await node.receive(Trigger.path, body, "application/json", "127.0.0.1")
    return reply.status, json.loads(reply.body)


@asynccontextmanager
async def mesh_of(*targets: float | Trainer, seed: int = 0, **settings: Any) -> AsyncIterator[Mesh]:
    """A full mesh of nodes a, b, c ... with these targets, or trainers."""
    mesh = Mesh(seed)
    try:
        for i, target in enumerate(targets):
            trainer = target if isinstance(target, Trainer) else Linear(target, examples=10 * (i + 1))
            await mesh.add("abcdefgh"[i], trainer, ("a",) if i else (), **settings)
        await mesh.full()
        yield mesh
    finally:
        await mesh.stop()


def has_said_all(node: NodeRuntime) -> bool:
    """Whether what follows from all events of a node is saved, and so with its peers and in its event log."""
    return node._performer._commits.is_empty


def has_measured(node: NodeRuntime, round: int) -> bool:
    """Whether a node has averaged this round and measured the average, so that it answers claims."""
    view = node.job(MNIST_3_7)
    return view.model_round == round and view.phase in (Phase.EXCHANGING, Phase.IDLE)


async def gives_up_waiting(node: NodeRuntime, *received: str) -> None:
    """Let the timer of a node that has these updates of its first round, and waits for more, run out now."""
    job = node.core.jobs[MNIST_3_7]

    def waits() -> bool:
        return job.phase is Phase.GATHERING and sorted(node.job(MNIST_3_7).received) == sorted(received)

    await until(lambda: waits() or bool(node.history(MNIST_3_7)))  # whom it waits for may be thought dead by now
    if waits():
        assert job.round is not None and job.round.gathering is not None
        node.deliver(MNIST_3_7, TimerFired(job.round.gathering.timer))


async def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Poll until it holds; a deadline far above what is needed turns a hang into a failure."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not holds():
        assert asyncio.get_running_loop().time() < deadline, "did not come about in time"
        await asyncio.sleep(0.005)
