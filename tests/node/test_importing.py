"""Data that come to a running node: they are proved by loading them, between rounds, or nothing has changed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.errors import DataMissing, JobBusy, UnknownTrainer
from flnet.jobs import Phase
from flnet.messages import Peer
from flnet.node import NodeRuntime, assemble
from flnet.params import Array, TrainerId
from flnet.settings import Settings
from flnet.store import MemoryStore
from flnet.training import DataInfo, Fit, Score, Task, Trainer, TrainerFile
from flnet.training.importing import Upload
from flnet.training.memory import InlinePool
from flnet.training.places import DataThere, ImportRefused
from flnet.transport import MemoryNetwork

from .test_runtime import trigger

ONE, TWO, BACK = TrainerId("MNIST_3_7"), TrainerId("TWO"), TrainerId("BACK")


class Reader(Trainer):
    """Reads numbers from a file; BACK has others to fall back to."""

    def __init__(self, path: Path, *, falls_back: bool) -> None:
        self.source = f"numbers in {path.parent}"
        if path.is_file():
            try:
                self.rows = [float(word) for word in path.read_text().split()]
            except ValueError as exc:
                raise DataMissing(f"{path} holds no numbers", "expected numbers with spaces between") from exc
        elif falls_back:
            self.source, self.rows = "made-up numbers", [0.0]
        else:
            raise DataMissing(f"{path} is not there", "bring it")

    def initial_params(self, seed: int) -> Mapping[str, Array]:
        return {"w": np.zeros(2, np.float32)}

    def fit(self, task: Task) -> Fit:
        return Fit({"w": task.params["w"] + np.float32(len(self.rows))}, len(self.rows))

    def evaluate(self, params: Mapping[str, Array]) -> Score:
        return Score(0.5, 1)

    def data_info(self) -> DataInfo:
        return DataInfo(self.source, {"train": len(self.rows)}, note="bring numbers.txt", checksum=str(self.rows))


class Readers(Mapping[str, Trainer]):
    """Makes a trainer each time, as the worker does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getitem__(self, name: str) -> Trainer:
        return Reader(self.folder / "numbers/numbers.txt", falls_back=name == BACK)

    def __iter__(self) -> Iterator[str]:
        return iter((ONE, TWO, BACK))

    def __len__(self) -> int:
        return 3


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[NodeRuntime]:
    folder = tmp_path / "data"
    me = Peer(id="a", ip="127.0.0.1", port=4000)
    files = [TrainerFile(name, "", place="numbers") for name in (ONE, TWO, BACK)]
    running = assemble(
        Settings(datasets_path=folder),
        me,
        [ONE, TWO, BACK],
        pool=InlinePool(Readers(folder)),
        transport=MemoryNetwork(random.Random(0)).transport(me.address),
        store=MemoryStore(),
        files=files,
    )
    await running.start()
    await _until(running, lambda: running.core.jobs[ONE].phase is Phase.NO_DATA)
    await _until(running, lambda: running.core.jobs[BACK].phase is Phase.IDLE)
    yield running
    await running.stop()


async def _until(node: NodeRuntime, condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


def upload(node: NodeRuntime, text: str, trainer: TrainerId = ONE, *, replace: bool = False) -> Upload:
    came = node.imports.begin(trainer, replace=replace)
    came.begin("numbers.txt")
    came.write(text.encode())
    return came


async def test_a_job_without_data_trains_once_they_have_come(node: NodeRuntime, tmp_path: Path) -> None:
    told = await node.imports.take(upload(node, "1 2 3"))
    place = tmp_path / "data/numbers"
    assert (told["place"], told["files"], told["bytes"], told["aside"]) == (str(place), 1, 5, None)
    assert (told["rows"], told["checksum"]) == ({"train": 3}, "[1.0, 2.0, 3.0]")
    await _until(node, lambda: node.job(ONE)["phase"] == "IDLE")
    assert node.job(ONE)["data"]["source"] == f"numbers in {place}"
    assert "works on other data now" in [item.text for item in node.feed.recent() if item.trainer == ONE][-1]
    await trigger(node)
    await _until(node, lambda: node.history(ONE) and node.job(ONE)["phase"] == "IDLE")
    assert node.job(ONE)["post_fedavg_accuracy"] == 0.5


async def test_all_trainers_of_the_place_hear_of_it(node: NodeRuntime) -> None:
    await node.imports.take(upload(node, "1 2"))
    await _until(node, lambda: node.job(TWO)["phase"] == "IDLE")
    await _until(node, lambda: node.job(BACK)["data"]["rows"] == {"train": 2})


async def test_data_that_are_not_what_it_reads_are_taken_out_again(node: NodeRuntime, tmp_path: Path) -> None:
    with pytest.raises(ImportRefused, match=r"nothing was changed: .*holds no numbers; expected numbers"):
        await node.imports.take(upload(node, "one two"))
    assert list((tmp_path / "data").iterdir()) == []
    assert node.job(ONE)["phase"] == "NO_DATA"
    await node.imports.take(upload(node, "1 2"))
    with pytest.raises(DataThere):
        upload(node, "3")
    with pytest.raises(ImportRefused, match="holds no numbers"):
        await node.imports.take(upload(node, "x", replace=True))
    assert (tmp_path / "data/numbers/numbers.txt").read_text() == "1 2"
    told = await node.imports.take(upload(node, "3", replace=True))
    assert told["aside"] == str(tmp_path / "data/numbers.before-1")


async def test_a_trainer_that_falls_back_to_others_does_not_read_what_came(node: NodeRuntime) -> None:
    came = node.imports.begin(BACK)
    came.begin("else.txt")
    came.write(b"1")
    with pytest.raises(ImportRefused, match=r"goes on with made-up numbers; bring numbers\.txt"):
        await node.imports.take(came)


async def test_an_import_waits_for_the_end_of_the_round_and_no_series_is_cut(node: NodeRuntime) -> None:
    await node.imports.take(upload(node, "1 2"))
    await _until(node, lambda: node.job(ONE)["phase"] == "IDLE")
    job = node.core.jobs[ONE]
    job.state.phase = Phase.GATHERING  # a round is open
    taking = asyncio.create_task(node.imports.take(upload(node, "5", replace=True)))
    await asyncio.sleep(0)
    node.feed.publish("update_received", "something else", ONE)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not taking.done()
    job.state.phase = Phase.IDLE
    node.feed.publish("round_closed", "over", ONE)
    assert (await taking)["rows"] == {"train": 1}
    job.state.rounds_left = 3
    with pytest.raises(JobBusy, match="stop the series"):
        node.imports.begin(ONE, replace=True)
    job.state.rounds_left = 0
    with pytest.raises(UnknownTrainer):
        node.imports.begin(TrainerId("NONE"))


async def test_a_caller_that_goes_does_not_leave_it_half_done(node: NodeRuntime, tmp_path: Path) -> None:
    taking = asyncio.create_task(node.imports.take(upload(node, "1 2")))
    await asyncio.sleep(0)
    taking.cancel()
    await _until(node, lambda: node.job(ONE)["phase"] == "IDLE")
    await _until(node, lambda: [path.name for path in (tmp_path / "data").iterdir()] == ["numbers"])
