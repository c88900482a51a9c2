"""A compute queue serves other trainers while an epoch of a vertical job waits for its holders, or aligns long lists."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.compute.assignment import Assignment
from flnet.compute.in_process import InProcessBackend
from flnet.compute.queue import BackendQueue, make_queue
from flnet.compute.verbs import FitRequest, OpenEpochRequest, PrepareRequest, TurnRequest
from flnet.compute.vertical import Opened, VerticalTurn
from flnet.errors import TrainerError
from flnet.params.params import Params, TrainerId
from flnet.protocol.messages import HyperParams
from flnet.protocol.vertical import BeginPart, PositionPart
from flnet.rounds.vertical_round import UNTOLD
from flnet.settings import Settings
from flnet.trainer import Trainer, TrainerFile, TrainerSettings
from tests.algorithms.vertical.holders import People
from tests.node.mesh import Linear

HYPER = HyperParams(e=1, u=0.05, b=16)
OTHER = TrainerId("OTHER")
SECONDS = 60.0  # turns a hang into a failure
Turns = dict[str, list[VerticalTurn]]


def queue_of(**trainers: Trainer) -> BackendQueue:
    def assigned(trainer: str) -> Assignment:
        return Assignment(TrainerFile(trainer, ""), TrainerSettings(None, Path()))

    backend = InProcessBackend(lambda given: trainers[given.file.id])
    return BackendQueue(backend, assigned, lambda trainer, done, total: None, 600.0)


class Holders:
    """Two holders with a queue each; a's queue serves another trainer, too."""

    def __init__(self, people: People) -> None:
        hosts = people.hosts()
        self.queues = {"a": queue_of(a=hosts["a"], OTHER=Linear(1.0)), "b": queue_of(b=hosts["b"])}
        self.waiting: dict[str, list[Any]] = {"a": [], "b": []}
        self.turns: Turns = {"a": [], "b": []}

    async def ask(self, node: str, request: Any) -> VerticalTurn:
        turn: VerticalTurn = await self.queues[node].call(TrainerId(node), request)
        self.turns[node].append(turn)
        for one in turn.sent:
            self.waiting[one["to"]].append({"sender": node, "part": one["part"], "arrays": one["arrays"]})
        return turn

    async def open(self) -> None:
        holders = {}
        for node, queue in self.queues.items():
            fields = dict((await queue.call(TrainerId(node), PrepareRequest())).declaration.offers["vertical"])
            for name in UNTOLD:
                fields.pop(name)
            holders[node] = PositionPart(**fields, number=-1)
        begin = BeginPart(holders=holders, closed=-1, aligns=True, seed=1).as_dict()
        for node in self.queues:
            await self.ask(node, OpenEpochRequest(Opened(node, "s", begin, HYPER)))

    def ready(self, node: str) -> bool:
        return bool(self.waiting[node] or (self.turns[node] and self.turns[node][-1].more))

    async def go_on(self, node: str) -> VerticalTurn:
        received, self.waiting[node] = self.waiting[node], []
        return await self.ask(node, TurnRequest("s", received))

    async def train_other(self) -> None:
        start = Params({"weights": np.zeros((2, 1), np.float32), "bias": np.zeros(1, np.float32)})
        fit, _ = await self.queues["a"].call(OTHER, FitRequest(start, HYPER, seed=1))
        assert fit.params["bias"] == np.float32(0.5)

    async def close(self) -> None:
        for queue in self.queues.values():
            await queue.close()


async def test_other_jobs_are_served_whenever_an_epoch_waits_and_it_ends_nevertheless() -> None:
    holders = Holders(People())
    async with asyncio.timeout(SECONDS):
        await holders.open()
        served = 0
        while any(map(holders.ready, "ab")):
            await holders.train_other()  # a's epoch is open all the time
            served += 1
            for node in "ab":
                if holders.ready(node):
                    await holders.go_on(node)
        await holders.close()
    assert served > 5
    assert {holders.turns[node][-1].stage for node in "ab"} == {"closed"}


async def test_a_long_alignment_is_done_in_turns_between_which_others_are_served() -> None:
    holders = Holders(People(common=6000))
    stages: list[str] = []
    async with asyncio.timeout(SECONDS):
        await holders.open()
        while holders.turns["a"][-1].stage == "aligning":
            for node in "ab":
                if not holders.ready(node):
                    continue
                turn = asyncio.create_task(holders.go_on(node))
                await asyncio.sleep(0)
                if node == "a":  # asked for while a's turn is under way or waits: served before its next turn
                    await holders.train_other()
                    stages.append(holders.turns["a"][-1].stage)
                await turn
        await holders.close()
    assert stages.count("aligning") > 2
    assert any(turn.more for turn in holders.turns["a"])


@pytest.mark.parametrize("compute", ["thread", "shared"])
async def test_no_ciphertexts_are_read_in_the_process_of_the_node_or_of_others(
    tmp_path: Path, compute: str, shared_server: Path | None
) -> None:
    (tmp_path / "KEY.toml").write_text('kind = "vertical"\nmethod = "encrypted-regression"\n')
    given = {"trainers_path": tmp_path, "trainers": ("KEY",), "state_path": tmp_path / "state"}
    settings = Settings.model_validate({**given, "compute": compute, "fork_server": shared_server})
    queue = make_queue(settings)
    try:
        with pytest.raises(TrainerError, match="KEY reads ciphertexts of other nodes"):
            await queue.call(TrainerId("KEY"), PrepareRequest())
    finally:
        await queue.close()
